# SPDX-License-Identifier: Apache-2.0
"""Default folders of projects."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from poetfw.common.errors import OutputError, listed

if TYPE_CHECKING:
    from poetfw.boards import Board
    from poetfw.settings import Built


def built_folder(built: Built) -> tuple[Path, str | None]:
    """Folder of a built project, and the board's label if a board was given.

    Raises:
        OutputError: Neither folder nor board is given, and build/ does not hold exactly one build.
    """
    if built.board is not None:
        from poetfw.boards import load_board

        known = load_board(built.board)
        return out_folder(built.out, known), known.label
    if built.out is not None:
        return built.out, None
    from poetfw.firmware.project import MANIFEST

    builds = sorted(path.parent for path in Path("build").glob(f"*/{MANIFEST}"))
    if len(builds) == 1:
        return builds[0], None
    if builds:
        raise OutputError(
            f"there are several builds: {listed([path.name for path in builds])}",
            "name the board with --board",
        )
    raise OutputError("there is no build in build/", "run `poetfw build`, or name one with --out")


def out_folder(out: Path | None, board: Board) -> Path:
    """Folder of a project: the given one, or the board's default."""
    return out if out is not None else default_folder({"": board})


def default_folder(boards: Mapping[str, Board]) -> Path:
    """Folder of a build for the boards of some memories, if none is given."""
    return Path("build") / "-".join(n or b.label.replace(":", "-") for n, b in boards.items())
