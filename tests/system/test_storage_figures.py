# SPDX-License-Identifier: Apache-2.0
"""Boards' storage figures are those of their own drivers, on models of their chips."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from poetfw.boards import load_board

pytestmark = [pytest.mark.emulator, pytest.mark.slow]

STORAGE = Path(__file__).parents[2] / "benchmarks/storage.py"


@pytest.mark.parametrize("name", ["nrf52840", "nrf52840:qspi", "mkr1000", "stm32f405"])
def test_a_board_file_has_what_its_driver_reaches(name: str) -> None:
    command = [sys.executable, STORAGE, "--board", name, "--json"]
    result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=1200)
    storage = load_board(name).storage
    assert storage is not None
    for kind, found in json.loads(result.stdout)[name].items():
        believed = asdict(getattr(storage, kind))
        unknown = storage.erase_bytes is not None and kind == "page_out"
        assert (found["beside"] is None) == (unknown or believed["beside"] is None)
        if unknown:
            del believed["beside"], found["beside"]
        for one, other in ((believed, found), (believed.get("beside"), found.get("beside"))):
            for figure in one or {}:
                if figure != "beside" and not figure.startswith("energy_"):
                    assert one[figure] == pytest.approx(other[figure], rel=0.03, abs=1e-6)
