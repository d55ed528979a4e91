# SPDX-License-Identifier: Apache-2.0
"""Constant folding in a program: masks, positions and other computed constants.

Rules are as in `rules`, for calls without parameters and without tensors that depend on the input.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import validate_call

from poetfw.importers.refusal import UnsupportedError
from poetfw.importers.torch_export import schema
from poetfw.importers.torch_export.calls import CHECKED, LARGEST_CONSTANT, Value
from poetfw.importers.torch_export.file import Weight

Number = int | float
Ints = tuple[int, ...]
_TYPES = {schema.FLOAT: np.float32, schema.LONG: np.int64, schema.BOOL: np.bool_}
_Array = NDArray[Any]


def fold(target: str, arguments: Mapping[str, Any], values: Sequence[Value]) -> Weight | None:
    """Evaluate a call with constant arguments; None if it has to be translated instead.

    Raises:
        UnsupportedError: The result is too large.
        ValidationError: An argument has an unexpected type.
    """
    weights = [value for value in values if isinstance(value, Weight)]
    if len(weights) != len(values) or any(weight.is_parameter for weight in weights):
        return None
    rule = _RULES.get(target)
    if rule is None:
        return None
    with np.errstate(all="ignore"):
        result = np.asarray(rule(**arguments))
    if result.size > LARGEST_CONSTANT:
        raise UnsupportedError(f"shape {list(result.shape)} is too large for a constant")
    if result.dtype.kind == "f":
        result = result.astype(np.float32)
    return Weight((), np.ascontiguousarray(result).reshape(result.shape))


def _plain(value: Weight | Number) -> Any:
    return value.values if isinstance(value, Weight) else value


def _two(function: Callable[[Any, Any], Any]) -> Callable[..., _Array]:
    def rule(self: Weight, other: Weight | Number) -> _Array:
        result: _Array = function(self.values, _plain(other))
        return result

    return rule


def _one(function: Callable[[Any], Any]) -> Callable[..., _Array]:
    def rule(self: Weight) -> _Array:
        result: _Array = function(self.values)
        return result

    return rule


def _same(self: Weight) -> _Array:
    return self.values


def _upper(self: Weight, diagonal: int = 0) -> _Array:
    return np.triu(self.values, diagonal)


def _lower(self: Weight, diagonal: int = 0) -> _Array:
    return np.tril(self.values, diagonal)


def _filled(self: Weight, mask: Weight, value: Number) -> _Array:
    filled: _Array = np.where(mask.values, np.asarray(value, self.values.dtype), self.values)
    return filled


def _where(condition: Weight, self: Weight | Number, other: Weight | Number) -> _Array:
    chosen: _Array = np.where(condition.values, _plain(self), _plain(other))
    return chosen


def _like(self: Weight, fill_value: Number = 0, dtype: int | None = None) -> _Array:
    known = self.values.dtype.type if dtype is None else _known(dtype)
    return np.full(self.values.shape, fill_value, known)


def _ones_like(self: Weight, dtype: int | None = None) -> _Array:
    return _like(self, 1, dtype)


def _zeros_like(self: Weight, dtype: int | None = None) -> _Array:
    return _like(self, 0, dtype)


def _full(size: Ints, fill_value: Number = 0, dtype: int | None = None) -> _Array:
    kinds: dict[type, type[np.generic]] = {bool: np.bool_, int: np.int64}
    known = kinds.get(type(fill_value), np.float32) if dtype is None else _known(dtype)
    if math.prod(size) > LARGEST_CONSTANT:
        raise UnsupportedError(f"shape {list(size)} is too large for a constant")
    return np.full(size, fill_value, known)


def _zeros(size: Ints, dtype: int = schema.FLOAT) -> _Array:
    return _full(size, 0, dtype)


def _ones(size: Ints, dtype: int = schema.FLOAT) -> _Array:
    return _full(size, 1, dtype)


def _identity(n: int, m: int | None = None, dtype: int = schema.FLOAT) -> _Array:
    columns = n if m is None else m
    if n * columns > LARGEST_CONSTANT:
        raise UnsupportedError(f"shape {[n, columns]} is too large for a constant")
    return np.eye(n, columns, dtype=_known(dtype))


def _count(end: Number, dtype: int | None = None) -> _Array:
    return _count_by(0, end, 1, dtype)


def _count_from(start: Number, end: Number, dtype: int | None = None) -> _Array:
    return _count_by(start, end, 1, dtype)


def _count_by(start: Number, end: Number, step: Number = 1, dtype: int | None = None) -> _Array:
    if step == 0 or not 0 <= (end - start) / step <= LARGEST_CONSTANT:
        raise UnsupportedError(f"it counts from {start} to {end} by {step}")
    result = np.arange(start, end, step)
    return result if dtype is None else result.astype(_known(dtype))


def _evenly(start: Number, end: Number, steps: int, dtype: int = schema.FLOAT) -> _Array:
    if not 0 <= steps <= LARGEST_CONSTANT:
        raise UnsupportedError(f"{steps} numbers are too many for a constant")
    return np.linspace(start, end, steps).astype(_known(dtype))


def _places_in(triangle: Callable[..., Any]) -> Callable[..., _Array]:
    def rule(row: int, col: int, offset: int = 0) -> _Array:
        if row * col > LARGEST_CONSTANT:
            raise UnsupportedError(f"shape {[row, col]} is too large for a constant")
        return np.stack(triangle(row, offset, col))

    return rule


def _converted(self: Weight, dtype: int = schema.FLOAT, copy: bool = False) -> _Array:
    return self.values.astype(_known(dtype))


def _known(dtype: int) -> type[np.generic]:
    if dtype not in _TYPES:
        advice = ": --as-float32 makes them float32" if dtype in schema.OTHER_FLOATS else ""
        raise UnsupportedError(f"it makes {schema.DTYPES.get(dtype, 'unknown')} numbers{advice}")
    return _TYPES[dtype]


def _reshaped(self: Weight, size: Ints = (), shape: Ints = ()) -> _Array:
    return self.values.reshape(size or shape)


def _widened(self: Weight, dim: int) -> _Array:
    return np.expand_dims(self.values, dim)


def _narrowed(self: Weight, dim: int) -> _Array:
    return np.squeeze(self.values, dim) if self.values.shape[dim] == 1 else self.values


def _part(
    self: Weight, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> _Array:
    positions = range(*slice(start, end, step).indices(self.values.shape[dim]))
    part: _Array = np.take(self.values, positions, dim)
    return part


def _position(self: Weight, dim: int, index: int) -> _Array:
    position: _Array = np.take(self.values, index, dim)
    return position


def _turned(self: Weight, dim0: int, dim1: int) -> _Array:
    return np.swapaxes(self.values, dim0, dim1)


def _stretched(self: Weight, size: Ints) -> _Array:
    shape = (1,) * (len(size) - self.values.ndim) + self.values.shape
    wanted = tuple(own if extent == -1 else extent for own, extent in zip(shape, size, strict=True))
    if math.prod(wanted) > LARGEST_CONSTANT:
        raise UnsupportedError(f"shape {list(wanted)} is too large for a constant")
    return np.broadcast_to(self.values, wanted)


def _copied(self: Weight, src: Weight, non_blocking: bool = False) -> _Array:
    return np.broadcast_to(src.values, self.values.shape).astype(self.values.dtype)


def _all_of(self: Weight, value: Weight | Number) -> _Array:
    return np.full(self.values.shape, _plain(value), self.values.dtype)


def _with_part(
    self: Weight,
    src: Weight,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> _Array:
    whole = self.values.copy()
    np.moveaxis(whole, dim, 0)[slice(start, end, step)] = np.moveaxis(src.values, dim, 0)
    return whole


def _with_position(self: Weight, src: Weight, dim: int, index: int) -> _Array:
    whole = self.values.copy()
    np.moveaxis(whole, dim, 0)[index] = src.values
    return whole


_COMPARED = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def _checked(rules: Mapping[str, Callable[..., _Array]]) -> Mapping[str, Callable[..., Any]]:
    return MappingProxyType({n: validate_call(config=CHECKED)(rule) for n, rule in rules.items()})


_RULES = _checked(
    {
        **{f"{n}.{kind}": _two(f) for n, f in _COMPARED.items() for kind in ("Scalar", "Tensor")},
        "logical_not.default": _one(np.logical_not),
        "bitwise_not.default": _one(np.invert),
        "logical_and.default": _two(np.logical_and),
        "logical_or.default": _two(np.logical_or),
        "bitwise_and.Tensor": _two(np.bitwise_and),
        "bitwise_or.Tensor": _two(np.bitwise_or),
        "masked_fill.Scalar": _filled,
        "where.self": _where,
        "where.ScalarSelf": _where,
        "where.ScalarOther": _where,
        "where.Scalar": _where,
        "zeros_like.default": _zeros_like,
        "ones_like.default": _ones_like,
        "empty_like.default": _zeros_like,
        "full_like.default": _like,
        "full.default": _full,
        "zeros.default": _zeros,
        "ones.default": _ones,
        "empty.memory_format": _zeros,  # whatever it holds is not read, or is anything
        "eye.default": _identity,
        "eye.m": _identity,
        "linspace.default": _evenly,
        "tril_indices.default": _places_in(np.tril_indices),
        "triu_indices.default": _places_in(np.triu_indices),
        "arange.default": _count,
        "arange.start": _count_from,
        "arange.start_step": _count_by,
        "triu.default": _upper,
        "tril.default": _lower,
        "to.dtype": _converted,
        "to.device": _converted,
        "add.Tensor": _two(np.add),
        "sub.Tensor": _two(np.subtract),
        "mul.Tensor": _two(np.multiply),
        "div.Tensor": _two(np.true_divide),
        "neg.default": _one(np.negative),
        "exp.default": _one(np.exp),
        "sin.default": _one(np.sin),
        "cos.default": _one(np.cos),
        "view.default": _reshaped,
        "reshape.default": _reshaped,
        "unsqueeze.default": _widened,
        "squeeze.dim": _narrowed,
        "slice.Tensor": _part,
        "slice_scatter.default": _with_part,
        "select_scatter.default": _with_position,
        "copy.default": _copied,
        "fill.Scalar": _all_of,
        "fill.Tensor": _all_of,
        "select.int": _position,
        "transpose.int": _turned,
        "expand.default": _stretched,
        "contiguous.default": _same,
        "clone.default": _same,
        "alias.default": _same,
        "lift_fresh_copy.default": _same,
        "detach.default": _same,
    }
)
FOLDED = frozenset(_RULES)
"""Operators that can be evaluated on constants."""
FILLED = ("zeros.default", "ones.default", "full.default", "empty.memory_format")
"""Operators that create a constant of a given size."""
SIZED = (
    *FILLED,
    *("new_zeros.default", "new_ones.default", "new_full.default"),
    *("rand.default", "randn.default"),
)
"""Operators whose result has a size that may begin with the batch."""
