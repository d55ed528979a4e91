# SPDX-License-Identifier: Apache-2.0
"""Flash size of the training step, measured with the compiler."""

from __future__ import annotations

from poetfw.boards import Board
from poetfw.firmware import GENERATED, Project
from poetfw.tools.objects import Sources

_STEP_SOURCE = f"{GENERATED}/train_step.c"
_FLAGS = ("-std=c11", "-O2", "-ffp-contract=off", "-fno-math-errno", "-fno-strict-aliasing")


def step_bytes(project: Project, board: Board) -> int:
    """Size of a project's training step in bytes of code and constants, without callees.

    The step is compiled alone, with the flags of platformio.ini that affect code.

    Raises:
        ToolError: The compiler is missing or fails.
    """
    with Sources.of(project, board) as sources:
        return sources.compiled_size(_STEP_SOURCE, *_FLAGS).flash_bytes
