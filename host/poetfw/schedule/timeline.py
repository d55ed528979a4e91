# SPDX-License-Identifier: Apache-2.0
"""Begin and end of each step of a plan, on the core and one storage channel.

Without overlap the core waits for every transfer. With overlap, a page-in or page-out step only
starts a transfer, in the plan's order on one channel, and the core continues. The core waits before
an op whose input is still being paged in, and before freeing a tensor that is still being paged
out. The core's own work for a transfer (interrupts, checksums) is charged when the transfer starts,
except for work that needs the whole tensor, which is charged once it is in RAM.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from poetfw.common.transfer import BusyTimes


class Span(NamedTuple):
    """Begin and end of a step, in seconds from the plan's start; a free takes no time."""

    start_s: float
    end_s: float


class StepCost(NamedTuple):
    """Planned time and energy of a step.

    Attributes:
        begin_s, end_s: seconds from the plan's start; a free takes no time.
        energy_j: joules.
        waits: times before the step in which the core waits for transfers that it needs; on a board
            where the core waits for every transfer, the transfer's own.
    """

    begin_s: float
    end_s: float
    energy_j: float
    waits: tuple[Span, ...] = ()


_LONG_THERE = 0.0, 0.0


class Clock:
    """The time at which each step runs, as a plan is replayed.

    Attributes:
        spans: begin and end of each step so far.
        stall_s: seconds that the core waited for transfers.
        waits: by index of the step, when the core waited for transfers.
    """

    def __init__(self, overlap: bool) -> None:
        self._overlap = overlap
        self._core_s = 0.0
        self._channel_s = 0.0
        self._arrives_s: dict[str, tuple[float, float]] = {}  # arrival, and the core's work then
        self._written_s: dict[str, float] = {}
        self.spans: list[Span] = []
        self.waits: dict[int, tuple[Span, ...]] = {}
        self.stall_s = 0.0

    def copy(self) -> Clock:
        """A copy of the clock's state, without `spans` and `waits`."""
        clock = Clock(self._overlap)
        clock._core_s, clock._channel_s = self._core_s, self._channel_s
        clock._arrives_s, clock._written_s = dict(self._arrives_s), dict(self._written_s)
        clock.stall_s = self.stall_s
        return clock

    def state_s(self, names: Iterable[str]) -> tuple[float, ...]:
        """Times in seconds that determine the rest of the plan's; smaller is better in each.

        Args:
            names: all tensors.
        """
        core_s, state = self._core_s, [self._core_s, self._channel_s]
        for name in names:
            arrives_s, apart_s = self._arrives_s.get(name, _LONG_THERE)
            state += max(core_s, arrives_s), apart_s, max(core_s, self.written_s(name))
        return tuple(state)

    @property
    def makespan_s(self) -> float:
        """Seconds until core and channel are done."""
        return max(self._core_s, self._channel_s)

    @property
    def core_s(self) -> float:
        """Time at which the core is done with its steps so far."""
        return self._core_s

    def written_s(self, name: str) -> float:
        """Time at which a tensor's page-out ends, if it has begun; else 0."""
        return self._written_s.get(name, 0.0)

    def compute(self, inputs: Iterable[str], time_s: float) -> None:
        """Run an op once all its inputs are in RAM."""
        for name in inputs:
            self._receive(name)
        self.spans.append(Span(self._core_s, self._core_s + time_s))
        self._core_s += time_s

    def take_over(self, name: str) -> None:
        """Wait for the page-out of a tensor that the next op overwrites."""
        self._wait(self._written_s.get(name, 0.0))

    def page_in(self, name: str, moving: BusyTimes) -> None:
        """Start a page-in once the tensor's page-out has ended and the channel is free."""
        self._transfer(self._written_s.get(name, 0.0), moving.storage_s)
        self._arrives_s[name] = self._channel_s, moving.apart_s
        self._core_s += moving.during_s

    def page_out(self, name: str, moving: BusyTimes) -> None:
        """Start a page-out once the tensor is in RAM and the channel is free."""
        self._core_s += moving.apart_s
        arrives_s, _ = self._arrives_s.get(name, _LONG_THERE)
        self._transfer(arrives_s, moving.storage_s)
        self._written_s[name] = self._channel_s
        self._core_s += moving.during_s

    def free(self, name: str) -> None:
        """Free a tensor's RAM as soon as no transfer uses it."""
        self._wait(self._written_s.get(name, 0.0))
        self._receive(name)
        self.spans.append(Span(self._core_s, self._core_s))

    def _receive(self, name: str) -> None:
        """Wait for a tensor's page-in, and do the core's work for it."""
        arrives_s, apart_s = self._arrives_s.pop(name, _LONG_THERE)
        self._wait(arrives_s)
        self._core_s += apart_s

    def _transfer(self, possible_s: float, time_s: float) -> None:
        start_s = max(self._core_s, self._channel_s, possible_s)
        self._channel_s = start_s + time_s
        if not self._overlap:
            self._note_wait(start_s, self._channel_s)
            self._core_s = self._channel_s
        self.spans.append(Span(start_s, self._channel_s))

    def _wait(self, until_s: float) -> None:
        if until_s > self._core_s:
            self.stall_s += until_s - self._core_s
            self._note_wait(self._core_s, until_s)
            self._core_s = until_s

    def _note_wait(self, begin_s: float, end_s: float) -> None:
        """Note a wait of the step that begins next."""
        step = len(self.spans)
        self.waits[step] = (*self.waits.get(step, ()), Span(begin_s, end_s))
