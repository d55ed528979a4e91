# SPDX-License-Identifier: Apache-2.0
"""Positions of a convolution, and the taps of its kernel that meet the input there.

An axis is "height" or "width"; `at` holds the extents of `conv2d.h`.
"""

from __future__ import annotations

from collections.abc import Mapping


def group_channels(at: Mapping[str, int], backward: bool) -> tuple[int, int]:
    """Channels of a group that are summed over, and that there are sums of."""
    inner, outer = at["in_channels"] // at["groups"], at["out_channels"] // at["groups"]
    return (outer, inner) if backward else (inner, outer)


def padding_before(at: Mapping[str, int], axis: str) -> int:
    """Elements before the first of the input."""
    return at["padding_top" if axis == "height" else "padding_left"]


def outputs_met(at: Mapping[str, int], axis: str, tap: int) -> tuple[int, int]:
    """The output positions, half-open, at which a tap meets the input."""
    before = padding_before(at, axis) - tap
    stride = at[f"stride_{axis}"]
    first = max(0, -(-before // stride))
    end = min(max(0, -(-(before + at[f"in_{axis}"]) // stride)), at[f"out_{axis}"])
    return (first, end) if first < end else (0, 0)


def met_taps(at: Mapping[str, int]) -> tuple[int, int]:
    """Pairs of an output's row and a tap that meets the input, and of its column likewise."""
    rows, columns = (
        sum(
            end - first
            for first, end in (outputs_met(at, axis, tap) for tap in range(at[f"kernel_{axis}"]))
        )
        for axis in ("height", "width")
    )
    return rows, columns
