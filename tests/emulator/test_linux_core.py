# SPDX-License-Identifier: Apache-2.0
"""The sample project as a program for another core under Linux, run by QEMU."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.firmware_tools import compile_sample, run_program, sample_image
from poetfw.boards import load_board
from poetfw.tools import emulator_of
from system.commands import needs_aarch64

pytestmark = [pytest.mark.emulator, needs_aarch64]


def trained(elf: list[str], folder: Path) -> tuple[list[str], bytes]:
    """What a program says of training, and what it leaves in its storage."""
    folder.mkdir()
    (folder / "storage.img").write_bytes(sample_image())
    code, lines = run_program(elf, folder)
    assert code == 0, lines
    values = [line.split(" ticks=")[0] for line in lines if line.startswith(("@step", "@eval"))]
    return values, (folder / "storage.img").read_bytes()


def test_it_trains_to_the_bits_of_this_computer(tmp_path: Path) -> None:
    board = load_board("rpi4")
    native = compile_sample(tmp_path / "native", "posix")
    elf = compile_sample(
        tmp_path / "firmware.elf",
        "posix",
        *board.toolchain.machine_flags,
        hosted_compiler=board.toolchain.compiler,
    )
    machine = board.twin().machine
    command = emulator_of(machine).command(machine, elf)
    expected = trained([str(native)], tmp_path / "here")
    assert len(expected[0]) > 4
    assert trained(command, tmp_path / "there") == expected
