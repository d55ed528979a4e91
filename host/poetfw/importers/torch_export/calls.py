# SPDX-License-Identifier: Apache-2.0
"""Values and calls, as used by the rules of ATen operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import ConfigDict

from poetfw.importers.network import HIDDEN, Network
from poetfw.importers.refusal import UnsupportedError
from poetfw.importers.torch_export.file import Weight
from poetfw.ops import Shape

CHECKED = ConfigDict(strict=True, arbitrary_types_allowed=True)
"""Validation settings for the arguments of rules."""
LARGEST_CONSTANT = 1 << 22
"""Most elements of a constant that the program creates."""


@dataclass(frozen=True, slots=True)
class Live:
    """A computed value: a tensor of the graph under construction."""

    tensor: str


Value = Live | Weight
"""Value bound to a name of the program."""

_PLAIN = {"as_int": int, "as_float": float, "as_bool": bool, "as_string": str}
_LISTS = {"as_ints": int, "as_floats": float, "as_bools": bool}
_LARGEST_INTEGER = 2**63 - 1

Result = str | None
"""Tensor of an output; None for an output that must not be read."""


@dataclass(frozen=True)
class Call:
    """A call of an operator.

    Attributes:
        net: network under construction.
        name: name for its ops: the calling module, or the node.
        is_output: True if the result is the network's output.
        sizes: shapes of the results in the file.
        results: shapes of the results with the requested batch size.
    """

    net: Network
    name: str
    is_output: bool
    sizes: tuple[Shape, ...]
    results: tuple[Shape, ...]

    def tensor(self, value: Value) -> str:
        """Tensor of a value; a weight becomes a tensor of its own shape.

        Raises:
            UnsupportedError: The value is not a float32 tensor.
        """
        if isinstance(value, Live):
            return self.net.floats(self.name, value.tensor)
        return self.weight(value)

    def shape(self, value: Value) -> Shape:
        """Shape of a value."""
        return self.net.shape(value.tensor) if isinstance(value, Live) else value.values.shape

    def weight(self, weight: Value, shape: Sequence[int] | None = None) -> str:
        """Tensor of a weight, with its elements viewed as `shape`.

        Raises:
            UnsupportedError: The weight is not a float32 tensor.
        """
        if isinstance(weight, Live):
            return self.net.reshape(
                self.name, weight.tensor, shape or self.net.shape(weight.tensor)
            )
        values = weight.values.astype(np.float32, copy=False)
        exact = values.size and np.array_equal(values.astype(weight.values.dtype), weight.values)
        if weight.values.dtype != np.float32 and (weight.is_parameter or not exact):
            raise UnsupportedError(f"it reads {weight.values.dtype} numbers")
        if not weight.is_parameter:  # a mask's infinity would make NaN of 0 times it
            values = np.clip(values, HIDDEN, -HIDDEN)
        seen = values.reshape(values.shape or (1,) if shape is None else tuple(shape))
        if not weight.names:
            return self.net.constant(f"{self.name}.constant", seen)
        if weight.names[0] in self.net.moving:
            raise UnsupportedError(
                f"it reads {weight.names[0]!r:.60}, running statistics that a batch norm moves: "
                "put the norm into evaluation mode, or write the loss without them"
            )
        if self.net.is_held(weight.names[0]):
            return self.net.held(self.name, weight.names[0], seen.shape)
        return self.net.parameter(
            (weight.names,),
            seen,
            (values.shape,),
            str(seen.shape),
            trained=weight.trained,
            state=not weight.is_parameter,
        )

    def pair(self, first: Value | None, second: Value | None, length: int) -> str:
        """Tensor [2, length] of two weights; constant ones and zeros if both are omitted.

        Raises:
            UnsupportedError: Only one of them is given or trained, or a length differs.
        """
        if first is None and second is None:
            return self.net.constant(
                f"{self.name}.affine", np.repeat(np.array([[1], [0]], np.float32), length, 1)
            )
        if not isinstance(first, Weight) or not isinstance(second, Weight):
            return self._calculated_pair(first, second, length)
        names = (*first.names[:1], *second.names[:1])
        if len(names) < 2:
            return self._calculated_pair(first, second, length)
        if first.trained != second.trained:
            raise UnsupportedError(
                f"of {first.names[0]!r} and {second.names[0]!r}, only one has requires_grad: "
                "poetfw trains both, or none"
            )
        if first.values.size != length or second.values.size != length:
            raise UnsupportedError(f"its weights do not have {length} elements each")
        if any(map(self.net.is_held, names)) and not self.net.is_held(*names):
            return self._calculated_pair(first, second, length)
        both = np.stack([first.values.reshape(-1), second.values.reshape(-1)]).astype(np.float32)
        return self.net.parameter(
            (first.names, second.names),
            both,
            (first.values.shape, second.values.shape),
            trained=first.trained,
            state=not first.is_parameter,
        )

    def _calculated_pair(self, first: Value | None, second: Value | None, length: int) -> str:
        """Tensor [2, length] of two rows, at least one of which is computed or omitted."""
        rows = []
        for value, number in ((first, 1.0), (second, 0.0)):
            if value is None:
                rows.append(
                    self.net.constant(f"{self.name}.{number:g}", np.full((1, length), number))
                )
            else:
                rows.append(self.weight(value, (1, length)))
        return self.net.concat(f"{self.name}.affine", rows, 0)


def axis_of(call: Call, value: Value, dim: int) -> int:
    """Normalise an axis to 0 or more.

    Raises:
        UnsupportedError: There is no such axis.
    """
    rank = len(call.shape(value))
    if not -rank <= dim < rank:
        raise UnsupportedError(f"axis {dim} does not exist in shape {list(call.shape(value))}")
    return dim % rank


def positions_of(
    call: Call, x: Value, dim: int, start: int | None, end: int | None, step: int
) -> tuple[int, range]:
    """Axis of a slice, and the positions of its elements along that axis."""
    axis = axis_of(call, x, dim)
    return axis, range(*slice(start, end, step).indices(call.shape(x)[axis]))


def axes_of(call: Call, value: Value, dims: Sequence[int]) -> list[int]:
    """Normalise axes to 0 or more, which must differ.

    Raises:
        UnsupportedError: An axis does not exist, or is given twice.
    """
    axes = [axis_of(call, value, dim) for dim in dims]
    if len(set(axes)) != len(axes):
        raise UnsupportedError(f"its axes {list(dims)} name one twice")
    return axes


def plain(argument: Mapping[str, Any], values: Mapping[str, Any]) -> Any:
    """Convert an argument of the file to a number, a text, or the values of its tensors.

    Raises:
        UnsupportedError: No rule accepts the argument's type.
    """
    ((key, value),) = argument.items()
    if key == "as_none":
        return None
    if key in _PLAIN and type(value) in (_PLAIN[key], int) and type(value) is not bool:
        return _bounded(value) if isinstance(value, int) else value
    if key == "as_float" and value in ("Infinity", "-Infinity"):
        return float(value)
    if key == "as_bool" and isinstance(value, bool):
        return value
    if key in _LISTS and isinstance(value, list):
        if all(type(entry) in (_LISTS[key], int) for entry in value):
            return tuple(_bounded(e) if isinstance(e, int) else e for e in value)
    if key == "as_tensor":
        return values[value["name"]]
    if key == "as_tensors":
        return tuple(values[each["name"]] for each in value)
    if key == "as_optional_tensors":
        given = [each.get("as_tensor") for each in value]
        return tuple(None if each is None else values[each["name"]] for each in given)
    if key in ("as_sym_int", "as_sym_ints"):
        sizes = value if isinstance(value, list) else [value]
        numbers = tuple(size["as_int"] for size in sizes if "as_int" in size)
        if len(numbers) != len(sizes):
            raise UnsupportedError(
                "it depends on a size that numbers decide: leave open the batch alone, axis 0 of "
                "each input"
            )
        return numbers if isinstance(value, list) else numbers[0]
    raise UnsupportedError(f"it has an argument of the type {key!r:.40}")


def _bounded(value: int) -> int:
    if abs(value) > _LARGEST_INTEGER:
        raise UnsupportedError(f"it has the argument {value}, which is too large")
    return value
