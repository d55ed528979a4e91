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
from poetfw.costs.depthwise_features import depthwise
from poetfw.costs.measurement import Case
from poetfw.costs.strip_features import strips
from poetfw.costs.taps import LINE, group_channels, outputs_met, tap_runs
from poetfw.ops import Kernel, kind_of
from poetfw.ops.base import Constants

Features = Mapping[str, float]

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
        if isinstance(update, Constants) and update.member == "update":
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
    if "forward" in kernel.function and features < _BURST and outputs >= LINE:
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
    if "depthwise" in kernel.function and (found := depthwise(at, kernel.function)):
        return found
    if "3x3" in kernel.function or "5x5" in kernel.function:
        return strips(at, kernel.function)
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
    summed, channels = group_channels(at, backward)
    times, positions = at["batch"] * at["groups"], at["out_height"] * at["out_width"]
    moved = (at["in_height"], at["in_width"]) != (at["out_height"], at["out_width"])
    if backward and moved:
        found["zeros"] = at["batch"] * at["in_channels"] * at["in_height"] * at["in_width"]
    neighbours = backward or not moved
    ones = blocks = fours = runs = bursts = 0
    if positions < LINE or (neighbours and positions in (5, 6)):
        blocks, ones = divmod(positions, LINE)
        ones, blocks = times * ones, times * blocks
    elif positions < _BURST:
        halves = at["batch"] * (2 if positions > LINE else 1)
        blocks = at["groups"] * (halves % 2) if neighbours else 0
        runs = bursts = at["groups"] * (halves // 2 if neighbours else -(-halves // 2))
        fours = 2 * runs
    elif neighbours:
        over = positions % _BURST if summed > 1 else 0
        blocks, ones = times * (over // LINE), times * (over % LINE)
        runs, bursts = times, times * -(-(positions - over) // _BURST)
    else:
        ones = positions % _BURST if positions % _BURST < LINE and summed > 1 else 0
        lengths = list(_gathered(positions - ones, summed))
        runs, fours = times * len(lengths), times * sum(lengths) // LINE
        bursts = times * sum(-(-length // _BURST) for length in lengths)
        ones *= times
    found["fours"] = blocks
    _sums(found, "of16", blocks * (channels // LINE), 1, 1, summed)
    _sums(found, "of4_exchanged", blocks * (channels % LINE), 1, 1, summed)
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
    summed, channels = group_channels(at, backward)
    positions = at["out_height"] * at["out_width"]
    single, most = (channels, 2 * _BURST) if backward else (summed, _BURST)
    together = most if single == 1 and positions >= most else LINE
    blocks = at["batch"] * at["groups"] * -(-positions // together)
    fours = blocks * together // LINE
    kind = "apart_backwards" if backward else "apart"
    found = Counter(
        {
            f"{kind}.calls": at["groups"],
            f"{kind}.fours": fours,
            f"{kind}.moved": fours * (channels if backward else summed),
            f"{kind}.loops": blocks * (-(-channels // LINE) * summed if backward else channels),
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
        run = min(-(-(positions - done) // LINE) * LINE, most)
        run = run if _BURST <= run <= positions else _BURST
        yield run
        done = min(done, positions - run) + run


def _one_by_one(
    found: Counter[str], positions: int, channels: int, walk: tuple[int, int, int]
) -> None:
    """`sum_position`: all channels at one position."""
    found["ones"] += positions
    _sums(found, "of4", positions * (channels // LINE), *walk)
    _sums(found, "of1", positions * (channels % LINE), *walk)


def _positions(at: Mapping[str, int], *, backward: bool) -> Counter[str]:
    """`sum_pass`: boxes of positions that meet the same taps."""
    found: Counter[str] = Counter()
    summed, channels = group_channels(at, backward)
    height, width = ("in_height", "in_width") if backward else ("out_height", "out_width")
    for rows in tap_runs(at, "height", at[height], backward):
        for columns in tap_runs(at, "width", at[width], backward):
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
    blocks, rest = divmod(channels, LINE)
    lines = math.prod(box) // max(box)
    left = lines * (max(box) % LINE)
    ones = int(left % LINE == 1)
    fours = lines * (max(box) // LINE) + -(-(left - ones) // LINE)
    found["box.lines"] += lines
    found["box.left"] += left
    found["fours"] += fours
    _sums(found, "of16", fours * blocks, *walk)
    _sums(found, "of4_exchanged", fours * rest, *walk)
    alone = ones * int(rest == 1)
    fours_of_channels = ones * -(-(channels - alone) // LINE)
    found["ones"] += ones
    _sums(found, "of4", fours_of_channels, *walk)
    _sums(found, "of1", alone, *walk)
    made = LINE * (fours * channels + fours_of_channels) + alone
    found["sums"] += math.prod(box) * channels * math.prod(walk)  # all that other cores take
    found["again"] += (made - math.prod(box) * channels) * math.prod(walk)


def _taps_of_weight(at: Mapping[str, int]) -> Counter[str]:
    """`sum_taps`: the weights of each tap, four output and two or one input channels at a time."""
    found: Counter[str] = Counter()
    inner, outer = group_channels(at, backward=False)
    kernel = at["kernel_height"] * at["kernel_width"]
    single, outputs = ("", -(-outer // LINE)) if outer >= LINE else ("single_", outer)
    found["taps"] = kernel
    for name, inputs in ((f"{single}pair_lines", inner // 2), (f"{single}lines", inner % 2)):
        blocks = at["groups"] * inputs * outputs
        found[f"{name}.calls"] = blocks * -(-kernel // _TAPS)
        found[f"{name}.taps"] = blocks * kernel
        for u, v in itertools.product(range(at["kernel_height"]), range(at["kernel_width"])):
            spans = outputs_met(at, "height", u), outputs_met(at, "width", v)
            rows, columns = (end - first for first, end in spans)
            if rows * columns:
                found[f"{name}.samples"] += blocks * at["batch"]
                found[f"{name}.rows"] += blocks * at["batch"] * rows
                found[f"{name}.strips"] += blocks * at["batch"] * rows * (columns // LINE)
                found[f"{name}.left"] += blocks * at["batch"] * rows * (columns % LINE)
    found["weights"] = kernel * at["groups"] * inner * outer
    return found


def _fours(at: Mapping[str, int], function: str) -> Counter[str]:
    """`conv2d_pointwise.c`: dW of 1x1 kernels, four channels and a pair or one of the others."""
    inner, outer = group_channels(at, backward=False)
    weights = at["groups"] * inner * outer
    lines = at["batch"] * at["out_height"]
    found: Counter[str] = Counter(weights=weights)
    found["weights.rows"] = weights * lines  # all that cores without strips take
    left = 0 if inner < LINE and inner <= outer else outer % LINE
    of_x = "fours_of_x" if "by_" in function else "fours"
    for name, fours, others in (("fours", outer - left, inner), (of_x, inner, left)):
        found["fours.sides"] += at["groups"] * (fours * others > 0)
        for channels, times in (("pair", others // 2), ("one", others % 2)):
            one = f"{name}.{channels}"
            calls = at["groups"] * times * (fours > 0)
            blocks = calls * -(-fours // LINE)
            found["fours.calls"] += calls
            found["fours.again"] += calls * (fours > LINE and fours % LINE > 0)
            found["fours.few"] += calls * (fours < LINE)
            found[f"{one}.blocks"] += blocks
            found[f"{one}.samples"] += blocks * at["batch"]
            found[f"{one}.rows"] += blocks * lines
            found[f"{one}.strips"] += blocks * lines * ((at["out_width"] - 1) // LINE)
            found[f"{one}.columns"] += blocks * lines * at["out_width"]
    return found


def _each_weight(at: Mapping[str, int]) -> Counter[str]:
    """`conv2d_pointwise.c`: dW of 1x1 kernels of few weights, one after the other."""
    inner, outer = group_channels(at, backward=False)
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
