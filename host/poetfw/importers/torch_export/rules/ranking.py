# SPDX-License-Identifier: Apache-2.0
"""Rules of the largest elements of an axis, and of putting elements in calculated places."""

from __future__ import annotations

import math

from poetfw.importers.network import HIDDEN
from poetfw.importers.refusal import UnsupportedError
from poetfw.importers.torch_export.calls import Call, Live, Value, axis_of
from poetfw.importers.torch_export.expression import Expression, expression
from poetfw.importers.torch_export.rules.choices import place_of_largest
from poetfw.importers.torch_export.rules.registry import Number, aten

_MOST = 16
"""Elements that are found one by one."""


@aten("topk.default")
def _top(
    call: Call, self: Value, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[str, str]:
    """The k largest elements of an axis in falling order, and their positions.

    Each is found as the first maximum, and hidden from the next search.
    """
    axis, x = axis_of(call, self, dim), expression(call, self)
    if not 1 <= k <= min(_MOST, x.shape[axis]):
        raise UnsupportedError(f"it takes the {k} largest elements: from 1 to {_MOST} are possible")
    turned = x.last(axis)
    *lead, extent = turned.shape
    rows = turned.reshape((math.prod(lead), extent))
    rest = (rows if largest else -rows).detach()
    values, places = [], []
    for _ in range(k):
        place = place_of_largest(rest, 1, keep=True)
        hot = place.reshape((math.prod(lead),)).one_hot(extent)
        values.append(hot.keep(rows).sum([1], keep=True).tensor)
        places.append(place.tensor)
        rest = hot.choose(rest.of(HIDDEN), rest)
    net, name = call.net, call.name
    joined = (Expression(call, net.concat(name, each, 1)) for each in (values, places))
    found, positions = (_back(each.reshape((*lead, k)), axis).tensor for each in joined)
    return found, net.integers(name, positions)


@aten("sort.default", "sort.stable")
def _sort(
    call: Call, self: Value, dim: int = -1, descending: bool = False, stable: bool = False
) -> tuple[str, str]:
    extent = call.shape(self)[axis_of(call, self, dim)]
    return _top(call, self, extent, dim, descending)


@aten("scatter.src", "scatter.value")
def _scatter(
    call: Call,
    self: Value,
    dim: int,
    index: Value,
    src: Value | None = None,
    value: Number | None = None,
) -> str:
    """Put elements in places along an axis, which must differ in each row."""
    axis, x, ids = axis_of(call, self, dim), expression(call, self), expression(call, index)
    if any(a != b for at, (a, b) in enumerate(zip(x.shape, ids.shape, strict=True)) if at != axis):
        raise UnsupportedError("its index has another shape than what it changes")
    rows, new = x.last(axis), ids.of(float(value or 0)) if src is None else expression(call, src)
    hot = ids.last(axis).one_hot(rows.shape[-1])  # [..., places, extent]
    new = Expression(call, call.net.stretch(call.name, new.tensor, ids.shape)).last(axis)
    put = hot.keep(new.reshape((*new.shape, 1))).sum([-2])
    return _back(hot.sum([-2]).choose(put, rows), axis).tensor


@aten("scatter_add.default")
def _scatter_add(call: Call, self: Value, dim: int, index: Value, src: Value) -> str:
    """Add elements at places along an axis, which may be the same."""
    axis, x, ids = axis_of(call, self, dim), expression(call, self), expression(call, index)
    new = expression(call, src)
    for at, length in enumerate(ids.shape):
        if at != axis and length != x.shape[at]:
            raise UnsupportedError("its index has another shape than what it changes")
        new = Expression(call, call.net.part(call.name, new.tensor, at, 0, length))
    hot = ids.last(axis).one_hot(x.shape[axis])  # [..., places, extent]
    new = new.last(axis)
    added = hot.keep(new.reshape((*new.shape, 1))).sum([-2])
    return (x + _back(added, axis)).tensor


@aten("index_add.default")
def _index_add(
    call: Call, self: Value, dim: int, index: Value, source: Value, alpha: Number = 1
) -> str:
    """Add slices at places along an axis, which may be the same."""
    axis, x = axis_of(call, self, dim), expression(call, self)
    rows = expression(call, source).last(axis)
    hot = expression(call, index).one_hot(x.shape[axis])  # [places, extent]
    flat = rows.reshape((math.prod(rows.shape[:-1]), rows.shape[-1]))
    sums = Expression(call, call.net.matmul(call.name, flat.tensor, hot.tensor))
    added = _back(sums.reshape((*rows.shape[:-1], x.shape[axis])), axis)
    return (x + added * float(alpha)).tensor


@aten("argsort.default", "argsort.stable")
def _order(
    call: Call, self: Value, dim: int = -1, descending: bool = False, stable: bool = False
) -> str:
    return _sort(call, self, dim, descending, stable)[1]


@aten("kthvalue.default")
def _kth(call: Call, self: Value, k: int, dim: int = -1, keepdim: bool = False) -> tuple[str, str]:
    """The k-th smallest element of an axis, and its position."""
    axis, found = axis_of(call, self, dim), []
    for each in _top(call, self, k, dim, largest=False):
        last = call.net.part(call.name, call.net.floats(call.name, each), axis, k - 1, 1)
        shape = call.net.shape(last)
        left = shape if keepdim else (*shape[:axis], *shape[axis + 1 :])
        found.append(call.net.reshape(call.name, last, left))
    value, place = found
    return value, call.net.integers(call.name, place)


@aten("median.dim")
def _median(call: Call, self: Value, dim: int, keepdim: bool = False) -> tuple[str, str]:
    """The element in the middle of an axis, of two the smaller one, and its position."""
    extent = call.shape(self)[axis_of(call, self, dim)]
    return _kth(call, self, (extent + 1) // 2, dim, keepdim)


@aten("median.default")
def _median_of_all(call: Call, self: Value) -> str:
    count = math.prod(call.shape(self))
    flat = Live(call.net.reshape(call.name, call.tensor(self), (count,)))
    return _kth(call, flat, (count + 1) // 2, 0, True)[0]


def _back(x: Expression, axis: int) -> Expression:
    """Move the last axis to another place."""
    last = len(x.shape) - 1
    return x.permute([*range(axis), last, *range(axis, last)])
