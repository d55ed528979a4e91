# SPDX-License-Identifier: Apache-2.0
"""Lower bound of all plans, in any order and with any number of recomputes and transfers.

Consider the moment at which a plan computes node w for the first time. All ancestors of w were
computed before it, and no descendant was. A tensor of an ancestor that a descendant reads

- is in RAM at the moment, beside the inputs, output and workspace of w; or
- is recomputed after the moment, from inputs that are tensors of ancestors too and must be in RAM
  then; or
- is paged in after the moment, and was or will be paged out.

So every plan takes at least the energy of computing each node once, plus the optimum of the
program of `moments`. The bound is the highest of several moments. It is also that of a chain of
moments together, for which more recomputes are needed where RAM is short; without cuts, its linear
relaxation would be weaker than that of one moment.

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
from poetfw.schedule.having import in_highs
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.milp import IntegerProgram
from poetfw.schedule.moments import Moments, Precedence
from poetfw.schedule.sequences import EventTrace, Integers, Workload
from poetfw.schedule.strengthen import hold, strengthen_periods

_MOMENTS = 6, 24  # fewest and most moments whose relaxation is solved
_MOMENT_NODES = 20_000  # nodes in the programs of all moments, about
_CHAIN_NODES = 6_000  # nodes times moments of a chain, at most
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
        program = precedence.moments((w,)).program
        if program.columns:
            bound_j = Relaxation(program).solve(work).bound
            if bound_j > best_j:
                best_j, highest = bound_j, program
    most = _CHAIN_NODES // graph.n
    chain = _spread(graph, precedence.heaviest_chain(over.tolist()), over, most)
    if highest is not None and math.isfinite(best_j) and proven_j() < enough_j:
        best_j = max(best_j, _integral(highest, work))
    if len(chain) > 1 and math.isfinite(best_j) and proven_j() < enough_j:
        moments = precedence.moments(chain)
        moments.program.offset = once_j
        best_j = max(best_j, _of_chain(moments, enough_j, work) - once_j)
    return proven_j()


def _spread(graph: Indexed, chain: Sequence[int], over: Integers, most: int) -> list[int]:
    """Nodes of a chain: all, or the one of the most bytes, and about `most` later ones.

    These are equally spaced, by bytes that nodes read and write, since a moment limits RAM by them.
    """
    if len(chain) <= most or not most:
        return list(chain[:most])
    later = np.array(chain[int(np.argmax(over[chain])) :])
    during = np.array([max(1, graph.working_set(w)) for w in later])
    middles = np.cumsum(during) - during / 2
    wanted = (np.arange(most) + 0.5) / most * during.sum()
    nearest = np.abs(middles[:, None] - wanted).argmin(axis=0)
    return sorted({int(w) for w in later[[0, *nearest]]})


def _integral(program: IntegerProgram, work: Work) -> float:
    """Lower bound of a program in joules, its offset left out."""
    highs, scale = in_highs(program, _GAP)
    return float(highs.run(work).bound / scale)


def _of_chain(moments: Moments, enough_j: float, work: Work) -> float:
    """Lower bound of a chain's program in joules, by cuts and then with integral columns."""
    program = moments.program
    if not program.columns:
        return program.offset
    relaxed, _ = strengthen_periods(program, moments.residency, moments.knapsacks, enough_j, work)
    if not math.isfinite(relaxed.bound) or relaxed.bound >= enough_j:
        return relaxed.bound
    hold(program, relaxed, math.inf)
    return max(relaxed.bound, program.offset + _integral(program, work))
