# SPDX-License-Identifier: Apache-2.0
"""The SD driver against QEMU's SD card: the protocol, on cards of both addressing schemes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from emulator.firmware_tools import (
    BLOCK,
    CORTEX_M0PLUS,
    PARTITION_BLOCK,
    SAMPLE,
    TEMPLATES,
    compile_c,
    compile_sample,
    linker_script,
    needs_qemu,
    partition_table,
    qemu,
    run_program,
    run_twin,
    sample_image,
)
from poetfw.boards import Machine
from poetfw.firmware import IMAGE
from poetfw.tools import emulator_of

pytestmark = [pytest.mark.emulator, needs_qemu]

SD = Path(__file__).parent / "sd"
MACHINE = "lm3s6965"
RAM_BYTES, FLASH_BYTES = 32768, 262144


def _build(folder: Path, last_block: int, *flags: str) -> Path:
    """A program that does nothing but use the card."""
    script = linker_script(
        MACHINE, folder / "sd.ld", ram_bytes=RAM_BYTES, flash_bytes=FLASH_BYTES, stack_bytes=2048
    )
    folders = [TEMPLATES / "hal/cortex_m", TEMPLATES / "hal" / MACHINE]
    runtime = ("console.c", "high_water.c", "poet_memory.c")
    return compile_c(
        folder / "sd.elf",
        [
            SD / "main.c",
            *(TEMPLATES / "storage" / name for name in ("crc32.c", "sd.c")),
            SAMPLE / "src/generated/plan.c",
            *(TEMPLATES / "runtime" / name for name in runtime),
            *(file for folder in folders for file in sorted(folder.glob("*.c"))),
        ],
        [
            SAMPLE / "src/generated",
            *folders,
            *(TEMPLATES / d for d in ("hal", "runtime", "storage")),
        ],
        *CORTEX_M0PLUS,
        *("-ffreestanding", "-nostdlib", "-Wl,--gc-sections", f"-T{script}"),
        *(f"-DPOET_RAM_BYTES={RAM_BYTES}u", f"-DPOET_FLASH_BYTES={FLASH_BYTES}u"),
        *(f"-DLAST_BLOCK={last_block}u", *flags, "-lgcc"),
        compiler="arm-none-eabi-gcc",
    )


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample project on the machine with a card."""
    return _sample(tmp_path_factory.mktemp("sample") / "sample.elf")


def _sample(out: Path, *flags: str, stack_bytes: int = 2048) -> Path:
    sizes = {"ram_bytes": RAM_BYTES, "flash_bytes": FLASH_BYTES, "stack_bytes": stack_bytes}
    return compile_sample(out, MACHINE, *flags, machine=CORTEX_M0PLUS, **sizes)


def _pattern(block: int, count: int) -> bytes:
    i = np.arange(count * BLOCK, dtype=np.uint64) + block * BLOCK
    return (((i * 2654435761) % 2**32) >> 13).astype(np.uint8).tobytes()


def _run(elf: Path, *arguments: str) -> tuple[int, list[str]]:
    command = qemu("lm3s6965evb", elf, "-cpu", "cortex-m0", "-icount", "shift=0", *arguments)
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
        cpu="cortex-m0",
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


@pytest.mark.parametrize(
    ("defect", "address"),
    [
        ("SAMPLE_OVERRUN", "20008000"),
        ("SAMPLE_STACK_FULL", "20000000"),
        pytest.param("SAMPLE_OVERFLOW", "00000000", marks=pytest.mark.slow),
    ],
)
def test_what_leaves_the_boards_ram_is_a_fault(tmp_path: Path, defect: str, address: str) -> None:
    """Above it the machine has RAM; below the stack nothing, where what is written is lost."""
    card = _card(tmp_path, sample_image(steps=1))
    elf = _sample(tmp_path / "broken.elf", f"-D{defect}")
    code, lines = _run(elf, "-drive", f"if=sd,format=raw,file={card}")
    assert (code, lines[-1]) == (99, f"@fault cfsr=00000000 address={address} pc=00000000")


@pytest.mark.parametrize(
    "instructions", [2_000_000, pytest.param(3_000_000_000, marks=pytest.mark.slow)]
)
def test_ticks_are_instructions(tmp_path: Path, instructions: int) -> None:
    """Also where the timer has begun anew, after 2^24 * 80 of them."""
    elf = _build(tmp_path, 131071, f"-DCOUNTED={instructions}u")
    assert _run(elf) == (0, ["@sd ok"])


def test_the_last_byte_of_the_boards_ram_is_its_own(tmp_path: Path) -> None:
    card = _card(tmp_path, sample_image(steps=1))
    elf = _sample(tmp_path / "full.elf", "-DSAMPLE_LAST_BYTES")
    assert _run(elf, "-drive", f"if=sd,format=raw,file={card}")[0] == 0


def _card(folder: Path, content: bytes | bytearray) -> Path:
    card = folder / "card.img"
    with card.open("wb") as file:
        file.write(content)
        file.truncate(1 << 20)  # QEMU wants a power of two
    return card


def test_a_training_runs_on_the_card_as_on_the_twin(sample: Path, tmp_path: Path) -> None:
    card = _card(tmp_path, sample_image(steps=3))
    code, lines = _run(sample, "-drive", f"if=sd,format=raw,file={card}")
    assert code == 0, lines
    twin = compile_sample(tmp_path / "twin.elf", "mps2")
    (tmp_path / "storage.img").write_bytes(sample_image(steps=3))
    code, twin_lines = run_twin(twin, tmp_path)
    assert code == 0
    values = [[re.sub(r" ticks=\d+", "", line) for line in run[:-1]] for run in (lines, twin_lines)]
    assert values[0] == values[1]
    content = (tmp_path / "storage.img").read_bytes()
    assert card.read_bytes() == content.ljust(1 << 20, b"\0")


@pytest.mark.parametrize(
    ("table", "status"),
    [
        (bytes(BLOCK), -7),
        (partition_table((0x0C, PARTITION_BLOCK, 45)), -8),
        (partition_table((0xDA, 2048, 45)), -9),
        (partition_table((0xDA, PARTITION_BLOCK, 2048 - PARTITION_BLOCK + 1)), -10),
        (partition_table((0xDA, PARTITION_BLOCK, 44)), -11),
    ],
)
def test_a_card_that_is_anothers_is_refused(
    sample: Path, tmp_path: Path, table: bytes, status: int
) -> None:
    content = sample_image()
    content[:BLOCK] = table
    card = _card(tmp_path, content)
    before = card.read_bytes()
    code, lines = _run(sample, "-drive", f"if=sd,format=raw,file={card}")
    assert (code, lines[-1]) == (1, f"@error status={status} at=image")
    assert card.read_bytes() == before
