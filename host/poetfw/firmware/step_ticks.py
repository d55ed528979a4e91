# SPDX-License-Identifier: Apache-2.0
"""The copy of a project that times the ops and transfers of its training step one by one.

It is the project as it lies in its folder, with another application: one that hears of the end of
every statement through the hook that the library has for watchdogs.
"""

from __future__ import annotations

import re
from pathlib import Path

from poetfw.boards import Board
from poetfw.errors import OutputError
from poetfw.firmware.library import GENERATED
from poetfw.firmware.project import APPLICATION, Project, read_sources
from poetfw.firmware.sketch import mark_files
from poetfw.resources import profiler_sketches_dir

_STEP_FILE = f"{GENERATED}/train_step.c"
_STATEMENT = re.compile(r"^    /\* +(\d+)  ", re.MULTILINE)
_HOOK = "poet_between_ops();"


def timed_project(folder: Path, board: Board) -> tuple[Project, tuple[int, ...]]:
    """A copy of the project in a folder, and the numbers of the statements that it times.

    Raises:
        OutputError: a file is missing, or the training step has no statement that can be timed.
    """
    files = dict(read_sources(folder))
    parts = _STATEMENT.split(files.get(_STEP_FILE, b"").decode(errors="replace"))[1:]
    numbers = tuple(
        int(number) for number, text in zip(parts[::2], parts[1::2], strict=True) if _HOOK in text
    )
    if not numbers:
        raise OutputError(
            f"{folder / _STEP_FILE} cannot be timed: it has not the statements of the plan",
            "run `poetfw build` again",
        )
    application = (profiler_sketches_dir() / "steps" / "main.c").read_bytes()
    return Project({**files, APPLICATION: application, **mark_files(board)}), numbers
