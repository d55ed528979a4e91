# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise, permutations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from budgets import examples
from poetfw.common.limits import Deadline, Work
from poetfw.memory import Buffer, Placement, PlacementStatus, lower_bound, place, validate_placement
from poetfw.memory.banks import Bank, bank_uses, place_in_banks
from poetfw.memory.checks import find_fixed_clash
from poetfw.memory.core import CoreSearch
from poetfw.memory.heuristics import Greedy
from poetfw.memory.ilp import solve_ilp
from poetfw.memory.search import Look, Search, SearchEnd
from poetfw.memory.tiling import Tiling, filled_bytes
from poetfw.schedule.milp import SolverOptions
from workloads.packings import cut_rectangle


@st.composite
def problems(draw, most: int) -> list[Buffer]:
    """Buffers of all kinds: short and long, empty, aligned, fixed."""
    buffers: list[Buffer] = []
    for i in range(draw(st.integers(0, most))):
        lower = draw(st.integers(-3, 9))
        alignment = draw(st.sampled_from([1, 1, 1, 2, 3, 4, 5, 8, 16]))
        offset = draw(st.one_of(st.none(), st.none(), st.none(), st.integers(0, 6)))
        buffer = Buffer(
            id=f"b{i}",
            lower=lower,
            upper=lower + draw(st.integers(1, 6)),
            size=draw(st.integers(0, 12)),
            alignment=alignment,
            offset=None if offset is None else offset * alignment,
        )
        if find_fixed_clash([*buffers, buffer]) is None:
            buffers.append(buffer)
    return buffers


@st.composite
def padded_problems(draw) -> list[Buffer]:
    """Few small fixed buffers, mostly within the paddings that alignments leave to the others."""
    buffers: list[Buffer] = []
    fixed = draw(st.integers(1, 3))
    for i in range(6):
        lower = draw(st.integers(0, 3))
        buffer = Buffer(
            id=f"b{i}",
            lower=lower,
            upper=lower + draw(st.integers(1, 6)),
            size=draw(st.integers(1, 3 if i < fixed else 6)),
            alignment=1 if i < fixed else draw(st.sampled_from([1, 5, 7, 8, 8, 16, 16])),
            offset=draw(st.integers(0, 9)) if i < fixed else None,
        )
        if find_fixed_clash([*buffers, buffer]) is None:
            buffers.append(buffer)
    return buffers


@st.composite
def full_problems(draw) -> list[Buffer]:
    """Buffers of which as many bytes are live at any moment, whether or not they fit in as many."""
    live = [(0, size) for size in draw(st.lists(st.integers(1, 99), min_size=2, max_size=5))]
    spans = []
    for moment in range(1, draw(st.integers(2, 7))):
        ending = draw(st.sets(st.sampled_from(range(len(live))), min_size=1, max_size=3))
        size = sum(live[i][1] for i in ending)
        spans += [(live[i][0], moment, live[i][1]) for i in ending]
        live = [buffer for i, buffer in enumerate(live) if i not in ending]
        cuts = draw(st.sets(st.integers(1, size), max_size=2 if len(live) < 5 else 0)) - {size}
        edges = [0, *sorted(cuts), size]
        live += [(moment, end - begin) for begin, end in pairwise(edges)]
    spans += [(lower, 9, size) for lower, size in live]
    return [Buffer(f"b{i}", *span) for i, span in enumerate(sorted(spans))]


