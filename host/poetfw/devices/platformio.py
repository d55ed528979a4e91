# SPDX-License-Identifier: Apache-2.0
"""PlatformIO: builds the environments of a project, with or without its registry."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from poetfw.boards import Board, Toolchain
from poetfw.boards.environments import known_environments
from poetfw.devices.process import run_tool
from poetfw.devices.uploaders import require_uploader
from poetfw.errors import ToolError
from poetfw.firmware.platformio_ini import SYSTEM_SUFFIX, code_flags
from poetfw.temporary import temporary_folder

BUILD_TIMEOUT_S = 600.0
_VERSION_TIMEOUT_S = 20.0

_SCONS = """\
import os
import sys

try:
    import SCons.Script
except ModuleNotFoundError:
    sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "local"))
    import SCons.Script

if __name__ == "__main__":
    SCons.Script.main()
"""

_REGISTRY = "api.registry.platformio.org"
_REGISTRY_TIMEOUT_S = 3.0


def require_compiler(toolchain: Toolchain) -> None:
    """Check that a compiler is installed.

    Raises:
        ToolError: it is not; the message holds the line that installs it.
    """
    if shutil.which(toolchain.compiler) is None:
        raise ToolError(
            f"the compiler {toolchain.compiler} is not installed",
            f"on Debian or Ubuntu: sudo apt-get install {toolchain.packages}",
            "or do without it: --ram SIZE, with --toolchain stock or --generate-only",
        )


def choose_environment(board: Board, toolchain: str = "auto") -> str:
    """The PlatformIO environment that builds for a board itself.

    Args:
        board: the board.
        toolchain: "system" for the compiler installed on this computer, "stock" for the board's
            stock PlatformIO platform, which brings its own, "auto" for the first of the two that
            is there.

    Raises:
        ToolError: the compiler is not installed, and the stock platform cannot be had either.
    """
    system = board.platformio_env + SYSTEM_SUFFIX
    compiler = board.toolchain.compiler
    if system not in known_environments():
        require_compiler(board.toolchain)
        return board.platformio_env
    if toolchain == "stock" or (
        toolchain == "auto" and shutil.which(compiler) is None and _registry_answers()
    ):
        return board.platformio_env
    require_compiler(board.toolchain)
    return system


def _registry_answers() -> bool:
    """Whether PlatformIO's registry can be reached; PlatformIO itself would retry for a minute."""
    try:
        socket.create_connection((_REGISTRY, 443), _REGISTRY_TIMEOUT_S).close()
    except OSError:
        return False
    return True


def compiler_name(toolchain: Toolchain) -> str:
    """A compiler's name and version, with the flags that decide what code it writes.

    Raises:
        ToolError: it is not installed, or fails.
    """
    require_compiler(toolchain)
    said = run_tool([toolchain.compiler, "--version"], Path(), _VERSION_TIMEOUT_S)
    return " ".join([said.splitlines()[0].strip(), *toolchain.machine_flags, *code_flags()])


def build_environments(folder: Path, environments: Sequence[str]) -> dict[str, Path]:
    """Build environments of a project; returns the ELF of each.

    Args:
        folder: the project; PlatformIO's packages and objects stay inside it.
        environments: names from its platformio.ini.

    Raises:
        ToolError: PlatformIO or the compiler fails; the error holds what they said.
    """
    core = folder.resolve() / ".pio" / "core"
    _provide_scons(core)
    command = [sys.executable, "-m", "platformio", "run", "--disable-auto-clean", "-d", "."]
    for name in environments:
        command += ["-e", name]
    command += ["-j", str(os.cpu_count() or 1)]
    with temporary_folder() as temporary:  # a killed gcc leaves its files
        environment = {**_environment(core), "TMPDIR": str(temporary)}
        run_tool(command, folder, BUILD_TIMEOUT_S, environment)
    elfs = {name: folder / ".pio" / "build" / name / "firmware.elf" for name in environments}
    for name, elf in elfs.items():
        if not elf.is_file():
            raise ToolError(f"PlatformIO built {name}, but left no {elf}")
    return elfs


def upload_firmware(folder: Path, environment: str, port: str | None) -> None:
    """Put an environment's firmware on a board, the way that the project has for it.

    Args:
        folder: the project.
        environment: a name from its platformio.ini.
        port: where the board is; None to have PlatformIO find it.

    Raises:
        ToolError: the programmer is not installed, or it or PlatformIO fails; the error holds what
            they said.
    """
    require_uploader(folder / "platformio.ini", environment)
    core = folder.resolve() / ".pio" / "core"
    _provide_scons(core)
    command = [sys.executable, "-m", "platformio", "run", "--disable-auto-clean", "-d", "."]
    command += ["-e", environment, "-t", "upload"]
    if port is not None:
        command.append(f"--upload-port={port}")
    run_tool(command, folder, BUILD_TIMEOUT_S, _environment(core))


def _environment(core: Path) -> dict[str, str]:
    return {
        "PLATFORMIO_CORE_DIR": str(core),
        "PLATFORMIO_SETTING_ENABLE_TELEMETRY": "no",
        "PLATFORMIO_DISABLE_UPGRADE_CHECK": "true",
        "PLATFORMIO_NO_ANSI": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def _provide_scons(core: Path) -> None:
    """Give PlatformIO the SCons that pip installed, so that it need not ask its registry for one.

    A copy goes along for a PlatformIO whose Python has none: where poetfw is not installed.
    PlatformIO accepts a package folder whose `.piopm` names it, its owner and a version that
    satisfies its own requirement.
    """
    from platformio.dependencies import get_core_dependencies

    version = get_core_dependencies()["tool-scons"].lstrip("~^=")
    folder = core / "packages" / "tool-scons"
    marker = folder / ".piopm"
    package = {
        "type": "tool",
        "name": "tool-scons",
        "version": version,
        "spec": {
            "owner": "platformio",
            "id": None,
            "name": "tool-scons",
            "requirements": None,
            "uri": None,
        },
    }
    text = json.dumps(package)
    if marker.is_file() and marker.read_text() == text:
        return
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "scons.py").write_text(_SCONS)
    spec = find_spec("SCons")
    assert spec is not None
    assert spec.origin is not None
    shutil.copytree(
        Path(spec.origin).parent,
        folder / "local/SCons",
        ignore=lambda _, names: [name for name in names if "." in name and name[-3:] != ".py"],
        dirs_exist_ok=True,
    )
    (folder / "package.json").write_text(
        json.dumps({"name": "tool-scons", "version": version, "system": "*"})
    )
    (folder / ".piokeep").touch()
    marker.write_text(text)
