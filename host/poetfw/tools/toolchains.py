# SPDX-License-Identifier: Apache-2.0
"""Toolchains on this computer: which are installed, which of them builds for a board."""

from __future__ import annotations

import os
import shutil
import socket
from importlib.util import find_spec
from pathlib import Path

from poetfw.boards import Board, Toolchain
from poetfw.boards.environments import SYSTEM_SUFFIX, known_environments
from poetfw.boards.toolchain import STOCK, SYSTEM
from poetfw.common.errors import ToolError
from poetfw.firmware.platformio_ini import code_flags
from poetfw.tools.process import run_tool

_VERSION_TIMEOUT_S = 20.0
_REGISTRY = "api.registry.platformio.org"
_REGISTRY_TIMEOUT_S = 3.0


def find_command(command: str) -> list[str] | None:
    """Words that start a program of a toolchain; None if it is not installed.

    Args:
        command: program and its first arguments; PACKAGE:PROGRAM is a program in a Python package,
            any other is looked for on PATH and among PlatformIO's packages.
    """
    first, *arguments = command.split()
    package, _, program = first.rpartition(":")
    path = _program_of(package, program) if package else shutil.which(first, path=search_path())
    return None if path is None else [path, *arguments]


def _program_of(package: str, program: str) -> str | None:
    """Path of a program in a Python package; None if it is not there."""
    found = find_spec(package)
    if found is None or found.origin is None:
        return None
    return shutil.which(program, path=str(Path(found.origin).parent))


def find_compiler(toolchain: Toolchain) -> list[str] | None:
    """Words that start a toolchain's C compiler; None if it is not installed."""
    return find_command(toolchain.commands["cc"])


def require_compiler(toolchain: Toolchain) -> list[str]:
    """Words that start a toolchain's C compiler.

    Raises:
        ToolError: The compiler is missing; the message holds the commands that install it, or
            another toolchain.
    """
    compiler = find_compiler(toolchain)
    if compiler is None:
        raise ToolError(
            f"the compiler {toolchain.commands['cc']} is not installed",
            *dict.fromkeys(each.install for each in _equals(toolchain)),
            *(["or have PlatformIO bring one: --toolchain stock"] * (not toolchain.hosted)),
            "or do without it: --ram SIZE --generate-only",
        )
    return compiler


def _equals(toolchain: Toolchain) -> list[Toolchain]:
    """A toolchain, and the one that any system can install in its place."""
    return [toolchain, *(other for other in toolchain.others if not other.packages)]


def search_path() -> str:
    """PATH, followed by the compilers of installed stock PlatformIO platforms."""
    core = os.environ.get("PLATFORMIO_CORE_DIR") or Path.home() / ".platformio"
    packages = Path(os.environ.get("PLATFORMIO_PACKAGES_DIR") or Path(core, "packages"))
    stock = sorted(map(str, packages.glob("toolchain-*/bin")))
    return os.pathsep.join([os.environ.get("PATH", os.defpath), *stock])


def choose_toolchain(board: Board, wish: str = "auto") -> Board:
    """The board with the toolchain that builds for it; nothing is installed or required.

    Args:
        board: the board.
        wish: name of a toolchain; "system" for the GCC installed on this computer, "stock" for that
            of the board's stock PlatformIO platform, "auto" for the first available: GCC on PATH,
            GCC of an installed stock platform, another toolchain, or a stock platform that can be
            installed now. If none is available, GCC.

    Raises:
        BoardError: The toolchain does not build for the board.
    """
    if wish == "auto":
        return board.with_toolchain(_available(board))
    return board.with_toolchain(SYSTEM if wish == "system" else wish)


def _available(board: Board) -> str:
    """Name of the first available toolchain of a board; GCC without any."""
    gcc = board.toolchain.of(SYSTEM)
    if shutil.which(gcc.commands["cc"]) is not None:
        return SYSTEM
    stock = board.platformio_env + SYSTEM_SUFFIX in known_environments()
    if stock and find_compiler(gcc) is not None:
        return STOCK
    for other in gcc.others:
        if find_compiler(other) is not None:
            return other.name
    return STOCK if stock and _registry_answers() else SYSTEM


def _registry_answers() -> bool:
    """True if PlatformIO's registry can be reached; PlatformIO itself would retry for a minute."""
    try:
        socket.create_connection((_REGISTRY, 443), _REGISTRY_TIMEOUT_S).close()
    except OSError:
        return False
    return True


def compiler_name(toolchain: Toolchain) -> str:
    """Name and version of a compiler, with the flags that affect the generated code.

    Raises:
        ToolError: The compiler is missing or fails.
    """
    said = run_tool([*require_compiler(toolchain), "--version"], Path(), _VERSION_TIMEOUT_S)
    return " ".join([said.splitlines()[0].strip(), *toolchain.machine_flags, *code_flags()])
