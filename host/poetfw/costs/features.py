# SPDX-License-Identifier: Apache-2.0
"""Features of a kernel's running time: how often each of its loops runs.

Every kernel has the work that its operator states, the elements, rows and planes of its operands,
and a fixed cost. For most that is enough. Tiles count their own instructions: a kernel that runs
some has no other features than these, the weights that it checks, and what a sink takes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from poetfw.boards import Board
from poetfw.costs.alone import alone
from poetfw.costs.measurement import Case
from poetfw.costs.taps import group_channels, met_taps
from poetfw.ir import Tensor
from poetfw.kernels import TiledPass
from poetfw.ops import Kernel, kind_of
from poetfw.ops.base import Constants
from poetfw.ops.tile_tables import TileChoice, no_tiles, own_tiles, table_of

Features = Mapping[str, float]

_BURST = 8
"""Elements that are loaded at the same time."""
_WIDE = 32
"""Planes of a multiple of that many elements are normalised by so many."""
_LONGEST, _LARGEST = 1 << 16, 1 << 12
"""Positions along an axis, and places of a window, that are gone through one by one at most."""
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


def case_tiles(board: Board) -> TileChoice:
    """The tiles that a case runs on a board: the best of its pass by itself."""
    tiled = board.firmware is not None and board.firmware.toolchain.runs_tiles
    return own_tiles if tiled else no_tiles


def featured(case: Case, tiles: TileChoice = no_tiles) -> Featured:
    """The features of a case.

    Args:
        case: an op.
        tiles: those that its core runs.

    Raises:
        ModelError: the case is a transfer, or no op.
    """
    op, graph = alone(case)
    kernel = kind_of(op).kernel(op, graph)
    inputs = [graph.by_name[name] for name in op.inputs]
    output = None if op.output is None else graph.by_name[op.output]
    step = _step(kernel)
    names = (kernel.function or case.kind) + step, kernel.source + step
    table = table_of(kernel)
    if table is not None and (tiled := tiles(table)) is not None:
        return Featured(*names, _tiled(tiled, inputs, kernel))
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
    elif kernel.source.endswith("matmul"):
        at = _extents(kernel)
        found["sums"] = at["batch"] * at["rows"] * at["columns"]
        found["runs"] = found["sums"] * -(-at["inner"] // at["run"])
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
    return Featured(*names, found)


def _tiled(tiles: TiledPass, inputs: Sequence[Tensor], kernel: Kernel) -> Counter[str]:
    """Instructions of tiles, and what the C code around them depends on."""
    found: Counter[str] = Counter(fixed=1, tiles=tiles.instructions)
    if tiles.puts:
        found.update({"puts.calls": tiles.calls, "puts.rows": tiles.puts, "puts": tiles.results})
    elif tiles.padded and "weight" not in kernel.function:
        found["checked"] = inputs["forward" in kernel.function].elements
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


def _convolution(kernel: Kernel) -> Counter[str]:
    """Features of a convolution where it runs no tiles.

    Nothing where that would take seconds to count: of planes and windows that only a row has which
    somebody made up.
    """
    at = _extents(kernel)
    planes = (at[f"{side}_{axis}"] for side in ("in", "out") for axis in ("height", "width"))
    windows = (at[f"kernel_{axis}"] + at[f"stride_{axis}"] for axis in ("height", "width"))
    if max(planes) > _LONGEST or math.prod(windows) > _LARGEST:
        return Counter()
    return _plain(at, of_weights="backward_weight" in kernel.function)


def _plain(at: Mapping[str, int], *, of_weights: bool) -> Counter[str]:
    """`conv2d.c` without tiles: results or weights one after the other, and what each sums."""
    inner, outer = group_channels(at, backward=False)
    met_rows, met_columns = met_taps(at)
    weights, samples = at["groups"] * inner * outer, at["batch"]
    products = weights * samples * met_rows * met_columns
    across = at["kernel_width"] if of_weights else at["out_width"]
    return Counter(
        {
            "plain.sums": weights * (at["kernel_height"] * across if of_weights else samples),
            "plain.rows": weights * samples * met_rows * across,
            "plain.products": products,
        }
    )
