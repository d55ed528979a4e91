# SPDX-License-Identifier: Apache-2.0
"""Reads members of untrusted zip files, with a limit on their unpacked size."""

from __future__ import annotations

import lzma
import zipfile
import zlib

MALFORMED = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    ValueError,
    MemoryError,
    RuntimeError,  # zipfile's, for an encrypted member
    NotImplementedError,  # zipfile's, for an unknown compression
    OverflowError,
)
"""Exceptions that reading a damaged zip file can raise."""


def read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, most_bytes: int) -> bytes:
    """Read a member, whose CRC is checked.

    Raises:
        ValueError: The member declares more than `most_bytes`, or has another size than declared.
    """
    if info.file_size > most_bytes:
        raise ValueError(f"{info.filename!r} has {info.file_size:,} bytes, more than are read")
    with archive.open(info) as stream:
        content = stream.read(info.file_size + 1)
    if len(content) != info.file_size:
        raise ValueError(f"{info.filename!r} is not as long as it says")
    return content
