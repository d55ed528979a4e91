# SPDX-License-Identifier: Apache-2.0
"""Files of named float32 arrays (NPZ and safetensors), for trained and initial weights."""

from __future__ import annotations

import io
import json
import math
import struct
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poetfw.common.errors import DataError, cut, listed
from poetfw.common.reading import parse_json, read_bytes
from poetfw.importers.npz import read_npz

LARGEST_BYTES = 1 << 30
"""Most bytes of a file of weights."""
_LARGEST_HEADER_BYTES = 1 << 25
_EARLIEST = (1980, 1, 1, 0, 0, 0)  # fixed time stamp: equal weights give equal bytes

Arrays = Mapping[str, NDArray[np.float32]]


def npz_bytes(arrays: Arrays) -> bytes:
    """Write arrays as an NPZ file; the same arrays give the same bytes."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, values in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, np.asarray(values), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", _EARLIEST), member.getvalue())
    return stream.getvalue()


def safetensors_bytes(arrays: Arrays) -> bytes:
    """Write arrays as a safetensors file: length of the header, header in JSON, elements."""
    header: dict[str, Any] = {}
    end = 0
    for name, values in arrays.items():
        start, end = end, end + values.nbytes
        kind = "I32" if values.dtype.kind == "i" else "F32"
        header[name] = {"dtype": kind, "shape": list(values.shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    content = b"".join(
        np.ascontiguousarray(v, "<i4" if v.dtype.kind == "i" else "<f4").tobytes()
        for v in arrays.values()
    )
    return struct.pack("<Q", len(text)) + text + content


def read_weights(path: Path, names: Sequence[str]) -> dict[str, NDArray[np.float32]]:
    """Read arrays by name; other content of the file is ignored.

    Raises:
        DataError: The file is neither NPZ nor safetensors, is damaged, lacks an array, or holds one
            that is not finite float32.
    """
    read = {".npz": _read_npz, ".safetensors": _read_safetensors}.get(path.suffix)
    if read is None:
        raise DataError(
            f"{path}: poetfw reads weights from .npz and .safetensors files",
            "numpy.savez(path, **{k: v.numpy() for k, v in net.state_dict().items()})",
        )
    arrays = read(path, names)
    missing = [cut(repr(name), 60) for name in names if name not in arrays]
    if missing:
        raise DataError(f"{path}: it holds no weights {listed(missing)}")
    for name, values in arrays.items():
        if values.dtype != np.float32:
            raise DataError(
                f"{path}: the weights {name!r:.80} are {values.dtype}; poetfw reads float32"
            )
        if not np.isfinite(values).all():
            raise DataError(f"{path}: the weights {name!r:.80} hold NaN or infinity")
    return {name: arrays[name].astype(np.float32, copy=False) for name in names}


def read_every(path: Path) -> dict[str, NDArray[Any]]:
    """Read all arrays of a safetensors file, by name.

    Raises:
        DataError: The file is not a safetensors file, or is damaged.
    """
    return _read_safetensors(path, None)


def _read_npz(path: Path, names: Sequence[str]) -> dict[str, NDArray[Any]]:
    return read_npz(path, (), names)


def _read_safetensors(path: Path, names: Sequence[str] | None) -> dict[str, NDArray[Any]]:
    """Read tensors; their ranges must match their shapes and cover the file exactly once."""
    try:
        content = memoryview(read_bytes(path, LARGEST_BYTES))
        (length,) = struct.unpack_from("<Q", content)
        if length > min(_LARGEST_HEADER_BYTES, len(content) - 8):
            raise ValueError(f"its header declares {length} bytes")
        header = parse_json(bytes(content[8 : 8 + length]))
        data = content[8 + length :]
        if not isinstance(header, dict):
            raise ValueError("its header is not an object")
        there = [name for name in header if name != "__metadata__"]
        wanted = there if names is None else [name for name in names if name in header]
        found = {name: _tensor(name, header[name], data) for name in wanted}
        ranges = sorted(header[name]["data_offsets"] for name in there)
        if [0, *(end for _, end in ranges)] != [*(start for start, _ in ranges), len(data)]:
            raise ValueError("its tensors overlap, or leave bytes between them")
        return found
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, TypeError, LookupError, struct.error) as error:
        raise DataError(
            f"{path}: not a safetensors file, or damaged: {cut(str(error), 200)}"
        ) from error


def _tensor(name: str, entry: Any, data: memoryview) -> NDArray[Any]:
    shape, (start, end) = entry["shape"], entry["data_offsets"]
    if entry["dtype"] not in ("F32", "I32"):
        raise ValueError(f"{name!r:.80} is {entry['dtype']!r:.20}; poetfw reads F32")
    if any(type(number) is not int or number < 0 for number in (*shape, start, end)):
        raise ValueError(f"shape or offsets of {name!r:.80} are not sizes")
    if not start <= end <= len(data) or end - start != 4 * math.prod(shape):
        raise ValueError(f"{name!r:.80} is declared as bytes {start} to {end} of {len(data)}")
    return np.frombuffer(data[start:end], "<i4" if entry["dtype"] == "I32" else "<f4").reshape(
        shape
    )
