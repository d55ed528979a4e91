# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest

from poetfw.common.limits import Deadline
from poetfw.memory import Buffer, Placement, PlacementStatus, place, validate_placement
from poetfw.memory.restarts import _luby
from poetfw.memory.search import Look, Search, SearchEnd

IN_PADDINGS = [
    (  # A fixed byte at 5 lies in the padding below what is aligned to 16.
        54,
        [
            Buffer("b0", 3, 4, 1, 1, 5),
            Buffer("b1", 3, 4, 8, 16),
            Buffer("b2", 2, 4, 3, 1),
            Buffer("b3", 2, 4, 9, 16),
            Buffer("b4", 3, 6, 6, 16),
            Buffer("b5", 3, 6, 1, 16),
        ],
    ),
    (
        20,
        [
            Buffer("b0", 0, 4, 1, 4, 0),
            Buffer("b1", 1, 7, 3, 6, 6),
            Buffer("b2", 4, 8, 4, 6),
            Buffer("b3", 0, 3, 4, 10),
            Buffer("b4", 0, 5, 4, 4),
            Buffer("b5", 4, 10, 4, 10),
        ],
    ),
    (
        33,
        [
            Buffer("b0", 3, 6, 1, 1, 5),
            Buffer("b1", 2, 4, 2, 1, 1),
            Buffer("b2", 2, 3, 1, 8),
            Buffer("b3", 3, 6, 6, 8),
            Buffer("b4", 2, 5, 5, 8),
            Buffer("b5", 3, 6, 7, 1),
            Buffer("b6", 3, 5, 2, 8),
        ],
    ),
]


@pytest.mark.parametrize("look", Look)
@pytest.mark.parametrize(("lowest", "buffers"), IN_PADDINGS)
def test_fixed_buffers_in_paddings_are_no_waste(lowest, buffers, look):
    def outcome(capacity):
        search = Search(buffers, capacity)
        return search.run([0.0] * len(search.buffers), look, 10**6, Deadline())

    for capacity in range(lowest, lowest + 4):
        assert outcome(capacity) is SearchEnd.FOUND
    assert outcome(lowest - 1) is SearchEnd.EXHAUSTED


@pytest.mark.parametrize(("lowest", "buffers"), IN_PADDINGS)
def test_fixed_buffers_in_paddings_leave_the_optimum(lowest, buffers):
    for capacity in [None, lowest]:
        placement = place(buffers, capacity=capacity)
        validate_placement(buffers, placement, capacity)
        assert placement.height_bytes == lowest >= placement.lower_bound_bytes
    assert place(buffers, capacity=lowest - 1).status is PlacementStatus.INFEASIBLE


def lowest_height(buffers: list[Buffer]) -> int:
    """By trying every order: some order of a lowest placement, from below, gives its height."""
    best = sum(b.size + b.alignment for b in buffers)
    for order in itertools.permutations(buffers):
        at: dict[str, int] = {}
        for b in order:
            below = [a for a in order if a.id in at and a.overlaps_in_time(b)]
            offset = max((at[a.id] + a.size for a in below), default=0)
            at[b.id] = -(-offset // b.alignment) * b.alignment
        best = min(best, max(at[b.id] + b.size for b in buffers))
    return best


@pytest.mark.parametrize("look", Look)
@pytest.mark.parametrize(
    "buffers",
    [
        [(2, 3, 3, 2), (3, 4, 2, 4), (0, 2, 8, 2), (6, 9, 4, 1), (3, 5, 4, 4), (2, 7, 7, 2)],
        [(6, 8, 7, 2), (4, 6, 3, 4), (3, 5, 3, 2), (5, 7, 4, 4), (5, 8, 2, 2), (4, 6, 2, 2)],
    ],
)
def test_a_gap_beside_a_buffer_may_stay_where_there_is_room(look, buffers):
    """Of lower, upper, size and alignment: no placement so low is without one."""
    rows = [Buffer(f"b{i}", *row) for i, row in enumerate(buffers)]
    assert lowest_height(rows) == 13
    for capacity, expected in ((13, SearchEnd.FOUND), (12, SearchEnd.EXHAUSTED)):
        search = Search(rows, capacity)
        assert search.run([0.0] * 6, look, 10**6, Deadline()) is expected


@pytest.mark.parametrize("look", Look)
def test_a_search_finds_what_enumeration_finds_and_no_more(look):
    """Also with gaps: nothing here helps the search but itself."""
    rng = random.Random(11)
    gaps = 0
    for _ in range(250):
        buffers = []
        for i in range(rng.randint(3, 6)):
            lower = rng.randint(0, 6)
            alignment = rng.choice([1, 1, 1, 2, 4])
            size = rng.randint(1, 6)
            buffers.append(Buffer(f"b{i}", lower, lower + rng.randint(1, 5), size, alignment))
        lowest = lowest_height(buffers)
        live = [sum(b.size for b in buffers if b.lower <= t < b.upper) for t in range(12)]
        gaps += lowest > max(live)
        for capacity in range(max(live), lowest + 3):
            search = Search(buffers, capacity)
            outcome = search.run([0.0] * len(buffers), look, 10**6, Deadline())
            expected = SearchEnd.FOUND if capacity >= lowest else SearchEnd.EXHAUSTED
            assert outcome is expected, (buffers, capacity)
            if outcome is SearchEnd.FOUND:
                height = max(search.offsets[b.id] + b.size for b in buffers)
                found = Placement(PlacementStatus.FEASIBLE, search.offsets, height, 0)
                validate_placement(buffers, found, capacity)
    assert gaps > 20


@pytest.mark.parametrize("fixed", [{"offset": 8}, {"size": 13}])
def test_what_cannot_lie_below_the_capacity_ends_the_search_at_once(fixed):
    buffers = [replace(Buffer("a", 0, 1, 5), **fixed), Buffer("b", 2, 3, 5)]
    search = Search(buffers, 12)
    outcome = search.run([0.0] * len(search.buffers), Look.FEWEST, 10**6, Deadline())
    assert (outcome, search.states) == (SearchEnd.EXHAUSTED, 0)


def test_runs_between_restarts_are_as_long_as_lubys() -> None:
    assert [_luby(turn) for turn in range(1, 16)] == [1, 1, 2, 1, 1, 2, 4, 1, 1, 2, 1, 1, 2, 4, 8]
