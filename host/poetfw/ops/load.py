# SPDX-License-Identifier: Apache-2.0
"""Loading of a batch from storage, with which a training or evaluation step starts.

Both functions belong to the firmware's runtime, not to the kernels, so their `source` is empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from poetfw.ir import Attribute, Dtype, Graph, Op, Tensor
from poetfw.ops.base import (
    Array,
    Axes,
    Kernel,
    OpKind,
    OpWork,
    Shape,
    bytes_of,
    expect_inputs,
    expect_integer,
    expect_integers,
    register,
)

RECORD_BYTES = "record_bytes"
"""Attribute of a load of a piece: bytes that are read for it, to compare the CRC of them all."""


def first_byte(op: Op) -> int:
    """Offset in bytes of the loaded data within a sample."""
    return op.integer("first") if "first" in op.attributes else 0


class _Load(OpKind):
    """No inputs; attribute `shape`. Reads the current batch; repeated reads give the same bytes.

    If samples have several members, attribute `first` is the offset of this member in bytes. A
    piece of an image has one, too, and `RECORD_BYTES`.
    """

    function: ClassVar[str]

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_inputs(op, inputs, 0)
        return expect_integers(op, "shape", 1), self.dtype(op)

    def dtype(self, op: Op) -> Dtype:
        """Element type of the batch."""
        return Dtype.I32 if expect_integer(op, "integer", 0, 1) else Dtype.F32

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        raise AssertionError(f"op {op.name!r}: loads are answered by the executor")

    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int:
        return 0

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        size = bytes_of(output)
        read = op.integer(RECORD_BYTES) if RECORD_BYTES in op.attributes else size
        return OpWork(macs=0, bytes_moved=size, storage_bytes=read)

    def axes(self, op: Op, inputs: Sequence[Tensor], results: Sequence[Tensor]) -> Axes | None:
        (output,) = results
        return Axes((), (".cr.",)) if len(output.shape) == 4 else None

    def piece_attributes(self, op: Op, whole: Tensor, piece: Tensor) -> dict[str, Attribute]:
        return {"shape": piece.shape, "first": first_byte(op), RECORD_BYTES: whole.size_bytes}

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        if "first" not in op.attributes:
            return Kernel(source="", function=self.function, arguments=(op.output,), fallible=True)
        assert op.output is not None
        tensor = graph.by_name[op.output]
        return Kernel(
            source="",
            function=f"{self.function}_member",
            arguments=(op.output, first_byte(op), tensor.size_bytes // tensor.shape[0]),
            fallible=True,
        )


@register
class LoadX(_Load):
    """Batch of features [N, ...]: i32 if attribute `integer` is 1, otherwise f32."""

    name = "load_x"
    function = "poet_data_load_x"

    def dtype(self, op: Op) -> Dtype:
        return super().dtype(op) if "integer" in op.attributes else Dtype.F32


@register
class LoadY(_Load):
    """Batch of targets: i32 classes [N] if attribute `integer` is 1, otherwise f32."""

    name = "load_y"
    function = "poet_data_load_y"
