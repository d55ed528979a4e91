# SPDX-License-Identifier: Apache-2.0
"""Trying every plan of a small problem."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from poetfw.schedule import ExecutionPlan, ScheduleProblem, Step, StepKind
from poetfw.schedule.simulator import TIME_TOLERANCE


class Order(Enum):
    """Which plans are tried."""

    STAGES = auto()
    """Nodes come first in the order of the problem; what is produced between two of these comes in
    this order, each at most once: as in the stages of the programs."""
    GIVEN = auto()
    """Nodes come first in the order of the problem."""
    ANY = auto()
    """Every legal plan."""


@dataclass(frozen=True)
class Best:
    """A plan with the least energy."""

    energy_j: float
    plan: ExecutionPlan


class _State(NamedTuple):
    """Between two steps; sets of nodes are bits.

    Attributes:
        done: nodes that were computed.
        slot: the last node that was produced since the last first computation; -1 for none.
        ram, aux: nodes whose tensors are there.
    """

    done: int
    slot: int
    ram: int = 0
    aux: int = 0


def least_energy(problem: ScheduleProblem, order: Order) -> float | None:
    """The least energy of any plan; None if there is none. See `best_plan`."""
    best = best_plan(problem, order)
    return None if best is None else best.energy_j


def best_plan(problem: ScheduleProblem, order: Order) -> Best | None:
    """A plan with the least energy, by the A* algorithm over what is computed, in RAM and in AUX.

    Each node that was not computed yet takes its energy at least.

    Args:
        problem: with a deadline only if transfers and computing do not overlap.
        order: which plans to try.
    """
    nodes, storage, deadline_s = problem.nodes, problem.storage, problem.deadline_s
    assert deadline_s is None or storage is None or not storage.overlap
    n = len(nodes)
    position = {node.name: i for i, node in enumerate(nodes)}
    inputs = [sum({1 << position[u] for u in node.inputs}) for node in nodes]
    sized = sum(1 << i for i, node in enumerate(nodes) if node.output_bytes)
    too_late = [
        0 if node.recompute_before is None else 1 << position[node.recompute_before]
        for node in nodes
    ]
    latest_s = 0.0 if deadline_s is None else deadline_s * (1 + TIME_TOLERANCE)
    steps = {kind: [Step(kind, node.name) for node in nodes] for kind in StepKind}
    everything = (1 << n) - 1

    def members(mask: int) -> list[int]:
        return [i for i in range(n) if mask >> i & 1]

    def size(ram: int) -> int:
        return sum(nodes[i].output_bytes for i in members(ram))

    undominated: dict[_State, list[tuple[float, float]]] = {}
    once_j = sum(node.energy_j for node in nodes)
    queue: list[tuple[float, float, float, int, _State]] = [(once_j, 0.0, 0.0, 0, _State(0, -1))]
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
        left_j = sum(nodes[i].energy_j for i in members(everything & ~state.done))
        heapq.heappush(queue, (energy_j + left_j, energy_j, time_s, len(ways), state))
        ways.append((way, last))

    while queue:
        _, spent_j, spent_s, way, state = heapq.heappop(queue)
        if way and (spent_j, spent_s) not in undominated[state]:
            continue
        done, slot, ram, aux = state
        if done == everything:
            reverse = [steps[StepKind.FREE][i] for i in members(ram)]
            while way:
                way, last = ways[way]
                reverse += reversed(last)
            return Best(spent_j, tuple(reversed(reverse)))
        following = min(members(everything & ~done))
        for i, node in enumerate(nodes):
            first = not done >> i & 1
            if ram >> i & 1 or (not first and not node.output_bytes):
                continue
            if first and order is not Order.ANY and i != following:
                continue
            if not first and order is Order.STAGES and i <= slot:
                continue
            after = ram | (1 << i & sized)
            then = (done | 1 << i, -1) if first else (done, i if order is Order.STAGES else -1)
            m = node.output_bytes
            during = size(ram) + m + node.workspace_bytes
            ready = not inputs[i] & ~done and not inputs[i] & sized & ~ram
            if ready and (first or node.recompute) and not too_late[i] & done:
                compute = steps[StepKind.COMPUTE][i]
                if during <= problem.ram_bytes:
                    reach(node.energy_j, node.time_s, _State(*then, after, aux), compute)
                taken = None if node.in_place is None else position[node.in_place]
                if taken is not None and m and during - m <= problem.ram_bytes:
                    state = _State(*then, after & ~(1 << taken), aux)
                    free = steps[StepKind.FREE][taken]
                    reach(node.energy_j, node.time_s, state, compute, free)
            if aux >> i & 1:
                assert storage is not None
                energy_j, time_s = storage.page_in_energy_j(m), storage.page_in_time_s(m)
                state = _State(*then, after, aux)
                reach(energy_j, time_s, state, steps[StepKind.PAGE_IN][i])
        for i in members(ram):
            node, m = nodes[i], nodes[i].output_bytes
            reach(0.0, 0.0, _State(done, slot, ram & ~(1 << i), aux), steps[StepKind.FREE][i])
            if storage is not None and node.page and not aux >> i & 1:
                state = _State(done, slot, ram, aux | 1 << i)
                energy_j, time_s = storage.page_out_energy_j(m), storage.page_out_time_s(m)
                reach(energy_j, time_s, state, steps[StepKind.PAGE_OUT][i])
    return None
