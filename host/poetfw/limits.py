# SPDX-License-Identifier: Apache-2.0
"""What a search may spend: work, which makes its answer; and time, which may only end it.

Work is counted in units that do not depend on the machine or on what else it does, so the same
input gets the same answer. One unit is about what one core does in a second. The clock has one use:
when the time limit of a command has passed, every search ends with the best it knows, and the
answer says so. No other module decides by a clock when a search ends.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

WORK_LIMIT = 60.0
"""Units of work that a search for a schedule may take, unless the user sets another limit."""

TIME_LIMIT_S = 3600.0
"""Seconds that a command may take: far more than its work takes on a computer that is not busy."""

Clock = Callable[[], float]
"""Seconds, from any moment on."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What a phase took.

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
    """What a command took. Nothing else in an answer differs from run to run.

    Attributes:
        seconds: in all, by the clock.
        phases: what each phase took, in the order in which they began.
    """

    seconds: float
    phases: tuple[Spent, ...]


class Deadline:
    """The one limit in seconds, for everything that a command does, and the log of its phases.

    Args:
        time_limit_s: seconds from now.
        clock: what to read them from.

    Attributes:
        time_limit_s: as given.
        decided: whether a search ended because the time had passed.
    """

    def __init__(self, time_limit_s: float = math.inf, clock: Clock = time.perf_counter) -> None:
        self.time_limit_s = time_limit_s
        self.decided = False
        self._clock = clock
        self._began_s = clock()
        self._phases: dict[str, Spent] = {}

    @property
    def elapsed_s(self) -> float:
        """Seconds since the command began."""
        return self._clock() - self._began_s

    @property
    def left_s(self) -> float:
        """Seconds that are left, 0 or more."""
        return max(0.0, self.time_limit_s - self.elapsed_s)

    def has_passed(self) -> bool:
        """Whether a search must end now; asked only by one that would go on otherwise."""
        passed = self.time_limit_s < math.inf and self.left_s == 0
        self.decided |= passed
        return passed

    def timing(self) -> Timing:
        """What was spent so far."""
        return Timing(self.elapsed_s, tuple(self._phases.values()))

    def note(self, phase: str, work: float, seconds: float) -> None:
        """Add to what a phase took."""
        before = self._phases.get(phase, Spent(phase, 0.0, 0.0))
        self._phases[phase] = Spent(phase, before.work + work, before.seconds + seconds)


class Work:
    """Work that may still be done, and the deadline.

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

    def is_left(self) -> bool:
        """Whether a search may go on."""
        return self.left > 0 and not self.deadline.has_passed()

    def spend(self, units: float) -> None:
        """Count work that was done."""
        self.left -= units
        if self._whole is not None:
            self._whole.spend(units)

    def part(self, units: float) -> Work:
        """At most so much of what is left: what is spent of it is spent of the whole."""
        part = self.beside(max(0.0, min(units, self.left)))
        part._whole = self
        return part

    def beside(self, units: float) -> Work:
        """Work that does not count here, with the same deadline."""
        return Work(units, self.deadline)

    @contextmanager
    def phase(self, name: str) -> Iterator[Work]:
        """Log what is spent in this block."""
        left, began_s = self.left, self.deadline.elapsed_s
        try:
            yield self
        finally:
            self.deadline.note(name, left - self.left, self.deadline.elapsed_s - began_s)
