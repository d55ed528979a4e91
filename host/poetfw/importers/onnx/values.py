# SPDX-License-Identifier: Apache-2.0
"""Meanings of names in an ONNX graph during translation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from poetfw.common.errors import ModelError, cut, listed
from poetfw.importers.network import HIDDEN, Network
from poetfw.importers.onnx.folding import EXPORT
from poetfw.importers.onnx.nodes import OnnxNode, too_large
from poetfw.importers.onnx.origins import Origins
from poetfw.importers.onnx.roles import Doubt, InitializerRoles, expect_no_doubt
from poetfw.importers.onnx.types import OTHER_FLOATS
from poetfw.importers.refusal import UnsupportedError
from poetfw.ir import Dtype
from poetfw.models import GraphBuilder
from poetfw.training import TrainedNames

_LARGEST_SHAPE = 16
"""Most entries of an integer constant: integers in a model are shapes and axes."""


class Values:
    """Meaning of each name: a tensor of the graph under construction, or a constant.

    Attributes:
        net: network under construction.
        file_batch: batch size in the file; None if unspecified.
        outputs: names of the graph's outputs.
        opset: opset version of the file.
        chosen: what the user trains and freezes.
        doubts: what training depends on, and neither the file nor the user says.
        from_torch: True if PyTorch wrote the file.
        shows_mode: True once a node is found in training mode.
    """

    def __init__(
        self,
        graph: onnx.GraphProto,
        nodes: Sequence[OnnxNode],
        builder: GraphBuilder,
        file_batch: int | None,
        loss: str,
        opset: int,
        chosen: TrainedNames,
        *,
        from_torch: bool,
    ) -> None:
        self.net = Network(builder, loss)
        self.file_batch = file_batch
        self.outputs = tuple(value.name for value in graph.output)
        self.opset = opset
        self._constants = {tensor.name: tensor for tensor in graph.initializer}
        self._origins = Origins.of(graph)
        self.from_torch = from_torch
        roles = InitializerRoles.of(
            graph, nodes, self._origins, opset, chosen, from_torch=from_torch
        )
        self._weights, self._held = set(roles.weights), set(roles.held & roles.weights)
        self._still = sorted(roles.held)
        self.chosen = chosen
        self.doubts = [*roles.doubts]
        self.shows_mode = False
        self._used: set[str] = set()
        self._turned: dict[str, str] = {}
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
    def constants(self) -> tuple[str, ...]:
        """Names of the author's tensors that stay as they are."""
        return tuple(dict.fromkeys(self._still))

    @property
    def notes_kinds(self) -> bool:
        """True if the file notes the kinds of its tensors and the modes of its norms."""
        return self._origins.noted

    def padding(self, node: OnnxNode) -> int | None:
        """Row of a table that is not trained, as the file notes it at the lookup."""
        return self._origins.padding.get(node.output)

    def keep_statistics(self, node: OnnxNode) -> None:
        """Note that a batch norm keeps its statistics; a doubt unless file or user tell that."""
        names = node.inputs[1:5]
        self._still += names[2:]
        if not self.notes_kinds and self.chosen.says(*names, one_by_one=True) is None:
            self.doubts.append(Doubt(names[2], "statistics"))

    def expect_no_doubt(self) -> None:
        """Check that file and user tell everything that training depends on.

        If one node is in training mode, the exporter kept modes: the others are meant as they are.

        Raises:
            ModelError: Something is left in doubt.
        """
        left = [each for each in self.doubts if not (self.shows_mode and each.kind == "statistics")]
        expect_no_doubt(left, from_torch=self.from_torch)

    @property
    def _shared(self) -> list[str]:
        """Weights that several nodes read, where the file does not note what they read."""
        return [
            name
            for name in self._used & self._weights
            if self._kind(name) is None and not self._origins.folded.get(name)
            if self._origins.noted
            or not self.from_torch  # each of equal tensors has a name of its own there
            if sum(node.kind != "Identity" for node in self._readers.get(name, ())) > 1
        ]

    def expect_apart(self) -> None:
        """Check that no weights are shared because they begin with the same numbers.

        Raises:
            ModelError: A file notes that weights stand for others, or weights that it does not note
                anything of are shared, and all the same number.
        """
        noted = self._used.union(self._origins.inputs)
        apart = [name for name in noted if self._origins.stands_for_others(name)]
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
        return (
            name not in self._weights
            or name in self._held
            or self._constants[name].data_type != onnx.TensorProto.FLOAT
        )

    def is_held(self, name: str) -> bool:
        """True for a tensor that the user does not train, and that may be a weight."""
        return name in self._held and name in self._constants

    def copy(self, name: str, source: str, constant: onnx.TensorProto | None = None) -> None:
        """Bind a name to a copy of a constant, or to one derived from it."""
        self._constants[name] = constant or self._constants[source]
        for names in (self._weights, self._held):
            if source in names:
                names.add(name)

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

    def weight(self, name: str) -> str:
        """Tensor bound to a name.

        A weight becomes a parameter of its own shape; what cannot be one is a constant.

        Raises:
            UnsupportedError: The name is bound to a constant that is not float32.
        """
        if name in self._turned:
            source = self.weight(self._turned[name])
            self._tensors[name] = self.net.permute(name, source, (1, 0))
            del self._turned[name]
        if name not in self._constants:
            return self._tensors[name]
        if self.is_fixed(name) and not self.is_held(name):
            values = self.masks(name)
            return self.net.constant(name, values.reshape(values.shape or (1,)))
        values = self.floats(name)
        values = values.reshape(values.shape or (1,))
        alike = values.ndim > 1 and not np.ptp(values, axis=0).any()
        made = "." not in name and len(values) == self.file_batch and self._kind(name) != "p"
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
        flaw = None if open_ended else too_large(f"its input {name!r}", integers)
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
            UnsupportedError: It is not a single float32 constant, or may be a weight.
        """
        self.expect_fixed(name)
        array = self.floats(name)
        if array.size != 1:
            raise UnsupportedError(f"its input {name!r} is not a single number")
        return float(array.reshape(-1)[0])

    def expect_fixed(self, name: str) -> None:
        """Check that a number, which poetfw cannot train where it is read, is not a weight.

        Raises:
            UnsupportedError: It may be one.
        """
        if name in self._constants and not self.is_fixed(name):
            raise UnsupportedError(
                f"its input {name!r:.60} may be a weight, and poetfw does not train it there: "
                f"--freeze {name!r:.60} if it is a constant"
            )

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
        trained = not self._held.issuperset(names)
        for name in names:
            self._expect_stored(name)
        self._used.update(names)
        listed = [(name,) for name in names]
        return self.net.parameter(listed, values, self._dims(names), form, trained=trained)

    def _expect_stored(self, name: str) -> None:
        """Check that the exporter did not calculate a weight from others."""
        if name not in self._held and self._origins.is_calculated(name):
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
        held = [self.is_held(name) for name in names]
        if any(held) and not all(held):
            fixed = [is_fixed or is_held for is_fixed, is_held in zip(fixed, held, strict=True)]
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
        return name not in self._weights and bool((self.floats(name) == number).all())

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
