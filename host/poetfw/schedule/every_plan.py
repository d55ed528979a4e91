# SPDX-License-Identifier: Apache-2.0
"""Lower bound of all plans, in any order and with any number of recomputes and transfers.

Consider the moment at which a plan computes node w for the first time. All ancestors of w were
computed before it, and no descendant was. A tensor of an ancestor that a descendant reads

- is in RAM at the moment, beside the inputs, output and workspace of w; or
- is recomputed after the moment, from inputs that are tensors of ancestors too and must be in RAM
  then; or
- is paged in after the moment, and was or will be paged out.

So every plan takes at least the energy of computing each node once, plus the optimum of the
program of `moments`. The bound is the highest of several moments. In small graphs it is also that
of a chain of moments together, for which more recomputes are needed where RAM is short.

The ancestors of a node include, besides the nodes it depends on, those that must not run after it:
a node that must precede an update runs before it in every plan. The relaxation ignores deadlines,
nodes that are neither ancestors nor descendants of w, and the tensor that w may take over.
"""

from __future__ import annotations

import math

import numpy as np

from poetfw.common.limits import Work
from poetfw.schedule.cuts.relaxation import Relaxation
from poetfw.schedule.having import in_highs
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.milp import IntegerProgram
from poetfw.schedule.moments import Precedence
from poetfw.schedule.sequences import EventTrace, Workload

_MOMENTS = 6, 24  # fewest and most moments whose relaxation is solved
_MOMENT_NODES = 20_000  # nodes in the programs of all moments, about
_CHAIN_NODES = 2_500  # nodes times moments of a chain, at most
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
    precedence = Precedence(workload)
    during = EventTrace.of(workload, range(graph.n), work).during_bytes
    least, most = _MOMENTS
    count = max(least, min(most, _MOMENT_NODES // graph.n))
    best_j = 0.0
    highest: IntegerProgram | None = None

    def proven_j() -> float:
        return float(once_j + best_j * (1 - _ROUNDING))

    over = np.maximum(0, during - problem.ram_bytes)
    for w in np.argsort(-over, kind="stable")[:count].tolist():
        if proven_j() >= enough_j or not over[w] or not work.is_left():
            break
        work.spend(graph.n * _NODE_WORK)
        program = precedence.program((w,))
        if program.columns:
            bound_j = Relaxation(program).solve(work).bound
            if bound_j > best_j:
                best_j, highest = bound_j, program
    programs = [] if highest is None else [highest]  # the integer programs themselves
    chain = precedence.heaviest_chain(over.tolist())
    if 1 < len(chain) <= _CHAIN_NODES // graph.n:
        programs.append(precedence.program(chain))
    for program in programs:
        if program.columns and math.isfinite(best_j) and proven_j() < enough_j:
            highs, scale = in_highs(program, _GAP)
            best_j = max(best_j, highs.run(work).bound / scale)
    return proven_j()
