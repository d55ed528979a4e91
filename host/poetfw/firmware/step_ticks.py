# SPDX-License-Identifier: Apache-2.0
"""The copy of a project that times the ops and transfers of its training step one by one.

It is the project from its folder with another application, which is called at the end of every
statement by the library's watchdog hook and learns the statement's number from the step's marks.
"""

from __future__ import annotations

from pathlib import Path

from poetfw.boards import Board
from poetfw.common.resources import profiler_sketches_dir
from poetfw.firmware.library import LIBRARY
from poetfw.firmware.project import APPLICATION, Project, read_sources
from poetfw.firmware.sketch import mark_files


def timed_project(folder: Path, board: Board) -> Project:
    """A copy of the project in a folder that times its statements.

    Raises:
        OutputError: A file is missing.
    """
    sketch = profiler_sketches_dir() / "steps"
    files = {
        APPLICATION: (sketch / "main.c").read_bytes(),
        f"{LIBRARY}/runtime/statement.h": (sketch / "statement.h").read_bytes(),
    }
    return Project({**read_sources(folder), **files, **mark_files(board)})
