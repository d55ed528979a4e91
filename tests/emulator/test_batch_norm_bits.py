# SPDX-License-Identifier: Apache-2.0
"""Batch norm in a Cortex-M4F's assembly leaves the bits of the same in C."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.firmware_tools import (
    CORTEX_M4F,
    SAMPLE,
    TEMPLATES,
    compile_for_twin,
    compile_native,
    needs_qemu,
    run_program,
    run_twin,
)

pytestmark = [pytest.mark.emulator, needs_qemu]

SOURCES = [
    Path(__file__).parent / "batch_norm" / "main.c",
    TEMPLATES / "kernels/batch_norm.c",
    TEMPLATES / "storage/crc32.c",
    *(TEMPLATES / "runtime" / name for name in ("console.c", "poet_math.c")),
]
FOLDERS = ("kernels", "runtime", "storage", "hal")
INCLUDES = [SAMPLE / "src/generated", *(TEMPLATES / folder for folder in FOLDERS)]
WIDTHS = 35


@pytest.mark.parametrize("divisor", [1, 3], ids=["maybe wide", "not wide"])
def test_bits_are_those_of_this_computer(tmp_path: Path, divisor: int) -> None:
    """Of planes of 1 to 5 rows and all widths, up to two blocks of 16 and what is left over.

    What planes have in common decides which loops are compiled: all, where nothing is known.
    """
    program = compile_native(tmp_path / "native", SOURCES, INCLUDES)
    code, expected = run_program([str(program)], tmp_path)
    assert code == 0
    assert len(set(expected)) == WIDTHS
    elf = compile_for_twin(
        tmp_path / "core.elf",
        SOURCES,
        INCLUDES,
        *CORTEX_M4F,
        *("-DPOET_SHAPES_H", "-DPOET_BATCH_NORM_ROWS=1", "-DPOET_BATCH_NORM_WIDTH=1"),
        f"-DPOET_BATCH_NORM_PLANE={divisor}",
    )
    code, lines = run_twin(elf, tmp_path)
    assert code == 0
    assert lines == expected
