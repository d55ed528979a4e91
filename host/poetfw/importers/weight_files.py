# SPDX-License-Identifier: Apache-2.0
"""Files of named float32 arrays (NPZ and safetensors), for trained and initial weights."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poetfw.common.errors import DataError, cut, listed
from poetfw.common.reading import read_bytes
from poetfw.importers.npz import read_npz

LARGEST_BYTES = 1 << 30
"""Most bytes of a file of weights."""
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
    """Write arrays as a safetensors file; the same arrays give the same bytes."""
    from safetensors.numpy import save

    little = {"i": "<i4", "f": "<f4"}
    content: bytes = save(
        {name: np.asarray(v, little[v.dtype.kind], order="C") for name, v in arrays.items()}
    )
    return content


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
    from safetensors import SafetensorError, deserialize

    try:
        content = read_bytes(path, LARGEST_BYTES)
        tensors = dict(deserialize(content))  # type: ignore[no-untyped-call]
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (SafetensorError, ValueError) as error:
        raise DataError(
            f"{path}: not a safetensors file, or damaged: {cut(str(error), 200)}"
        ) from error
    wanted = tensors if names is None else [name for name in names if name in tensors]
    return {name: _tensor(path, name, tensors[name]) for name in wanted}


def _tensor(path: Path, name: str, entry: Mapping[str, Any]) -> NDArray[Any]:
    kind = {"F32": "<f4", "I32": "<i4"}.get(entry["dtype"])
    if kind is None:
        raise DataError(f"{path}: {name!r:.80} is {entry['dtype']!r:.20}; poetfw reads F32")
    return np.frombuffer(entry["data"], kind).reshape(entry["shape"])
