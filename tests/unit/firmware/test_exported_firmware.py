# SPDX-License-Identifier: Apache-2.0
"""Exported libraries in firmware: each core, compiler and name, linked into an application."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from poetfw.boards import Board, load_board
from poetfw.common.errors import InfeasibleError
from poetfw.common.resources import firmware_templates_dir
from poetfw.exports.library import export_project
from poetfw.models import MODELS
from poetfw.settings import ExportSettings
from unit.firmware.exported import archive, exported, project

pytestmark = pytest.mark.skipif(
    shutil.which("arm-none-eabi-gcc") is None, reason="needs arm-none-eabi-gcc"
)

TWIN = Path(__file__).parents[2] / "system"
BOARDS = ("nrf52840", "mkr1000", "stm32f405")
NAMES = ("poetfw", "left")


@dataclass(frozen=True)
class Compiler:
    """A compiler with its flags, and what it links with.

    LTO's objects are the compiler's to read.
    """

    command: str
    flags: tuple[str, ...]
    for_linking: tuple[str, ...] = ()


COMPILERS = {
    "gcc -O2": Compiler("arm-none-eabi-gcc", ("-O2",)),
    "gcc -Os": Compiler("arm-none-eabi-gcc", ("-Os",)),
    "gcc -flto": Compiler("arm-none-eabi-gcc", ("-O2", "-flto"), ("-flto", "-O2")),
    "clang": Compiler("clang", ("--target=arm-none-eabi", "-O2", "-fshort-enums")),
}

APPLICATION = """\
#include "NAME.h"

static struct NAME net;
static float x[UPPER_X_BYTES / 4];
static float output[UPPER_OUTPUT_BYTES / 4];

int main(void)
{
    return NAME_reset(&net) < 0 || NAME_train(&net) < 0 ||
           NAME_predict(&net, x, sizeof x, output, sizeof output) < 0;
}
"""

TWO = """\
#include <stdio.h>
#include <string.h>

#include "left.h"
#include "right.h"

static float x[LEFT_BATCH][LEFT_X_BYTES / 4];
static left_target y[LEFT_BATCH];
static struct left left;
static struct right right;

static unsigned long bits(float value)
{
    uint32_t found;
    memcpy(&found, &value, sizeof found);
    return found;
}

int main(void)
{
    struct left_metrics of_left = {0};
    struct right_metrics of_right = {0};
    for (unsigned i = 0; i < LEFT_BATCH; i++) {
        y[i] = (left_target)(3 * i % 10);
        for (unsigned j = 0; j < LEFT_X_BYTES / 4; j++) {
            x[i][j] = (float)((7 * i + 3 * j) % 11) / 11.0f;
        }
    }
    if (left_reset(&left) < 0 || right_reset(&right) < 0) {
        return 1;
    }
    for (int step = 0; step < 4; step++) {
        if (left_train_on(&left, x[0], sizeof x, y, sizeof y) < 0 ||
            (step % 2 == 0 && right_train_on(&right, x[0], sizeof x, y, sizeof y) < 0)) {
            return 2;
        }
        (void)left_metrics(&left, &of_left);
        (void)right_metrics(&right, &of_right);
        printf("%08lx %08lx\\n", bits(of_left.loss), bits(of_right.loss));
    }
    return 0;
}
"""


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with each of the kernels in it, that of any model."""
    folder = project(tmp_path_factory.mktemp("everything") / "project")
    for path in sorted((firmware_templates_dir() / "kernels").glob("*.[chS]")):
        target = folder / "lib/poetfw/kernels" / path.name
        if not target.exists() and not path.name.startswith("dot"):
            shutil.copy(path, target)
    return folder


def library(folder: Path, board: Board, compiler: Compiler) -> Path:
    """The archive of an export, for a board's core."""
    flags = (*compiler.flags, *board.toolchain.machine_flags, "-ffreestanding")
    flags += ("-ffunction-sections", "-fdata-sections")
    return archive(folder, *flags, compiler=compiler.command, ar="arm-none-eabi-gcc-ar")


