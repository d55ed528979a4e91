# SPDX-License-Identifier: Apache-2.0
"""What this machine has and lacks, and the command that mends each lack."""

from __future__ import annotations

import importlib.metadata
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from poetfw.boards import list_boards
from poetfw.devices.emulators import emulator_of
from poetfw.devices.process import run_tool
from poetfw.errors import ToolError

_TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing poetfw uses.

    Attributes:
        name: what it is.
        needed_for: what does not work without it.
        found: its version or path; None where it is missing.
        fix: the command that installs it; None where it is there.
    """

    name: str
    needed_for: str
    found: str | None
    fix: str | None


_PACKAGES = (
    ("platformio", "building firmware"),
    ("scons", "building firmware without PlatformIO's registry"),
    ("cvxpy", "schedules"),
    ("highspy", "schedules (the solver HiGHS)"),
    ("onnx", "models from ONNX files"),
)


def take_inventory() -> tuple[Finding, ...]:
    """Everything poetfw uses, found or not."""
    return (
        *(_program(*program) for program in _programs()),
        *(_package(*package) for package in _PACKAGES),
        _serial_ports(),
    )


def _programs() -> Iterator[tuple[str, str, str]]:
    """Compilers and emulators of the boards: name, what it is needed for, Debian's packages."""
    needed: dict[tuple[str, str], list[str]] = {}
    for board in list_boards():
        if board.firmware is not None:
            toolchain = board.firmware.toolchain
            key = toolchain.compiler, toolchain.packages
            needed.setdefault(key, []).append(f"firmware for {board.name}")
        for twin in board.twins:
            for emulator in map(emulator_of, dict.fromkeys((twin.machine, twin.reference))):
                if emulator.package is not None:
                    uses = needed.setdefault((emulator.name, emulator.package), [])
                    uses.append(f"the twin of {board.name}")
    for (name, packages), uses in needed.items():
        yield name, ", ".join(dict.fromkeys(uses)), packages


def _program(name: str, needed_for: str, debian: str) -> Finding:
    if shutil.which(name) is None:
        return Finding(name, needed_for, None, f"sudo apt-get install {debian}")
    try:
        first = run_tool([name, "--version"], Path.cwd(), _TIMEOUT_S).splitlines()[0]
    except (ToolError, IndexError):
        return Finding(name, needed_for, None, f"sudo apt-get install --reinstall {debian}")
    version = re.search(r"\d+(\.\d+)+", first)
    return Finding(name, needed_for, version[0] if version else first, None)


def _package(name: str, needed_for: str) -> Finding:
    try:
        return Finding(name, needed_for, importlib.metadata.version(name), None)
    except importlib.metadata.PackageNotFoundError:
        return Finding(name, needed_for, None, f"pip install {name}")


def _serial_ports() -> Finding:
    from serial.tools import list_ports

    ports = [port.device for port in list_ports.comports()]
    return Finding("serial ports", "real boards", ", ".join(ports) or "none connected", None)
