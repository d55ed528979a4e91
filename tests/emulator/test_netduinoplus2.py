# SPDX-License-Identifier: Apache-2.0
"""The STM32F405's twin: the sample project on QEMU's machine with the same chip."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from emulator.firmware_tools import (
    CORTEX_M4F,
    SAMPLE,
    TEMPLATES,
    compile_c,
    compile_sample,
    linker_script,
    needs_qemu,
    qemu,
    run_program,
    run_twin,
    sample_image,
)

pytestmark = [pytest.mark.emulator, needs_qemu]

RAM_BYTES, FLASH_BYTES = 131_072, 1 << 20
HAL = TEMPLATES / "hal"


def compile_twin(out: Path, *flags: str) -> Path:
    """The sources of the environment stm32f405-twin."""
    folders = [
        *(SAMPLE / "src/generated", TEMPLATES / "runtime", TEMPLATES / "storage"),
        *(HAL / family for family in ("cortex_m", "netduinoplus2", "stm32f405", "mps2")),
    ]
    sources = [file for folder in folders[:5] for file in sorted(folder.glob("*.[cS]"))]
    sources = [file for file in sources if file.name not in ("sd.c", "sd_storage.c")]
    used = [HAL / "stm32f405/usart.c", HAL / "mps2/guard.c", HAL / "mps2/storage.c"]
    sizes = {"ram_bytes": RAM_BYTES, "flash_bytes": FLASH_BYTES, "stack_bytes": 4096}
    script = linker_script("netduinoplus2", out.with_suffix(".ld"), **sizes)
    return compile_c(
        out,
        [*sources, *used],
        [*folders, HAL],
        *CORTEX_M4F,
        *("-ffreestanding", "-nostdlib", "-Wl,--gc-sections", f"-T{script}"),
        *(f"-DPOET_RAM_BYTES={RAM_BYTES}u", f"-DPOET_FLASH_BYTES={FLASH_BYTES}u"),
        *flags,
        "-lgcc",
        compiler="arm-none-eabi-gcc",
    )


def run(elf: Path, folder: Path) -> tuple[int, list[str]]:
    (folder / "storage.img").write_bytes(sample_image())
    return run_program(qemu("netduinoplus2", elf, "-icount", "shift=0"), folder)


def ticks(lines: list[str]) -> list[int]:
    return [int(found) for line in lines for found in re.findall(r" ticks=(\d+)", line)]


def test_it_trains_to_the_bits_of_the_other_twin_in_as_many_instructions(tmp_path: Path) -> None:
    code, lines = run(compile_twin(tmp_path / "twin.elf"), tmp_path)
    assert code == 0, lines
    assert "tick_unit=instructions" in lines[-1]
    trained = (tmp_path / "storage.img").read_bytes()
    other = tmp_path / "other"
    other.mkdir()
    (other / "storage.img").write_bytes(sample_image())
    code, other_lines = run_twin(compile_sample(other / "twin.elf", "mps2"), other)
    assert code == 0
    assert trained == (other / "storage.img").read_bytes()
    assert trained != sample_image()
    steps, other_steps = ticks(lines)[:-1], ticks(other_lines)[:-1]
    assert len(steps) == 20
    assert steps == pytest.approx(other_steps, rel=2e-3)


@pytest.mark.parametrize(
    ("access", "address"),
    [
        ("SAMPLE_OVERRUN", 0x20000000 + RAM_BYTES),
        pytest.param("SAMPLE_BEYOND_FLASH", FLASH_BYTES, marks=pytest.mark.slow),
    ],
)
def test_access_outside_the_boards_memory_faults(tmp_path: Path, access: str, address: int) -> None:
    """QEMU before 8.0 gives the machine 192 KB in one piece."""
    code, lines = run(compile_twin(tmp_path / "twin.elf", f"-D{access}"), tmp_path)
    assert code == 99
    assert f"address={address:08x}" in lines[-1]
