# SPDX-License-Identifier: Apache-2.0
"""A linear inequality, and where a program says what is in RAM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from poetfw.schedule.compact import Compact, Key
from poetfw.schedule.highs import Vector
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.milp import Term

Columns = NDArray[np.int64]
"""Columns of a program by (period, node); NOWHERE where there is none."""

NOWHERE = -1
"""The index of no column: `extended` has 0 there."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Σ coefficient · column ≥ bound.

    Attributes:
        terms: columns, each once, and their coefficients.
        bound: right-hand side.
    """

    terms: tuple[Term, ...]
    bound: float

    def violation(self, values: Vector) -> float:
        """By how much columns fall short of the bound; negative where they exceed it."""
        return self.bound - sum(float(values[x]) * a for x, a in self.terms)


def extended(values: Vector) -> Vector:
    """Columns with a 0 behind them, at NOWHERE."""
    return np.append(np.maximum(values, 0.0), 0.0)


@dataclass(frozen=True)
class Residency:
    """Columns of a program that say, period by period, which tensors are in RAM.

    A period is a stage of the compact program, or a block of stages. For a tensor i that is made
    before period t, where t is not before the first that the program has rows for (until then S
    stays the same), and whatever the program's integral solutions:

    - S[t+1,i] ≤ S[t,i] + R[t,i] + P[t,i];
    - R[t,k] ≤ S[t,i] + R[t,i] + P[t,i] where node k reads i;
    - 1 ≤ S[t,i] + R[t,i] + P[t,i] where a node first computed in period t reads i;
    - P[t,i] ≤ Σ_{s<t} O[s,i].

    Attributes:
        graph: the problem.
        made: per node, the period of its first computation; ascending.
        stay, recompute, page_in, page_out: columns S, R, P and O.
        first: the first period that the program has rows for.
    """

    graph: Indexed
    made: tuple[int, ...]
    stay: Columns
    recompute: Columns
    page_in: Columns
    page_out: Columns
    first: int = 0

    @staticmethod
    def of(graph: Indexed, compact: Compact) -> Residency:
        """Make it from the compact program: each stage is a period."""
        kinds = (compact.stay, compact.recompute, compact.page_in, compact.page_out)
        n = graph.n
        stay, recompute, page_in, page_out = (table(columns, n, n) for columns in kinds)
        made = tuple(range(n))
        return Residency(graph, made, stay, recompute, page_in, page_out, compact.first)

    @property
    def periods(self) -> int:
        """Number of periods."""
        return len(self.stay) - 1


def table(columns: Mapping[Key, int], periods: int, nodes: int) -> Columns:
    """Columns by (period, node) as an array, with a row for the end of the last period."""
    array = np.full((periods + 1, nodes), NOWHERE)
    for key, x in columns.items():
        array[key] = x
    return array
