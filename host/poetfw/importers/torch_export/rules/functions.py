# SPDX-License-Identifier: Apache-2.0
"""Rules of functions and reductions that are composed of arithmetic."""

from __future__ import annotations

import math
import string
from collections.abc import Callable
from functools import partial, reduce

import numpy as np

from poetfw.importers.network import SMALLEST_BASE
from poetfw.importers.refusal import UnsupportedError
from poetfw.importers.torch_export.calls import LARGEST_CONSTANT, Call, Value, axes_of, axis_of
from poetfw.importers.torch_export.expression import Expression, expression, maximum, minimum
from poetfw.importers.torch_export.file import Weight
from poetfw.importers.torch_export.rules.choices import take
from poetfw.importers.torch_export.rules.registry import Ints, Number, aten
from poetfw.importers.torch_export.rules.scans import log_sum


def _largest(x: Expression) -> Expression:
    return x.reshape((math.prod(x.shape),)).largest_over([0], keep=True)


def _times_log(x: Expression, y: Expression) -> Expression:
    """X · log(y), and 0 where x is 0."""
    product = x * y.log()
    return x.is_zero().choose(product.of(0.0), product)


def _of_one(target: str, function: Callable[[Expression], Expression]) -> None:
    @aten(target)
    def rule(call: Call, self: Value) -> str:
        return function(expression(call, self)).tensor


for _target, _function in {
    "log1p.default": lambda x: (x + 1.0).log(),
    "log2.default": lambda x: x.log() * (1 / math.log(2)),
    "log10.default": lambda x: x.log() * (1 / math.log(10)),
    "expm1.default": lambda x: x.exp() - 1.0,
    "exp2.default": lambda x: (x * math.log(2)).exp(),
    "tan.default": lambda x: x.apply("sin") / x.apply("cos"),
    "erfc.default": lambda x: 1.0 - x.apply("erf"),
    "deg2rad.default": lambda x: x * (math.pi / 180),
    "rad2deg.default": lambda x: x * (180 / math.pi),
    "atanh.default": lambda x: ((1.0 + x).log() - (1.0 - x).log()) * 0.5,
    "acosh.default": lambda x: (x + (x.square() - 1.0).sqrt()).log(),
    "special_entr.default": lambda x: -_times_log(x, x),
    "cosh.default": lambda x: (x.exp() + (-x).exp()) * 0.5,
    "sinh.default": lambda x: (x.exp() - (-x).exp()) * 0.5,
    "softsign.default": lambda x: x / (x.abs() + 1.0),
    "tanhshrink.default": lambda x: x - x.apply("tanh"),
    "sign.default": lambda x: x.positive() - (-x).positive(),
    "sgn.default": lambda x: x.positive() - (-x).positive(),
    "logical_not.default": lambda x: 1.0 - x,
    "bitwise_not.default": lambda x: 1.0 - x,
    "mean.default": Expression.mean,
    "sum.default": Expression.sum,
    "max.default": _largest,
    "min.default": lambda x: -_largest(-x),
}.items():
    _of_one(_target, _function)


def _of_two(
    targets: tuple[str, ...], function: Callable[[Expression, Expression], Expression]
) -> None:
    @aten(*targets)
    def rule(call: Call, self: Value, other: Value) -> str:
        return function(expression(call, self), expression(call, other)).tensor


for _targets, _pair in {
    ("logaddexp.default",): log_sum,
    ("xlogy.Tensor",): _times_log,
    ("hypot.default",): lambda a, b: (a.square() + b.square()).sqrt(),
    ("logical_and.default", "bitwise_and.Tensor", "__and__.Tensor"): lambda a, b: a * b,
    ("logical_or.default", "bitwise_or.Tensor", "__or__.Tensor"): lambda a, b: (a + b).positive(),
    ("maximum.default", "max.other", "fmax.default"): maximum,
    ("minimum.default", "min.other", "fmin.default"): minimum,
}.items():
    _of_two(_targets, _pair)


@aten("logit.default")
def _logit(call: Call, self: Value, eps: float | None = None) -> str:
    x = expression(call, self)
    p = x if eps is None else x.clip(eps, 1 - eps)
    return (p.log() - (1.0 - p).log()).tensor


@aten("pow.Scalar")
def _power_of(call: Call, self: Number, exponent: Value) -> str:
    if self <= 0:
        raise UnsupportedError(f"it takes powers of {self:g}")
    return (expression(call, exponent) * math.log(self)).exp().tensor


