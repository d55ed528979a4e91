"""Looking up rows of a table: y[..., :] = table[ids[...], :].

An id outside the table gives a row of zeros and adds to no gradient.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from poetfw.ir import Dtype, Op, Tensor
from poetfw.ops.base import (
    Array,
    GraphOnlyKind,
    Shape,
    Tape,
    Work,
    bytes_of,
    expect_dtype,
    expect_inputs,
    expect_integer,
    expect_rank,
    expect_shape,
    register,
)


def _known(ids: Array, length: int) -> Array:
    """Whether each id is a row of a table of this length."""
    known: Array = (ids >= 0) & (ids < length)
    return known


@register
class Embedding(GraphOnlyKind):
    """Inputs ids i32 [...], table f32 [V, H]; y [..., H]."""

    name = "embedding"

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_inputs(op, inputs, 2)
        ids, table = inputs
        expect_dtype(op, ids, Dtype.I32)
        expect_dtype(op, table, Dtype.F32)
        expect_rank(op, table, 2)
        return (*ids.shape, table.shape[1]), Dtype.F32

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        ids, table = inputs
        known = _known(ids, len(table))
        return np.where(known[..., np.newaxis], table[np.where(known, ids, 0)], 0)

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> Work:
        return Work(macs=0, bytes_moved=bytes_of(inputs[0], output, output))

    def gradient(self, op: Op, tape: Tape, output_gradient: str) -> None:
        ids, table = op.inputs
        if tape.needs_gradient(table):
            dtable = tape.emit(
                "embedding_backward",
                f"{op.name}.backward",
                (ids, output_gradient),
                {"rows": tape.shape(table)[0]},
            )
            tape.add_gradient(table, dtable)


@register
class EmbeddingBackward(GraphOnlyKind):
    """Inputs ids i32 [...], dy [..., H]; attribute `rows`; dtable [rows, H].

    Each row is the sum of dy where its id stands, in order; the others are 0.
    """

    name = "embedding_backward"

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_inputs(op, inputs, 2)
        ids, dy = inputs
        expect_dtype(op, ids, Dtype.I32)
        expect_dtype(op, dy, Dtype.F32)
        expect_shape(op, dy, (*ids.shape, *dy.shape[-1:]))
        return (expect_integer(op, "rows", 1), dy.shape[-1]), Dtype.F32

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        ids, dy = inputs
        dtable = np.zeros((op.integer("rows"), dy.shape[-1]), dy.dtype)
        known = _known(ids, len(dtable))
        np.add.at(dtable, ids[known], dy[known])
        return dtable

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> Work:
        ids, dy = inputs
        return Work(macs=dy.elements, bytes_moved=bytes_of(ids, dy, dy, dy, output))
