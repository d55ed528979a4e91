# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import random

import pytest

from poetfw.common.limits import Work
from poetfw.memory import Buffer, PlacementStatus, lower_bound, place, validate_placement
from poetfw.memory.ilp import count_pairs, solve_ilp, stack_pyramid
from poetfw.schedule.milp import SolverOptions


def mixed_alignments(count: int, seed: int) -> list[Buffer]:
    """Buffers of any size and of four alignments, whose paddings no bound foresees."""
    rng = random.Random(seed)
    buffers = []
    for i in range(count):
        lower = rng.randrange(count)
        upper = lower + rng.randint(1, count // 4)
        size, alignment = rng.randint(1, 200), rng.choice([1, 4, 8, 32])
        buffers.append(Buffer(f"b{i}", lower, upper, size, alignment))
    return buffers


def test_a_pyramid_is_of_buffers_that_live_within_each_other():
    buffers = [
        Buffer("weights", 0, 9, 100, 8),
        Buffer("early", 0, 3, 8),
        Buffer("outer", 1, 8, 30),
        Buffer("across", 2, 9, 500),
        Buffer("inner", 3, 6, 20, 16),
        Buffer("small", 3, 6, 10),
        Buffer("fixed", 4, 5, 10, offset=900),
    ]
    assert stack_pyramid(buffers) == {"weights": 0, "across": 100, "inner": 608, "small": 628}
    assert stack_pyramid([]) == {}


def test_pairs_are_counted_once():
    buffers = mixed_alignments(30, seed=0)
    expected = sum(a.overlaps_in_time(b) for i, a in enumerate(buffers) for b in buffers[:i])
    assert count_pairs(buffers) == expected
    assert count_pairs([Buffer("a", 0, 2, 1), Buffer("b", 2, 3, 1)]) == 0


def test_what_is_preplaced_stays_and_proves_nothing():
    buffers = [Buffer("long", 0, 6, 5), Buffer("within", 1, 5, 3, 4), Buffer("a", 0, 3, 2)]
    preplaced = stack_pyramid(buffers)
    assert preplaced == {"long": 0, "within": 8}
    answer = solve_ilp(buffers, 10, 60, preplaced, SolverOptions(gap=0.0), Work())
    assert answer.offsets == {"long": 0, "within": 8, "a": 11}
    assert answer.proven == 10
    assert solve_ilp(buffers, 10, 13, preplaced, SolverOptions(gap=0.0), Work()).offsets is None
    best = solve_ilp(buffers, 10, 13, {}, SolverOptions(gap=0.0), Work()).offsets
    assert best is not None
    assert max(best[b.id] + b.size for b in buffers) == 10


def test_nothing_lower_than_the_lowest():
    buffers = mixed_alignments(10, seed=1)
    height = place(buffers).height_bytes
    assert height > lower_bound(buffers)
    answer = solve_ilp(buffers, lower_bound(buffers), height, {}, SolverOptions(gap=0.0), Work())
    assert (answer.offsets, answer.proven) == (None, height)


@pytest.mark.parametrize(("seed", "height"), [(1, 655), (6, 746)])
def test_the_program_proves_what_search_leaves_open(seed, height):
    buffers = mixed_alignments(20, seed)
    placement = place(buffers)
    validate_placement(buffers, placement)
    assert placement.status is PlacementStatus.OPTIMAL
    assert placement.height_bytes == height > lower_bound(buffers)
    assert place(buffers, height).height_bytes == height
    assert place(buffers, height - 1).status is PlacementStatus.INFEASIBLE


def test_nothing_false_is_proven_of_multiples():
    """With presolve, HiGHS proves more than there is of these."""
    buffers = [
        Buffer(f"b{i}", *figures)
        for i, figures in enumerate(
            [(1, 4, 1, 17), (0, 1, 29, 17), (2, 5, 46, 23), (3, 5, 9, 19)],
        )
    ]
    for below in (99, 132):
        answer = solve_ilp(buffers, lower_bound(buffers), below, {}, SolverOptions(gap=0.0), Work())
        assert answer.proven == 66


def test_a_pyramid_of_everything_is_no_program():
    buffers = [Buffer(f"b{i}", 0, 1, 3 + i % 5, (7, 11, 13)[i % 3]) for i in range(60)]
    assert count_pairs(buffers) > 1_000
    validate_placement(buffers, place(buffers, work=Work(1.0)))
