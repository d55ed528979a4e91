# SPDX-License-Identifier: Apache-2.0
"""Local search over the order of a plan's events, before and after programs are solved.

A program fixes the order of first computations; its stages produce each tensor at most once, in the
same order. Another order may have a lower RAM peak and so fewer recomputes and page-ins. This
search starts from a known plan, or the plan that keeps every tensor, and reorders its events
(computations and page-ins; see `sequences`). A move puts one event before an earlier one, together
with the events that it depends on, or puts the earlier one after it, with its dependents. If RAM
then suffices to keep a tensor, its recompute or page-in is removed. A move is accepted if it
decreases, lexicographically: the excess over the limits, energy, time, and RAM use over all events.
The last criterion lets several moves together achieve an improvement that no single one does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from poetfw.common.limits import Work
from poetfw.schedule.coefficients import Costs
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.problem import ExecutionPlan, ScheduleProblem
from poetfw.schedule.sequences import EventTrace, Floats, Integers, Workload
from poetfw.schedule.simulator import unlimited

if TYPE_CHECKING:
    from poetfw.schedule.found import Incumbent

_REACH = 16  # largest distance of two events in a move
_ORDER_WORK = 1e-4, 6e-7  # work units per evaluated order, and per event of it
_STEP_WORK = 3e-6  # work units per event of an order that is simulated

_Item = tuple[int, bool]
"""An event, and true if it is the first of its node."""


def in_better_order(problem: ScheduleProblem, work: Work) -> ScheduleProblem:
    """The problem, reordered so that keeping every tensor exceeds the limits by less.

    Args:
        problem: the problem in any order.
        work: limit of the search.

    Returns:
        The problem itself if no better order was found.
    """
    plans = Plans(problem, work)
    start = plans.tried(range(plans.workload.n))
    *_, last = _descend(plans, start, work)
    if last.rank[0] >= start.rank[0]:
        return problem
    return replace(problem, nodes=tuple(problem.nodes[i] for i in last.trace.events.tolist()))


def search_orders(best: Incumbent, start: ExecutionPlan, work: Work, gap: float = 0.0) -> None:
    """Offer the plans of a descent from `start`, until no move improves the last one.

    Args:
        best: the incumbent.
        start: a plan that is legal except that it may exceed the budget or the deadline.
        work: limit of the search.
        gap: share of the energy; the search ends where no plan takes less by more.
    """
    plans = Plans(best.problem, work)
    tried = plans.shortened(plans.tried(plans.workload.events(start)))
    for known in _descend(plans, tried, work):
        best.offer(plans.workload.plan(known.trace.events.tolist()))
        if best.is_best_of_all(gap):
            return


def _descend(plans: Plans, known: Tried, work: Work) -> Iterator[Tried]:
    """Yield the plan, and after each pass over all moves the improved plan."""
    improved = True
    while improved:
        yield known
        improved = False
        for distance in range(1, _REACH + 1):
            for first in range(len(known.trace.events) - distance):
                if not work.is_left():
                    yield known
                    return
                # `known` may have become shorter than at the beginning of this loop.
                for events in plans.swapped(known.trace, first, first + distance):
                    other = plans.shortened(plans.tried(events), quickly=True)
                    if other.rank < known.rank:
                        known, improved = plans.shortened(other), True
                        break


@dataclass(frozen=True)
class Tried:
    """An evaluated plan, which may exceed the limits.

    Attributes:
        trace: its events.
        rank: excess over the limits (bytes + seconds), joules, seconds, Σ during_bytes²; compared
            lexicographically, less is better.
    """

    trace: EventTrace
    rank: tuple[float, float, float, int]


class Plans:
    """Evaluates plans of a problem, given as events.

    Args:
        problem: the problem.
        work: limit of the search.
    """

    def __init__(self, problem: ScheduleProblem, work: Work) -> None:
        graph = Indexed.of(problem)
        self.workload = Workload(graph)
        self._problem = problem
        self._work = work
        self._prices = tuple(
            (np.array([*costs.compute, *costs.page_in]), np.array(costs.page_out))
            for costs in (Costs.energy(graph), Costs.time(graph))
        )
        self._overlap = problem.storage is not None and problem.storage.overlap
        bit = {node.name: 1 << i for i, node in enumerate(problem.nodes)}
        self._read = [sum({bit[u] for u in node.inputs}) for node in problem.nodes]
        self._before = [bit.get(node.recompute_before or "", 0) for node in problem.nodes]

    def swapped(self, trace: EventTrace, first: int, last: int) -> Iterator[Integers]:
        """Up to two sequences in which event `last` comes before event `first`."""
        part = slice(first, last + 1)
        between = list(zip(trace.events[part].tolist(), trace.first[part].tolist(), strict=True))
        moved, left = self._with_last(between, self._before, self._read)
        if not left or left[-1] is not between[0]:
            return  # the last depends on the first
        yield self._spliced(trace, part, [*reversed(moved), *reversed(left)])
        if last - first > 1:
            moved, left = self._with_last(between[::-1], self._read, self._before)
            yield self._spliced(trace, part, [*left, *moved])

    @staticmethod
    def _spliced(trace: EventTrace, part: slice, items: list[_Item]) -> Integers:
        """The events of a trace with those of a part in another order."""
        events = trace.events.copy()
        events[part] = [event for event, _ in items]
        return events

    def _with_last(
        self, items: list[_Item], late: list[int], early: list[int]
    ) -> tuple[list[_Item], list[_Item]]:
        """Events that move with the last one, and those that stay, both in reverse order.

        `late` and `early` are bit masks of nodes. A computation of node i moves if the first
        computation of a node in `late[i]` moves; a first computation moves if a computation whose
        `early` contains its node moves. For moves forwards the two are swapped. Events of one node
        keep their order.
        """
        moved: list[_Item] = []
        left: list[_Item] = []
        nodes = firsts = needed = 0
        for item in reversed(items):
            event, first = item
            i = event % self.workload.n
            computes = event == i
            if (
                not moved
                or 1 << i & (nodes | (needed if first else 0))
                or (computes and late[i] & firsts)
            ):
                moved.append(item)
                nodes |= 1 << i
                firsts |= 1 << i if first else 0
                needed |= early[i] if computes else 0
            else:
                left.append(item)
        return moved, left

    def tried(self, events: Sequence[int] | Integers) -> Tried:
        """Evaluate the plan with these events, without those that nothing reads."""
        problem = self._problem
        self._work.spend(_ORDER_WORK[0] + len(events) * _ORDER_WORK[1])
        trace = EventTrace.of(self.workload, events, self._work).pruned(self._work)
        joules, seconds = (self._cost(trace, *prices) for prices in self._prices)
        during: list[int] = trace.during_bytes.tolist()
        if self._overlap and trace.stored:
            self._work.spend(len(during) * _STEP_WORK)
            seconds = unlimited(problem, self.workload.plan(trace.events.tolist())).time_s
        beyond = sum(used - problem.ram_bytes for used in during if used > problem.ram_bytes)
        late_s = max(0.0, seconds - (problem.deadline_s or math.inf))
        load = sum(used * used for used in during)
        return Tried(trace, (beyond + late_s, joules, seconds, load))

    def _cost(self, trace: EventTrace, each: Floats, page_out: Floats) -> float:
        """Cost of all events and page-outs; the same number for events in any order."""
        counts = np.bincount(trace.events, minlength=len(each))
        made = np.flatnonzero(counts)
        paged = made[made >= self.workload.n] - self.workload.n
        return float((counts[made] * each[made]).sum() + page_out[paged].sum())

    def shortened(self, known: Tried, quickly: bool = False) -> Tried:
        """Remove events one by one while that improves the plan.

        Args:
            known: a plan.
            quickly: try only events whose tensor fits in RAM since its last use. Others can become
                removable too, if their inputs then need not stay.
        """
        improved = True
        while improved:
            improved = False
            for place in self._droppable(known.trace, quickly):
                if not self._work.is_left():
                    return known
                other = self.tried(np.delete(known.trace.events, place))
                if other.rank < known.rank:
                    known, improved = other, True
                    break
        return known

    def _droppable(self, trace: EventTrace, quickly: bool) -> Iterator[int]:
        """Positions of the events that `shortened` tries to remove: none is its node's first."""
        for place in trace.again.tolist():
            between = trace.during_bytes[trace.idle_from[place] : place]
            needed = between.max(initial=0) + self.workload.size[trace.nodes[place]]
            if not quickly or needed <= self._problem.ram_bytes:
                yield place
