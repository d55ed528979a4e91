# SPDX-License-Identifier: Apache-2.0
"""POET's Algorithm 1 as published: the reference for the compact formulation.

S. Patil, P. Jain, P. Dutta, I. Stoica, J. Gonzalez, "POET: Training Neural Networks on Tiny Devices
with Integrated Rematerialization and Paging", ICML 2022, Algorithm 1, with the memory accounting
of P. Jain et al., "Checkmate: Breaking the Memory Wall with Optimal Tensor Rematerialization",
MLSys 2020, equations 2 and 3. Added, as everywhere in poetfw: workspace, paging in whole blocks,
nodes that must not be recomputed or paged, and paging time under the deadline.

It has one variable of each kind per stage and node, so it can solve small problems only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from poetfw.common.limits import Deadline
from poetfw.schedule.coefficients import BudgetUnits, Costs
from poetfw.schedule.highs import Vector
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.milp import IntegerProgram, Term
from poetfw.schedule.plan import StageEvents

Columns = NDArray[np.int64]
"""Column indices by (stage, node)."""


@dataclass(frozen=True)
class Algorithm1:
    """The program and its columns R, S_RAM and M_in, each of shape [stages, nodes]."""

    program: IntegerProgram
    recompute: Columns
    in_ram: Columns
    page_in: Columns

    def stages(self, values: Vector) -> StageEvents:
        """Recomputes and page-ins of each stage; a page-in at a stage's end belongs to the next."""
        n = len(self.recompute)
        recomputed = values[self.recompute] > 0.5
        paged = (values[self.page_in[:-1]] > 0.5) & (values[self.in_ram[1:]] > 0.5)
        return StageEvents(
            recomputes=frozenset((t, i) for t in range(n) for i in range(t) if recomputed[t, i]),
            page_ins=frozenset((int(t) + 1, int(i)) for t, i in zip(*paged.nonzero(), strict=True)),
        )


def formulate_algorithm_1(graph: Indexed, deadline: Deadline | None = None) -> Algorithm1:
    """Build the program of Algorithm 1, minimising energy.

    Args:
        graph: the problem.
        deadline: time at which to give up; None for never.

    Raises:
        OutOfTime: the deadline has passed.
    """
    n = graph.n
    stages = (deadline or Deadline()).during
    program = IntegerProgram()
    costs = Costs.energy(graph)
    memory = BudgetUnits.of(graph, graph.problem.ram_bytes)
    position = {node.name: i for i, node in enumerate(graph.problem.nodes)}

    def column(allowed: bool, cost: float = 0.0) -> int:
        x = program.binary(cost if allowed else 0.0)
        program.upper[x] = float(allowed)
        return x

    def may_compute(t: int, i: int) -> bool:
        node = graph.problem.nodes[i]
        before = node.recompute_before
        return i == t or (i < t and node.recompute and (before is None or t <= position[before]))

    def columns(allowed: NDArray[np.bool_], cost: tuple[float, ...]) -> Columns:
        rows = [[column(allowed[t, i], cost[i]) for i in range(n)] for t in stages(range(n))]
        return np.array(rows)

    earlier = np.tri(n, k=-1, dtype=bool)
    computable = np.array([[may_compute(t, i) for i in range(n)] for t in stages(range(n))])
    pageable = np.tri(n, dtype=bool) & np.array(graph.pageable)
    free_of_cost = (0.0,) * n
    recompute = columns(computable, costs.compute)
    in_ram = columns(earlier, free_of_cost)
    in_aux = columns(earlier & pageable, free_of_cost)
    page_in = columns(pageable, costs.page_in)
    page_out = columns(pageable, costs.page_out)

    for t in stages(range(n)):
        program.equal([(recompute[t, t], 1)], 1)  # (1a) stage t computes node t
        for k in range(t + 1):
            for i in graph.inputs[k]:  # (1b) inputs are in RAM
                program.at_most(
                    [(recompute[t, k], 1), (recompute[t, i], -1), (in_ram[t, i], -1)], 0
                )
        for i in range(n):
            if t + 1 < n:
                program.at_most(  # (1c) a tensor in RAM stayed, was computed or was paged in
                    [
                        (in_ram[t + 1, i], 1),
                        (in_ram[t, i], -1),
                        (recompute[t, i], -1),
                        (page_in[t, i], -1),
                    ],
                    0,
                )
                program.at_most(  # (1d) a tensor in AUX stayed or was paged out
                    [(in_aux[t + 1, i], 1), (in_aux[t, i], -1), (page_out[t, i], -1)], 0
                )
            program.at_most([(page_in[t, i], 1), (in_aux[t, i], -1)], 0)  # (1e)
            program.at_most([(page_out[t, i], 1), (in_ram[t, i], -1)], 0)  # (1f)
        _limit_memory(program, graph, memory, recompute, in_ram, t)
    _limit_time(program, graph, recompute, page_in, page_out)
    return Algorithm1(program, recompute, in_ram, page_in)


def _limit_memory(
    program: IntegerProgram,
    graph: Indexed,
    memory: BudgetUnits,
    recompute: Columns,
    in_ram: Columns,
    t: int,
) -> None:
    """Add U and FREE of stage t: equations 2 and 3 of Checkmate."""
    size = memory.size
    live: list[Term] = [(in_ram[t, i], size[i]) for i in range(t)]
    for k in range(t + 1):
        used = program.continuous(upper=memory.budget)
        live.append((recompute[t, k], size[k]))
        program.equal([*live, (used, -1)], 0)
        program.at_most([(used, 1), (recompute[t, k], memory.workspace[k])], memory.budget)
        live = [(used, 1)]
        for i in (*graph.inputs[k], k):
            # FREE is 1 if and only if k runs and no later step needs i (no hazard).
            later = [j for j in graph.consumers[i] if k < j <= t]
            hazards: list[Term] = [(recompute[t, k], -1), *((recompute[t, j], 1) for j in later)]
            most = 1 + len(later)
            if t + 1 < graph.n:
                hazards.append((in_ram[t + 1, i], 1))
                most += 1
            free = program.binary()
            program.at_most([(free, -1), *((x, -a) for x, a in hazards)], 0)
            program.at_most([*hazards, (free, most)], most - 1)
            live.append((free, -size[i]))


def _limit_time(
    program: IntegerProgram, graph: Indexed, recompute: Columns, page_in: Columns, page_out: Columns
) -> None:
    deadline_s = graph.problem.deadline_s
    if deadline_s is None:
        return
    times = Costs.time(graph)
    unit = deadline_s or 1.0
    terms = [
        (columns[t, i], cost[i] / unit)
        for columns, cost, usable in (
            (recompute, times.compute, (True,) * graph.n),
            (page_in, times.page_in, graph.pageable),
            (page_out, times.page_out, graph.pageable),
        )
        for t in range(graph.n)
        for i in range(graph.n)
        if usable[i]
    ]
    program.at_most(terms, deadline_s / unit)
