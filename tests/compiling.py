# SPDX-License-Identifier: Apache-2.0
"""Compiles C sources of tests."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path


def compile_each(command: Sequence[str], sources: Iterable[Path], folder: Path) -> list[str]:
    """Compile each source by a command of its own, which is what ccache keeps.

    The command's messages are among the output of the failed test.

    Args:
        command: Compiler and flags.
        sources: C and assembly files.
        folder: Folder of the objects; a number tells those of one name apart.

    Returns:
        Paths of the objects, in the order of the sources.
    """
    objects = []
    for source in sources:
        path = str(folder / f"{source.stem}.o")
        objects.append(path if path not in objects else f"{path[:-2]}.{len(objects)}.o")
        subprocess.run(
            [*command, "-c", str(source), "-o", objects[-1]], cwd=folder, check=True, timeout=120
        )
    return objects
