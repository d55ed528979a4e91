# SPDX-License-Identifier: Apache-2.0
"""Slot cuts: rounded knapsack rows of the bytes live while a stage produces a node.

Slot k of stage t is the time while the stage produces node k ≤ t. Let y_i be 1 if tensor i is live
in the slot, else 0: the rows for U state Σ m_i y_i ≤ budget. In the columns F, for i < t,

    y_i = S[t,i] + (R + P)[t,i] if i ≤ k  -  Σ_{j<k} F[t,i,j]  -  F[t,i,k] if k takes over i.

With H = S + R + P at (t,i), the rows for H and F give these lower bounds of y_i for i ≤ k:

- 1                 if t reads i: then H = 1 and there is no F;
- S[t+1,i]          because S[t+1,i] + Σ_j F[t,i,j] ≤ H;
- R[t,j]            for a reader j > k of i, because R[t,j] + Σ_{j'<j} F[t,i,j'] ≤ H; also for
                    j = k unless k takes over i;
- R[t,k]            for i = k: a tensor cannot be freed before it is produced, so y_k = H.

A tensor i > k can be live only if it stayed: y_i = S[t,i] = H - R - P at (t,i), where the first
three are lower bounds of H. In the slot of the stage's own node, k = t, the lower bound is 1 for
inputs, S[t+1,i] for other i < t, and 1 for the output, or S[t+1,i] if it may take over its input i.
The workspace of node k takes w_k R[t,k] bytes, that of node t takes w_t. For each tensor, the lower
bound with the largest value in the solution goes into a knapsack, which `rounding` turns into cuts.

The proof uses rows of the program only, so it also holds with windows and closed stages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from poetfw.schedule.cuts.cut import NOWHERE, Cut, Residency, extended
from poetfw.schedule.cuts.rounding import Item, Rounding
from poetfw.schedule.highs import Vector

_LEAST_RECOMPUTE = 0.02  # skip slots whose R[t,k] is smaller
_LEAST_VALUE = 1e-6


def separate_slots(residency: Residency, values: Vector, rounding: Rounding) -> list[Cut]:
    """The slot cuts that a solution violates: at most one per slot.

    Args:
        residency: columns of the program, with one period per stage.
        values: the solution, by column.
        rounding: divisors of the rounding.
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
    """The knapsacks of a stage's slots, from the last slot to the first.

    Args:
        residency: columns of the program.
        columns: the solution, extended by a 0 at NOWHERE.
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
        # Per tensor, the value and column of its lower bound.
        self.held = {
            i: (values[x], x) for i, x in zip(kept.tolist(), stays[kept].tolist(), strict=True)
        }
        self.again = np.flatnonzero(columns[again] > _LEAST_RECOMPUTE)[::-1].tolist()
        for i in self.graph.inputs[t]:
            self.held[i] = (1.0, NOWHERE)

    def hold(self, i: int, column: int) -> None:
        """Make a column the lower bound of tensor i if its value is larger."""
        value = self.values[column]
        if value > self.held.get(i, (0.0,))[0]:
            self.held[i] = (value, column)

    def knapsacks(self) -> Iterator[tuple[list[Item], int]]:
        """Items of each slot, and the bytes always in use there."""
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
        """Item of a tensor that is live if `column` is 1; always live if it is NOWHERE."""
        if column == NOWHERE:
            return Item(self.graph.size[i], 1.0)
        return Item(self.graph.size[i], 0.0, ((column, 1.0),))

    def slot(self, k: int, recompute: int) -> list[Item]:
        """Items while node k is recomputed; also makes R[t,k] a bound of its inputs before k."""
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
        """Item of a tensor i > k, with lower bound `column` - R - P: live only if it stayed."""
        item = self.item(i, column)
        again = (self.residency.recompute[self.t, i], self.residency.page_in[self.t, i])
        terms = tuple((int(x), -1.0) for x in again if x != NOWHERE)
        return Item(item.size, item.constant, item.terms + terms)
