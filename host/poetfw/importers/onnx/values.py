# SPDX-License-Identifier: Apache-2.0
"""What the names in an ONNX graph stand for while it is translated."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from poetfw.errors import cut
from poetfw.importers.network import Network
from poetfw.importers.refusal import UnsupportedError
from poetfw.models import GraphBuilder

_LONGEST_NAME = 60
"""Characters of a name that a message shows."""

_LARGEST_SHAPE = 16
"""Integers in a model are shapes and axes: longer ones are not what poetfw takes them for."""

_LARGEST_INTEGER = 2**31 - 1
"""No extent, axis, stride or padding is larger, nor any below 0 smaller than its negative."""


@dataclass(frozen=True)
class Node:
    """A node of an ONNX graph, in plain values.

    Attributes:
        name: its name, or that of its output where it has none.
        kind: ONNX's name of the operator, with its domain unless that is ONNX's own.
        inputs: names of its inputs, "" for one left out.
        outputs: names of its outputs, "" for one left out.
        attributes: its attributes, text decoded.
        flaw: what is wrong with an attribute, so that no rule may read them; None where all are
            well.
    """

    name: str
    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    flaw: str | None = None

    @staticmethod
    def of(proto: onnx.NodeProto) -> Node:
        """The node that ONNX's structure holds."""
        domain = proto.domain if proto.domain not in ("", "ai.onnx") else ""
        kind = f"{domain}.{proto.op_type}" if domain else proto.op_type
        return Node(
            name=proto.name or next(filter(None, proto.output), proto.op_type),
            kind=kind,
            inputs=tuple(proto.input),
            outputs=tuple(proto.output),
            attributes={attribute.name: _plain(attribute) for attribute in proto.attribute},
            flaw=next(filter(None, (_flaw(kind, a) for a in proto.attribute)), None),
        )

    @property
    def output(self) -> str:
        """Name of its first output."""
        return self.outputs[0]

    def has_input(self, position: int) -> bool:
        """Whether an optional input is given."""
        return position < len(self.inputs) and self.inputs[position] != ""

    def expect(self, name: str, default: object, *accepted: object) -> None:
        """Check that an attribute has one of the values that poetfw can handle.

        Raises:
            UnsupportedError: it has another one.
        """
        value = self.attributes.get(name, default)
        if value not in accepted:
            raise UnsupportedError(
                f"{name} is {value!r}, but must be {' or '.join(map(repr, accepted))}"
            )


def _flaw(kind: str, attribute: onnx.AttributeProto) -> str | None:
    """Why no rule can use an attribute; None where one can."""
    if attribute.ref_attr_name:
        return (
            f"{attribute.name} stands for {cut(repr(attribute.ref_attr_name), _LONGEST_NAME)}, an "
            "attribute of a function that the node is not in"
        )
    numbers = (*attribute.floats, attribute.f)
    if not all(map(math.isfinite, numbers)):
        return f"{attribute.name} holds NaN or infinity"
    if kind != "Constant":  # whose integers may be the open end of a slice
        return _too_large(attribute.name, (*attribute.ints, attribute.i))
    return None


def _too_large(name: str, integers: Sequence[int]) -> str | None:
    for value in integers:
        if abs(value) > _LARGEST_INTEGER:
            return f"{name} holds {value}, which is beyond {_LARGEST_INTEGER}"
    return None


def _plain(attribute: onnx.AttributeProto) -> Any:
    """An attribute's value; None where it has none of a type that ONNX defines."""
    try:
        value = onnx.helper.get_attribute_value(attribute)
    except ValueError:
        return None
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


