# SPDX-License-Identifier: Apache-2.0
"""PlatformIO as poetfw starts it: whose packages, which compiler, and what is said without."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from poetfw.boards import load_board
from poetfw.common.errors import ToolError
from poetfw.common.resources import platformio_ini
from poetfw.tools import build_environments, choose_environment, platformio
from poetfw.tools.platformio import compiler_name, require_compiler
from poetfw.tools.process import run_tool

BOARD = load_board("nrf52840")
COMPILER = "arm-none-eabi-gcc"


class Pio:
    """A stand-in for PlatformIO: what it was started with, and whether its registry answers."""

    def __init__(self, users: Path) -> None:
        self.users = users
        self.reachable = True
        self.commands: list[list[str]] = []
        self.variables: list[Mapping[str, str]] = []

    def run(
        self,
        command: Sequence[str],
        cwd: Path,
        timeout_s: float,
        environment: Mapping[str, str] | None = None,
    ) -> str:
        words = list(command[3:])
        self.commands.append(words)
        self.variables.append(environment or {})
        names = [words[i + 1] for i, word in enumerate(words) if word == "-e"]
        stock = "PLATFORMIO_CORE_DIR" not in (environment or {})
        if stock and not self.reachable:
            raise ToolError("python ended with exit code 1", said=["HTTPClientError: "])
        if stock:
            put_program(self.users / "packages/toolchain-gccarmnoneeabi/bin", COMPILER)
        if words[0] == "run":
            for name in names:
                elf = cwd / f".pio/build/{name}/firmware.elf"
                elf.parent.mkdir(parents=True)
                elf.touch()
        else:
            assert f"[env:{names[0]}]" in (cwd / "platformio.ini").read_text()
        return ""


def put_program(folder: Path, name: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text('#!/bin/sh\necho "stock compiler 7.2"\n')
    (folder / name).chmod(0o755)


@pytest.fixture
def pio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pio:
    """A computer without our compilers, whose user has a folder of PlatformIO's."""
    pio = Pio(tmp_path / "users")
    monkeypatch.setattr(platformio, "run_tool", pio.run)
    monkeypatch.setattr(platformio, "_registry_answers", lambda: pio.reachable)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PLATFORMIO_CORE_DIR", str(pio.users))
    return pio


@pytest.mark.parametrize("toolchain", ["stock", "auto"])
def test_a_stock_platform_is_installed_with_its_compiler(pio: Pio, toolchain: str) -> None:
    """Which then measures static data, too, before there is a plan."""
    assert choose_environment(BOARD, toolchain) == "nrf52840"
    assert pio.commands == [["pkg", "install", "-d", ".", "-e", "nrf52840"]]
    compiler = pio.users / "packages/toolchain-gccarmnoneeabi/bin" / COMPILER
    assert require_compiler(BOARD.toolchain) == str(compiler)
    pio.reachable = False
    assert choose_environment(BOARD, toolchain) == "nrf52840"
    assert len(pio.commands) == 1


def test_the_name_of_a_compiler_is_that_of_the_one_that_is_used(
    pio: Pio, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose_environment(BOARD, "stock")
    monkeypatch.setattr(platformio, "run_tool", run_tool)
    assert compiler_name(BOARD.toolchain).startswith("stock compiler 7.2 -mcpu=cortex-m4")


def test_stock_environments_have_the_users_packages_and_others_the_projects(
    pio: Pio, tmp_path: Path
) -> None:
    choose_environment(BOARD, "stock")
    (tmp_path / "platformio.ini").write_bytes(platformio_ini().read_bytes())
    elfs = build_environments(tmp_path, ["nrf52840", "nrf52840-twin"])
    assert list(elfs) == ["nrf52840", "nrf52840-twin"]
    (_, twin, board), variables = pio.commands, pio.variables
    assert "nrf52840-twin" in twin
    assert variables[1]["PLATFORMIO_CORE_DIR"] == str(tmp_path / ".pio/core")
    bin = pio.users / "packages/toolchain-gccarmnoneeabi/bin"
    assert variables[1]["PATH"].split(os.pathsep)[-1] == str(bin)
    assert "nrf52840" in board
    assert "PLATFORMIO_CORE_DIR" not in variables[2]


def test_packages_that_cannot_be_had_are_named_with_the_command_that_brings_them(
    pio: Pio,
) -> None:
    pio.reachable = False
    with pytest.raises(ToolError) as caught:
        choose_environment(BOARD, "stock")
    assert str(caught.value) == (
        "PlatformIO's packages for nrf52840 are not installed, and its registry cannot be reached"
    )
    assert caught.value.try_next == (
        "with an internet connection: pio pkg install -e nrf52840, in the project's folder",
        "or build with the compiler installed on this computer: --toolchain system",
    )


@pytest.mark.parametrize("toolchain", ["system", "auto"])
def test_without_compiler_and_registry_the_compilers_package_is_named(
    pio: Pio, toolchain: str
) -> None:
    pio.reachable = False
    with pytest.raises(ToolError, match=f"the compiler {COMPILER} is not installed") as caught:
        choose_environment(BOARD, toolchain)
    assert "sudo apt-get install gcc-arm-none-eabi" in caught.value.try_next[0]
    assert "--toolchain stock" in caught.value.try_next[1]
