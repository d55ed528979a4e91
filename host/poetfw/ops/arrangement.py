# SPDX-License-Identifier: Apache-2.0
"""Ops that only move elements: strided gathers and scatters, slices, concatenation, transposes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from poetfw.common.errors import ModelError
from poetfw.ir import Attribute, Dtype, Graph, Op, Tensor
from poetfw.ops.base import (
    LARGEST_INTEGER,
    LETTERS,
    Array,
    Axes,
    Kernel,
    OpKind,
    OpWork,
    Shape,
    Tape,
    bytes_of,
    expect_floats,
    expect_integer,
    expect_integers,
    register,
)
from poetfw.ops.walk import Walk, contiguous_steps


class _Moves(OpKind):
    """Base of the ops that only move elements."""

    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int:
        return 0

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        return OpWork(macs=0, bytes_moved=bytes_of(*inputs, output))


@register
class Transpose(_Moves):
    """The elements of x in another order: seen as shape `view`, the axes permuted by `axes`.

    Attributes `view`, `axes` and `shape`. Axis i of the result is axis `axes[i]` of the view, and
    the result gets shape `shape`. Viewing costs nothing here, where a reshape before and after
    would each take a copy of its own. A plain transpose has x's own shape as its view.
    """

    name = "transpose"
    carries = (0,)

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_floats(op, inputs, 1)
        (x,) = inputs
        view, shape = expect_integers(op, "view", 1), expect_integers(op, "shape", 1)
        axes = expect_integers(op, "axes", 0)
        if sorted(axes) != list(range(len(view))):
            raise ModelError(
                f"op {op.name!r} ({op.kind}) needs attribute 'axes' to name each of its "
                f"{len(view)} axes once, not {axes!r}"
            )
        for name, extents in (("view", view), ("shape", shape)):
            if math.prod(extents) != x.elements:
                raise ModelError(
                    f"op {op.name!r} ({op.kind}) cannot see {x.name!r} of shape {list(x.shape)} as "
                    f"its {name} {list(extents)}: that has another number of elements"
                )
        return shape, Dtype.F32

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        (x,) = inputs
        seen = x.reshape(op.integers("view")).transpose(op.integers("axes"))
        return np.ascontiguousarray(seen).reshape(op.integers("shape"))

    def axes(self, op: Op, inputs: Sequence[Tensor], results: Sequence[Tensor]) -> Axes | None:
        view, axes = op.integers("view"), op.integers("axes")
        into = _axes_alone(inputs[0].shape, view)
        back = _axes_alone(results[0].shape, tuple(view[axis] for axis in axes))
        x, y = ["."] * len(into), ["."] * len(back)
        for position, axis in enumerate(axes):
            if axis in into and position in back:
                x[into.index(axis)] = y[back.index(position)] = LETTERS[axis]
        return Axes(("".join(x),), ("".join(y),))

    def piece_attributes(self, op: Op, whole: Tensor, piece: Tensor) -> dict[str, Attribute]:
        view, axes = list(op.integers("view")), op.integers("axes")
        seen = _axes_alone(whole.shape, tuple(view[axis] for axis in axes))
        for position, extent in zip(seen, piece.shape, strict=True):
            if position is not None:
                view[axes[position]] = extent
        return {"view": tuple(view), "shape": piece.shape}

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        view, axes = op.integers("view"), op.integers("axes")
        steps = contiguous_steps(view)
        walk = Walk(tuple(view[axis] for axis in axes), tuple(steps[axis] for axis in axes))
        return walk.kernel(op, "take", math.prod(view))

    def gradient(self, op: Op, tape: Tape, output_gradient: str) -> None:
        (x,) = op.inputs
        if tape.needs_gradient(x):
            view, axes = op.integers("view"), op.integers("axes")
            attributes = {
                "view": tuple(view[axis] for axis in axes),
                "axes": tuple(axes.index(axis) for axis in range(len(axes))),
                "shape": tape.shape(x),
            }
            dx = tape.emit("transpose", f"{op.name}.backward", (output_gradient,), attributes)
            tape.add_gradient(x, dx)


def _axes_alone(shape: Shape, view: Shape) -> list[int | None]:
    """For each axis of a shape, the same axis of a view of it.

    None for an axis of extent 1, and for one that several axes of the view make up, or make up.
    """
    found: list[int | None] = []
    ends = {}
    behind = 1
    for axis in reversed(range(len(view))):
        if view[axis] > 1:
            ends[behind, view[axis]] = axis
        behind *= view[axis]
    behind = 1
    for extent in reversed(shape):
        found.append(ends.get((behind, extent)) if extent > 1 else None)
        behind *= extent
    return found[::-1]


def _walk(op: Op, extents: Shape, elements: int) -> Walk:
    """The walk that attributes `steps` and `offset` describe through a tensor of so many elements.

    Raises:
        ModelError: It leaves the tensor.
    """
    given, offset = op.attributes.get("steps"), expect_integer(op, "offset", 0)
    if not isinstance(given, tuple) or len(given) != len(extents):
        raise ModelError(f"op {op.name!r} ({op.kind}) needs a step for each axis, not {given!r}")
    steps = op.integers("steps")
    ends = [(extent - 1) * step for extent, step in zip(extents, steps, strict=True)]
    first = offset + sum(min(end, 0) for end in ends)
    last = offset + sum(max(end, 0) for end in ends)
    if first < 0 or last >= elements or max(map(abs, steps), default=0) > LARGEST_INTEGER:
        raise ModelError(
            f"op {op.name!r} ({op.kind}) goes from {first} to {last} in a tensor of {elements} "
            "elements"
        )
    return Walk(extents, steps, offset)


class _Strided(_Moves):
    """A move along steps, whose gradient is the opposite move.

    Attributes:
        adjoint: the operator of that.
    """

    adjoint: ClassVar[str]

    def gradient(self, op: Op, tape: Tape, output_gradient: str) -> None:
        (x,) = op.inputs
        if tape.needs_gradient(x):
            attributes = {**op.attributes, "shape": tape.shape(x)}
            dx = tape.emit(self.adjoint, f"{op.name}.backward", (output_gradient,), attributes)
            tape.add_gradient(x, dx)


@register
class TakeStrided(_Strided):
    """Input x; y of shape `shape`: at position i, the element offset + Σ i·steps of x.

    Attributes `shape`, `steps` and `offset`. Elements may be taken often (steps of 0), or not at
    all.
    """

    name, adjoint = "take_strided", "put_strided"

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_floats(op, inputs, 1)
        shape = expect_integers(op, "shape", 1)
        _walk(op, shape, inputs[0].elements)
        return shape, Dtype.F32

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        (x,) = inputs
        shape = op.integers("shape")
        return x.reshape(-1)[_walk(op, shape, x.size).indices()].reshape(shape)

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        elements = graph.by_name[op.inputs[0]].elements
        return _walk(op, op.integers("shape"), elements).kernel(op, "take", elements)


@register
class PutStrided(_Strided):
    """Input x; y of shape `shape`: x's element i is added to the element offset + Σ i·steps of y.

    Attributes `shape`, `steps` and `offset`. The adjoint of `take_strided`; what gets no element
    is 0.
    """

    name, adjoint = "put_strided", "take_strided"

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_floats(op, inputs, 1)
        shape = expect_integers(op, "shape", 1)
        _walk(op, inputs[0].shape, math.prod(shape))
        return shape, Dtype.F32

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        (x,) = inputs
        shape = op.integers("shape")
        y = np.zeros(math.prod(shape), x.dtype)
        np.add.at(y, _walk(op, x.shape, y.size).indices(), x.reshape(-1))
        return y.reshape(shape)

    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int:
        return _walk(op, inputs[0], math.prod(op.integers("shape"))).additions

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        elements = math.prod(op.integers("shape"))
        return _walk(op, graph.by_name[op.inputs[0]].shape, elements).kernel(op, "put", elements)


@register
class Concat(_Moves):
    """Inputs a, b, which differ along attribute `axis` only; y is a and then b along it."""

    name = "concat"

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_floats(op, inputs, 2)
        a, b = (tensor.shape for tensor in inputs)
        axis = expect_integer(op, "axis", 0, len(a) - 1)
        rest = [(*shape[:axis], *shape[axis + 1 :]) for shape in (a, b)]
        if len(a) != len(b) or rest[0] != rest[1]:
            raise ModelError(
                f"op {op.name!r} ({op.kind}) cannot put {list(b)} behind {list(a)} on axis {axis}"
            )
        return (*a[:axis], a[axis] + b[axis], *a[axis + 1 :]), Dtype.F32

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        return np.concatenate(inputs, axis=op.integer("axis"))

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        a, b = (graph.by_name[name].shape for name in op.inputs)
        axis = op.integer("axis")
        return Kernel(
            source="slice",
            function="poet_concat_f32",
            arguments=(*op.inputs, op.output),
            struct="poet_concat",
            fields=(
                ("outer", math.prod(a[:axis])),
                ("a_row", math.prod(a[axis:])),
                ("b_row", math.prod(b[axis:])),
            ),
            loops=((math.prod(a[:axis]),),),
        )

    def gradient(self, op: Op, tape: Tape, output_gradient: str) -> None:
        axis, start = op.integer("axis"), 0
        for name, side in zip(op.inputs, "ab", strict=True):
            length = tape.shape(name)[axis]
            if tape.needs_gradient(name):
                attributes = {"axis": axis, "start": start, "length": length}
                label = f"{op.name}.backward_{side}"
                part = tape.emit("slice", label, (output_gradient,), attributes)
                tape.add_gradient(name, part)
            start += length


def _slice_kernel(op: Op, function: str, whole: Shape, start: int, length: int) -> Kernel:
    """Call that copies between a tensor and a slice of it along one axis."""
    axis = op.integer("axis")
    return Kernel(
        source="slice",
        function=function,
        arguments=(*op.inputs, op.output),
        struct="poet_slice",
        fields=(
            ("outer", math.prod(whole[:axis])),
            ("extent", whole[axis]),
            ("inner", math.prod(whole[axis + 1 :])),
            ("start", start),
            ("length", length),
        ),
        loops=((math.prod(whole[:axis]),),),
    )


@register
class Slice(OpKind):
    """Input x; attributes `axis`, `start`, `length`; y = x[start:start + length] along the axis."""

    name = "slice"

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_floats(op, inputs, 1)
        shape = inputs[0].shape
        axis = expect_integer(op, "axis", 0, len(shape) - 1)
        start = expect_integer(op, "start", 0, shape[axis] - 1)
        length = expect_integer(op, "length", 1, shape[axis] - start)
        return (*shape[:axis], length, *shape[axis + 1 :]), Dtype.F32

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        start = op.integer("start")
        rows = range(start, start + op.integer("length"))
        return inputs[0].take(rows, axis=op.integer("axis"))

    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int:
        return 0

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        return OpWork(macs=0, bytes_moved=2 * bytes_of(output))

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        whole = graph.by_name[op.inputs[0]].shape
        return _slice_kernel(op, "poet_slice_f32", whole, op.integer("start"), op.integer("length"))

    def offset_bytes(self, op: Op, x: Tensor) -> int | None:
        axis = op.integer("axis")
        if math.prod(x.shape[:axis]) > 1:
            return None
        return op.integer("start") * math.prod(x.shape[axis + 1 :]) * x.dtype.size_bytes

    def gradient(self, op: Op, tape: Tape, output_gradient: str) -> None:
        (x,) = op.inputs
        if tape.needs_gradient(x):
            axis = op.integer("axis")
            attributes = {
                "axis": axis,
                "start": op.integer("start"),
                "extent": tape.shape(x)[axis],
            }
            dx = tape.emit("slice_backward", f"{op.name}.backward", (output_gradient,), attributes)
            tape.add_gradient(x, dx)


@register
class SliceBackward(OpKind):
    """Input dy; attributes `axis`, `start`, `extent`; dx is dy with zeros around it on the axis.

    The axis becomes `extent` long, and dy lies from `start` on.
    """

    name = "slice_backward"

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_floats(op, inputs, 1)
        shape = inputs[0].shape
        axis = expect_integer(op, "axis", 0, len(shape) - 1)
        start = expect_integer(op, "start", 0)
        extent = expect_integer(op, "extent", start + shape[axis])
        return (*shape[:axis], extent, *shape[axis + 1 :]), Dtype.F32

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        (dy,) = inputs
        axis, start = op.integer("axis"), op.integer("start")
        widths = [(0, 0)] * dy.ndim
        widths[axis] = (start, op.integer("extent") - start - dy.shape[axis])
        return np.pad(dy, widths)

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        assert op.output is not None
        dx, dy = graph.by_name[op.output], graph.by_name[op.inputs[0]]
        length = dy.shape[op.integer("axis")]
        return _slice_kernel(op, "poet_slice_backward_f32", dx.shape, op.integer("start"), length)

    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int:
        return 0

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        return OpWork(macs=0, bytes_moved=bytes_of(*inputs, output))
