# SPDX-License-Identifier: Apache-2.0
"""PlatformIO: builds a project's environments, with or without PlatformIO's registry."""

from __future__ import annotations

import configparser
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from poetfw.boards import Board
from poetfw.boards.toolchain import STOCK
from poetfw.common.errors import ToolError
from poetfw.firmware.platformio_ini import select_environments
from poetfw.tools.process import run_tool
from poetfw.tools.temporary import temporary_folder
from poetfw.tools.toolchains import find_compiler, require_compiler, search_path
from poetfw.tools.uploaders import require_uploader

BUILD_TIMEOUT_S = 600.0

_UNREACHABLE = ("HTTPClientError", "InternetConnectionError")
_BUILD = "run", "--disable-auto-clean"
_VARIABLES = {
    "PLATFORMIO_SETTING_ENABLE_TELEMETRY": "no",
    "PLATFORMIO_DISABLE_UPGRADE_CHECK": "true",
    "PLATFORMIO_NO_ANSI": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}


def require_toolchain(board: Board) -> None:
    """Check that a board's toolchain is installed; a stock platform is installed if it is missing.

    Raises:
        ToolError: The compiler is missing, and the stock platform cannot be installed.
    """
    if board.toolchain.name == STOCK and find_compiler(board.toolchain) is None:
        _install(board)
    require_compiler(board.toolchain)


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
            board.toolchain.install,
        )


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
    environments.read_string((folder / "platformio.ini").read_text(encoding="utf-8"))
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
    own = {"PLATFORMIO_CORE_DIR": str(folder.resolve() / ".pio" / "core"), "PATH": search_path()}
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
