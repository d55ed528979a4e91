# SPDX-License-Identifier: Apache-2.0
"""Meanings of names in an ONNX graph during translation."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from poetfw.common.errors import ModelError, cut, listed
from poetfw.importers.network import HIDDEN, Network
from poetfw.importers.onnx.folding import EXPORT
from poetfw.importers.onnx.origins import Origins
from poetfw.importers.onnx.types import OTHER_FLOATS
from poetfw.importers.refusal import UnsupportedError
from poetfw.ir import Dtype
from poetfw.models import GraphBuilder

_LONGEST_NAME = 60
"""Most characters of a name in a message."""

_MADE = re.compile(r"onnx::\w+_\d+|val_\d+|.*_output_\d+|.*Constant.*")
"""Names that PyTorch's exporters give to initializers they create."""
_NAMED = re.compile(r"(?!onnx::|val_\d)[A-Za-z_][\w.]*")
"""Names that the model's author may have given."""
_ANOTHER = "this is another network than the exported one, and a .pt2 file is the better way"

_LARGEST_SHAPE = 16
"""Most entries of an integer constant: integers in a model are shapes and axes."""

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
    """

    name: str
    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    flaw: str | None = None

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
        return _too_large(attribute.name, (*attribute.ints, attribute.i))
    return None


def _too_large(name: str, integers: Sequence[int]) -> str | None:
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


class Values:
    """Meaning of each name: a tensor of the graph under construction, or a constant.

    Attributes:
        net: network under construction.
        file_batch: batch size in the file; None if unspecified.
        output: name of the graph's output.
        opset: opset version of the file.
    """

    def __init__(
        self,
        graph: onnx.GraphProto,
        nodes: Sequence[OnnxNode],
        builder: GraphBuilder,
        file_batch: int | None,
        loss: str,
        opset: int,
    ) -> None:
        self.net = Network(builder, loss)
        self.file_batch = file_batch
        self.outputs = tuple(value.name for value in graph.output)
        self.opset = opset
        self._constants = {tensor.name: tensor for tensor in graph.initializer}
        self._origins = Origins.of(graph)
        self._weights = {name for name in self._constants if self._kind(name) in (None, "p")}
        self._used: set[str] = set()
        self._turned: dict[str, str] = {}
        self._operands: list[str] = []
        self._batched: set[str | None] = set()
        self._tensors: dict[str, str] = {}
        self._readers: dict[str, list[OnnxNode]] = {}
        for node in nodes:
            for name in node.inputs:
                self._readers.setdefault(name, []).append(node)

    def _kind(self, name: str) -> str | None:
        return self._origins.kind(name)

    def bind(self, name: str, tensor: str) -> None:
        """Bind a name to a tensor of the graph under construction."""
        self._tensors[name] = tensor

    def bind_input(self, name: str, tensor: str) -> None:
        """Let a name stand for an input of the graph being built."""
        self._tensors[name] = tensor
        self._batched.add(tensor)

    def bind_constant(self, name: str, constant: onnx.TensorProto) -> None:
        """Bind a name to a constant."""
        self._constants[name] = constant

    def is_bound(self, name: str) -> bool:
        """True if the name is bound."""
        return name in self._tensors or name in self._constants or name in self._turned

    def is_constant(self, name: str) -> bool:
        """True if the name is bound to a constant."""
        return name in self._constants

    def has_batch(self, tensor: str) -> bool:
        """True if axis 0 of a tensor is the batch and its size differs from the file's."""
        same = self.file_batch == self.net.shape(self.builder.input)[0]
        return tensor in self._batched and not same

    def expect_free_of_batch(self, factor: float) -> None:
        """Check that with another batch size than the file's, a factor does not depend on that.

        Raises:
            UnsupportedError: The factor is the file's batch size, or one over it.
        """
        asked, filed = self.net.shape(self.builder.input)[0], self.file_batch
        if filed not in (None, asked) and abs(factor) in (filed, np.float32(1 / (filed or 1))):
            raise UnsupportedError(
                f"its number {factor:g} may come from the file's batch size, {filed}: export it "
                f"with the batch that is trained with, {asked}, or leave the batch open"
            )

    def note_batch(self, node: OnnxNode) -> None:
        """Mark a node's outputs as batched if one of its inputs is."""
        if any(self._tensors.get(name) in self._batched for name in node.inputs):
            self._batched.update(filter(None, map(self._tensors.get, node.outputs)))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about possible differences from the network that the author meant."""
        said = list(self.net.warnings)
        if self._operands:
            said.append(
                "an ONNX file does not say which of its tensors are weights. Taken for weights: "
                f"{listed([repr(cut(name, 60)) for name in self._operands])}. If one is a "
                f"constant, --freeze it: else {_ANOTHER}"
            )
        shared = self._shared
        if shared:
            said.append(
                "PyTorch's exporters store equal weights once. Several layers share "
                f"{listed([repr(cut(name, 60)) for name in sorted(shared)])}: if they do not in "
                f"the network, {_ANOTHER}"
            )
        return tuple(dict.fromkeys(said))

    @property
    def _shared(self) -> list[str]:
        """Weights that several nodes read, where the file does not note what they read."""
        return [
            name
            for name in self._used & self._weights
            if self._kind(name) is None and not self._origins.folded.get(name)
            if sum(node.kind != "Identity" for node in self._readers.get(name, ())) > 1
        ]

    def expect_apart(self) -> None:
        """Check that no weights are shared because they begin with the same numbers.

        Raises:
            ModelError: A file notes that weights stand for others, or weights that it does not note
                anything of are shared, and all the same number.
        """
        apart = [name for name in self._used if self._origins.stands_for_others(name)]
        alike = [
            name
            for name in self._shared
            if self.floats(name).size > 1 and not np.ptp(self.floats(name))
        ]
        if not (apart or alike):
            return
        said = "does not say whether the network shares them"
        raise ModelError(
            "PyTorch's exporters store equal weights once, and several layers share "
            f"{listed([repr(cut(name, 60)) for name in sorted(apart or alike)])}: "
            + (
                "the network has them apart"
                if apart
                else f"all numbers are the same: the file {said}"
            ),
            *EXPORT,
        )

    def is_fixed(self, name: str) -> bool:
        """True if a name is bound to a constant that is not a weight, hence never trained."""
        if name not in self._constants:
            return False
        proto = self._constants[name]
        return (
            name not in self._weights
            or proto.data_type != onnx.TensorProto.FLOAT
            or (math.prod(proto.dims) <= 1 and self._kind(name) is None)
            or bool(np.isinf(self.array(name)).any())
        )

    def copy(self, name: str, source: str, constant: onnx.TensorProto | None = None) -> None:
        """Bind a name to a copy of a constant, or to one derived from it."""
        self._constants[name] = constant or self._constants[source]
        if source in self._weights:
            self._weights.add(name)

    def array(self, name: str) -> NDArray[Any]:
        """Constant bound to a name, of any type."""
        try:
            array: NDArray[Any] = numpy_helper.to_array(self._constants[name])
        except (ValueError, TypeError) as error:
            raise UnsupportedError(f"the data of {name!r} do not fill its shape") from error
        return array

    def turn(self, name: str, source: str) -> None:
        """Bind a name to the transpose of a weight matrix, which is created only when needed."""
        self._turned[name] = source

    def matrix(self, name: str) -> tuple[str, bool] | None:
        """Weight matrix bound to a name, and whether it is transposed; None for other tensors.

        Exporters store transposed copies of weights: of two matrices with equal values, only one is
        used.
        """
        if name in self._turned:
            return self._turned[name], True
        if name not in self._constants:
            return None
        proto = self._constants[name]
        if name in self._weights and len(proto.dims) == 2:
            for other in self._constants.values():
                if other.name == name:
                    break  # of two equal matrices, the first one is used
                turned = [other.dims[1], other.dims[0]] if len(other.dims) == 2 else []
                if turned != list(proto.dims):
                    continue
                if other.name in self._weights and other.data_type == proto.data_type:
                    ours, theirs = self.array(name), self.array(other.name)
                    if ours.size > 1 and np.ptp(ours) > 0 and np.array_equal(ours, theirs.T):
                        return other.name, True
        return name, False

    @property
    def builder(self) -> GraphBuilder:
        """Graph under construction."""
        return self.net.builder

    def tensor(self, name: str) -> str:
        """Tensor bound to a name, which must not be a constant.

        Raises:
            UnsupportedError: It is a constant.
        """
        if name in self._constants:
            raise UnsupportedError(f"its input {name!r} is a constant")
        return self.weight(name)

    def operand(self, name: str) -> str:
        """Tensor bound to a name, as an operand of arithmetic: see `weight`.

        An initializer may be a weight or a constant, such as a mask or a buffer, which ONNX does
        not distinguish: a warning lists those taken for weights.

        Raises:
            UnsupportedError: The name is bound to a constant that is not float32.
        """
        if name in self._constants and not self.is_fixed(name) and name not in self._operands:
            if _MADE.fullmatch(name) and not np.ptp(values := self.floats(name)):
                raise UnsupportedError(
                    f"all numbers of {name!r:.60} are {values.reshape(-1)[0]:g}: an ONNX file does "
                    "not say whether they are weights as they begin, or a constant: export it with "
                    "torch.export"
                )
            if self._kind(name) is None:
                self._operands.append(name)
        self.expect_number(name)
        return self.weight(name)

    def expect_number(self, name: str) -> None:
        """Warn of a single number that may be a weight.

        Raises:
            UnsupportedError: The exporter calculated it.
        """
        if name in self._weights:
            self._expect_stored(name)
        if name in self._weights and self.is_fixed(name) and _NAMED.fullmatch(name):
            self.net.warnings.append(
                f"the single number {name!r:.60} is not trained, since an ONNX file does not say "
                f"whether it is a weight. If it is one, {_ANOTHER}"
            )

    def weight(self, name: str) -> str:
        """Tensor bound to a name.

        An initializer becomes a parameter of its own shape, unless it is a single number: single
        numbers and values of Constant nodes are not trained.

        Raises:
            UnsupportedError: The name is bound to a constant that is not float32.
        """
        if name in self._turned:
            source = self.weight(self._turned[name])
            self._tensors[name] = self.net.permute(name, source, (1, 0))
            del self._turned[name]
        if name not in self._constants:
            return self._tensors[name]
        if self.is_fixed(name):
            values = self.masks(name)
            return self.net.constant(name, values.reshape(values.shape or (1,)))
        values = self.floats(name)
        values = values.reshape(values.shape or (1,))
        alike = values.ndim > 1 and not np.ptp(values, axis=0).any()
        made = "." not in name and len(values) == self.file_batch
        if alike and made and len(values) > 1:
            raise UnsupportedError(
                f"{name!r:.60} has a row for each of the file's {len(values)} samples, all alike: "
                "PyTorch's exporter makes such constants of expand() and zeros(), which the file "
                "does not tell apart: export it with torch.export"
            )
        return self.parameter((name,), values)

    def layer_weight(self, name: str) -> str:
        """Tensor of a layer's weight, which may be a single number."""
        if name in self._constants:
            return self.parameter((name,), self.floats(name))
        return self.weight(name)

    def masks(self, name: str) -> NDArray[np.float32]:
        """Float32 constant with finite numbers for infinities, so that 0 times them is 0."""
        values = self._array(name, onnx.TensorProto.FLOAT)
        if np.isnan(values).any():
            raise UnsupportedError(f"its weights {name!r} hold NaN or infinity")
        bounded: NDArray[np.float32] = np.clip(values, HIDDEN, -HIDDEN).astype(np.float32)
        return bounded

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of the tensor bound to a name, which must not be a constant."""
        return self.builder.shape(self.tensor(name))

    def dims(self, name: str) -> tuple[int, ...]:
        """Shape of the tensor or constant bound to a name."""
        if name in self._constants:
            return tuple(map(int, self._constants[name].dims))
        if name in self._turned:
            return self.dims(self._turned[name])[::-1]
        return self.builder.shape(self._tensors[name])

    def is_ids(self, tensor: str) -> bool:
        """True if a tensor holds ids, not numbers."""
        return self.builder.dtype(tensor) is Dtype.I32

    def type_proto(self, name: str) -> onnx.TypeProto:
        """Type and shape of a bound name, in ONNX's structure."""
        if name in self._constants:
            constant = self._constants[name]
            return helper.make_tensor_type_proto(constant.data_type, constant.dims)
        return helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, self.dims(name))

    def constant_proto(self, name: str) -> onnx.TensorProto:
        """Constant bound to a name, in ONNX's structure."""
        return self._constants[name]

    def integers(self, name: str, *, open_ended: bool = False) -> tuple[int, ...]:
        """Integers of a constant bound to a name.

        Args:
            name: name of a constant.
            open_ended: True to accept integers of any size, as at the ends of slices.

        Raises:
            UnsupportedError: The name is not bound to an integer constant, or an integer exceeds
                any extent.
        """
        integers = tuple(int(value) for value in self.integer_array(name).reshape(-1))
        flaw = None if open_ended else _too_large(f"its input {name!r}", integers)
        if flaw is not None:
            raise UnsupportedError(flaw)
        return integers

    def integer_array(self, name: str) -> NDArray[np.int64]:
        """Integers of a constant bound to a name, of any size, in their shape.

        Raises:
            UnsupportedError: The name is not bound to an integer constant.
        """
        array = self._array(name, onnx.TensorProto.INT64, onnx.TensorProto.INT32)
        if array.size > _LARGEST_SHAPE:
            raise UnsupportedError(f"its input {name!r} has {array.size} entries, like no shape")
        return array.astype(np.int64)

    def number(self, name: str) -> float:
        """Single float32 number bound to a name.

        Raises:
            UnsupportedError: The name is not bound to a single float32 constant.
        """
        array = self.floats(name)
        if array.size != 1:
            raise UnsupportedError(f"its input {name!r} is not a single number")
        return float(array.reshape(-1)[0])

    def floats(self, name: str) -> NDArray[np.float32]:
        """Float32 array bound to a name.

        Raises:
            UnsupportedError: The name is not bound to a finite float32 constant.
        """
        array = self._array(name, onnx.TensorProto.FLOAT)
        if not np.isfinite(array).all():
            raise UnsupportedError(f"its weights {name!r} hold NaN or infinity")
        return array.astype(np.float32)

    def parameter(self, names: Sequence[str], values: NDArray[np.float32], form: str = "") -> str:
        """Trained tensor made of constants; see `Network.parameter`.

        If none of them is an initializer, the result is a constant.
        """
        if self._weights.isdisjoint(names):
            return self.net.constant(names[0], values)
        for name in names:
            self._expect_stored(name)
        self._used.update(names)
        return self.net.parameter([(name,) for name in names], values, self._dims(names), form)

    def _expect_stored(self, name: str) -> None:
        """Check that the exporter did not calculate a weight from others."""
        if self._origins.is_calculated(name):
            raise UnsupportedError(
                f"{name!r:.60} is what PyTorch's exporter calculated from "
                f"{listed([repr(cut(each, 40)) for each in self._origins.folded[name]])}, which "
                "are then not trained: export it with torch.export"
            )

    def channels(self, names: Sequence[str], length: int) -> str:
        """Tensor [2, length] of a norm's scale and shift; a constant if the exporter made them.

        Raises:
            UnsupportedError: They have another length.
        """
        if any(name in self._tensors or name in self._turned for name in names):
            rows = [self.net.reshape(name, self.weight(name), (1, length)) for name in names]
            return self.net.concat(names[0], rows, 0)
        scale, shift = (self.floats(name).reshape(-1) for name in names)
        if len(scale) != length or len(shift) != length:
            raise UnsupportedError(f"its scale and bias do not have {length} elements each")
        both = np.stack([scale, shift])
        fixed = [self.is_neutral(name, number) for name, number in zip(names, (1, 0), strict=True)]
        if all(fixed):
            return self.net.constant(names[0], both)
        if any(fixed) and not self._weights.isdisjoint(names):
            rows = [
                self.net.constant(name, row.reshape(1, length))
                if is_fixed
                else self.net.reshape(name, self.layer_weight(name), (1, length))
                for name, row, is_fixed in zip(names, both, fixed, strict=True)
            ]
            return self.net.concat(names[0], rows, 0)
        return self.parameter(names, both)

    def is_neutral(self, name: str, number: float) -> bool:
        """True for the scale or shift of a norm without one: a constant that the exporter made."""
        if name not in self._constants:
            return False
        made = name not in self._weights or bool(_MADE.fullmatch(name))
        return made and bool((self.floats(name) == number).all())

    def state(self, names: Sequence[str], values: NDArray[np.float32]) -> str:
        """Persistent tensor that starts from constants and is updated in training."""
        return self.net.parameter(
            [(name,) for name in names], values, self._dims(names), state=True
        )

    def _dims(self, names: Sequence[str]) -> list[tuple[int, ...]]:
        return [tuple(map(int, self._constants[name].dims)) for name in names]

    def reader(self, name: str) -> OnnxNode | None:
        """The only node that reads a name; None if there are several or it is the output."""
        readers = self._readers.get(name, [])
        return readers[0] if len(readers) == 1 and name not in self.outputs else None

    def expect_unread(self, names: Sequence[str]) -> None:
        """Check that no node reads some outputs.

        Raises:
            UnsupportedError: One of them is read.
        """
        for name in filter(None, names):
            if name in self._readers or name in self.outputs:
                raise UnsupportedError(f"its output {name!r} is used; only the first may be")

    def _array(self, name: str, *types: int) -> NDArray[Any]:
        if name not in self._constants:
            raise UnsupportedError(f"its input {name!r} must be a constant")
        proto = self._constants[name]
        if proto.data_type not in types:
            actual, wanted = (
                onnx.TensorProto.DataType.Name(number) for number in (proto.data_type, types[0])
            )
            convertible = proto.data_type in OTHER_FLOATS and onnx.TensorProto.FLOAT in types
            advice = ": --as-float32 converts it" if convertible else ""
            raise UnsupportedError(f"its input {name!r} is {actual}, but must be {wanted}{advice}")
        try:
            array: NDArray[Any] = numpy_helper.to_array(proto)
        except (ValueError, TypeError) as error:
            raise UnsupportedError(
                f"the data of {name!r} do not fill its shape {list(proto.dims)}"
            ) from error
        return array
