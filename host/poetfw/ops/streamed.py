# SPDX-License-Identifier: Apache-2.0
"""Ops of a layer whose weight is streamed: it lies in storage, and ops load it tile by tile.

A streamed op is the op that it wraps, as a loop over slices of the weight. Forward, a slice has
some of the output channels and all input channels; backward, some of the input channels and all
output channels. So every sum is formed within one slice, and results have the bits of the whole op.
The gradient of the input and the update of the weight are one op, which reads and writes the weight
and its optimizer state once.

A weight [O, I, ...] is stored as tiles of the same size, each of `tile_outputs` output and
`tile_inputs` input channels. A column of tiles has all output channels of some input channels; a
row has all input channels of some output channels. A layer whose input needs no gradient has
slices of output channels backward, too: its weight is stored as one row [O, I * ...], whose columns
are these slices.

Vectors, such as biases and running statistics, are loaded as a whole: attribute `loaded` has their
positions among an op's inputs and updates together.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from poetfw.common.errors import ModelError
from poetfw.common.transfer import BLOCK_BYTES, page_bytes
from poetfw.ir import Attribute, Dtype, Graph, Op, Role, Tensor
from poetfw.ops.base import (
    KINDS,
    Array,
    Bounds,
    Kernel,
    OpKind,
    OpWork,
    Parts,
    Shape,
    Tape,
    expect_integers,
    kind_of,
)
from poetfw.ops.update import UpdateKind, fused_name

FAMILIES = ("conv2d", "linear")
"""Operators whose weights, of one group, can be streamed."""

LOADING = (
    *FAMILIES,
    *(f"{family}_backward_input" for family in FAMILIES),
    "add_broadcast",
    "batch_norm",
    "batch_norm_backward_input",
    "batch_norm_normalize",
    "batch_norm_update_running",
    "layer_norm",
    "layer_norm_backward_input",
    "layer_norm_normalize",
)
"""Operators that may load vectors; updates may, too, with gradients of a family's weights."""

_PREFIX = "streamed_"
_ALIGNMENT = 8
_CRC_BYTES = 4


@dataclass(frozen=True, slots=True)
class TileLayout:
    """Layout of a streamed tensor [outputs, inputs, ...] in storage.

    Tiles are stored by column, in a column by row; the elements of a tile are [output channel,
    input channel, position]. A column begins with a block; the tensor has one trailer, at the end
    of its last block.

    Attributes:
        outputs: number of output channels.
        inputs: number of input channels.
        positions: elements per pair of channels.
        tile_outputs: output channels of a tile, a divisor of `outputs`.
        tile_inputs: input channels of a tile, a divisor of `inputs`.
    """

    outputs: int
    inputs: int
    positions: int
    tile_outputs: int
    tile_inputs: int

    @staticmethod
    def of(shape: Shape, tile: tuple[int, ...]) -> TileLayout:
        """Layout of a weight of this shape.

        Args:
            shape: shape of the weight.
            tile: output and input channels of a tile; of slices of output channels, their number.
        """
        if len(tile) == 1:
            return TileLayout(1, shape[0], math.prod(shape[1:]), 1, *tile)
        return TileLayout(shape[0], shape[1], math.prod(shape[2:]), *tile)

    @staticmethod
    def whole(shape: Shape) -> TileLayout:
        """Layout of a tensor that is one tile."""
        return TileLayout(1, 1, math.prod(shape), 1, 1)

    @property
    def rows(self) -> int:
        """Number of tiles in a column."""
        return self.outputs // self.tile_outputs

    @property
    def columns(self) -> int:
        """Number of tiles in a row."""
        return self.inputs // self.tile_inputs

    @property
    def tiles(self) -> int:
        """Number of tiles."""
        return self.rows * self.columns

    @property
    def run_bytes(self) -> int:
        """Bytes of a tile's input channels for one output channel, which are contiguous."""
        return self.tile_inputs * self.positions * Dtype.F32.size_bytes

    @property
    def tile_bytes(self) -> int:
        """Payload of a tile in bytes."""
        return self.tile_outputs * self.run_bytes

    @property
    def column_request_bytes(self) -> tuple[int, ...]:
        """Bytes of each column in storage, which one request transfers: whole blocks."""
        last = page_bytes(self.column_bytes, BLOCK_BYTES)
        return (_blocks_bytes(self.column_bytes),) * (self.columns - 1) + (last,)

    @property
    def tile_request_bytes(self) -> tuple[int, ...]:
        """Bytes of the blocks that each tile lies in, which one request transfers."""
        return _tile_requests(self)

    @property
    def stored_bytes(self) -> int:
        """Bytes of all columns in storage."""
        return sum(self.column_request_bytes)

    @property
    def column_bytes(self) -> int:
        """Payload of a column in bytes."""
        return self.rows * self.tile_bytes

    @property
    def row_bytes(self) -> int:
        """Payload of a row in bytes."""
        return self.columns * self.tile_bytes

    def split(self, values: Array) -> Array:
        """Elements of each tile, in the order of storage: [tile, element]."""
        cut = values.reshape(
            self.rows, self.tile_outputs, self.columns, self.tile_inputs, self.positions
        )
        return np.ascontiguousarray(cut.transpose(2, 0, 1, 3, 4)).reshape(self.tiles, -1)

    def join(self, tiles: Array) -> Array:
        """Elements of the tensor in its own order, from the elements of each tile."""
        cut = tiles.reshape(
            self.columns, self.rows, self.tile_outputs, self.tile_inputs, self.positions
        )
        return np.ascontiguousarray(cut.transpose(1, 2, 0, 3, 4)).reshape(-1)