@aten("pow.Tensor_Tensor")
def _power_by(call: Call, self: Value, exponent: Value) -> str:
    """Power with a tensor exponent; constant whole exponents take bases below 0."""
    x = expression(call, self)
    if isinstance(exponent, Weight) and not exponent.is_parameter:
        known = np.unique(exponent.values.astype(float))
        if len(known) == 1:
            wide = np.broadcast_shapes(x.shape, exponent.values.shape)
            return call.net.stretch(call.name, x.power(float(known[0])).tensor, wide)
        if np.array_equal(known, np.round(known)):
            size = x.abs().clip(SMALLEST_BASE).log() * expression(call, exponent)
            odd = expression(call, Weight((), np.asarray(exponent.values % 2 == 1, np.float32)))
            sign = 1.0 - 2.0 * odd * (-x).positive()
            return (size.exp() * sign).tensor
    return (x.log() * expression(call, exponent)).exp().tensor


@aten("heaviside.default")
def _heaviside(call: Call, self: Value, values: Value) -> str:
    x = expression(call, self).detach()
    return x.is_zero().choose(expression(call, values), x.positive()).tensor


@aten("std_mean.correction", "std_mean.dim")
def _deviation_and_mean(
    call: Call,
    self: Value,
    dim: Ints | None = None,
    unbiased: bool = True,
    correction: Number | None = None,
    keepdim: bool = False,
) -> tuple[str, str]:
    variance, mean = _variance_and_mean(call, self, dim, unbiased, correction, keepdim)
    return Expression(call, variance).sqrt().tensor, mean


@aten("var_mean.correction", "var_mean.dim")
def _variance_and_mean(
    call: Call,
    self: Value,
    dim: Ints | None = None,
    unbiased: bool = True,
    correction: Number | None = None,
    keepdim: bool = False,
) -> tuple[str, str]:
    less = unbiased if correction is None else correction
    axes = axes_of(call, self, dim or range(len(call.shape(self))))
    mean = expression(call, self).mean(axes, keep=keepdim)
    return _spread(call, self, dim, less, keepdim).tensor, mean.tensor


@aten("aminmax.default")
def _both_ends(
    call: Call, self: Value, dim: int | None = None, keepdim: bool = False
) -> tuple[str, str]:
    x = expression(call, self)
    axes = range(len(x.shape)) if dim is None else [axis_of(call, self, dim)]
    low, high = (each.largest_over(axes, keep=keepdim) for each in (-x, x))
    return (-low).tensor, high.tensor


@aten("dist.default")
def _distance(call: Call, self: Value, other: Value, p: Number = 2) -> str:
    x = expression(call, self) - expression(call, other)
    return x.length(float(p), range(len(x.shape))).tensor


@aten(
    *("linalg_norm.default", "linalg_norm.ord_str"),
    *("linalg_matrix_norm.default", "linalg_matrix_norm.str_ord"),
)
def _matrix_length(
    call: Call,
    self: Value,
    ord: Number | str | None = None,
    dim: Ints | None = None,
    keepdim: bool = False,
) -> str:
    """Norm of vectors, or Frobenius norm of matrices: that of all their elements."""
    rank = len(call.shape(self))
    if ord == "fro":
        axes, ord = axes_of(call, self, (-2, -1) if dim is None else dim), 2
    else:
        axes = axes_of(call, self, range(rank) if dim is None else dim)
    vectors = len(axes) == 1 or ord is None
    if isinstance(ord, str) or not vectors:
        raise UnsupportedError("it is not the Frobenius norm, nor of vectors")
    order = 2.0 if ord is None else float(ord)
    if order <= 0:
        raise UnsupportedError(f"its order is {order:g}, which is not a positive number")
    return expression(call, self).length(order, axes, keep=keepdim).tensor


@aten("logsumexp.default")
def _log_sum_exp(call: Call, self: Value, dim: Ints, keepdim: bool = False) -> str:
    axes = axes_of(call, self, dim)
    return expression(call, self).log_sum_exp(axes, keep=keepdim).tensor


@aten("cumsum.default")
def _cumulative(call: Call, self: Value, dim: int) -> str:
    """Cumulative sum, as a product with a triangular matrix of ones."""
    axis = axis_of(call, self, dim)
    extent = call.shape(self)[axis]
    if extent * extent > LARGEST_CONSTANT:
        raise UnsupportedError(f"it adds up {extent} positions: the constant would be too large")
    return call.net.map_axis(call.name, call.tensor(self), axis, np.tril(np.ones((extent, extent))))


@aten("var.dim", "var.default")
def _variance(
    call: Call, self: Value, dim: Ints | None = None, unbiased: bool = True, keepdim: bool = False
) -> str:
    return _spread(call, self, dim, unbiased, keepdim).tensor


