# SPDX-License-Identifier: Apache-2.0
"""Plans for one budget, adapted to another."""

from __future__ import annotations

from poetfw.common.limits import Work
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.problem import ExecutionPlan, ScheduleProblem
from poetfw.schedule.sequences import EventTrace, Moves, Workload
from poetfw.schedule.simulator import accepts
from poetfw.schedule.transfers import plan_transfers

_DROPS = 20  # evictions per node, at most, to make a plan fit
_FIT_SHARE = 0.5  # of the work, for trying all rules; the rest is for moves
_LARGE = 100  # nodes: in smaller problems, programs find the same plans as moves, in less time
_RULES = ((1.0, 0.0), (0.5, 0.0), (1.0, 0.3), (0.5, 0.3))
"""Eviction rules: exponent and noise of `Moves.dropped`."""


def handed(problem: ScheduleProblem, plan: ExecutionPlan, work: Work) -> ExecutionPlan | None:
    """Adapt a plan made for another budget to the budget of this problem.

    With less RAM, tensors idle at an overflow are evicted and brought back for their readers. With
    more RAM, tensors that fit are kept instead of recomputed or paged. In large problems the
    remaining work goes into `Moves.improved`.

    Args:
        problem: the problem with the new budget.
        plan: a plan of the same nodes, for any budget.
        work: limit of the search.

    Returns:
        A plan that the simulator accepts; None if none was found within `work` or the deadline.
    """
    workload = Workload(Indexed.of(problem))
    moves = Moves(workload, work)
    known = EventTrace.of(workload, workload.events(plan), work)
    best: EventTrace | None = None
    units = work.left
    for exponent, noise in _RULES:
        fitted = moves.fitted(known, exponent, noise, _DROPS * workload.n)
        if fitted is not None:
            thinned = moves.thinned(fitted)
            if best is None or thinned.energy_j < best.energy_j:
                best = thinned
        if known.fits or work.left < _FIT_SHARE * units:
            break
    if best is None:
        return None
    if workload.n >= _LARGE:
        *_, best = best, *moves.improved(best)
    made = plan_transfers(problem, workload.plan(best.events.tolist()), work.deadline)
    return None if accepts(problem, made) is None else made
