# SPDX-License-Identifier: Apache-2.0
"""Reads an untrusted ONNX file and its external weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath

import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from poetfw.common.errors import ModelError
from poetfw.importers.onnx.types import convert_to_float32

LARGEST_FILE_BYTES = 1 << 30
"""Most bytes of a model, external weights included."""
ONNX_ERRORS = (
    onnx.checker.ValidationError,
    onnx.defs.SchemaError,
    onnx.shape_inference.InferenceError,
    ValueError,
    TypeError,
)
"""Exceptions that ONNX raises for an invalid model or an unknown operator."""
OPSETS = range(13, 22)
"""Supported opset versions."""
_OWN = ("", "ai.onnx")
"""Names of the domain of ONNX's own operators."""
_FOREIGN = "foreign"


def read_model(path: Path, *, as_float32: bool = False) -> onnx.ModelProto:
    """Read a file into ONNX's own structure, with external weights.

    Args:
        path: path of the file.
        as_float32: True to convert float64, float16 and bfloat16 to float32.

    Raises:
        ModelError: The file cannot be read, is not an ONNX model or too large, uses an opset
            outside `OPSETS`, or refers to weights outside its folder, or float32 cannot hold a
            weight.
    """
    model = onnx.ModelProto()
    try:
        if not path.is_file():
            raise ModelError(f"{path}: there is no such file")
        if path.stat().st_size > LARGEST_FILE_BYTES:
            raise ModelError(f"{path}: the file has more than {LARGEST_FILE_BYTES} bytes")
        model.ParseFromString(path.read_bytes())
    except (DecodeError, ValueError) as error:
        raise ModelError(f"{path}: not an ONNX model, or damaged") from error
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from error
    if not _is_text_valid(model):
        raise ModelError(f"{path}: not an ONNX model, or damaged: it holds text that is not UTF-8")
    if not model.graph.node:
        raise ModelError(f"{path}: not an ONNX model, or one without nodes")
    _check_opset(model, path)
    room = LARGEST_FILE_BYTES - path.stat().st_size
    for tensor in _tensors(model.graph):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            room -= _read_external(tensor, path, room)
    if as_float32:
        convert_to_float32(model)
    if model.producer_name == "pytorch":
        _separate_equal(model.graph)
    _separate_statistics(model.graph)
    return model


def _separate_equal(graph: onnx.GraphProto) -> None:
    """Give tensors of their own to names that PyTorch's older exporter lets stand for an equal one.

    It stores one of several equal tensors; an Identity of it stands for each other one.
    """
    values = {tensor.name: tensor for tensor in graph.initializer}
    kept = []
    for node in graph.node:
        equal = node.op_type == "Identity" and len(node.input) == len(node.output) == 1
        source = values.get(node.input[0]) if equal else None
        if source is None or node.output[0] in values:
            kept.append(node)
            continue
        copied = onnx.TensorProto()
        copied.CopyFrom(source)
        copied.name = node.output[0]
        graph.initializer.append(copied)
        values[copied.name] = copied
    if len(kept) < len(graph.node):
        nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in kept]
        del graph.node[:]
        graph.node.extend(nodes)


def _separate_statistics(graph: onnx.GraphProto) -> None:
    """Give running statistics tensors of their own where they share one with anything else.

    Exporters store equal tensors once, a mean and a bias of zeros among them, which training tells
    apart.
    """
    values = {tensor.name: tensor for tensor in graph.initializer}
    readings = Counter(name for node in graph.node for name in node.input)
    for node in graph.node:
        if node.op_type != "BatchNormalization" or len(node.input) != 5:
            continue
        for index, what in ((3, "mean"), (4, "var")):
            name = node.input[index]
            own = f"{node.output[0]}.running_{what}"
            if readings[name] > 1 and name in values and own not in values:
                copied = graph.initializer.add()
                copied.CopyFrom(values[name])
                copied.name = node.input[index] = own
                readings[name] -= 1


