# SPDX-License-Identifier: Apache-2.0
"""Programs and packages that poetfw uses, whether installed, and commands that install them."""

from __future__ import annotations

import importlib.metadata
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from poetfw.boards import Toolchain, list_boards
from poetfw.boards.environments import SYSTEM_SUFFIX
from poetfw.common.errors import ToolError
from poetfw.common.resources import platformio_ini
from poetfw.tools.emulators import Emulator, emulator_of
from poetfw.tools.process import run_tool
from poetfw.tools.toolchains import find_compiler
from poetfw.tools.uploaders import Uploader, uploaders_of

_TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One program or package that poetfw uses.

    Attributes:
        name: name of the program or package.
        needed_for: features that do not work without it.
        found: version or path; None if missing.
        fix: command that installs it; None if found.
        required: False if building firmware and running twins works without it.
    """

    name: str
    needed_for: str
    found: str | None
    fix: str | None
    required: bool = True


_PACKAGES = (
    ("platformio", "building firmware"),
    ("scons", "building firmware without PlatformIO's registry"),
    ("cvxpy-base", "schedules"),
    ("highspy", "schedules (the solver HiGHS)"),
    ("onnx", "models from ONNX files"),
)


_ALSO_IN = {"cvxpy-base": "cvxpy"}
"""Packages with the same modules and more, by the package that suffices."""


def take_inventory() -> tuple[Finding, ...]:
    """List everything poetfw uses, installed or missing."""
    return (
        *_compilers(),
        *_emulator_programs(),
        _portable(),
        *map(_optional, _uploaders()),
        _optional(_program("ssh", "boards under Linux elsewhere (--host)", "openssh-client", "-V")),
        *(_package(name, needed_for, name) for name, needed_for in _PACKAGES),
        *(_optional(_package(*package)) for package in _emulators_in_python()),
        _serial_ports(),
    )


def _compilers() -> Iterator[Finding]:
    """GCC of each target, which another installed toolchain makes optional."""
    needed: dict[str, tuple[Toolchain, list[str]]] = {}
    for board in list_boards(lambda error: None):
        if board.firmware is not None:
            toolchain = board.firmware.toolchain
            _, uses = needed.setdefault(toolchain.compiler, (toolchain, []))
            uses.append(f"firmware for {board.name}")
    for name, (toolchain, uses) in needed.items():
        finding = _program(name, ", ".join(uses), toolchain.packages)
        replaced = any(find_compiler(other) is not None for other in toolchain.others)
        yield replace(finding, required=not replaced)


def _emulator_programs() -> Iterator[Finding]:
    """Emulators that are programs; optional beside an installed one that is a Python package."""
    replaced = any(each.extra is not None and each.installed for each in _emulators())
    for emulator, boards in _emulators().items():
        if emulator.package is not None:
            uses = ", ".join(f"the twin of {name}" for name in boards)
            finding = _program(emulator.name, uses, emulator.package)
            yield replace(finding, required=not replaced)


def _portable() -> Finding:
    """Compiler for all boards that pip installs."""
    return _optional(_package("ziglang", "firmware without those compilers", "'poetfw[portable]'"))


def _uploaders() -> Iterator[Finding]:
    """Programs that upload firmware; where a board has several, one is enough."""
    needed: dict[Uploader, list[str]] = {}
    for board in list_boards(lambda error: None):
        if board.firmware is not None:
            environment = board.platformio_env + SYSTEM_SUFFIX
            for uploader in uploaders_of(platformio_ini(), environment):
                needed.setdefault(uploader, []).append(f"poetfw flash to {board.name}")
    for uploader, uses in needed.items():
        path = shutil.which(uploader.name)
        yield Finding(uploader.name, ", ".join(uses), path, None if path else uploader.fix)


def _optional(finding: Finding) -> Finding:
    return replace(finding, required=False)


def _emulators_in_python() -> Iterator[tuple[str, str, str]]:
    """Emulators that are Python packages: name, uses, what to `pip install`."""
    for emulator, boards in _emulators().items():
        if emulator.extra is not None:
            uses = ", ".join(f"a twin of {board}" for board in boards)
            yield emulator.name, uses, f"'poetfw[{emulator.extra}]'"


def _emulators() -> dict[Emulator, list[str]]:
    """Emulators and the names of the boards they emulate."""
    found: dict[Emulator, dict[str, None]] = {}
    for board in list_boards(lambda error: None):
        for machine in (m for twin in board.twins for m in (twin.machine, twin.reference)):
            found.setdefault(emulator_of(machine), {})[board.name] = None
    return {emulator: list(boards) for emulator, boards in found.items()}


def _program(name: str, needed_for: str, debian: str, version_flag: str = "--version") -> Finding:
    if shutil.which(name) is None:
        return Finding(name, needed_for, None, f"sudo apt-get install {debian}")
    try:
        first = run_tool([name, version_flag], Path.cwd(), _TIMEOUT_S).splitlines()[0]
    except (ToolError, IndexError):
        return Finding(name, needed_for, None, f"sudo apt-get install --reinstall {debian}")
    version = re.search(r"\d+(\.\d+)+", first)
    return Finding(name, needed_for, version[0] if version else first, None)


def _package(name: str, needed_for: str, what: str) -> Finding:
    for package in (name, _ALSO_IN.get(name, name)):
        with suppress(importlib.metadata.PackageNotFoundError):
            return Finding(name, needed_for, importlib.metadata.version(package), None)
    return Finding(name, needed_for, None, f"pip install {what}")


def _serial_ports() -> Finding:
    from serial.tools import list_ports

    ports = [port.device for port in list_ports.comports()]
    return Finding("serial ports", "real boards", ", ".join(ports) or "none connected", None)
