# SPDX-License-Identifier: Apache-2.0
"""A board that hangs is reset by its watchdog, and trains on to the same bits."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest

from emulator.bare_chips import NRF52840, SAMD21, BareChip
from emulator.firmware_tools import needs_qemu, sample_image, slot_offset
from poetfw.tools.emulators.unicorn.core import SLICE, Core
from poetfw.tools.emulators.unicorn.sd_card import BLOCK_BYTES, BLOCKS_PER_UNIT, Card

pytestmark = [pytest.mark.emulator, pytest.mark.slow, needs_qemu]

STEPS = 2
WATCHDOG_MS = 20
LOOP, AT = b"\xfe\xe7", -16
"""A branch to itself, at the end of flash, where no program is."""


@dataclass(frozen=True)
class Case:
    """A board.

    Attributes:
        chip: its own.
        hz: what the processor runs at.
        cause: of the last start of a run that nothing disturbs.
        resets_itself: whether the first start of a new chip ends in a reset.
    """

    chip: BareChip
    hz: int
    cause: str
    resets_itself: bool


CASES = {
    "nrf52840": Case(NRF52840, 64_000_000, "software", resets_itself=True),
    "mkr1000": Case(SAMD21, 48_000_000, "power-on", resets_itself=False),
}


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


@pytest.fixture(scope="module")
def flash(case: Case, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    elf = tmp_path_factory.mktemp("watchdog") / "firmware.elf"
    case.chip.compile_sample(elf, f"-DPOETFW_WATCHDOG_MS={WATCHDOG_MS}u")
    flash = bytearray(case.chip.read_flash(elf))
    assert set(flash[AT:]) == {0xFF}
    flash[AT : AT + len(LOOP)] = LOOP
    return bytes(flash)


class Lost:
    """What is mixed into a board, whose program hangs in its starts, after so many cycles of each.

    Attributes:
        core: of the last start.
        fed: when its watchdog was.
    """

    flash_bytes: int
    hangs: Iterator[int | None]

    def _core(self, chip: Any) -> Core:
        self.core: Core = super()._core(chip)  # type: ignore[misc]
        self.fed: list[int] = []
        watch = self.core.watch

        def note(*arguments: Any) -> None:
            self.fed.append(self.core.cycles)
            watch(*arguments)

        self.core.watch = note  # type: ignore[method-assign]
        if (cycles := next(self.hangs, None)) is not None:
            self.core.after(cycles, self._lose)
        return self.core

    def _lose(self) -> None:
        self.core._pc = self.flash_bytes + AT


class Run:
    """Training on a new card, where the program hangs after so many cycles of each start."""

    def __init__(self, case: Case, flash: bytes, folder: Path, hangs: Sequence[int] = ()) -> None:
        said = bytearray()

        def listen(text: bytes) -> None:
            said.extend(text)
            if said.endswith(b"@commit 1"):
                self.committed = board.core.cycles

        with (folder / "card").open("w+b") as card:
            card.write(sample_image(steps=STEPS, checkpoint_every=1))
            card.truncate(BLOCK_BYTES * BLOCKS_PER_UNIT)
            kind = type("LostBoard", (Lost, case.chip.machine), {})
            board = kind(flash, Card(card), listen)
            board.hangs = iter([None] * case.resets_itself + [*hangs])
            self.cycles = board.run()
            card.seek(0)
            content = card.read()
        self.fed = board.fed
        self.lines = said.decode("ascii", "replace").splitlines()
        self.weight = content[slot_offset(content, "weight") :][:4]
        booted = re.findall(r"@boot .* reset=([a-z-]+)", said.decode("ascii", "replace"))
        self.causes = [str(cause) for cause in booted]


@pytest.fixture(scope="module")
def whole(case: Case, flash: bytes, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Run(case, flash, tmp_path_factory.mktemp("whole"))


def test_a_run_that_is_fed_is_not_reset(case: Case, whole: Run) -> None:
    assert whole.cycles > 5 * WATCHDOG_MS * case.hz / 1000
    assert whole.causes == [case.cause]
    assert whole.lines[-1].startswith("@done")


def test_a_hang_in_a_step_ends_in_a_reset(
    case: Case, flash: bytes, whole: Run, tmp_path: Path
) -> None:
    """In the middle of the second, of a million cycles: the first is in storage."""
    run = Run(case, flash, tmp_path, [whole.committed + 500_000])
    assert run.causes == [case.cause, "watchdog"]
    assert [line for line in run.lines if "@train" in line] == [
        "@train steps=2 batch=4 done=0",
        "@train steps=2 batch=4 done=1",
    ]
    assert [line[:7] for line in run.lines if "@step" in line] == ["@step 1", "@step 2"]
    assert run.lines[-1].startswith("@done")
    assert run.weight == whole.weight


@pytest.mark.parametrize("seed", range(20))
def test_hangs_at_any_instruction(
    case: Case, flash: bytes, whole: Run, tmp_path: Path, seed: int
) -> None:
    random = Random(seed)
    started, *_ = whole.fed
    hangs = [random.randrange(started + SLICE, whole.cycles) for _ in range(random.randint(1, 3))]
    run = Run(case, flash, tmp_path, hangs)
    assert run.lines[-1].startswith("@done"), (hangs, run.lines)
    assert run.weight == whole.weight, hangs
    assert set(run.causes[1:]) == {"watchdog"}
