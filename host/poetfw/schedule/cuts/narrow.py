# SPDX-License-Identifier: Apache-2.0
"""Cuts and bounds of a wide program, translated to a narrow one with a subset of its columns.

A program restricted to the recomputations and page-ins that a relaxation used has a tenth of the
columns. Every proof about the wide program holds for the narrow one, with the missing columns at 0.
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
    """Map from the columns of a wide program to those of a narrow one.

    Attributes:
        columns: per wide column, the index of the narrow column, or NOWHERE.
    """

    columns: NDArray[np.int64]

    @staticmethod
    def of(narrow: Compact, wide: Compact) -> Narrow:
        """Match columns S, R, P and O by key; no cut contains those for frees and bytes."""
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
        """Bound, reduced costs and cuts of a wide relaxation, in the narrow program's columns."""
        cuts = {cut.terms: cut for cut in map(self.narrowed, relaxed.cuts)}
        count = int(self.columns.max(initial=NOWHERE)) + 1
        reduced = np.full(count, -np.inf)
        seen = self.columns != NOWHERE
        reduced[self.columns[seen]] = relaxed.reduced_costs[seen]
        return Relaxed(None, relaxed.bound, reduced, tuple(cuts.values()))
