# SPDX-License-Identifier: Apache-2.0
"""Features of 3x3 and 5x5 convolutions: strips of columns, and the rows of the kernel they meet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from poetfw.costs.taps import LINE, group_channels, met_taps, outputs_met, taps_of_output


def strips(at: Mapping[str, int], function: str) -> Counter[str]:
    """Features of a kernel of 3x3 or 5x5 convolutions."""
    if "5x5" in function:
        return _fives(at, function)
    if "narrow" in function:
        return _narrow_backwards(at) if "input" in function else _narrow(at)
    if "by_2" in function:
        return _strips_by_2(at, function)
    return _strips(at, function)


def _strips(at: Mapping[str, int], function: str) -> Counter[str]:
    """`conv2d_3x3.c`: strips of four columns, and the rows of the kernel that they meet."""
    inner, outer = group_channels(at, backward=False)
    met = 3 * at["in_height"] - 2
    weights = at["groups"] * inner * outer
    if "weight" in function:
        calls = at["groups"] * inner * -(-outer // LINE)
        rows = calls * at["batch"] * met
        return Counter(
            {
                "tap_rows.calls": 3 * calls,
                "tap_rows.rows": rows,
                "tap_rows.strips": rows * (at["in_width"] // LINE),
                "tap_rows.left": rows * (at["in_width"] % LINE),
                "weights": 9 * weights,
            }
        )
    summed, channels = group_channels(at, "input" in function)
    pairs = at["batch"] * at["groups"] * -(-channels // 2)
    strips = pairs * -(-at["in_width"] // LINE)
    return Counter(
        {
            "strips.lines": pairs * at["in_height"],
            "strips": strips * at["in_height"],
            "strips.channels": strips * at["in_height"] * summed,
            "strips.rows": strips * met * summed,
            "weights": 9 * weights,
        }
    )


def _narrow(at: Mapping[str, int]) -> Counter[str]:
    """`conv2d_3x3_narrow.c`: a row of up to four columns for four output channels."""
    inner, outer = group_channels(at, backward=False)
    calls = at["groups"] * inner * -(-outer // LINE)
    rows, columns = met_taps(at, 3)
    return Counter(
        {
            "narrow.calls": calls,
            "narrow.rows": calls * at["batch"] * rows,
            "narrow.columns": calls * at["batch"] * rows * columns,
            "weights": 9 * at["groups"] * inner * outer,
        }
    )


def _narrow_backwards(at: Mapping[str, int]) -> Counter[str]:
    """The same for dX: two rows of results for each row of two columns, and one under the last."""
    summed, channels = group_channels(at, backward=True)
    planes = at["batch"] * at["groups"] * channels
    lines = at["out_height"]
    return Counter(
        {
            "narrow_backwards.calls": planes,
            "narrow_backwards.lines": planes * lines,
            "narrow_backwards.rows": planes * (lines - 1) * summed,
            "narrow_backwards.last": planes * summed,
        }
    )


def _strips_by_2(at: Mapping[str, int], function: str) -> Counter[str]:
    """`conv2d_3x3_by_2.c`: strips of four columns of results, or for dX of the gradient."""
    inner, outer = group_channels(at, backward=False)
    columns = at["out_width"]
    weights = at["groups"] * inner * outer
    if "weight" in function:
        whole = at["in_width"] // (2 * LINE)
        calls = at["groups"] * inner * -(-outer // LINE)
        spans = (outputs_met(at, "height", tap) for tap in range(3))
        rows = calls * at["batch"] * sum(end - first for first, end in spans)
        return Counter(
            {
                "tap_rows_by_2.calls": 3 * calls,
                "tap_rows_by_2.rows": rows,
                "tap_rows_by_2.strips": rows * whole,
                "tap_rows_by_2.left": rows * (columns - LINE * whole),
                "weights": 9 * weights,
            }
        )
    backward = "input" in function
    summed, channels = group_channels(at, backward)
    planes = at["batch"] * at["groups"] * (channels if backward else -(-channels // 2))
    strips = planes * -(-columns // LINE)
    met = sum(taps_of_output(at, "height", row)[1] for row in range(at["out_height"]))
    lines = at["out_height"]
    return Counter(
        {
            "wide_strips.lines": planes * lines,
            "wide_strips": strips * lines,
            "wide_strips.channels": strips * lines * summed,
            "wide_strips.shared": strips * summed * (lines - 1),
            "weights": 9 * weights,
        }
        if backward
        else {
            "strips_by_2.lines": planes * lines,
            "strips_by_2": strips * lines,
            "strips_by_2.channels": strips * lines * summed,
            "strips_by_2.rows": strips * met * summed,
            "weights": 9 * weights,
        }
    )


def _fives(at: Mapping[str, int], function: str) -> Counter[str]:
    """`conv2d_5x5.c`: strips of four columns, and the rows of the kernel that they meet."""
    inner, outer = group_channels(at, backward=False)
    columns, lines = at["out_width"], at["out_height"]
    weights = at["groups"] * inner * outer
    found: Counter[str] = Counter(weights=25 * weights)
    met_rows, met_columns = (
        sum(end - first for first, end in (outputs_met(at, axis, tap) for tap in range(5)))
        for axis in ("height", "width")
    )
    rows = at["batch"] * met_rows
    found["fives.products"] = weights * rows * met_columns  # all that cores without strips take
    if "weight" in function:
        fours = (outer + 1) // LINE if outer >= LINE else 0
        twos = -(-max(outer - LINE * fours, 0) // 2)
        for name, blocks, channels in (("fours", fours, LINE), ("twos", twos, 2)):
            calls = at["groups"] * inner * blocks
            found[f"fives.{name}.calls"] = 5 * calls
            found[f"fives.{name}.rows"] = calls * rows
            found[f"fives.{name}.columns"] = calls * rows * columns * channels
        return found
    backward = "input" in function
    summed, channels = group_channels(at, backward)
    times, strips = at["batch"] * at["groups"], -(-columns // LINE)
    if backward and "by_2" in function:
        met = sum(
            min(row // 2 + 1, lines - 1) - max((row - 1) // 2, 0) + 1
            for row in range(at["in_height"])
        )
        found["fives.wide"] = times * channels * strips * at["in_height"]
        found["fives.wide.channels"] = found["fives.wide"] * summed
        found["fives.wide.rows"] = times * channels * strips * summed * met
        return found
    taps = [taps_of_output(at, "height", row)[1] for row in range(lines)]
    single = taps + (taps[-2:][:1] if lines % 2 else [])  # an odd row makes the one before again
    found["fives.calls"] = times * strips * (lines * (channels > 1) + channels % 2 * -(-lines // 2))
    found["fives"] = times * strips * (channels // 2 * lines + channels % 2 * -(-lines // 2))
    found["fives.channels"] = found["fives"] * summed
    found["fives.rows"] = (
        times * strips * summed * (channels // 2 * 2 * sum(taps) + channels % 2 * sum(single))
    )
    return found
