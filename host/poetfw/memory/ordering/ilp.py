# SPDX-License-Identifier: Apache-2.0
"""Op ordering as an integer program over the lifetimes of tensors (OLLA, eq. 14)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import gcd

import numpy as np

from poetfw.common.limits import Work
from poetfw.memory.ordering.gluing import Glued
from poetfw.memory.ordering.indexed import IndexedOps
from poetfw.schedule.highs import SolveOutcome, Vector
from poetfw.schedule.milp import IntegerProgram, SolverOptions, solve_program

_LARGEST = 60_000
"""Most columns of a program that is worth starting."""

_TOLERANCE = 1e-5
"""Relative error of the solver's bound, in units of the peak."""


@dataclass(frozen=True, slots=True)
class OrderingIlpAnswer:
    """Result of the integer program.

    Attributes:
        order: the incumbent.
        peak: peak of the incumbent in bytes.
        lower: lower bound on the peak of every order, in bytes.
    """

    order: tuple[int, ...]
    peak: int
    lower: int


def solve_ilp(
    problem: IndexedOps,
    glued: Glued,
    order: tuple[int, ...],
    lower: int,
    work: Work,
    max_nodes: int = 20_000,
) -> OrderingIlpAnswer:
    """Improve an order, or the bound, by integer programming.

    Op i runs at one timestep between its ASAP and ALAP time (precedence pruning): C[i,t]. A tensor
    e is preserved at t, P[e,t], only if it was preserved or created at t - 1, and must be where an
    op that reads it runs. An output takes over its input's bytes, S[i,t], only if op i runs at t
    and the input is not preserved at t + 1. Minimise the largest sum of bytes created and
    preserved, workspace included, less what is taken over.

    Args:
        problem: the ops.
        glued: sequences and precedences that may be fixed.
        order: a legal order to start from.
        lower: a proven lower bound in bytes.
        work: work limit.
        max_nodes: most branch-and-bound nodes.
    """
    upper = problem.peak(order)
    unchanged = OrderingIlpAnswer(order, upper, lower)
    if upper <= lower:
        return unchanged
    model = _Model(problem, glued, upper, lower)
    if model.columns > _LARGEST:
        return unchanged
    options = SolverOptions(gap=0.0, max_nodes=max_nodes)
    solution = solve_program(model.build(), options, work, model.start(order))
    if solution.outcome is SolveOutcome.INFEASIBLE:  # the program only allows better orders
        return OrderingIlpAnswer(order, upper, upper)
    proven = max(lower, model.whole_bytes(solution.bound))
    if solution.values is None:
        return OrderingIlpAnswer(order, upper, min(upper, proven))
    better = model.order(solution.values)
    peak = problem.peak(better)
    if peak >= upper:
        return OrderingIlpAnswer(order, upper, min(upper, proven))
    return OrderingIlpAnswer(better, peak, min(peak, proven))