def linked(
    library: Path, name: str, board: Board, compiler: Compiler, *flags: str
) -> dict[str, str]:
    """An application with a library: the letters of its symbols by their names."""
    folder = library.parent
    (folder / "main.c").write_text(APPLICATION.replace("NAME", name).replace("UPPER", name.upper()))
    command = ["arm-none-eabi-gcc", *board.toolchain.machine_flags, *compiler.for_linking]
    command += [f"-I{library.parents[1] / 'src'}", str(folder / "main.c"), *flags, str(library)]
    command += ["-Wl,--no-whole-archive", "--specs=nosys.specs", "-o", str(folder / "main.elf")]
    subprocess.run(command, check=True, timeout=300)
    said = subprocess.run(
        ["arm-none-eabi-nm", "--format=posix", str(folder / "main.elf")],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return {line.split()[0]: line.split()[1] for line in said.splitlines()}


def check(everything: Path, folder: Path, name: str, board: Board, how: str) -> None:
    """A library of all kernels links whole, and each of its names is its own."""
    if how == "clang" and shutil.which("clang") is None:
        pytest.skip("needs clang")
    made = library(exported(everything, folder / name, name=name), board, COMPILERS[how])
    symbols = linked(made, name, board, COMPILERS[how], "-Wl,--whole-archive")
    assert symbols["main"] == "T"
    others = [word for word in symbols if word.startswith("poet") and not word.startswith(name)]
    assert others == [] or name == "poetfw"


def test_a_renamed_library_links_with_lto(everything: Path, tmp_path: Path) -> None:
    check(everything, tmp_path, "left", load_board("nrf52840"), "gcc -flto")


def test_the_library_of_a_core_without_floats_links_with_lto(tmp_path: Path) -> None:
    """Calls of float functions appear after the linker has read the archive."""
    board = load_board("mkr1000")
    folder = project(tmp_path / "project", board="mkr1000", model="mlp", batch=1, ram_bytes=None)
    made = library(exported(folder, tmp_path / "left", name="left"), board, COMPILERS["gcc -flto"])
    symbols = linked(made, "left", board, COMPILERS["gcc -flto"], "-Wl,--gc-sections")
    assert symbols["__aeabi_fadd"] == symbols["__aeabi_fmul"] == "W"


@pytest.mark.slow
@pytest.mark.parametrize("how", COMPILERS)
@pytest.mark.parametrize("board", BOARDS)
@pytest.mark.parametrize("name", NAMES)
def test_every_kernel_links(
    everything: Path, name: str, board: str, how: str, tmp_path: Path
) -> None:
    check(everything, tmp_path, name, load_board(board), how)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", BOARDS)
@pytest.mark.parametrize("model", MODELS)
def test_the_library_of_every_model_links(model: str, name: str, tmp_path: Path) -> None:
    """By each compiler and under either name: all of it trained, or the last layer."""
    board, folder = load_board(name), None
    for at, train in enumerate(((), ("last:1",))):
        settings = {"board": name, "model": model, "data": "synthetic", "train": train}
        try:
            folder = project(tmp_path / f"project{at}", **settings, batch=2, ram_bytes=None)
            break
        except InfeasibleError as error:
            why = str(error)
    if folder is None:
        pytest.skip(why)
    for called in NAMES:
        for number, compiler in enumerate(COMPILERS.values()):
            made = library(
                exported(folder, tmp_path / f"{called}{number}", name=called), board, compiler
            )
            assert linked(made, called, board, compiler, "-Wl,--gc-sections")["main"] == "T"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("qemu-system-arm") is None, reason="needs qemu-system-arm")
def test_two_libraries_with_convolutions_train_in_one_firmware(tmp_path: Path) -> None:
    """To the bits that they have on this computer, each as far as it is trained."""
    board = load_board("nrf52840")
    folder = project(
        tmp_path / "project", board="nrf52840", model="digits-cnn", batch=4, ram_bytes=100_000
    )
    source = tmp_path / "two.c"
    source.write_text(TWO)
    machine = board.toolchain.machine_flags
    said = []
    for prefix, flags in (("", ()), ("arm-none-eabi-", machine)):
        compiler, made = f"{prefix}gcc", []
        for name in ("left", "right"):
            target = tmp_path / f"{prefix}{name}"
            export_project(folder, target, ExportSettings("cmake", name))
            made.append(archive(target, *flags, compiler=compiler, ar=f"{prefix}ar"))
        includes = [f"-I{library.parents[1] / 'src'}" for library in made]
        start = (TWIN / "twin_start.c", "--specs=rdimon.specs", f"-T{TWIN / 'twin.ld'}")
        command = [compiler, *flags, *includes, str(source), *map(str, made)]
        command += map(str, start if prefix else ())
        elf = tmp_path / f"{prefix}two"
        subprocess.run([*command, "-o", str(elf)], check=True, timeout=120)
        qemu = "qemu-system-arm -M mps2-an386 -display none -monitor none -serial none"
        qemu += f" -semihosting-config enable=on,target=native -kernel {elf}"
        run = qemu.split() if prefix else [str(elf)]
        said.append(subprocess.run(run, check=True, capture_output=True, timeout=120).stdout)
    assert said[0] == said[1]
    losses = [line.split() for line in said[0].decode().splitlines()]
    assert [right for _, right in losses] == [losses[0][1]] * 2 + [losses[2][1]] * 2
    assert losses[0][0] == losses[0][1] != losses[1][0] == losses[2][1]
