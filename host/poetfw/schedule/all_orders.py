# SPDX-License-Identifier: Apache-2.0
"""The best plan of a small problem in any order, by the A* algorithm.

A state is what has been computed, what is in RAM and what is in storage. From there a node is
computed, a tensor paged in, or one freed. Paging out early loses nothing, so a tensor is paged out
right after it is computed first, or never. Every node that was not computed yet takes its energy at
least.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from poetfw.common.limits import Work
from poetfw.schedule.compact import Costs
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.problem import ExecutionPlan, Step, StepKind

if TYPE_CHECKING:
    from poetfw.schedule.found import Incumbent

NODES = 10
"""Problems with more nodes are not searched in all orders."""

_STATE_WORK = 2e-5  # units for each state


class _State(NamedTuple):
    """Sets of nodes as bits: computed, in RAM, in storage."""

    done: int
    ram: int
    aux: int


_Move = tuple[float, _State, tuple[Step, ...]]
"""Joules, where they lead, and the steps."""


def search_all_orders(best: Incumbent, work: Work) -> None:
    """Offer the best plan, and prove what every plan takes; without regard to a deadline.

    Args:
        best: what is known.
        work: what may be done; if it is too little, nothing comes of it.
    """
    found = _best_plan(_Moves(Indexed.of(best.problem)), best.found.energy_j, work)
    if found is None:
        return
    energy_j, plan = found
    best.offer(plan)
    best.prove_of_every_plan(min(energy_j, best.found.energy_j))


def _best_plan(
    moves: _Moves, known_j: float, work: Work
) -> tuple[float, ExecutionPlan | None] | None:
    """The least joules and a plan that takes them; no plan if none is better than a known one."""
    start = _State(0, 0, 0)
    spent_j = {start: 0.0}
    came_from: dict[_State, tuple[_State, tuple[Step, ...]]] = {}
    queue = [(moves.least_j(start), start)]
    ended: set[_State] = set()
    while queue:
        least_j, state = heapq.heappop(queue)
        if least_j >= known_j:
            return known_j, None
        if state in ended:
            continue
        ended.add(state)
        if not work.is_left():
            return None
        work.spend(_STATE_WORK)
        if state.done == moves.everything:
            steps: list[Step] = list(moves.frees(state.ram))
            while state != start:
                state, last = came_from[state]
                steps[:0] = last
            return least_j, tuple(steps)
        for joules, other, last in moves.of(state):
            total_j = spent_j[state] + joules
            if total_j < spent_j.get(other, math.inf):
                spent_j[other] = total_j
                came_from[other] = state, last
                heapq.heappush(queue, (total_j + moves.least_j(other), other))
    return math.inf, None


class _Moves:
    """Moves from state to state, with what they cost."""

    def __init__(self, graph: Indexed) -> None:
        nodes, costs = graph.problem.nodes, Costs.energy(graph)
        position = {node.name: i for i, node in enumerate(nodes)}
        self.graph, self.nodes, self.costs = graph, nodes, costs
        self.everything = (1 << graph.n) - 1
        self.reads = [sum(1 << u for u in inputs) for inputs in graph.inputs]
        self.after = [sum({1 << position[u] for u in node.inputs}) for node in nodes]
        self.closes = [
            0 if node.recompute_before is None else 1 << position[node.recompute_before]
            for node in nodes
        ]
        self.ram_bytes = graph.problem.ram_bytes

    def least_j(self, state: _State) -> float:
        """Joules of what is still to be computed."""
        return math.fsum(
            joules for i, joules in enumerate(self.costs.compute) if not state.done >> i & 1
        )

    def live(self, ram: int) -> int:
        return sum(size for i, size in enumerate(self.graph.size) if ram >> i & 1)

    def frees(self, ram: int) -> Iterator[Step]:
        """Steps that free what is in RAM."""
        return (Step(StepKind.FREE, node.name) for i, node in enumerate(self.nodes) if ram >> i & 1)

    def of(self, state: _State) -> Iterator[_Move]:
        """All moves from a state."""
        done, ram, aux = state
        live, size = self.live(ram), self.graph.size
        for i, node in enumerate(self.nodes):
            bit = 1 << i
            if ram & bit:
                yield 0.0, _State(done, ram & ~bit, aux), (Step(StepKind.FREE, node.name),)
                continue
            if aux & bit and live + size[i] <= self.ram_bytes:
                step = Step(StepKind.PAGE_IN, node.name)
                yield self.costs.page_in[i], _State(done, ram | bit, aux), (step,)
            first = not done & bit
            if (first or (node.recompute and size[i])) and not (
                self.reads[i] & ~ram or self.after[i] & ~done or self.closes[i] & done
            ):
                yield from self.computing(state, i, live, first)

    def computing(self, state: _State, i: int, live: int, first: bool) -> Iterator[_Move]:
        """Moves that compute a node: over an input or not, paged out at once or not."""
        done, ram, aux = state
        bit, size, node = 1 << i, self.graph.size, self.nodes[i]
        output = bit if size[i] else 0
        taken = self.graph.in_place[i]
        alone: tuple[Step, ...] = (Step(StepKind.COMPUTE, node.name),)
        outcomes = [(ram | output, live + size[i], alone)]
        if taken is not None:
            steps = (*alone, Step(StepKind.FREE, self.nodes[taken].name))
            outcomes.append(((ram | output) & ~(1 << taken), live, steps))
        for after, during, steps in outcomes:
            if during + self.graph.workspace[i] > self.ram_bytes:
                continue
            joules = self.costs.compute[i]
            yield joules, _State(done | bit, after, aux), steps
            if first and self.graph.pageable[i]:
                joules += self.costs.page_out[i]
                out = Step(StepKind.PAGE_OUT, node.name)
                yield joules, _State(done | bit, after, aux | bit), (*steps, out)
