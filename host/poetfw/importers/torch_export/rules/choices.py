# SPDX-License-Identifier: Apache-2.0
"""Rules of comparisons, selection by masks, and indexing."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from poetfw.importers.network import HIDDEN
from poetfw.importers.refusal import UnsupportedError
from poetfw.importers.results import note_classes
from poetfw.importers.torch_export.calls import Call, Live, Value, axis_of, positions_of
from poetfw.importers.torch_export.expression import Expression, expression
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


@aten("clamp.Tensor", "clamp_min.Tensor", "clamp_max.Tensor", "clip.Tensor")
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
        return take(x, axis, index.values.reshape(-1)).tensor
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


def take(x: Expression, axis: int, positions: NDArray[np.generic]) -> Expression:
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


def _spliced(call: Call, self: Value, src: Expression, axis: int, positions: Sequence[int]) -> str:
    """Copy of a tensor with src at positions of an axis, as slices joined."""
    extent = call.shape(self)[axis]
    if call.sizes[0][axis] != call.results[0][axis] and len(positions) != extent:
        raise UnsupportedError("it assigns to some samples of a batch, which has another size here")
    place = {position: i for i, position in enumerate(positions)}
    if len(place) != len(positions) or not all(0 <= p < extent for p in place):
        raise UnsupportedError("it assigns to a position twice, or beyond the tensor")
    net, name = call.net, call.name
    first = min(positions)
    through = [*positions] == [*range(first, first + len(positions))]
    if through and isinstance(self, Weight) and not self.names and not self.values.any():
        return net.pad(name, src.tensor, {axis: (first, extent - first - len(positions))})
    x = call.tensor(self)
    runs: list[tuple[str, int, int]] = []
    for position in range(extent):
        source, at = (src.tensor, place[position]) if position in place else (x, position)
        if runs and runs[-1][0] == source and sum(runs[-1][1:]) == at:
            runs[-1] = (source, runs[-1][1], runs[-1][2] + 1)
        else:
            runs.append((source, at, 1))
    if len(runs) <= _MOST_RUNS:
        parts = [net.part(name, source, axis, at, length) for source, at, length in runs]
        return net.concat(name, parts, axis)
    both = Expression(call, net.concat(name, [x, src.tensor], axis))
    wanted = [extent + place[p] if p in place else p for p in range(extent)]
    return take(both, axis, np.array(wanted)).tensor


def _to_shape(call: Call, value: Value, shape: Sequence[int]) -> Expression:
    return Expression(call, call.net.stretch(call.name, call.tensor(value), tuple(shape) or (1,)))


@aten("copy.default")
def _copy(call: Call, self: Value, src: Value, non_blocking: bool = False) -> str:
    return _to_shape(call, src, call.shape(self)).tensor


@aten("fill.Scalar", "fill.Tensor")
def _fill(call: Call, self: Value, value: Value | Number) -> Weight | str:
    if isinstance(value, Live):
        return _to_shape(call, value, call.shape(self)).tensor
    number = value.values if isinstance(value, Weight) else value
    return Weight((), np.full(call.shape(self), number, np.float32))


@aten("slice_scatter.default")
def _slice_scatter(
    call: Call,
    self: Value,
    src: Value,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> str:
    axis, positions = positions_of(call, self, dim, start, end, step)
    return _spliced(call, self, expression(call, src), axis, positions)


@aten("select_scatter.default")
def _select_scatter(call: Call, self: Value, src: Value, dim: int, index: int) -> str:
    axis, shape = axis_of(call, self, dim), call.shape(self)
    one = expression(call, src).reshape((*shape[:axis], 1, *shape[axis + 1 :]))
    return _spliced(call, self, one, axis, [index % shape[axis]])


@aten("index_put.default")
def _index_put(
    call: Call,
    self: Value,
    indices: tuple[Value | None, ...],
    values: Value,
    accumulate: bool = False,
) -> str:
    given = [(axis, each) for axis, each in enumerate(indices) if each is not None]
    if len(given) == 1 and not accumulate:
        axis, where = given[0]
        shape = call.shape(self)
        if call.shape(where) == shape and math.prod(call.shape(values)) == 1:
            mask, value = expression(call, where), expression(call, values)
            return mask.choose(value, expression(call, self)).tensor
        if isinstance(where, Weight) and where.values.ndim == 1 and where.values.dtype != np.bool_:
            positions = [int(each) % shape[axis] for each in where.values]
            new = _to_shape(call, values, (*shape[:axis], len(positions), *shape[axis + 1 :]))
            return _spliced(call, self, new, axis, positions)
    raise UnsupportedError(
        "it assigns to positions that are calculated, or to lists of several axes: write "
        "torch.where with a mask"
    )


def place_of_largest(x: Expression, axis: int, *, keep: bool) -> Expression:
    """Append the position of the first maximum along an axis, as float32."""
    axis %= len(x.shape)
    extent = x.shape[axis]
    numbers = np.arange(extent, dtype=np.float32).reshape(
        [extent if i == axis else 1 for i in range(len(x.shape))]
    )
    held = x.detach()
    found = held.equals(held.largest(axis)).choose(
        x.constant(-numbers), x.constant(np.full_like(numbers, -extent))
    )
    first = -found.largest(axis)
    return first if keep else first.reshape([e for i, e in enumerate(x.shape) if i != axis])


@aten("argmax.default")
def _argmax(call: Call, self: Value, dim: int | None = None, keepdim: bool = False) -> str:
    return _place(call, expression(call, self), dim, keepdim)


@aten("argmin.default")
def _argmin(call: Call, self: Value, dim: int | None = None, keepdim: bool = False) -> str:
    return _place(call, -expression(call, self), dim, keepdim)


def _place(call: Call, x: Expression, dim: int | None, keepdim: bool) -> str:
    """Position of the first maximum along an axis, or in all elements, as an i32 tensor."""
    if dim is None:
        x, dim = x.reshape((math.prod(x.shape),)), 0
    return call.net.integers(call.name, place_of_largest(x, dim, keep=keepdim).tensor)


def _by_lists(call: Call, x: Expression, given: Sequence[tuple[int, Value]]) -> str | None:
    """Elements of x at positions on neighbouring axes; None if the axes are no neighbours.

    Lists of positions are stretched to each other. Where the first one counts the samples, each
    sample has positions of its own.
    """
    axes, rows = [axis for axis, _ in given], np.arange(x.shape[0])
    if axes != [*range(axes[0], axes[0] + len(axes))] or _are_masks(call, given):
        return None
    shape = np.broadcast_shapes(*(call.shape(each) for _, each in given))
    first = given[0][1]
    by_row = (
        isinstance(first, Weight)
        and len(given) > 1
        and axes[0] == 0
        and first.values.size == len(rows) == shape[0] == math.prod(first.values.shape[:1])
        and np.array_equal(first.values.reshape(-1), rows)
    )
    lists = given[1:] if by_row else given
    ids: Expression | None = None
    for axis, each in lists:
        own = _from_the_start(call, each, x.shape[axis], is_only=len(lists) == 1)
        ids = own if ids is None else ids * float(x.shape[axis]) + own
    assert ids is not None
    if by_row and len(lists) == 1 == len(shape):
        hot = ids.reshape(rows.shape).one_hot(x.shape[1])
        return hot.reshape((*hot.shape, *(1,) * (len(x.shape) - 2))).keep(x).sum([1]).tensor
    wide = Expression(call, call.net.stretch(call.name, ids.tensor, shape))
    start, end = lists[0][0], lists[-1][0] + 1
    extent = math.prod(x.shape[start:end])
    flat = x.reshape((*x.shape[:start], extent, *x.shape[end:]))
    if by_row:
        count = math.prod(shape[1:])
        hot = wide.reshape((len(rows), count)).one_hot(extent)
        table = flat.reshape((len(rows), extent, math.prod(flat.shape[2:])))
        taken = Expression(call, call.net.matmul(call.name, hot.tensor, table.tensor))
        return taken.reshape((*shape, *flat.shape[2:])).tensor
    one = wide.reshape((math.prod(shape),))
    taken = Expression(call, _index_select(call, Live(flat.tensor), start, Live(one.tensor)))
    return taken.reshape((*x.shape[:start], *shape, *x.shape[end:])).tensor


def _from_the_start(call: Call, ids: Value, extent: int, *, is_only: bool) -> Expression:
    """Positions on an axis, of which those below 0 count from the end.

    Labels are class numbers where they are the only list: the data are checked for them.
    """
    if isinstance(ids, Weight):
        return expression(call, Weight((), ids.values % extent))
    own = expression(call, ids)
    if is_only and note_classes(call.net, own.tensor, extent):
        return own
    return own + (-own).positive() * float(extent)


def _are_masks(call: Call, given: Sequence[tuple[int, Value]]) -> bool:
    """True if any list is of true and false, and so takes what is true."""
    return any(isinstance(each, Weight) and each.values.dtype == np.bool_ for _, each in given)


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
            return take(x, axis, np.flatnonzero(positions.values)).tensor
        if positions.values.ndim == 1:
            return take(x, axis, positions.values).tensor
        flat = take(x, axis, positions.values.reshape(-1))
        return flat.reshape((*x.shape[:axis], *positions.values.shape, *x.shape[axis + 1 :])).tensor
    if given and all(call.shape(each) for _, each in given):
        whole = _by_lists(call, x, given)
        if whole is not None:
            return whole
    if any(isinstance(each, Live) for _, each in given):
        raise UnsupportedError(
            "it takes elements by what is calculated: use torch.where for masks, and "
            "torch.gather or index_select for positions"
        )
    raise UnsupportedError("it takes elements by several lists, or lists of several axes")
