# SPDX-License-Identifier: Apache-2.0
"""Waits of each statement of a step on several devices.

A statement that reads or overwrites bytes of another worker's earlier statement waits for its end,
so that all bytes are read and written in the plan's order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class ArenaRange(NamedTuple):
    """Range [begin, end) of bytes of the arena."""

    begin: int
    end: int


class Turn(NamedTuple):
    """Worker and number of a statement."""

    worker: int
    number: int


class _Taken(NamedTuple):
    turn: Turn
    reads: tuple[ArenaRange, ...]
    writes: tuple[ArenaRange, ...]
    known: dict[int, int]
    """Vector clock: by worker, its last statement that has ended when a statement ends."""


class Turns:
    """Statements so far, tracked while they are lowered in order.

    Args:
        parallel: True if a statement waits only for those it depends on, not for its predecessor.
    """

    def __init__(self, parallel: bool) -> None:
        self._parallel = parallel
        self._taken: list[_Taken] = []
        self._known: dict[int, dict[int, int]] = {}

    def take(
        self, turn: Turn, reads: Iterable[ArenaRange], writes: Iterable[ArenaRange]
    ) -> tuple[Turn, ...]:
        """Add a statement; returns the statements that it waits for, without implied ones."""
        reads, writes = tuple(reads), tuple(writes)
        known = dict(self._known.get(turn.worker, {}))
        waits = []
        for earlier in reversed(self._taken if self._parallel else self._taken[-1:]):
            worker, number = earlier.turn
            if worker == turn.worker or known.get(worker, 0) >= number:
                continue
            if self._parallel and not (
                _meet(earlier.writes, (*reads, *writes)) or _meet(earlier.reads, writes)
            ):
                continue
            waits.append(earlier.turn)
            for other, last in earlier.known.items():
                known[other] = max(last, known.get(other, 0))
        known[turn.worker] = turn.number
        self._known[turn.worker] = known
        self._taken.append(_Taken(turn, reads, writes, known))
        return tuple(waits)


def _meet(some: Iterable[ArenaRange], others: tuple[ArenaRange, ...]) -> bool:
    return any(a.begin < b.end and b.begin < a.end for a in some for b in others)
