# SPDX-License-Identifier: Apache-2.0
"""Classification losses with class weights, label smoothing and ignored samples.

Cross-entropy of logits and the negative log-likelihood of log-probabilities x[n,k], with weights
w of the classes and smoothed labels:

    loss = Σ_n ((1-s) w[y_n] l[n,y_n] + s/K Σ_k w[k] l[n,k]) / Σ_n w[y_n]

with l = -log softmax(x) or -x, over the samples that count: those whose label y is a class, and not
the one to ignore. Where these weigh nothing, loss and gradient are 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from poetfw.common.errors import ModelError
from poetfw.ir import Attribute, Dtype, Graph, Op, Tensor
from poetfw.ops.base import (
    LARGEST_INTEGER,
    Array,
    Bounds,
    Kernel,
    LossKind,
    OpKind,
    OpWork,
    Shape,
    Tape,
    bytes_of,
    expect_number,
    register,
)
from poetfw.ops.rounding import FUNCTION_ROUNDINGS, SMALLEST_NORMAL, gamma
from poetfw.ops.softmax_cross_entropy import expect_classified, exponentials_of, sums_of

LARGEST_WEIGHT = 1e6
"""Of a class, the smallest being its inverse: float32 adds up the weights of any batch, and what is
lost below its normal numbers stays small when it is divided by a weight."""

NO_CLASS = -1
"""The label of samples that never count."""


@dataclass(frozen=True)
class ClassOptions:
    """Weights of classes and samples in a classifier's loss, as in PyTorch.

    Attributes:
        class_weights: of each class; none for the same of all.
        label_smoothing: the part of a label that is spread over all classes.
        ignore_index: the label of samples that do not count; None without one.
    """

    class_weights: tuple[float, ...] = ()
    label_smoothing: float = 0.0
    ignore_index: int | None = None

    @property
    def chosen(self) -> bool:
        """True if it is anything but the mean over samples."""
        return self != ClassOptions()

    def expect_fitting(self, classes: int) -> None:
        """Check that the weights match the number of classes.

        Raises:
            ModelError: They do not.
        """
        weights = self.class_weights
        if weights and len(weights) != classes:
            raise ModelError(f"there are {len(weights)} class weights for {classes} classes")
        within = (w == 0 or 1 / LARGEST_WEIGHT <= w <= LARGEST_WEIGHT for w in weights)
        if not all(within):
            raise ModelError(
                f"class weights must be 0, or from {1 / LARGEST_WEIGHT:g} to {LARGEST_WEIGHT:g}",
                "divide all of them by their mean: the loss is the same",
            )
        if weights and not any(weights):
            raise ModelError("all class weights are 0: nothing would be trained")
        if not 0 <= self.label_smoothing <= 1:
            raise ModelError(f"label smoothing is {self.label_smoothing:g}, not within [0, 1]")
        if not -LARGEST_INTEGER - 1 <= (self.ignore_index or 0) <= LARGEST_INTEGER:
            raise ModelError(f"the label to ignore is {self.ignore_index}, beyond 32 bits")

    def attributes(self, classes: int) -> dict[str, Attribute]:
        """Attributes of the loss for a number of classes."""
        return {
            "class_weights": tuple(map(float, self.class_weights or (1.0,) * classes)),
            "label_smoothing": float(self.label_smoothing),
            "ignored": NO_CLASS if self.ignore_index is None else self.ignore_index,
        }


ALIKE = ClassOptions()
"""Every class and every sample counts once."""


@dataclass(frozen=True)
class _Shares:
    """Weight of each l[n,k] in the loss: shares [N, K] / whole, with their sums [N, 1]."""

    shares: Array
    sums: Array
    whole: float

    @staticmethod
    def of(op: Op, values: Array, labels: Array) -> _Shares:
        classes = values.shape[1]
        weights = np.array(op.numbers("class_weights"), values.dtype)
        smoothing = op.number("label_smoothing")
        hot = np.arange(classes) == labels[:, np.newaxis]
        hot &= labels[:, np.newaxis] != op.integer("ignored")
        counted = hot.any(axis=1, keepdims=True)
        shares = (1 - smoothing) * weights * hot + smoothing / classes * weights * counted
        shares = shares.astype(values.dtype)
        return _Shares(shares, shares.sum(axis=1, keepdims=True), float((weights * hot).sum()))

    def mean(self, values: Array) -> Array:
        """Values divided by the whole, or 0 where that is."""
        return values / values.dtype.type(self.whole) if self.whole else np.zeros_like(values)


class _OfBoth(OpKind):
    """Shared by both passes of both losses: inputs x f32 [N,K], labels i32 [N]."""

    function: ClassVar[str]

    def expect_fitting(self, op: Op, inputs: Sequence[Tensor]) -> None:
        """Check inputs and attributes.

        Raises:
            ModelError: They do not fit.
        """
        expect_classified(op, inputs)
        expect_number(op, "label_smoothing", 0, 1)
        weights = op.attributes.get("class_weights")
        classes = inputs[0].shape[1]
        if not isinstance(weights, tuple) or len(weights) != classes or min(weights) < 0:
            raise ModelError(
                f"op {op.name!r} ({op.kind}) needs attribute 'class_weights' to be {classes} "
                f"numbers of at least 0, not {weights!r:.100}"
            )

    def _kernel(self, op: Op, graph: Graph, *results: str | None) -> Kernel:
        batch, classes = graph.by_name[op.inputs[0]].shape
        weights, smoothing = op.numbers("class_weights"), op.number("label_smoothing")
        return Kernel(
            source="class_losses",
            function=self.function,
            arguments=(*op.inputs, *results),
            struct="poet_class_loss",
            fields=(
                ("batch", batch),
                ("classes", classes),
                ("ignored", op.integer("ignored")),
                ("hit", 1 - smoothing),
                ("spread", smoothing / classes),
                ("spread_of_all", smoothing / classes * sum(weights)),
                ("weights", weights),
            ),
        )


class _Forward(_OfBoth, LossKind):
    """Updates loss [1]."""

    recomputable = False

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> None:
        self.expect_fitting(op, inputs)

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        return OpWork(macs=4 * inputs[0].elements, bytes_moved=bytes_of(*inputs) + 4)

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        return self._kernel(op, graph, *op.updates)

    def start_gradient(self, op: Op, tape: Tape) -> None:
        name = f"{op.name}.backward"
        gradient = tape.emit(f"{op.kind}_backward", name, op.inputs, op.attributes)
        tape.add_gradient(op.inputs[0], gradient)


class _Backward(_OfBoth):
    """The gradient of x."""

    in_place = (0,)

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        self.expect_fitting(op, inputs)
        return inputs[0].shape, Dtype.F32

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        return OpWork(macs=5 * inputs[0].elements, bytes_moved=bytes_of(*inputs, output))

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        return self._kernel(op, graph, op.output)


def _summing(batch: int, classes: int) -> int:
    """Roundings of the shares, of a sum over classes and samples, of the whole and its division."""
    return classes + 2 * batch + 6


@register
class WeightedCrossEntropy(_Forward):
    """Inputs logits f32 [N,K], labels i32 [N]; updates loss [1]."""

    name = "weighted_cross_entropy"
    function = "poet_weighted_cross_entropy_forward_f32"

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> None:
        shares = _Shares.of(op, *inputs)
        shifted, exponentials, _ = exponentials_of(inputs[0])
        logs = np.log(exponentials.sum(axis=1, keepdims=True))
        total = (shares.sums * logs - (shares.shares * shifted).sum(axis=1, keepdims=True)).sum()
        updates[0][...] = shares.mean(total)

    def error_bounds(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Bounds:
        shares = _Shares.of(op, *inputs)
        shifted, exponentials, error = exponentials_of(inputs[0])
        total, in_total = sums_of(exponentials, error)
        logs = np.log(total)
        in_logs = 1.01 * in_total + gamma(FUNCTION_ROUNDINGS) * logs
        losses = shares.sums * logs + (shares.shares * -shifted).sum(axis=1, keepdims=True)
        bound = (shares.sums * in_logs + gamma(_summing(*inputs[0].shape)) * losses).sum()
        return (np.full(1, 1.01 * shares.mean(bound) + SMALLEST_NORMAL),)


@register
class WeightedCrossEntropyBackward(_Backward):
    """dlogits = (shares' sum · softmax(logits) - shares) / whole."""

    name = "weighted_cross_entropy_backward"
    function = "poet_weighted_cross_entropy_backward_f32"

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        shares = _Shares.of(op, *inputs)
        _, exponentials, _ = exponentials_of(inputs[0])
        softmax = exponentials / exponentials.sum(axis=1, keepdims=True)
        return shares.mean(shares.sums * softmax - shares.shares)

    def error_bounds(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Bounds:
        shares = _Shares.of(op, *inputs)
        _, exponentials, error = exponentials_of(inputs[0])
        total, in_total = sums_of(exponentials, error)
        pulled = shares.sums * exponentials / total
        in_pulled = 1.01 * pulled * (error + in_total + gamma(1))
        batch, classes = inputs[0].shape
        rounded = gamma(_summing(batch, classes)) * (pulled + shares.shares)
        return (shares.mean(1.01 * (in_pulled + rounded)) + SMALLEST_NORMAL,)


@register
class NegativeLogLikelihood(_Forward):
    """Inputs log-probabilities f32 [N,K], labels i32 [N]; updates loss [1]."""

    name = "nll"
    function = "poet_nll_forward_f32"

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> None:
        shares = _Shares.of(op, *inputs)
        read = np.where(shares.shares > 0, inputs[0], 0)  # others may be log 0
        updates[0][...] = -shares.mean((shares.shares * read).sum())

    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int:
        batch, classes = inputs[0]
        return _summing(batch, classes)


@register
class NegativeLogLikelihoodBackward(_Backward):
    """dx = -shares / whole."""

    name = "nll_backward"
    function = "poet_nll_backward_f32"
    cancels = False

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        shares = _Shares.of(op, *inputs)
        return -shares.mean(shares.shares)

    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int:
        batch, classes = inputs[0]
        return _summing(batch, classes)
