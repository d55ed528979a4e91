# SPDX-License-Identifier: Apache-2.0
"""The line that a build and the demo end with runs what they built."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from poetfw.cli.main import cli
from unit.report.html_projects import ran, report_of, tight

DEFAULT, OTHER = Path("build/nrf52840"), Path("build/mine")
BOARD = ("--board", "nrf52840")


@pytest.mark.parametrize(
    ("folder", "typed", "run"),
    [
        (DEFAULT, ("build", *BOARD), "poetfw run --board nrf52840"),
        (OTHER, ("build", *BOARD), "poetfw run --board nrf52840 --out build/mine"),
        (DEFAULT, ("demo",), "poetfw run --board nrf52840"),
        (OTHER, ("demo",), "poetfw run --board nrf52840 --out build/mine"),
    ],
)
def test_a_build_says_how_it_is_run(
    folder: Path, typed: Sequence[str], run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    finished = SimpleNamespace(figures=ran(tight()))
    firmware = SimpleNamespace(
        folder=folder,
        figures=replace(report_of(tight()), elf="firmware.elf"),
        train=lambda *_: finished,
    )
    plan: Any = SimpleNamespace(
        build=tight(),
        compile=lambda *_, **__: firmware,
        default_folder=DEFAULT,
        warnings=(),
    )
    monkeypatch.setattr("poetfw.api.plans.plan_settings", lambda *_, **__: plan)
    shown = CliRunner().invoke(cli, typed, catch_exceptions=False)
    assert shown.exit_code == 0
    assert f"Run it:  {run}\n" in shown.stdout