@aten("std.dim", "std.default")
def _deviation(
    call: Call, self: Value, dim: Ints | None = None, unbiased: bool = True, keepdim: bool = False
) -> str:
    return _spread(call, self, dim, unbiased, keepdim).sqrt().tensor


def _spread(call: Call, value: Value, dim: Ints | None, unbiased: Number, keep: bool) -> Expression:
    x = expression(call, value)
    axes = axes_of(call, value, dim or range(len(x.shape)))
    count = math.prod(x.shape[axis] for axis in axes)
    less = float(unbiased)
    if count <= less:
        raise UnsupportedError(f"it divides by {count} - {less:g}")
    square = (x - x.mean(axes, keep=True)).square()
    return square.mean(axes, keep=keep) * (count / (count - less))


@aten("norm.Scalar")
def _norm(call: Call, self: Value, p: Number = 2) -> str:
    x = expression(call, self)
    return x.length(float(p), range(len(x.shape))).tensor


@aten("dot.default")
def _dot(call: Call, self: Value, tensor: Value) -> str:
    return _inner(call, self, tensor)


@aten("vdot.default", "inner.default")
def _inner(call: Call, self: Value, other: Value) -> str:
    return _sum_of_products(call, self, other, (-1,), (-1,))


@aten("tensordot.default")
def _sum_of_products(
    call: Call, self: Value, other: Value, dims_self: Ints, dims_other: Ints
) -> str:
    """Products of two tensors' elements, added up over pairs of their axes."""
    first, second = axes_of(call, self, dims_self), axes_of(call, other, dims_other)
    letters = iter(string.ascii_letters)
    a = [next(letters) for _ in call.shape(self)]
    b = [next(letters) for _ in call.shape(other)]
    for i, j in zip(first, second, strict=True):
        b[j] = a[i]
    free = [c for c in (*a, *b) if (c in a) != (c in b)]
    equation = f"{''.join(a)},{''.join(b)}->{''.join(free)}"
    return call.net.einsum(call.name, equation, [call.tensor(self), call.tensor(other)])


@aten("linalg_multi_dot.default")
def _chain(call: Call, tensors: tuple[Value, ...]) -> str:
    return reduce(partial(call.net.matmul, call.name), map(call.tensor, tensors))


@aten("cross.default")
def _cross_by(call: Call, self: Value, other: Value, dim: int | None = None) -> str:
    if dim is None:
        raise UnsupportedError("it does not name its axis: write torch.cross(a, b, dim=-1)")
    return _cross(call, self, other, dim)


@aten("linalg_cross.default")
def _cross(call: Call, self: Value, other: Value, dim: int = -1) -> str:
    axis, places = axis_of(call, self, dim), np.arange(3)

    def part(value: Value, by: int) -> Expression:
        return take(expression(call, value), axis, np.roll(places, -by))

    return (part(self, 1) * part(other, 2) - part(self, 2) * part(other, 1)).tensor


@aten("mv.default")
def _mv(call: Call, self: Value, vec: Value) -> str:
    return call.net.matmul(call.name, call.tensor(self), call.tensor(vec))


@aten("outer.default")
def _outer(call: Call, self: Value, vec2: Value) -> str:
    a, b = expression(call, self), expression(call, vec2)
    return (a.reshape((*a.shape, 1)) * b.reshape((1, *b.shape))).tensor


@aten("baddbmm.default")
def _baddbmm(
    call: Call, self: Value, batch1: Value, batch2: Value, beta: Number = 1, alpha: Number = 1
) -> str:
    product = call.net.matmul(call.name, call.tensor(batch1), call.tensor(batch2))
    scaled = Expression(call, product) * float(alpha)
    return (scaled + expression(call, self) * float(beta)).tensor


@aten("lerp.Scalar", "lerp.Tensor")
def _lerp(call: Call, self: Value, end: Value, weight: Value | Number) -> str:
    a, b = expression(call, self), expression(call, end)
    share = float(weight) if isinstance(weight, int | float) else expression(call, weight)
    return (a + (b - a) * share).tensor


@aten("addcmul.default")
def _addcmul(call: Call, self: Value, tensor1: Value, tensor2: Value, value: Number = 1) -> str:
    product = expression(call, tensor1) * expression(call, tensor2)
    return (expression(call, self) + product * float(value)).tensor


@aten("addcdiv.default")
def _addcdiv(call: Call, self: Value, tensor1: Value, tensor2: Value, value: Number = 1) -> str:
    ratio = expression(call, tensor1) / expression(call, tensor2)
    return (expression(call, self) + ratio * float(value)).tensor
