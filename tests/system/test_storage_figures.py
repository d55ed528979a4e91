# SPDX-License-Identifier: Apache-2.0
"""Boards' storage figures are those of their own drivers, on models of their chips."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from poetfw.boards import load_board

pytestmark = [pytest.mark.emulator, pytest.mark.slow]

STORAGE = Path(__file__).parents[2] / "benchmarks/storage.py"


@pytest.mark.parametrize("name", ["nrf52840", "mkr1000"])
def test_a_board_file_has_what_its_driver_reaches(name: str) -> None:
    command = [sys.executable, STORAGE, "--board", name, "--json"]
    result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=1200)
    storage = load_board(name).storage
    assert storage is not None
    for kind, (bandwidth_bytes_per_s, latency_s) in json.loads(result.stdout)[name].items():
        believed = getattr(storage, kind)
        assert believed.bandwidth_bytes_per_s == pytest.approx(bandwidth_bytes_per_s, rel=0.03)
        assert believed.latency_s == pytest.approx(latency_s, rel=0.03)
