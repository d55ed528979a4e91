# SPDX-License-Identifier: Apache-2.0
"""Every fault of a card at every call of a short run, on each driver: what comes of it.

    python tests/unit/runtime/storage_faults.py [--each N]

prints a table. A call is a command that opens the card, asks for its size, reads or writes; from it
on the fault is there, until the next command (once) or for ever. A run ends as if nothing had
happened, or with a status.
"""

from __future__ import annotations

import ctypes
import math
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parent))

import nrf52840_chip
import samd21_chip
from chips import Board, Model, compile_drivers, connect
from sd_card import Card, Faults

from emulator.firmware_tools import SAMPLE, TEMPLATES, compile_c

CALLS = (0, 9, 17, 18, 24, 25)
LONGEST_S = 20.0
"""Of a run, in clocks of the card: three attempts of up to a second, a few times."""
ALWAYS = range(1 << 32)
KINDS: dict[str, Faults] = {
    "CRC error, read": Faults(damaged=ALWAYS),
    "CRC error, written": Faults(damages=ALWAYS),
    "time-out": Faults(tokens=dict.fromkeys(range(64))),
    "busy for ever": Faults(busy_s=1e9, stop_s=1e9),
    "short": Faults(stuck=0x00),
    "write-protected": Faults(protected=True),
    "card removed": Faults(removed_after=0.0),
    "full": Faults(full=True),
}
ONCE_BUSY_S = 0.7
SHORT_BYTES = REMOVED_BYTES = 400
"""For how long a fault lasts that no command can end, since none arrives."""


@dataclass
class PolledChip:
    """No chip: a bus that exchanges bytes before it returns."""

    card: Card = field(default_factory=Card)
    console: bytes = b""
    misuse: list[str] = field(default_factory=list)

    def install(self, library: ctypes.CDLL) -> list[object]:
        pointer, u32 = ctypes.c_void_p, ctypes.c_uint32

        def exchange(tx: int | None, rx: int | None, count: int) -> None:
            sent = ctypes.string_at(tx, count) if tx else b"\xff" * count
            received = self.card.exchange_all(sent)
            if rx:
                ctypes.memmove(rx, received, count)

        def say(text: int, count: int) -> None:
            self.console += ctypes.string_at(text, count)

        callbacks: dict[str, object] = {
            "test_spi_exchange": ctypes.CFUNCTYPE(None, pointer, pointer, u32)(exchange),
            "test_spi_select": ctypes.CFUNCTYPE(None, ctypes.c_int)(
                lambda selected: self.card.select(bool(selected))
            ),
            "test_spi_clock": ctypes.CFUNCTYPE(None, u32)(self.card.clock),
            "test_console": ctypes.CFUNCTYPE(None, pointer, u32)(say),
        }
        return connect(library, callbacks)


def compile_polled(folder: Path) -> Path:
    """The sample project with the polled bus, as a shared library."""
    here = Path(__file__).parent
    folders = [*(TEMPLATES / d for d in ("storage", "runtime")), SAMPLE / "src/generated"]
    sources = [file for folder in folders for file in sorted(folder.glob("*.c"))]
    sources = [file for file in sources if file.name != "poet_memory.c"]
    return compile_c(
        folder / "polled.so",
        [here / "polled_board.c", here / "spi_bus.c", *sources],
        [*folders, TEMPLATES / "hal"],
        *("-shared", "-fPIC"),
    )


DRIVERS: dict[str, tuple[Callable[[Path], Path], Callable[[], Model]]] = {
    "nRF52840 SPIM": (
        lambda folder: compile_drivers(folder, "nrf52840"),
        lambda: nrf52840_chip.Chip(other_polls=1),
    ),
    "SAM D21 SERCOM": (
        lambda folder: compile_drivers(folder, "samd21"),
        lambda: samd21_chip.Chip(polls={"SPI": 1}),
    ),
    "polled": (compile_polled, PolledChip),
}


@dataclass(frozen=True)
class Outcome:
    """How a run ended, what it trained, how often it called, and for how long it used the card."""

    last_line: str
    weight: bytes
    calls: int
    time_s: float


def run(library: Path, chip: Model, kind: str | None, call: int, once: bool) -> Outcome:
    """The sample project on a card with a fault from a call on; None for no fault."""
    board, card, calls = Board(library, chip), chip.card, [0]

    def begin() -> None:
        assert kind is not None
        fault = replace(KINDS[kind], read_s=0.0001)
        if kind == "busy for ever" and once:
            fault.busy_s = fault.stop_s = ONCE_BUSY_S
        if kind == "short" and once:
            fault.stuck_until = card._bytes + SHORT_BYTES
        if kind == "card removed":
            fault.removed_after = card._bytes
            fault.removed_until = card._bytes + REMOVED_BYTES if once else math.inf
        card.faults = fault

    def obey(number: int) -> None:
        if number in CALLS:
            calls[0] += 1
            if calls[0] == call and kind is not None:
                begin()
                return
        silent = card.faults.stuck is not None or card.faults.removed_until < math.inf
        if once and calls[0] >= call and not silent:
            card.faults = Faults()

    card.on_command = obey
    lines = board.run()
    card.faults = Faults()
    return Outcome(lines[-1], board.weight, calls[0], card.time_s)


def outcomes(
    driver: str, folder: Path, each: int, first: int = 1
) -> Iterator[tuple[str, bool, str]]:
    """Kind of fault, whether once, and what came of it: at every so manyth call, from one on.

    Raises:
        AssertionError: a run trained something else, took too long, or ended in no known way.
    """
    compile_it, make = DRIVERS[driver]
    library = compile_it(folder)
    usual = run(library, make(), None, 0, True)
    assert usual.last_line.startswith("@done")
    for kind in KINDS:
        for once in (True, False):
            for call in range(first, usual.calls + 1, each):
                outcome = run(library, make(), kind, call, once)
                where = (
                    f"{driver}, {kind}, call {call}, {'once' if once else 'for ever'}: {outcome}"
                )
                assert outcome.time_s < LONGEST_S, where
                if outcome.last_line.startswith("@done"):
                    assert outcome.weight == usual.weight, where
                    yield kind, once, "same"
                else:
                    assert outcome.last_line.startswith("@error status=-"), where
                    yield kind, once, outcome.last_line.split()[1].removeprefix("status=")


@click.command()
@click.option("--each", default=1, help="Try every so manyth call only.")
def main(each: int) -> None:
    """Print how many runs ended in which way."""
    print(f"{'driver':16}{'fault':20}{'':10}outcomes")
    for driver in DRIVERS:
        with tempfile.TemporaryDirectory() as folder:
            counts: dict[tuple[str, bool], Counter[str]] = {}
            for kind, once, outcome in outcomes(driver, Path(folder), each):
                counts.setdefault((kind, once), Counter())[outcome] += 1
        for (kind, once), found in counts.items():
            said = ", ".join(f"{count} x {outcome}" for outcome, count in found.most_common())
            print(f"{driver:16}{kind:20}{'once' if once else 'for ever':10}{said}", flush=True)


if __name__ == "__main__":
    main()
