# SPDX-License-Identifier: Apache-2.0
"""Plans of one budget, adapted to another."""

from __future__ import annotations

from poetfw.common.limits import Work
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.problem import ExecutionPlan, ScheduleProblem
from poetfw.schedule.sequences import EventTrace, Moves, Workload
from poetfw.schedule.simulator import accepts
from poetfw.schedule.transfers import plan_transfers

_DROPS = 20  # per node, to make a plan fit
_FIT_SHARE = 0.5  # of the work, to make it fit in other ways; the rest is for moves
_LARGE = 100  # nodes: programs find what moves find in smaller ones, in less time
_RULES = ((1.0, 0.0), (0.5, 0.0), (1.0, 0.3), (0.5, 0.3))
"""Rules for what is dropped: exponent and noise of `Moves.dropped`."""


def handed(problem: ScheduleProblem, plan: ExecutionPlan, work: Work) -> ExecutionPlan | None:
    """A plan of the same nodes within this budget, made from a plan of another.

    In less RAM, tensors that wait where it overflows are dropped, and had again for their readers.
    In more, what there is RAM enough to keep is no longer computed again or paged. The work that is
    left then goes into moves of events, in large problems.

    Args:
        problem: with the budget.
        plan: within any budget.
        work: what may be done.

    Returns:
        A plan that the simulator accepts; None if the plan cannot be made to fit, or not in time.
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
