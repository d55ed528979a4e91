# SPDX-License-Identifier: Apache-2.0
"""Ops of a layer whose weight is streamed: it lies in storage, and ops load it tile by tile.

A streamed op is the op that it wraps, as a loop over slices of the weight. Forward, a slice has
some of the output channels and all input channels; backward, some of the input channels and all
output channels. So every sum is formed within one slice, and results have the bits of the whole op.
Where sums may be continued (`poetfw.ops.continued`), slices can also be of the channels over which
an op sums: its result stays in RAM, and each slice adds its terms.
The gradient of the input and the update of the weight are one op, which reads and writes the weight
and its optimizer state once.

A weight [O, I, ...] is stored as tiles of the same size, each of `tile_outputs` output and
`tile_inputs` input channels. A column of tiles has all output channels of some input channels; a
row has all input channels of some output channels. A layer whose input needs no gradient has
slices of output channels backward, too: its weight is stored as one row [O, I * ...], whose columns
are these slices. A frozen weight is only read, backward for the gradient of the input.

With attribute `ahead`, an op loads the next slice, and stores the one before, while it computes.

Vectors, such as biases and running statistics, are loaded as a whole: attribute `loaded` has their
positions among an op's inputs and updates together.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from poetfw.common.errors import ModelError
from poetfw.ir import Attribute, Dtype, Graph, Op, Tensor
from poetfw.ops.base import (
    KINDS,
    Array,
    Arrays,
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
from poetfw.ops.layouts import ImageLayout, TileLayout, aligned
from poetfw.ops.nests import (
    Builder,
    Loads,
    Nest,
    Pieces,
    TileTraffic,
    WeightSlices,
    calls_of,
    nest_traffic,
    results_of,
)
from poetfw.ops.update import UpdateKind, fused_name

FAMILIES = ("conv2d", "linear")
"""Operators whose weights, of one group, can be streamed."""

LOOKUP = "embedding"
"""Operator whose frozen table can be in storage, of which it loads rows."""

FORWARD = (*FAMILIES, "packed_conv2d", "packed_linear", "pooled_conv2d")
"""Forward operators that can stream frozen weights, of one group."""

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
_OWN = ("tile", "loaded", "ahead")


class StreamedKind(OpKind):
    """Kind of ops that transfer tensors from and to storage, as loops around other ops.

    What an op does is a `Nest`: its traffic, workspace, costs and code are read from it.
    """

    @abstractmethod
    def plain(self, op: Op) -> tuple[Op, ...]:
        """Equivalent ops on tensors in RAM, in order."""

    @abstractmethod
    def loads(self, op: Op, tensors: Mapping[str, Tensor]) -> Loads:
        """Persistent tensors that it loads, given its tensors by name."""

    @abstractmethod
    def pieces(self, op: Op, tensors: Mapping[str, Tensor]) -> Pieces:
        """Pieces in which it runs."""

    def nest(self, op: Op, graph: Graph) -> Nest:
        """Loops over its pieces.

        Raises:
            ModelError: It cannot be cut like this.
        """
        return self.nest_of(op, graph.by_name)

    def inner(self, op: Op, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Tensors between the plain ops, which exist only as pieces."""
        return {}

    def nest_of(self, op: Op, tensors: Mapping[str, Tensor]) -> Nest:
        """Loops over its pieces, given its tensors by name."""
        names = dict.fromkeys((*op.inputs, *results_of(op)))
        return _nest(op, tuple(tensors[name] for name in names))

    def layouts(self, op: Op, graph: Graph) -> dict[str, TileLayout | ImageLayout]:
        """Layout of each persistent tensor and constant that it loads."""
        return self.loads(op, graph.by_name).layouts

    def traffic(self, op: Op, graph: Graph) -> TileTraffic:
        """Storage requests of one execution."""
        return nest_traffic(self.nest(op, graph))

    def slice_ops(self, op: Op, graph: Graph) -> Graph:
        """Ops that it calls, on pieces."""
        return self.nest(op, graph).graph

    def parts(self, op: Op, graph: Graph) -> Parts:
        nest = self.nest(op, graph)
        return Parts(nest.graph, calls_of(nest))

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        return Kernel("", "", (), workspace_bytes=self.nest(op, graph).workspace_bytes)

    def gradient(self, op: Op, tape: Tape, output_gradient: str) -> None:
        raise ModelError(f"op {op.name!r}: tensors are stored after gradients are derived")


