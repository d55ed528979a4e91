# SPDX-License-Identifier: Apache-2.0
"""Lower bound of all plans, in any order and with any number of recomputes and transfers.

Look at the moment at which a plan computes node w for the first time. All ancestors of w were
computed before, and no descendant was. A tensor of an ancestor that a descendant reads

- is in RAM at the moment, beside the inputs of w, its output and its workspace; or
- is computed after the moment, which is once more than the first time, and so must its inputs be
  there after the moment, which are tensors of ancestors as well; or
- is paged in after the moment, and was or will be paged out.

That is the program of `having` with one row for the budget, so no plan takes less than computing
each node once and the least that the program takes. The bound is the highest over several moments.

Ancestors of a node are what it reads and what may not run after it: a node that must be computed
before an update is computed before it in every plan, and never after it. A tensor that w may take
over is left out of the row, as are deadlines, and what is neither ancestor nor descendant of w.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from poetfw.common.limits import Work
from poetfw.schedule.cuts.relaxation import Relaxation
from poetfw.schedule.having import Having
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.sequences import EventTrace, Workload

_MOMENTS = 6, 24  # of which a relaxation is solved, at least and at most
_MOMENT_NODES = 20_000  # of all their programs
_NODE_WORK = 1e-5  # units for each node and moment
_GAP = 1e-6  # of what is beyond computing each node once
_ROUNDING = 1e-9  # of the bound: energies are sums of the same numbers in different orders


def bound_of_every_plan(graph: Indexed, work: Work) -> float:
    """Joules that every plan takes, deadline or not; infinite if no plan exists.

    Args:
        graph: the problem.
        work: what may be done; with less, the bound is lower.
    """
    problem = graph.problem
    once_j = math.fsum(node.energy_j for node in problem.nodes)
    workload = Workload(graph)
    moments = _Moments(workload)
    during = EventTrace.of(workload, range(graph.n), work).during_bytes
    least, most = _MOMENTS
    count = max(least, min(most, _MOMENT_NODES // graph.n))
    best_j, highest = 0.0, None
    for w in np.argsort(-during, kind="stable")[:count].tolist():
        if during[w] <= problem.ram_bytes or not work.is_left():
            break
        work.spend(graph.n * _NODE_WORK)
        having = moments.having(w)
        if having.tensors:
            bound_j = Relaxation(having.program).solve(work).bound
            if bound_j > best_j:
                best_j, highest = bound_j, w
    if highest is not None and math.isfinite(best_j):
        highs, scale = moments.having(highest).highs(_GAP)  # in whole numbers
        best_j = max(best_j, highs.run(work).bound / scale)
    return float(once_j + best_j * (1 - _ROUNDING))


class _Moments:
    """Programs of the moments at which nodes are computed first."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        nodes = workload.graph.problem.nodes
        position = {node.name: i for i, node in enumerate(nodes)}
        self.before: list[list[int]] = [[position[u] for u in node.inputs] for node in nodes]
        for i, update in enumerate(workload.closes):
            if update < workload.n:
                self.before[update].append(i)
        self.after: list[list[int]] = [[] for _ in nodes]
        for i, before in enumerate(self.before):
            for u in before:
                self.after[u].append(i)

    def having(self, w: int) -> Having:
        """The program of the moment at which node w is computed first."""
        graph, closes = self.workload.graph, self.workload.closes
        ancestors, descendants = _reached(w, self.before), _reached(w, self.after)
        closed = {*ancestors, w}
        read = {u for d in descendants for u in graph.inputs[d] if u in ancestors}
        having = Having.of(
            graph,
            read,
            lambda i: self.workload.recomputable[i] and closes[i] not in closed,
        )
        inputs = graph.inputs[w]
        beside = [(having.kept[i], graph.size[i]) for i in having.tensors if i not in inputs]
        having.limit(beside, graph.problem.ram_bytes - graph.working_set(w))
        return having


def _reached(start: int, edges: Sequence[Sequence[int]]) -> set[int]:
    """Targets of the edges, without the start."""
    reached: set[int] = set()
    stack = [start]
    while stack:
        for i in edges[stack.pop()]:
            if i not in reached:
                reached.add(i)
                stack.append(i)
    return reached
