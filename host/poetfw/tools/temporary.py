# SPDX-License-Identifier: Apache-2.0
"""Temporary folders."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from poetfw.common.errors import OutputError
from poetfw.common.temporary import temporary_directory

MAKE_ROOM = "name another folder for temporary files with TMPDIR"


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Create a temporary folder (under TMPDIR), which is deleted at the end of the block.

    Raises:
        OutputError: The folder cannot be created, or the block cannot write to it.
    """
    try:
        with temporary_directory("poetfw-", ignore_cleanup_errors=True) as folder:
            yield Path(folder)
    except OSError as error:
        raise OutputError(
            f"cannot write to the temporary folder {tempfile.tempdir or '/tmp'}: "
            f"{error.strerror or error}",
            f"make room there, or {MAKE_ROOM}",
        ) from error
