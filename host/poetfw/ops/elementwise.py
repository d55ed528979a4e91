# SPDX-License-Identifier: Apache-2.0
"""Ops that look at each element once: addition and reshaping, and what all such ops share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from poetfw.common.errors import ModelError
from poetfw.ir import Dtype, Graph, Op, Tensor
from poetfw.ops.base import (
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
    expect_integers,
    expect_shape,
    register,
    vector_letters,
)


class Elementwise(OpKind):
    """An op whose inputs and output have one shape and that looks at each element once."""

    inputs_count: ClassVar[int]
    in_place: ClassVar[tuple[int, ...]] = (0, 1)
    source: ClassVar[str]
    """Kernel file; its struct is `poet_<source>` and holds the number of elements."""
    function: ClassVar[str]

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_floats(op, inputs, self.inputs_count)
        for tensor in inputs[1:]:
            expect_shape(op, tensor, inputs[0].shape)
        return inputs[0].shape, inputs[0].dtype

    def axes(self, op: Op, inputs: Sequence[Tensor], results: Sequence[Tensor]) -> Axes | None:
        shapes = {tensor.shape for tensor in (*inputs, *results)}
        if len(shapes) > 1:
            return None
        shape = inputs[0].shape
        letters = vector_letters(shape)
        if len(shape) != 4:  # a tile has some of the features, but all elements of a row
            letters = letters[:-1] + LETTERS[-1]
        return Axes((letters,) * len(inputs), (letters,))

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        return OpWork(macs=inputs[0].elements, bytes_moved=bytes_of(*inputs, output))

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        return Kernel(
            source=self.source,
            function=self.function,
            arguments=(*op.inputs, op.output),
            struct=f"poet_{self.source}",
            fields=(("elements", graph.by_name[op.inputs[0]].elements),),
        )


@register
class Add(Elementwise):
    """Inputs a, b of one shape; y = a + b. Also how gradients are summed where paths join."""

    name = "add"
    carries = (0, 1)
    cancels = False  # one rounding, of the sum itself
    inputs_count = 2
    source = "elementwise"
    function = "poet_add_f32"

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        a, b = inputs
        return a + b

    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int:
        return 1

    def gradient(self, op: Op, tape: Tape, output_gradient: str) -> None:
        for name in op.inputs:
            if tape.needs_gradient(name):
                tape.add_gradient(name, output_gradient)


@register
class Reshape(Elementwise):
    """The same elements in the same order under another shape; attribute `shape`."""

    name = "reshape"
    view = True
    inputs_count = 1
    source = "elementwise"
    function = "poet_copy_f32"

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_floats(op, inputs, 1)
        shape = expect_integers(op, "shape", 1)
        if math.prod(shape) != inputs[0].elements:
            raise ModelError(
                f"op {op.name!r} ({op.kind}) cannot give {inputs[0].name!r} of shape "
                f"{list(inputs[0].shape)} the shape {list(shape)}: that has another number of "
                "elements"
            )
        return shape, inputs[0].dtype

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        return inputs[0].reshape(op.integers("shape"))

    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int:
        return 0

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        return OpWork(macs=0, bytes_moved=bytes_of(*inputs, output))

    def offset_bytes(self, op: Op, x: Tensor) -> int | None:
        return 0

    def gradient(self, op: Op, tape: Tape, output_gradient: str) -> None:
        (x,) = op.inputs
        if tape.needs_gradient(x):
            dx = tape.emit(
                "reshape", f"{op.name}.backward", (output_gradient,), {"shape": tape.shape(x)}
            )
            tape.add_gradient(x, dx)


@register
class Detach(Reshape):
    """The same elements, through which no gradient passes; attribute `shape`, that of its input."""

    name = "detach"
    stops_gradient = True

    def gradient(self, op: Op, tape: Tape, output_gradient: str) -> None:
        raise AssertionError(f"op {op.name!r} has no gradient to pass on")
