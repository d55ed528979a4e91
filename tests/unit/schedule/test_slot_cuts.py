# SPDX-License-Identifier: Apache-2.0
"""Slot cuts say only of what is live in a slot that it must fit, and what must be away for it."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from poetfw.common.limits import Work
from poetfw.schedule import Node, ScheduleProblem
from poetfw.schedule.compact import formulate
from poetfw.schedule.cuts.cut import Residency
from poetfw.schedule.cuts.rounding import Item, Rounding
from poetfw.schedule.cuts.slots import separate_slots
from poetfw.schedule.highs import Vector
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.milp import SolverOptions, Term, solve_program


def test_what_is_made_again_later_in_a_stage_is_not_live_before() -> None:
    """Stage t makes a, b and c again: a and c, which t reads, do not fit together, nor need they.

    While e runs nothing but its input fits beside it, so this is the only plan.
    """
    nodes = (
        Node("a", (), 1.0, 1.0, 300),
        Node("b", ("a",), 1.0, 1.0, 100),
        Node("c", ("b",), 1.0, 1.0, 300),
        Node("d", ("c",), 1.0, 1.0, 100),
        Node("e", ("d",), 1.0, 1.0, 100, workspace_bytes=300, recompute=False),
        Node("t", ("c", "e"), 1.0, 1.0, 0, recompute=False, backward=True),
    )
    graph = Indexed.of(ScheduleProblem("again", 500, None, None, nodes))
    compact = formulate(graph)
    values = solve_program(compact.program, SolverOptions(gap=0.0), Work()).values
    assert values is not None
    assert compact.stages(values).recomputes == {(5, 0), (5, 1), (5, 2)}
    rounding = Rounding.of(graph, 0.0, 1e-4)
    assert separate_slots(Residency.of(graph, compact), values, rounding) == []


def column(x: int, size: int) -> Item:
    """A tensor that is live where a column is 1."""
    return Item(size, 0.0, ((x, 1.0),))


def test_a_part_of_a_computation_does_not_fit_in_that_part_of_its_ram() -> None:
    """Column 0 needs 300 bytes, and 120 are free beside all of the others: 180 must be away."""
    kept = [110, 130, 140, 100, 100]
    items = [column(0, 200), column(0, 100), *(column(x, m) for x, m in enumerate(kept, 1))]
    rounding = Rounding(1, 700, np.array([300]), 1e-4)
    cut = rounding.cut(np.array([0.4, *(1.0,) * 5]), items)
    assert cut is not None
    away = {x: a / -cut.terms[0][1] for x, a in cut.terms[1:]}
    assert away == pytest.approx({x: -m / 180 for x, m in enumerate(kept, 1)})
    assert cut.bound / -cut.terms[0][1] == pytest.approx(-sum(kept) / 180)


def test_what_is_there_by_half_is_not_asked_to_be_away() -> None:
    """As above, and column 6 is there by half, which would be enough if it were asked as well."""
    kept = [110, 130, 140, 100, 100]
    items = [column(0, 200), column(0, 100), *(column(x, m) for x, m in enumerate(kept, 1))]
    values = np.array([0.4, *(1.0,) * 5, 0.55])
    cut = Rounding(1, 700, np.array([300]), 1e-4).cut(values, [*items, column(6, 100)])
    assert cut is not None
    assert cut.violation(values) > 0
    terms = dict(cut.terms)
    assert 6 not in terms
    away = {x: terms[x] / -terms[0] for x in range(1, 6)}
    assert away == pytest.approx({x: -m / 180 for x, m in enumerate(kept, 1)})


def worth(terms: tuple[Term, ...], solutions: Vector) -> Vector:
    """Σ coefficient · column of each solution."""
    values: Vector = solutions[:, [x for x, _ in terms]] @ np.array([a for _, a in terms])
    return values


def test_no_whole_numbers_that_fit_violate_a_cut() -> None:
    rng = random.Random(0)
    found = 0
    whole = np.array(list(itertools.product((0.0, 1.0), repeat=8)))
    for _ in range(200):
        items = [column(rng.randrange(6), rng.randint(1, 40)) for _ in range(8)]
        items += [Item(rng.randint(1, 40), 1.0, ((x, -1.0),)) for x in (6, 7)]
        reserved = rng.randint(0, 10)
        budget = reserved + rng.randint(20, sum(item.size for item in items))
        sizes = np.array(sorted({item.size for item in items}))
        for _ in range(5):
            values = np.array([rng.choice((0.0, 0.5, 1.0, rng.random())) for _ in range(8)])
            cut = Rounding(1, budget, sizes, 1e-4).cut(values, items, reserved)
            if cut is None:
                continue
            found += 1
            assert cut.violation(values) > 1e-4
            taken = sum(of.size * (of.constant + worth(of.terms, whole)) for of in items)
            fits = taken <= budget - reserved
            assert worth(cut.terms, whole)[fits].min() >= cut.bound - 1e-9
    assert found > 100
