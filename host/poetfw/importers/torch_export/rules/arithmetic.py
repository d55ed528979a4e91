# SPDX-License-Identifier: Apache-2.0
"""Rules of arithmetic, products and reductions."""

from __future__ import annotations

import math
import string
from collections.abc import Sequence

import numpy as np

from poetfw.importers.refusal import UnsupportedError
from poetfw.importers.torch_export.calls import Call, Result, Value, axes_of, axis_of
from poetfw.importers.torch_export.expression import expression
from poetfw.importers.torch_export.rules.registry import Ints, Number, aten


@aten("add.Tensor")
def _add(call: Call, self: Value, other: Value | Number, alpha: Number = 1) -> str:
    x = call.tensor(self)
    if isinstance(other, int | float):
        return call.net.shift(call.name, x, float(other * alpha))
    return call.net.add(call.name, x, call.net.scale(call.name, call.tensor(other), float(alpha)))


@aten("sub.Tensor")
def _subtract(call: Call, self: Value, other: Value | Number, alpha: Number = 1) -> str:
    return _add(call, self, other, -alpha)


@aten("rsub.Scalar")
def _subtract_from(call: Call, self: Value, other: Number, alpha: Number = 1) -> str:
    x = call.net.scale(call.name, call.tensor(self), -float(alpha))
    return call.net.shift(call.name, x, float(other))


@aten("mul.Tensor")
def _multiply(call: Call, self: Value, other: Value | Number) -> str:
    x = call.tensor(self)
    if isinstance(other, int | float):
        return call.net.scale(call.name, x, float(other))
    return call.net.multiply(call.name, x, call.tensor(other))


@aten("div.Tensor")
def _divide(call: Call, self: Value, other: Value | Number) -> str:
    x = call.tensor(self)
    if isinstance(other, int | float):
        return call.net.scale(call.name, x, 1 / other)
    inverse = call.net.builder.op("reciprocal", call.name, (call.tensor(other),))
    return call.net.multiply(call.name, x, inverse)


@aten("torch.ops.poetfw.moved.default")
def _moved(call: Call, self: Value, buffer: Value) -> str:
    """New value of a buffer, with which the next training step begins."""
    return call.net.builder.op("moved", call.name, (call.tensor(self), call.tensor(buffer)))


@aten("neg.default")
def _negate(call: Call, self: Value) -> str:
    return call.net.scale(call.name, call.tensor(self), -1.0)


@aten("pow.Tensor_Scalar")
def _power(call: Call, self: Value, exponent: Number) -> str:
    return call.net.power(call.name, call.tensor(self), float(exponent))


@aten("rsqrt.default")
def _inverse_root(call: Call, self: Value) -> str:
    root = call.net.builder.op("sqrt", call.name, (call.tensor(self),))
    return call.net.builder.op("reciprocal", call.name, (root,))


@aten("matmul.default", "mm.default", "bmm.default")
def _product(call: Call, self: Value, other: Value | None = None, mat2: Value | None = None) -> str:
    second = other if other is not None else mat2
    if second is None:
        raise UnsupportedError("it has one operand")
    return matmul(call, self, second)


def matmul(call: Call, first: Value, second: Value) -> str:
    """Append a matrix product, batched or not."""
    return call.net.matmul(call.name, call.tensor(first), call.tensor(second))


@aten("einsum.default")
def _einsum(call: Call, equation: str, tensors: tuple[Value, ...], path: Ints | None = None) -> str:
    spelt = _without_dots(equation, [len(call.shape(value)) for value in tensors])
    return call.net.einsum(call.name, spelt, [call.tensor(value) for value in tensors])


def _without_dots(equation: str, ranks: Sequence[int]) -> str:
    """Equation with letters for the axes that dots stand for, aligned at the last of them."""
    if "..." not in equation:
        return equation
    terms, arrow, result = equation.replace(" ", "").partition("->")
    given = terms.split(",")
    free = [each for each in string.ascii_letters if each not in equation]
    counts = [rank - len(each.replace("...", "")) for each, rank in zip(given, ranks, strict=True)]
    widest = free[: max(counts)]
    if not arrow:  # axes of the dots come first
        letters = terms.replace(",", "").replace(".", "")
        result = "..." + "".join(c for c in sorted(set(letters)) if letters.count(c) == 1)
    spelt = [
        each.replace("...", "".join(widest[len(widest) - count :]))
        for each, count in zip(given, counts, strict=True)
    ]
    return f"{','.join(spelt)}->{result.replace('...', ''.join(widest))}"


@aten("mean.dim")
def _mean(call: Call, self: Value, dim: Ints | None, keepdim: bool = False) -> str:
    return _reduce(call, self, dim, keepdim, total=False)


@aten("sum.dim_IntList")
def _sum(call: Call, self: Value, dim: Ints | None, keepdim: bool = False) -> str:
    return _reduce(call, self, dim, keepdim, total=True)


