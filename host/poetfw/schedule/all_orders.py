# SPDX-License-Identifier: Apache-2.0
"""Optimal plan of a small problem over all orders, by A* search.

A state consists of the nodes computed so far, the tensors in RAM and those in storage. A move
computes a node, pages a tensor in or out, or frees one. The heuristic, a lower bound of the energy
left, is the energy of all nodes not yet computed.

Without a deadline a tensor is paged out right after its first computation or never: paging out
early costs nothing. With a deadline the search keeps several paths per state, the Pareto front of
energy and the times at which core, channel and pending transfers are done.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from poetfw.common.limits import Work
from poetfw.schedule.coefficients import Costs
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.problem import ExecutionPlan, Step, StepKind
from poetfw.schedule.simulator import TIME_TOLERANCE
from poetfw.schedule.timeline import Clock

if TYPE_CHECKING:
    from poetfw.schedule.found import Incumbent

NODES = 10
"""Largest number of nodes of a problem for this search."""

_STATE_WORK = 2e-5  # work units per state
_ROUNDING = 1e-12


class _State(NamedTuple):
    """A state, with sets of nodes as bit masks.

    Attributes:
        done, ram, aux: nodes computed; tensors in RAM; tensors in storage.
        kept: input that the last step could have taken over but did not. It must not be freed next:
            the simulator would treat it as taken over. 0 for no such input, or without deadline.
    """

    done: int
    ram: int
    aux: int
    kept: int = 0


class _Move(NamedTuple):
    """Steps from a state, with their joules and the state that they lead to."""

    joules: float
    state: _State
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class _Way:
    """A path of the search from the start to a state.

    Attributes:
        state: the state reached.
        joules: energy of all steps.
        clock: clock in this state; None without a deadline.
        before: path without the last move; None at the start.
        steps: steps of the last move.
    """

    state: _State
    joules: float
    clock: Clock | None
    before: _Way | None = None
    steps: tuple[Step, ...] = ()

    def plan(self) -> ExecutionPlan:
        """All steps of the path."""
        parts, way = [], self
        while way.before is not None:
            parts.append(way.steps)
            way = way.before
        return tuple(step for part in reversed(parts) for step in part)


def search_all_orders(best: Incumbent, work: Work) -> None:
    """Offer an optimal plan, and prove its energy as a lower bound of all plans.

    The first search ignores the deadline; a second one follows if its plan misses the deadline.

    Args:
        best: the incumbent.
        work: limit of the search; if it runs out, nothing is offered or proven.
    """
    graph = Indexed.of(best.problem)
    for in_time in (False, True) if best.problem.deadline_s is not None else (False,):
        found = _best_plan(_Moves(graph, in_time), best.found.energy_j, work)
        if found is None:
            return
        energy_j, plan = found
        best.offer(plan)
        best.prove_of_every_plan(min(energy_j, best.found.energy_j))
        if best.found.energy_j <= best.found.every_j:
            return


def _best_plan(
    moves: _Moves, known_j: float, work: Work
) -> tuple[float, ExecutionPlan | None] | None:
    """Least joules and an optimal plan; `known_j` and None if no plan is better than the known one.

    Returns:
        None if the work ran out.
    """
    start = _Way(_State(0, 0, 0), 0.0, moves.clock)
    labels = {start.state: [moves.label(start)]}
    number = count()
    queue = [(moves.least_j(start.state), next(number), moves.label(start), start)]
    while queue:
        least_j, _, label, way = heapq.heappop(queue)
        if least_j >= known_j:
            return known_j, None
        if label not in labels[way.state]:
            continue  # dominated by another path
        if not work.is_left():
            return None
        work.spend(_STATE_WORK)
        if way.state == moves.end:
            return least_j, way.plan()
        for move in moves.of(way.state):
            other = moves.after(way, move)
            if other is None:
                continue
            label, known = moves.label(other), labels.setdefault(other.state, [])
            if any(_is_no_less(label, of_known) for of_known in known):
                continue
            known[:] = [of_known for of_known in known if not _is_no_less(of_known, label)]
            known.append(label)
            least_j = other.joules + moves.least_j(other.state)
            heapq.heappush(queue, (least_j, next(number), label, other))
    return math.inf, None


def _is_no_less(label: tuple[float, ...], other: tuple[float, ...]) -> bool:
    """True if `other` dominates the label: it is no larger in any component."""
    return all(x >= y - _ROUNDING for x, y in zip(label, other, strict=True))


class _Moves:
    """Moves from state to state, with their costs.

    Args:
        graph: the problem.
        in_time: true to respect the deadline.
    """

    def __init__(self, graph: Indexed, in_time: bool) -> None:
        problem = graph.problem
        nodes, costs, storage = problem.nodes, Costs.energy(graph), problem.storage
        position = {node.name: i for i, node in enumerate(nodes)}
        self.graph, self.nodes, self.costs, self.storage = graph, nodes, costs, storage
        self.everything = (1 << graph.n) - 1
        self.end = _State(self.everything, 0, 0)
        self.reads = [sum(1 << u for u in inputs) for inputs in graph.inputs]
        self.after_nodes = [sum({1 << position[u] for u in node.inputs}) for node in nodes]
        self.closes = [
            0 if node.recompute_before is None else 1 << position[node.recompute_before]
            for node in nodes
        ]
        self.ram_bytes = problem.ram_bytes
        self.names = [node.name for node in nodes if node.output_bytes]
        overlap = storage is not None and storage.overlap
        self.clock = Clock(overlap) if in_time else None
        self.outs_at_once = not (in_time and overlap)
        self.latest_s = (problem.deadline_s or math.inf) * (1 + TIME_TOLERANCE)

    def least_j(self, state: _State) -> float:
        """Lower bound of the joules left: those of all nodes not yet computed."""
        return math.fsum(
            joules for i, joules in enumerate(self.costs.compute) if not state.done >> i & 1
        )

    def label(self, way: _Way) -> tuple[float, ...]:
        """Joules and seconds that decide how a path can go on; less of each dominates."""
        return (way.joules, *(way.clock.state_s(self.names) if way.clock is not None else ()))

    def after(self, way: _Way, move: _Move) -> _Way | None:
        """A path extended by one move; None if it cannot meet the deadline."""
        clock, state = way.clock, move.state
        if clock is not None:
            clock = clock.copy()
            self.run(clock, move.steps)
            left_s = (node.time_s for i, node in enumerate(self.nodes) if not state.done >> i & 1)
            if max(clock.makespan_s, clock.core_s + math.fsum(left_s)) > self.latest_s:
                return None
        if state.done == self.everything and not state.ram:
            state = self.end
        return _Way(state, way.joules + move.joules, clock, way, move.steps)

    def run(self, clock: Clock, steps: tuple[Step, ...]) -> None:
        """Advance a clock by some steps."""
        for index, (kind, name, *_) in enumerate(steps):
            node = next(node for node in self.nodes if node.name == name)
            if kind is StepKind.COMPUTE:
                if index + 1 < len(steps) and steps[index + 1].kind is StepKind.FREE:
                    clock.take_over(steps[index + 1].node)
                clock.compute(node.inputs, node.time_s)
            elif kind is StepKind.FREE:
                clock.free(name)
            else:
                assert self.storage is not None
                if kind is StepKind.PAGE_IN:
                    clock.page_in(name, self.storage.moving_in(node.output_bytes))
                else:
                    clock.page_out(name, self.storage.moving_out(node.output_bytes))

    def live(self, ram: int) -> int:
        return sum(size for i, size in enumerate(self.graph.size) if ram >> i & 1)

    def of(self, state: _State) -> Iterator[_Move]:
        """All moves from a state."""
        done, ram, aux, kept = state
        live, size = self.live(ram), self.graph.size
        for i, node in enumerate(self.nodes):
            bit = 1 << i
            if ram & bit:
                free = Step(StepKind.FREE, node.name)
                if bit != kept:
                    yield _Move(0.0, _State(done, ram & ~bit, aux), (free,))
                if not self.outs_at_once and self.graph.pageable[i] and not aux & bit:
                    out = Step(StepKind.PAGE_OUT, node.name)
                    yield _Move(self.costs.page_out[i], _State(done, ram, aux | bit), (out,))
                continue
            if aux & bit and live + size[i] <= self.ram_bytes:
                step = Step(StepKind.PAGE_IN, node.name)
                yield _Move(self.costs.page_in[i], _State(done, ram | bit, aux), (step,))
            first = not done & bit
            if (first or (node.recompute and size[i])) and not (
                self.reads[i] & ~ram or self.after_nodes[i] & ~done or self.closes[i] & done
            ):
                yield from self.computing(state, i, live, first)

    def computing(self, state: _State, i: int, live: int, first: bool) -> Iterator[_Move]:
        """Moves that compute node i: in place or not, with an immediate page-out or not."""
        done, ram, aux, _ = state
        bit, size, node = 1 << i, self.graph.size, self.nodes[i]
        output = bit if size[i] else 0
        taken = self.graph.in_place[i]
        alone: tuple[Step, ...] = (Step(StepKind.COMPUTE, node.name),)
        kept = 0 if taken is None or self.outs_at_once else 1 << taken
        outcomes = [(ram | output, live + size[i], alone, kept)]
        if taken is not None:
            steps = (*alone, Step(StepKind.FREE, self.nodes[taken].name))
            outcomes.append(((ram | output) & ~(1 << taken), live, steps, 0))
        for after, during, steps, kept in outcomes:
            if during + self.graph.workspace[i] > self.ram_bytes:
                continue
            joules = self.costs.compute[i]
            yield _Move(joules, _State(done | bit, after, aux, kept), steps)
            if first and self.graph.pageable[i] and self.outs_at_once:
                joules += self.costs.page_out[i]
                out = Step(StepKind.PAGE_OUT, node.name)
                yield _Move(joules, _State(done | bit, after, aux | bit), (*steps, out))