class _Model:
    """Columns and rows of the program. The peak is in units of the gcd of all sizes."""

    def __init__(self, problem: IndexedOps, glued: Glued, upper: int, lower: int) -> None:
        n = problem.n
        self._problem = problem
        self._upper = upper
        self._lower = lower
        before = glued.before
        self._glued = glued
        self._asap = before.sum(axis=1).tolist()
        self._alap = (n - 1 - before.sum(axis=0)).tolist()
        self._created: list[dict[int, int]] = []
        self._preserved: list[dict[int, int]] = []
        self._shared: dict[int, dict[int, int]] = {}
        self._produced: list[list[int]] = [[] for _ in range(n)]
        self._workspace = list(problem.grows)
        for at, value in enumerate(problem.values):
            self._produced[value.producer].append(at)
            self._workspace[value.producer] -= value.size
        self._spans = [
            range(
                self._asap[v.producer] + 1, max((self._alap[r] for r in v.readers), default=-1) + 1
            )
            for v in problem.values
        ]
        self.columns = (
            1
            + sum(self._alap[i] - self._asap[i] + 1 for i in range(n))
            + sum(map(len, self._spans))
            + sum(map(len, (self._times(i) for i in range(n) if problem.shares[i])))
        )
        self._unit = gcd(*(v.size for v in problem.values), *self._workspace)

    def build(self) -> IntegerProgram:
        """Build columns: peak above the lower bound; per time C and S of ops, P of tensors."""
        problem = self._problem
        scale = 1.0 / self._upper
        program = IntegerProgram(offset=self._lower * scale, tolerance=self._unit * scale * 0.5)
        peak = program.continuous(cost=1.0, upper=(self._upper - self._lower) * scale)
        for i in range(problem.n):
            self._created.append({t: program.binary() for t in self._times(i)})
            program.equal([(c, 1.0) for c in self._created[i].values()], 1.0)
        for span in self._spans:
            self._preserved.append({t: program.continuous() for t in span})
        live: list[list[tuple[int, float]]] = [[(peak, -1.0)] for _ in range(problem.n)]
        for i, created in enumerate(self._created):
            for t, column in created.items():
                live[t].append((column, problem.grows[i] * scale))
        for at, value in enumerate(problem.values):
            created, preserved = self._created[value.producer], self._preserved[at]
            for t, column in preserved.items():
                live[t].append((column, value.size * scale))
                row = [(column, 1.0)]
                row += [(known[t - 1], -1.0) for known in (preserved, created) if t - 1 in known]
                program.at_most(row, 0.0)
                # All but one reader may run at other times, but only one op runs at t.
                at_once = [
                    (self._created[r][t], 1.0) for r in value.readers if t in self._created[r]
                ]
                if at_once:
                    program.at_most([*at_once, (column, -1.0)], 0.0)
        for i, share in enumerate(problem.shares):
            if share is None:
                continue
            size, at = share
            self._shared[i] = {t: program.continuous() for t in self._times(i)}
            for t, column in self._shared[i].items():
                live[t].append((column, -size * scale))
                program.at_most([(column, 1.0), (self._created[i][t], -1.0)], 0.0)
                if t + 1 in self._preserved[at]:
                    program.at_most([(column, 1.0), (self._preserved[at][t + 1], 1.0)], 1.0)
        for sequence, edges in zip(self._glued.sequences, self._glued.edges, strict=True):
            for i, j in pairwise(sequence):
                self._precede(program, i, j)
            for a in edges:
                self._precede(program, self._glued.sequences[a][-1], sequence[0])
        for t in range(problem.n):
            running = [(c[t], 1.0) for c in self._created if t in c]
            program.equal(running, 1.0)
            program.at_most(live[t], self._lower * scale)
        return program

    def _times(self, i: int) -> range:
        """Times at which op i can run."""
        return range(self._asap[i], self._alap[i] + 1)

    def _precede(self, program: IntegerProgram, i: int, j: int) -> None:
        """Op j runs by t only if op i has run by t - 1."""
        for t in range(self._asap[j], self._alap[i] + 1):
            row = [(c, 1.0) for s, c in self._created[j].items() if s <= t]
            row += [(c, -1.0) for s, c in self._created[i].items() if s < t]
            program.at_most(row, 0.0)

    def start(self, order: tuple[int, ...]) -> Vector | None:
        """Column values of a known order; None if it violates what is fixed."""
        position = {i: t for t, i in enumerate(order)}
        before = self._glued.before
        if any(before[i, j] for t, i in enumerate(order) for j in order[t + 1 :]):
            return None
        values = np.zeros(self.columns)
        values[0] = (self._problem.peak(order) - self._lower) / self._upper
        for i, created in enumerate(self._created):
            values[created[position[i]]] = 1.0
        for at, value in enumerate(self._problem.values):
            for t, column in self._preserved[at].items():
                ends = max(position[r] for r in value.readers)
                values[column] = float(position[value.producer] < t <= ends)
        for i, columns in self._shared.items():
            share = self._problem.shares[i]
            assert share is not None
            ends = max(position[r] for r in self._problem.values[share[1]].readers)
            values[columns[position[i]]] = float(ends == position[i])
        return values

    def order(self, values: Vector) -> tuple[int, ...]:
        """Order of a solution."""
        time = {
            i: max(created, key=lambda t: values[created[t]])
            for i, created in enumerate(self._created)
        }
        return tuple(sorted(time, key=time.__getitem__))

    def whole_bytes(self, bound: float) -> int:
        """Convert a bound of the program to whole units of bytes, rounded down safely."""
        units = (bound * self._upper) / self._unit
        return int(np.ceil(units - max(_TOLERANCE * units, 1e-6))) * self._unit
