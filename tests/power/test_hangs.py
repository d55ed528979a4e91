# SPDX-License-Identifier: Apache-2.0
"""An nRF52840 that hangs is reset by its watchdog, and trains on to the same bits."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import pytest

from emulator.bare_chips import NRF52840
from emulator.firmware_tools import needs_qemu, sample_image, slot_offset
from poetfw.devices.emulators.unicorn.chip import Processor
from poetfw.devices.emulators.unicorn.core import SLICE, Core
from poetfw.devices.emulators.unicorn.nrf52840 import CORE_HZ, Nrf52840, Nrf52840Dk
from poetfw.devices.emulators.unicorn.sd_card import BLOCK_BYTES, BLOCKS_PER_UNIT, Card

pytestmark = [pytest.mark.emulator, pytest.mark.slow, needs_qemu]

STEPS = 2
WATCHDOG_MS = 20
LOOP, AT = b"\xfe\xe7", -16
"""A branch to itself, at the end of flash, where no program is."""


@pytest.fixture(scope="module")
def flash(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    elf = tmp_path_factory.mktemp("watchdog") / "firmware.elf"
    NRF52840.compile_sample(elf, f"-DPOETFW_WATCHDOG_MS={WATCHDOG_MS}u")
    flash = bytearray(NRF52840.read_flash(elf))
    assert set(flash[AT:]) == {0xFF}
    flash[AT : AT + len(LOOP)] = LOOP
    return bytes(flash)


class Lost(Nrf52840):
    """A chip whose program counter goes astray after so many cycles."""

    astray_after: int | None = None

    def attach(self, processor: Processor) -> None:
        super().attach(processor)
        assert isinstance(processor, Core)
        self.core = processor
        self.fed: list[int] = []
        if self.astray_after is not None:
            processor.after(self.astray_after, self._lose)

    def _lose(self) -> None:
        self.core._pc = NRF52840.machine.flash_bytes + AT

    def _watch(self, name: str) -> None:
        super()._watch(name)
        self.fed.append(self.core.cycles)


class LostDk(Nrf52840Dk):
    """The board, whose program hangs in its first boots, after so many cycles of each."""

    hangs: Iterator[int | None]
    last: Lost

    def _chip(self) -> Nrf52840:
        self.last = Lost(self._card, self._console, self._kept)
        self.last.astray_after = next(self.hangs, None)
        return self.last


class Run:
    """Training on a new card, where the program hangs after so many cycles of each start."""

    def __init__(self, flash: bytes, folder: Path, hangs: Sequence[int] = ()) -> None:
        said = bytearray()

        def listen(text: bytes) -> None:
            said.extend(text)
            if said.endswith(b"@commit 1"):
                self.committed = board.last.core.cycles

        with (folder / "card").open("w+b") as card:
            card.write(sample_image(steps=STEPS, checkpoint_every=1))
            card.truncate(BLOCK_BYTES * BLOCKS_PER_UNIT)
            board = LostDk(flash, Card(card), listen)
            board.hangs = iter((None, *hangs))  # the first start sets the reset pin, and resets
            self.cycles = board.run()
            card.seek(0)
            content = card.read()
        self.fed = board.last.fed
        self.lines = said.decode("ascii", "replace").splitlines()
        self.weight = content[slot_offset(content, "weight") :][:4]
        booted = re.findall(r"@boot .* reset=([a-z-]+)", said.decode("ascii", "replace"))
        self.causes = [str(cause) for cause in booted]


@pytest.fixture(scope="module")
def whole(flash: bytes, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Run(flash, tmp_path_factory.mktemp("whole"))


def test_a_run_that_is_fed_is_not_reset(whole: Run) -> None:
    assert whole.cycles > 5 * WATCHDOG_MS * CORE_HZ / 1000
    assert whole.causes == ["software"]
    assert whole.lines[-1].startswith("@done")


def test_a_hang_in_a_step_ends_in_a_reset(flash: bytes, whole: Run, tmp_path: Path) -> None:
    """In the middle of the second, of a million cycles: the first is in storage."""
    run = Run(flash, tmp_path, [whole.committed + 500_000])
    assert run.causes == ["software", "watchdog"]
    assert [line for line in run.lines if "@train" in line] == [
        "@train steps=2 batch=4 done=0",
        "@train steps=2 batch=4 done=1",
    ]
    assert [line[:7] for line in run.lines if "@step" in line] == ["@step 1", "@step 2"]
    assert run.lines[-1].startswith("@done")
    assert run.weight == whole.weight


@pytest.mark.parametrize("seed", range(20))
def test_hangs_at_any_instruction(flash: bytes, whole: Run, tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    started, *_ = whole.fed
    hangs = [random.randrange(started + SLICE, whole.cycles) for _ in range(random.randint(1, 3))]
    run = Run(flash, tmp_path, hangs)
    assert run.lines[-1].startswith("@done"), (hangs, run.lines)
    assert run.weight == whole.weight, hangs
    assert set(run.causes[1:]) == {"watchdog"}
