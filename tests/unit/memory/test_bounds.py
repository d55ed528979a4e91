from __future__ import annotations

import random
import time

import pytest

from poetfw.memory import Buffer, lower_bound, place


@pytest.mark.parametrize(
    ("buffers", "bound"),
    [
        ([], 0),
        ([Buffer("a", 0, 2, 5), Buffer("b", 2, 3, 7)], 7),
        ([Buffer("a", 0, 2, 5), Buffer("b", 1, 3, 7)], 12),
        # One of two buffers of 5 at a multiple of 8 lies at 8 or higher.
        ([Buffer("a", 0, 2, 5, 8), Buffer("b", 1, 3, 5, 8)], 13),
        ([Buffer("a", 0, 2, 1, 8), Buffer("b", 1, 3, 8, 8)], 9),
        # Only those aligned to 8 are bound to leave gaps; the third fills one.
        ([Buffer("a", 0, 2, 5, 8), Buffer("b", 1, 3, 5, 16), Buffer("c", 0, 3, 3)], 13),
        ([Buffer("a", 0, 2, 5, offset=20), Buffer("b", 1, 3, 5)], 25),
    ],
)
def test_lower_bound(buffers, bound):
    assert lower_bound(buffers) == bound
    assert place(buffers).height_bytes == bound


def test_the_bound_forgets_what_has_ended():
    buffers = [Buffer("a", 0, 1, 5, 8), Buffer("b", 1, 2, 8, 8), Buffer("c", 1, 2, 7, 8)]
    assert lower_bound(buffers) == 15


def test_of_many_alignments_the_most_frequent_count():
    buffers = [Buffer(f"rare{i}", i, i + 1, 3, 9 + i) for i in range(100)]
    buffers += [Buffer("a", 0, 2, 5, 256), Buffer("b", 1, 3, 5, 256)]
    assert lower_bound(buffers) == 261
    assert place(buffers).height_bytes == 261


def test_of_many_alignments_the_smaller_count():
    buffers = [Buffer(f"b{i}", i // 2, i // 2 + 1, 5, 8 + i // 2) for i in range(200)]
    assert lower_bound(buffers) == 8 + 63 + 5
    assert place(buffers).height_bytes == place(buffers).lower_bound_bytes == 8 + 99 + 5


def test_as_many_alignments_as_buffers_take_no_square_of_time():
    rng = random.Random(5)
    buffers = []
    for i in range(20_000):
        lower = rng.randrange(100_000)
        upper = lower + rng.randint(1, 500)
        buffers.append(Buffer(f"b{i}", lower, upper, rng.randint(1, 9999), rng.randint(1, 10**6)))
    begin = time.process_time()
    bound = lower_bound(buffers)
    assert time.process_time() - begin < 5
    assert bound >= max(b.size for b in buffers)
