# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import random
from dataclasses import replace

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
    # The largest padding is the topmost's own, not that of one that has ended.
    buffers = [Buffer("a", 0, 2, 1, 8), Buffer("b", 2, 4, 5, 8), Buffer("c", 2, 4, 5, 8)]
    assert lower_bound(buffers) == 13


def test_all_of_many_alignments_count():
    buffers = [Buffer(f"b{i}", i // 2, i // 2 + 1, 5, 8 + i // 2) for i in range(2000)]
    assert lower_bound(buffers) == 8 + 999 + 5
    assert place(buffers).height_bytes == 8 + 999 + 5


def _random_buffers(alignments):
    rng = random.Random(5)
    for i, alignment in enumerate(alignments):
        lower = rng.randrange(100_000)
        upper = lower + rng.randint(1, 500)
        yield Buffer(f"b{i}", lower, upper, rng.randint(1, 9999), alignment)


@pytest.mark.parametrize(
    "alignments",
    [
        random.Random(5).choices(range(1, 10**6), k=20_000),
        # Many divide each other.
        [2 ** (i % 40) * 3 ** (i // 40 % 13) * 5 ** (i // 520 % 4) for i in range(20_000)],
    ],
    ids=["random", "smooth"],
)
def test_of_many_alignments_some_count(alignments):
    buffers = list(_random_buffers(alignments))
    assert lower_bound(buffers) > lower_bound([replace(b, alignment=1) for b in buffers])
