# SPDX-License-Identifier: Apache-2.0
"""Slot cuts: knapsack inequalities of the bytes live while a stage produces a node, rounded.

While stage t produces node k ≤ t (its slot k), let y_i be 1 if tensor i is live then, else 0: the
rows for U say Σ m_i y_i ≤ budget. In terms of the columns F that is, for i < t,

    y_i = S[t,i] + (R + P)[t,i] if i ≤ k  -  Σ_{j<k} F[t,i,j]  -  F[t,i,k] if k takes over i.

Lower bounds of y_i, for i ≤ k and H = S + R + P at (t,i), from the rows for H and F:

- 1                 if t reads i: then H = 1 and there is no F;
- S[t+1,i]          as S[t+1,i] + Σ_j F[t,i,j] ≤ H;
- R[t,j]            for a reader j > k of i, as R[t,j] + Σ_{j'<j} F[t,i,j'] ≤ H; and for j = k
                    unless k takes i over;
- R[t,k]            for i = k, as nothing is freed of what is yet to be made: y_k = H.

A tensor i > k can only have stayed: y_i = S[t,i] = H - R - P at (t,i), where H is at least any of
the first three. In the slot k = t of the stage's own node inputs count 1, other i < t S[t+1,i], and
its output 1, or S[t+1,i] if it may take over its input i. The workspace of node k takes w_k R[t,k],
that of t w_t. The largest of these lower bounds, of the solution at hand, goes into a knapsack, of
which `rounding` makes cuts.

All of this uses rows of the program only, so it holds with windows and closed stages too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from poetfw.schedule.cuts.cut import NOWHERE, Cut, Residency, extended
from poetfw.schedule.cuts.rounding import Item, Rounding
from poetfw.schedule.highs import Vector

_LEAST_RECOMPUTE = 0.02  # slots with less of their node than this are passed over
_LEAST_VALUE = 1e-6


def separate_slots(residency: Residency, values: Vector, rounding: Rounding) -> list[Cut]:
    """The slot cuts that a solution violates: at most one per slot.

    Args:
        residency: where the program says what is in RAM, by stages.
        values: the program's columns.
        rounding: the sizes by which to round.
    """
    cuts = []
    columns = extended(values)
    listed = columns.tolist()
    for t in range(max(1, residency.first), residency.graph.n):
        for items, reserved in _Stage(residency, columns, listed, t).knapsacks():
            cut = rounding.cut(listed, items, reserved)
            if cut is not None:
                cuts.append(cut)
    return cuts


class _Stage:
    """The knapsacks of a stage's slots, from the last one back.

    Args:
        residency: where the program says what is in RAM.
        columns: its columns, and a 0 behind them.
        values: the same as a list.
        t: the stage.
    """

    def __init__(
        self, residency: Residency, columns: Vector, values: Sequence[float], t: int
    ) -> None:
        self.graph = residency.graph
        self.residency = residency
        self.values = values
        self.t = t
        stays, again = residency.stay[t + 1, :t], residency.recompute[t]
        kept = np.flatnonzero(columns[stays] > _LEAST_VALUE)
        # Value and column of each lower bound.
        self.held = {
            i: (values[x], x) for i, x in zip(kept.tolist(), stays[kept].tolist(), strict=True)
        }
        self.again = np.flatnonzero(columns[again] > _LEAST_RECOMPUTE)[::-1].tolist()
        for i in self.graph.inputs[t]:
            self.held[i] = (1.0, NOWHERE)

    def hold(self, i: int, column: int) -> None:
        """Have a column as i's lower bound, where it is larger."""
        value = self.values[column]
        if value > self.held.get(i, (0.0,))[0]:
            self.held[i] = (value, column)

    def knapsacks(self) -> Iterator[tuple[list[Item], int]]:
        """Items of each slot, and what is taken for sure."""
        items = [self.item(i, column) for i, (_, column) in self.held.items()]
        yield [*items, *self.output()], self.graph.workspace[self.t]
        for k in self.again:
            yield self.slot(k, int(self.residency.recompute[self.t, k])), 0

    def output(self) -> Iterator[Item]:
        size, taken = self.graph.size[self.t], self.graph.in_place[self.t]
        if not size:
            return
        if taken is None:
            yield self.item(self.t, NOWHERE)
            return
        kept = int(self.residency.stay[self.t + 1, taken])
        if kept != NOWHERE:
            yield self.item(self.t, kept)

    def item(self, i: int, column: int) -> Item:
        """A tensor that is live if a column is 1; for sure if it is NOWHERE."""
        if column == NOWHERE:
            return Item(self.graph.size[i], 1.0)
        return Item(self.graph.size[i], 0.0, ((column, 1.0),))

    def slot(self, k: int, recompute: int) -> list[Item]:
        """While node k is computed again; afterwards its inputs are read by it for those before."""
        taken = self.graph.in_place[k]
        before_taken = self.held.get(taken) if taken is not None else None
        for i in self.graph.inputs[k]:
            self.hold(i, recompute)
        held = dict(self.held)
        if taken is not None:
            del held[taken]
            if before_taken is not None:
                held[taken] = before_taken
        if self.values[recompute] > held.get(k, (0.0,))[0]:
            held[k] = (0.0, recompute)
        items = [
            self.stayed(i, column) if i > k else self.item(i, column)
            for i, (_, column) in held.items()
        ]
        if self.graph.workspace[k]:
            items.append(Item(self.graph.workspace[k], 0.0, ((recompute, 1.0),)))
        return [item for item in items if item.value(self.values) > _LEAST_VALUE]

    def stayed(self, i: int, column: int) -> Item:
        """Cuts: what is produced after slot k was there already, unless it is produced again."""
        item = self.item(i, column)
        again = (self.residency.recompute[self.t, i], self.residency.page_in[self.t, i])
        terms = tuple((int(x), -1.0) for x in again if x != NOWHERE)
        return Item(item.size, item.constant, item.terms + terms)