@aten("amax.default")
def _largest(call: Call, self: Value, dim: Ints = (), keepdim: bool = False) -> str:
    axes = axes_of(call, self, dim or range(len(call.shape(self))))
    return call.net.largest(call.name, call.tensor(self), axes, keep=keepdim, shared=True)


@aten("amin.default")
def _smallest(call: Call, self: Value, dim: Ints = (), keepdim: bool = False) -> str:
    x = expression(call, self)
    axes = axes_of(call, self, dim or range(len(x.shape)))
    return (-(-x).largest_over(axes, keep=keepdim)).tensor


@aten("max.dim")
def _largest_of(call: Call, self: Value, dim: int, keepdim: bool = False) -> tuple[str, Result]:
    axis = axis_of(call, self, dim)
    return call.net.largest(call.name, call.tensor(self), [axis], keep=keepdim), None


@aten("min.dim")
def _smallest_of(call: Call, self: Value, dim: int, keepdim: bool = False) -> tuple[str, Result]:
    negative = call.net.scale(call.name, call.tensor(self), -1.0)
    found = call.net.largest(call.name, negative, [axis_of(call, self, dim)], keep=keepdim)
    return call.net.scale(call.name, found, -1.0), None


@aten("var.correction")
def _variance(
    call: Call,
    self: Value,
    dim: Ints | None = None,
    correction: Number | None = None,
    keepdim: bool = False,
) -> str:
    net, x = call.net, call.tensor(self)
    axes = axes_of(call, self, dim or range(len(call.shape(self))))
    count = math.prod(call.shape(self)[axis] for axis in axes)
    less = 1 if correction is None else correction
    if count <= less:
        raise UnsupportedError(f"it divides by {count} - {less:g}")
    centre = net.scale(call.name, net.mean(call.name, x, axes, keep=True), -1.0)
    square = net.builder.op("square", call.name, (net.add(call.name, x, centre),))
    return net.scale(
        call.name, net.mean(call.name, square, axes, keep=keepdim), count / (count - less)
    )


@aten("std.correction")
def _deviation(
    call: Call,
    self: Value,
    dim: Ints | None = None,
    correction: Number | None = None,
    keepdim: bool = False,
) -> str:
    variance = _variance(call, self, dim, correction, keepdim)
    return call.net.builder.op("sqrt", call.name, (variance,))


@aten("linalg_vector_norm.default")
def _length(
    call: Call, self: Value, ord: Number = 2, dim: Ints | None = None, keepdim: bool = False
) -> str:
    if not 0 < ord:
        raise UnsupportedError(f"its order is {ord:g}, which is not a positive number")
    axes = axes_of(call, self, dim or range(len(call.shape(self))))
    return expression(call, self).length(float(ord), axes, keep=keepdim).tensor


@aten("norm.ScalarOpt_dim")
def _length_of(call: Call, self: Value, p: Number | None, dim: Ints, keepdim: bool = False) -> str:
    return _length(call, self, 2 if p is None else p, dim, keepdim)


@aten("rms_norm.default")
def _rms_norm(
    call: Call,
    input: Value,
    normalized_shape: Ints,
    weight: Value | None = None,
    eps: float | None = None,
) -> str:
    """RMS normalisation (Zhang and Sennrich, 2019)."""
    net, x = call.net, call.tensor(input)
    rank = len(call.shape(input))
    axes = range(rank - len(normalized_shape), rank)
    square = net.mean(call.name, net.builder.op("square", call.name, (x,)), axes, keep=True)
    added = float(np.finfo(np.float32).eps) if eps is None else eps
    root = net.builder.op("sqrt", call.name, (net.shift(call.name, square, added),))
    y = net.multiply(call.name, x, net.builder.op("reciprocal", call.name, (root,)))
    return y if weight is None else net.multiply(call.name, y, call.tensor(weight))


@aten("_weight_norm.default")
def _weight_norm(call: Call, v: Value, g: Value, dim: int = 0) -> str:
    """Weight norm v · g / |v| by position of an axis, -1: of all (Salimans and Kingma, 2016)."""
    kept = None if dim == -1 else axis_of(call, v, dim)
    axes = [axis for axis in range(len(call.shape(v))) if axis != kept]
    length = _length(call, v, 2, tuple(axes), True)
    inverse = call.net.builder.op("reciprocal", call.name, (length,))
    share = call.net.multiply(call.name, inverse, call.tensor(g))
    return call.net.multiply(call.name, call.tensor(v), share)


def _reduce(call: Call, x: Value, dims: Ints | None, keep: bool, *, total: bool) -> str:
    axes = axes_of(call, x, dims or range(len(call.shape(x))))
    return call.net.mean(call.name, call.tensor(x), axes, keep=keep, total=total)
