# SPDX-License-Identifier: Apache-2.0
"""The SD driver against QEMU's SD card: the protocol, on cards of both addressing schemes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from emulator.firmware_tools import (
    BLOCK,
    CORTEX_M4F,
    SAMPLE,
    TEMPLATES,
    compile_c,
    linker_script,
    needs_qemu,
    qemu,
    run_program,
)
from poetfw.boards import Machine
from poetfw.devices import emulator_of
from poetfw.firmware import IMAGE

pytestmark = [pytest.mark.emulator, needs_qemu]

SD_TEST = Path(__file__).parent / "sd" / "main.c"


def _build(folder: Path, last_block: int) -> Path:
    script = linker_script(
        "nrf52840", folder / "sd.ld", ram_bytes=65536, flash_bytes=262144, stack_bytes=2048
    )
    return compile_c(
        folder / "sd.elf",
        [
            SD_TEST,
            TEMPLATES / "storage/sd.c",
            TEMPLATES / "runtime/console.c",
            TEMPLATES / "runtime/poet_memory.c",
            TEMPLATES / "hal/cortex_m/startup.c",
        ],
        [
            SAMPLE / "src/generated",
            TEMPLATES / "hal",
            TEMPLATES / "hal/cortex_m",
            TEMPLATES / "hal/mps2",
            TEMPLATES / "runtime",
            TEMPLATES / "storage",
        ],
        *CORTEX_M4F,
        *("-ffreestanding", "-nostdlib", "-Wl,--gc-sections", f"-T{script}"),
        f"-DLAST_BLOCK={last_block}u",
        "-lgcc",
        compiler="arm-none-eabi-gcc",
    )


def _pattern(block: int, count: int) -> bytes:
    i = np.arange(count * BLOCK, dtype=np.uint64) + block * BLOCK
    return (((i * 2654435761) % 2**32) >> 13).astype(np.uint8).tobytes()


def _run(elf: Path, *arguments: str) -> tuple[int, list[str]]:
    command = qemu("lm3s6965evb", elf, "-cpu", "cortex-m4", *arguments)
    return run_program(command, elf.parent)


@pytest.mark.parametrize("card_bytes", [64 << 20, 4 << 30], ids=["SDSC-64MB", "SDHC-4GB"])
def test_blocks_reach_the_card_and_come_back(tmp_path: Path, card_bytes: int) -> None:
    last_block = card_bytes // BLOCK - 1
    card = tmp_path / "card.img"
    with card.open("wb") as file:
        file.truncate(card_bytes)
        file.seek(200 * BLOCK)
        file.write(_pattern(200, 16))
    elf = _build(tmp_path, last_block)

    code, lines = _run(elf, "-drive", f"if=sd,format=raw,file={card}")

    assert (code, lines) == (0, ["@sd ok"])
    with card.open("rb") as file:
        for block, count in ((3, 1), (100, 16), (200, 16), (last_block, 1)):
            file.seek(block * BLOCK)
            assert file.read(count * BLOCK) == _pattern(block, count), block
        file.seek(99 * BLOCK)
        assert file.read(BLOCK) == bytes(BLOCK)
        file.seek(116 * BLOCK)
        assert file.read(BLOCK) == bytes(BLOCK)


def test_a_storage_image_becomes_a_card(tmp_path: Path) -> None:
    machine = Machine(
        emulator="qemu-system-arm",
        machine="lm3s6965evb",
        cpu="cortex-m4",
        options=("semihosting", "sd-card"),
        hal="none",
        platformio_env=None,
        ram_bytes=None,
    )
    emulator = emulator_of(machine)
    image = tmp_path / IMAGE
    image.write_bytes(bytes(200 * BLOCK) + _pattern(200, 16) + bytes(BLOCK))
    emulator.prepare(machine, image, 600_000)
    last_block = (1 << 20) // BLOCK - 1
    elf = _build(tmp_path, last_block)

    assert run_program(emulator.command(machine, elf), tmp_path) == (0, ["@sd ok"])
    written = image.read_bytes()
    assert written[last_block * BLOCK :] == _pattern(last_block, 1)


def test_no_card_is_an_error_and_not_a_hang(tmp_path: Path) -> None:
    code, lines = _run(_build(tmp_path, 131071))
    assert (code, lines) == (1, ["@sd failed step=open status=-16"])
