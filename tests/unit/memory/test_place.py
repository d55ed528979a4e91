# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import random

import pytest

from poetfw.common.limits import Deadline, Work
from poetfw.memory import Buffer, PlacementStatus, lower_bound, place, validate_placement
from poetfw.memory.search import Look, Search, SearchEnd
from poetfw.memory.sections import find_sections, split_components
from poetfw.memory.validator import validate_by_sweep


def training_step(layers: int, seed: int) -> list[Buffer]:
    """Parameters, activations kept until backward, gradients and workspace of one step."""
    rng = random.Random(seed)
    end = 3 * layers
    buffers = []
    for i in range(layers):
        back = end - 2 * i - 2
        weights, activation = rng.randint(1, 40) * 16, rng.randint(1, 200) * 16
        buffers += [
            Buffer(f"w{i}", 0, end, weights, 16),
            Buffer(f"y{i}", i, back + 1, activation, 16),
            Buffer(f"dy{i}", back - 1, back + 2, activation, 16),
            Buffer(f"dw{i}", back, back + 2, weights, 16),
            Buffer(f"ws{i}", i, i + 1, rng.randint(0, 100) * 16, 16),
        ]
    return buffers


@pytest.mark.parametrize("layers", [6, 20, 60])
@pytest.mark.parametrize("seed", [0, 1])
def test_training_steps_reach_the_bound_at_once(layers, seed):
    buffers = training_step(layers, seed)
    placement = place(buffers)
    assert placement.status is PlacementStatus.OPTIMAL
    assert placement.height_bytes == lower_bound(buffers)


def test_nothing_and_no_bytes():
    assert place([]).status is PlacementStatus.OPTIMAL
    placement = place([Buffer("a", 0, 1, 0), Buffer("b", 0, 1, 0, offset=8)])
    assert (placement.height_bytes, placement.offsets) == (8, {"a": 0, "b": 8})


def test_fixed_buffers_stay_and_others_go_around():
    buffers = [
        Buffer("low", 0, 4, 4, offset=4),
        Buffer("high", 2, 8, 4, offset=12),
        Buffer("a", 0, 8, 4),
        Buffer("b", 1, 7, 4, 8),
    ]
    placement = place(buffers)
    assert placement.offsets == {"low": 4, "high": 12, "a": 0, "b": 8}


def test_a_capacity_is_met_proven_impossible_or_not_found():
    # Live bytes are 12 at most, yet the gaps that fixed buffers leave do not fit.
    buffers = [Buffer("f", 0, 2, 2, offset=5), Buffer("a", 0, 2, 6), Buffer("b", 1, 2, 4)]
    assert lower_bound(buffers) == 12
    assert place(buffers, capacity=13).status is PlacementStatus.FEASIBLE
    below_bound = place(buffers, capacity=11)
    assert (below_bound.status, below_bound.offsets) == (PlacementStatus.INFEASIBLE, {})
    searched = place(buffers, capacity=12)
    assert (searched.status, searched.offsets) == (PlacementStatus.INFEASIBLE, {})
    assert searched.lower_bound_bytes == 13
    unsearched = place(buffers, capacity=12, work=Work(0.0))
    assert (unsearched.status, unsearched.height_bytes) == (PlacementStatus.NOT_FOUND, 13)


def test_a_height_proven_lowest_is_optimal_though_above_the_live_peak():
    buffers = [Buffer("f", 0, 2, 2, offset=5), Buffer("a", 0, 2, 6), Buffer("b", 1, 2, 4)]
    placement = place(buffers)
    assert placement.status is PlacementStatus.OPTIMAL
    assert placement.height_bytes == placement.lower_bound_bytes == 13
    elsewhere = Buffer("elsewhere", 9, 10, 1)  # which fits, but that does not help the others
    assert place([*buffers, elsewhere], capacity=12).status is PlacementStatus.INFEASIBLE
    assert place([*buffers, elsewhere], capacity=13).height_bytes == 13


def test_search_says_how_it_ended():
    buffers = [Buffer("f", 0, 2, 2, offset=5), Buffer("a", 0, 2, 6), Buffer("b", 1, 2, 4)]
    never = Deadline()
    search = Search(buffers, 13)
    rank = [0.0] * len(search.buffers)
    assert search.run(rank, Look.FEWEST, 1, never) is SearchEnd.LIMIT
    assert search.run(rank, Look.LOWEST, 1000, never) is SearchEnd.FOUND
    assert search.offsets == {"f": 5, "a": 7, "b": 0}
    assert Search(buffers, 12).run(rank, Look.FEWEST, 1000, never) is SearchEnd.EXHAUSTED
    assert Search(buffers, 6).run(rank, Look.FEWEST, 1000, never) is SearchEnd.EXHAUSTED


def test_sections_are_the_maximal_live_sets():
    buffers = [
        Buffer("a", 0, 5, 1),
        Buffer("b", 1, 3, 1),
        Buffer("c", 3, 9, 1),
        Buffer("d", 7, 8, 1),
    ]
    first, last, count = find_sections(buffers)
    assert (first, last, count) == ([0, 0, 1, 2], [2, 1, 3, 3], 3)


def test_components_share_no_moment():
    buffers = [Buffer("a", 0, 5, 1), Buffer("b", 5, 7, 1), Buffer("c", 2, 3, 1)]
    names = [[b.id for b in part] for part in split_components(buffers)]
    assert names == [["a", "c"], ["b"]]
    names = [[b.id for b in part] for part in split_components([*buffers, Buffer("d", 4, 5, 1)])]
    assert names == [["a", "c", "d"], ["b"]]


def test_twenty_thousand_buffers():
    rng = random.Random(3)
    buffers = []
    for i in range(20_000):
        lower = rng.randrange(100_000)
        length = rng.choice([5, 50, 500, 5_000])
        buffers.append(Buffer(str(i), lower, lower + rng.randint(1, length), rng.randint(1, 9999)))
    placement = place(buffers, work=Work(0.2))
    validate_by_sweep(buffers, placement)
    validate_placement(buffers, placement)
    assert placement.height_bytes < 1.1 * lower_bound(buffers)
