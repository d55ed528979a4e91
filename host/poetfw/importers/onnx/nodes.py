# SPDX-License-Identifier: Apache-2.0
"""Nodes of an ONNX graph as plain values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx

from poetfw.common.errors import cut
from poetfw.importers.onnx.origins import is_detached
from poetfw.importers.refusal import UnsupportedError

_LONGEST_NAME = 60
"""Most characters of a name in a message."""
_LARGEST_INTEGER = 2**31 - 1
"""Largest magnitude of an extent, axis, stride or padding."""


@dataclass(frozen=True)
class OnnxNode:
    """A node of an ONNX graph as plain values.

    Attributes:
        name: name of the node, or of its output if it has none.
        kind: ONNX's operator name, prefixed by its domain unless it is ONNX's own.
        inputs: names of inputs; "" for an omitted one.
        outputs: names of outputs; "" for an omitted one.
        attributes: attributes by name, with text decoded.
        flaw: reason why the attributes are unusable; None if they are valid.
        detached: True if no gradient passes through it.
    """

    name: str
    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    flaw: str | None = None
    detached: bool = False

    @staticmethod
    def of(proto: onnx.NodeProto) -> OnnxNode:
        """Convert a node from ONNX's structure."""
        domain = proto.domain if proto.domain not in ("", "ai.onnx") else ""
        kind = f"{domain}.{proto.op_type}" if domain else proto.op_type
        return OnnxNode(
            name=proto.name or next(filter(None, proto.output), proto.op_type),
            kind=kind,
            inputs=tuple(proto.input),
            outputs=tuple(proto.output),
            attributes={attribute.name: _plain(attribute) for attribute in proto.attribute},
            flaw=next(filter(None, (_flaw(kind, a) for a in proto.attribute)), None),
            detached=is_detached(proto),
        )

    @property
    def output(self) -> str:
        """Name of the first output."""
        return self.outputs[0]

    def has_input(self, position: int) -> bool:
        """True if an optional input is given."""
        return position < len(self.inputs) and self.inputs[position] != ""

    def expect(self, name: str, default: object, *accepted: object) -> None:
        """Check that an attribute has one of the values that poetfw supports.

        Raises:
            UnsupportedError: It has another value.
        """
        value = self.attributes.get(name, default)
        if value not in accepted:
            raise UnsupportedError(
                f"{name} is {value!r}, but must be {' or '.join(map(repr, accepted))}"
            )


def _flaw(kind: str, attribute: onnx.AttributeProto) -> str | None:
    """Reason why an attribute is unusable; None if it is valid."""
    if attribute.ref_attr_name:
        return (
            f"{attribute.name} stands for {cut(repr(attribute.ref_attr_name), _LONGEST_NAME)}, an "
            "attribute of a function that the node is not in"
        )
    numbers = (*attribute.floats, attribute.f)
    if not all(map(math.isfinite, numbers)):
        return f"{attribute.name} holds NaN or infinity"
    if kind != "Constant":  # its integers may be the open end of a slice
        return too_large(attribute.name, (*attribute.ints, attribute.i))
    return None


def too_large(name: str, integers: Sequence[int]) -> str | None:
    """Reason why integers are unusable; None if none is too large."""
    for value in integers:
        if abs(value) > _LARGEST_INTEGER:
            return f"{name} holds {value}, which is beyond {_LARGEST_INTEGER}"
    return None


def _plain(attribute: onnx.AttributeProto) -> Any:
    """Value of an attribute; None if its type is not one that ONNX defines."""
    try:
        value = onnx.helper.get_attribute_value(attribute)
    except ValueError:
        return None
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
