# SPDX-License-Identifier: Apache-2.0
"""Rules of the largest elements of an axis, and of putting elements in calculated places."""

from __future__ import annotations

import math

from poetfw.importers.network import HIDDEN
from poetfw.importers.refusal import UnsupportedError
from poetfw.importers.torch_export.calls import Call, Value, axis_of
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


def _back(x: Expression, axis: int) -> Expression:
    """Move the last axis to another place."""
    last = len(x.shape) - 1
    return x.permute([*range(axis), last, *range(axis, last)])
