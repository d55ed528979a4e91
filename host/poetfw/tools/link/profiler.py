# SPDX-License-Identifier: Apache-2.0
"""A board with measuring firmware, in values. Nothing that it says is trusted."""

from __future__ import annotations

import re
from dataclasses import dataclass

from poetfw.common.errors import WrongBoardError
from poetfw.tools.link.link import CONNECT, LONG, QUICK, DeviceLink
from poetfw.tools.link.values import (
    IDENTIFIER,
    TICK_UNITS,
    check_status,
    fields,
    integer,
    nonsense,
)

PROTOCOL = 2

_KEY = re.compile("[0-9a-f]{16}")
_MOST_TICKS = 2**53
"""More than that, f64 cannot count: a century of cycles at 2.8 MHz."""


@dataclass(frozen=True, slots=True)
class ProfilerGreeting:
    """Identity of the connected board.

    Attributes:
        sketch_id: names the sketch that its firmware is.
        board: name of the board that it was built for.
        tick_unit: what a tick is: instructions, cycles or ns.
        cases: how many it holds, the empty one among them.
    """

    sketch_id: str
    board: str
    tick_unit: str
    cases: int


@dataclass(frozen=True, slots=True)
class Ran:
    """The results of a case's runs.

    Attributes:
        ticks: all of them together.
        marked_ticks: how long they were marked: with calling them and what their operands are fed.
    """

    ticks: int
    marked_ticks: int


class Profiler:
    """Commands to measuring firmware; each raises `DeviceError` where it fails."""

    def __init__(self, link: DeviceLink) -> None:
        self._link = link

    def hello(self) -> ProfilerGreeting:
        """Identity of the connected board and its profiling firmware.

        Raises:
            WrongBoardError: its firmware does not measure, or has another protocol version.
        """
        answer = self._link.ask("hello", patience=CONNECT)
        if len(answer.values) != 5 or answer.values[0] != str(PROTOCOL):
            raise WrongBoardError(
                "the board has another firmware than one that measures, or one of another poetfw",
                "put on the board what `poetfw profile` built",
            )
        _, sketch_id, board, unit, cases = answer.values
        if not (IDENTIFIER.fullmatch(board) and unit in TICK_UNITS):
            raise nonsense(answer)
        return ProfilerGreeting(sketch_id, board, unit, integer(answer, cases))

    def key(self, index: int) -> str:
        """The key of a case, by its number."""
        answer = self._link.ask("case", index, patience=QUICK)
        check_status(answer, answer.values[0] if answer.values else "")
        _, key = fields(answer, 2)
        if not _KEY.fullmatch(key):
            raise nonsense(answer)
        return key

    def run(self, index: int, key: str, times: int) -> Ran:
        """Run a case so many times.

        Args:
            index: its number.
            key: what the firmware must call it.
            times: how often.

        Raises:
            StatusError: the firmware says that it failed.
        """
        answer = self._link.ask("run", index, times, patience=LONG)
        check_status(answer, answer.values[0] if answer.values else "")
        _, said, *counts = fields(answer, 4)
        ticks, marked_ticks = (integer(answer, count) for count in counts)
        if said != key or not ticks <= marked_ticks <= _MOST_TICKS:
            raise nonsense(answer)
        return Ran(ticks, marked_ticks)
