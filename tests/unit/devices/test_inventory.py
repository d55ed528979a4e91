# SPDX-License-Identifier: Apache-2.0
"""What `poetfw doctor` looks for."""

from __future__ import annotations

import importlib.metadata
import re
import shutil

import pytest

from poetfw.devices.inventory import take_inventory
from sshd import needs_ssh


def test_the_chips_models_are_listed() -> None:
    found = {finding.name: finding for finding in take_inventory()}["unicorn"]
    assert found.found == importlib.metadata.version("unicorn")
    assert found.fix is None


@needs_ssh
def test_the_ssh_client_is_listed() -> None:
    found = {finding.name: finding for finding in take_inventory()}["ssh"]
    assert found.found is not None
    assert re.fullmatch(r"\d+\.\d+", found.found)


def test_a_missing_ssh_client_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    found = {finding.name: finding for finding in take_inventory()}["ssh"]
    assert (found.found, found.fix) == (None, "sudo apt-get install openssh-client")


def test_a_package_that_is_missing_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    fixes = {finding.name: finding.fix for finding in take_inventory() if finding.found is None}
    assert fixes["unicorn"] == "pip install 'poetfw[unicorn]'"
    assert fixes["onnx"] == "pip install onnx"
