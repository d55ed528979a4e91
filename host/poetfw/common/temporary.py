# SPDX-License-Identifier: Apache-2.0
"""Temporary folders that Ctrl-C does not leave behind."""

from __future__ import annotations

import tempfile
from pathlib import Path

from poetfw.common.interrupts import uninterrupted


def temporary_directory(
    prefix: str, place: Path | None = None, *, ignore_cleanup_errors: bool = False
) -> tempfile.TemporaryDirectory[str]:
    """A new folder that is removed at the end of the `with` block.

    Ctrl-C is deferred while Python probes the default place with a file and creates the folder:
    it would leave either of them behind.

    Args:
        prefix: of its name.
        place: where it is made; None for the user's place for temporary files (TMPDIR).
        ignore_cleanup_errors: True if what cannot be removed is left.

    Raises:
        OSError: It cannot be made.
    """
    with uninterrupted():
        return tempfile.TemporaryDirectory(
            prefix=prefix, dir=place, ignore_cleanup_errors=ignore_cleanup_errors
        )
