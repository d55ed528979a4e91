# SPDX-License-Identifier: Apache-2.0
"""The reset button of an nRF52840 is pressed at any instruction; its card knows nothing of that."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from emulator.bare_chips import NRF52840
from emulator.firmware_tools import needs_qemu, sample_image, slot_offset
from poetfw.tools.emulators.unicorn.nrf52840 import Nrf52840Dk
from poetfw.tools.emulators.unicorn.sd_card import BLOCK_BYTES, BLOCKS_PER_UNIT, Card

pytestmark = [pytest.mark.emulator, needs_qemu]

STEPS = 2


@pytest.fixture(scope="module")
def flash(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    elf = tmp_path_factory.mktemp("resets") / "firmware.elf"
    return NRF52840.read_flash(NRF52840.compile_sample(elf))


class Run:
    """Training on a new card, with the button pressed so many cycles after each start."""

    def __init__(self, flash: bytes, folder: Path, presses: Sequence[int] = ()) -> None:
        said = bytearray()
        with (folder / "card").open("w+b") as card:
            card.write(sample_image(steps=STEPS, checkpoint_every=1))
            card.truncate(BLOCK_BYTES * BLOCKS_PER_UNIT)
            self.cycles = Nrf52840Dk(flash, Card(card), said.extend).run(presses)
            card.seek(0)
            content = card.read()
        self.lines = said.decode("ascii", "replace").splitlines()
        self.weight = struct.unpack_from("<f", content, slot_offset(content, "weight"))[0]


def check(flash: bytes, folder: Path, seeds: range, most: int) -> None:
    resumed = set()
    whole = Run(flash, folder)
    assert whole.lines[-1].startswith("@done")
    for seed in seeds:
        random = Random(seed)
        presses = [random.randrange(whole.cycles) for _ in range(random.randint(1, most))]
        run = Run(flash, folder, presses)
        assert run.lines[-1].startswith("@done"), (seed, presses, run.lines)
        assert run.weight == whole.weight, (seed, presses)
        resumed |= {line.split("done=")[1] for line in run.lines if "@train" in line}
    assert len(resumed) > 1


def test_a_reset_in_the_middle(flash: bytes, tmp_path: Path) -> None:
    check(flash, tmp_path, range(1, 2), most=1)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_two_hundred_resets(flash: bytes, tmp_path: Path, part: int) -> None:
    check(flash, tmp_path, range(100 + 50 * part, 150 + 50 * part), most=3)
