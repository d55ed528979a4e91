# SPDX-License-Identifier: Apache-2.0
"""Losses that are the mean of a function of each prediction and its target.

L1, Huber's with delta 1, and the binary cross-entropy of logits, each a metric in evaluation, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

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
    expect_floats,
    expect_shape,
    register,
)
from poetfw.ops.rounding import SMALLEST_NORMAL, gamma

Formula = Callable[[Array, Array], Array]


@dataclass(frozen=True)
class MeanLoss:
    """A function of a prediction p and its target t.

    Attributes:
        value: of p and t; never below 0.
        slope: its derivative with respect to p.
        error: how far float32 may lie from the value, in units of 2^-24.
        slope_error: the same for the slope.
        branches: True if the kernel of the value goes another way by what p is.
    """

    value: Formula
    slope: Formula
    error: Formula
    slope_error: Formula
    branches: bool = False


def _huber(p: Array, t: Array) -> Array:
    error = np.abs(p - t)
    value: Array = np.where(error <= 1, error * error / 2, error - p.dtype.type(0.5))
    return value


def _rest(p: Array) -> Array:
    """log(1 + e^-|p|)."""
    return np.log1p(np.exp(-np.abs(p)))


def _logistic(p: Array) -> Array:
    small = np.exp(-np.abs(p))  # which cannot overflow
    y: Array = np.where(p < 0, small, 1) / (1 + small)
    return y


MEAN_LOSSES: Mapping[str, MeanLoss] = MappingProxyType(
    {
        "l1": MeanLoss(
            lambda p, t: np.abs(p - t),
            lambda p, t: np.sign(p - t),
            lambda p, t: np.abs(p - t),
            lambda p, t: np.zeros_like(p),
        ),
        "huber": MeanLoss(
            _huber,
            lambda p, t: np.clip(p - t, -1, 1),
            lambda p, t: 4 * _huber(p, t),
            lambda p, t: np.minimum(np.abs(p - t), 1),
        ),
        "binary_cross_entropy": MeanLoss(
            lambda p, t: np.maximum(p, 0) - p * t + _rest(p),
            lambda p, t: _logistic(p) - t,
            lambda p, t: 3 * (np.maximum(p, 0) + np.abs(p * t)) + 18 * _rest(p),
            lambda p, t: 7 * _logistic(p) + np.abs(t),
            branches=True,
        ),
    }
)
"""Every one, by the name of its operator."""


class _OfBoth(OpKind):
    """Shared by both passes: inputs prediction, target of one shape."""

    loss_name: ClassVar[str]
    function: ClassVar[str]

    @property
    def loss_of(self) -> MeanLoss:
        """The function."""
        return MEAN_LOSSES[self.loss_name]

    def _kernel(self, op: Op, graph: Graph, *results: str | None) -> Kernel:
        prediction = graph.by_name[op.inputs[0]]
        batch = prediction.shape[0]
        return Kernel(
            source="mean_losses",
            function=self.function,
            arguments=(*op.inputs, *results),
            struct="poet_mean_loss",
            fields=(("batch", batch), ("features", prediction.elements // batch)),
        )


class _Forward(_OfBoth, LossKind):
    """Updates loss [1]: the mean of the function over all elements."""

    recomputable = False

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> None:
        expect_floats(op, inputs, 2)
        expect_shape(op, inputs[1], inputs[0].shape)

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> None:
        updates[0][...] = self.loss_of.value(*inputs).mean()

    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int:
        batch, *features = inputs[0]  # summed by rows first; the number, and the division
        return (math.prod(features) - 1) + (batch - 1) + 2

    def error_bounds(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Bounds:
        own = gamma(1) * self.loss_of.error(*inputs).mean()
        summed = gamma(self.roundings(op, [value.shape for value in inputs]))
        total = self.loss_of.value(*inputs).mean() + own
        return (np.full(1, own + summed * total + SMALLEST_NORMAL),)

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        return OpWork(macs=2 * inputs[0].elements, bytes_moved=bytes_of(*inputs) + 4)

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        return self._kernel(op, graph, *op.updates)

    def start_gradient(self, op: Op, tape: Tape) -> None:
        gradient = tape.emit(f"{op.kind}_backward", f"{op.name}.backward", op.inputs)
        tape.add_gradient(op.inputs[0], gradient)


class _Backward(_OfBoth):
    """The slope of each element, divided by how many there are."""

    in_place = (0, 1)

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_floats(op, inputs, 2)
        expect_shape(op, inputs[1], inputs[0].shape)
        return inputs[0].shape, Dtype.F32

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        slope = self.loss_of.slope(*inputs)
        gradient: Array = slope * slope.dtype.type(1 / slope.size)
        return gradient

    def error_bounds(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Bounds:
        slope, error = self.loss_of.slope(*inputs), gamma(1) * self.loss_of.slope_error(*inputs)
        bound = (error + gamma(3) * (np.abs(slope) + error)) / slope.size
        return (bound + SMALLEST_NORMAL,)

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        return OpWork(macs=2 * inputs[0].elements, bytes_moved=bytes_of(*inputs, output))

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        return self._kernel(op, graph, op.output)


for _name, _loss in MEAN_LOSSES.items():
    for _base, _suffix, _pass in ((_Forward, "", "forward"), (_Backward, "_backward", "backward")):
        register(
            type(
                f"{_name}{_suffix}",
                (_base,),
                {
                    "name": f"{_name}{_suffix}",
                    "loss_name": _name,
                    "branches": _loss.branches and _base is _Forward,
                    "function": f"poet_{_name}_{_pass}_f32",
                },
            )
        )
