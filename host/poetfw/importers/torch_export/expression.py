# SPDX-License-Identifier: Apache-2.0
"""Expressions of tensors with Python's operators, which append ops; used by rules of losses.

Masks are tensors of 1 and 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poetfw.importers.torch_export.calls import Call, Live, Value
from poetfw.ops import Shape


@dataclass(frozen=True, eq=False)
class Expression:
    """A tensor of the graph under construction.

    Attributes:
        call: call that the expression belongs to.
        tensor: name of the tensor.
    """

    call: Call
    tensor: str

    @property
    def shape(self) -> Shape:
        """Shape of the tensor."""
        return self.call.net.shape(self.tensor)

    def _new(self, tensor: str) -> Expression:
        return Expression(self.call, tensor)

    def apply(self, kind: str, **attributes: float) -> Expression:
        """Append an operator with one input."""
        net = self.call.net
        return self._new(net.builder.op(kind, self.call.name, (self.tensor,), attributes))

    def of(self, other: Expression | float) -> Expression:
        """Convert a number to a constant; an expression is returned as it is."""
        if isinstance(other, Expression):
            return other
        return self.constant(np.full((1,) * len(self.shape), other))

    def constant(self, values: NDArray[Any]) -> Expression:
        """Add a constant."""
        return self._new(self.call.net.constant(f"{self.call.name}.constant", values))

    def __neg__(self) -> Expression:
        return self * -1.0

    def __add__(self, other: Expression | float) -> Expression:
        net, name = self.call.net, self.call.name
        if isinstance(other, Expression):
            return self._new(net.add(name, self.tensor, other.tensor))
        return self._new(net.shift(name, self.tensor, float(other)))

    __radd__ = __add__

    def __sub__(self, other: Expression | float) -> Expression:
        return self + (-other)

    def __rsub__(self, other: float) -> Expression:
        return -self + other

    def __mul__(self, other: Expression | float) -> Expression:
        net, name = self.call.net, self.call.name
        if isinstance(other, Expression):
            return self._new(net.multiply(name, self.tensor, other.tensor))
        return self._new(net.scale(name, self.tensor, float(other)))

    __rmul__ = __mul__

    def __truediv__(self, other: Expression | float) -> Expression:
        return self * (other.apply("reciprocal") if isinstance(other, Expression) else 1 / other)

    def power(self, exponent: float) -> Expression:
        """Append a power with a constant exponent."""
        return self._new(self.call.net.power(self.call.name, self.tensor, exponent))

    def clip(self, low: float | None = None, high: float | None = None) -> Expression:
        """Append a clip to [low, high]."""
        return self._new(self.call.net.clip(self.call.name, self.tensor, low, high))

    def relu(self) -> Expression:
        """Append ReLU."""
        return self.apply("relu")

    def abs(self) -> Expression:
        """Append the absolute value."""
        return self.apply("abs")

    def exp(self) -> Expression:
        """Append the exponential."""
        return self.apply("exp")

    def log(self) -> Expression:
        """Append the natural logarithm."""
        return self.apply("log")

    def square(self) -> Expression:
        """Append the square."""
        return self.apply("square")

    def sqrt(self) -> Expression:
        """Append the square root."""
        return self.apply("sqrt")

    def softplus(self) -> Expression:
        """Append softplus, log(1 + exp(x))."""
        return self.apply("softplus")

    def detach(self) -> Expression:
        """Append a copy through which no gradient passes."""
        return self._new(self.call.net.detach(self.call.name, self.tensor))

    def positive(self) -> Expression:
        """Append the mask of elements above 0."""
        return self.apply("positive")

    def is_zero(self) -> Expression:
        """Append the mask of elements equal to 0."""
        return self.apply("zero")

    def equals(self, other: Expression | float) -> Expression:
        """Append the mask of elements equal to `other`."""
        return (self - other).is_zero()

    def above(self, other: Expression | float) -> Expression:
        """Append the mask of elements above `other`."""
        return (self - other).positive()

    def choose(self, a: Expression, b: Expression) -> Expression:
        """Select by this mask: a where it is 1, b where it is 0, with broadcasting."""
        net, name = self.call.net, self.call.name
        shape = np.broadcast_shapes(self.shape, a.shape, b.shape)
        inputs = tuple(net.stretch(name, each.tensor, shape) for each in (self, a, b))
        return self._new(net.builder.op("where", name, inputs))

    def keep(self, x: Expression, *, out: bool = False) -> Expression:
        """Keep x where this mask is 1 and set 0 elsewhere; with `out`, keep x where it is 0."""
        net, name = self.call.net, self.call.name
        shape = np.broadcast_shapes(self.shape, x.shape)
        inputs = tuple(net.stretch(name, each.tensor, shape) for each in (self, x))
        return self._new(net.builder.op("mask_out" if out else "mask", name, inputs))

    def mean(self, axes: Sequence[int] | None = None, *, keep: bool = False) -> Expression:
        """Append the mean over axes; None for all."""
        return self._reduced(axes, keep, total=False)

    def sum(self, axes: Sequence[int] | None = None, *, keep: bool = False) -> Expression:
        """Append the sum over axes; None for all."""
        return self._reduced(axes, keep, total=True)

    def _reduced(self, axes: Sequence[int] | None, keep: bool, *, total: bool) -> Expression:
        rank = len(self.shape)
        own = range(rank) if axes is None else [axis % rank for axis in axes]
        net, name = self.call.net, self.call.name
        left = [extent for axis, extent in enumerate(self.shape) if axis not in own]
        y = self._new(net.mean(name, self.tensor, tuple(own), keep=True, total=total))
        return y if keep else y.reshape(left)

    def reduced(self, reduction: int) -> Expression:
        """Append PyTorch's reduction of a loss: 0 for none, 1 for the mean, 2 for the sum."""
        return self if reduction == 0 else self.mean() if reduction == 1 else self.sum()

    def largest(self, axis: int) -> Expression:
        """Append the maximum along an axis, which is kept."""
        net, name = self.call.net, self.call.name
        axes = [axis % len(self.shape)]
        return self._new(net.largest(name, self.tensor, axes, keep=True))

    def largest_over(self, axes: Sequence[int], *, keep: bool = False) -> Expression:
        """Append the maximum over axes; equal elements share the gradient."""
        net, name, rank = self.call.net, self.call.name, len(self.shape)
        own = [axis % rank for axis in axes]
        return self._new(net.largest(name, self.tensor, own, keep=keep, shared=True))

    def log_sum_exp(self, axes: Sequence[int], *, keep: bool = True) -> Expression:
        """Append log-sum-exp over axes, computed relative to the maximum to avoid overflow."""
        net, name, rank = self.call.net, self.call.name, len(self.shape)
        own = [axis % rank for axis in axes]
        top = self._new(net.largest(name, self.tensor, own, keep=True)).detach()
        total = (self - top).exp().sum(own, keep=True).log() + top
        left = [extent for axis, extent in enumerate(self.shape) if axis not in own]
        return total if keep else total.reshape(left)

    def log_softmax(self, axis: int) -> Expression:
        """Append log-softmax along an axis."""
        return self - self.log_sum_exp([axis])

    def reshape(self, shape: Sequence[int]) -> Expression:
        """Append a reshape."""
        return self._new(self.call.net.reshape(self.call.name, self.tensor, tuple(shape) or (1,)))

    def permute(self, axes: Sequence[int]) -> Expression:
        """Permute axes: axis i of the result is axis `axes[i]`."""
        return self._new(self.call.net.permute(self.call.name, self.tensor, axes))

    def last(self, axis: int) -> Expression:
        """Move an axis to the end."""
        rank = len(self.shape)
        return self.permute([*(i for i in range(rank) if i != axis % rank), axis % rank])

    def one_hot(self, classes: int) -> Expression:
        """Append one-hot encoding of class numbers along a new last axis."""
        ids = self.reshape((*self.shape, 1))
        numbers = self.constant(np.arange(classes).reshape((1,) * len(self.shape) + (classes,)))
        shape = (*self.shape, classes)
        net, name = self.call.net, self.call.name
        return self._new(net.stretch(name, ids.tensor, shape)).equals(numbers)

    def length(self, order: float, axes: Sequence[int], *, keep: bool = False) -> Expression:
        """Append the norm of a given order over axes."""
        if order == 1:
            return self.abs().sum(axes, keep=keep)
        if order == math.inf:
            return self.abs().largest_over(axes, keep=keep)
        if order == 2:
            return self.square().sum(axes, keep=keep).apply("norm_root")
        return self.abs().power(order).sum(axes, keep=keep).power(1 / order)


def expression(call: Call, value: Value) -> Expression:
    """Expression of a value of the program."""
    return Expression(call, call.tensor(value))


def maximum(a: Expression, b: Expression) -> Expression:
    """Append the elementwise maximum; equal elements share the gradient, as in PyTorch."""
    first, second = a.above(b), b.above(a)
    return (first.choose(a, b) + second.choose(b, a)) * 0.5


def minimum(a: Expression, b: Expression) -> Expression:
    """Append the elementwise minimum; equal elements share the gradient, as in PyTorch."""
    first, second = a.above(b), b.above(a)
    return (first.choose(b, a) + second.choose(a, b)) * 0.5


def class_numbers(call: Call, value: Value) -> str:
    """Class numbers as an i32 tensor."""
    if isinstance(value, Live):
        return call.net.integers(call.name, value.tensor)
    return call.net.integers(call.name, call.tensor(value))


def rows_of(x: Expression) -> Expression:
    """View of [N, K, ...] as rows [N · ..., K], where K are the classes."""
    shape = x.shape
    return x.last(1).reshape((math.prod(shape) // shape[1], shape[1]))
