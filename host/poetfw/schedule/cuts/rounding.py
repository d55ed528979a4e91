# SPDX-License-Identifier: Apache-2.0
"""Knapsacks, and their cuts by mixed-integer rounding.

A knapsack says that tensors live at one moment fit: Σ a_i y_i ≤ b, with sizes a_i and b whole
numbers and each y_i either 0 or 1, of which an expression h_i in a program's columns is a lower
bound. For any size δ, let a_i = q_i δ + r_i and b = p δ + r with remainders of 0 or more, but less
than δ. Then

    Σ (q_i + max(0, r_i - r) / (δ - r)) h_i  ≤  p.

Proof. Let I be the i with r_i > r, and round the others' sizes down and these' up:
Σ_I (q_i + 1) δ y_i + Σ_not-I q_i δ y_i - Σ_I (δ - r_i) y_i ≤ Σ a_i y_i ≤ b. With the whole number
z = Σ_I (q_i + 1) y_i + Σ_not-I q_i y_i and v = Σ_I (1 - r_i/δ) y_i ≥ 0 that is z - v ≤ p + r/δ. If
z ≤ p, then z - v / (1 - r/δ) ≤ p. Else z = p + j with j ≥ 1, so v ≥ j - r/δ ≥ j (1 - r/δ), and
again z - v / (1 - r/δ) ≤ p. Its coefficient of y_i is q_i, or for I q_i + 1 - (δ - r_i) / (δ - r) =
q_i + (r_i - r) / (δ - r). All are at least 0, so h_i ≤ y_i may stand for y_i. ∎
(G. Nemhauser, L. Wolsey, "Integer and Combinatorial Optimization", 1988, II.1.7.)

δ = 1 byte gives the knapsack itself; sizes that occur in it give cuts such as "of these tensors,
which take more than a third of the budget each, two".

*What must be away.* The proof asks of each y_i only that it is whole and at least 0, and of a_i
that it is whole. So it holds as well where 1 - z_i stands for some of the y_i: they have the sizes
-a_i, and b is less by a_i for each. Rounded, -a_i is 0 or less, as it grows with the size and 0
gives 0; so written in y_i again the coefficients are at least 0, and h_i ≤ y_i may stand there.
With δ the bytes that node k needs, and 1 - z_i for tensors that leave 0 < r < δ free if all of them
are there, this is

    R[t,k]  ≤  Σ min(1, a_i / (δ - r)) (1 - y_i):

to compute k at least δ - r bytes of them must be away. The knapsack lets a half of k be computed in
a half of the RAM. So what one column stands for is one item, as k's tensor and inputs that are read
for nothing else: Σ a_i y_i ≥ (Σ a_i) x where x ≤ y_i for each, and x is 0 or 1 itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from poetfw.schedule.cuts.cut import Cut
from poetfw.schedule.highs import Vector
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.milp import Term

Sizes = NDArray[np.int64]

Columns = Vector | Sequence[float]
"""A solution; as a list it is quicker to look at one by one."""


@dataclass(frozen=True, slots=True)
class Item:
    """A tensor, or a workspace, that may be live at some moment.

    Attributes:
        size: its bytes.
        constant, terms: the expression h ≤ y: constant + Σ coefficient · column.
    """

    size: int
    constant: float
    terms: tuple[Term, ...] = ()

    def value(self, columns: Columns) -> float:
        """The value of the expression in a solution."""
        total = 0.0
        for x, a in self.terms:
            total += float(columns[x]) * a
        return self.constant + total


@dataclass(frozen=True)
class Rounding:
    """Sizes by which to round.

    Attributes:
        divisor: what all sizes are multiples of.
        budget: the budget as a multiple of it.
        sizes: the sizes δ, in such multiples, ascending.
        least: violations up to this are none.
    """

    divisor: int
    budget: int
    sizes: Sizes
    least: float

    @staticmethod
    def of(graph: Indexed, least_share: float, least: float) -> Rounding:
        """Round by the sizes of the problem's tensors that take at least a share of its budget."""
        divisor = math.gcd(*graph.size, *graph.workspace) or 1
        budget = graph.problem.ram_bytes // divisor
        sizes = {m // divisor for m in graph.size if m and m >= least_share * divisor * budget}
        return Rounding(divisor, budget, np.array(sorted(sizes), dtype=np.int64), least)

    def cut(self, columns: Columns, items: Sequence[Item], reserved: int = 0) -> Cut | None:
        """The cut that is farthest from a solution; None if no size gives a violated one.

        Args:
            columns: the solution.
            items: what may be live at the same time.
            reserved: bytes that are taken for sure.
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
        """The deepest of the cuts by different δ and with different items away; None without one.

        Args:
            items: what the cut is about.
            values: per item, its expression's value in the solution.
            sizes: per item.
            budget: what all have.
            steps: δ.
            away: per set, the items for whose y 1 - z stands.
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


_FULL = 0.6  # RAM that is not nearly full violates nothing
_THERE = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
"""Items of more than this are asked which of them must be away: where others are asked as well that
are there by halves, what is missing of those is all that the cut asks for."""
_NEGLIGIBLE = 1e-6  # coefficients below it only upset a solver; without them a cut holds as well


def _merged(items: Sequence[Item]) -> Sequence[Item]:
    """The items that are the same column as one."""
    merged: dict[object, Item] = {}
    for number, item in enumerate(items):
        is_column = item.constant == 0.0 and len(item.terms) == 1 and item.terms[0][1] == 1.0
        key = item.terms if is_column else number
        known = merged.get(key)
        merged[key] = Item(item.size + known.size, 0.0, item.terms) if known else item
    return list(merged.values())


def _at_most(items: Sequence[Item], coefficients: Vector, bound: float) -> Cut:
    """Σ coefficient · h ≤ bound, as a cut."""
    terms: dict[int, float] = {}
    for item, coefficient in zip(items, coefficients.tolist(), strict=True):
        if coefficient == 0.0:
            continue
        bound -= coefficient * item.constant
        for x, a in item.terms:
            terms[x] = terms.get(x, 0.0) - coefficient * a
    return Cut(tuple((x, a) for x, a in terms.items() if a), -bound)
