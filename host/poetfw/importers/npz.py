# SPDX-License-Identifier: Apache-2.0
"""Reads arrays from untrusted NPZ and NPY files.

`numpy.load` trusts a file's header: a few bytes can claim an array of terabytes, or a pickle. Here,
a member's declared size is checked against the limit and against its header before its data are
unpacked. The limit applies to the unpacked size and to the size as 32-bit numbers, not to the
file's.
"""

from __future__ import annotations

import math
import tokenize
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import numpy as np
from numpy.lib import format as npy

from poetfw.common.errors import DataError, cut, listed
from poetfw.importers.archive import MALFORMED
from poetfw.importers.samples import LARGEST_BYTES, NUMBER_BYTES, Samples, Values, expect_room

_MALFORMED = (
    *MALFORMED,
    # raised by NumPy, besides ValueError, for a malformed header (parsed as a Python literal)
    TypeError,
    SyntaxError,
    tokenize.TokenError,
)


def read_arrays(path: Path, inputs: Sequence[str], labels: Sequence[str]) -> Samples:
    """Read samples from an `.npz` file, or from a folder with an `.npy` file for each array.

    Args:
        path: path of the file or folder.
        inputs: names of the feature arrays; held-out ones have the suffix `_test`.
        labels: names of the target arrays, likewise.

    Raises:
        DataError: See `read_npz`, or only some of the held-out arrays are present.
    """
    read = read_npy_folder if path.is_dir() else read_npz
    names = (*inputs, *labels)
    held_out = [f"{name}_test" for name in names]
    arrays = read(path, names, held_out)
    there = [name in arrays for name in held_out]
    if any(there) != all(there):
        raise DataError(f"{path}: {listed(held_out, ' and ')} must come together, or not at all")

    def part(of: Sequence[str], suffix: str = "") -> tuple[Values, ...]:
        return tuple(arrays[name + suffix] for name in of)

    if not any(there):
        return Samples(part(inputs), part(labels))
    return Samples(part(inputs), part(labels), part(inputs, "_test"), part(labels, "_test"))


def read_npy_folder(
    folder: Path, required: Sequence[str], optional: Sequence[str] = ()
) -> dict[str, Values]:
    """Read arrays by name, each from the file NAME.npy.

    Raises:
        DataError: See `read_npz`, or a file is a link.
    """
    arrays: dict[str, Values] = {}
    room = LARGEST_BYTES
    for name in (*required, *optional):
        path = folder / f"{name}.npy"
        try:
            if path.is_symlink():
                raise DataError(f"{path}: it is a link, which is not followed: copy the file")
            if not path.is_file():
                if name in optional:
                    continue
                raise DataError(
                    f"{path}: there is no such file", f"write it with numpy.save({path.name!r}, …)"
                )
            with path.open("rb") as stream:
                size_bytes = path.stat().st_size
                arrays[name] = _read_array(stream, size_bytes, path, name, room)
        except OSError as error:
            raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error
        except _MALFORMED as error:
            raise DataError(f"{path}: not an NPY file, or damaged: {error}") from error
        room -= _counted_bytes(arrays[name].nbytes, arrays[name].size)
    return arrays


def read_npz(
    path: Path, required: Sequence[str], optional: Sequence[str] = ()
) -> dict[str, Values]:
    """Read arrays of an NPZ file by name.

    Raises:
        DataError: The file cannot be read, is not an NPZ file, lacks a required array, an array
            holds objects or is damaged, or the total exceeds `LARGEST_BYTES`.
    """
    try:
        if not path.is_file():
            raise DataError(f"{path}: there is no such file")
        with zipfile.ZipFile(path) as archive:
            members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            missing = [name for name in required if name not in members]
            if missing:
                held = [cut(repr(name), 60) for name in members]
                raise DataError(
                    f"{path}: there is no array {' and no array '.join(missing)}; it holds "
                    f"{listed(held) or 'nothing'}",
                    f"write it with numpy.savez(path, {', '.join(f'{n}={n}' for n in required)})",
                )
            arrays: dict[str, Values] = {}
            room = LARGEST_BYTES
            for name in (*required, *optional):
                if name in members:
                    arrays[name] = _read_member(archive, members[name], path, name, room)
                    room -= _counted_bytes(arrays[name].nbytes, arrays[name].size)
            return arrays
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error
    except _MALFORMED as error:
        raise DataError(
            f"{path}: not an NPZ file, or damaged: {error}",
            "write it with numpy.savez(path, x=x, y=y)",
        ) from error


def _read_member(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path, name: str, room: int
) -> Values:
    with archive.open(info) as stream:
        return _read_array(stream, info.file_size, path, name, room)


def _read_array(stream: IO[bytes], size_bytes: int, path: Path, name: str, room: int) -> Values:
    expect_room(f"{path}: array {name}", size_bytes, room)
    shape, fortran_order, dtype = _read_header(stream)
    if dtype.hasobject:
        raise DataError(
            f"{path}: array {name} holds Python objects, which poetfw does not unpickle",
            "store numbers",
        )
    if stream.tell() + math.prod(shape) * dtype.itemsize != size_bytes:
        raise DataError(
            f"{path}: array {name} declares shape {list(shape)} of {dtype}, which its "
            f"{size_bytes} bytes do not hold"
        )
    expect_room(f"{path}: array {name}", _counted_bytes(size_bytes, math.prod(shape)), room)
    # Raises BadZipFile if a member is shorter than declared or has a wrong CRC.
    values = np.frombuffer(stream.read(), dtype)
    return values.reshape(shape, order="F" if fortran_order else "C")


def _counted_bytes(size_bytes: int, elements: int) -> int:
    return max(size_bytes, elements * NUMBER_BYTES)


def _read_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[np.generic]]:
    version = npy.read_magic(stream)
    if version == (1, 0):
        return npy.read_array_header_1_0(stream)
    if version == (2, 0):
        return npy.read_array_header_2_0(stream)
    raise ValueError(f"array format {version[0]}.{version[1]} is not known")
