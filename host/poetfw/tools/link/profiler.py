# SPDX-License-Identifier: Apache-2.0
"""A board with profiling firmware, with typed answers. Devices are not trusted."""

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
    invalid_answer,
)

PROTOCOL = 2

_KEY = re.compile("[0-9a-f]{16}")
_MOST_TICKS = 2**53
"""Largest tick count that f64 holds exactly: a century of cycles at 2.8 MHz."""


@dataclass(frozen=True, slots=True)
class ProfilerGreeting:
    """Identity of the connected board.

    Attributes:
        sketch_id: identifier of the profiling sketch that the firmware was built from.
        board: name of the board that the firmware was built for.
        tick_unit: unit of a tick: instructions, cycles or ns.
        cases: number of cases in the firmware, the empty one included.
    """

    sketch_id: str
    board: str
    tick_unit: str
    cases: int


@dataclass(frozen=True, slots=True)
class Ran:
    """Duration of a case's runs.

    Attributes:
        ticks: ticks of all runs together.
        marked_ticks: ticks of the marked interval, which adds the calls and the filling of
            operands.
    """

    ticks: int
    marked_ticks: int


class Profiler:
    """Commands to profiling firmware; each raises `DeviceError` if it fails."""

    def __init__(self, link: DeviceLink) -> None:
        self._link = link

    def hello(self) -> ProfilerGreeting:
        """Connect and read the board's identity.

        Raises:
            WrongBoardError: The firmware is not profiling firmware, or has another protocol
                version.
        """
        answer = self._link.ask("hello", patience=CONNECT)
        if len(answer.values) != 5 or answer.values[0] != str(PROTOCOL):
            raise WrongBoardError(
                "the board has another firmware than one that measures, or one of another poetfw",
                "put on the board what `poetfw profile` built",
            )
        _, sketch_id, board, unit, cases = answer.values
        if not (IDENTIFIER.fullmatch(board) and unit in TICK_UNITS):
            raise invalid_answer(answer)
        return ProfilerGreeting(sketch_id, board, unit, integer(answer, cases))

    def key(self, index: int) -> str:
        """Read the key of a case, given its number."""
        answer = self._link.ask("case", index, patience=QUICK)
        check_status(answer, answer.values[0] if answer.values else "")
        _, key = fields(answer, 2)
        if not _KEY.fullmatch(key):
            raise invalid_answer(answer)
        return key

    def run(self, index: int, key: str, times: int) -> Ran:
        """Run a case a number of times.

        Args:
            index: number of the case.
            key: key that the firmware must report for the case.
            times: number of runs.

        Raises:
            StatusError: The firmware reports a failure.
        """
        answer = self._link.ask("run", index, times, patience=LONG)
        check_status(answer, answer.values[0] if answer.values else "")
        _, said, *counts = fields(answer, 4)
        ticks, marked_ticks = (integer(answer, count) for count in counts)
        if said != key or not ticks <= marked_ticks <= _MOST_TICKS:
            raise invalid_answer(answer)
        return Ran(ticks, marked_ticks)
