# SPDX-License-Identifier: Apache-2.0
"""Positions of a convolution, and the taps of its kernel that meet the input there.

An axis is "height" or "width"; `at` holds the extents of `conv2d.h`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

LINE = 4
"""Sums that are taken at the same time along one axis."""


@dataclass(frozen=True)
class TapRun:
    """Positions along one axis that meet the same taps: how many positions, and how many taps."""

    positions: int
    taps: int


def group_channels(at: Mapping[str, int], backward: bool) -> tuple[int, int]:
    """Channels of a group that are summed over, and that there are sums of."""
    inner, outer = at["in_channels"] // at["groups"], at["out_channels"] // at["groups"]
    return (outer, inner) if backward else (inner, outer)


def tap_runs(at: Mapping[str, int], axis: str, extent: int, backward: bool) -> Iterator[TapRun]:
    """Positions along an axis that meet the same taps, as `next_run` finds them."""
    apart = at[f"stride_{axis}"] if backward else 1
    taps_of = taps_of_input if backward else taps_of_output
    for first in range(min(apart, extent)):
        before: tuple[int, int] | None = None
        count = 0
        for position in range(first, extent, apart):
            taps = taps_of(at, axis, position)
            if before is not None and taps != before:
                yield TapRun(count, before[1])
                count = 0
            before = taps
            count += 1
        if before is not None:
            yield TapRun(count, before[1])


def padding_before(at: Mapping[str, int], axis: str) -> int:
    """Elements before the first of the input."""
    return at["padding_top" if axis == "height" else "padding_left"]


def taps_of_output(at: Mapping[str, int], axis: str, position: int) -> tuple[int, int]:
    """The first tap that an output position meets the input with, and how many do."""
    kernel, stride, extent = at[f"kernel_{axis}"], at[f"stride_{axis}"], at[f"in_{axis}"]
    start = position * stride - padding_before(at, axis)
    first, end = max(0, -start), min(kernel, extent - start)
    return (first, end - first) if first < end else (0, 0)


def taps_of_input(at: Mapping[str, int], axis: str, position: int) -> tuple[int, int]:
    """The first tap that an input position went through, and how many did."""
    kernel, stride, extent = at[f"kernel_{axis}"], at[f"stride_{axis}"], at[f"out_{axis}"]
    padded = position + padding_before(at, axis)
    output = min(padded // stride, extent - 1)
    tap = padded - output * stride
    return (tap, min(-(-(kernel - tap) // stride), output + 1)) if tap < kernel else (0, 0)


def outputs_met(at: Mapping[str, int], axis: str, tap: int) -> tuple[int, int]:
    """The output positions, half-open, at which a tap meets the input."""
    before = padding_before(at, axis) - tap
    stride = at[f"stride_{axis}"]
    first = max(0, -(-before // stride))
    end = min(max(0, -(-(before + at[f"in_{axis}"]) // stride)), at[f"out_{axis}"])
    return (first, end) if first < end else (0, 0)


def met_taps(at: Mapping[str, int], kernel: int) -> tuple[int, int]:
    """Pairs of an output's row and a tap that meets the input, and of its column likewise."""
    rows, columns = (
        sum(end - first for first, end in (outputs_met(at, axis, tap) for tap in range(kernel)))
        for axis in ("height", "width")
    )
    return rows, columns
