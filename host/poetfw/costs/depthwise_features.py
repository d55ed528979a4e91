# SPDX-License-Identifier: Apache-2.0
"""Features of depthwise convolutions: planes, strips and single positions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from poetfw.costs.taps import LINE, met_taps, padding_before


def depthwise(at: Mapping[str, int], function: str) -> Counter[str] | None:
    """Features of a depthwise kernel; None for one that `conv2d.c` computes as any other."""
    if "by_1" in function:
        return _by_1(at, function)
    if "5x5" in function:
        return _depthwise_5x5(at, function)
    if "by_2" in function:
        return _depthwise_by_2(at, function)
    if "each" in function:
        return _depthwise_each(at, backward="backward" in function)
    return _planes(at, function)


def _planes(at: Mapping[str, int], function: str) -> Counter[str] | None:
    """`conv2d_depthwise.c`: planes of 3x3 kernels of stride 1; None where it has no planes."""
    window = [at[f"{what}_{axis}"] for what in ("kernel", "stride") for axis in ("height", "width")]
    if window != [3, 3, 1, 1]:
        return None
    source, result = ("out", "in") if "input" in function else ("in", "out")
    extents = []
    for axis in ("height", "width"):
        sources, results = at[f"{source}_{axis}"], at[f"{result}_{axis}"]
        before = padding_before(at, axis) + (results - sources if source == "out" else 0)
        after = results + 2 - sources - before
        if not (0 <= before <= 2 and 0 <= after <= results):
            return None
        extents.append((results, after))
    (rows, below), (columns, after) = extents
    planes = at["batch"] * at["groups"]
    sources = at[f"{source}_height"]
    found = Counter({"planes": planes, "groups": at["groups"]})
    if "weight" in function and columns <= LINE:
        return found + _few_taps(at)
    if "weight" in function:
        walked = planes * min(rows, rows - below + 2)
        threes, left = divmod(columns - after, 3)
        return found + Counter(
            {
                "taps.rows": walked,
                "taps.threes": walked * threes,
                "taps.left": walked * left,
                "taps.after": walked * after,
            }
        )
    threes = (columns - after) // 3
    left = columns - 3 * threes
    strips, pairs = -(-columns // LINE), -(-rows // 2)
    # as `by_strips` there
    narrow = columns < LINE or after > 2 or below > 2
    strip = 100 + planes * (60 + 91 * sources)
    if not narrow and strips * strip <= planes * pairs * (84 + 156 * threes + 64 * left):
        return found + Counter(
            {
                "plane_strips": planes * strips,
                "plane_strips.rows": planes * strips * sources,
                "plane_strips.after": planes * strips * below,
            }
        )
    return found + Counter(
        {
            "edges": planes * (2 if below else 1),
            "pairs.rows": planes * pairs,
            "pairs.threes": planes * pairs * threes,
            "pairs.left": planes * pairs * left,
        }
    )


def _depthwise_by_2(at: Mapping[str, int], function: str) -> Counter[str]:
    """`conv2d_depthwise_by_2.c`: strips, and the rows of the kernel that they meet."""
    planes = at["batch"] * at["groups"]
    met_rows, met_columns = met_taps(at, 3)
    found = Counter({"planes": planes, "groups": at["groups"]})
    found["by_2.products"] = planes * met_rows * met_columns  # all that other cores take
    if "weight" in function and at["out_width"] <= LINE:
        return found + _few_taps(at)
    if "weight" in function:
        after = 2 * at["out_width"] - at["padding_left"] == at["in_width"]
        pairs = (at["out_width"] - after) // 2
        found["taps_by_2.rows"] = planes * at["out_height"]
        found["taps_by_2.pairs"] = planes * at["out_height"] * pairs
        found["taps_by_2.left"] = planes * at["out_height"] * (at["out_width"] - 2 * pairs)
        return found
    backward = "input" in function
    columns = -(-at["in_width"] // 2) if backward else at["out_width"]
    name = "plane_wide_strips" if backward else "plane_strips_by_2"
    if backward and at["out_width"] == 2 and at["in_width"] <= LINE and padding_before(at, "width"):
        name = "plane_narrow_strips"
    pairs = at["groups"] * (at["batch"] // 2) if not backward and columns == LINE // 2 else 0
    found[name] = (planes - pairs) * -(-columns // LINE)
    found[f"{name}.rows"] = found[name] * met_rows
    return found


def _depthwise_5x5(at: Mapping[str, int], function: str) -> Counter[str]:
    """`conv2d_depthwise_5x5.c`: strips, and the rows of the kernel that meet one of the plane."""
    planes = at["batch"] * at["groups"]
    met_rows, met_columns = met_taps(at, 5)
    found = Counter({"planes": planes, "groups": at["groups"]})
    found["plane_fives.products"] = planes * met_rows * met_columns  # all that other cores take
    by_2 = "_by_2" if "by_2" in function else ""
    if "weight" in function:
        found[f"tap_fives{by_2}.rows"] = planes * met_rows
        found[f"tap_fives{by_2}.columns"] = planes * met_rows * at["out_width"]
        return found
    name = "plane_wide_fives" if by_2 and "input" in function else f"plane_fives{by_2}"
    strips = -(-at["out_width"] // LINE)
    found[f"{name}.calls"] = at["groups"] * strips
    found[name] = planes * strips
    found[f"{name}.rows"] = planes * strips * met_rows
    return found


def _few_taps(at: Mapping[str, int]) -> Counter[str]:
    """`conv2d_depthwise_taps.c`: rows of up to four columns, of each row of the kernel."""
    planes = at["batch"] * at["groups"]
    rows = planes * met_taps(at, 3)[0]
    return Counter(
        {
            "few_taps.planes": 3 * planes,
            "few_taps.rows": rows,
            "few_taps.columns": rows * at["out_width"],
        }
    )


def _depthwise_each(at: Mapping[str, int], *, backward: bool) -> Counter[str]:
    """`conv2d_depthwise_each.c`: each position, in all planes, and the taps that it meets."""
    planes = at["batch"] * at["groups"]
    height, width = (at[f"{'in' if backward else 'out'}_{axis}"] for axis in ("height", "width"))
    met_rows, met_columns = met_taps(at, 3)
    return Counter(
        {
            "each.positions": height * width,
            "each": planes * height * width,
            "each.rows": planes * met_rows * width,
            "each.products": planes * met_rows * met_columns,
        }
    )


def _by_1(at: Mapping[str, int], function: str) -> Counter[str]:
    """`conv2d_depthwise_by_1.c`: planes of stride 1, and what is taken of them or put there."""
    by_1 = {
        **at,
        **{f"stride_{axis}": 1 for axis in ("height", "width")},
        **{
            f"out_{axis}": (at[f"out_{axis}"] - 1) * at[f"stride_{axis}"] + 1
            for axis in ("height", "width")
        },
    }
    moved = at["batch"] * at["groups"] * at["out_height"]
    found = Counter({"moved.rows": moved, "moved": moved * at["out_width"]})
    if "input" in function:
        found["zeros"] = by_1["out_height"] * by_1["out_width"]
    return found + (_planes(by_1, function) or Counter())
