# SPDX-License-Identifier: Apache-2.0
"""Local search over orders of first computations, before and after programs are solved in one.

Programs are written for one order of first computations, and for stages that produce each tensor
once, in this order. In another one, less RAM may be needed at once, so that less must be computed
again or paged. This search starts from a plan, of a schedule or the one that keeps everything, and
moves its productions (computations and page-ins) past each other: one comes before another one
instead of after it, together with what must come before it as well, or the other way round. Where
that leaves RAM for it, a tensor stays that was produced again. A move is kept if the plan then
takes less beyond the limits, less energy, less time, or less RAM over its steps, in this order: so
what no single move can do, several may.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from poetfw.common.limits import Work
from poetfw.schedule.coefficients import Costs
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.plan import Production, plan_of, productions
from poetfw.schedule.problem import ExecutionPlan, ScheduleProblem, StepKind
from poetfw.schedule.simulator import simulate

if TYPE_CHECKING:
    from poetfw.schedule.found import Incumbent

_REACH = 16  # places that two productions are apart at most when they are moved past each other
_MOVE_WORK = 3e-6  # units for each production of a plan that is tried

_Order = tuple[Production, ...]


def in_better_order(problem: ScheduleProblem, work: Work) -> ScheduleProblem:
    """The problem in an order in which keeping everything exceeds the budget less, if one is found.

    Args:
        problem: in any order.
        work: what may be done.
    """
    plans = Plans(problem, work)
    start = plans.tried(tuple((i, StepKind.COMPUTE, True) for i in range(plans.graph.n)))
    *_, last = _descend(plans, start, work)
    if last.rank[0] >= start.rank[0]:
        return problem
    return replace(problem, nodes=tuple(problem.nodes[i] for i, _, _ in last.order))


def search_orders(best: Incumbent, start: ExecutionPlan, work: Work) -> None:
    """Offer the plans that moves lead to, until none makes the last one better.

    Args:
        best: what is known.
        start: a legal plan of the problem, but for its limits: it may take too much RAM or time.
        work: what may be done.
    """
    plans = Plans(best.problem, work)
    tried = plans.shortened(plans.tried(productions(best.problem, start)))
    for known in _descend(plans, tried, work):
        best.offer(plan_of(plans.graph, known.order))


def _descend(plans: Plans, known: Tried, work: Work) -> Iterator[Tried]:
    """A plan, and one that moves have made better each time that all have been tried."""
    improved = True
    while improved:
        yield known
        improved = False
        for distance in range(1, _REACH + 1):
            for first in range(len(known.order) - distance):
                if not work.is_left():
                    yield known
                    return
                # A better plan may be shorter than the one that this loop began with.
                after = max(0, len(known.order) - first - distance - 1)
                for order in plans.swapped(known.order, first, first + distance):
                    swapped = plans.tried(order, Like(known, first, after, moved=True))
                    other = plans.shortened(swapped, quickly=True)
                    if other.rank < known.rank:
                        known, improved = plans.shortened(other), True
                        break


@dataclass(frozen=True)
class Tried:
    """A plan, whether it fits or not.

    Attributes:
        order: its productions.
        freed: per production, the nodes whose tensors are freed right after it.
        during_bytes: per production, the bytes live while it is made.
        wanted: per production, which tensors it and those after it read and do not make, a bit for
            each node; and nothing behind the last one.
        before_bytes: per production, the bytes live before it; and those left at the end.
        rank: less is better: what it takes beyond the limits, joules, seconds, and how full RAM is.
    """

    order: _Order
    freed: list[list[int]]
    during_bytes: list[int]
    wanted: list[int]
    before_bytes: list[int]
    rank: tuple[float, float, float, int]


@dataclass(frozen=True, slots=True)
class Like:
    """A plan that another one is like, so that only what differs need be worked out.

    Attributes:
        plan: that plan.
        before: with how many of its productions the other one begins.
        after: with how many of its productions the other one ends.
        moved: whether the other one has the same productions, only in another order.
    """

    plan: Tried
    before: int
    after: int
    moved: bool = False


_NOTHING = Tried((), [], [], [0], [0], (0.0, 0.0, 0.0, 0))


class Plans:
    """Tries plans of a problem: lists of productions, of which all else follows (`plan_of`)."""

    def __init__(self, problem: ScheduleProblem, work: Work) -> None:
        self.graph = Indexed.of(problem)
        self._problem = problem
        self._work = work
        self._joules, self._seconds = Costs.energy(self.graph), Costs.time(self.graph)
        self._overlap = problem.storage is not None and problem.storage.overlap
        bit = {node.name: 1 << i for i, node in enumerate(problem.nodes)}
        self._bit = tuple(bit.values())
        self._read = [sum({bit[u] for u in node.inputs}) for node in problem.nodes]
        self._before = [bit.get(node.recompute_before or "", 0) for node in problem.nodes]

    def swapped(self, order: _Order, first: int, last: int) -> Iterator[_Order]:
        """With the last of a range before its first one, in two ways, if that is allowed."""
        before, between, after = order[:first], order[first : last + 1], order[last + 1 :]
        moved, left = self._with_last(between, self._before, self._read)
        if not left or left[-1] is not order[first]:
            return  # the first must precede the last
        yield (*before, *reversed(moved), *reversed(left), *after)
        if last - first > 1:
            moved, left = self._with_last(between[::-1], self._read, self._before)
            yield (*before, *left, *moved, *after)

    @staticmethod
    def _with_last(
        order: _Order, late: list[int], early: list[int]
    ) -> tuple[list[Production], list[Production]]:
        """The events that move with the last one, and those that stay, both from the last on.

        Backwards in time, computing node i goes with first computations of `late[i]`, and the first
        computation of a node with computations whose `early` has it. Forwards it is the other way
        round. Productions of one node stay in their order.
        """
        moved: list[Production] = []
        left: list[Production] = []
        nodes = firsts = needed = 0
        for item in reversed(order):
            i, kind, first = item
            again = kind is StepKind.COMPUTE
            if (
                not moved
                or 1 << i & (nodes | (needed if first else 0))
                or (again and late[i] & firsts)
            ):
                moved.append(item)
                nodes |= 1 << i
                firsts |= 1 << i if first else 0
                needed |= early[i] if again else 0
            else:
                left.append(item)
        return moved, left

    def tried(self, order: _Order, like: Like | None = None) -> Tried:
        """The plan with these productions, as far as anything reads them.

        What follows a production says what must be there after it, and that what it frees. So
        where it ends like another plan nothing changes, nor before where the same is wanted.
        """
        self._work.spend(len(order) * _MOVE_WORK)
        like = like or Like(_NOTHING, 0, 0)
        known, size, inputs, bit = like.plan, self.graph.size, self.graph.inputs, self._bit
        ends = len(known.order) - like.after
        kept: list[Production] = []
        freed: list[list[int]] = []
        masks: list[int] = []
        wanted = known.wanted[ends]
        begins = 0
        for index in range(len(order) - like.after - 1, -1, -1):
            if index < like.before and wanted == known.wanted[index + 1]:
                begins = index + 1
                break
            item = order[index]
            i, kind, first = item
            used = wanted & bit[i]
            if not (used or first):
                continue
            wanted &= ~bit[i]
            gone = []
            if kind is not StepKind.PAGE_IN:
                gone = [u for u in inputs[i] if not wanted & bit[u]]
                for u in gone:
                    wanted |= bit[u]
                if not used and size[i]:
                    gone.append(i)
            kept.append(item)
            freed.append(gone)
            masks.append(wanted)
        kept.reverse()
        freed.reverse()
        masks.reverse()
        live, during, before = known.before_bytes[begins], [], []
        for (i, kind, _), gone in zip(kept, freed, strict=True):
            before.append(live)
            live += size[i]
            taken = self.graph.in_place[i]
            at_work = kind is StepKind.COMPUTE
            room = size[i] if at_work and taken is not None and taken in gone else 0
            during.append(live - room + (self.graph.workspace[i] if at_work else 0))
            for u in gone:
                live -= size[u]
        kept = [*known.order[:begins], *kept, *known.order[ends:]]
        freed = [*known.freed[:begins], *freed, *known.freed[ends:]]
        during = [*known.during_bytes[:begins], *during, *known.during_bytes[ends:]]
        masks = [*known.wanted[:begins], *masks, *known.wanted[ends:]]
        before = [*known.before_bytes[:begins], *before, *known.before_bytes[ends:]]
        paged = {i for i, kind, _ in kept if kind is StepKind.PAGE_IN}
        if like.moved and len(kept) == len(known.order):
            _, joules, seconds, _ = known.rank
        else:
            joules, seconds = (
                self._cost(costs, kept, paged) for costs in (self._joules, self._seconds)
            )
        if self._overlap and paged:
            enough = replace(self._problem, ram_bytes=max(during) + before[-1], deadline_s=None)
            seconds = simulate(enough, plan_of(self.graph, kept)).time_s
        beyond = sum(
            used - self._problem.ram_bytes for used in during if used > self._problem.ram_bytes
        )
        late_s = max(0.0, seconds - (self._problem.deadline_s or math.inf))
        load = sum(used * used for used in during)
        rank = beyond + late_s, joules, seconds, load
        return Tried(tuple(kept), freed, during, masks, before, rank)

    def _cost(self, costs: Costs, order: list[Production], paged: set[int]) -> float:
        made = [
            (costs.compute if kind is StepKind.COMPUTE else costs.page_in)[i]
            for i, kind, _ in order
        ]
        return math.fsum([*made, *(costs.page_out[i] for i in paged)])

    def shortened(self, known: Tried, quickly: bool = False) -> Tried:
        """Without productions that are better left out.

        Args:
            known: a plan.
            quickly: whether to try only to leave out what there is RAM enough to keep. Beyond that
                there is what need not stay any more for an op that is not computed again.
        """
        improved = True
        while improved:
            improved = False
            for index in self._droppable(known, quickly):
                if not self._work.is_left():
                    return known
                order = known.order[:index] + known.order[index + 1 :]
                other = self.tried(order, Like(known, index, len(order) - index))
                if other.rank < known.rank:
                    known, improved = other, True
                    break
        return known

    def _droppable(self, known: Tried, quickly: bool) -> Iterator[int]:
        """The indices of productions of what was in RAM before; see `shortened`."""
        if all(first for _, _, first in known.order):
            return
        ended: dict[int, int] = {}
        for index, ((i, _, first), gone) in enumerate(zip(known.order, known.freed, strict=True)):
            if not first:
                between = known.during_bytes[ended[i] + 1 : index]
                needed = max(between, default=0) + self.graph.size[i]
                if not quickly or needed <= self._problem.ram_bytes:
                    yield index
            for u in gone:
                ended[u] = index
