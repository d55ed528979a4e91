# SPDX-License-Identifier: Apache-2.0
"""The fully connected layer, y[n,o] = b[o] + Σ_f x[n,f] · w[o,f], and its gradients."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace

from poetfw.ir import Dtype, Graph, Op, Tensor
from poetfw.kernels import Product
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
    expect_rank,
    expect_shape,
    register,
)
from poetfw.ops.matmul import matmul_kernel

RESULT_ROW = "result_row"
"""Attribute of a slice of a layer: elements from a row of the result to the next one."""

_RUN = 32
"""Products that the forward pass adds up before it adds up their sums."""


class _Linear(OpKind):
    """Shared by the passes, each of which is a product of matrices."""

    @abstractmethod
    def product(self, batch: int, features: int, outputs: int) -> Product:
        """Extents of the product."""

    letters: tuple[str, ...]
    """Dimensions of the operands, the result's last."""

    @abstractmethod
    def operands(self, op: Op) -> tuple[str | None, ...]:
        """Left and right matrix, and the bias of a pass that has one or None."""

    def axes(self, op: Op, inputs: Sequence[Tensor], results: Sequence[Tensor]) -> Axes | None:
        bias = ("o",) if len(inputs) > 2 else ()
        return Axes((*self.letters[:2], *bias), self.letters[2:])

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        batch, features, outputs = self.extents([tensor.shape for tensor in inputs])
        return OpWork(macs=batch * features * outputs, bytes_moved=bytes_of(*inputs, output))

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        extents = self.extents([graph.by_name[name].shape for name in op.inputs])
        product = self.product(*extents)
        if RESULT_ROW in op.attributes:
            product = replace(product, result=(op.integer(RESULT_ROW), 1))
        return matmul_kernel(product, (*self.operands(op), op.output))

    def extents(self, shapes: Sequence[Shape]) -> tuple[int, int, int]:
        """Samples, input features and output features, from the shapes of the inputs."""
        (batch, features), (outputs, _) = shapes[0], shapes[1]
        return batch, features, outputs


@register
class Linear(_Linear):
    """Inputs x [N,F], w [O,F] and optionally b [O]; y [N,O]."""

    name = "linear"
    summed = "i"
    summed_unit = _RUN
    letters = ("ti", "oi", "to")

    def product(self, batch: int, features: int, outputs: int) -> Product:
        left, right, result = (features, 1), (1, features), (outputs, 1)
        return Product(1, batch, features, outputs, left, right, result, _RUN)

    def operands(self, op: Op) -> tuple[str | None, ...]:
        return (*op.inputs[:2], op.inputs[2] if len(op.inputs) == 3 else None)

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_floats(op, inputs, 2, 3)
        x, w, *biases = inputs
        expect_rank(op, x, 2)
        expect_rank(op, w, 2)
        expect_shape(op, w, (w.shape[0], x.shape[1]))
        for bias in biases:
            expect_shape(op, bias, w.shape[:1])
        return (x.shape[0], w.shape[0]), Dtype.F32

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        x, w, *bias = inputs
        y: Array = x @ w.T
        return y + bias[0] if bias else y

    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int:
        _, features = inputs[0]
        return min(features, _RUN) + -(-features // _RUN) - 1 + len(inputs[2:])

    def training_form(self, op: Op, tape: Tape) -> None:
        super().training_form(op, tape)
        tape.trained_channels(op.inputs[0], op.inputs[1])

    def gradient(self, op: Op, tape: Tape, output_gradient: str) -> None:
        x, w, *biases = op.inputs
        for bias in biases:
            if tape.needs_gradient(bias):
                db = tape.emit(
                    "linear_backward_bias", f"{op.name}.backward_bias", (output_gradient,)
                )
                tape.add_gradient(bias, db)
        if tape.needs_gradient(w):
            seen = tape.trained_channels(x, w)
            dw = tape.emit(
                "linear_backward_weight", f"{op.name}.backward_weight", (seen, output_gradient)
            )
            tape.add_gradient(w, dw)
        if tape.needs_gradient(x):
            dx = tape.emit(
                "linear_backward_input", f"{op.name}.backward_input", (w, output_gradient)
            )
            tape.add_gradient(x, dx)


@register
class LinearBackwardInput(_Linear):
    """Inputs w [O,F], dy [N,O]; dx [N,F] = dy · w."""

    name = "linear_backward_input"
    carries = (1,)
    summed = "o"
    letters = ("oi", "to", "ti")

    def product(self, batch: int, features: int, outputs: int) -> Product:
        rows = (features, 1)
        return Product(1, batch, outputs, features, (outputs, 1), rows, rows)

    def operands(self, op: Op) -> tuple[str | None, ...]:
        return op.inputs[::-1]

    def extents(self, shapes: Sequence[Shape]) -> tuple[int, int, int]:
        (outputs, features), (batch, _) = shapes[0], shapes[1]
        return batch, features, outputs

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_floats(op, inputs, 2)
        w, dy = inputs
        expect_rank(op, w, 2)
        expect_rank(op, dy, 2)
        expect_shape(op, dy, (dy.shape[0], w.shape[0]))
        return (dy.shape[0], w.shape[1]), Dtype.F32

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        w, dy = inputs
        dx: Array = dy @ w
        return dx

    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int:
        outputs, _ = inputs[0]
        return outputs


@register
class LinearBackwardWeight(_Linear):
    """Inputs x [N,F], dy [N,O]; dw [O,F] = dyᵀ · x."""

    name = "linear_backward_weight"
    letters = ("ti", "to", "oi")
    streams = True

    def product(self, batch: int, features: int, outputs: int) -> Product:
        rows = (features, 1)
        return Product(1, outputs, batch, features, (1, outputs), rows, rows)

    def operands(self, op: Op) -> tuple[str | None, ...]:
        return op.inputs[::-1]

    def extents(self, shapes: Sequence[Shape]) -> tuple[int, int, int]:
        (batch, features), (_, outputs) = shapes[0], shapes[1]
        return batch, features, outputs

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_floats(op, inputs, 2)
        x, dy = inputs
        expect_rank(op, x, 2)
        expect_rank(op, dy, 2)
        expect_shape(op, dy, (x.shape[0], dy.shape[1]))
        return (dy.shape[1], x.shape[1]), Dtype.F32

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        x, dy = inputs
        dw: Array = dy.T @ x
        return dw

    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int:
        batch, _ = inputs[0]
        return batch


@register
class LinearBackwardBias(OpKind):
    """Input dy [N,O]; db [O] = Σ dy over samples."""

    name = "linear_backward_bias"
    carries = (0,)

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_floats(op, inputs, 1)
        expect_rank(op, inputs[0], 2)
        return inputs[0].shape[1:], Dtype.F32

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        db: Array = inputs[0].sum(axis=0)
        return db

    def axes(self, op: Op, inputs: Sequence[Tensor], results: Sequence[Tensor]) -> Axes | None:
        return Axes((".o",), ("o",))

    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int:
        batch, _ = inputs[0]
        return batch - 1

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        return OpWork(macs=inputs[0].elements, bytes_moved=bytes_of(*inputs, output))

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        batch, outputs = graph.by_name[op.inputs[0]].shape
        return Kernel(
            source="linear",
            function="poet_linear_backward_bias_f32",
            arguments=(*op.inputs, op.output),
            struct="poet_linear_bias",
            fields=(("batch", batch), ("out_features", outputs)),
        )
