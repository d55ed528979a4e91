# SPDX-License-Identifier: Apache-2.0
"""Lineage cuts: a tensor read from RAM stems from one that was kept, paged in or recomputed.

Let tensor k be read in period t. V is 1 if t is known to hold k at some time, as for a node first
computed in t that reads k; if a node v reads k that t recomputes, V is R[t,v]. Take a path
k = v0, v1, …, vp, where v(q+1) is an input of vq, and a period s ≤ t that begins after k was first
computed. Then

    Σ_q ( S[s,vq] + min{ Σ_{τ=s..t} P[τ,vq], Σ_{τ<t} O[τ,vq] } ) + Σ_{τ=s..t} R[τ,vp]  ≥  V.

The minimum stands for two inequalities: each node of the path may take either sum.

Proof for integral solutions. All terms are at least 0, so let V = 1. Period τ *holds* i if
S[τ,i] + R[τ,i] + P[τ,i] ≥ 1; period t holds v0. Claim: if a period τ in s … t holds vq, then the
terms of vq sum to at least 1, or q < p and some period in s … τ holds v(q+1). Apply
S[τ,i] ≤ S[τ-1,i] + R[τ-1,i] + P[τ-1,i] from τ back to s (every node of the path is first computed
before s). So S[s,vq], P[τ',vq] or R[τ',vq] is 1 for some s ≤ τ' ≤ τ. In the first case the term
S[s,vq] is 1. In the second, Σ P is at least 1, and so is Σ O because P[τ',vq] ≤ Σ O up to τ'. In
the third, the last sum is at least 1 if q = p; otherwise R[τ',vq] = 1, so period τ' holds the
input v(q+1). By induction from v0, some term is at least 1. ∎

The cut is stronger than the rows it follows from. Those let a fraction of v(q+1) produce the same
fraction of vq in every period, and S adds the fractions up; the cut counts v(q+1) once.

Separation is exact. For fixed t, let D(i)[s] be the least sum of terms of any path that begins at
i: D(i) = S[s,i] + min{Σ P, Σ O} + min{ Σ R[τ,i], min over inputs j of D(j) }. One recursion in
topological order computes D for all i and s.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from poetfw.schedule.cuts.cut import NOWHERE, Columns, Cut, Residency, extended
from poetfw.schedule.highs import Vector

_EPSILON = 1e-9
"""Sums that differ by less count as equal; ties go to the shorter path, and to Σ P over Σ O."""


@dataclass(frozen=True, slots=True)
class Lineage:
    """Identity of a lineage cut.

    Attributes:
        period: t, in which tensor v0 (the target) is read.
        reader: the node v whose R[t,v] is V; None if V is 1.
        since: s, the period where the sums begin.
        path: v0 … vp.
        paged_out: per node of the path, true if its term is Σ O instead of Σ P.
        violation: amount by which the separated solution misses the right-hand side.
    """

    period: int
    reader: int | None
    since: int
    path: tuple[int, ...]
    paged_out: tuple[bool, ...]
    violation: float = 0.0

    def cut(self, residency: Residency) -> Cut:
        """The inequality in a program's columns."""
        columns: list[int] = []
        span = slice(self.since, self.period + 1)
        for i, paged_out in zip(self.path, self.paged_out, strict=True):
            columns.append(residency.stay[self.since, i])
            columns += list(
                residency.page_out[: self.period, i] if paged_out else residency.page_in[span, i]
            )
        columns += list(residency.recompute[span, self.path[-1]])
        terms = {int(x): 1.0 for x in columns if x != NOWHERE}
        if self.reader is None:
            return Cut(tuple(terms.items()), 1.0)
        read = int(residency.recompute[self.period, self.reader])
        terms[read] = terms.get(read, 0.0) - 1.0
        return Cut(tuple(terms.items()), 0.0)


def separate_lineages(
    residency: Residency, values: Vector, least: float = 1e-3, each: int = 2
) -> list[Lineage]:
    """The most violated lineage cuts of a solution.

    Args:
        residency: columns of the program.
        values: the solution, by column.
        least: ignore violations up to this.
        each: maximum number of cuts per target and reader; they differ in s.
    """
    solution, reads = _Solution.of(residency, values), residency.reads
    return [
        lineage
        for period in range(max(1, residency.first), residency.periods)
        for lineage in _Separation(solution, period, least).lineages(reads[period], each)
    ]


