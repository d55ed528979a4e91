# SPDX-License-Identifier: Apache-2.0
"""The greedy placement beside one that tries every address."""

from __future__ import annotations

import random

from poetfw.memory import Buffer
from poetfw.memory.heuristics import Greedy


def lowest(buffers: list[Buffer], order: list[int]) -> list[int]:
    """Each buffer at the lowest address, of all there are, that none placed before has bytes of."""
    offsets = {i: b.offset for i, b in enumerate(buffers) if b.offset is not None}
    for i in order:
        b, offset = buffers[i], 0
        while any(
            b.overlaps_in_time(buffers[j])
            and offset < at + buffers[j].size
            and at < offset + b.size
            for j, at in offsets.items()
        ):
            offset += b.alignment
        offsets[i] = offset
    return [offsets[i] for i in range(len(buffers))]


def random_buffers(rng: random.Random) -> list[Buffer]:
    buffers: list[Buffer] = []
    for i in range(rng.randint(2, 12)):
        begin, size = rng.randint(0, 9), rng.randint(1, 9)
        buffers.append(
            Buffer(str(i), begin, begin + rng.randint(1, 6), size, rng.choice([1, 3, 4]))
        )
    if rng.random() < 0.5:  # two that are fixed, apart
        buffers += [Buffer("low", 0, 20, 2, 1, 4), Buffer("high", 5, 12, 3, 1, 9)]
    return buffers


def test_every_buffer_lies_as_low_as_it_can() -> None:
    rng = random.Random(3)
    for _ in range(300):
        buffers = random_buffers(rng)
        order = [i for i, b in enumerate(buffers) if b.offset is None]
        rng.shuffle(order)
        assert Greedy(buffers).run(order, lambda height: False) == lowest(buffers, order)


def test_it_gives_up_where_it_is_told_to() -> None:
    buffers = [Buffer(str(i), 0, 1, 10) for i in range(4)]
    heights: list[int] = []

    def give_up(height: int) -> bool:
        heights.append(height)
        return height > 20

    assert Greedy(buffers).run([0, 1, 2, 3], give_up) is None
    assert heights == [10, 20, 30]


def test_contention_is_the_most_that_is_live_during_a_life() -> None:
    rng = random.Random(5)
    for _ in range(200):
        buffers = random_buffers(rng)
        live = [sum(b.size for b in buffers if b.lower <= t < b.upper) for t in range(30)]
        expected = [max(live[b.lower : b.upper]) for b in buffers]
        assert Greedy(buffers)._contention().tolist() == expected


def test_every_order_is_of_all_that_is_free() -> None:
    buffers = random_buffers(random.Random(8))
    free = [i for i, b in enumerate(buffers) if b.offset is None]
    orders = list(Greedy(buffers).orders())
    assert len(orders) == 6
    assert all(sorted(order) == free for order in orders)