@lru_cache(maxsize=512)
def _tile_requests(layout: TileLayout) -> tuple[int, ...]:
    begins = [row * layout.tile_bytes for row in range(layout.rows)]
    sizes = tuple(_blocks_bytes(at % BLOCK_BYTES + layout.tile_bytes) for at in begins)
    last = layout.column_request_bytes[-1] - begins[-1] // BLOCK_BYTES * BLOCK_BYTES
    return sizes * (layout.columns - 1) + (*sizes[:-1], last)


@dataclass(frozen=True, slots=True)
class TileTraffic:
    """Storage requests of one execution of a streamed op.

    Attributes:
        reads: bytes of each request that reads.
        writes: bytes of each request that writes.
    """

    reads: tuple[int, ...]
    writes: tuple[int, ...] = ()


class StreamedKind(OpKind):
    """Kind of ops that transfer tensors from and to storage, as loops around other ops."""

    @abstractmethod
    def plain(self, op: Op) -> tuple[Op, ...]:
        """Equivalent ops on tensors in RAM, in order."""

    @abstractmethod
    def layouts(self, op: Op, graph: Graph) -> dict[str, TileLayout]:
        """Layout of each persistent tensor that it loads."""

    @abstractmethod
    def traffic(self, op: Op, graph: Graph) -> TileTraffic:
        """Storage requests of one execution."""

    def tile_bytes(self, op: Op, graph: Graph) -> int:
        """Smallest workspace in bytes for what it loads, in whatever pieces its kernels run."""
        return 0

    @abstractmethod
    def slice_ops(self, op: Op, graph: Graph) -> Graph:
        """Ops that it runs, on slices of tensors."""


