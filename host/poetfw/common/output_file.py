# SPDX-License-Identifier: Apache-2.0
"""Atomic writes of single files."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from poetfw.common.errors import OutputError
from poetfw.common.temporary import temporary_directory


def replace_file(path: Path, content: bytes) -> None:
    """Replace one file atomically: it has its old or its new content, never a part.

    A file that is replaced keeps its permissions. Where the path is a link, what it leads to is
    written.

    Raises:
        OutputError: It cannot be written, or is a folder, a pipe or a device.
    """
    with _staging(path) as (folder, old):
        new = folder / "new"
        new.write_bytes(content)
        if old is not None:
            new.chmod(stat.S_IMODE(old.st_mode))
        os.replace(new, path.resolve())


def check_output_file(path: Path) -> None:
    """Check that `replace_file` can write a file, before a long computation starts.

    Raises:
        OutputError: It cannot.
    """
    with _staging(path):
        pass


def check_output_files(folder: Path) -> None:
    """Check that files can be written to a folder, which may not exist yet.

    Raises:
        OutputError: They cannot, or it is not a folder.
    """
    try:
        whole = folder.absolute()
        there = next(some for some in (whole, *whole.parents) if os.path.lexists(some))
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise OutputError(
            f"cannot write to the folder {folder}: {error.strerror or error}", "name another folder"
        ) from error


@contextlib.contextmanager
def _staging(path: Path) -> Iterator[tuple[Path, os.stat_result | None]]:
    """Temporary folder beside a file, for its new contents; and the file's status if it exists.

    The folder is one that was not there before, and is gone afterwards. As what is made in it is
    made like any file, it has the permissions that the user asks for (umask).
    """
    try:
        old = _status(path)
        if old is not None and not stat.S_ISREG(old.st_mode):
            raise OutputError(f"cannot write {path}: it is not a regular file", "name another file")
        place = path.resolve()
        with temporary_directory(f".{place.name[:40]}-", place.parent) as folder:
            yield Path(folder), old
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None