@lru_cache(maxsize=4096)
def _nest(op: Op, tensors: tuple[Tensor, ...]) -> Nest:
    kind = KINDS[op.kind]
    assert isinstance(kind, StreamedKind)
    by_name = {tensor.name: tensor for tensor in tensors}
    loads = kind.loads(op, by_name)
    pieces = kind.pieces(op, by_name)
    whole = {**by_name, **kind.inner(op, by_name)}
    return Builder(op, kind.plain(op), loads, whole, pieces).nest()


class WrappingKind(StreamedKind):
    """Streamed form of one operator: the same operands, with attributes of its own."""

    own_attributes: tuple[str, ...]
    """Attributes that the wrapped op does not have."""

    def __init__(self, name: str, kind: OpKind) -> None:
        """Wrap an operator."""
        self.name = name
        self.recomputable = kind.recomputable  # type: ignore[misc]
        self.applies = kind.applies  # type: ignore[misc]
        self.carries = kind.carries  # type: ignore[misc]
        self.wrapped_kind = kind

    def wrapped(self, op: Op) -> Op:
        """The op that it wraps."""
        return replace(op, kind=self.wrapped_kind.name, attributes=without(op, self.own_attributes))

    def plain(self, op: Op) -> tuple[Op, ...]:
        """Equivalent ops on tensors in RAM, in order."""
        return (self.wrapped(op),)

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype] | None:
        return self.wrapped_kind.infer(self.wrapped(op), inputs)

    def never_negative(self, op: Op) -> tuple[str, ...]:
        return self.wrapped_kind.never_negative(self.wrapped(op))

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array | None:
        return self.wrapped_kind.compute(self.wrapped(op), inputs, updates)

    def error_bounds(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Bounds:
        return self.wrapped_kind.error_bounds(self.wrapped(op), inputs, updates)

    def carried(self, op: Op, inputs: Arrays, errors: Arrays, updates: Arrays) -> Bounds:
        return self.wrapped_kind.carried(self.wrapped(op), inputs, errors, updates)

    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int:
        return self.wrapped_kind.roundings(self.wrapped(op), inputs)

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        return self.wrapped_kind.work(self.wrapped(op), inputs, output)


class StreamedForward(WrappingKind):
    """Forward op with a streamed weight, a slice of output channels at a time.

    Inputs, output and attributes are those of the wrapped op, with attribute `tile`, and `loaded`
    if its bias is loaded.
    """

    own_attributes = _OWN

    def __init__(self, kind: OpKind) -> None:
        """Wrap a forward operator."""
        super().__init__(streamed_name(kind.name), kind)

    def loads(self, op: Op, tensors: Mapping[str, Tensor]) -> Loads:
        """The weight, and its bias if that is loaded."""
        name = op.inputs[1]
        layout = _tiling(op, tensors[name].shape)
        by_rows = not by_outputs(op)
        weight = WeightSlices((name,), layout, "o", 0, by_rows=by_rows, ahead=is_ahead(op))
        return Loads(loaded_layouts(op, tensors), weight)

    def pieces(self, op: Op, tensors: Mapping[str, Tensor]) -> Pieces:
        """Slices of output channels; within one, of a batch of images each sample."""
        return _slices(self.loads(op, tensors).weight, tensors[op.inputs[0]])

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype] | None:
        _tiling(op, inputs[1].shape)
        return super().infer(op, inputs)