def check_model(model: onnx.ModelProto, path: Path) -> None:
    """Check a model by ONNX's rules, except for operators that ONNX does not know.

    Unknown operators are moved to a domain of their own, which has no rules.

    Raises:
        ModelError: The model is invalid.
    """
    version = opset(model)
    foreign = [
        node
        for node in model.graph.node
        if not onnx.defs.has(node.op_type, version, "" if node.domain in _OWN else node.domain)
    ]
    if foreign:
        model.opset_import.append(onnx.helper.make_opsetid(_FOREIGN, 1))
    for node in foreign:
        node.domain = _FOREIGN
    try:
        onnx.checker.check_model(model)
    except ONNX_ERRORS as error:
        reason = " ".join(str(error).split())
        raise ModelError(f"{path}: not a valid ONNX model: {reason:.400}") from error


def opset(model: onnx.ModelProto) -> int:
    """Opset version of a model; one of `OPSETS`."""
    return next(int(entry.version) for entry in model.opset_import if entry.domain in _OWN)


def _check_opset(model: onnx.ModelProto, path: Path) -> None:
    versions = [entry.version for entry in model.opset_import if entry.domain in _OWN]
    if len(versions) != 1 or versions[0] not in OPSETS:
        found = " and ".join(map(str, versions)) or "none"
        raise ModelError(
            f"{path}: the model uses opset {found}; poetfw reads {OPSETS[0]} to {OPSETS[-1]}",
            "convert it with onnx.version_converter.convert_version(model, 17)",
            "or export it again with opset_version=17",
        )


def _is_text_valid(message: Message) -> bool:
    """True if all text in a message is UTF-8; otherwise, protobuf returns bytes instead of str."""
    for field, value in message.ListFields():
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            parts = (value,) if isinstance(value, Message) else value
            if not all(map(_is_text_valid, parts)):
                return False
        elif field.type == FieldDescriptor.TYPE_STRING:
            texts = (value,) if isinstance(value, str | bytes) else value
            if not all(isinstance(text, str) for text in texts):
                return False
    return True


def _tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """All tensors that may hold weights."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t


def _read_external(tensor: onnx.TensorProto, path: Path, room: int) -> int:
    """Read a tensor's external bytes into it; returns their number."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    file = _contained(location, path, tensor.name)
    try:
        offset = int(entries.get("offset", 0))
        length = int(entries.get("length", file.stat().st_size - offset))
        if offset < 0 or length < 0 or offset + length > file.stat().st_size:
            raise ModelError(
                f"{path}: the weights {tensor.name!r} are bytes {offset} to {offset + length} of "
                f"{location!r}, which has {file.stat().st_size}"
            )
        if length > room:
            raise ModelError(f"{path}: the model has more than {LARGEST_FILE_BYTES} bytes")
        with file.open("rb") as stream:
            stream.seek(offset)
            tensor.raw_data = stream.read(length)
    except ValueError as error:
        raise ModelError(
            f"{path}: offset or length of the weights {tensor.name!r} is not a number"
        ) from error
    except OSError as error:
        raise ModelError(f"{path}: {location!r} cannot be read: {error.strerror}") from error
    tensor.data_location = onnx.TensorProto.DEFAULT
    del tensor.external_data[:]
    return length


def _contained(location: str, path: Path, name: str) -> Path:
    """Path of an external file, which must lie in the model's folder after resolving links."""
    try:
        folder = path.parent.resolve()
        inside = (
            location
            and "\0" not in location
            and not PurePosixPath(location).is_absolute()
            and not PureWindowsPath(location).anchor
            and ".." not in PureWindowsPath(location).parts
            and (folder / location).resolve().is_relative_to(folder)
        )
        present = inside and (folder / location).is_file()
    except (OSError, RuntimeError) as error:  # RuntimeError: pathlib's, for a loop of links
        reason = getattr(error, "strerror", None) or error
        raise ModelError(f"{path}: {location!r} cannot be read: {reason}") from error
    if not inside:
        raise ModelError(
            f"{path}: the weights {name!r} are said to be in {location!r}; poetfw reads only "
            "files in the model's own folder"
        )
    if not present:
        raise ModelError(
            f"{path}: the weights {name!r} should be in {location!r}, which is not there",
            "copy that file beside the model",
        )
    return folder / location
