# SPDX-License-Identifier: Apache-2.0
"""The copy of a project that times the ops and transfers of its training step one by one.

It is the project as it lies in its folder, with another application: one that hears of the end of
every statement through the hook that the library has for watchdogs.
"""

from __future__ import annotations

import re
from pathlib import Path

from poetfw.boards import Board
from poetfw.common.errors import OutputError
from poetfw.common.resources import profiler_sketches_dir
from poetfw.firmware.library import GENERATED
from poetfw.firmware.project import APPLICATION, Project, read_sources
from poetfw.firmware.sketch import mark_files

_STEP_FILE = f"{GENERATED}/train_step.c"
_HOOK = "poet_between_ops();"
_LINE = re.compile(
    r"^    (?:/\* +(?P<number>\d+)  "
    r"|POET_TRY\(poet_page_(?:in|out)_begin\((?P<begun>\w+),"
    r"|POET_TRY\(poet_page_wait\((?P<waited>\w+)\)\);"
    rf"|(?P<hook>{re.escape(_HOOK)}))"
)


def timed_project(folder: Path, board: Board) -> tuple[Project, tuple[int, ...]]:
    """A copy of the project in a folder that times its statements.

    Where a transfer is waited for, that belongs to the statement that began it.

    Returns:
        The copy, and for every slice that it times the number of the statement it belongs to.

    Raises:
        OutputError: a file is missing, or the training step has no statement that can be timed.
    """
    files = dict(read_sources(folder))
    lines, numbers = _with_hooks(files.get(_STEP_FILE, b"").decode(errors="replace"))
    if not numbers:
        raise OutputError(
            f"{folder / _STEP_FILE} cannot be timed: it has not the statements of the plan",
            "run `poetfw build` again",
        )
    step = {_STEP_FILE: lines.encode()}
    application = {APPLICATION: (profiler_sketches_dir() / "steps" / "main.c").read_bytes()}
    return Project({**files, **step, **application, **mark_files(board)}), tuple(numbers)


def _with_hooks(source: str) -> tuple[str, list[int]]:
    """The source of a training step with a hook behind every wait, too; what each hook is of."""
    lines: list[str] = []
    numbers: list[int] = []
    number = 0
    begun: dict[str, int] = {}
    for line in source.splitlines(keepends=True):
        lines.append(line)
        found = _LINE.match(line)
        if found is None:
            continue
        if found["number"]:
            number = int(found["number"])
        elif found["begun"]:
            begun[found["begun"]] = number
        elif found["waited"]:
            lines.append(f"    {_HOOK}\n")
            numbers.append(begun.get(found["waited"], number))
        else:
            numbers.append(number)
    return "".join(lines), numbers