class StreamedInputGradient(WrappingKind):
    """Gradient of a layer's input, with a frozen weight that is loaded a column of tiles at a time.

    Slices of output channels add to the gradient one after the other. Inputs, output and
    attributes are those of the wrapped op, with attribute `tile`.
    """

    own_attributes = _OWN

    def __init__(self, kind: OpKind) -> None:
        """Wrap an operator with the inputs w and dy."""
        super().__init__(streamed_name(kind.name), kind)

    def loads(self, op: Op, tensors: Mapping[str, Tensor]) -> Loads:
        """The weight."""
        name = op.inputs[0]
        dim, axis = ("o", 0) if by_outputs(op) else ("i", 1)
        layout = _tiling(op, tensors[name].shape)
        return Loads({}, WeightSlices((name,), layout, dim, axis, ahead=is_ahead(op)))

    def pieces(self, op: Op, tensors: Mapping[str, Tensor]) -> Pieces:
        """Columns; within one, of a batch of images each sample."""
        return _slices(self.loads(op, tensors).weight, tensors[op.inputs[1]])

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype] | None:
        _tiling(op, inputs[0].shape)
        return super().infer(op, inputs)


class StreamedBackward(StreamedKind):
    """Gradient of a layer's input, and update of its streamed weight, a column of tiles at a time.

    Inputs are w, x and dy, followed by the pace if the update has one. The output is dx; there is
    none where the layer's input needs no gradient. Slices may be of output channels, each of which
    adds to dx.
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
        attributes = without(op, _OWN)
        apply = replace(
            op, kind=self._fused.name, inputs=(x, dy, *pace), output=None, attributes=attributes
        )
        if op.output is None:
            return (apply,)
        name = f"{op.name}.input"
        back = Op(name, self._input.name, (w, dy), op.output, attributes, backward=True)
        return (back, apply)

    def loads(self, op: Op, tensors: Mapping[str, Tensor]) -> Loads:
        """The weight, and the state that it updates."""
        layout = _tiling(op, tensors[op.inputs[0]].shape)
        dim, axis = ("o", 0) if by_outputs(op) else ("i", 1)
        weight = WeightSlices(op.updates, layout, dim, axis, updated=True, ahead=is_ahead(op))
        return Loads({}, weight)

    def pieces(self, op: Op, tensors: Mapping[str, Tensor]) -> Pieces:
        """Columns; within one, the input's gradient of each sample of a batch of images."""
        return _slices(self.loads(op, tensors).weight, tensors[op.inputs[1]])

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype] | None:
        w, x, dy, *pace = inputs
        *back, apply = self.plain(op)
        self._fused.infer(apply, (x, dy, *pace))
        _tiling(op, w.shape)
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


class StreamedLookup(WrappingKind):
    """Embedding with a frozen table in storage, of which it loads the rows that it looks up.

    Inputs, output and attributes are those of the wrapped op.
    """

    own_attributes = ()

    def __init__(self, kind: OpKind) -> None:
        """Wrap the operator, with the inputs ids and table."""
        super().__init__(streamed_name(kind.name), kind)

    def loads(self, op: Op, tensors: Mapping[str, Tensor]) -> Loads:
        """The table, of tiles of one row."""
        rows, width = tensors[op.inputs[1]].shape
        layout = ImageLayout(rows, 1, width * Dtype.F32.size_bytes, 1, 1)
        return Loads(tables={op.inputs[1]: layout})

    def pieces(self, op: Op, tensors: Mapping[str, Tensor]) -> Pieces:
        """One."""
        return Pieces("", ())


