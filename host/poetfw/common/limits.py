# SPDX-License-Identifier: Apache-2.0
"""Limits of a search: work, which determines its result, and time, which may only cut it short.

Work is counted in units that depend neither on the machine nor on its load, so the same input gets
the same result. One unit is about one second of one core. The clock has a single use: after a
command's time limit, every search ends with the best result so far, and the command says so. No
other module ends a search by the clock.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

WORK_LIMIT = 60.0
"""Units of work that a search for a schedule may take, unless the user sets another limit."""

TIME_LIMIT_S = 3600.0
"""Seconds that a command may take: far more than its work takes on a computer that is not busy."""

RAISE_TIME_LIMIT = "raise the time limit: it ended the search"
"""Advice where `Deadline.decided`."""

Clock = Callable[[], float]
"""Reads a clock, in seconds from an arbitrary origin."""

_T = TypeVar("_T")


class OutOfTime(Exception):
    """The time limit passed during a step that has no partial result.

    The caller of the step continues with the best result from before it.
    """


@dataclass(frozen=True, slots=True)
class Spent:
    """Work and seconds of a phase.

    Attributes:
        phase: its name.
        work: units of work; the same in every run.
        seconds: by the clock.
    """

    phase: str
    work: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of a command and of its phases. Nothing else in an answer differs from run to run.

    Attributes:
        seconds: in all, by the clock.
        phases: what each phase took, in the order in which they began.
    """

    seconds: float
    phases: tuple[Spent, ...]


class Deadline:
    """The one limit in seconds, for everything that a command does, and the log of its phases.

    Args:
        time_limit_s: seconds that it may take.
        clock: what to read them from.
        began_s: when it began, by that clock; None for now.

    Attributes:
        time_limit_s: as given.
        start_s: seconds from the beginning until this was made: what the program took to load.
        decided: True if a search ended because the time had passed.
    """

    def __init__(
        self,
        time_limit_s: float = math.inf,
        clock: Clock = time.perf_counter,
        began_s: float | None = None,
    ) -> None:
        self.time_limit_s = time_limit_s
        self.decided = False
        self._clock = clock
        now_s = clock()
        self._began_s = now_s if began_s is None else began_s
        self.start_s = now_s - self._began_s
        self._excluded_s = 0.0
        self._reserved_s = 0.0
        self._phases: dict[str, Spent] = {}

    @property
    def elapsed_s(self) -> float:
        """Seconds since the command began."""
        return self._clock() - self._began_s

    @property
    def left_s(self) -> float:
        """Seconds that are left to search, 0 or more."""
        return max(0.0, self.time_limit_s - self._taken_s() - self._reserved_s)

    def _taken_s(self) -> float:
        return self.elapsed_s - self._excluded_s

    def has_passed(self, ahead_s: float = 0.0) -> bool:
        """True if a search must end now; asked only by one that would go on otherwise.

        Args:
            ahead_s: for how many seconds it could not ask again.
        """
        passed = self.time_limit_s < math.inf and self.left_s <= ahead_s
        self.decided |= passed
        return passed

    @contextmanager
    def excluded(self) -> Iterator[None]:
        """A block that the limit does not cover."""
        began_s = self.elapsed_s
        try:
            yield
        finally:
            self._excluded_s += self.elapsed_s - began_s

    def reserve(self, times: float) -> None:
        """Reserve time for the stages after the searches: at most 90% of the time that is left.

        Args:
            times: how much, as a multiple of what has gone by: on a busy computer both take longer.
        """
        if self.time_limit_s < math.inf:
            self._reserved_s = min(times * self._taken_s(), 0.9 * self.left_s)

    def during(self, items: Iterable[_T]) -> Iterator[_T]:
        """These items one by one, while there is time.

        Raises:
            OutOfTime: The time is over.
        """
        for item in items:
            if self.has_passed():
                raise OutOfTime
            yield item

    @property
    def work(self) -> float:
        """Units of work of all phases so far."""
        return sum(phase.work for phase in self._phases.values())

    def timing(self) -> Timing:
        """Everything spent so far."""
        return Timing(self.elapsed_s, tuple(self._phases.values()))

    def note(self, phase: str, work: float, seconds: float) -> None:
        """Add to what a phase took."""
        before = self._phases.get(phase, Spent(phase, 0.0, 0.0))
        self._phases[phase] = Spent(phase, before.work + work, before.seconds + seconds)


class Work:
    """A budget of work units, with the command's deadline.

    Args:
        units: how much.
        deadline: when to end at the latest; None for never.

    Attributes:
        left: units that are left; below 0 where the last step took more.
        deadline: the command's.
    """

    def __init__(self, units: float = WORK_LIMIT, deadline: Deadline | None = None) -> None:
        self.left = units
        self.deadline = deadline or Deadline()
        self._whole: Work | None = None

    def is_left(self, ahead_s: float = 0.0) -> bool:
        """True if a search may continue that asks again only after `ahead_s` seconds."""
        return self.left > 0 and not self.deadline.has_passed(ahead_s)

    def spend(self, units: float) -> None:
        """Count work that was done."""
        self.left -= units
        if self._whole is not None:
            self._whole.spend(units)

    def part(self, units: float) -> Work:
        """A part of at most `units`; what is spent of the part is spent of the whole."""
        part = self.beside(max(0.0, min(units, self.left)))
        part._whole = self
        return part

    def beside(self, units: float) -> Work:
        """A separate budget with the same deadline, not charged to this one."""
        return Work(units, self.deadline)

    def metered(self, units: float) -> Deadline:
        """The deadline, for a step that goes through items by `Deadline.during`.

        Each item counts so much of this work, and the step ends where none is left.
        """
        return _Metered(self, units)

    @contextmanager
    def phase(self, name: str) -> Iterator[Work]:
        """Log what is spent in this block."""
        left, began_s = self.left, self.deadline.elapsed_s
        try:
            yield self
        finally:
            self.deadline.note(name, left - self.left, self.deadline.elapsed_s - began_s)


class _Metered(Deadline):
    """See `Work.metered`."""

    def __init__(self, work: Work, units: float) -> None:
        super().__init__()
        self._work, self._units = work, units

    def during(self, items: Iterable[_T]) -> Iterator[_T]:
        for item in self._work.deadline.during(items):
            if self._work.left <= 0:
                raise OutOfTime
            self._work.spend(self._units)
            yield item
