# SPDX-License-Identifier: Apache-2.0
"""Static RAM of the firmware besides arena and stack, measured with the compiler."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

from poetfw.boards import Board, with_used
from poetfw.common.interrupts import uninterrupted
from poetfw.firmware import GENERATED, LIBRARY, Project, hal_families
from poetfw.tools.objects import Sources

_ARENA_SOURCE = f"{GENERATED}/plan.c"
_PORT = f"{LIBRARY}/port/"  # part of applications' programs only


def static_ram_bytes(project: Project, board: Board) -> int:
    """Size of a firmware's static data without its arena, in bytes.

    Compiles every source of the project except the arena's and adds up the objects' data. Of the
    board and its twins, the one with the most data counts.

    Raises:
        ToolError: The compiler is missing or fails.
    """
    paths = [
        path
        for path in project.files
        if path.endswith(".c") and path != _ARENA_SOURCE and not path.startswith(_PORT)
    ]
    families = dict.fromkeys([board.hal, *(twin.machine.hal for twin in board.twins)])
    of_one = tuple(
        f"src/hal/{family}/" for family in hal_families(board) - {board.toolchain.shared_hal}
    )
    shared = [p for p in paths if not p.startswith(of_one)]
    with Sources.of(project, board) as sources:

        def compiled_bytes(path: str) -> int:
            return sources.compiled_size(path, "-std=gnu11", "-O1").ram_bytes

        pool = ThreadPoolExecutor(os.cpu_count() or 1)
        try:
            with uninterrupted():  # an interrupted pool would lose the thread it is starting
                common = pool.map(compiled_bytes, shared)
                hal = {
                    family: pool.map(
                        compiled_bytes, [p for p in paths if p.startswith(f"src/hal/{family}/")]
                    )
                    for family in with_used(families)
                }
            own = {family: sum(sizes) for family, sizes in hal.items()}
            return sum(common) + max(sum(own[used] for used in with_used([f])) for f in families)
        finally:
            pool.shutdown(cancel_futures=True)
