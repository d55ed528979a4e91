# SPDX-License-Identifier: Apache-2.0
"""Knapsack rows, and mixed-integer rounding (MIR) cuts from them.

A knapsack row states that the tensors live at one moment fit in RAM: Σ a_i y_i ≤ b, with integral
sizes a_i and b and binary y_i. An expression h_i in a program's columns is a lower bound of y_i.
For any divisor δ, let a_i = q_i δ + r_i and b = p δ + r with 0 ≤ r_i, r < δ. Then

    Σ (q_i + max(0, r_i - r) / (δ - r)) h_i  ≤  p.

Proof. Let I be the set of i with r_i > r. Round sizes in I up and all others down:
Σ_I (q_i + 1) δ y_i + Σ_not-I q_i δ y_i - Σ_I (δ - r_i) y_i ≤ Σ a_i y_i ≤ b. With the integer
z = Σ_I (q_i + 1) y_i + Σ_not-I q_i y_i and v = Σ_I (1 - r_i/δ) y_i ≥ 0, z - v ≤ p + r/δ. If
z ≤ p, then z - v / (1 - r/δ) ≤ p. Otherwise z = p + j with j ≥ 1, so v ≥ j - r/δ ≥ j (1 - r/δ), and
again z - v / (1 - r/δ) ≤ p. The coefficient of y_i is q_i, or, in I, q_i + 1 - (δ - r_i) / (δ - r)
= q_i + (r_i - r) / (δ - r). All coefficients are at least 0, so h_i ≤ y_i may replace y_i. ∎
(G. Nemhauser, L. Wolsey, "Integer and Combinatorial Optimization", 1988, II.1.7.)

δ = 1 byte gives the knapsack row itself. Sizes that occur in the row give cuts such as "at most two
of the tensors that take more than a third of the budget each".

*Complemented items.* The proof needs only integral y_i ≥ 0 and integral a_i. So some y_i may be
replaced by 1 - z_i: their sizes become -a_i, and b shrinks by a_i for each. Rounding is monotone
and maps 0 to 0, so the coefficient of -a_i is at most 0; rewritten in y_i it is at least 0, and
h_i ≤ y_i may again replace y_i. Let δ be the bytes that node k needs, and complement tensors that,
if all are live, leave r bytes free, 0 < r < δ. This gives

    R[t,k]  ≤  Σ min(1, a_i / (δ - r)) (1 - y_i):

to compute k, at least δ - r bytes of them must be absent. The knapsack row alone allows half of k
in half of the RAM. For this, items with the same column are merged, such as k's tensor and the
inputs that only k reads: Σ a_i y_i ≥ (Σ a_i) x if x ≤ y_i for each i and x is binary.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from poetfw.schedule.cuts.cut import Cut
from poetfw.schedule.highs import Vector
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.milp import Term

Sizes = NDArray[np.int64]

Columns = Vector | Sequence[float]
"""A solution by column; a list is faster for scalar access."""


@dataclass(frozen=True, slots=True)
class Item:
    """A tensor, or a workspace, that may be live at some moment.

    Attributes:
        size: bytes.
        constant, terms: the expression h = constant + Σ coefficient · column, h ≤ y.
    """

    size: int
    constant: float
    terms: tuple[Term, ...] = ()

    def value(self, columns: Columns) -> float:
        """Value of h in a solution."""
        total = 0.0
        for x, a in self.terms:
            total += float(columns[x]) * a
        return self.constant + total


@dataclass(frozen=True, slots=True)
class Knapsack:
    """The tensors and workspaces that must fit in RAM at one moment.

    Attributes:
        items: tensors and workspaces that may be live.
        reserved: bytes always in use.
        recompute: column R of the recompute that the moment belongs to; None for a first
            computation.
    """

    items: tuple[Item, ...]
    reserved: int
    recompute: int | None = None


@dataclass(frozen=True)
class Rounding:
    """Divisors δ of the rounding.

    Attributes:
        divisor: greatest common divisor of all sizes, in bytes.
        budget: the budget in units of `divisor`, rounded down.
        sizes: candidates for δ in units of `divisor`, ascending.
        least: ignore violations up to this.
    """

    divisor: int
    budget: int
    sizes: Sizes
    least: float

    @staticmethod
    def of(graph: Indexed, least_share: float, least: float) -> Rounding:
        """Divisors from the tensors that take at least `least_share` of the budget."""
        divisor = math.gcd(*graph.size, *graph.workspace) or 1
        budget = graph.problem.ram_bytes // divisor
        sizes = {m // divisor for m in graph.size if m and m >= least_share * divisor * budget}
        return Rounding(divisor, budget, np.array(sorted(sizes), dtype=np.int64), least)

    def cuts(self, values: Vector, knapsacks: Iterable[Knapsack]) -> list[Cut]:
        """The cuts that a solution violates, the most violated first: at most one per knapsack."""
        listed = values.tolist()
        cuts = (
            self.cut(listed, knapsack.items, knapsack.reserved)
            for knapsack in knapsacks
            if knapsack.recompute is None or listed[knapsack.recompute] > _LEAST_RECOMPUTE
        )
        return sorted(filter(None, cuts), key=lambda cut: -cut.violation(values))

    def cut(self, columns: Columns, items: Sequence[Item], reserved: int = 0) -> Cut | None:
        """The violated cut with the largest Euclidean distance from a solution; None without one.

        Args:
            columns: the solution.
            items: tensors and workspaces that may be live at the same time.
            reserved: bytes that are always in use.
        """
        budget = self.budget - reserved // self.divisor
        if budget < 0 or not self.sizes.size:
            return None
        items = _merged(items)
        sizes = np.array([item.size for item in items], dtype=np.int64) // self.divisor
        values = np.maximum([item.value(columns) for item in items], 0.0)
        if sizes @ values < _FULL * budget:
            return None
        in_parts = (values < 1.0 - _NEGLIGIBLE) & (sizes >= self.sizes[0])
        steps = np.array(sorted({1, *self.sizes.tolist(), *sizes[in_parts].tolist()}))
        sets = (values > there for there in (*_THERE, math.inf))
        away = np.array(list({away.tobytes(): away for away in sets}.values()))
        return self._deepest(items, values, sizes, budget, steps, away)

    def _deepest(
        self,
        items: Sequence[Item],
        values: Vector,
        sizes: Sizes,
        budget: int,
        steps: Sizes,
        away: NDArray[np.bool_],
    ) -> Cut | None:
        """The deepest cut over all δ and sets of complemented items; None if none is violated.

        Args:
            items: items of the knapsack row.
            values: per item, the value of h in the solution.
            sizes: per item, in units of `divisor`.
            budget: right-hand side, in units of `divisor`.
            steps: values of δ, in units of `divisor`.
            away: [sets, items], true where the item is complemented.
        """
        is_away = away[:, :, None]
        there, gone = (np.divmod(of[:, None], steps) for of in (sizes, -sizes))
        whole, rest = (np.where(is_away, *of) for of in zip(gone, there, strict=True))
        bounds, spare = np.divmod((budget - away @ sizes)[:, None], steps)
        coefficients = whole + np.maximum(0, rest - spare[:, None]) / (steps - spare)[:, None]
        coefficients[away] *= -1.0
        bounds = bounds + np.where(is_away, coefficients, 0.0).sum(axis=1)
        coefficients[coefficients < _NEGLIGIBLE] = 0.0
        violations = np.array([values @ of_set for of_set in coefficients]) - bounds
        norms = np.sqrt((coefficients**2).sum(axis=1)) + _NEGLIGIBLE
        depths = np.where(violations > self.least, violations / norms, 0.0)
        best = np.unravel_index(np.argmax(depths), depths.shape)
        if depths[best] <= 0:
            return None
        of_set, step = best
        return _at_most(items, coefficients[of_set, :, step], float(bounds[best]))


_LEAST_RECOMPUTE = 0.02  # skip knapsacks of recomputes with smaller columns
_FULL = 0.6  # share of the budget; a knapsack filled less is unlikely to give a violated cut
_THERE = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
"""Thresholds: items with larger values are complemented. A low threshold also complements
half-present items, whose missing halves alone may satisfy the cut, so several are tried."""
_NEGLIGIBLE = 1e-6  # smaller coefficients are dropped: the cut stays valid, the solver stable


def _merged(items: Sequence[Item]) -> Sequence[Item]:
    """Items, with those of the same single column merged into one."""
    merged: dict[object, Item] = {}
    for number, item in enumerate(items):
        is_column = item.constant == 0.0 and len(item.terms) == 1 and item.terms[0][1] == 1.0
        key = item.terms if is_column else number
        known = merged.get(key)
        merged[key] = Item(item.size + known.size, 0.0, item.terms) if known else item
    return list(merged.values())


def _at_most(items: Sequence[Item], coefficients: Vector, bound: float) -> Cut:
    """Convert Σ coefficient · h ≤ bound to a cut."""
    terms: dict[int, float] = {}
    for item, coefficient in zip(items, coefficients.tolist(), strict=True):
        if coefficient == 0.0:
            continue
        bound -= coefficient * item.constant
        for x, a in item.terms:
            terms[x] = terms.get(x, 0.0) - coefficient * a
    return Cut(tuple((x, a) for x, a in terms.items() if a), -bound)
