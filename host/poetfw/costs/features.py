# SPDX-License-Identifier: Apache-2.0
"""Features of a kernel's running time: how often each of its loops runs.

Every kernel has the work that its operator states, the elements, rows and planes of its operands,
and a fixed cost. For most that is enough. The kernels of convolutions and linear layers do the same
work at speeds that differ by a factor of three: in blocks of 16 sums, by fours, or one by one, and
3x3 kernels in strips or planes. So for these, what is done in which way is counted, as the C files
choose it; MACs alone miss single ops by half.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from poetfw.costs.alone import alone
from poetfw.costs.measurement import Case
from poetfw.ops import Kernel, kind_of
from poetfw.ops.base import Constants

Features = Mapping[str, float]

_LINE = 4
"""Sums that are taken at the same time along one axis."""
_BURST = 8
"""Elements that are loaded at the same time."""
_GATHERED = 16
"""Channels of a burst that 1x1 kernels gather at a time."""
_WIDE = 32
"""Planes of a multiple of that many elements are normalised by so many."""
_RUN = 32
"""Products that `linear.c` and `matmul.c` sum before they add to a total."""
_LONGEST, _LARGEST = 1 << 16, 1 << 12
"""Positions along an axis, and places of a window, that are gone through one by one at most."""
_TAPS = 9
"""Taps that one call sums for dW of any convolution."""
_GIVEN = ("pace", "parameter", "first", "second", "sum")
"""The arguments behind the constants of an update; a null pointer is work that it has not."""
_SWITCHES = ("update.weight_decay", "update.clip_value")
"""Its constants that are no flags, and where they are 0, something is left out."""


@dataclass(frozen=True)
class Featured:
    """A case as the fitted model knows it.

    Attributes:
        function: its C function, which is fitted alone where enough of its cases were measured; of
            one that applies a gradient, also by which step.
        family: its C file, without its ending, and the step; fitted together where they were not.
        features: what its time is a sum of, by name; all 0 or more.
    """

    function: str
    family: str
    features: Features


def featured(case: Case) -> Featured:
    """The features of a case.

    Raises:
        ModelError: the case is a transfer, or no op.
    """
    op, graph = alone(case)
    kernel = kind_of(op).kernel(op, graph)
    inputs = [graph.by_name[name] for name in op.inputs]
    output = None if op.output is None else graph.by_name[op.output]
    work = kind_of(op).work(op, inputs, output)
    found: Counter[str] = Counter(fixed=1, macs=work.macs, bytes=work.bytes_moved)
    for name, tensor in [(f"in{i}", t) for i, t in enumerate(inputs)] + (
        [("out", output)] if output is not None else []
    ):
        found[f"{name}.elements"] = tensor.elements
        if len(tensor.shape) > 1:
            found[f"{name}.rows"] = math.prod(tensor.shape[:-1])
        if len(tensor.shape) > 2:
            found[f"{name}.planes"] = math.prod(tensor.shape[:2])
            found[f"{name}.channels"] = tensor.shape[1]
    if kernel.source.startswith("conv2d") and "bias" not in kernel.function:
        found.update(_convolution(kernel))
    elif kernel.source.startswith("batch_norm") and "running" not in kernel.function:
        found.update(_batch_norm(kernel))
    elif kernel.source.startswith("linear"):
        found.update(_linear(kernel))
    elif kernel.source == "matmul":
        extents = _extents(kernel)
        results = extents["batch"] * extents["rows"] * extents["columns"]
        found["runs"] = results * -(-extents["inner"] // _RUN)
    elif not kernel.source and output is not None:  # a load
        found["samples"] = output.shape[0]
    elif kernel.source == "update_rows":
        found["rows"] = inputs[0].shape[0]
    elif kernel.source == "slice":
        found["outer"] = _extents(kernel)["outer"]
    elif kernel.source == "strided":
        found.update(_walk(kernel))
        if case.kind == "sum_to" and output is not None:  # others are added to 0
            found["further"] = inputs[0].elements - output.elements
    elif kernel.source in ("avg_pool2d", "max_pool2d") and "out_height" in _extents(kernel):
        found.update(_windows(kernel))
    step = _step(kernel)
    return Featured((kernel.function or case.kind) + step, kernel.source + step, found)


def _step(kernel: Kernel) -> str:
    """By which optimizer's step a kernel applies a gradient, and what decides the way it goes.

    The same C function applies it by whichever step it is given: what one takes says nothing of
    another. Empty for a kernel that applies none.
    """
    for at, update in enumerate(kernel.arguments):
        if isinstance(update, Constants):
            given = dict(zip(_GIVEN, kernel.arguments[at + 1 :], strict=True))
            if kernel.source in ("update", "update_rows"):
                given["factor"] = kernel.arguments[at - 1]
            parts = [name for name, argument in given.items() if argument is not None]
            parts += [
                name.removeprefix("update.")
                for name, value in update.fields
                if value and (isinstance(value, int) or name in _SWITCHES)
            ]
            return f" ({', '.join((update.struct.removeprefix('poet_'), *parts))})"
    return ""


def _extents(kernel: Kernel) -> Mapping[str, int]:
    """The integers among its constants, by name."""
    return {name: value for name, value in kernel.fields if isinstance(value, int)}


def _bursts(found: Counter[str], name: str, times: int, elements: int) -> None:
    """So many times so many elements, and those left over one by one."""
    found[f"{name}.calls"] += times
    found[f"{name}.bursts"] += times * (elements // _BURST)
    found[f"{name}.singles"] += times * (elements % _BURST)


def _batch_norm(kernel: Kernel) -> Counter[str]:
    """Statistics by pairs of rows, gradients of scale and shift by rows, the others by planes."""
    at = _extents(kernel)
    planes = at["batch"] * at["channels"]
    found: Counter[str] = Counter()
    if "statistics" in kernel.function:
        if at["height"] == 1:  # then of samples
            at = {**at, "height": at["batch"]}
            planes = at["channels"]
        pairs, odd = divmod(at["height"], 2)
        _bursts(found, "pairs", planes * pairs, at["width"])
        found["odd"] = planes * odd
        found["odd.elements"] = planes * odd * at["width"]
    elif "affine" in kernel.function:
        _bursts(found, "rows", planes * at["height"], at["width"])
    elif "input" not in kernel.function and at["height"] * at["width"] % _WIDE == 0:
        found["planes.calls"] += planes
        found["planes.wides"] += planes * (at["height"] * at["width"] // _WIDE)
    else:
        _bursts(found, "planes", planes, at["height"] * at["width"])
    return found


def _walk(kernel: Kernel) -> Counter[str]:
    """Rows of `strided.c`, and how often it goes on along each of the other axes."""
    extents = [_extents(kernel)[f"extent{axis}"] for axis in range(6)]
    return Counter({f"axis{axis}": math.prod(extents[:axis]) for axis in range(1, 7)})


def _windows(kernel: Kernel) -> Counter[str]:
    """Windows of a pooling, their rows, and their elements."""
    at = _extents(kernel)
    windows = at["out_height"] * at["out_width"]
    every = at["planes"] * windows
    return Counter(
        {
            "windows": windows,
            "windows.planes": every,
            "windows.rows": every * at["kernel_height"],
            "windows.elements": every * at["kernel_height"] * at["kernel_width"],
        }
    )


def _linear(kernel: Kernel) -> Counter[str]:
    """Features of `linear.c`: products by fours, by sixteens, one by one, of few features."""
    extents = _extents(kernel)
    batch, outputs = extents["batch"], extents["out_features"]
    features = extents.get("in_features", 1)
    found: Counter[str] = Counter()
    if "forward" in kernel.function and features < _BURST and outputs >= _LINE:
        for width, calls in ((4, outputs // 4), (1, outputs % 4)):
            found[f"few{width}.calls"] = batch * calls
            found[f"few{width}.steps"] = batch * calls * features
    elif "forward" in kernel.function:
        for width, calls in ((4, outputs // 4), (2, outputs % 4 // 2), (1, outputs % 2)):
            found[f"dots{width}.runs"] = batch * calls * -(-features // _RUN)
            _bursts(found, f"dots{width}", batch * calls, features)
    elif "bias" not in kernel.function:
        rows, steps = (batch, outputs) if "input" in kernel.function else (outputs, batch)
        found["rows"] = rows
        found["products" if steps == 1 else "sums"] = rows * features
        if steps > 1:
            found["sums.terms"] = rows * features * steps
        if steps == 1 and "update" not in kernel.function:
            _bursts(found, "scaled", rows, features)
            return found
        few = features % 4 if features < _BURST else 0
        for width, calls in (
            (16, features // 16),
            (8, features % 16 // 8),
            (4, features % 8 // 4),
            (3, int(few == 3)),
            (2, int(few == 2)),
            (1, int(few == 1) if features < _BURST else features % 4),
        ):
            found[f"columns{width}.calls"] = rows * calls
            found[f"columns{width}.steps"] = rows * calls * steps
    return found


@dataclass(frozen=True)
class _Taps:
    """Positions along one axis that meet the same taps: how many positions, and how many taps."""

    positions: int
    taps: int


def _convolution(kernel: Kernel) -> Counter[str]:
    """Features of `conv2d.c`: products in blocks, by fours, one by one, and in planes.

    Nothing where that would take seconds to count: of planes and windows that only a row has which
    somebody made up.
    """
    at = _extents(kernel)
    planes = (at[f"{side}_{axis}"] for side in ("in", "out") for axis in ("height", "width"))
    windows = (at[f"kernel_{axis}"] + at[f"stride_{axis}"] for axis in ("height", "width"))
    if max(planes) > _LONGEST or math.prod(windows) > _LARGEST:
        return Counter()
    if "by_1" in kernel.function:
        return _by_1(at, kernel.function)
    if "depthwise_5x5" in kernel.function:
        return _depthwise_5x5(at, kernel.function)
    if "depthwise_by_2" in kernel.function:
        return _depthwise_by_2(at, kernel.function)
    if "depthwise_each" in kernel.function:
        return _depthwise_each(at, backward="backward" in kernel.function)
    if "depthwise" in kernel.function and (by_planes := _depthwise(at, kernel.function)):
        return by_planes
    if "5x5" in kernel.function:
        return _fives(at, kernel.function)
    if "3x3_narrow" in kernel.function:
        return _narrow_backwards(at) if "input" in kernel.function else _narrow(at)
    if "3x3_by_2" in kernel.function:
        return _strips_by_2(at, kernel.function)
    if "3x3" in kernel.function:
        return _strips(at, kernel.function)
    if "backward_weight" in kernel.function:
        if "pointwise_each" in kernel.function:
            return _each_weight(at)
        if "pointwise" in kernel.function:
            return _fours(at, kernel.function)
        return _taps_of_weight(at)
    if "pointwise_apart" in kernel.function:
        return _apart(at, backward="backward" in kernel.function)
    if "pointwise" in kernel.function:
        return _matrices(at, backward="backward" in kernel.function)
    return _positions(at, backward="backward" in kernel.function)


def _sums(
    found: Counter[str], at_once: str, calls: int, channels: int, rows: int, columns: int
) -> None:
    """Calls of the function that takes so many sums at once, and how often its loops run."""
    found[f"{at_once}.calls"] += calls
    found[f"{at_once}.channels"] += calls * channels
    found[f"{at_once}.rows"] += calls * channels * rows
    found[f"{at_once}.steps"] += calls * channels * rows * columns


def _matrices(at: Mapping[str, int], *, backward: bool) -> Counter[str]:
    """`conv2d_pointwise.c`: bursts of positions, in two channels of results and in a last one."""
    found: Counter[str] = Counter()
    summed, channels = _group_channels(at, backward)
    times, positions = at["batch"] * at["groups"], at["out_height"] * at["out_width"]
    moved = (at["in_height"], at["in_width"]) != (at["out_height"], at["out_width"])
    if backward and moved:
        found["zeros"] = at["batch"] * at["in_channels"] * at["in_height"] * at["in_width"]
    neighbours = backward or not moved
    ones = blocks = fours = runs = bursts = 0
    if positions < _LINE or (neighbours and positions in (5, 6)):
        blocks, ones = divmod(positions, _LINE)
        ones, blocks = times * ones, times * blocks
    elif positions < _BURST:
        halves = at["batch"] * (2 if positions > _LINE else 1)
        blocks = at["groups"] * (halves % 2) if neighbours else 0
        runs = bursts = at["groups"] * (halves // 2 if neighbours else -(-halves // 2))
        fours = 2 * runs
    elif neighbours:
        over = positions % _BURST if summed > 1 else 0
        blocks, ones = times * (over // _LINE), times * (over % _LINE)
        runs, bursts = times, times * -(-(positions - over) // _BURST)
    else:
        ones = positions % _BURST if positions % _BURST < _LINE and summed > 1 else 0
        lengths = list(_gathered(positions - ones, summed))
        runs, fours = times * len(lengths), times * sum(lengths) // _LINE
        bursts = times * sum(-(-length // _BURST) for length in lengths)
        ones *= times
    found["fours"] = blocks
    _sums(found, "of16", blocks * (channels // _LINE), 1, 1, summed)
    _sums(found, "of4_exchanged", blocks * (channels % _LINE), 1, 1, summed)
    _one_by_one(found, ones, channels, (1, 1, summed))
    turns = -(-summed // _GATHERED) if fours else 1
    found["runs"] = runs * turns
    found["gathered.fours"] = fours * turns
    found["gathered"] = fours * summed
    kind = "of_one" if summed == 1 and positions >= _BURST else "bursts"
    found[kind] = bursts * turns
    for name, count in (("pairs", channels // 2), ("single", channels % 2)):
        found[f"{kind}.{name}"] = bursts * turns * count
        found[f"{kind}.{name}.steps"] = bursts * count * summed
    return found


def _apart(at: Mapping[str, int], *, backward: bool) -> Counter[str]:
    """`conv2d_pointwise_apart.c`: fours of positions; of one channel eights, or sixteens for dX."""
    summed, channels = _group_channels(at, backward)
    positions = at["out_height"] * at["out_width"]
    single, most = (channels, 2 * _BURST) if backward else (summed, _BURST)
    together = most if single == 1 and positions >= most else _LINE
    blocks = at["batch"] * at["groups"] * -(-positions // together)
    fours = blocks * together // _LINE
    kind = "apart_backwards" if backward else "apart"
    found = Counter(
        {
            f"{kind}.calls": at["groups"],
            f"{kind}.fours": fours,
            f"{kind}.moved": fours * (channels if backward else summed),
            f"{kind}.loops": blocks * (-(-channels // _LINE) * summed if backward else channels),
            f"{kind}.steps": fours * channels * summed,
        }
    )
    if backward:
        found["zeros"] = at["batch"] * at["in_channels"] * at["in_height"] * at["in_width"]
    return found


def _gathered(positions: int, summed: int) -> Iterator[int]:
    """Numbers of positions of a feature map that are gathered at a time, as in `sum_runs`."""
    most = max(_GATHERED // summed, 1) * _BURST
    done = 0
    while done < positions:
        run = min(-(-(positions - done) // _LINE) * _LINE, most)
        run = run if _BURST <= run <= positions else _BURST
        yield run
        done = min(done, positions - run) + run


def _one_by_one(
    found: Counter[str], positions: int, channels: int, walk: tuple[int, int, int]
) -> None:
    """`sum_position`: all channels at one position."""
    found["ones"] += positions
    _sums(found, "of4", positions * (channels // _LINE), *walk)
    _sums(found, "of1", positions * (channels % _LINE), *walk)


def _group_channels(at: Mapping[str, int], backward: bool) -> tuple[int, int]:
    """Channels of a group that are summed over, and that there are sums of."""
    inner, outer = at["in_channels"] // at["groups"], at["out_channels"] // at["groups"]
    return (outer, inner) if backward else (inner, outer)


def _positions(at: Mapping[str, int], *, backward: bool) -> Counter[str]:
    """`sum_pass`: boxes of positions that meet the same taps."""
    found: Counter[str] = Counter()
    summed, channels = _group_channels(at, backward)
    height, width = ("in_height", "in_width") if backward else ("out_height", "out_width")
    for rows in _runs(at, "height", at[height], backward):
        for columns in _runs(at, "width", at[width], backward):
            one: Counter[str] = Counter(boxes=1)
            planes = (
                (rows.taps, columns.taps, at["kernel_width"]) == (3, 3, 3)
                and at["stride_height"] == at["stride_width"] == 1
                and rows.positions >= 2
                and columns.positions >= 3
            )
            walk = (summed, rows.taps, columns.taps)
            if rows.taps == columns.taps == 1:
                walk = (1, 1, summed)
            box = [columns.positions, rows.positions, at["batch"]]
            nothing = not rows.taps * columns.taps
            if nothing:
                one["nothing"] = math.prod(box) * channels
                one["nothing.rows"] = math.prod(box[1:]) * channels
            elif planes:
                threes, odd = columns.positions // 3, rows.positions % 2
                pairs = rows.positions // 2
                calls = at["batch"] * channels * summed
                one["planes.calls"] += calls
                one["planes.pairs"] += calls * pairs
                one["planes.threes"] += calls * pairs * threes
                one["planes.results"] += at["batch"] * channels * pairs * threes
                one["planes.result_rows"] += at["batch"] * channels * pairs
                one["sums"] += calls * 2 * pairs * 3 * threes * 9
                if odd:
                    _box(one, [3 * threes, 1, at["batch"]], channels, walk)
                _box(one, [columns.positions % 3, rows.positions, at["batch"]], channels, walk)
            else:
                _box(one, box, channels, walk)
            for name, count in one.items():
                shared = name.startswith("box") and not (planes or nothing)
                found[name] += count if shared else count * at["groups"]
    return found


def _box(found: Counter[str], box: list[int], channels: int, walk: tuple[int, int, int]) -> None:
    """`sum_box`: by fours along the longest axis, and of what lines leave; a last one alone."""
    if not math.prod(box):
        return
    blocks, rest = divmod(channels, _LINE)
    lines = math.prod(box) // max(box)
    left = lines * (max(box) % _LINE)
    ones = int(left % _LINE == 1)
    fours = lines * (max(box) // _LINE) + -(-(left - ones) // _LINE)
    found["box.lines"] += lines
    found["box.left"] += left
    found["fours"] += fours
    _sums(found, "of16", fours * blocks, *walk)
    _sums(found, "of4_exchanged", fours * rest, *walk)
    alone = ones * int(rest == 1)
    fours_of_channels = ones * -(-(channels - alone) // _LINE)
    found["ones"] += ones
    _sums(found, "of4", fours_of_channels, *walk)
    _sums(found, "of1", alone, *walk)
    made = _LINE * (fours * channels + fours_of_channels) + alone
    found["sums"] += math.prod(box) * channels * math.prod(walk)  # all that other cores take
    found["again"] += (made - math.prod(box) * channels) * math.prod(walk)


def _runs(at: Mapping[str, int], axis: str, extent: int, backward: bool) -> Iterator[_Taps]:
    """Positions along an axis that meet the same taps, as `next_run` finds them."""
    apart = at[f"stride_{axis}"] if backward else 1
    taps_of = _taps_of_input if backward else _taps_of_output
    for first in range(min(apart, extent)):
        before: tuple[int, int] | None = None
        count = 0
        for position in range(first, extent, apart):
            taps = taps_of(at, axis, position)
            if before is not None and taps != before:
                yield _Taps(count, before[1])
                count = 0
            before = taps
            count += 1
        if before is not None:
            yield _Taps(count, before[1])


def _padding(at: Mapping[str, int], axis: str) -> int:
    return at["padding_top" if axis == "height" else "padding_left"]


def _taps_of_output(at: Mapping[str, int], axis: str, position: int) -> tuple[int, int]:
    """The first tap that an output position meets the input with, and how many do."""
    kernel, stride, extent = at[f"kernel_{axis}"], at[f"stride_{axis}"], at[f"in_{axis}"]
    start = position * stride - _padding(at, axis)
    first, end = max(0, -start), min(kernel, extent - start)
    return (first, end - first) if first < end else (0, 0)


def _taps_of_input(at: Mapping[str, int], axis: str, position: int) -> tuple[int, int]:
    """The first tap that an input position went through, and how many did."""
    kernel, stride, extent = at[f"kernel_{axis}"], at[f"stride_{axis}"], at[f"out_{axis}"]
    padded = position + _padding(at, axis)
    output = min(padded // stride, extent - 1)
    tap = padded - output * stride
    return (tap, min(-(-(kernel - tap) // stride), output + 1)) if tap < kernel else (0, 0)


def _met(at: Mapping[str, int], axis: str, tap: int) -> tuple[int, int]:
    """The output positions, half-open, at which a tap meets the input."""
    before = _padding(at, axis) - tap
    stride = at[f"stride_{axis}"]
    first = max(0, -(-before // stride))
    end = min(max(0, -(-(before + at[f"in_{axis}"]) // stride)), at[f"out_{axis}"])
    return (first, end) if first < end else (0, 0)


def _taps_of_weight(at: Mapping[str, int]) -> Counter[str]:
    """`sum_taps`: the weights of each tap, four output and two or one input channels at a time."""
    found: Counter[str] = Counter()
    inner, outer = _group_channels(at, backward=False)
    kernel = at["kernel_height"] * at["kernel_width"]
    single, outputs = ("", -(-outer // _LINE)) if outer >= _LINE else ("single_", outer)
    found["taps"] = kernel
    for name, inputs in ((f"{single}pair_lines", inner // 2), (f"{single}lines", inner % 2)):
        blocks = at["groups"] * inputs * outputs
        found[f"{name}.calls"] = blocks * -(-kernel // _TAPS)
        found[f"{name}.taps"] = blocks * kernel
        for u, v in itertools.product(range(at["kernel_height"]), range(at["kernel_width"])):
            spans = _met(at, "height", u), _met(at, "width", v)
            rows, columns = (end - first for first, end in spans)
            if rows * columns:
                found[f"{name}.samples"] += blocks * at["batch"]
                found[f"{name}.rows"] += blocks * at["batch"] * rows
                found[f"{name}.strips"] += blocks * at["batch"] * rows * (columns // _LINE)
                found[f"{name}.left"] += blocks * at["batch"] * rows * (columns % _LINE)
    found["weights"] = kernel * at["groups"] * inner * outer
    return found


def _strips(at: Mapping[str, int], function: str) -> Counter[str]:
    """`conv2d_3x3.c`: strips of four columns, and the rows of the kernel that they meet."""
    inner, outer = _group_channels(at, backward=False)
    met = 3 * at["in_height"] - 2
    weights = at["groups"] * inner * outer
    if "weight" in function:
        calls = at["groups"] * inner * -(-outer // _LINE)
        rows = calls * at["batch"] * met
        return Counter(
            {
                "tap_rows.calls": 3 * calls,
                "tap_rows.rows": rows,
                "tap_rows.strips": rows * (at["in_width"] // _LINE),
                "tap_rows.left": rows * (at["in_width"] % _LINE),
                "weights": 9 * weights,
            }
        )
    summed, channels = _group_channels(at, "input" in function)
    pairs = at["batch"] * at["groups"] * -(-channels // 2)
    strips = pairs * -(-at["in_width"] // _LINE)
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
    inner, outer = _group_channels(at, backward=False)
    calls = at["groups"] * inner * -(-outer // _LINE)
    rows, columns = _met_taps(at, 3)
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
    summed, channels = _group_channels(at, backward=True)
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
    inner, outer = _group_channels(at, backward=False)
    columns = at["out_width"]
    weights = at["groups"] * inner * outer
    if "weight" in function:
        whole = at["in_width"] // (2 * _LINE)
        calls = at["groups"] * inner * -(-outer // _LINE)
        spans = (_met(at, "height", tap) for tap in range(3))
        rows = calls * at["batch"] * sum(end - first for first, end in spans)
        return Counter(
            {
                "tap_rows_by_2.calls": 3 * calls,
                "tap_rows_by_2.rows": rows,
                "tap_rows_by_2.strips": rows * whole,
                "tap_rows_by_2.left": rows * (columns - _LINE * whole),
                "weights": 9 * weights,
            }
        )
    backward = "input" in function
    summed, channels = _group_channels(at, backward)
    planes = at["batch"] * at["groups"] * (channels if backward else -(-channels // 2))
    strips = planes * -(-columns // _LINE)
    met = sum(_taps_of_output(at, "height", row)[1] for row in range(at["out_height"]))
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
    inner, outer = _group_channels(at, backward=False)
    columns, lines = at["out_width"], at["out_height"]
    weights = at["groups"] * inner * outer
    found: Counter[str] = Counter(weights=25 * weights)
    met_rows, met_columns = (
        sum(end - first for first, end in (_met(at, axis, tap) for tap in range(5)))
        for axis in ("height", "width")
    )
    rows = at["batch"] * met_rows
    found["fives.products"] = weights * rows * met_columns  # all that cores without strips take
    if "weight" in function:
        fours = (outer + 1) // _LINE if outer >= _LINE else 0
        twos = -(-max(outer - _LINE * fours, 0) // 2)
        for name, blocks, channels in (("fours", fours, _LINE), ("twos", twos, 2)):
            calls = at["groups"] * inner * blocks
            found[f"fives.{name}.calls"] = 5 * calls
            found[f"fives.{name}.rows"] = calls * rows
            found[f"fives.{name}.columns"] = calls * rows * columns * channels
        return found
    backward = "input" in function
    summed, channels = _group_channels(at, backward)
    times, strips = at["batch"] * at["groups"], -(-columns // _LINE)
    if backward and "by_2" in function:
        met = sum(
            min(row // 2 + 1, lines - 1) - max((row - 1) // 2, 0) + 1
            for row in range(at["in_height"])
        )
        found["fives.wide"] = times * channels * strips * at["in_height"]
        found["fives.wide.channels"] = found["fives.wide"] * summed
        found["fives.wide.rows"] = times * channels * strips * summed * met
        return found
    taps = [_taps_of_output(at, "height", row)[1] for row in range(lines)]
    single = taps + (taps[-2:][:1] if lines % 2 else [])  # an odd row makes the one before again
    found["fives.calls"] = times * strips * (lines * (channels > 1) + channels % 2 * -(-lines // 2))
    found["fives"] = times * strips * (channels // 2 * lines + channels % 2 * -(-lines // 2))
    found["fives.channels"] = found["fives"] * summed
    found["fives.rows"] = (
        times * strips * summed * (channels // 2 * 2 * sum(taps) + channels % 2 * sum(single))
    )
    return found


def _fours(at: Mapping[str, int], function: str) -> Counter[str]:
    """`conv2d_pointwise.c`: dW of 1x1 kernels, four channels and a pair or one of the others."""
    inner, outer = _group_channels(at, backward=False)
    weights = at["groups"] * inner * outer
    lines = at["batch"] * at["out_height"]
    found: Counter[str] = Counter(weights=weights)
    found["weights.rows"] = weights * lines  # all that cores without strips take
    left = 0 if inner < _LINE and inner <= outer else outer % _LINE
    of_x = "fours_of_x" if "by_" in function else "fours"
    for name, fours, others in (("fours", outer - left, inner), (of_x, inner, left)):
        found["fours.sides"] += at["groups"] * (fours * others > 0)
        for channels, times in (("pair", others // 2), ("one", others % 2)):
            one = f"{name}.{channels}"
            calls = at["groups"] * times * (fours > 0)
            blocks = calls * -(-fours // _LINE)
            found["fours.calls"] += calls
            found["fours.again"] += calls * (fours > _LINE and fours % _LINE > 0)
            found["fours.few"] += calls * (fours < _LINE)
            found[f"{one}.blocks"] += blocks
            found[f"{one}.samples"] += blocks * at["batch"]
            found[f"{one}.rows"] += blocks * lines
            found[f"{one}.strips"] += blocks * lines * ((at["out_width"] - 1) // _LINE)
            found[f"{one}.columns"] += blocks * lines * at["out_width"]
    return found


def _each_weight(at: Mapping[str, int]) -> Counter[str]:
    """`conv2d_pointwise.c`: dW of 1x1 kernels of few weights, one after the other."""
    inner, outer = _group_channels(at, backward=False)
    weights = at["groups"] * inner * outer
    lines = weights * at["batch"] * at["out_height"]
    return Counter(
        {
            "weights": weights,
            "each.samples": weights * at["batch"],
            "each.rows": lines,
            "each.products": lines * at["out_width"],
        }
    )


def _depthwise(at: Mapping[str, int], function: str) -> Counter[str] | None:
    """`conv2d_depthwise.c`: planes of 3x3 kernels of stride 1; None where it has no planes."""
    window = [at[f"{what}_{axis}"] for what in ("kernel", "stride") for axis in ("height", "width")]
    if window != [3, 3, 1, 1]:
        return None
    source, result = ("out", "in") if "input" in function else ("in", "out")
    extents = []
    for axis in ("height", "width"):
        sources, results = at[f"{source}_{axis}"], at[f"{result}_{axis}"]
        before = _padding(at, axis) + (results - sources if source == "out" else 0)
        after = results + 2 - sources - before
        if not (0 <= before <= 2 and 0 <= after <= results):
            return None
        extents.append((results, after))
    (rows, below), (columns, after) = extents
    planes = at["batch"] * at["groups"]
    sources = at[f"{source}_height"]
    found = Counter({"planes": planes, "groups": at["groups"]})
    if "weight" in function and columns <= _LINE:
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
    strips, pairs = -(-columns // _LINE), -(-rows // 2)
    # as `by_strips` there
    narrow = columns < _LINE or after > 2 or below > 2
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
    met_rows, met_columns = _met_taps(at, 3)
    found = Counter({"planes": planes, "groups": at["groups"]})
    found["by_2.products"] = planes * met_rows * met_columns  # all that other cores take
    if "weight" in function and at["out_width"] <= _LINE:
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
    if backward and at["out_width"] == 2 and at["in_width"] <= _LINE and _padding(at, "width"):
        name = "plane_narrow_strips"
    pairs = at["groups"] * (at["batch"] // 2) if not backward and columns == _LINE // 2 else 0
    found[name] = (planes - pairs) * -(-columns // _LINE)
    found[f"{name}.rows"] = found[name] * met_rows
    return found


def _depthwise_5x5(at: Mapping[str, int], function: str) -> Counter[str]:
    """`conv2d_depthwise_5x5.c`: strips, and the rows of the kernel that meet one of the plane."""
    planes = at["batch"] * at["groups"]
    met_rows, met_columns = _met_taps(at, 5)
    found = Counter({"planes": planes, "groups": at["groups"]})
    found["plane_fives.products"] = planes * met_rows * met_columns  # all that other cores take
    by_2 = "_by_2" if "by_2" in function else ""
    if "weight" in function:
        found[f"tap_fives{by_2}.rows"] = planes * met_rows
        found[f"tap_fives{by_2}.columns"] = planes * met_rows * at["out_width"]
        return found
    name = "plane_wide_fives" if by_2 and "input" in function else f"plane_fives{by_2}"
    strips = -(-at["out_width"] // _LINE)
    found[f"{name}.calls"] = at["groups"] * strips
    found[name] = planes * strips
    found[f"{name}.rows"] = planes * strips * met_rows
    return found


def _few_taps(at: Mapping[str, int]) -> Counter[str]:
    """`conv2d_depthwise_taps.c`: rows of up to four columns, of each row of the kernel."""
    planes = at["batch"] * at["groups"]
    rows = planes * _met_taps(at, 3)[0]
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
    met_rows, met_columns = _met_taps(at, 3)
    return Counter(
        {
            "each.positions": height * width,
            "each": planes * height * width,
            "each.rows": planes * met_rows * width,
            "each.products": planes * met_rows * met_columns,
        }
    )


def _met_taps(at: Mapping[str, int], kernel: int) -> tuple[int, int]:
    """Pairs of an output's row and a tap that meets the input, and of its column likewise."""
    rows, columns = (
        sum(end - first for first, end in (_met(at, axis, tap) for tap in range(kernel)))
        for axis in ("height", "width")
    )
    return rows, columns


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
    return found + (_depthwise(by_1, function) or Counter())