class StreamedForward(StreamedKind):
    """Forward op with a streamed weight, a slice of output channels at a time.

    Inputs, output and attributes are those of the wrapped op, with attribute `tile`, and `loaded`
    if its bias is loaded.
    """

    def __init__(self, kind: OpKind) -> None:
        """Wrap a forward operator."""
        self.name = _PREFIX + kind.name
        self._kind = kind

    def plain(self, op: Op) -> tuple[Op, ...]:
        """Equivalent ops on a weight in RAM, in order."""
        return (replace(op, kind=self._kind.name, attributes=_plain_attributes(op)),)

    def _plain(self, op: Op) -> Op:
        (plain,) = self.plain(op)
        return plain

    def tiling(self, op: Op, graph: Graph) -> TileLayout:
        """Layout of the weight."""
        return _tiling(op, graph.by_name[op.inputs[1]].shape)

    def layouts(self, op: Op, graph: Graph) -> dict[str, TileLayout]:
        """Layout of each tensor that it loads: the weight, and its bias if that is loaded."""
        return {op.inputs[1]: self.tiling(op, graph), **loaded_layouts(op, graph)}

    def traffic(self, op: Op, graph: Graph) -> TileTraffic:
        """Storage requests of one execution."""
        tiling, loaded = self.tiling(op, graph), loaded_layouts(op, graph).values()
        requests = tiling.column_request_bytes if by_outputs(op) else tiling.tile_request_bytes
        return TileTraffic((*(layout.stored_bytes for layout in loaded), *requests))

    def slices(self, op: Op, graph: Graph) -> tuple[int, int]:
        """Number of slices, and output channels of each."""
        tiling = self.tiling(op, graph)
        if by_outputs(op):
            return tiling.columns, tiling.tile_inputs
        return tiling.rows, tiling.tile_outputs

    def buffers(self, op: Op, graph: Graph) -> tuple[int, int]:
        """Workspace in bytes: of loaded vectors, and of a slice of the weight."""
        return loaded_bytes(op, graph), forward_bytes(self.tiling(op, graph), by_outputs(op))

    def tile_bytes(self, op: Op, graph: Graph) -> int:
        return sum(self.buffers(op, graph))

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype] | None:
        inferred = self._kind.infer(self._plain(op), inputs)
        _tiling(op, inputs[1].shape)
        return inferred

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array | None:
        return self._kind.compute(self._plain(op), inputs, updates)

    def error_bounds(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Bounds:
        return self._kind.error_bounds(self._plain(op), inputs, updates)

    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int:
        return self._kind.roundings(self._plain(op), inputs)

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        return self._kind.work(self._plain(op), inputs, output)

    def slice_ops(self, op: Op, graph: Graph) -> Graph:
        """Ops that run once per slice, on tensors with the names of whole ones."""
        slices, channels = self.slices(op, graph)
        plain, tensors = self._plain(op), graph.by_name
        x, w, *biases = (tensors[name] for name in op.inputs)
        y = tensors[op.output or ""]
        samples = 1 if by_sample(slices, x) else x.shape[0]
        return Graph(
            op.name,
            (
                replace(x, shape=(samples, *x.shape[1:]), base=None, offset_bytes=0),
                replace(w, shape=(channels, *w.shape[1:])),
                *(replace(bias, shape=(channels,)) for bias in biases),
                replace(y, shape=(samples, channels, *y.shape[2:])),
            ),
            (plain,),
            y.name,
        )

    def parts(self, op: Op, graph: Graph) -> Parts:
        slices, _ = self.slices(op, graph)
        x = graph.by_name[op.inputs[0]]
        samples = x.shape[0] if by_sample(slices, x) else 1
        return Parts(self.slice_ops(op, graph), {op.name: slices * samples})

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        own_bytes = _workspace_of(self.slice_ops(op, graph))
        size = sum(self.buffers(op, graph)) + own_bytes
        return Kernel("", "poet_stream_row", (), workspace_bytes=size)

    def gradient(self, op: Op, tape: Tape, output_gradient: str) -> None:
        raise ModelError(f"op {op.name!r}: weights are streamed after gradients are derived")


class StreamedBackward(StreamedKind):
    """Gradient of a layer's input, and update of its streamed weight, a column of tiles at a time.

    Inputs are w, x and dy, followed by the pace if the update has one. The output is dx; there is
    none where the layer's input needs no gradient, and then slices may be of output channels.
    Updated tensors are those of the update; attributes are those of both wrapped ops, with `tile`.
    """

    recomputable = False
    applies = True

    def __init__(self, family: str, update: UpdateKind) -> None:
        """Combine the gradients of a family with an optimizer."""
        self.name = streamed_backward_name(family, update.name)
        self._input = KINDS[f"{family}_backward_input"]
        self._fused = KINDS[fused_name(f"{family}_backward_weight", update.name)]

    def plain(self, op: Op) -> tuple[Op, ...]:
        """Equivalent ops on a weight in RAM, in order."""
        w, x, dy, *pace = op.inputs
        attributes = _plain_attributes(op)
        apply = replace(
            op, kind=self._fused.name, inputs=(x, dy, *pace), output=None, attributes=attributes
        )
        if op.output is None:
            return (apply,)
        name = f"{op.name}.input"
        back = Op(name, self._input.name, (w, dy), op.output, attributes, backward=True)
        return (back, apply)

    def tiling(self, op: Op, graph: Graph) -> TileLayout:
        """Layout of the weight."""
        return _tiling(op, graph.by_name[op.inputs[0]].shape)

    def layouts(self, op: Op, graph: Graph) -> dict[str, TileLayout]:
        """Layout of each tensor that it loads: the weight, and the state that it updates."""
        return dict.fromkeys(op.updates, self.tiling(op, graph))

    def sliced(self, op: Op) -> str:
        """Name of the input whose channels are sliced, and gathered from a batch: x, or dy."""
        return op.inputs[2 if by_outputs(op) else 1]

    def traffic(self, op: Op, graph: Graph) -> TileTraffic:
        """Storage requests of one execution."""
        tiling = self.tiling(op, graph)
        columns = tiling.column_request_bytes * len(op.updates)
        return TileTraffic(columns, columns)

    def tile_bytes(self, op: Op, graph: Graph) -> int:
        return len(op.updates) * self.tiling(op, graph).column_bytes

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype] | None:
        w, x, dy, *pace = inputs
        *back, apply = self.plain(op)
        self._fused.infer(apply, (x, dy, *pace))
        _tiling(op, w.shape)
        if back and by_outputs(op):
            raise ModelError(f"op {op.name!r}: a gradient of the input needs all output channels")
        return self._input.infer(back[0], (w, dy)) if back else None

    def never_negative(self, op: Op) -> tuple[str, ...]:
        return self._fused.never_negative(self.plain(op)[-1])

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array | None:
        w, x, dy, *pace = inputs
        *back, apply = self.plain(op)
        dx = self._input.compute(back[0], (w, dy), ()) if back else None
        self._fused.compute(apply, (x, dy, *pace), updates)
        return dx

    def error_bounds(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Bounds:
        w, x, dy, *pace = inputs
        *back, apply = self.plain(op)
        of_input = self._input.error_bounds(back[0], (w, dy), ()) if back else ()
        return (*of_input, *self._fused.error_bounds(apply, (x, dy, *pace), updates))

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        w, x, dy, *pace = inputs
        *back, apply = self.plain(op)
        work = self._fused.work(apply, (x, dy, *pace), None)
        if back:
            of_input = self._input.work(back[0], (w, dy), output)
            macs = work.macs + of_input.macs
            work = OpWork(macs, work.bytes_moved + of_input.bytes_moved)
        return work

    def slice_ops(self, op: Op, graph: Graph) -> Graph:
        """Ops that run once per slice, on tensors with the names of whole ones."""
        tiling = self.tiling(op, graph)
        tensors = graph.by_name
        w, x, dy, *pace = (tensors[name] for name in op.inputs)
        channels = tiling.tile_inputs

        def cut(tensor: Tensor, axis: int = 1) -> Tensor:
            shape = (*tensor.shape[:axis], channels, *tensor.shape[axis + 1 :])
            return replace(tensor, shape=shape, base=None, offset_bytes=0)

        of_weight = 0 if by_outputs(op) else 1
        kept = {t.name: t for t in (x, dy, *pace)}
        kept |= {self.sliced(op): cut(tensors[self.sliced(op)])}
        kept |= {name: cut(tensors[name], of_weight) for name in op.updates}
        *back, apply = self.plain(op)
        if "weight_shape" in op.attributes:
            apply = _with_shape(apply, "weight_shape", cut(w, of_weight).shape)
        ops = [apply]
        if back:
            samples = 1 if by_sample(tiling.columns, x) else x.shape[0]
            dx = replace(cut(tensors[op.output or ""]))
            dx = replace(dx, shape=(samples, *dx.shape[1:]))
            one = f"{dy.name}.sample"
            kept[one] = Tensor(one, (samples, *dy.shape[1:]), role=Role.GRADIENT)
            kept[dx.name] = dx
            first = replace(back[0], inputs=(w.name, one))
            if "input_shape" in op.attributes:
                first = _with_shape(first, "input_shape", dx.shape)
            ops.insert(0, first)
        flat = (replace(t, base=None, offset_bytes=0) for t in kept.values())
        return Graph(op.name, tuple(flat), tuple(ops), ops[0].output or w.name)

    def parts(self, op: Op, graph: Graph) -> Parts:
        tiling = self.tiling(op, graph)
        x = graph.by_name[op.inputs[1]]
        samples = x.shape[0] if by_sample(tiling.columns, x) else 1
        *back, apply = self.plain(op)
        times = {each.name: tiling.columns * samples for each in back}
        return Parts(self.slice_ops(op, graph), {**times, apply.name: tiling.columns})

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        own_bytes = _workspace_of(self.slice_ops(op, graph))
        sliced = graph.by_name[self.sliced(op)]
        buffers = backward_bytes(self.tiling(op, graph), len(op.updates), sliced)
        return Kernel("", "poet_stream_column", (), workspace_bytes=sum(buffers) + own_bytes)


class LoadedOp(StreamedKind):
    """Op that loads vectors as a whole, and stores those again that it updates.

    Inputs, output and updates are those of the wrapped op, with attribute `loaded`.
    """

    def __init__(self, kind: OpKind) -> None:
        """Wrap an operator."""
        self.name = loaded_name(kind.name)
        self.recomputable = kind.recomputable  # type: ignore[misc]
        self.in_place = kind.in_place  # type: ignore[misc]
        self.applies = kind.applies  # type: ignore[misc]
        self._kind = kind

    def plain(self, op: Op) -> tuple[Op, ...]:
        """Equivalent op on a tensor in RAM."""
        return (replace(op, kind=self._kind.name, attributes=_plain_attributes(op)),)

    def _plain(self, op: Op) -> Op:
        (plain,) = self.plain(op)
        return plain

    def layouts(self, op: Op, graph: Graph) -> dict[str, TileLayout]:
        """Layout of each tensor that it loads: one tile."""
        return loaded_layouts(op, graph)

    def traffic(self, op: Op, graph: Graph) -> TileTraffic:
        """Storage requests of one execution."""
        sizes = {name: layout.stored_bytes for name, layout in self.layouts(op, graph).items()}
        written = (size for name, size in sizes.items() if name in op.updates)
        return TileTraffic(tuple(sizes.values()), tuple(written))

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype] | None:
        return self._kind.infer(self._plain(op), inputs)

    def never_negative(self, op: Op) -> tuple[str, ...]:
        return self._kind.never_negative(self._plain(op))

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array | None:
        return self._kind.compute(self._plain(op), inputs, updates)

    def error_bounds(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Bounds:
        return self._kind.error_bounds(self._plain(op), inputs, updates)

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        return self._kind.work(self._plain(op), inputs, output)

    def slice_ops(self, op: Op, graph: Graph) -> Graph:
        """The op itself, on the same tensors."""
        names = dict.fromkeys((*op.inputs, *op.updates, *([op.output] if op.output else ())))
        tensors = (replace(graph.by_name[name], base=None, offset_bytes=0) for name in names)
        output = op.output or loaded_tensors(op)[0]
        return Graph(op.name, tuple(tensors), (self._plain(op),), output)

    def parts(self, op: Op, graph: Graph) -> Parts:
        return Parts(self.slice_ops(op, graph))

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        size = loaded_bytes(op, graph) + _workspace_of(self.slice_ops(op, graph))
        return Kernel("", "poet_stream_column", (), workspace_bytes=size)


def loaded_name(kind: str) -> str:
    """Name of the form of an operator that loads a tensor."""
    return f"loaded_{kind}"


def streamed_name(kind: str) -> str:
    """Name of the streamed form of a forward operator."""
    return _PREFIX + kind


def streamed_backward_name(family: str, update: str) -> str:
    """Name of the streamed operator that updates weights of a family by an optimizer."""
    return f"{_PREFIX}{family}_backward_{update}"


def register_streamed() -> None:
    """Register the streamed operators of all families, with every optimizer."""
    updates = [kind for kind in KINDS.values() if isinstance(kind, UpdateKind)]
    for family in FAMILIES:
        for kind in (
            StreamedForward(KINDS[family]),
            *(StreamedBackward(family, update) for update in updates),
        ):
            KINDS[kind.name] = kind
    fused = (fused_name(f"{f}_backward_weight", kind.name) for f in FAMILIES for kind in updates)
    for name in (*LOADING, *fused, *(kind.name for kind in updates)):
        loaded = LoadedOp(KINDS[name])
        KINDS[loaded.name] = loaded


def streamed_kind(op: Op) -> StreamedKind | None:
    """Kind of an op that transfers tensors from or to storage; None for another op."""
    kind = kind_of(op)
    return kind if isinstance(kind, StreamedKind) else None


def tilings_of(graph: Graph) -> dict[str, TileLayout]:
    """Layout of each streamed tensor of a graph, by name."""
    found: dict[str, TileLayout] = {}
    for op in graph.ops:
        kind = streamed_kind(op)
        if kind is not None:
            found |= kind.layouts(op, graph)
    return found


def run_ops(graph: Graph) -> Iterator[tuple[Op, Graph]]:
    """Ops whose kernels a step calls, with their graphs: of a streamed op, those of a slice."""
    for op in graph.ops:
        kind = streamed_kind(op)
        if kind is None:
            yield op, graph
            continue
        each = kind.slice_ops(op, graph)
        yield from ((part, each) for part in each.ops)


def by_sample(slices: int, x: Tensor) -> bool:
    """True if kernels run per sample: the slice of a batch is contiguous within samples only."""
    return slices > 1 and x.shape[0] > 1


def by_outputs(op: Op) -> bool:
    """True if a weight is stored as slices of output channels."""
    return len(expect_integers(op, "tile", 1)) == 1


def loaded_tensors(op: Op) -> tuple[str, ...]:
    """Names of the tensors that an op loads as a whole."""
    if "loaded" not in op.attributes:
        return ()
    operands = (*op.inputs, *op.updates)
    positions = expect_integers(op, "loaded", 0)
    if not all(position < len(operands) for position in positions):
        raise ModelError(f"op {op.name!r}: {list(positions)} are not positions of its operands")
    return tuple(operands[position] for position in positions)


def loaded_layouts(op: Op, graph: Graph) -> dict[str, TileLayout]:
    """Layout of each tensor that an op loads as a whole."""
    return {name: TileLayout.whole(graph.by_name[name].shape) for name in loaded_tensors(op)}


def loaded_bytes(op: Op, graph: Graph) -> int:
    """Workspace in bytes for the tensors that an op loads as a whole, in their order."""
    return sum(layout.stored_bytes for layout in loaded_layouts(op, graph).values())


@lru_cache(maxsize=4096)
def forward_bytes(tiling: TileLayout, by_outputs: bool) -> int:
    """Workspace for a slice of a weight in a forward op, in bytes.

    It is a row, a checksum of each column, and a tile as stored; or a slice of output channels.
    """
    if by_outputs:
        return max(tiling.column_request_bytes)
    tile_bytes = max(tiling.tile_request_bytes)
    if tiling.columns == 1:
        return tile_bytes
    return aligned(tiling.row_bytes) + aligned(_CRC_BYTES * tiling.columns) + tile_bytes


def backward_bytes(tiling: TileLayout, tensors: int, x: Tensor) -> tuple[int, int]:
    """Workspace of a backward op in bytes: columns of all tensors, and the gathered input."""
    gathered = x.size_bytes // tiling.columns if by_sample(tiling.columns, x) else 0
    behind = max(tiling.column_request_bytes) - tiling.column_bytes
    return aligned(tensors * tiling.column_bytes + behind), aligned(gathered)


def _blocks_bytes(size_bytes: int) -> int:
    return -(-size_bytes // BLOCK_BYTES) * BLOCK_BYTES


def aligned(size_bytes: int) -> int:
    """Size rounded up to the alignment of buffers in a workspace, in bytes."""
    return -(-size_bytes // _ALIGNMENT) * _ALIGNMENT


def _tiling(op: Op, shape: Shape) -> TileLayout:
    tile = expect_integers(op, "tile", 1)
    divided = zip(shape, tile, strict=False)
    if not 1 <= len(tile) <= 2 or any(extent % part for extent, part in divided):
        raise ModelError(
            f"op {op.name!r}: tiles of {'x'.join(map(str, tile))} channels do not divide a weight "
            f"of shape {list(shape)}"
        )
    return TileLayout.of(shape, tile)


def _plain_attributes(op: Op) -> dict[str, Attribute]:
    own = ("tile", "loaded")
    return {name: value for name, value in op.attributes.items() if name not in own}


def _with_shape(op: Op, name: str, shape: Shape) -> Op:
    return replace(op, attributes={**op.attributes, name: shape})


def _workspace_of(graph: Graph) -> int:
    return max(kind_of(op).workspace_bytes(op, graph) for op in graph.ops)
