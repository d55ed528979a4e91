# SPDX-License-Identifier: Apache-2.0
"""Adding one tensor to every part of a larger one, and the sum that is its gradient."""

from __future__ import annotations

from collections.abc import Sequence

from poetfw.errors import ModelError
from poetfw.ir import Dtype, Op, Tensor
from poetfw.ops.base import (
    Array,
    GraphOnlyKind,
    Shape,
    Tape,
    Work,
    bytes_of,
    expect_floats,
    expect_integers,
    register,
)


def _expect_broadcast(op: Op, small: Shape, large: Shape) -> None:
    """Check that NumPy's rules stretch one shape to another, whose extents stay as they are.

    Raises:
        ModelError: they do not.
    """
    tail = large[len(large) - len(small) :]
    if len(small) > len(large) or any(
        s not in (1, extent) for s, extent in zip(small, tail, strict=True)
    ):
        raise ModelError(
            f"op {op.name!r} ({op.kind}) cannot stretch shape {list(small)} to {list(large)}"
        )


@register
class AddBroadcast(GraphOnlyKind):
    """Inputs a, b; y = a + b of a's shape, to which b is stretched by NumPy's rules."""

    name = "add_broadcast"

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_floats(op, inputs, 2)
        a, b = inputs
        _expect_broadcast(op, b.shape, a.shape)
        return a.shape, Dtype.F32

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        a, b = inputs
        return a + b

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> Work:
        return Work(macs=inputs[0].elements, bytes_moved=bytes_of(*inputs, output))

    def gradient(self, op: Op, tape: Tape, output_gradient: str) -> None:
        a, b = op.inputs
        if tape.needs_gradient(a):
            tape.add_gradient(a, output_gradient)
        if tape.needs_gradient(b):
            db = output_gradient
            if tape.shape(b) != tape.shape(a):
                attributes = {"shape": tape.shape(b)}
                db = tape.emit("sum_to", f"{op.name}.backward_b", (output_gradient,), attributes)
            tape.add_gradient(b, db)


@register
class SumTo(GraphOnlyKind):
    """Input dy; attribute `shape`; the sums of dy over the axes that stretch `shape` to dy's."""

    name = "sum_to"

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_floats(op, inputs, 1)
        shape = expect_integers(op, "shape", 1)
        _expect_broadcast(op, shape, inputs[0].shape)
        return shape, Dtype.F32

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        (dy,) = inputs
        shape = op.integers("shape")
        leading = dy.ndim - len(shape)
        stretched = (axis + leading for axis, extent in enumerate(shape) if extent == 1)
        total: Array = dy.sum(axis=(*range(leading), *stretched)).reshape(shape)
        return total

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> Work:
        return Work(macs=inputs[0].elements, bytes_moved=bytes_of(*inputs, output))
