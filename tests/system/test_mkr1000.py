# SPDX-License-Identifier: Apache-2.0
"""The whole way on the MKR1000: 32 KB of RAM, no FPU, an SD card behind its real driver."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from system.commands import needs_twin, succeed

pytestmark = [pytest.mark.emulator, pytest.mark.slow, needs_twin]

BOARD_RAM_BYTES, STACK_BYTES = 32_768, 1_536
STEPS = ("--steps", "5")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mkr1000")


@pytest.fixture(scope="module")
def build(folder: Path) -> Any:
    return succeed("build", "--board", "mkr1000", cwd=folder)


@pytest.fixture(scope="module")
def run(folder: Path, build: Any) -> Any:
    return succeed("run", "--board", "mkr1000", *STEPS, "--verify", cwd=folder)


def test_a_model_trains_that_does_not_fit_without_a_schedule(build: Any, run: Any) -> None:
    assert build["checkpoint_all_peak_bytes"] > 1.8 * BOARD_RAM_BYTES
    assert build["ram_bytes"] <= BOARD_RAM_BYTES
    assert build["schedule"]["recomputes"] + build["schedule"]["page_ins"] > 0
    assert (run["emulator"], run["emulated"]) == ("qemu", True)
    assert run["high_water_bytes"] == build["peak_bytes"] <= build["budget_bytes"]
    assert run["instructions"] > 0


def test_what_is_not_the_arena_takes_3_kb(build: Any, run: Any) -> None:
    """Static data, the whole stack, and the page buffer, which lies in the arena."""
    page_buffer = 512
    assert build["ram_bytes"] - build["peak_bytes"] + page_buffer <= 3 * 1024
    assert run["stack_high_water_bytes"] <= STACK_BYTES * 2 / 3


def test_no_double_was_linked(folder: Path, build: Any) -> None:
    elf = (folder / build["elf"]).read_bytes()
    assert b"__aeabi_fadd" in elf
    assert not re.findall(rb"__aeabi_(?:c?d\w+|\w+2d)\b", elf)


def test_it_trains_as_its_references_do(build: Any, run: Any) -> None:
    """Pages go through the card's driver; the reference has another machine, and no card."""
    assert run["storage_bytes_written"] > 0
    assert run["verify"]["ok"]
    assert run["verify"]["bit_identical_to_unscheduled"] is True
    assert run["verify"]["max_rel_error_loss"] <= 1e-5


PORTS = """
import serial
import serial.tools.list_ports
from serial.tools.list_ports_common import ListPortInfo

said = open({log!r}, "a", buffering=1)
names = ["/dev/ttySketch"]


class Serial:
    def __init__(self, port=None, baudrate=9600, **others):
        said.write(f"opened {{port}} at {{baudrate}}\\n")
        if baudrate == 1200:
            names[:] = ["/dev/ttyBootloader"]

    def setDTR(self, level): pass
    def close(self): pass


serial.Serial = Serial
serial.tools.list_ports.comports = lambda *ignored: [ListPortInfo(name) for name in names]
"""


def test_upload_makes_a_sketch_the_bootloader_and_spares_it(
    folder: Path, tmp_path: Path, build: Any
) -> None:
    log = tmp_path / "log"
    (tmp_path / "sitecustomize.py").write_text(PORTS.format(log=str(log)))
    bossac = tmp_path / "bossac"
    bossac.write_text(f'#!/bin/sh\necho "$@" >> {log}\n')
    bossac.chmod(0o755)
    project = folder / build["out_dir"]
    environment = {
        **os.environ,
        "PLATFORMIO_CORE_DIR": str(project.resolve() / ".pio/core"),
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}",
    }
    command = (sys.executable, "-m", "platformio", "run", "-d", ".", "-e", "mkr1000-system")
    upload = ("-t", "upload", "--upload-port", "/dev/ttySketch")
    subprocess.run([*command, *upload], cwd=project, env=environment, check=True, timeout=300)
    touched, *opened, program = log.read_text().splitlines()
    assert touched == "opened /dev/ttySketch at 1200"
    assert opened == ["opened /dev/ttyBootloader at 9600"]
    assert program == (
        "--port=/dev/ttyBootloader --usb-port --offset=0x2000 --write --verify --reset "
        ".pio/build/mkr1000-system/firmware.bin"
    )
    image = project / ".pio/build/mkr1000-system/firmware.bin"
    stack, reset = struct.unpack("<2I", image.read_bytes()[:8])
    assert stack == 0x20000000 + STACK_BYTES
    assert 0x2000 < reset < 0x2000 + image.stat().st_size
    assert reset % 2 == 1
