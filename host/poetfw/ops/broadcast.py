# SPDX-License-Identifier: Apache-2.0
"""Arithmetic with a tensor that is stretched to another's shape; the sum that is its gradient."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from poetfw.common.errors import ModelError
from poetfw.ir import Attribute, Dtype, Graph, Op, Tensor
from poetfw.ops.base import (
    Array,
    Axes,
    Kernel,
    OpKind,
    OpWork,
    Shape,
    Tape,
    bytes_of,
    expect_floats,
    expect_integers,
    register,
)
from poetfw.ops.walk import Walk


def _expect_broadcast(op: Op, small: Shape, large: Shape) -> None:
    """Check that NumPy's rules stretch one shape to another, whose extents stay as they are.

    Raises:
        ModelError: They do not.
    """
    tail = large[len(large) - len(small) :]
    if len(small) > len(large) or any(
        s not in (1, extent) for s, extent in zip(small, tail, strict=True)
    ):
        raise ModelError(
            f"op {op.name!r} ({op.kind}) cannot stretch shape {list(small)} to {list(large)}"
        )


class _Broadcast(OpKind):
    """Inputs a, b; y of a's shape, to which b is stretched by NumPy's rules."""

    what: ClassVar[str]
    """Verb for the kernel's work, for comments."""
    cancels = False  # one rounding, of the result itself

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_floats(op, inputs, 2)
        a, b = inputs
        _expect_broadcast(op, b.shape, a.shape)
        return a.shape, Dtype.F32

    def axes(self, op: Op, inputs: Sequence[Tensor], results: Sequence[Tensor]) -> Axes | None:
        """All axes, of images but the last; b has those along which it is not stretched."""
        large, small = (tensor.shape for tensor in inputs)
        if len(large) > 4:
            return None
        letters = "abd."[: len(large)]
        own = zip(letters[len(large) - len(small) :], small, large[-len(small) :], strict=True)
        stretched = "".join(each if s == extent else "." for each, s, extent in own)
        return Axes((letters, stretched), (letters,))

    @abstractmethod
    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array: ...

    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int:
        return 1

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        return OpWork(macs=inputs[0].elements, bytes_moved=bytes_of(*inputs, output))

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        a, b = (graph.by_name[name] for name in op.inputs)
        return Walk.stretched(b.shape, a.shape).kernel(op, self.what, b.elements)


def _sum_to(tape: Tape, name: str, gradient: str, like: str) -> str:
    """A gradient summed to the shape of a tensor that was stretched."""
    shape = tape.shape(like)
    if tape.shape(gradient) == shape:
        return gradient
    return tape.emit("sum_to", name, (gradient,), {"shape": shape})


@register
class AddBroadcast(_Broadcast):
    """Inputs a, b; y = a + b of a's shape, to which b is stretched by NumPy's rules."""

    name = "add_broadcast"
    carries = (0, 1)
    in_place = (0,)
    what = "add"

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        a, b = inputs
        return a + b

    def gradient(self, op: Op, tape: Tape, output_gradient: str) -> None:
        a, b = op.inputs
        if tape.needs_gradient(a):
            tape.add_gradient(a, output_gradient)
        if tape.needs_gradient(b):
            tape.add_gradient(b, _sum_to(tape, f"{op.name}.backward_b", output_gradient, b))


@register
class Multiply(_Broadcast):
    """Inputs a, b; y = a · b of a's shape, to which b is stretched by NumPy's rules."""

    name = "multiply"
    in_place = (0, 1)
    what = "multiply"

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        a, b = inputs
        return a * b

    def gradient(self, op: Op, tape: Tape, output_gradient: str) -> None:
        a, b = op.inputs
        if tape.needs_gradient(a):
            da = tape.emit("multiply", f"{op.name}.backward_a", (output_gradient, b))
            tape.add_gradient(a, da)
        if tape.needs_gradient(b):
            name = f"{op.name}.backward_b"
            product = tape.emit("multiply", name, (output_gradient, a))
            tape.add_gradient(b, _sum_to(tape, f"{name}.sum", product, b))


@register
class SumTo(OpKind):
    """Input x; attribute `shape`; the sums of x over the axes that stretch `shape` to x's."""

    name = "sum_to"

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_floats(op, inputs, 1)
        shape = expect_integers(op, "shape", 1)
        _expect_broadcast(op, shape, inputs[0].shape)
        return shape, Dtype.F32

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        (x,) = inputs
        shape = op.integers("shape")
        leading = x.ndim - len(shape)
        stretched = (axis + leading for axis, extent in enumerate(shape) if extent == 1)
        total: Array = x.sum(axis=(*range(leading), *stretched)).reshape(shape)
        return total

    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int:
        return Walk.stretched(op.integers("shape"), inputs[0]).additions

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        return OpWork(macs=inputs[0].elements, bytes_moved=bytes_of(*inputs, output))

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        shape = op.integers("shape")
        assert op.output is not None
        elements = graph.by_name[op.output].elements
        return Walk.stretched(shape, graph.by_name[op.inputs[0]].shape).kernel(op, "put", elements)

    def gradient(self, op: Op, tape: Tape, output_gradient: str) -> None:
        (x,) = op.inputs
        if tape.needs_gradient(x):
            walk = Walk.stretched(op.integers("shape"), tape.shape(x))
            attributes: dict[str, Attribute] = {
                "shape": walk.extents,
                "steps": walk.steps,
                "offset": 0,
            }
            dx = tape.emit("take_strided", f"{op.name}.backward", (output_gradient,), attributes)
            tape.add_gradient(x, dx)
