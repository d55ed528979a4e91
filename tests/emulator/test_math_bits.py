# SPDX-License-Identifier: Apache-2.0
"""The math gives the same bits on this computer, on an FPU, and in software floating point."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.firmware_tools import (
    CORTEX_M4F,
    SAMPLE,
    TEMPLATES,
    compile_c,
    linker_script,
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
    program = compile_c(
        folder / "math", [*SOURCES, *(TEMPLATES / "hal/posix").glob("*.c")], INCLUDES
    )
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
    script = linker_script(
        "mps2", tmp_path / "twin.ld", ram_bytes=262144, flash_bytes=1 << 20, stack_bytes=4096
    )
    elf = compile_c(
        tmp_path / "math.elf",
        [
            *SOURCES,
            TEMPLATES / "runtime/poet_memory.c",
            *sorted((TEMPLATES / "hal/mps2").glob("*.c")),
            TEMPLATES / "hal/cortex_m/startup.c",
        ],
        [*INCLUDES, TEMPLATES / "hal/mps2", TEMPLATES / "hal/cortex_m"],
        *machine,
        *("-ffreestanding", "-nostdlib", "-Wl,--gc-sections", f"-T{script}"),
        "-lgcc",
        compiler="arm-none-eabi-gcc",
    )
    code, lines = run_twin(elf, tmp_path)
    assert code == 0
    assert lines == native_lines
