# SPDX-License-Identifier: Apache-2.0
"""Lower bound of all plans, in any order and with any number of recomputes and transfers.

Consider the moment at which a plan computes node w for the first time. All ancestors of w were
computed before it, and no descendant was. A tensor of an ancestor that a descendant reads

- is in RAM at the moment, beside the inputs, output and workspace of w; or
- is recomputed after the moment, from inputs that are tensors of ancestors too and must be in RAM
  then; or
- is paged in after the moment, and was or will be paged out.

This is the program of `having` with one row for the budget. So every plan takes at least the energy
of computing each node once, plus the program's optimum. The bound is the highest of several
moments.

The ancestors of a node include, besides the nodes it depends on, those that must not run after it:
a node that must precede an update runs before it in every plan. The relaxation ignores deadlines,
nodes that are neither ancestors nor descendants of w, and the tensor that w may take over.
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

_MOMENTS = 6, 24  # fewest and most moments whose relaxation is solved
_MOMENT_NODES = 20_000  # nodes in the programs of all moments, about
_NODE_WORK = 1e-5  # work units per node and moment
_GAP = 1e-6  # relative gap of the integer program
_ROUNDING = 1e-9  # relative: energies are sums of the same numbers in different orders


def bound_of_every_plan(graph: Indexed, work: Work, enough_j: float = math.inf) -> float:
    """Lower bound of every plan's energy in joules; infinite if proven that no plan fits.

    Args:
        graph: the problem; its deadline is ignored.
        work: limit of the search; with less work the bound is weaker.
        enough_j: bound in joules at which to stop, for a higher one is not needed.
    """
    problem = graph.problem
    once_j = math.fsum(node.energy_j for node in problem.nodes)
    workload = Workload(graph)
    moments = _Moments(workload)
    during = EventTrace.of(workload, range(graph.n), work).during_bytes
    least, most = _MOMENTS
    count = max(least, min(most, _MOMENT_NODES // graph.n))
    best_j, highest = 0.0, None

    def proven_j() -> float:
        return float(once_j + best_j * (1 - _ROUNDING))

    for w in np.argsort(-during, kind="stable")[:count].tolist():
        if proven_j() >= enough_j or during[w] <= problem.ram_bytes or not work.is_left():
            break
        work.spend(graph.n * _NODE_WORK)
        having = moments.having(w)
        if having.tensors:
            bound_j = Relaxation(having.program).solve(work).bound
            if bound_j > best_j:
                best_j, highest = bound_j, w
    if highest is not None and math.isfinite(best_j) and proven_j() < enough_j:
        highs, scale = moments.having(highest).highs(_GAP)  # the integer program itself
        best_j = max(best_j, highs.run(work).bound / scale)
    return proven_j()


class _Moments:
    """Programs of the moments at which nodes are first computed."""

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
        """The program of the moment at which node w is first computed."""
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
    """Nodes reachable from `start` along the edges, `start` itself excluded."""
    reached: set[int] = set()
    stack = [start]
    while stack:
        for i in edges[stack.pop()]:
            if i not in reached:
                reached.add(i)
                stack.append(i)
    return reached