class Values:
    """What each name stands for: a tensor of the graph being built, or a constant.

    Attributes:
        net: what is built.
        file_batch: the batch that the file was written for; None where it is left open.
        output: name of the graph's output.
        opset: the version of ONNX's operators that the file uses.
    """

    def __init__(
        self,
        graph: onnx.GraphProto,
        nodes: Sequence[Node],
        builder: GraphBuilder,
        file_batch: int | None,
        loss: str,
        opset: int,
    ) -> None:
        self.net = Network(builder, loss)
        self.file_batch = file_batch
        self.output = graph.output[0].name
        self.opset = opset
        self._constants = {tensor.name: tensor for tensor in graph.initializer}
        self._weights = frozenset(self._constants)
        self._tensors: dict[str, str] = {}
        self._readers: dict[str, list[Node]] = {}
        for node in nodes:
            for name in node.inputs:
                self._readers.setdefault(name, []).append(node)

    def bind(self, name: str, tensor: str) -> None:
        """Let a name stand for a tensor of the graph being built."""
        self._tensors[name] = tensor

    def bind_constant(self, name: str, constant: onnx.TensorProto) -> None:
        """Let a name stand for a constant."""
        self._constants[name] = constant

    def is_bound(self, name: str) -> bool:
        """Whether the name stands for anything yet."""
        return name in self._tensors or name in self._constants

    def is_constant(self, name: str) -> bool:
        """Whether the name stands for a constant."""
        return name in self._constants

    @property
    def builder(self) -> GraphBuilder:
        """The graph being built."""
        return self.net.builder

    def tensor(self, name: str) -> str:
        """The tensor that a name stands for.

        Raises:
            UnsupportedError: it is a constant.
        """
        if name in self._constants:
            raise UnsupportedError(f"its input {name!r} is a constant")
        return self._tensors[name]

    def operand(self, name: str) -> str:
        """The tensor that a name stands for.

        An initializer becomes a parameter in its own shape, unless it is a single number: such
        numbers, and what nodes called Constant hold, are parts of the network.

        Raises:
            UnsupportedError: it is a constant that is not float32.
        """
        if name not in self._constants:
            return self._tensors[name]
        values = self.floats(name)
        if name in self._weights and values.size > 1:
            return self.parameter((name,), values)
        return self.net.constant(name, values.reshape(values.shape or (1,)))

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of the tensor that a name stands for."""
        return self.builder.shape(self.tensor(name))

    def type_proto(self, name: str) -> onnx.TypeProto:
        """ONNX's own words for the type and shape that a bound name stands for."""
        if name in self._constants:
            constant = self._constants[name]
            return helper.make_tensor_type_proto(constant.data_type, constant.dims)
        return helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, self.shape(name))

    def constant_proto(self, name: str) -> onnx.TensorProto:
        """The constant that a name stands for."""
        return self._constants[name]

    def integers(self, name: str, *, open_ended: bool = False) -> tuple[int, ...]:
        """The integers that a name stands for.

        Args:
            name: of a constant.
            open_ended: whether they may be as large as they like, as the ends of slices are.

        Raises:
            UnsupportedError: it is not a constant, holds something else, or an integer that is
                larger than any extent.
        """
        integers = tuple(int(value) for value in self.integer_array(name).reshape(-1))
        flaw = None if open_ended else _too_large(f"its input {name!r}", integers)
        if flaw is not None:
            raise UnsupportedError(flaw)
        return integers

    def integer_array(self, name: str) -> NDArray[np.int64]:
        """The integers that a name stands for, in their shape, as large as they like.

        Raises:
            UnsupportedError: it is not a constant, or holds something else.
        """
        array = self._array(name, onnx.TensorProto.INT64, onnx.TensorProto.INT32)
        if array.size > _LARGEST_SHAPE:
            raise UnsupportedError(f"its input {name!r} has {array.size} entries, like no shape")
        return array.astype(np.int64)

    def number(self, name: str) -> float:
        """The single float32 number that a name stands for.

        Raises:
            UnsupportedError: it is not a constant, or holds something else.
        """
        array = self.floats(name)
        if array.size != 1:
            raise UnsupportedError(f"its input {name!r} is not a single number")
        return float(array.reshape(-1)[0])

    def floats(self, name: str) -> NDArray[np.float32]:
        """The float32 array that a name stands for.

        Raises:
            UnsupportedError: it is not a constant, or holds something else.
        """
        array = self._array(name, onnx.TensorProto.FLOAT)
        if not np.isfinite(array).all():
            raise UnsupportedError(f"its weights {name!r} hold NaN or infinity")
        return array.astype(np.float32)

    def parameter(self, names: Sequence[str], values: NDArray[np.float32], form: str = "") -> str:
        """The tensor that is trained from these constants; see `Network.parameter`."""
        return self.net.parameter([(name,) for name in names], values, self._dims(names), form)

    def state(self, names: Sequence[str], values: NDArray[np.float32]) -> str:
        """The tensor that starts from these constants and follows training."""
        return self.net.parameter(
            [(name,) for name in names], values, self._dims(names), state=True
        )

    def _dims(self, names: Sequence[str]) -> list[tuple[int, ...]]:
        return [tuple(map(int, self._constants[name].dims)) for name in names]

    def reader(self, name: str) -> Node | None:
        """The only node that reads a name; None where there are others, or it is the output."""
        readers = self._readers.get(name, [])
        return readers[0] if len(readers) == 1 and name != self.output else None

    def expect_unread(self, names: Sequence[str]) -> None:
        """Check that nothing reads these outputs.

        Raises:
            UnsupportedError: something does.
        """
        for name in filter(None, names):
            if name in self._readers or name == self.output:
                raise UnsupportedError(f"its output {name!r} is used; only the first may be")

    def _array(self, name: str, *types: int) -> NDArray[Any]:
        if name not in self._constants:
            raise UnsupportedError(f"its input {name!r} must be a constant")
        proto = self._constants[name]
        if proto.data_type not in types:
            actual, wanted = (
                onnx.TensorProto.DataType.Name(number) for number in (proto.data_type, types[0])
            )
            raise UnsupportedError(f"its input {name!r} is {actual}, but must be {wanted}")
        try:
            array: NDArray[Any] = numpy_helper.to_array(proto)
        except (ValueError, TypeError) as error:
            raise UnsupportedError(
                f"the data of {name!r} do not fill its shape {list(proto.dims)}"
            ) from error
        return array
