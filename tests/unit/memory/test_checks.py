# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re

import pytest

from poetfw.common.errors import ProblemError
from poetfw.memory import Buffer, place


@pytest.mark.parametrize(
    ("buffers", "message"),
    [
        ([Buffer("a", 0, 1, 1)] * 2, "buffer 'a' occurs twice; ids must be unique"),
        (
            [Buffer("a", 3, 3, 1)],
            "buffer 'a': the interval [3, 3) is empty; upper must be greater than lower",
        ),
        (
            [Buffer("a", 3, 2, 1)],
            "buffer 'a': the interval [3, 2) is negative; upper must be greater than lower",
        ),
        ([Buffer("a", 0, 2**61, 1)], "buffer 'a': a time beyond 2^60 is not supported"),
        ([Buffer("a", -(2**61), 0, 1)], "buffer 'a': a time beyond 2^60 is not supported"),
        ([Buffer("a", 0, 1, -1)], "buffer 'a': the size must be 0 to 2^40 bytes, not -1"),
        (
            [Buffer("a", 0, 1, 2**40 + 1)],
            "buffer 'a': the size must be 0 to 2^40 bytes, not 1099511627777",
        ),
        (
            [Buffer("a", 0, 1, 1, 0)],
            "buffer 'a': the alignment must be 1 to 2^40 bytes, not 0",
        ),
        (
            [Buffer("a", 0, 1, 1, offset=-4)],
            "buffer 'a': the fixed offset must be 0 to 2^40, not -4",
        ),
        (
            [Buffer("a", 0, 1, 1, 4, 6)],
            "buffer 'a': the fixed offset 6 is not a multiple of the alignment 4",
        ),
        (
            [Buffer("a", 0, 4, 8, offset=0), Buffer("b", 3, 5, 8, offset=7)],
            "the fixed buffers 'a' (time [0, 4), bytes [0, 8)) and 'b' (time [3, 5), bytes "
            "[7, 15)) overlap",
        ),
        (
            [Buffer("a", 3, 5, 8, offset=0), Buffer("b", 0, 4, 8, offset=7)],
            "the fixed buffers 'a' (time [3, 5), bytes [0, 8)) and 'b' (time [0, 4), bytes "
            "[7, 15)) overlap",
        ),
    ],
)
def test_refuses(buffers, message):
    with pytest.raises(ProblemError, match=f"^{re.escape(message)}$"):
        place(buffers)


def test_accepts_the_limits():
    largest = Buffer("a", -(2**60), 2**60, 2**40, 2**40, 2**40)
    assert place([largest]).height_bytes == 2**41


@pytest.mark.parametrize("lowest", [0, 1])
def test_fixed_buffers_may_touch(lowest):
    buffers = [Buffer("a", 0, 4, 8, offset=0), Buffer("b", lowest, 5, 8, offset=8)]
    assert place(buffers).height_bytes == place(buffers[::-1]).height_bytes == 16
    apart = [Buffer("a", 1 - lowest, 4, 8, offset=8), Buffer("b", lowest, 5, 8, offset=0)]
    assert place(apart).height_bytes == 16
