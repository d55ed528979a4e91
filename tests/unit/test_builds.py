# SPDX-License-Identifier: Apache-2.0
"""Kept commands and objects make what PlatformIO makes, and nothing that is out of date."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import builds
from mutants import marks
from poetfw.common.errors import ToolError
from poetfw.tools import build_environments, platformio

PLATFORMS = Path(__file__).parents[2] / "firmware_templates/platformio"
SETTINGS = """
[toolchain]
cc = gcc
cxx = g++
ar = gcc-ar
ranlib = gcc-ranlib
objcopy = objcopy
hex = ihex
machine_flags =
link_flags =
libs =
size_flags =
hosted = yes

[env:linux]
platform = symlink://${PROJECT_DIR}/platforms/systemgcc
board = posix_native
lib_ignore = own
build_unflags = -Os
build_flags = -O2 -fstack-usage -Ilib/own -Isrc/hal/used
build_src_filter = +<../lib/own/> -<../lib/own/port/> +<*> -<hal/> +<hal/used/>
"""
MAIN = (
    '#include <stdio.h>\n#include "own.h"\nint main(void) { printf("%d", OWN + own() + hal()); }\n'
)
HEADER = "#define OWN 1\nint own(void);\nint hal(void);\n"
SOURCES = {
    "src/main.c": MAIN,
    "lib/own/own.h": HEADER,
    "lib/own/own.c": '#include "own.h"\nint own(void) { return 10 * OWN; }\n',
    "lib/own/port/port.c": "int main(void) { return 0; }\n",
    "src/hal/used/hal.c": '#include "own.h"\nint hal(void) { return 100; }\n',
    "src/hal/other/hal.c": "int hal(void) { return 200; }\n",
}


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Folders that PlatformIO builds in; nothing is kept before."""
    from poetfw.tools.process import run_tool

    found: list[Path] = []

    def run(command: list[str], cwd: Path, *how: object) -> str:
        found.append(cwd)
        return run_tool(command, cwd, *how)  # type: ignore[arg-type]

    monkeypatch.setattr(builds, "KEPT", tmp_path / "kept")
    monkeypatch.setattr(platformio, "run_tool", builds.building(run))
    return found


def written(folder: Path, **changes: str) -> Path:
    for name, text in {**SOURCES, **changes}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    shutil.copytree(PLATFORMS, folder / "platforms")
    (folder / "platformio.ini").write_text(SETTINGS)
    return folder


def program(folder: Path) -> Path:
    return build_environments(folder, ["linux"])["linux"]


def said(program: Path) -> str:
    return subprocess.run([program], check=True, capture_output=True, text=True).stdout


