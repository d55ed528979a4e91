# SPDX-License-Identifier: Apache-2.0
"""Reads an untrusted `.pt2` file: a zip of JSON and raw bytes.

Neither PyTorch nor pickle is used: pickled weights are refused, and the pickled sample inputs in
every such file are never opened.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray
from pydantic import BaseModel, ValidationError

from poetfw.common.errors import ModelError, cut
from poetfw.common.reading import LARGEST_FILE_BYTES as LARGEST_JSON_BYTES
from poetfw.common.reading import first_flaw, parse_json
from poetfw.importers import archive
from poetfw.importers.float32 import OPTION, rounded
from poetfw.importers.torch_export import schema
from poetfw.importers.torch_export.open_sizes import with_batch
from poetfw.importers.torch_export.regions import opened
from poetfw.importers.torch_export.types import STORED, in_float32, values_of

LARGEST_FILE_BYTES = 1 << 30
"""Most bytes of a file's weights together, unpacked."""
SAVE_AGAIN = "save it with torch.export.save(torch.export.export(net.train(), (x,)), 'net.pt2')"
_MODEL = "models/model.json"
_NUMBERS = {
    schema.UINT8: "u1",
    schema.INT8: "i1",
    schema.LONG: "<i8",
    schema.FLOAT: "<f4",
    schema.BOOL: "?",
}

_Model = TypeVar("_Model", bound=BaseModel)


@dataclass(frozen=True)
class Weight:
    """A tensor stored in the file.

    Attributes:
        names: names in the state dict; several if the tensor is shared.
        values: float32, int64, int8, uint8 or bool elements.
        is_parameter: True for a parameter, False for a buffer.
        trained: True for a parameter that requires a gradient.
    """

    names: tuple[str, ...]
    values: NDArray[np.generic]
    is_parameter: bool = False
    trained: bool = False


@dataclass(frozen=True)
class Exported:
    """Content of an exported file.

    Attributes:
        program: exported program.
        weights: stored tensors by the name of the graph's input; a shared tensor is one object.
    """

    program: schema.ExportedProgram
    weights: Mapping[str, Weight]


def read_program(path: Path, batch: int, *, as_float32: bool = False) -> Exported:
    """Read the program in a file, with its weights.

    Args:
        path: path of the file.
        batch: number of samples in a batch, for a file that leaves it open.
        as_float32: True to convert float64, float16 and bfloat16 to float32.

    Raises:
        ModelError: The file cannot be read, is not such a file or has another schema version, or
            its weights are pickled, too large or of the wrong length, or float32 cannot hold them.
    """
    try:
        if not path.is_file():
            raise ModelError(f"{path}: there is no such file")
        with zipfile.ZipFile(path) as opened:
            return _Archive(path, opened, as_float32=as_float32).read(batch)
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror or error}") from error
    except ValidationError as error:
        raise ModelError(
            f"{path}: not a program of torch.export, or damaged: {first_flaw(error)}",
            SAVE_AGAIN,
        ) from error
    except archive.MALFORMED as error:
        raise ModelError(
            f"{path}: not a .pt2 file of torch.export, or damaged: {cut(str(error), 200)}",
            SAVE_AGAIN,
        ) from error


