# SPDX-License-Identifier: Apache-2.0
"""A loss that the network computes itself: the scalar value of an expression.

The backward pass starts with its gradient with respect to itself, the constant 1; the ops before it
have gradient rules of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from poetfw.ir import Dtype, Graph, Op, Tensor
from poetfw.ops.base import (
    KINDS,
    Array,
    Bounds,
    Kernel,
    LossKind,
    OpKind,
    OpWork,
    Shape,
    Tape,
    bytes_of,
    expect_floats,
    expect_shape,
    register,
)
from poetfw.ops.mean_losses import MEAN_LOSSES

OWN_LOSS = "own"
"""The name of a loss that the network calculates itself."""


class _Scalar(OpKind):
    """Of its inputs, one is the scalar [1]."""

    position: ClassVar[int]

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        return OpWork(macs=0, bytes_moved=8)

    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int:
        return 0

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        return Kernel(
            source="elementwise",
            function="poet_copy_f32",
            arguments=(op.inputs[self.position], *(op.updates or (op.output,))),
            struct="poet_elementwise",
            fields=(("elements", 1),),
        )


@register
class ScalarObjective(_Scalar, LossKind):
    """Inputs value [1], and one [1], the constant 1; updates loss [1].

    In a model's graph it marks the scalar, and has an output in place of the loss. Its attribute
    `classes` says how many the model tells apart, or 0: then held-out samples are measured by the
    loss.
    """

    name = "objective"
    recomputable = False
    position = 0

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype] | None:
        expect_floats(op, inputs, 2)
        for tensor in inputs:
            expect_shape(op, tensor, (1,))
        return None if op.updates else ((1,), Dtype.F32)

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array | None:
        if not updates:
            return inputs[0].copy()
        updates[0][...] = inputs[0]
        return None

    def start_gradient(self, op: Op, tape: Tape) -> None:
        value, one = op.inputs
        tape.add_gradient(value, one)


@register
class ObjectiveMetric(_Scalar):
    """Inputs prediction, value [1]; updates metric [1] to the value.

    Reading the prediction keeps its ops in the evaluation step, from which prediction is derived.
    """

    name = "objective_metric"
    recomputable = False
    position = 1

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> None:
        expect_floats(op, inputs, 2)
        expect_shape(op, inputs[1], (1,))

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> None:
        updates[0][...] = inputs[1]


class _Term(OpKind):
    """A built-in loss as a term of an expression, with the loss's inputs and attributes; y [1]."""

    of: ClassVar[str]

    def _seen(self, op: Op) -> tuple[OpKind, Op]:
        """The loss, and the op as one of it."""
        return KINDS[self.of], replace(op, kind=self.of, output=None, updates=(op.output or "",))

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        kind, seen = self._seen(op)
        kind.infer(seen, inputs)
        return (1,), Dtype.F32

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        kind, seen = self._seen(op)
        result = np.zeros(1, inputs[0].dtype)
        kind.compute(seen, inputs, [result])
        return result

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        kind, seen = self._seen(op)
        return replace(kind.work(seen, inputs, None), bytes_moved=bytes_of(*inputs, output))

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        kind, seen = self._seen(op)
        return kind.kernel(seen, graph)

    def error_bounds(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Bounds:
        kind, seen = self._seen(op)
        return kind.error_bounds(seen, inputs, [np.zeros(1, inputs[0].dtype)])

    def gradient(self, op: Op, tape: Tape, output_gradient: str) -> None:
        x = op.inputs[0]
        if tape.needs_gradient(x):
            name = f"{op.name}.backward"
            dx = tape.emit(f"{self.of}_backward", name, op.inputs, op.attributes)
            tape.add_gradient(x, tape.emit("multiply", f"{name}.part", (dx, output_gradient)))


for _name in ("weighted_cross_entropy", "nll", "mse", *MEAN_LOSSES):
    register(type(f"{_name}_term", (_Term,), {"name": f"{_name}_term", "of": _name}))
