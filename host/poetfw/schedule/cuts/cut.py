# SPDX-License-Identifier: Apache-2.0
"""Cuts, and the columns of a program that describe which tensors are in RAM."""

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
"""Column indices by (period, node); NOWHERE where the program has no such column."""

NOWHERE = -1
"""Index of a column that does not exist: `extended` puts a 0 there."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Σ coefficient · column ≥ bound.

    Attributes:
        terms: (column, coefficient) pairs; no column twice.
        bound: right-hand side.
    """

    terms: tuple[Term, ...]
    bound: float

    def violation(self, values: Vector) -> float:
        """Amount by which a solution misses the bound; negative if it exceeds the bound."""
        return self.bound - sum(float(values[x]) * a for x, a in self.terms)


def extended(values: Vector) -> Vector:
    """Column values, clipped at 0, with a 0 appended for the index NOWHERE."""
    return np.append(np.maximum(values, 0.0), 0.0)


@dataclass(frozen=True)
class Residency:
    """Columns of a program that describe, per period, which tensors are in RAM.

    A period is a stage of the compact program or a block of stages. Every integral solution meets
    the following rows, for each period t ≥ `first` and each tensor i first computed before t:

    - S[t+1,i] ≤ S[t,i] + R[t,i] + P[t,i];
    - R[t,k] ≤ S[t,i] + R[t,i] + P[t,i] where node k reads i;
    - 1 ≤ S[t,i] + R[t,i] + P[t,i] where a node first computed in period t reads i;
    - P[t,i] ≤ Σ_{s<t} O[s,i].

    Attributes:
        graph: the problem.
        made: per node, the period of its first computation; ascending along edges.
        stay, recompute, page_in, page_out: columns S, R, P and O, by (period, node).
        first: first period with rows in the program; S is constant before it.
        known_reads: per period, the tensors that it is known to have in RAM; None for those that
            the first computations of `made` read.
    """

    graph: Indexed
    made: tuple[int, ...]
    stay: Columns
    recompute: Columns
    page_in: Columns
    page_out: Columns
    first: int = 0
    known_reads: tuple[tuple[int, ...], ...] | None = None

    @staticmethod
    def of(graph: Indexed, compact: Compact) -> Residency:
        """Residency of the compact program, with one period per stage."""
        kinds = (compact.stay, compact.recompute, compact.page_in, compact.page_out)
        n = graph.n
        stay, recompute, page_in, page_out = (table(columns, n, n) for columns in kinds)
        made = tuple(range(n))
        return Residency(graph, made, stay, recompute, page_in, page_out, compact.first)

    @property
    def periods(self) -> int:
        """Number of periods."""
        return len(self.stay) - 1

    @property
    def reads(self) -> tuple[tuple[int, ...], ...]:
        """Per period, tensors from earlier periods that are in RAM at some time in it."""
        if self.known_reads is not None:
            return self.known_reads
        reads: list[set[int]] = [set() for _ in range(self.periods)]
        for node, period in enumerate(self.made):
            inputs = self.graph.inputs[node]
            reads[period].update(i for i in inputs if self.made[i] < period)
        return tuple(tuple(sorted(of_period)) for of_period in reads)


def table(columns: Mapping[Key, int], periods: int, nodes: int) -> Columns:
    """Array of columns, [periods + 1, nodes]; the last row is the end of the last period."""
    array = np.full((periods + 1, nodes), NOWHERE)
    for key, x in columns.items():
        array[key] = x
    return array
