# SPDX-License-Identifier: Apache-2.0
"""Op order of the lowest peak: search between the lower bound and the incumbent."""

from __future__ import annotations

from dataclasses import dataclass

from poetfw.common.errors import PlanError
from poetfw.common.limits import Deadline, Work
from poetfw.memory.ordering.blocks import OrderingBlocks
from poetfw.memory.ordering.bounds import unavoidable_bytes
from poetfw.memory.ordering.gluing import Glued, glue
from poetfw.memory.ordering.ilp import solve_ilp
from poetfw.memory.ordering.indexed import IndexedOps
from poetfw.memory.ordering.problem import Ordering, OrderingProblem, OrderingStatus, peak_bytes
from poetfw.memory.ordering.search import Effort, OrderingSearch

_ROUNDS = (
    (Effort(4), 0.6),
    (Effort(2, 0, 0), 0.3),
    (Effort(16, 0, 0), 0.5),
    (Effort(32), 0.7),
    (Effort(256), 1.0),
)
"""Search effort of each round, and its share of the remaining work.

The first round solves typical networks; two without look-ahead serve all other graphs.
"""

_STATES_PER_UNIT = 150_000
"""Search states per unit of work."""

WORK_LIMIT = 10.0
"""Default work limit in units."""

_RAISES = 64
"""Proofs of too small budgets in a row before the search bisects."""

_PRECISION = 1_000
"""A round ends when the range of open budgets is below one part in this many of the peak."""


def order_ops(problem: OrderingProblem, work: Work | None = None, *, ilp: bool = True) -> Ordering:
    """Find an op order with a low peak, never above that of the problem's own order.

    The search tries the lower bound, then budgets between it and the incumbent. If that leaves a
    gap and the problem is small enough, an integer program follows. Work is counted in states, so
    the result is deterministic.

    Args:
        problem: the ops.
        work: work limit; None for the default.
        ilp: True allows the integer program (OLLA, eq. 14).

    Returns:
        An order that `peak_bytes` has accepted.
    """
    whole = work or Work(WORK_LIMIT)
    indexed = IndexedOps.of(problem)
    glued = glue(indexed)
    bounded = _Bounded.of(indexed, glued)
    blocks = OrderingBlocks.of(indexed, glued)
    states = int(max(0.0, whole.left) * _STATES_PER_UNIT)
    search = _Work(whole.deadline, states)
    for effort, share in _ROUNDS:
        if bounded.is_done or not search.is_left():
            break
        part = _Work(search.deadline, int(search.states * share))
        search.states -= part.states
        _close_in(indexed, blocks, bounded, effort, part)
        search.states += part.states
    whole.spend((states - search.states) / _STATES_PER_UNIT)
    if ilp and not bounded.is_done and whole.is_left():
        answer = solve_ilp(indexed, glued, bounded.order, bounded.lower, whole)
        bounded.keep(answer.order, answer.peak)
        bounded.lower = max(bounded.lower, answer.lower)
    order = tuple(problem.ops[i].name for i in bounded.order)
    peak = peak_bytes(problem, order)
    if peak != problem.resident_bytes + bounded.upper:
        raise PlanError(f"the order's peak is {peak} bytes, not what the search counted")
    return Ordering(
        order=order,
        peak_bytes=peak,
        lower_bound_bytes=problem.resident_bytes + bounded.lower,
        status=OrderingStatus.OPTIMAL if bounded.is_done else OrderingStatus.FEASIBLE,
    )


@dataclass(slots=True)
class _Bounded:
    """Incumbent and lower bound on the peak, both without resident bytes."""

    order: tuple[int, ...]
    upper: int
    lower: int

    @staticmethod
    def of(problem: IndexedOps, glued: Glued) -> _Bounded:
        given = tuple(range(problem.n))
        lower = int(unavoidable_bytes(problem, glued.before).max(initial=0))
        bounded = _Bounded(given, problem.peak(given), lower)
        joined = tuple(i for sequence in glued.sequences for i in sequence)
        bounded.keep(joined, problem.peak(joined))
        return bounded

    @property
    def is_done(self) -> bool:
        return self.upper <= self.lower

    def keep(self, order: tuple[int, ...], peak: int) -> None:
        if peak < self.upper:
            self.order, self.upper = order, peak


@dataclass(slots=True)
class _Work:
    """Remaining work."""

    deadline: Deadline
    states: int

    def is_left(self) -> bool:
        return self.states > 0 and not self.deadline.has_passed()


def _close_in(
    problem: IndexedOps, blocks: OrderingBlocks, bounded: _Bounded, effort: Effort, work: _Work
) -> None:
    """Raise the lower bound while proofs succeed; then bisect up to the incumbent."""
    budget = low = bounded.lower
    raises = 0
    while not bounded.is_done and work.is_left():
        search = OrderingSearch(blocks, budget, effort, work.states // 2, work.deadline)
        found = search.run()
        work.states -= found.states
        if found.order is not None:
            order = blocks.expand(found.order)
            bounded.keep(order, problem.peak(order))
        elif found.proven:
            bounded.lower = max(bounded.lower, found.next_budget)
        if found.proven and raises < _RAISES:
            raises += 1
            budget = low = bounded.lower
            continue
        if found.order is None:
            low = max(bounded.lower, found.next_budget, budget + 1)
        if bounded.upper - low < max(1, bounded.upper // _PRECISION):
            return
        budget = (low + bounded.upper - 1) // 2
