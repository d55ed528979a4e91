# SPDX-License-Identifier: Apache-2.0
"""Program of a moment: tensors read after it are kept, recomputed or paged in.

A tensor that was computed before the moment and is read after it stayed in RAM over the moment
(*kept*), or is computed *again* after it, or is *paged* in after it. Computing it again reads its
inputs after the moment, so of these the same is true:

    again[v] ≤ kept[u] + again[u] + paged[u]        for every input u of v
    1        ≤ kept[u] + again[u] + paged[u]        for every u that is read in any case

Any set of tensors that is closed under "is read by" meets these rows, so that without a limit on
RAM the program is a minimum cut, and its relaxation whole-numbered (J.-C. Picard, "Maximal closure
of a graph", 1976). A row of the bytes that are kept is one more, so few columns are fractions. It
has three columns a tensor, where a program in stages has three for each stage of one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

import numpy as np

from poetfw.schedule.coefficients import Costs
from poetfw.schedule.highs import Highs, LinearModel
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.milp import OBJECTIVE_SCALE, IntegerProgram, Term


@dataclass(frozen=True)
class Having:
    """The program, and where its columns are.

    Attributes:
        program: minimise the joules of what is computed again and paged.
        tensors: the nodes whose tensors it is about, ascending.
        kept, again, paged: columns by node.
        unit_bytes: all sizes are whole multiples of it.
    """

    program: IntegerProgram
    tensors: tuple[int, ...]
    kept: dict[int, int] = field(repr=False)
    again: dict[int, int] = field(repr=False)
    paged: dict[int, int] = field(repr=False)
    unit_bytes: int

    @staticmethod
    def of(graph: Indexed, read: Collection[int], may_again: Callable[[int], bool]) -> Having:
        """The program without a limit on RAM.

        Args:
            graph: the problem.
            read: what is read after the moment, though nothing is computed again.
            may_again: true for a node that may be computed again after the moment.
        """
        tensors, stack = set(read), list(read)
        while stack:
            i = stack.pop()
            if may_again(i):
                new = [u for u in graph.inputs[i] if u not in tensors]
                tensors.update(new)
                stack += new
        ordered = tuple(sorted(tensors))
        program, costs = IntegerProgram(), Costs.energy(graph)
        kept, again, paged = {}, {}, {}
        for i in ordered:
            kept[i] = program.binary()
            if may_again(i):
                again[i] = program.binary(costs.compute[i])
            if graph.pageable[i]:
                paged[i] = program.binary(costs.page_in[i] + costs.page_out[i])
        unit = math.gcd(*graph.size, *graph.workspace) or 1
        having = Having(program, ordered, kept, again, paged, unit)
        for i in ordered:
            there = having.there(i, -1.0)
            if i in read:
                program.at_most(there, -1.0)
            for u in graph.inputs[i] if i in again else ():
                program.at_most([(again[i], 1.0), *having.there(u, -1.0)], 0.0)
        return having

    def there(self, i: int, times: float) -> list[Term]:
        """The terms for a tensor that is there after the moment, times a number."""
        columns = (self.kept, self.again, self.paged)
        return [(of_kind[i], times) for of_kind in columns if i in of_kind]

    def limit(self, sized: Iterable[Term], most_bytes: int) -> None:
        """Require Σ bytes · column ≤ some bytes."""
        unit = self.unit_bytes
        self.program.at_most([(x, m / unit) for x, m in sized if m], float(most_bytes // unit))

    def highs(self, gap: float) -> tuple[Highs, float]:
        """The program in HiGHS, and by what its joules are scaled there.

        Args:
            gap: of the objective, which HiGHS need not close.
        """
        costs, (matrix, least, most) = np.array(self.program.costs), self.program.matrix()
        upper, integer = np.array(self.program.upper), np.array(self.program.integer)
        scale = OBJECTIVE_SCALE / (costs.sum() or 1.0)
        model = LinearModel(costs * scale, upper, integer, matrix, least, most)
        return Highs(model, {"mip_rel_gap": gap}), scale