@dataclass(frozen=True)
class _Solution:
    """A solution by (period, node), with sums over all earlier periods.

    Attributes:
        residency: columns of the program.
        stay, recompute: values of S and R.
        recomputed, paged_in, paged_out: sums of R, P and O over all earlier periods.
    """

    residency: Residency
    stay: Vector
    recompute: Vector
    recomputed: Vector
    paged_in: Vector
    paged_out: Vector

    @staticmethod
    def of(residency: Residency, values: Vector) -> _Solution:
        columns = extended(values)

        def before(table: Columns) -> Vector:
            sums = np.cumsum(columns[table], axis=0)
            return np.vstack([np.zeros(sums.shape[1]), sums[:-1]])

        return _Solution(
            residency,
            columns[residency.stay],
            columns[residency.recompute],
            before(residency.recompute),
            before(residency.page_in),
            before(residency.page_out),
        )


class _Separation:
    """Separation for one period t: computes D(i)[s] of each tensor i, for all s at once."""

    def __init__(self, solution: _Solution, period: int, least: float) -> None:
        self.solution = solution
        self.period = period
        self.least = least
        self.inputs = solution.residency.graph.inputs
        self.made = solution.residency.made
        # Vectors by s. Entries of D for s ≤ made[i] are meaningless and never read.
        self.sum: dict[int, Vector] = {}
        self.following: dict[int, NDArray[np.int64]] = {}

    def lineages(self, reads: Sequence[int], each: int) -> Iterator[Lineage]:
        targets: list[tuple[int, int | None, float]]
        targets = [(i, None, 1.0) for i in reads]
        again = self.solution.recompute[self.period]
        for v in np.flatnonzero(again > self.least):
            value = float(again[v])
            targets += [(i, int(v), value) for i in self.inputs[v] if self.made[i] < self.period]
        self.recur({i for i, _, _ in targets})
        for i, reader, value in targets:
            violation = value - self.sum[i]
            violation[: self.made[i] + 1] = -math.inf
            for since in np.argsort(-violation, kind="stable")[:each]:
                if violation[since] <= self.least:
                    break
                path = self.path(i, int(since))
                yield Lineage(
                    self.period,
                    reader,
                    int(since),
                    path,
                    tuple(self.is_paged_out(q, int(since)) for q in path),
                    float(violation[since]),
                )

    def recur(self, targets: set[int]) -> None:
        """Compute D of the targets and of all nodes on paths from them."""
        reached, open_ = set(targets), list(targets)
        end = self.period + 1
        while open_:
            i = open_.pop()
            # If i is never recomputed, Σ R is 0 and no longer path has a smaller sum.
            if self.solution.recomputed[end, i] > _EPSILON:
                fresh = [j for j in self.inputs[i] if j not in reached]
                reached.update(fresh)
                open_ += fresh
        for i in sorted(reached):
            recomputed = self.solution.recomputed[: end + 1, i]
            best = recomputed[end] - recomputed[:end]
            following = np.full(end, NOWHERE)
            if recomputed[end] > _EPSILON:
                for j in self.inputs[i]:
                    less = self.sum[j] < best - _EPSILON
                    best = np.where(less, self.sum[j], best)
                    following[less] = j
            paged_in = self.solution.paged_in[: end + 1, i]
            paged = np.minimum(
                paged_in[end] - paged_in[:end], self.solution.paged_out[self.period, i]
            )
            self.sum[i] = self.solution.stay[:end, i] + paged + best
            self.following[i] = following

    def path(self, i: int, since: int) -> tuple[int, ...]:
        path = [i]
        while (following := int(self.following[path[-1]][since])) != NOWHERE:
            path.append(following)
        return tuple(path)

    def is_paged_out(self, i: int, since: int) -> bool:
        paged_in = self.solution.paged_in
        page_ins = paged_in[self.period + 1, i] - paged_in[since, i]
        return bool(self.solution.paged_out[self.period, i] < page_ins - _EPSILON)
