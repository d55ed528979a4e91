# SPDX-License-Identifier: Apache-2.0
"""Flash that the training step takes, measured with the compiler."""

from __future__ import annotations

from poetfw.boards import Board
from poetfw.firmware import GENERATED, Project
from poetfw.tools.objects import Sources

_STEP_SOURCE = f"{GENERATED}/train_step.c"
_FLAGS = ("-std=c11", "-O2", "-ffp-contract=off", "-fno-math-errno", "-fno-strict-aliasing")


def step_bytes(project: Project, board: Board) -> int:
    """Bytes of code and constants of a project's training step, without what it calls.

    The step is compiled on its own, with what platformio.ini sets that bears on code.

    Raises:
        ToolError: the compiler is missing or fails.
    """
    with Sources.of(project, board) as sources:
        return sources.compiled_size(_STEP_SOURCE, *_FLAGS).flash_bytes
