# SPDX-License-Identifier: Apache-2.0
"""The math gives the same bits on this computer, on an FPU, and in software floating point."""

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
    Path(__file__).parent / "math" / "main.c",
    TEMPLATES / "storage/crc32.c",
    *(TEMPLATES / "runtime" / name for name in ("console.c", "poet_math.c")),
]
INCLUDES = [SAMPLE / "src/generated", *(TEMPLATES / d for d in ("runtime", "storage", "hal"))]


@pytest.fixture(scope="module")
def native_lines(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("native")
    program = compile_native(folder / "math", SOURCES, INCLUDES)
    code, lines = run_program([str(program)], folder)
    assert code == 0
    assert len(set(lines)) == 4
    return lines


@pytest.mark.parametrize(
    "machine",
    [CORTEX_M4F, ("-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=soft")],
    ids=["fpu", "software"],
)
def test_bits_are_those_of_this_computer(
    tmp_path: Path, native_lines: list[str], machine: tuple[str, ...]
) -> None:
    elf = compile_for_twin(
        tmp_path / "core.elf",
        SOURCES,
        INCLUDES,
        *machine,
    )
    code, lines = run_twin(elf, tmp_path)
    assert code == 0
    assert lines == native_lines
