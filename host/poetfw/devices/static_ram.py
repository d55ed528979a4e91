"""How much RAM the firmware needs besides arena and stack, asked of the compiler."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from poetfw.boards import Board
from poetfw.devices.elf import elf_size
from poetfw.devices.platformio import compiler_of, require_compiler
from poetfw.devices.process import run_tool
from poetfw.firmware import Project
from poetfw.interrupts import uninterrupted

_COMPILE_TIMEOUT_S = 60.0
_MACHINE_FLAGS: Mapping[str, tuple[str, ...]] = {
    "Cortex-M4F": ("-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"),
}
_ARENA_SOURCE = "src/generated/plan.c"


def static_ram_bytes(project: Project, board: Board) -> int:
    """Bytes of static data of a firmware, without its arena.

    Compiles every source of the project but the arena's and adds up what the objects ask for; of
    the board and its twin, the one that needs more counts.

    Raises:
        ToolError: the compiler is missing or fails.
    """
    compiler = compiler_of(board)
    require_compiler(compiler)
    flags = _MACHINE_FLAGS.get(board.core, ())
    sources = [p for p in project.files if p.endswith(".c") and p != _ARENA_SOURCE]
    families = [board.hal, *([board.twin.hal] if board.twin else [])]
    shared = [p for p in sources if not p.startswith(tuple(f"src/hal/{f}/" for f in families))]
    with tempfile.TemporaryDirectory(prefix="poetfw-", ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary)
        for path, content in project.files.items():
            if path.endswith((".c", ".h")):
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_bytes(content)
        includes = [f"-I{p}" for p in sorted({str(Path(p).parent) for p in project.files})]

        def compiled_bytes(path: str) -> int:
            target = path.replace("/", "_") + ".o"
            command = [compiler, *flags, "-std=gnu11", "-O1", "-c", *includes, path, "-o", target]
            run_tool(command, folder, _COMPILE_TIMEOUT_S, {"TMPDIR": temporary})
            return elf_size(folder / target).ram_bytes

        pool = ThreadPoolExecutor(os.cpu_count() or 1)
        try:
            with uninterrupted():  # a pool forgets the thread that it is just starting
                common = pool.map(compiled_bytes, shared)
                hal = [
                    pool.map(
                        compiled_bytes, [p for p in sources if p.startswith(f"src/hal/{family}/")]
                    )
                    for family in families
                ]
            return sum(common) + max(map(sum, hal))
        finally:
            pool.shutdown(cancel_futures=True)
