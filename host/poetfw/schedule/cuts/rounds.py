# SPDX-License-Identifier: Apache-2.0
"""Separation in rounds: solve the relaxation, add the violated cuts, repeat."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from poetfw.common.limits import Work
from poetfw.schedule.cuts.cut import Cut
from poetfw.schedule.cuts.relaxation import Relaxation, Relaxed
from poetfw.schedule.highs import Vector

Separate = Callable[[Vector], Iterable[Cut]]
"""Separator: cuts that a solution violates."""


_LATE = 10  # rounds; columns used by the first rounds have little to do with plans


@dataclass(frozen=True, slots=True)
class Rounds:
    """Stopping rules for the rounds of cuts.

    Attributes:
        most: maximum number of rounds.
        stalled_rounds, stalled_share: stop when the bound rose by less than `stalled_share` of
            itself in the last `stalled_rounds` rounds.
        enough: stop when the bound exceeds this.
    """

    most: int = 100
    stalled_rounds: int = 4
    stalled_share: float = 3e-5
    enough: float = math.inf


def tighten(relaxation: Relaxation, separate: Separate, rounds: Rounds, work: Work) -> Relaxed:
    """Add violated cuts to a relaxation until the bound stalls or the work is spent.

    Returns:
        The result of the round with the best bound. Its reduced costs are the strongest of all
        rounds, column by column, relative to that bound; `used` covers the last rounds. The
        relaxation keeps its cuts, except those that a later solution met with slack.
    """
    best = solved = relaxation.solve(work)
    history, used = [best.bound], [best.used]
    least_with = best.bound + best.reduced_costs
    for _ in range(rounds.most):
        if solved.values is None or not work.is_left() or best.bound > rounds.enough:
            break
        known = {cut.terms for cut in relaxation.cuts}
        fresh = {cut.terms: cut for cut in separate(solved.values) if cut.terms not in known}
        if not fresh:
            break
        relaxation.drop_slack(solved.values)
        relaxation.add(list(fresh.values()))
        solved = relaxation.solve(work)
        best = max(best, solved, key=lambda relaxed: relaxed.bound)
        least_with = np.maximum(least_with, solved.bound + solved.reduced_costs)
        history.append(best.bound)
        used.append(solved.used)
        if len(history) > rounds.stalled_rounds:
            gained = history[-1] - history[-1 - rounds.stalled_rounds]
            if gained < rounds.stalled_share * abs(history[-1]):
                break
    if math.isinf(best.bound):
        return best
    some = frozenset[int]().union(*used[-_LATE:])
    return replace(best, reduced_costs=least_with - best.bound, used=some)