class _Archive:
    """The zip file, whose members lie in one folder."""

    def __init__(self, path: Path, opened: zipfile.ZipFile, *, as_float32: bool) -> None:
        self._path = path
        self._stored = _NUMBERS | (STORED if as_float32 else {})
        self._as_float32 = as_float32
        self._opened = opened
        self._room = LARGEST_FILE_BYTES
        self._names = {info.filename: info for info in opened.infolist()}
        models = [name for name in self._names if name.endswith(f"/{_MODEL}")]
        if len(models) != 1:
            old = any("serialized_exported_program" in name for name in self._names)
            pickled = any(name.endswith("data.pkl") for name in self._names)
            what = (
                "was saved by an older PyTorch, in a format that poetfw does not read"
                if old
                else "is pickled, which poetfw never opens"
                if pickled
                else f"holds {len(models)} models: poetfw reads files of 1"
            )
            raise ModelError(f"{path}: the file {what}", SAVE_AGAIN)
        self._folder = models[0].removesuffix(_MODEL)

    def read(self, batch: int) -> Exported:
        """Read everything except the sample inputs, for a given number of samples."""
        if self._bytes("byteorder", 16).strip() != b"little":
            raise ModelError(f"{self._path}: its numbers are not little-endian")
        document = parse_json(self._bytes(_MODEL, LARGEST_JSON_BYTES))
        if not isinstance(document, dict):
            raise ValueError("its model.json is not an object")
        version = schema.Version.model_validate(document.get("schema_version"))
        if version.major != schema.SCHEMA_MAJOR:
            raise ModelError(
                f"{self._path}: the program has schema version {version.major}.{version.minor}; "
                f"poetfw reads version {schema.SCHEMA_MAJOR}, which PyTorch 2.13 writes",
                SAVE_AGAIN,
            )
        with suppress(LookupError, TypeError, AttributeError):  # malformed, which the schema names
            document = with_batch(document, batch)
        program = schema.ExportedProgram.model_validate(document)
        module = program.graph_module
        graph = opened(module.graph)
        graph = in_float32(graph) if self._as_float32 else graph
        module = module.model_copy(update={"graph": graph})
        program = program.model_copy(update={"graph_module": module})
        if program.verifiers and program.verifiers != ["TRAINING"]:
            raise ModelError(
                f"{self._path}: the program is in the dialect {program.verifiers[0]!r:.40}, in "
                "which it can no longer be trained",
                "save what torch.export.export returns, without run_decompositions()",
            )
        return self._with_weights(program)

    def _with_weights(self, program: schema.ExportedProgram) -> Exported:
        stores = {
            folder: self._json(f"data/{folder}/{file}", schema.Weights).config
            for folder, file in (
                ("weights", "model_weights_config.json"),
                ("constants", "model_constants_config.json"),
            )
        }
        inputs: dict[str, _Place] = {}
        names: dict[_Place, list[str]] = {}
        parameters: set[_Place] = set()
        for spec in program.graph_module.signature.input_specs:
            named = spec.named
            if named is None:
                continue
            folder = next((f for f, config in stores.items() if named.name in config), None)
            if folder is None:
                raise ModelError(f"{self._path}: the weights {named.name!r:.120} are not in it")
            stored = stores[folder][named.name]
            place = _Place(f"data/{folder}/{stored.path_name}", stored.tensor_meta)
            if stored.use_pickle:
                raise ModelError(
                    f"{self._path}: the weights {named.name!r:.120} are pickled, which poetfw "
                    "never opens",
                    "export a network of ordinary tensors, on the CPU",
                )
            inputs[named.argument] = place
            names.setdefault(place, []).append(named.name)
            if named.is_parameter:
                parameters.add(place)
        files = [place.file for place in names]
        for place in names:
            if files.count(place.file) > 1 and place in parameters:
                raise ModelError(
                    f"{self._path}: the weights {names[place][0]!r:.120} share a part of their "
                    "bytes with others",
                    "give each parameter a tensor of its own",
                )
        weights = {
            place: Weight(
                tuple(each),
                self._values(place, each[0]),
                is_parameter=place in parameters,
                trained=place in parameters and place.meta.requires_grad,
            )
            for place, each in names.items()
        }
        return Exported(program, {name: weights[place] for name, place in inputs.items()})

    def _values(self, place: _Place, name: str) -> NDArray[np.generic]:
        """Elements of a tensor, in its shape, from the bytes of its storage."""
        meta = place.meta
        shape, strides = _numbers(meta.sizes), _numbers(meta.strides)
        offset = meta.storage_offset.as_int
        flaw = None
        other = meta.dtype in schema.OTHER_FLOATS
        if meta.dtype not in self._stored:
            flaw = f"are {schema.DTYPES.get(meta.dtype, 'of an unknown type')}"
        elif meta.layout != schema.STRIDED:
            flaw = "are sparse"
        elif shape is None or strides is None or offset is None or len(shape) != len(strides):
            flaw = "have a shape that makes no sense"
        elif min((*shape, *strides, offset), default=0) < 0 or 0 in shape:
            flaw = f"have shape {list(shape)} and strides {list(strides)}"
        if flaw is not None:
            raise ModelError(
                f"{self._path}: the weights {name!r:.120} {flaw}; poetfw reads float32",
                "export the network in float32: net.float()",
                *([OPTION] if other and not self._as_float32 else []),
            )
        assert shape is not None
        assert strides is not None
        assert offset is not None
        raw = self._bytes(place.file, self._room)
        self._room -= len(raw)
        dtype = np.dtype(self._stored[meta.dtype])
        elements = np.frombuffer(raw[: len(raw) - len(raw) % dtype.itemsize], dtype)
        last = offset + sum((e - 1) * s for e, s in zip(shape, strides, strict=True))
        # A file holds the whole storage; the tensor must lie within it.
        if last >= len(elements) or math.prod(shape) > len(elements):
            raise ModelError(
                f"{self._path}: the weights {name!r:.120} need {last + 1:,} numbers for shape "
                f"{list(shape)}, which its {len(raw):,} bytes do not hold"
            )
        steps = tuple(stride * elements.itemsize for stride in strides)
        view = as_strided(elements[offset:], shape, steps, writeable=False)
        values = np.ascontiguousarray(view).reshape(shape)
        return rounded(values_of(values, meta.dtype), name) if other else values

    def _json(self, name: str, model: type[_Model]) -> _Model:
        return model.model_validate(parse_json(self._bytes(name, LARGEST_JSON_BYTES)))

    def _bytes(self, name: str, most_bytes: int) -> bytes:
        info = self._names.get(self._folder + name)
        if info is None:
            raise ModelError(f"{self._path}: {name[:200]!r} is not in it", SAVE_AGAIN)
        return archive.read_member(self._opened, info, most_bytes)


@dataclass(frozen=True, slots=True)
class _Place:
    """Location of a tensor's bytes."""

    file: str
    meta: schema.TensorMeta


def _numbers(sizes: Sequence[schema.Size]) -> tuple[int, ...] | None:
    """Sizes as numbers; None if one is unspecified."""
    numbers = tuple(size.as_int for size in sizes if size.as_int is not None)
    return numbers if len(numbers) == len(sizes) else None
