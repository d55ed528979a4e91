# SPDX-License-Identifier: Apache-2.0
"""PlatformIO: builds a project's environments, with or without PlatformIO's registry."""

from __future__ import annotations

import configparser
import os
import shutil
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from poetfw.boards import Board, Toolchain
from poetfw.boards.environments import known_environments
from poetfw.common.errors import ToolError
from poetfw.firmware.platformio_ini import SYSTEM_SUFFIX, code_flags, select_environments
from poetfw.tools.process import run_tool
from poetfw.tools.temporary import temporary_folder
from poetfw.tools.uploaders import require_uploader

BUILD_TIMEOUT_S = 600.0
_VERSION_TIMEOUT_S = 20.0

_REGISTRY = "api.registry.platformio.org"
_REGISTRY_TIMEOUT_S = 3.0
_UNREACHABLE = ("HTTPClientError", "InternetConnectionError")
_BUILD = "run", "--disable-auto-clean"
_VARIABLES = {
    "PLATFORMIO_SETTING_ENABLE_TELEMETRY": "no",
    "PLATFORMIO_DISABLE_UPGRADE_CHECK": "true",
    "PLATFORMIO_NO_ANSI": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}


def find_compiler(toolchain: Toolchain) -> str | None:
    """Path of a compiler on PATH or among PlatformIO packages; None if not installed."""
    return shutil.which(toolchain.compiler, path=_search_path())


def require_compiler(toolchain: Toolchain) -> str:
    """Path of a compiler.

    Raises:
        ToolError: The compiler is missing; the message holds the command that installs it.
    """
    compiler = find_compiler(toolchain)
    if compiler is None:
        raise ToolError(
            f"the compiler {toolchain.compiler} is not installed",
            f"on Debian or Ubuntu: sudo apt-get install {toolchain.packages}",
            *(["or have PlatformIO bring one: --toolchain stock"] * (not toolchain.hosted)),
            "or do without it: --ram SIZE --generate-only",
        )
    return compiler


def _search_path() -> str:
    """PATH, followed by the compilers of installed stock PlatformIO platforms."""
    core = os.environ.get("PLATFORMIO_CORE_DIR") or Path.home() / ".platformio"
    packages = Path(os.environ.get("PLATFORMIO_PACKAGES_DIR") or Path(core, "packages"))
    stock = sorted(map(str, packages.glob("toolchain-*/bin")))
    return os.pathsep.join([os.environ.get("PATH", os.defpath), *stock])


def choose_environment(board: Board, toolchain: str = "auto") -> str:
    """Choose the PlatformIO environment that builds for a board.

    Args:
        board: the board.
        toolchain: "system" for the compiler installed on this computer, "stock" for the board's
            stock PlatformIO platform, which brings a compiler and is installed if it is missing,
            "auto" for the first of the two that is available.

    Raises:
        ToolError: The compiler is missing, and the stock platform cannot be installed.
    """
    system = board.platformio_env + SYSTEM_SUFFIX
    if system not in known_environments():
        require_compiler(board.toolchain)
        return board.platformio_env
    on_path = shutil.which(board.toolchain.compiler) is not None
    found = find_compiler(board.toolchain) is not None
    if toolchain == "stock" or (
        toolchain == "auto" and not on_path and (found or _registry_answers())
    ):
        if not found:
            _install(board)
        return board.platformio_env
    require_compiler(board.toolchain)
    return system


def _install(board: Board) -> None:
    """Make PlatformIO install the stock platform of a board, with its compiler."""
    names = (board.platformio_env,)
    ini = select_environments(names, names, board.toolchain, board.console_baud)
    with temporary_folder() as folder:
        (folder / "platformio.ini").write_bytes(ini)
        _run(folder, names, ("pkg", "install"))
    if find_compiler(board.toolchain) is None:
        raise ToolError(
            f"PlatformIO's platform for {board.name} brings no {board.toolchain.compiler}",
            f"on Debian or Ubuntu: sudo apt-get install {board.toolchain.packages}",
        )


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
    said = run_tool([require_compiler(toolchain), "--version"], Path(), _VERSION_TIMEOUT_S)
    return " ".join([said.splitlines()[0].strip(), *toolchain.machine_flags, *code_flags()])


def build_environments(folder: Path, environments: Sequence[str]) -> dict[str, Path]:
    """Build environments of a project; returns the ELF of each.

    Args:
        folder: folder of the project; objects and the packages of system toolchains stay in it.
        environments: names in the project's platformio.ini.

    Raises:
        ToolError: PlatformIO or the compiler fails; the error holds their last output.
    """
    stock = [name for name in environments if is_stock(folder, name)]
    system = [name for name in environments if name not in stock]
    for names in filter(None, (system, stock)):
        with temporary_folder() as temporary:  # a killed gcc leaves its files
            jobs = "-j", str(os.cpu_count() or 1)
            _run(folder, names, _BUILD, *jobs, TMPDIR=str(temporary))
    elfs = {name: folder / ".pio" / "build" / name / "firmware.elf" for name in environments}
    for name, elf in elfs.items():
        if not elf.is_file():
            raise ToolError(f"PlatformIO built {name}, but left no {elf}")
    return elfs


def upload_firmware(folder: Path, environment: str, port: str | None) -> None:
    """Upload an environment's firmware to a board, by the project's upload protocol.

    Args:
        folder: folder of the project.
        environment: name in the project's platformio.ini.
        port: port of the board; None to let PlatformIO find it.

    Raises:
        ToolError: The uploader is missing, or the upload fails; the error holds the last output.
    """
    require_uploader(folder / "platformio.ini", environment)
    target = "-t", "upload"
    _run(
        folder, [environment], _BUILD, *target, *([] if port is None else [f"--upload-port={port}"])
    )


def is_stock(folder: Path, environment: str) -> bool:
    """True for an environment on a stock PlatformIO platform, which brings its own compiler."""
    environments = configparser.RawConfigParser()
    environments.read_string((folder / "platformio.ini").read_text())
    section = f"env:{environment}"
    while "platform" not in environments[section]:
        section = environments[section]["extends"]
    return not environments[section]["platform"].startswith("symlink://")


def _run(
    folder: Path,
    environments: Sequence[str],
    action: tuple[str, ...],
    *options: str,
    **variables: str,
) -> None:
    """Run PlatformIO for environments that are either all on stock platforms or all not."""
    selected = [word for name in environments for word in ("-e", name)]
    command = [sys.executable, "-m", "platformio", *action, "-d", ".", *selected, *options]
    stock = is_stock(folder, environments[0])
    # Stock platforms are large and shared by the user's projects; ours needs no download.
    own = {"PLATFORMIO_CORE_DIR": str(folder.resolve() / ".pio" / "core"), "PATH": _search_path()}
    try:
        variables = {**_VARIABLES, **({} if stock else own), **variables}
        run_tool(command, folder, BUILD_TIMEOUT_S, variables)
    except ToolError as error:
        if stock and any(line.startswith(_UNREACHABLE) for line in error.said):
            raise ToolError(
                f"PlatformIO's packages for {', '.join(environments)} are not installed, and its "
                "registry cannot be reached",
                f"with an internet connection: pio pkg install {' '.join(selected)}, in the "
                "project's folder",
                "or build with the compiler installed on this computer: --toolchain system",
                said=error.said,
            ) from None
        raise
