# SPDX-License-Identifier: Apache-2.0
"""Single sources of a project, compiled to see what they come to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from poetfw.boards import Board
from poetfw.firmware import Project
from poetfw.tools.elf import ElfSize, elf_size
from poetfw.tools.platformio import require_compiler
from poetfw.tools.process import run_tool
from poetfw.tools.temporary import temporary_folder

_COMPILE_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Sources:
    """The C files of a project in a folder of their own, and the compiler of its board."""

    folder: Path
    command: tuple[str, ...]

    @staticmethod
    @contextmanager
    def of(project: Project, board: Board) -> Iterator[Sources]:
        """Write them to a temporary folder, as long as the block runs.

        Raises:
            OutputError: the temporary folder has no room.
            ToolError: the board's compiler is missing.
        """
        toolchain = board.toolchain
        compiler = require_compiler(toolchain)
        with temporary_folder() as folder:
            for path, content in project.files.items():
                if path.endswith((".c", ".h")):
                    (folder / path).parent.mkdir(parents=True, exist_ok=True)
                    (folder / path).write_bytes(content)
            includes = [f"-I{p}" for p in sorted({str(Path(p).parent) for p in project.files})]
            yield Sources(folder, (compiler, *toolchain.machine_flags, *includes))

    def compiled_size(self, path: str, *flags: str) -> ElfSize:
        """The size of one source's object.

        Raises:
            ToolError: the compiler fails.
        """
        target = path.replace("/", "_") + ".o"
        command = [*self.command, *flags, "-c", path, "-o", target]
        run_tool(command, self.folder, _COMPILE_TIMEOUT_S, {"TMPDIR": str(self.folder)})
        return elf_size(self.folder / target)
