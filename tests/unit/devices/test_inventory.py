# SPDX-License-Identifier: Apache-2.0
"""What `poetfw doctor` looks for."""

from __future__ import annotations

import importlib.metadata

import pytest

from poetfw.devices.inventory import take_inventory


def test_the_chips_models_are_listed() -> None:
    found = {finding.name: finding for finding in take_inventory()}["unicorn"]
    assert found.found == importlib.metadata.version("unicorn")
    assert found.fix is None


def test_a_package_that_is_missing_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    fixes = {finding.name: finding.fix for finding in take_inventory() if finding.found is None}
    assert fixes["unicorn"] == "pip install 'poetfw[unicorn]'"
    assert fixes["onnx"] == "pip install onnx"
