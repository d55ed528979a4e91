# SPDX-License-Identifier: Apache-2.0
"""Reads arrays from an NPZ file that nobody vouches for.

`numpy.load` believes what a file declares: a few bytes can claim an array of terabytes, or a
pickle. Here every member's declared size is checked, against the limit and against its header,
before its data are unpacked. What counts is not the file's size, but that of what it unpacks to,
and of the 32-bit numbers that are made of it.
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
from numpy.typing import NDArray

from poetfw.errors import DataError, cut, listed
from poetfw.importers.archive import MALFORMED

LARGEST_BYTES = 1 << 28
"""The arrays of a file may have so many bytes together, unpacked and as 32-bit numbers."""

_NUMBER_BYTES = 4

_MALFORMED = (
    *MALFORMED,
    # NumPy's, beside ValueError, for a malformed header, which it reads as a Python literal
    TypeError,
    SyntaxError,
    tokenize.TokenError,
)


def read_npz(
    path: Path, required: Sequence[str], optional: Sequence[str] = ()
) -> dict[str, NDArray[np.generic]]:
    """The arrays of the given names.

    Raises:
        DataError: the file cannot be read, is no NPZ file, lacks a required array, or declares
            one that holds objects or is damaged, or all together are larger than `LARGEST_BYTES`.
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
                    "write it with numpy.savez(path, x=x, y=y)",
                )
            arrays: dict[str, NDArray[np.generic]] = {}
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
) -> NDArray[np.generic]:
    _expect_room(path, name, info.file_size, room)
    with archive.open(info) as stream:
        shape, fortran_order, dtype = _read_header(stream)
        if dtype.hasobject:
            raise DataError(
                f"{path}: array {name} holds Python objects, which poetfw does not unpickle",
                "store numbers",
            )
        if stream.tell() + math.prod(shape) * dtype.itemsize != info.file_size:
            raise DataError(
                f"{path}: array {name} declares shape {list(shape)} of {dtype}, which its "
                f"{info.file_size} bytes do not hold"
            )
        _expect_room(path, name, _counted_bytes(info.file_size, math.prod(shape)), room)
        # Raises BadZipFile where the data is shorter than declared or its CRC is wrong.
        values = np.frombuffer(stream.read(), dtype)
    return values.reshape(shape, order="F" if fortran_order else "C")


def _counted_bytes(size_bytes: int, elements: int) -> int:
    return max(size_bytes, elements * _NUMBER_BYTES)


def _expect_room(path: Path, name: str, needed: int, room: int) -> None:
    if needed > room:
        raise DataError(
            f"{path}: array {name} has {needed:,} bytes, unpacked and as 32-bit numbers, of "
            f"{LARGEST_BYTES:,} that poetfw reads of a file, {room:,} are left",
            "give fewer samples",
        )


def _read_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[np.generic]]:
    version = npy.read_magic(stream)
    if version == (1, 0):
        return npy.read_array_header_1_0(stream)
    if version == (2, 0):
        return npy.read_array_header_2_0(stream)
    raise ValueError(f"array format {version[0]}.{version[1]} is not known")
