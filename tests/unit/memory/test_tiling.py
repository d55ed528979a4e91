# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from poetfw.common.limits import Deadline, Work
from poetfw.memory import Buffer, PlacementStatus, place, validate_placement
from poetfw.memory.search import SearchEnd
from poetfw.memory.tiling import Tiling, filled_bytes
from workloads.packings import cut_rectangle


def never() -> float:
    return Deadline()


def test_what_ends_is_replaced_byte_for_byte():
    buffers = [
        Buffer("a", 0, 1, 5),
        Buffer("b", 0, 3, 7),
        Buffer("c", 1, 2, 2),
        Buffer("d", 1, 3, 3),
        Buffer("e", 2, 3, 2),
    ]
    tiling = Tiling(buffers)
    assert tiling.run(1000, never()) is SearchEnd.FOUND
    offsets = tiling.offsets
    assert {offsets["b"], min(offsets["c"], offsets["d"])} in ({0, 7}, {5, 0})
    assert offsets["c"] == offsets["e"]


def enclosed() -> list[Buffer]:
    """Ten buffers of 411 bytes at any moment, which do not fit into as many.

    In the place of `a` come three; the first lies with `b` later on and the last with `c`, or the
    other way round, so that the middle one cannot lie with `d`.
    """
    return [
        Buffer("a", 0, 1, 100),
        Buffer("b", 0, 2, 101),
        Buffer("c", 0, 3, 103),
        Buffer("d", 0, 4, 107),
        Buffer("a1", 1, 2, 11),
        Buffer("a2", 1, 3, 23),
        Buffer("a3", 1, 4, 66),
        Buffer("e", 2, 5, 112),
        Buffer("f", 3, 5, 126),
        Buffer("g", 4, 5, 173),
    ]


def test_none_is_proven():
    assert filled_bytes(enclosed()) == 411
    assert Tiling(enclosed()).run(1000, never()) is SearchEnd.EXHAUSTED
    placement = place(enclosed())
    assert placement.status is PlacementStatus.OPTIMAL
    assert placement.height_bytes > 411


def test_the_work_is_limited():
    buffers = cut_rectangle(300, 50, 2**20, seed=1)
    tiling = Tiling(buffers)
    assert tiling.run(2000, never()) is SearchEnd.LIMIT
    assert tiling.offsets == {}
    assert Tiling(buffers).run(10**9, Deadline(0.0)) is SearchEnd.LIMIT


@pytest.mark.parametrize(
    "spoiler",
    [
        pytest.param(Buffer("b", 0, 2, 4, offset=4), id="fixed"),
        pytest.param(Buffer("b", 0, 2, 4, 8), id="alignment"),
        pytest.param(Buffer("b", 0, 1, 4), id="gap"),
    ],
)
def test_what_cannot_be_tiled(spoiler):
    buffers = [Buffer("a", 0, 1, 8, 4), Buffer("c", 1, 2, 8)]
    assert filled_bytes([*buffers, Buffer("b", 0, 2, 4, 4)]) == 12
    assert filled_bytes([*buffers, spoiler]) is None


@pytest.mark.parametrize("moments", [1000, 100])
@pytest.mark.parametrize("count", [150, 500])
def test_large_perfect_packings_are_found(count, moments):
    buffers = cut_rectangle(count, moments, 2**20, seed=3)
    placement = place(buffers, work=Work(60.0))
    validate_placement(buffers, placement, capacity=2**20)
    assert placement.status is PlacementStatus.OPTIMAL
