# SPDX-License-Identifier: Apache-2.0
"""Features of a kernel's running time: how often each of its loops runs.

Every kernel has the work that its operator states, the loops that it names, the elements of its
operands, and a fixed cost. Tiles count their own instructions and cycles: a kernel that runs some
has no other features than these and what a sink takes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from poetfw.boards import Board
from poetfw.costs.alone import alone
from poetfw.costs.measurement import Case
from poetfw.costs.measurement import Counter as Unit
from poetfw.ir import Graph, Op
from poetfw.kernels import TiledPass
from poetfw.ops import Kernel, kind_of
from poetfw.ops.base import Constants, Loops
from poetfw.ops.tile_tables import TileChoice, no_tiles, own_tiles, table_of

Features = Mapping[str, float]

_AXES = ("height", "width")
_LONGEST = 1 << 16
"""Positions, or taps, along an axis that are gone through one by one at most."""
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

    def cost(self, prices: Mapping[str, Features]) -> float | None:
        """Sum of the features at the prices of the function, with any step, or of its C file.

        Args:
            prices: of each feature, by function and file.

        Returns:
            None without prices of either, or where they are those of tiles and none fits.
        """
        names = self.function, self.function.partition(" (")[0], self.family
        price = next((prices[name] for name in names if name in prices), None)
        if price is None or ("tiles" in price and "tiles" not in self.features):
            return None
        return sum(each * self.features.get(name, 0.0) for name, each in price.items())


def case_tiles(board: Board) -> TileChoice:
    """The tiles that a case runs on a board: the best of its pass by itself."""
    tiled = board.firmware is not None and board.firmware.toolchain.runs_tiles
    return own_tiles if tiled else no_tiles


def featured(case: Case, tiles: TileChoice = no_tiles) -> Featured:
    """The features of a case, in instructions; arguments and errors as for `features_of`.

    Raises:
        ModelError: the case is a transfer, or no op.
    """
    return features_of(*alone(case), tiles)


def loops_around(op: Op, graph: Graph) -> Iterator[tuple[Featured, int]]:
    """Loops in which an op runs its parts, and these run theirs; each with how often it runs."""
    parts = kind_of(op).parts(op, graph)
    if parts is None:
        return
    kernel = kind_of(op).kernel(op, graph)
    if kernel.loops:
        yield Featured(kernel.function, kernel.source, {"fixed": 1.0, **_nest(kernel.loops)}), 1
    for each in parts.graph.ops:
        for loop, times in loops_around(each, parts.graph):
            yield loop, times * parts.times.get(each.name, 1)


def features_of(
    op: Op, graph: Graph, tiles: TileChoice = no_tiles, unit: Unit = Unit.INSTRUCTIONS
) -> Featured:
    """The features of an op of a graph.

    Args:
        op: the op.
        graph: its graph.
        tiles: those that its core runs.
        unit: what tiles count.
    """
    kernel = kind_of(op).kernel(op, graph)
    inputs = [graph.by_name[name] for name in op.inputs]
    output = None if op.output is None else graph.by_name[op.output]
    step = _step(kernel)
    function = kernel.function.replace("_continued", "")  # the same code around the sums
    names = (function or op.kind) + step, kernel.source + step
    table = table_of(kernel)
    if table is not None and (tiled := tiles(table)) is not None:
        return Featured(*names, _tiled(tiled, unit))
    work = kind_of(op).work(op, inputs, output)
    found: Counter[str] = Counter(fixed=1, macs=work.macs, bytes=work.bytes_moved)
    tensors = {f"in{i}": tensor for i, tensor in enumerate(inputs)}
    if output is not None:
        tensors["out"] = output
    for name, tensor in tensors.items():
        found[f"{name}.elements"] = tensor.elements
        if not kernel.loops:
            found[f"{name}.rows"] = math.prod(tensor.shape[:-1])
    found["added"] = max(found["in0.elements"] - found["out.elements"], 0)  # to other elements
    found.update(_nest(kernel.loops))
    at = {name: value for name, value in kernel.fields if isinstance(value, int)}
    if kernel.struct == "poet_conv2d":
        found.update(_convolution(at, kernel.function))
    if not kernel.source and output is not None:  # a load
        found["samples"] = output.shape[0]
    return Featured(*names, found)


def _tiled(tiles: TiledPass, unit: Unit) -> Counter[str]:
    """Features of tiles: their own count, and those of the C code around them."""
    counted = tiles.cycles if unit is Unit.CYCLES else tiles.instructions
    found: Counter[str] = Counter(fixed=1, tiles=counted)
    if tiles.puts:
        found.update({"puts.calls": tiles.calls, "puts.rows": tiles.puts, "puts": tiles.results})
    return found


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


def _nest(loops: Loops) -> Counter[str]:
    """Iterations of nested loops; a name has the size of each block, from the outermost loop on."""
    found: Counter[str] = Counter()
    outer = {"loop": 1}
    for extent, *blocks in loops:
        inner: dict[str, int] = {}
        for name, times in outer.items():
            left = extent
            for size in (*blocks, 1):
                count, left = divmod(left, size)
                inner[f"{name}.{size}"] = times * count
                if blocks:
                    found[f"begin {name}.{size}"] = times * (count > 0)
        outer = inner
        found.update(inner)
    return found


def _convolution(at: Mapping[str, int], function: str) -> Counter[str]:
    """Loops of `conv2d.c` where it runs no tiles: results, and planes and rows that each sums.

    Nothing where that would take seconds to count, of extents that somebody made up.
    """
    side, terms = ("in", "out") if "input" in function else ("out", "in")
    taps = at["kernel_height"] * at["kernel_width"]
    weights = at["in_channels"] * at["out_channels"] // at["groups"]
    if any(min(at[f"kernel_{axis}"], at[f"out_{axis}"]) > _LONGEST for axis in _AXES):
        return Counter()
    rows, columns = (_met(at, axis) for axis in _AXES)
    products = weights * at["batch"] * rows * columns
    if "weight" in function:
        sums, across = weights * taps, at["kernel_width"]
        planes = sums * at["batch"]
    else:
        across = at[f"{side}_width"]
        sums = at["batch"] * at[f"{side}_channels"] * at[f"{side}_height"] * across
        planes = sums * at[f"{terms}_channels"] // at["groups"]
    lines = weights * at["batch"] * rows * across
    if taps == 1 and "weight" not in function:  # channels are a row
        planes = lines = sums
    several = products > sums  # a single product is not summed
    counts = (sums, several * sums, several * planes, several * lines, products)
    return Counter(dict(zip(("sums", "dots", "planes", "rows", "products"), counts, strict=True)))


def _met(at: Mapping[str, int], axis: str) -> int:
    """Pairs of an output and a tap along an axis that meet the input."""
    outputs, kernel = at[f"out_{axis}"], at[f"kernel_{axis}"]
    extent, stride = at[f"in_{axis}"], at[f"stride_{axis}"]
    padding = at["padding_top" if axis == "height" else "padding_left"]
    if outputs < kernel:
        starts = (output * stride - padding for output in range(outputs))
        return sum(max(0, min(kernel, extent - one) - max(0, -one)) for one in starts)
    before = (padding - tap for tap in range(kernel))
    return sum(
        max(0, min(outputs, -(-(one + extent) // stride)) - max(0, -(-one // stride)))
        for one in before
    )
