# SPDX-License-Identifier: Apache-2.0
"""Local search over the order of a plan's steps, before and after programs are solved.

A program fixes the order of first computations; its stages produce each tensor at most once, in the
same order. Another order may have a lower RAM peak and so fewer recomputes and page-ins. This
search starts from a known plan, or the plan that keeps every tensor, and reorders its productions
(computations and page-ins). A move puts one production before an earlier one, together with the
productions that it depends on, or puts the earlier one after it, with its dependents. If RAM then
suffices to keep a tensor, its recompute or page-in is removed. A move is accepted if it decreases,
lexicographically: the excess over the limits, energy, time, and RAM use over all steps. The last
criterion lets several moves together achieve an improvement that no single one does.
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

_REACH = 16  # largest distance of two productions in a move
_MOVE_WORK = 3e-6  # work units per production of an evaluated plan

_Order = tuple[Production, ...]


def in_better_order(problem: ScheduleProblem, work: Work) -> ScheduleProblem:
    """The problem, reordered so that keeping every tensor exceeds the limits by less.

    Args:
        problem: the problem in any order.
        work: limit of the search.

    Returns:
        The problem itself if no better order was found.
    """
    plans = Plans(problem, work)
    start = plans.tried(tuple((i, StepKind.COMPUTE, True) for i in range(plans.graph.n)))
    *_, last = _descend(plans, start, work)
    if last.rank[0] >= start.rank[0]:
        return problem
    return replace(problem, nodes=tuple(problem.nodes[i] for i, _, _ in last.order))


def search_orders(best: Incumbent, start: ExecutionPlan, work: Work) -> None:
    """Offer the plans of a descent from `start`, until no move improves the last one.

    Args:
        best: the incumbent.
        start: a plan that is legal except that it may exceed the budget or the deadline.
        work: limit of the search.
    """
    plans = Plans(best.problem, work)
    tried = plans.shortened(plans.tried(productions(best.problem, start)))
    for known in _descend(plans, tried, work):
        best.offer(plan_of(plans.graph, known.order))


def _descend(plans: Plans, known: Tried, work: Work) -> Iterator[Tried]:
    """Yield the plan, and after each pass over all moves the improved plan."""
    improved = True
    while improved:
        yield known
        improved = False
        for distance in range(1, _REACH + 1):
            for first in range(len(known.order) - distance):
                if not work.is_left():
                    yield known
                    return
                # `known` may have become shorter than at the beginning of this loop.
                after = max(0, len(known.order) - first - distance - 1)
                for order in plans.swapped(known.order, first, first + distance):
                    swapped = plans.tried(order, Like(known, first, after, moved=True))
                    other = plans.shortened(swapped, quickly=True)
                    if other.rank < known.rank:
                        known, improved = plans.shortened(other), True
                        break


@dataclass(frozen=True)
class Tried:
    """An evaluated plan, which may exceed the limits.

    Attributes:
        order: its productions.
        freed: per production, the nodes whose tensors are freed right after it.
        during_bytes: per production, the bytes live while it runs.
        wanted: per production, a bit mask of the tensors that must be in RAM before it: read but
            not produced from it on; and 0 for the end.
        before_bytes: per production, the bytes live before it; and those live at the end.
        rank: excess over the limits (bytes + seconds), joules, seconds, Σ during_bytes²; compared
            lexicographically, less is better.
    """

    order: _Order
    freed: list[list[int]]
    during_bytes: list[int]
    wanted: list[int]
    before_bytes: list[int]
    rank: tuple[float, float, float, int]


@dataclass(frozen=True, slots=True)
class Like:
    """An evaluated plan that shares a prefix and a suffix with a new one, to evaluate that faster.

    Attributes:
        plan: the evaluated plan.
        before: number of productions in the shared prefix.
        after: number of productions in the shared suffix.
        moved: true if the new plan is a permutation of the evaluated one.
    """

    plan: Tried
    before: int
    after: int
    moved: bool = False


_NOTHING = Tried((), [], [], [0], [0], (0.0, 0.0, 0.0, 0))


class Plans:
    """Evaluates plans of a problem, given as productions that `plan_of` completes."""

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
        """Up to two orders in which production `last` comes before production `first`."""
        before, between, after = order[:first], order[first : last + 1], order[last + 1 :]
        moved, left = self._with_last(between, self._before, self._read)
        if not left or left[-1] is not order[first]:
            return  # the last depends on the first
        yield (*before, *reversed(moved), *reversed(left), *after)
        if last - first > 1:
            moved, left = self._with_last(between[::-1], self._read, self._before)
            yield (*before, *left, *moved, *after)

    @staticmethod
    def _with_last(
        order: _Order, late: list[int], early: list[int]
    ) -> tuple[list[Production], list[Production]]:
        """Productions that move with the last one, and those that stay, both in reverse order.

        `late` and `early` are bit masks of nodes. A computation of node i moves if the first
        computation of a node in `late[i]` moves; a first computation moves if a computation whose
        `early` contains its node moves. For moves forwards the two are swapped. Productions of one
        node keep their order.
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
        """Evaluate the plan with these productions, without unused ones.

        The productions after a step determine the tensors that must stay and so what the step
        frees. So the shared suffix of `like` is reused, and the shared prefix up to the point where
        the same tensors are wanted.
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
        """Remove productions one by one while that improves the plan.

        Args:
            known: a plan.
            quickly: try only productions whose tensor fits in RAM since its last use. Others can
                become removable too, if their inputs then need not stay.
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
        """Indices of the non-first productions that `shortened` tries to remove."""
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
