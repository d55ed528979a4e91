# SPDX-License-Identifier: Apache-2.0
"""A second compiler, with the same warnings, says nothing about the firmware of any board."""

from __future__ import annotations

import configparser
import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from emulator.firmware_tools import SAMPLE, TEMPLATES
from golden.patches import HERE, whole
from poetfw.boards import Board, list_boards, load_board
from poetfw.common.resources import platformio_ini
from poetfw.firmware import hal_families
from strict import STRICT

pytestmark = pytest.mark.skipif(shutil.which("clang") is None, reason="needs clang")

GOLDEN = sorted(
    path.relative_to(HERE).as_posix().partition("/lib/")[0]
    for path in HERE.glob("**/train_step.c*")
)
"""Golden projects; of one on several devices, each device's."""
SHARED = [TEMPLATES / name for name in ("kernels", "runtime", "storage", "port", "hal")]


def flags(board: Board) -> list[str]:
    """What the project's compiler is told of warnings and processor, as clang takes it."""
    ini = configparser.RawConfigParser()
    ini.read_string(platformio_ini().read_text())
    toolchain = board.toolchain
    target = toolchain.prefix.removesuffix("-")
    return [
        *ini["poetfw"]["compile"].split(),
        *STRICT,
        *([f"--target={target}"] if target else []),
        *toolchain.machine_flags,
        *([] if toolchain.hosted else ["-ffreestanding"]),
        *("-Qunused-arguments", "-O0"),
        f"-DPOET_RAM_BYTES={min(board.ram_bytes, 2**30)}u",
        f"-DPOET_FLASH_BYTES={board.flash_bytes - board.reserved_flash_bytes}u",
    ]


def said(folder: Path, board: Board, folders: list[Path], *how: str, left_out: str = "") -> str:
    """What clang says of the sources in folders, each by itself.

    What holds assembly must be compiled for that to be looked at; the rest takes half the time
    without (`how` is `-fsyntax-only`).
    """
    sources = [
        str(path) for path in folders for path in sorted(path.glob("*.c")) if path.name != left_out
    ]
    includes = [f"-I{path}" for path in dict.fromkeys((*folders, *SHARED))]
    command = ["clang", *flags(board), *includes, "-c", *how, *sources]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert sources
    return result.stderr


STORAGES = [f"{board.name}:{storage}" for board in list_boards() for storage in board.storages]
BOARDS = {(b.toolchain.compiler, b.hal): b.label for b in map(load_board, STORAGES)}
"""One board for each compiler and family."""
CORES = {load_board(name).toolchain.machine_flags: name for name in BOARDS.values()}
"""One of them for each core: what boards share looks alike to all of its boards."""


@pytest.mark.parametrize("name", CORES.values())
def test_clang_has_nothing_to_say_about_what_boards_share(name: str, tmp_path: Path) -> None:
    board = load_board(name)
    folders = [*SHARED, SAMPLE / "src/generated"]
    hosted_ones_own = "poet_memory.c" if board.toolchain.hosted else ""
    assert said(tmp_path, board, folders, "-fsyntax-only", left_out=hosted_ones_own) == ""


@pytest.mark.parametrize("name", BOARDS.values())
def test_clang_has_nothing_to_say(name: str, tmp_path: Path) -> None:
    board = load_board(name)
    families = [TEMPLATES / "hal" / family for family in sorted(hal_families(board))]
    assert said(tmp_path, board, [*families, SAMPLE / "src/generated"]) == ""


@pytest.mark.parametrize("project", GOLDEN)
def test_clang_has_nothing_to_say_about_generated_code(project: str, tmp_path: Path) -> None:
    name, _, device = project.partition("/")
    for path, text in whole(name).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    generated = tmp_path / device / "lib/poetfw/generated"
    (board,) = re.findall(r'^#define POET_BOARD "(.*)"', (generated / "plan.h").read_text(), re.M)
    threads = f"-I{TEMPLATES / 'workers'}"
    assert said(tmp_path, load_board(board), [generated, generated.parent], threads) == ""


@pytest.mark.parametrize("line", ["short f(int x) { return x; }", "int f(void) { return g(); }"])
def test_clang_speaks_up(line: str, tmp_path: Path) -> None:
    (tmp_path / "bad.c").write_text(line + "\n")
    assert "error: " in said(tmp_path, load_board("mkr1000"), [tmp_path])


@pytest.mark.skipif(platform.machine() != "x86_64", reason="AVX2 and FMA are an x86's")
def test_clang_is_asked_to_fuse_products(tmp_path: Path) -> None:
    board = load_board("linux")
    kernels = shutil.copytree(TEMPLATES / "kernels", tmp_path / "kernels")
    shutil.copy(kernels / "fma/product.h", kernels)
    assert 'error: "arithmetic class fma needs -mavx2 -mfma"' in said(tmp_path, board, [kernels])
    assert said(tmp_path, board, [kernels], "-mavx2", "-mfma") == ""
