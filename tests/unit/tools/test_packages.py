# SPDX-License-Identifier: Apache-2.0
"""PlatformIO as poetfw starts it: whose packages, which compiler, and what is said without."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from poetfw.boards import load_board
from poetfw.common.errors import BoardError, ToolError
from poetfw.common.resources import platformio_ini
from poetfw.tools import build_environments, platformio, require_toolchain, toolchains
from poetfw.tools.toolchains import choose_toolchain, compiler_name, require_compiler

BOARD = load_board("nrf52840")
STOCK = BOARD.with_toolchain("stock")
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
    monkeypatch.setattr(toolchains, "_registry_answers", lambda: pio.reachable)
    monkeypatch.setitem(sys.modules, "ziglang", None)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PLATFORMIO_CORE_DIR", str(pio.users))
    return pio


def test_a_stock_platform_is_installed_with_its_compiler(pio: Pio) -> None:
    """Which then measures static data, too, before there is a plan."""
    board = choose_toolchain(BOARD)
    assert (board.toolchain.name, board.own_environment) == ("stock", "nrf52840")
    require_toolchain(board)
    assert pio.commands == [["pkg", "install", "-d", ".", "-e", "nrf52840"]]
    compiler = pio.users / "packages/toolchain-gccarmnoneeabi/bin" / COMPILER
    assert require_compiler(board.toolchain) == [str(compiler)]
    pio.reachable = False
    assert choose_toolchain(BOARD).own_environment == "nrf52840"
    require_toolchain(board)
    assert len(pio.commands) == 1


def test_the_name_of_a_compiler_is_that_of_the_one_that_is_used(pio: Pio) -> None:
    require_toolchain(STOCK)
    assert compiler_name(STOCK.toolchain).startswith("stock compiler 7.2 -mcpu=cortex-m4")


def test_stock_environments_have_the_users_packages_and_others_the_projects(
    pio: Pio, tmp_path: Path
) -> None:
    require_toolchain(STOCK)
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
        require_toolchain(STOCK)
    assert str(caught.value) == (
        "PlatformIO's packages for nrf52840 are not installed, and its registry cannot be reached"
    )
    assert caught.value.try_next == (
        "with an internet connection: pio pkg install -e nrf52840, in the project's folder",
        "or build with the compiler installed on this computer: --toolchain system",
    )


@pytest.mark.parametrize("wish", ["system", "auto"])
def test_without_any_compiler_both_ways_to_get_one_are_named(pio: Pio, wish: str) -> None:
    pio.reachable = False
    with pytest.raises(ToolError, match=f"the compiler {COMPILER} is not installed") as caught:
        require_toolchain(choose_toolchain(BOARD, wish))
    apt, pip, stock, _ = caught.value.try_next
    assert "sudo apt-get install gcc-arm-none-eabi" in apt
    assert pip == "with pip, without root: pip install 'poetfw[portable]'"
    assert "--toolchain stock" in stock


def test_what_pip_brought_builds_where_nothing_else_does(
    pio: Pio, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "ziglang")
    board = choose_toolchain(BOARD)
    assert (board.toolchain.name, board.own_environment) == ("zig", "nrf52840-system")
    program, *words = require_compiler(board.toolchain)
    assert (Path(program).parent.name, words) == ("ziglang", ["cc"])
    for name in ("linux", "rpi4", "mkr1000"):
        assert choose_toolchain(load_board(name)).toolchain.name == "zig"
    put_program(pio.users.parent / "nothing", COMPILER)
    assert choose_toolchain(BOARD).toolchain.name == "gcc"


def test_a_toolchain_that_does_not_build_for_a_board_is_refused(pio: Pio) -> None:
    with pytest.raises(BoardError, match="compiles for its processor, but does not link") as caught:
        choose_toolchain(BOARD, "clang")
    assert caught.value.try_next == ("use another --toolchain: gcc, zig",)
    assert choose_toolchain(load_board("linux"), "clang").toolchain.name == "clang"
