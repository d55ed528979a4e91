# SPDX-License-Identifier: Apache-2.0
"""Rules of products, and of results that each position of an axis has with those before it."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from poetfw.importers.refusal import UnsupportedError
from poetfw.importers.torch_export.calls import Call, Value, axis_of
from poetfw.importers.torch_export.expression import Expression, expression
from poetfw.importers.torch_export.rules.registry import aten

Pair = Callable[[Expression, Expression], Expression]


def _part(x: Expression, axis: int, start: int, length: int) -> Expression:
    return Expression(x.call, x.call.net.part(x.call.name, x.tensor, axis, start, length))


def _joined(axis: int, *parts: Expression) -> Expression:
    call = parts[0].call
    return Expression(call, call.net.concat(call.name, [each.tensor for each in parts], axis))


def scanned(x: Expression, axis: int, combine: Pair) -> Expression:
    """Combine each position of an axis with all before it, in log2 of the extent steps.

    The method of Hillis and Steele (1986): spans of 1, 2, 4, … positions are joined.
    """
    extent, span = x.shape[axis], 1
    while span < extent:
        first = _part(x, axis, 0, span)
        later, sooner = (_part(x, axis, at, extent - span) for at in (span, 0))
        x = _joined(axis, first, combine(sooner, later))
        span *= 2
    return x


def folded(x: Expression, axis: int, combine: Pair) -> Expression:
    """Combine all positions of an axis, by halves; the axis is kept with extent 1."""
    while (extent := x.shape[axis]) > 1:
        half = extent // 2
        both = combine(_part(x, axis, 0, half), _part(x, axis, half, half))
        x = both if extent == 2 * half else _joined(axis, both, _part(x, axis, extent - 1, 1))
    return x


def _multiplied(a: Expression, b: Expression) -> Expression:
    return a * b


def log_sum(a: Expression, b: Expression) -> Expression:
    """Append log(exp(a) + exp(b))."""
    return a + (b - a).softplus()


@aten("prod.dim_int")
def _product(call: Call, self: Value, dim: int, keepdim: bool = False) -> str:
    axis, x = axis_of(call, self, dim), expression(call, self)
    y = folded(x, axis, _multiplied)
    left = [*x.shape[:axis], *([1] if keepdim else []), *x.shape[axis + 1 :]]
    return y.reshape(left).tensor


@aten("prod.default")
def _product_of_all(call: Call, self: Value) -> str:
    x = expression(call, self)
    return folded(x.reshape((math.prod(x.shape),)), 0, _multiplied).tensor


@aten("cumprod.default")
def _products(call: Call, self: Value, dim: int) -> str:
    return scanned(expression(call, self), axis_of(call, self, dim), _multiplied).tensor


@aten("logcumsumexp.default")
def _log_sums(call: Call, self: Value, dim: int) -> str:
    return scanned(expression(call, self), axis_of(call, self, dim), log_sum).tensor


@aten("diff.default")
def _differences(
    call: Call,
    self: Value,
    n: int = 1,
    dim: int = -1,
    prepend: Value | None = None,
    append: Value | None = None,
) -> str:
    axis = axis_of(call, self, dim)
    given = [expression(call, each) for each in (prepend, self, append) if each is not None]
    x = given[0] if len(given) == 1 else _joined(axis, *given)
    for _ in range(n):
        length = x.shape[axis] - 1
        x = _part(x, axis, 1, length) - _part(x, axis, 0, length)
    return x.tensor


@aten("any.default", "any.dim", "any.dims")
def _any(
    call: Call, self: Value, dim: int | tuple[int, ...] | None = None, keepdim: bool = False
) -> str:
    return _counted(call, self, dim, keepdim).positive().tensor


@aten("all.default", "all.dim", "all.dims")
def _all(
    call: Call, self: Value, dim: int | tuple[int, ...] | None = None, keepdim: bool = False
) -> str:
    x = expression(call, self).is_zero()
    return x.sum(_axes(dim), keep=keepdim).is_zero().tensor


@aten("count_nonzero.default", "count_nonzero.dim_IntList")
def _count(call: Call, self: Value, dim: int | tuple[int, ...] | None = None) -> str:
    return call.net.integers(call.name, _counted(call, self, dim, False).tensor)


def _axes(dim: int | tuple[int, ...] | None) -> list[int] | None:
    return None if dim is None else [dim] if isinstance(dim, int) else list(dim)


def _counted(call: Call, value: Value, dim: int | tuple[int, ...] | None, keep: bool) -> Expression:
    """Append the number of elements other than 0 over axes; None for all."""
    return (1.0 - expression(call, value).is_zero()).sum(_axes(dim), keep=keep)


@aten("diag_embed.default")
def _diagonals(call: Call, self: Value, offset: int = 0, dim1: int = -2, dim2: int = -1) -> str:
    """Matrices with vectors on their main diagonals."""
    x = expression(call, self)
    if offset or (dim1, dim2) not in ((-2, -1), (len(x.shape) - 1, len(x.shape))):
        raise UnsupportedError("it is not the main diagonal of matrices")
    return diagonal_of(x).tensor


def diagonal_of(x: Expression) -> Expression:
    """Append matrices with the last axis of x on their main diagonals."""
    eye = x.constant(np.eye(x.shape[-1]).reshape((1,) * (len(x.shape) - 1) + x.shape[-1:] * 2))
    return x.reshape((*x.shape, 1)) * eye


@aten("trace.default")
def _trace(call: Call, self: Value) -> str:
    x = expression(call, self)
    rows, columns = x.shape
    flat = x.reshape((rows * columns,))
    part = call.net.part(call.name, flat.tensor, 0, 0, min(rows, columns), columns + 1)
    return Expression(call, part).sum().tensor
