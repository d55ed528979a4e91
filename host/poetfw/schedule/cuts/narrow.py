# SPDX-License-Identifier: Apache-2.0
"""Cuts and bounds of a wide program, for one with a part of its columns.

A program that may produce only what a relaxation used has a tenth of the columns. What is proven of
the wide program holds of it too, with 0 for the columns that it lacks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from poetfw.schedule.compact import Compact
from poetfw.schedule.cuts.cut import NOWHERE, Cut
from poetfw.schedule.cuts.relaxation import Relaxed


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
