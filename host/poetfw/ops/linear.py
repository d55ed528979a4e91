# SPDX-License-Identifier: Apache-2.0
"""The fully connected layer, y[n,o] = b[o] + Σ_f x[n,f] · w[o,f], and its gradients."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from poetfw.ir import Dtype, Graph, Op, Tensor
from poetfw.ops.base import (
    Array,
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

_RUN = 32
"""Products that the forward kernel adds up before it adds up their sums."""


_FEWEST = 12
"""Products from which on blocks are worth what they begin with."""


class _Linear(OpKind):
    """Shared by the passes."""

    function: ClassVar[str]

    @abstractmethod
    def is_small(self, batch: int, features: int, outputs: int) -> bool:
        """True if one product after the other takes less than blocks, as measured."""

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        batch, features, outputs = self.extents([tensor.shape for tensor in inputs])
        return OpWork(macs=batch * features * outputs, bytes_moved=bytes_of(*inputs, output))

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        extents = self.extents([graph.by_name[name].shape for name in op.inputs])
        return self.kernel_of(extents, (*self.inputs_of(op), op.output))

    def kernel_of(self, extents: tuple[int, int, int], arguments: tuple[str | None, ...]) -> Kernel:
        """The kernel for so many samples, input features and output features."""
        batch, features, outputs = extents
        source = "linear_small" if self.is_small(*extents) else "linear"
        return Kernel(
            source=source,
            function=f"poet_{source}_{self.function}_f32",
            arguments=arguments,
            struct="poet_linear",
            fields=(("batch", batch), ("in_features", features), ("out_features", outputs)),
            divided=(
                ("POET_LINEAR_FEATURES", features),
                ("POET_LINEAR_OUTPUTS", outputs),
                *self.summed(batch, outputs),
            ),
        )

    def summed(self, batch: int, outputs: int) -> tuple[tuple[str, int], ...]:
        """Number of products in a sum, where the kernel asks for it."""
        return ()

    def extents(self, shapes: Sequence[Shape]) -> tuple[int, int, int]:
        """Samples, input features and output features, from the shapes of the inputs."""
        (batch, features), (outputs, _) = shapes[0], shapes[1]
        return batch, features, outputs

    def inputs_of(self, op: Op) -> tuple[str | None, ...]:
        """The inputs, with None for an absent one."""
        return op.inputs


@register
class Linear(_Linear):
    """Inputs x [N,F], w [O,F] and optionally b [O]; y [N,O]."""

    name = "linear"
    function = "forward"

    def is_small(self, batch: int, features: int, outputs: int) -> bool:
        return batch < 8 and batch * features * outputs < _FEWEST + 4

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

    def inputs_of(self, op: Op) -> tuple[str | None, ...]:
        return op.inputs if len(op.inputs) == 3 else (*op.inputs, None)

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
    function = "backward_input"

    def is_small(self, batch: int, features: int, outputs: int) -> bool:
        products = batch * features * outputs
        return products < 6 or (outputs > 1 and products < _FEWEST)

    def extents(self, shapes: Sequence[Shape]) -> tuple[int, int, int]:
        (outputs, features), (batch, _) = shapes[0], shapes[1]
        return batch, features, outputs

    def summed(self, batch: int, outputs: int) -> tuple[tuple[str, int], ...]:
        return (("POET_LINEAR_SUMS", outputs),)

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
    function = "backward_weight"
    streams = True

    def is_small(self, batch: int, features: int, outputs: int) -> bool:
        products = batch * features * outputs
        column = features == 1 and products <= 32
        sums = column or products < _FEWEST + (outputs == 1)
        return products < 6 or (batch > 1 and sums)

    def extents(self, shapes: Sequence[Shape]) -> tuple[int, int, int]:
        (batch, features), (_, outputs) = shapes[0], shapes[1]
        return batch, features, outputs

    def summed(self, batch: int, outputs: int) -> tuple[tuple[str, int], ...]:
        return (("POET_LINEAR_SUMS", batch),)

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

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_floats(op, inputs, 1)
        expect_rank(op, inputs[0], 2)
        return inputs[0].shape[1:], Dtype.F32

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        db: Array = inputs[0].sum(axis=0)
        return db

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
