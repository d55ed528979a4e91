# SPDX-License-Identifier: Apache-2.0
"""Softmax and cross-entropy in one, the loss of a classifier.

loss = 1/N Σ_n (log Σ_k exp(x[n,k]) - x[n,label[n]]), computed relative to each row's maximum.
A row whose label is not a class adds nothing to the loss and has gradient 0; N counts it still.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from poetfw.ir import Dtype, Graph, Op, Tensor
from poetfw.ops.base import (
    Array,
    Bounds,
    Kernel,
    LossKind,
    OpKind,
    OpWork,
    Shape,
    Tape,
    bytes_of,
    expect_dtype,
    expect_inputs,
    expect_rank,
    expect_shape,
    register,
)
from poetfw.ops.rounding import FUNCTION_ROUNDINGS, SMALLEST_NORMAL, UNIT_ROUNDOFF, gamma


def expect_classified(op: Op, inputs: Sequence[Tensor]) -> None:
    """Check that the inputs are logits f32 [N, K] and labels i32 [N].

    Raises:
        ModelError: They are not.
    """
    expect_inputs(op, inputs, 2)
    logits, labels = inputs
    expect_dtype(op, logits, Dtype.F32)
    expect_rank(op, logits, 2)
    expect_dtype(op, labels, Dtype.I32)
    expect_shape(op, labels, logits.shape[:1])


def _kernel(op: Op, graph: Graph, function: str, *results: str | None) -> Kernel:
    batch, classes = graph.by_name[op.inputs[0]].shape
    return Kernel(
        source="softmax_cross_entropy",
        function=function,
        arguments=(*op.inputs, *results),
        struct="poet_softmax_cross_entropy",
        fields=(("batch", batch), ("classes", classes)),
    )


def exponentials_of(logits: Array) -> tuple[Array, Array, Array]:
    """Each row relative to its maximum; its exponentials; how far float32 may be off, relatively.

    A rounding δ of an exponent x multiplies e^x by e^(xδ), which is within 1 ± 1.01·|x|·u while
    |x| < 104, below which the kernel's exponential is 0.
    """
    shifted = logits - logits.max(axis=1, keepdims=True)
    error = 1.01 * np.abs(shifted) * UNIT_ROUNDOFF + gamma(FUNCTION_ROUNDINGS)
    return shifted, np.exp(shifted), error


def sums_of(exponentials: Array, error: Array) -> tuple[Array, Array]:
    """The sum of each row, [N, 1], and how far float32 may be off, relatively."""
    total = exponentials.sum(axis=1, keepdims=True)
    own = (exponentials * error).sum(axis=1, keepdims=True) / total
    return total, own + (1 + own) * gamma(exponentials.shape[1] - 1) + SMALLEST_NORMAL


def _one_hot(logits: Array, labels: Array) -> Array:
    """[N, K], True at each row's label."""
    hot: Array = np.arange(logits.shape[1]) == labels[:, np.newaxis]
    return hot


@register
class SoftmaxCrossEntropy(LossKind):
    """Inputs logits f32 [N,K], labels i32 [N]; updates loss [1]."""

    name = "softmax_cross_entropy"
    recomputable = False

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> None:
        expect_classified(op, inputs)

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> None:
        logits, labels = inputs
        shifted = logits - logits.max(axis=1, keepdims=True)
        losses = np.log(np.exp(shifted).sum(axis=1, keepdims=True)) - shifted
        updates[0][...] = np.where(_one_hot(logits, labels), losses, 0).sum() / len(labels)

    def error_bounds(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Bounds:
        logits, labels = inputs
        shifted, exponentials, error = exponentials_of(logits)
        total, in_total = sums_of(exponentials, error)
        # of log(sum) - x: the sum's error, the function's, that of x, and the difference's
        log = np.log(total)
        losses = log - shifted
        in_losses = (
            1.01 * in_total
            + gamma(FUNCTION_ROUNDINGS) * log
            + gamma(2) * (log + np.abs(shifted) + losses)
        )
        hot = _one_hot(logits, labels)
        bound = np.where(hot, in_losses + gamma(len(labels) + 1) * losses, 0).sum() / len(labels)
        return (np.full(1, 1.01 * bound + SMALLEST_NORMAL),)

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        return OpWork(macs=3 * inputs[0].elements, bytes_moved=bytes_of(*inputs) + 4)

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        return _kernel(op, graph, "poet_softmax_cross_entropy_forward_f32", *op.updates)

    def start_gradient(self, op: Op, tape: Tape) -> None:
        dlogits = tape.emit("softmax_cross_entropy_backward", f"{op.name}.backward", op.inputs)
        tape.add_gradient(op.inputs[0], dlogits)


@register
class SoftmaxCrossEntropyBackward(OpKind):
    """Inputs logits f32 [N,K], labels i32 [N]; dlogits = (softmax(logits) - onehot(labels)) / N."""

    name = "softmax_cross_entropy_backward"
    in_place = (0,)

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_classified(op, inputs)
        return inputs[0].shape, Dtype.F32

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        logits, labels = inputs
        exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
        softmax = exponentials / exponentials.sum(axis=1, keepdims=True)
        hot = _one_hot(logits, labels)
        return np.where(hot.any(axis=1, keepdims=True), softmax - hot, 0) / len(labels)

    def error_bounds(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Bounds:
        logits, labels = inputs
        _, exponentials, error = exponentials_of(logits)
        total, in_total = sums_of(exponentials, error)
        softmax = exponentials / total
        # the softmax by its factors and a division; then the difference and the division by N
        in_softmax = 1.01 * softmax * (error + in_total + gamma(1)) + SMALLEST_NORMAL
        in_result = in_softmax + gamma(3) * (
            np.abs(softmax - _one_hot(logits, labels)) + in_softmax
        )
        counted = _one_hot(logits, labels).any(axis=1, keepdims=True)
        return (np.where(counted, in_result, 0) / len(labels),)

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        return OpWork(macs=4 * inputs[0].elements, bytes_moved=bytes_of(*inputs, output))

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        return _kernel(op, graph, "poet_softmax_cross_entropy_backward_f32", op.output)
