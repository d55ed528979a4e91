# SPDX-License-Identifier: Apache-2.0
"""Rules of comparisons, selection by masks, and indexing."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from poetfw.importers.network import HIDDEN
from poetfw.importers.refusal import UnsupportedError
from poetfw.importers.results import note_classes
from poetfw.importers.torch_export.calls import Call, Live, Value, axis_of
from poetfw.importers.torch_export.expression import (
    Expression,
    expression,
    maximum,
    minimum,
)
from poetfw.importers.torch_export.file import Weight
from poetfw.importers.torch_export.rules.registry import Number, aten


def _operand(call: Call, like: Expression, value: Value | Number) -> Expression:
    """Convert an operand, tensor or number, to an expression."""
    if isinstance(value, int | float):
        return like.of(max(min(float(value), -HIDDEN), HIDDEN))
    return expression(call, value)


_MOST_RUNS = 8
"""Of more runs of positions, their choice is a product with a matrix."""


@aten("gt.Scalar", "gt.Tensor")
def _above(call: Call, self: Value, other: Value | Number) -> str:
    x = expression(call, self)
    return x.above(_operand(call, x, other)).tensor


@aten("lt.Scalar", "lt.Tensor")
def _below(call: Call, self: Value, other: Value | Number) -> str:
    x = expression(call, self)
    return (_operand(call, x, other) - x).positive().tensor


@aten("ge.Scalar", "ge.Tensor")
def _not_below(call: Call, self: Value, other: Value | Number) -> str:
    return (1.0 - Expression(call, _below(call, self, other))).tensor


@aten("le.Scalar", "le.Tensor")
def _not_above(call: Call, self: Value, other: Value | Number) -> str:
    return (1.0 - Expression(call, _above(call, self, other))).tensor


@aten("eq.Scalar", "eq.Tensor")
def _equal(call: Call, self: Value, other: Value | Number) -> str:
    x = expression(call, self)
    return x.equals(_operand(call, x, other)).tensor


@aten("ne.Scalar", "ne.Tensor")
def _unequal(call: Call, self: Value, other: Value | Number) -> str:
    return (1.0 - Expression(call, _equal(call, self, other))).tensor


@aten("logical_not.default", "bitwise_not.default")
def _not(call: Call, self: Value) -> str:
    return (1.0 - expression(call, self)).tensor


@aten("logical_and.default", "bitwise_and.Tensor", "__and__.Tensor")
def _both(call: Call, self: Value, other: Value) -> str:
    return (expression(call, self) * expression(call, other)).tensor


@aten("logical_or.default", "bitwise_or.Tensor", "__or__.Tensor")
def _either(call: Call, self: Value, other: Value) -> str:
    return (expression(call, self) + expression(call, other)).positive().tensor


@aten("sign.default", "sgn.default")
def _sign(call: Call, self: Value) -> str:
    x = expression(call, self)
    return (x.positive() - (-x).positive()).tensor


@aten("where.self", "where.ScalarSelf", "where.ScalarOther", "where.Scalar")
def _where(call: Call, condition: Value, self: Value | Number, other: Value | Number) -> str:
    mask = expression(call, condition)
    a, b = (_operand(call, mask, side) for side in (self, other))
    return mask.choose(a, b).tensor


@aten("masked_fill.Scalar", "masked_fill.Tensor")
def _masked_fill(call: Call, self: Value, mask: Value, value: Value | Number) -> str:
    """Fill x with a number where the mask is true; infinity becomes HIDDEN."""
    if isinstance(value, Weight) and value.values.size == 1:
        value = float(value.values.astype(float).reshape(()))
    if isinstance(mask, Live) or not isinstance(value, int | float):
        held = expression(call, mask)
        return held.choose(_operand(call, held, value), expression(call, self)).tensor
    net, x = call.net, call.tensor(self)
    hidden = mask.values.astype(np.float32)
    kept = net.constant(f"{call.name}.kept", 1 - hidden)
    number = max(min(float(value), -HIDDEN), HIDDEN)
    filled = net.constant(f"{call.name}.filled", hidden * np.float32(number))
    return net.add(call.name, net.multiply(call.name, x, kept), filled)


@aten("maximum.default", "max.other", "fmax.default")
def _maximum(call: Call, self: Value, other: Value) -> str:
    return maximum(expression(call, self), expression(call, other)).tensor


@aten("minimum.default", "min.other", "fmin.default")
def _minimum(call: Call, self: Value, other: Value) -> str:
    return minimum(expression(call, self), expression(call, other)).tensor


@aten("clamp.Tensor", "clamp_min.Tensor", "clamp_max.Tensor")
def _clamp(call: Call, self: Value, min: Value | None = None, max: Value | None = None) -> str:
    """Clamp by tensors; at a bound, x takes the gradient."""
    x = expression(call, self)
    if min is not None:
        low = expression(call, min)
        x = low.above(x).choose(low, x)
    if max is not None:
        high = expression(call, max)
        x = x.above(high).choose(high, x)
    return x.tensor


@aten("threshold.default")
def _threshold(call: Call, self: Value, threshold: Number, value: Number) -> str:
    x = expression(call, self)
    return x.above(float(threshold)).choose(x, x.of(float(value))).tensor


@aten("hardshrink.default")
def _hard_shrink(call: Call, self: Value, lambd: Number = 0.5) -> str:
    x = expression(call, self)
    return x.abs().above(float(lambd)).keep(x).tensor


@aten("softshrink.default")
def _soft_shrink(call: Call, self: Value, lambd: Number = 0.5) -> str:
    x = expression(call, self)
    return ((x - float(lambd)).relu() - (-x - float(lambd)).relu()).tensor


@aten("one_hot.default")
def _one_hot(call: Call, self: Value, num_classes: int = -1) -> str:
    if num_classes < 1:
        raise UnsupportedError("it has no num_classes: the largest id is not known before")
    note_classes(call.net, call.tensor(self), num_classes)
    return expression(call, self).one_hot(num_classes).tensor


@aten("gather.default", "take_along_dim.default")
def _gather(
    call: Call,
    self: Value,
    dim: int | None = None,
    index: Value | None = None,
    sparse_grad: bool = False,
    indices: Value | None = None,
) -> str:
    """Gather by masks: a sum over an axis of which a mask leaves one position."""
    index = indices if index is None else index
    if dim is None or index is None:
        raise UnsupportedError("it takes from all elements as one row")
    x, axis = expression(call, self), axis_of(call, self, dim)
    ids, extent = expression(call, index), x.shape[axis]
    if any(
        own > given
        for at, (own, given) in enumerate(zip(ids.shape, x.shape, strict=True))
        if at != axis
    ):
        raise UnsupportedError("its index is larger than what it takes from")
    for at, length in enumerate(ids.shape):
        if at != axis:
            part = call.net.part(call.name, x.tensor, at, 0, length)
            x = Expression(call, part)
    if ids.shape[axis] == 1:
        note_classes(call.net, ids.tensor, extent)
    taken = ids.one_hot(extent)  # [..., positions, ..., extent]
    turned = x.last(axis)
    around = list(turned.shape[:-1])
    row = turned.reshape((*around[:axis], 1, *around[axis:], extent))
    return taken.keep(row).sum([-1]).tensor


@aten("index_select.default")
def _index_select(call: Call, self: Value, dim: int, index: Value) -> str:
    x, axis = expression(call, self), axis_of(call, self, dim)
    if isinstance(index, Weight):
        return _positions(x, axis, index.values.reshape(-1)).tensor
    ids = expression(call, index)
    table = x.last(axis)
    rows = table.reshape((math.prod(table.shape[:-1]), table.shape[-1]))
    net, name = call.net, call.name
    hot = ids.one_hot(table.shape[-1])
    chosen = net.permute(name, hot.tensor, (1, 0))
    taken = Expression(call, net.matmul(name, rows.tensor, chosen))
    whole = taken.reshape((*table.shape[:-1], *ids.shape))
    rank = len(table.shape)
    return whole.permute([*range(axis), rank - 1, *range(axis, rank - 1)]).tensor


def _positions(x: Expression, axis: int, positions: NDArray[np.generic]) -> Expression:
    """Select constant positions along an axis, as concatenated runs."""
    extent = x.shape[axis]
    wanted = [int(each) % extent for each in positions]
    if any(not -extent <= int(each) < extent for each in positions):
        raise UnsupportedError(f"it takes position {positions.max()} of {extent}")
    runs: list[list[int]] = []
    for each in wanted:
        if runs and each == runs[-1][-1] + 1:
            runs[-1].append(each)
        else:
            runs.append([each])
    net, name = x.call.net, x.call.name
    if len(runs) > _MOST_RUNS:
        chosen = np.zeros((extent, len(wanted)), np.float32)
        chosen[wanted, range(len(wanted))] = 1
        last = x.last(axis)
        y = Expression(x.call, net.matmul(name, last.tensor, net.constant(name, chosen)))
        rank = len(x.shape)
        return y.permute([*range(axis), rank - 1, *range(axis, rank - 1)])
    parts = [net.part(name, x.tensor, axis, run[0], len(run)) for run in runs]
    return Expression(x.call, net.concat(name, parts, axis))


@aten("index.Tensor")
def _index(call: Call, self: Value, indices: tuple[Value | None, ...]) -> str:
    x = expression(call, self)
    given = [(axis, each) for axis, each in enumerate(indices) if each is not None]
    if len(given) == 1 and isinstance(given[0][1], Weight):
        axis, positions = given[0]
        assert isinstance(positions, Weight)
        if positions.values.dtype == np.bool_:
            if positions.values.ndim != 1:
                raise UnsupportedError("it takes elements by a mask of several axes")
            return _positions(x, axis, np.flatnonzero(positions.values)).tensor
        if positions.values.ndim == 1:
            return _positions(x, axis, positions.values).tensor
        flat = _positions(x, axis, positions.values.reshape(-1))
        return flat.reshape((*x.shape[:axis], *positions.values.shape, *x.shape[axis + 1 :])).tensor
    if len(given) == 1 and len(call.shape(given[0][1])) == 1:
        return _index_select(call, self, given[0][0], given[0][1])
    if len(given) == 2 and [axis for axis, _ in given] == [0, 1]:
        first, second = (each for _, each in given)
        rows = np.arange(x.shape[0])
        if isinstance(first, Weight) and np.array_equal(first.values.reshape(-1), rows):
            ids = expression(call, second)
            note_classes(call.net, ids.tensor, x.shape[1])
            hot = ids.reshape(rows.shape).one_hot(x.shape[1])
            wide = hot.reshape((*hot.shape, *(1,) * (len(x.shape) - 2)))
            return wide.keep(x).sum([1]).tensor
    if any(isinstance(each, Live) for _, each in given):
        raise UnsupportedError(
            "it takes elements by what is calculated: use torch.where for masks, and "
            "torch.gather or index_select for positions"
        )
    raise UnsupportedError("it takes elements by several lists, or lists of several axes")
