# SPDX-License-Identifier: Apache-2.0
"""Cuts of a program within a window, for the program without one.

A program in which a stage computes again only within a window has a part of the columns of the one
without. Its relaxation is solved in a small part of the time, and most of the cuts that the wide
one needs are violated there already. So they are made of the wide program's columns, of a solution
that has 0 wherever the narrow one has no column, and the narrow program sees what it has of them.
A cut holds in the wide program for what `lineage` and `slots` prove, whoever found it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from poetfw.schedule.compact import Compact
from poetfw.schedule.cuts.cut import NOWHERE, Cut, extended
from poetfw.schedule.cuts.relaxation import Relaxed
from poetfw.schedule.highs import Vector


@dataclass(frozen=True)
class Narrow:
    """Columns of a narrow program, by those of a wide one.

    Attributes:
        columns: per column of the wide program, that of the narrow one, or NOWHERE.
    """

    columns: NDArray[np.int64]

    @staticmethod
    def of(narrow: Compact, wide: Compact) -> Narrow:
        """By what the columns stand for; those for frees and bytes are in no cut."""
        columns = np.full(wide.program.columns, NOWHERE)
        for of_wide, of_narrow in (
            (wide.stay, narrow.stay),
            (wide.recompute, narrow.recompute),
            (wide.page_in, narrow.page_in),
            (wide.page_out, narrow.page_out),
        ):
            for key, x in of_wide.items():
                columns[x] = of_narrow.get(key, NOWHERE)
        return Narrow(columns)

    def widened(self, values: Vector) -> Vector:
        """A solution of the narrow program in the wide one's columns."""
        widened: Vector = extended(values)[self.columns]
        return widened

    def narrowed(self, cut: Cut) -> Cut:
        """A cut of the wide program in the narrow one's columns."""
        terms: dict[int, float] = {}
        for x, a in cut.terms:
            column = int(self.columns[x])
            if column != NOWHERE:
                terms[column] = terms.get(column, 0.0) + a
        return Cut(tuple((x, a) for x, a in terms.items() if a), cut.bound)

    def relaxed(self, relaxed: Relaxed) -> Relaxed:
        """The proof of a wide program's relaxation, for the narrow one."""
        cuts = {cut.terms: cut for cut in map(self.narrowed, relaxed.cuts)}
        count = int(self.columns.max(initial=NOWHERE)) + 1
        reduced = np.full(count, -np.inf)
        seen = self.columns != NOWHERE
        reduced[self.columns[seen]] = relaxed.reduced_costs[seen]
        return Relaxed(None, relaxed.bound, reduced, tuple(cuts.values()))
