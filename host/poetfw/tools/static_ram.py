# SPDX-License-Identifier: Apache-2.0
"""RAM that the firmware needs besides arena and stack, measured with the compiler."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

from poetfw.boards import Board, with_used
from poetfw.common.interrupts import uninterrupted
from poetfw.firmware import GENERATED, LIBRARY, Project, hal_families
from poetfw.tools.objects import Sources

_ARENA_SOURCE = f"{GENERATED}/plan.c"
_PORT = f"{LIBRARY}/port/"  # for other programs than those of boards


def static_ram_bytes(project: Project, board: Board) -> int:
    """Bytes of static data of a firmware, without its arena.

    Compiles every source of the project but the arena's and adds up what the objects ask for; of
    the board and its twins, the one that needs most counts.

    Raises:
        ToolError: the compiler is missing or fails.
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
            with uninterrupted():  # a pool forgets the thread that it is just starting
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