class LoadedOp(WrappingKind):
    """Op that loads vectors as a whole, and stores those again that it updates.

    Inputs, output and updates are those of the wrapped op, with attribute `loaded`.
    """

    own_attributes = _OWN

    def __init__(self, kind: OpKind) -> None:
        """Wrap an operator."""
        super().__init__(loaded_name(kind.name), kind)
        self.in_place = kind.in_place  # type: ignore[misc]

    def loads(self, op: Op, tensors: Mapping[str, Tensor]) -> Loads:
        """The vectors."""
        return Loads(loaded_layouts(op, tensors))

    def pieces(self, op: Op, tensors: Mapping[str, Tensor]) -> Pieces:
        """One."""
        return Pieces("", ())


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
    kinds = [
        *(StreamedForward(KINDS[name]) for name in FORWARD),
        *(StreamedInputGradient(KINDS[f"{family}_backward_input"]) for family in FAMILIES),
        StreamedLookup(KINDS[LOOKUP]),
        *(StreamedBackward(family, update) for family in FAMILIES for update in updates),
    ]
    KINDS.update((kind.name, kind) for kind in kinds)
    fused = (fused_name(f"{f}_backward_weight", kind.name) for f in FAMILIES for kind in updates)
    for name in (*LOADING, *fused, *(kind.name for kind in updates)):
        loaded = LoadedOp(KINDS[name])
        KINDS[loaded.name] = loaded


def streamed_kind(op: Op) -> StreamedKind | None:
    """Kind of an op that transfers tensors from or to storage; None for another op."""
    kind = kind_of(op)
    return kind if isinstance(kind, StreamedKind) else None


def layouts_of(graph: Graph) -> dict[str, TileLayout | ImageLayout]:
    """Layout of each streamed tensor of a graph, by name."""
    found: dict[str, TileLayout | ImageLayout] = {}
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


def is_ahead(op: Op) -> bool:
    """True if an op loads slices of its weight ahead."""
    return bool(op.attributes.get("ahead", 0))


def by_outputs(op: Op) -> bool:
    """True if a weight is stored as slices of output channels."""
    return len(expect_integers(op, "tile", 1)) == 1


def gathered_bytes(weight: WeightSlices, tensor: Tensor) -> int:
    """Bytes of a buffer for the channels of a batch that belong to a slice of a weight."""
    return aligned(tensor.size_bytes // weight.count) if weight.count > 1 < tensor.shape[0] else 0


def loaded_layouts(op: Op, tensors: Mapping[str, Tensor]) -> dict[str, TileLayout]:
    """Layout of each tensor that an op loads as a whole."""
    if "loaded" not in op.attributes:
        return {}
    operands = (*op.inputs, *op.updates)
    positions = expect_integers(op, "loaded", 0)
    if not all(position < len(operands) for position in positions):
        raise ModelError(f"op {op.name!r}: {list(positions)} are not positions of its operands")
    names = (operands[position] for position in positions)
    return {name: TileLayout.whole(tensors[name].shape) for name in names}


def without(op: Op, names: Sequence[str]) -> dict[str, Attribute]:
    """Attributes of an op without some."""
    return {name: value for name, value in op.attributes.items() if name not in names}


def _slices(weight: WeightSlices | None, x: Tensor) -> Pieces:
    """Slices of a weight; within one, of a batch of images each sample.

    Channels of an image are contiguous within a sample. Vectors are gathered.
    """
    assert weight is not None
    if weight.count == 1:
        return Pieces("", ())
    if len(x.shape) == 4 and x.shape[0] > 1:
        return Pieces(f"{weight.dim}n", (weight.channels, 1))
    return Pieces(weight.dim, (weight.channels,))


def _tiling(op: Op, shape: Shape) -> TileLayout:
    tile = expect_integers(op, "tile", 1)
    divided = zip(shape, tile, strict=False)
    if not 1 <= len(tile) <= 2 or any(extent % part for extent, part in divided):
        raise ModelError(
            f"op {op.name!r}: tiles of {'x'.join(map(str, tile))} channels do not divide a weight "
            f"of shape {list(shape)}"
        )
    return TileLayout.of(shape, tile)
