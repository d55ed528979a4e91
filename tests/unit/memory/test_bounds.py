from __future__ import annotations

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
