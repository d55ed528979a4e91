# SPDX-License-Identifier: Apache-2.0
"""Looking up rows of a table: y[..., :] = table[ids[...], :].

An id outside the table gives a row of zeros and adds to no gradient. Nor does the id `padding`,
where that attribute is set: its row's gradient is 0.

The gradient of the table is as large as the table, and all but a few of its rows are 0. A training
step therefore applies it without storing it where the table is looked up once: a row whose id does
not occur has gradient 0, but its weight decays and its momentum moves it all the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from poetfw.ir import Dtype, Graph, Op, Tensor
from poetfw.ops.base import (
    Array,
    Axes,
    Bounds,
    Kernel,
    OpKind,
    OpWork,
    Shape,
    Tape,
    bytes_of,
    expect_dtype,
    expect_inputs,
    expect_integer,
    expect_rank,
    expect_shape,
    register,
)
from poetfw.ops.rounding import gamma


def _expect_lookup(op: Op, inputs: Sequence[Tensor]) -> None:
    """Check that the inputs are ids i32 [...] and the gradient of the looked-up rows [..., H].

    Raises:
        ModelError: They are not.
    """
    expect_inputs(op, inputs, 2)
    ids, dy = inputs
    expect_dtype(op, ids, Dtype.I32)
    expect_dtype(op, dy, Dtype.F32)
    expect_shape(op, dy, (*ids.shape, *dy.shape[-1:]))


def _table_gradient(op: Op, ids: Array, dy: Array) -> Array:
    """[rows, H]: each row is the sum of dy where its id stands, in order; the others are 0."""
    dtable = np.zeros((op.integer("rows"), dy.shape[-1]), dy.dtype)
    known = _known(ids, len(dtable)) & (ids != _padding(op))
    np.add.at(dtable, ids[known], dy[known])
    return dtable


def _padding(op: Op) -> int:
    """The id that takes no gradient; -1 for none."""
    return op.integer("padding") if "padding" in op.attributes else -1


def _known(ids: Array, length: int) -> Array:
    """True if each id is a row of a table of this length."""
    known: Array = (ids >= 0) & (ids < length)
    return known


def _kernel(op: Op, graph: Graph, function: str, rows: int, width: int) -> Kernel:
    ids = graph.by_name[op.inputs[0]].elements
    return Kernel(
        source="embedding",
        function=f"poet_embedding_{function}_f32",
        arguments=(*op.inputs, op.output),
        struct="poet_embedding",
        fields=(("ids", ids), ("rows", rows), ("width", width), ("padding", _padding(op))),
        loops=((ids,), (width,)) if function == "forward" else ((rows,), (width,), (ids,)),
    )


def _gradient_bound(op: Op, ids: Array, dy: Array) -> Array:
    """Error bound of the kernel's gradient: all positions may have the same id."""
    return gamma(max(ids.size - 1, 0)) * _table_gradient(op, ids, np.abs(dy))


@register
class Embedding(OpKind):
    """Inputs ids i32 [...], table f32 [V, H]; y [..., H]; attribute `padding`, if there is one."""

    name = "embedding"

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_inputs(op, inputs, 2)
        ids, table = inputs
        expect_dtype(op, ids, Dtype.I32)
        expect_dtype(op, table, Dtype.F32)
        expect_rank(op, table, 2)
        if "padding" in op.attributes:
            expect_integer(op, "padding", 0)
        return (*ids.shape, table.shape[1]), Dtype.F32

    def axes(self, op: Op, inputs: Sequence[Tensor], results: Sequence[Tensor]) -> Axes | None:
        ids = "snt"[-len(inputs[0].shape) :]
        return Axes((ids, ".."), (f"{ids}.",)) if len(inputs[0].shape) <= 3 else None

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        ids, table = inputs
        known = _known(ids, len(table))
        return np.where(known[..., np.newaxis], table[np.where(known, ids, 0)], 0)

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        return OpWork(macs=0, bytes_moved=bytes_of(inputs[0], output, output))

    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int:
        return 0

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        return _kernel(op, graph, "forward", *graph.by_name[op.inputs[1]].shape)

    def gradient(self, op: Op, tape: Tape, output_gradient: str) -> None:
        ids, table = op.inputs
        if tape.needs_gradient(table):
            dtable = tape.emit(
                "embedding_backward",
                f"{op.name}.backward",
                (ids, output_gradient),
                {**op.attributes, "rows": tape.shape(table)[0]},
            )
            tape.add_gradient(table, dtable)


@register
class EmbeddingBackward(OpKind):
    """Inputs ids i32 [...], dy [..., H]; attributes `rows`, `padding`; dtable [rows, H]."""

    name = "embedding_backward"
    streams = True

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        _expect_lookup(op, inputs)
        return (expect_integer(op, "rows", 1), inputs[1].shape[-1]), Dtype.F32

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        return _table_gradient(op, *inputs)

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        ids, dy = inputs
        return OpWork(macs=dy.elements, bytes_moved=bytes_of(ids, dy, dy, dy, output))

    def error_bounds(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Bounds:
        return (_gradient_bound(op, *inputs),)

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        width = graph.by_name[op.inputs[1]].shape[-1]
        return _kernel(op, graph, "backward", op.integer("rows"), width)
