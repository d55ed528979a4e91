# SPDX-License-Identifier: Apache-2.0
"""Integer program for one moment of a plan: keep, recompute or page in each tensor read later.

Consider a tensor that is computed before the moment and read after it. It stays in RAM over the
moment (*kept*), is recomputed after it (*again*), or is paged in after it (*paged*). Recomputing
reads the inputs after the moment, so the same holds for them:

    again[v] ≤ kept[u] + again[u] + paged[u]        for every input u of v
    1        ≤ kept[u] + again[u] + paged[u]        for every u that is read in any case

Without a RAM limit this is a closure problem, that is a minimum cut, and its linear relaxation is
integral (J.-C. Picard, "Maximal closure of a graph", 1976). The RAM limit adds one row, so few
columns are fractional. The program has three columns per tensor; a program in stages has three per
tensor and stage.
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

_PRESOLVED = 30_000  # nonzeros at most
_AS_IT_IS = {"presolve": "off", "mip_detect_symmetry": False}
"""Settings of HiGHS for larger programs: presolve takes time quadratic in the nonzeros, several
times that of solving, and removes 3% of the columns."""


@dataclass(frozen=True)
class Having:
    """The program and its columns.

    Attributes:
        program: minimises the joules of recomputing and paging.
        tensors: nodes whose tensors have columns, ascending.
        kept, again, paged: column index by node.
        held: column index by node of tensors that stay in RAM until another moment, if any.
        unit_bytes: greatest common divisor of all sizes.
    """

    program: IntegerProgram
    tensors: tuple[int, ...]
    kept: dict[int, int] = field(repr=False)
    again: dict[int, int] = field(repr=False)
    paged: dict[int, int] = field(repr=False)
    unit_bytes: int
    held: dict[int, int] = field(default_factory=dict, repr=False)

    @staticmethod
    def of(
        graph: Indexed,
        read: Collection[int],
        may_again: Callable[[int], bool],
        wanted: Collection[int] = (),
        program: IntegerProgram | None = None,
    ) -> Having:
        """The program without a limit on RAM.

        Args:
            graph: the problem.
            read: nodes whose tensors are read after the moment even if nothing is recomputed.
            may_again: true for a node that may be recomputed after the moment.
            wanted: further nodes whose tensors have columns.
            program: program to add columns and rows to; None for a new one.
        """
        tensors = {*read, *wanted}
        stack = list(tensors)
        while stack:
            i = stack.pop()
            if may_again(i):
                new = [u for u in graph.inputs[i] if u not in tensors]
                tensors.update(new)
                stack += new
        ordered = tuple(sorted(tensors))
        program = IntegerProgram() if program is None else program
        costs = Costs.energy(graph)
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
            if i in read:
                program.at_most(having.there(i, -1.0), -1.0)
            for u in graph.inputs[i] if i in again else ():
                program.at_most([(again[i], 1.0), *having.there(u, -1.0)], 0.0)
        return having

    def there(self, i: int, times: float) -> list[Term]:
        """The terms of kept + again + paged of tensor i, each with coefficient `times`."""
        return [(self.kept[i], times), *self.produced(i, times)]

    def produced(self, i: int, times: float) -> list[Term]:
        """The terms of again + paged of tensor i, each with coefficient `times`."""
        return [(of_kind[i], times) for of_kind in (self.again, self.paged) if i in of_kind]

    def limit(self, sized: Iterable[Term], most_bytes: int) -> None:
        """Require Σ bytes · column ≤ `most_bytes`; `sized` has pairs (column, bytes)."""
        unit = self.unit_bytes
        self.program.at_most([(x, m / unit) for x, m in sized if m], float(most_bytes // unit))


def in_highs(program: IntegerProgram, gap: float) -> tuple[Highs, float]:
    """A program in HiGHS, and the scale factor of its objective.

    Args:
        program: the program.
        gap: relative optimality gap at which HiGHS stops.
    """
    costs, (matrix, least, most) = np.array(program.costs), program.matrix()
    upper, integer = np.array(program.upper), np.array(program.integer)
    scale = OBJECTIVE_SCALE / (costs.sum() or 1.0)
    model = LinearModel(costs * scale, upper, integer, matrix, least, most)
    settings = _AS_IT_IS if matrix.nnz > _PRESOLVED else {}
    return Highs(model, {"mip_rel_gap": gap, **settings}), scale