def test_another_project_is_built_as_platformio_builds_it(
    tmp_path: Path, runs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = written(tmp_path / "first")
    assert said(program(first)) == "111"
    changes = {"lib/own/own.h": HEADER.replace("1", "2"), "src/more.c": "int more = 1;\n"}
    second = written(tmp_path / "second", **changes)
    elf = program(second)
    assert runs == [first]
    assert said(elf) == "122", "what includes a changed header is compiled again"
    kept = made(second, elf, tmp_path / "stripped")
    shutil.rmtree(second / ".pio")
    monkeypatch.setenv(builds.PLATFORMIO, "1")
    assert made(second, program(second), tmp_path / "stripped") == kept
    assert runs == [first, second]
    assert len([name for name in kept if name.endswith(".su")]) == 4


def made(project: Path, elf: Path, stripped: Path) -> dict[str, bytes]:
    """Program without its debug information, stack usage of functions, names of objects."""
    subprocess.run(["objcopy", "--strip-debug", elf, stripped], check=True)
    found = {"elf": stripped.read_bytes()}
    for path in project.rglob(".pio/build/**/*.*"):
        if path.suffix in (".o", ".su"):
            content = path.read_bytes() if path.suffix == ".su" else b""
            found[path.relative_to(project).as_posix()] = content
    return found


def test_an_error_is_platformios(tmp_path: Path, runs: list[Path]) -> None:
    program(written(tmp_path / "right"))
    wrong = written(tmp_path / "wrong", **{"src/more.c": "int more = ;\n"})
    with pytest.raises(ToolError, match="exit code 1") as caught:
        program(wrong)
    assert runs[1:] == [wrong]
    assert any("src/more.c:1:12: error" in line for line in caught.value.said)


def test_an_object_is_made_anew_where_another_header_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builds, "KEPT", tmp_path / "kept")
    for name, text in {
        "a/x.h": "#define X 1\n", "b/y.h": "", "c/x.h": "#define X 2\n",
        "x.c": '#include "x.h"\nint x = X;\n',
    }.items():  # fmt: skip
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    compiled = counted(monkeypatch)
    run = subprocess.run

    def value(*folders: str) -> int:
        options = [f"-I{folder}" for folder in folders]
        builds.compile_once(["gcc", *options, "-c", "x.c", "-o", "out/x.o"], tmp_path)
        run(
            ["objcopy", "-O", "binary", "-j", ".data", "out/x.o", "out/x"], cwd=tmp_path, check=True
        )
        return (tmp_path / "out/x").read_bytes()[0]

    assert [value("a"), value("b", "a"), value("a", "b")] == [1, 1, 1]
    assert len(compiled) == 1
    assert value("c", "a") == 2
    (tmp_path / "c/x.h").write_text("#define X 3\n")
    assert value("c", "a") == 3


def counted(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Commands that compile."""
    compiled: list[list[str]] = []
    run = subprocess.run

    def noting(command: list[str], **how: Any) -> Any:
        if "-c" in command:
            compiled.append(command)
        return run(command, **how)

    monkeypatch.setattr(subprocess, "run", noting)
    return compiled


def test_what_includes_a_header_is_compiled_again_where_its_text_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The header has a number, for a source that uses it, an array of so many, or none of both.

    A source may name the number by another macro, or paste its name together.
    """
    monkeypatch.setattr(builds, "KEPT", tmp_path / "kept")
    compiled = counted(monkeypatch)
    names = {"none": "3", "size": "(int)sizeof many", "number": "N", "other": "M", "paste": "P(Q)"}
    for name, value in names.items():
        pasting = "#define P(a) a##O\n" if name == "paste" else ""
        text = f'#include "n.h"\n{pasting}int x(void);\nint x(void) {{ return {value}; }}\n'
        (tmp_path / f"{name}.c").write_text(text)

    def code(name: str, compiler: Callable[[list[str], Path], object]) -> bytes:
        compiler(["gcc", "-O1", "-c", f"{name}.c", "-o", f"{name}.o"], tmp_path)
        command = ["objcopy", "-j", ".text", "-O", "binary", f"{name}.o", name]
        subprocess.run(command, cwd=tmp_path, check=True)
        return (tmp_path / name).read_bytes()

    def plainly(command: list[str], folder: Path) -> None:
        subprocess.run(command, cwd=folder, check=True)

    for number, new in ((4, [*names]), (5, [*names][1:]), (4, [])):
        header = "\n" * number + f"/* {number} */\n#define N {number}\nextern char many[N];\n"
        header += f"#define M (N + 1)\n#define QO {number} /* of\n two lines */\n"
        (tmp_path / "n.h").write_text(header)
        found = {name: code(name, builds.compile_once) for name in names}
        assert [command[-3] for command in compiled] == [f"{name}.c" for name in new]
        assert found == {name: code(name, plainly) for name in names}
        compiled.clear()


def test_mutation_testing_hears_of_what_is_not_compiled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builds, "KEPT", tmp_path / "kept")
    monkeypatch.setenv(marks.COMPILED, str(tmp_path / "note"))
    (tmp_path / "x.c").write_text("/* mark 3 9 */\nint x;\n")
    for _ in range(2):
        builds.compile_once(["gcc", "-c", "x.c", "-o", "x.o"], tmp_path)
    assert (tmp_path / "note").read_text() == "3\n"
