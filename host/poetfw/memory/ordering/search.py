# SPDX-License-Identifier: Apache-2.0
"""Search for an op order whose peak stays within a budget in bytes.

A state is a set of ops that have run, closed under predecessors; its live bytes depend on the set
alone, not on the order. Live bytes are a *submodular* function of the set: a tensor
counts [producer in D] - [producer and all readers in D], and the second term is supermodular. This
gives the dominance rule that makes the search fast:

    If a set S can run from state D within the budget, and S leaves no more live bytes than D or
    any set between them, then running S next is optimal: for every later state Y,
    live(Y + S) ≤ live(Y) + live(S) - live(Y and S) ≤ live(Y).

The rule also holds for ops that may overwrite a dying input in place: the more ops have run before,
the fewer bytes they need.

A smallest S with live(S) ≤ live(D) satisfies the condition. Let M be the set of least live bytes
inside S; if S is reachable within the budget, so is M, by the same ops in the same order without
those outside M. Let U be the set of ops run on the way to S up to and including some op of M. While
that op runs, the live bytes are live(U) plus a constant plus the inputs that die with it, except
one that it overwrites. On the way to M the set is U and M instead of U: no more inputs die there,
and live(U and M) ≤ live(U) + live(M) - live(U + M) ≤ live(U).

Such sets run as soon as they are found. The remaining states are searched by number of ops, with
equal states merged (beam search). If no state was dropped by the width limit, a failed search
proves that no order fits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import nsmallest
from typing import NamedTuple

from poetfw.common.limits import Deadline
from poetfw.memory.ordering.blocks import OrderingBlocks

_Path = tuple[int, "_Path"] | None
"""Ops that have run, the last one first."""


class Effort(NamedTuple):
    """Limits of a search.

    Attributes:
        width: most states with the same number of ops.
        descent: most states visited while searching, from one op, for a set that frees at least the
            bytes it adds.
        joint: the same limit for the search from all ready ops.
    """

    width: int
    descent: int = 48
    joint: int = 160


class State(NamedTuple):
    """Set of ops that have run.

    Attributes:
        left: mask of the ops that have not run.
        live: live bytes.
        ready: ops that can run next, ascending.
        path: the ops that have run, in order.
    """

    left: int
    live: int
    ready: tuple[int, ...]
    path: _Path


@dataclass(frozen=True, slots=True)
class FoundOrder:
    """Result of a search.

    Attributes:
        order: an order within the budget, or None.
        proven: True if no order is within the budget.
        next_budget: without an order, the smallest budget for which the search would differ; if
            `proven`, a lower bound on the peak.
        states: number of states visited.
    """

    order: tuple[int, ...] | None
    proven: bool
    next_budget: int
    states: int


class OrderingSearch:
    """Search at one budget.

    Args:
        problem: the blocks.
        budget: most live bytes while an op runs.
        effort: limits of the search.
        states: most states to visit.
        deadline: time limit.
    """

    def __init__(
        self, problem: OrderingBlocks, budget: int, effort: Effort, states: int, deadline: Deadline
    ) -> None:
        self._problem = problem
        self._budget = budget
        self._effort = effort
        self._states = states
        self._deadline = deadline
        self._visited = 0
        self._exceeded: int | None = None

    def run(self) -> FoundOrder:
        """Run the search."""
        problem = self._problem
        everything = (1 << problem.n) - 1
        ready = tuple(i for i in range(problem.n) if not problem.predecessors[i])
        levels: dict[int, dict[int, State]] = {}
        self._keep(levels, self._descend(State(everything, 0, ready, None)))
        complete = True
        for ran in range(problem.n):
            level = levels.pop(ran, None)
            if not level:
                continue
            if self._visited > self._states or self._deadline.has_passed():
                return self._result(None, False)
            states = list(level.values())
            if len(states) > self._effort.width:
                complete = False
                states = nsmallest(self._effort.width, states, key=lambda s: (s.live, s.left))
            for state in states:
                for after in self._steps(state, state.ready):
                    known = levels.get(problem.n - after.left.bit_count())
                    if known is None or after.left not in known:
                        self._keep(levels, self._descend(after))
        final = levels.get(problem.n)
        return self._result(final[0] if final else None, complete)

    def _result(self, final: State | None, complete: bool) -> FoundOrder:
        next_budget = self._budget + 1 if self._exceeded is None else self._exceeded
        order = None if final is None else order_of(final.path)
        return FoundOrder(order, final is None and complete, next_budget, self._visited)

    def _keep(self, levels: dict[int, dict[int, State]], state: State) -> None:
        ran = self._problem.n - state.left.bit_count()
        levels.setdefault(ran, {})[state.left] = state

    def _steps(self, state: State, ops: tuple[int, ...]) -> Iterator[State]:
        """Yield the states after each op that fits the budget."""
        problem = self._problem
        left, live, ready, path = state
        for i in ops:
            during = bytes_after = live
            for peak, net, frees, readers, apart in problem.parts[i]:
                during = max(during, bytes_after + (apart if readers & left else peak))
                bytes_after += net
                for size, mask in frees:
                    if not mask & left:
                        bytes_after -= size
            if during > self._budget:
                if self._exceeded is None or during < self._exceeded:
                    self._exceeded = during
                continue
            self._visited += 1
            after = left & ~(1 << i)
            woken = [j for j in problem.successors[i] if not problem.predecessors[j] & after]
            rest = tuple(j for j in ready if j != i)
            yield State(
                after, bytes_after, tuple(sorted((*rest, *woken))) if woken else rest, (i, path)
            )

    def _descend(self, state: State) -> State:
        """Run dominating sets while they are easy to find."""
        while True:
            lower = self._one(state) or self._from_one(state) or self._jointly(state)
            if lower is None:
                return state
            state = lower

    def _one(self, state: State) -> State | None:
        """State after one op that leaves no more live bytes."""
        if len(state.ready) == 1:
            return next(self._steps(state, state.ready), None)
        return next((s for s in self._steps(state, state.ready) if s.live <= state.live), None)

    def _from_one(self, state: State) -> State | None:
        """State after a smallest set that begins with one op and continues with its successors."""
        before = set(state.ready)
        for i in state.ready:
            found = self._smallest(
                state, next(self._steps(state, (i,)), None), before, self._effort.descent
            )
            if found is not None:
                return found
        return None

    def _jointly(self, state: State) -> State | None:
        """State after a smallest set of any ready ops."""
        return self._smallest(state, state, set(), self._effort.joint)

    def _smallest(
        self, origin: State, first: State | None, excluded: set[int], limit: int
    ) -> State | None:
        """State after the smallest set from `first` on that leaves no more bytes than `origin`."""
        level = {first.left: first} if first is not None else {}
        while level:
            following: dict[int, State] = {}
            for state in level.values():
                ops = tuple(i for i in state.ready if i not in excluded)
                for after in self._steps(state, ops):
                    following[after.left] = after
                limit -= len(ops)
                if limit < 0:
                    return None
            lowest = min(following.values(), key=lambda s: (s.live, s.left), default=None)
            if lowest is not None and lowest.live <= origin.live:
                return lowest
            level = following
        return None


def order_of(path: _Path) -> tuple[int, ...]:
    """Ops of a path in execution order."""
    order = []
    while path is not None:
        i, path = path
        order.append(i)
    return tuple(reversed(order))
