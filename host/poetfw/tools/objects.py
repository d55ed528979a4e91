# SPDX-License-Identifier: Apache-2.0
"""Single source files of a project, compiled to measure their size."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from poetfw.boards import Board
from poetfw.firmware import Project
from poetfw.tools.elf import ElfSize, elf_size
from poetfw.tools.process import run_tool
from poetfw.tools.temporary import temporary_folder
from poetfw.tools.toolchains import require_compiler

_COMPILE_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Sources:
    """C files of a project in a temporary folder, and the compile command of its board."""

    folder: Path
    command: tuple[str, ...]

    @staticmethod
    @contextmanager
    def of(project: Project, board: Board) -> Iterator[Sources]:
        """Write the C files to a temporary folder, which is deleted at the end of the block.

        Raises:
            OutputError: The temporary folder cannot be written.
            ToolError: The board's compiler is missing.
        """
        toolchain = board.toolchain
        compiler = require_compiler(toolchain)
        with temporary_folder() as folder:
            for path, content in project.files.items():
                if path.endswith((".c", ".h")):
                    (folder / path).parent.mkdir(parents=True, exist_ok=True)
                    (folder / path).write_bytes(content)
            includes = [
                f"-I{p}" for p in sorted({Path(p).parent.as_posix() for p in project.files})
            ]
            yield Sources(folder, (*compiler, *toolchain.machine_flags, *includes))

    def compiled_size(self, path: str, *flags: str) -> ElfSize:
        """Compile one source; returns the size of its object.

        Raises:
            ToolError: The compiler fails.
        """
        target = path.replace("/", "_") + ".o"
        command = [*self.command, *flags, "-c", path, "-o", target]
        run_tool(command, self.folder, _COMPILE_TIMEOUT_S, {"TMPDIR": str(self.folder)})
        return elf_size(self.folder / target)
