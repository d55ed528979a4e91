# SPDX-License-Identifier: Apache-2.0
"""Trying every plan of a small problem."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import NamedTuple

from poetfw.schedule import ExecutionPlan, ScheduleProblem, Step, StepKind
from poetfw.schedule.simulator import TIME_TOLERANCE


def least_energy(problem: ScheduleProblem, in_order: bool) -> float | None:
    """The least energy of any plan; None if there is none. See `best_plan`."""
    best = best_plan(problem, in_order)
    return None if best is None else best.energy_j


@dataclass(frozen=True)
class Best:
    """A plan with the least energy."""

    energy_j: float
    plan: ExecutionPlan


class _State(NamedTuple):
    """Between two steps.

    Attributes:
        t: the next node to be computed first.
        slot: the last node that was produced since the one before t; -1 for none.
        ram, aux: nodes whose tensors are there.
    """

    t: int
    slot: int
    ram: frozenset[int] = frozenset()
    aux: frozenset[int] = frozenset()


def best_plan(problem: ScheduleProblem, in_order: bool) -> Best | None:
    """A plan with the least energy, by Dijkstra's algorithm over what is in RAM and in AUX.

    Args:
        problem: with a deadline only if transfers and computing do not overlap.
        in_order: whether what is produced between two first computations comes in topological
            order, each at most once, as in the stages of the programs.
    """
    nodes, storage, deadline_s = problem.nodes, problem.storage, problem.deadline_s
    assert deadline_s is None or storage is None or not storage.overlap
    position = {node.name: i for i, node in enumerate(nodes)}
    inputs = [
        {position[u] for u in node.inputs if nodes[position[u]].output_bytes} for node in nodes
    ]
    before = [
        len(nodes) if node.recompute_before is None else position[node.recompute_before]
        for node in nodes
    ]
    latest_s = 0.0 if deadline_s is None else deadline_s * (1 + TIME_TOLERANCE)

    steps = {kind: [Step(kind, node.name) for node in nodes] for kind in StepKind}

    def size(ram: frozenset[int]) -> int:
        return sum(nodes[i].output_bytes for i in ram)

    undominated: dict[_State, list[tuple[float, float]]] = {}
    queue: list[tuple[float, float, int, _State]] = [(0.0, 0.0, 0, _State(0, -1))]
    ways: list[tuple[int, tuple[Step, ...]]] = [(0, ())]  # before, and the last step

    def reach(energy_j: float, time_s: float, state: _State, *last: Step) -> None:
        energy_j += spent_j
        time_s = 0.0 if deadline_s is None else spent_s + time_s
        if size(state.ram) > problem.ram_bytes or time_s > latest_s:
            return
        others = undominated.setdefault(state, [])
        for e, s in others:
            if e <= energy_j + 1e-12 and s <= time_s + 1e-12:
                return
        others[:] = [(e, s) for e, s in others if e < energy_j or s < time_s]
        others.append((energy_j, time_s))
        heapq.heappush(queue, (energy_j, time_s, len(ways), state))
        ways.append((way, last))

    while queue:
        spent_j, spent_s, way, state = heapq.heappop(queue)
        if way and (spent_j, spent_s) not in undominated[state]:
            continue
        t, slot, ram, aux = state
        if t == len(nodes):
            reverse = [steps[StepKind.FREE][i] for i in ram]
            while way:
                way, last = ways[way]
                reverse += reversed(last)
            return Best(spent_j, tuple(reversed(reverse)))
        for i in range(slot + 1 if in_order else 0, t + 1):
            node = nodes[i]
            if i in ram or (i < t and not node.output_bytes):
                continue
            during = size(ram) + node.output_bytes + node.workspace_bytes
            allowed = i == t or (node.recompute and t <= before[i])
            after = ram | {i} if node.output_bytes else ram
            following = (t + 1, -1) if i == t else (t, i)
            compute = steps[StepKind.COMPUTE][i]
            if allowed and inputs[i] <= ram and during <= problem.ram_bytes:
                reach(node.energy_j, node.time_s, _State(*following, after, aux), compute)
            taken = None if node.in_place is None else position[node.in_place]
            if taken is not None and allowed and inputs[i] <= ram and taken in ram:
                if node.output_bytes and during - node.output_bytes <= problem.ram_bytes:
                    state = _State(*following, after - {taken}, aux)
                    free = steps[StepKind.FREE][taken]
                    reach(node.energy_j, node.time_s, state, compute, free)
            if i in aux:
                assert storage is not None
                m = node.output_bytes
                energy_j, time_s = storage.page_in_energy_j(m), storage.page_in_time_s(m)
                state = _State(t, i, after, aux)
                reach(energy_j, time_s, state, steps[StepKind.PAGE_IN][i])
        for i in ram:
            node, m = nodes[i], nodes[i].output_bytes
            reach(0.0, 0.0, _State(t, slot, ram - {i}, aux), steps[StepKind.FREE][i])
            if storage is not None and node.page and i not in aux:
                state = _State(t, slot, ram, aux | {i})
                energy_j, time_s = storage.page_out_energy_j(m), storage.page_out_time_s(m)
                reach(energy_j, time_s, state, steps[StepKind.PAGE_OUT][i])
    return None
