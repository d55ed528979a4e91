"""Separation in rounds: solve the relaxation, add the cuts that its solution violates, again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from poetfw.schedule.cuts.cut import Cut
from poetfw.schedule.linear import Relaxation, Relaxed
from poetfw.schedule.highs import Vector

Separate = Callable[[Vector], Iterable[Cut]]
"""Which cuts a solution violates, the most important first."""


@dataclass(frozen=True, slots=True)
class Rounds:
    """When to stop.

    Attributes:
        most: rounds at most.
        iterations: simplex iterations at most, over all rounds.
        most_cuts: cuts added at most in one round.
        stalled_rounds, stalled_share: stop when so many rounds have raised the bound by less than
            this share.
    """

    most: int = 60
    iterations: int = 100_000
    most_cuts: int = 800
    stalled_rounds: int = 4
    stalled_share: float = 3e-5


def tighten(relaxation: Relaxation, separate: Separate, rounds: Rounds) -> Relaxed:
    """Add violated cuts to a relaxation until that no longer helps.

    Returns:
        The last solution whose bound is the best; the relaxation has the cuts that it rests on,
        and some more.
    """
    best = relaxation.solve(rounds.iterations)
    history = [best.bound]
    for _ in range(rounds.most):
        left = rounds.iterations - relaxation.iterations
        if not best.finished or left <= 0 or not len(best.values):
            break
        known = {cut.terms for cut in relaxation.cuts}
        fresh = {cut.terms: cut for cut in separate(best.values) if cut.terms not in known}
        if not fresh:
            break
        relaxation.add(list(fresh.values())[: rounds.most_cuts])
        solved = relaxation.solve(left)
        if solved.bound > best.bound or solved.finished:
            best = solved
        history.append(solved.bound)
        if len(history) > rounds.stalled_rounds:
            gained = history[-1] - history[-1 - rounds.stalled_rounds]
            if gained < rounds.stalled_share * abs(history[-1]):
                break
    return best