def lowest_height(buffers: list[Buffer]) -> int:
    """The lowest height by brute force.

    In a lowest placement each buffer can be pushed down onto another, so placing the buffers of
    some order one by one at the lowest free address gives it.
    """
    heights = []
    for order in permutations(buffers):
        placed: list[tuple[Buffer, int]] = []
        for b in order:
            taken = [(o, o + a.size) for a, o in placed if a.size and a.overlaps_in_time(b)]
            starts = sorted({0, *(-(-end // b.alignment) * b.alignment for _, end in taken)})
            free = (
                o
                for o in (starts if b.offset is None else [b.offset])
                if not b.size or all(o + b.size <= start or end <= o for start, end in taken)
            )
            offset = next(free, None)
            if offset is None:
                break
            placed.append((b, offset))
        else:
            heights.append(max((o + b.size for b, o in placed), default=0))
    return min(heights)


def search(buffers: list[Buffer], capacity: int) -> SearchEnd:
    """Exhaust the search within a capacity."""
    searched = Search(buffers, capacity)
    rank = [0.0] * len(searched.buffers)
    return searched.run(rank, Look.FEWEST, 10**6, Deadline())


@examples(150)
@given(problems(40))
def test_valid_and_not_below_the_bound(buffers):
    placement = place(buffers, work=Work(0.05))
    validate_placement(buffers, placement)
    assert placement.height_bytes >= placement.lower_bound_bytes >= lower_bound(buffers)


@examples(250)
@given(problems(6))
def test_as_low_as_brute_force(buffers):
    lowest = lowest_height(buffers)
    placement = place(buffers)
    assert placement.status is PlacementStatus.OPTIMAL
    assert placement.height_bytes == placement.lower_bound_bytes == lowest
    assert place(buffers, capacity=lowest).height_bytes == lowest
    if lowest:
        assert place(buffers, capacity=lowest - 1).status is PlacementStatus.INFEASIBLE


@examples(250)
@given(padded_problems())
def test_fixed_buffers_in_paddings_mislead_no_search(buffers):
    lowest = lowest_height(buffers)
    assert search(buffers, lowest) is SearchEnd.FOUND
    assert search(buffers, lowest - 1) is SearchEnd.EXHAUSTED


@examples(60)
@given(problems(14), st.randoms(use_true_random=False))
def test_neither_names_nor_order_matter(buffers, rng):
    renamed = [
        Buffer(f"r{i}", b.lower, b.upper, b.size, b.alignment, b.offset)
        for i, b in enumerate(rng.sample(buffers, len(buffers)))
    ]
    first = place(buffers)
    assert place(buffers).offsets == first.offsets
    assert place(renamed).height_bytes == first.height_bytes


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("count", [20, 60])
def test_perfect_packings_reach_the_bound(count, seed):
    buffers = cut_rectangle(count, 1000, 2**20, seed)
    assert lower_bound(buffers) == 2**20
    live = random.Random(seed).randrange(1000)
    assert sum(b.size for b in buffers if b.lower <= live < b.upper) == 2**20
    placement = place(buffers)
    validate_placement(buffers, placement, capacity=2**20)
    assert placement.status is PlacementStatus.OPTIMAL


@examples(200)
@given(full_problems())
def test_tiling_finds_what_search_finds_and_refutes_the_rest(buffers):
    height = filled_bytes(buffers)
    assert height == lower_bound(buffers)
    expected = search(buffers, height)
    tiling = Tiling(buffers)
    assert tiling.run(10**6, Deadline()) is expected
    if expected is SearchEnd.FOUND:
        placement = Placement(PlacementStatus.OPTIMAL, tiling.offsets, height, height)
        validate_placement(buffers, placement, capacity=height)


@examples(100)
@given(problems(12), st.integers(0, 40), st.integers(1, 30), st.booleans(), st.randoms())
def test_banks_cost_nothing(buffers, lower, size, more, rng):
    bank = Bank("bank", lower, lower + size)
    buffers = [replace(b, bank=rng.choice([None, "bank"])) for b in buffers]
    free = place(buffers)
    capacity = free.height_bytes + 20 if more else None
    placement = place_in_banks(buffers, [bank], capacity)
    validate_placement(buffers, placement, capacity or free.height_bytes)
    assert placement.lower_bound_bytes == place(buffers, capacity).lower_bound_bytes
    used, before = (
        bank_uses(buffers, [bank], offsets)[0].size_bytes
        for offsets in (placement.offsets, free.offsets)
    )
    assert used >= before or more
    assert place_in_banks(buffers, [bank], capacity).offsets == placement.offsets


@examples(200)
@given(problems(12), st.integers(0, 3))
def test_cores_find_and_refute_nothing_false(buffers, spare):
    buffers = [replace(b, offset=None) for b in buffers if b.size]
    assume(buffers)
    capacity = lower_bound(buffers) + spare
    greedy = Greedy(buffers)
    heights = []

    def place_in(order: list[int]) -> list[int]:
        assert sorted(order) == list(range(len(buffers)))
        offsets = greedy.run(order, lambda height: False)
        assert offsets is not None
        heights.append(max(o + b.size for b, o in zip(buffers, offsets, strict=True)))
        return [o + b.size for b, o in zip(buffers, offsets, strict=True)]

    cores = CoreSearch(buffers, capacity, random.Random(0))
    outcome = cores.run(place_in, 10**5, Deadline())
    assert (outcome is SearchEnd.FOUND) == (min(heights, default=capacity + 1) <= capacity)
    if outcome is SearchEnd.EXHAUSTED:
        assert search(buffers, capacity) is SearchEnd.EXHAUSTED


@examples(80)
@given(problems(10))
def test_the_integer_program_and_search_agree(buffers):
    buffers = [b for b in buffers if b.size]
    assume(buffers)
    bound = lower_bound(buffers)
    known = max(b.offset or 0 for b in buffers) + sum(b.size + b.alignment for b in buffers) + 1
    answer = solve_ilp(buffers, bound, known, {}, SolverOptions(gap=0.0), Work())
    assert answer.offsets is not None
    height = max(answer.offsets[b.id] + b.size for b in buffers)
    assert height == answer.proven
    placement = Placement(PlacementStatus.OPTIMAL, answer.offsets, height, height)
    validate_placement(buffers, placement)
    assert search(buffers, height) is SearchEnd.FOUND
    if height > bound:
        assert search(buffers, height - 1) is SearchEnd.EXHAUSTED
        # Within what is impossible, the program is infeasible.
        answer = solve_ilp(buffers, bound, height, {}, SolverOptions(gap=0.0), Work())
        assert (answer.offsets, answer.proven) == (None, height)


@examples(80)
@given(problems(7), st.sampled_from([1, 8, 2**8, 2**14, 2**26, 2**32]), st.integers(0, 2**8))
def test_the_integer_program_proves_nothing_false(buffers, scale, odd):
    buffers = [replace(b, size=b.size * scale + odd % scale, offset=None) for b in buffers]
    buffers = [b for b in buffers if b.size]
    assume(buffers)
    bound = lower_bound(buffers)
    height = lowest_height(buffers)
    for below in [height, height + 1, 2 * height]:
        if below > bound:
            answer = solve_ilp(
                buffers, bound, below, {}, SolverOptions(gap=0.0, max_nodes=1000), Work()
            )
            assert bound <= answer.proven <= height
