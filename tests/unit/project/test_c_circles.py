# SPDX-License-Identifier: Apache-2.0
"""No circle among the C files of a project: what each object needs, and which other has it."""

from __future__ import annotations

import shutil
import subprocess
from collections import defaultdict
from collections.abc import Callable, Mapping
from itertools import groupby
from pathlib import Path

import networkx as nx
import pytest

from compiling import compile_each
from emulator.firmware_tools import CORTEX_M0PLUS, CORTEX_M4F
from emulator.kernel_core import Build, kernel_objects, needs_compiler
from poetfw.common.resources import firmware_templates_dir
from poetfw.pipeline import plan_build
from poetfw.planning import BuildSettings, DevicesSettings
from poetfw.schedule.several import DevicesAnswer
from unit.workers.device_plans import PAIR, any_plan, case_of

Files = Mapping[str, bytes]


def on_every_chip() -> Files:
    """A project whose board is of each family at once: a unit is beside what it includes."""
    settings = BuildSettings(
        board="nrf52840", model="mlp", batch=2, ram_bytes=60_000, scheduler="checkpoint-all",
        ring=4, slices=True,
    )  # fmt: skip
    hal = firmware_templates_dir() / "hal"
    families = {
        f"src/{path.relative_to(hal.parent)}": path.read_bytes()
        for path in hal.rglob("*.[ch]")
        if "posix" not in path.parts
    }
    return written(settings) | families


def of_two(**settings: bool) -> Files:
    case = case_of("mlp")
    answer = DevicesAnswer(any_plan(case.problem, 6), case.problem.tensor_bytes)
    devices = DevicesSettings(PAIR, followed=answer, **settings)
    files = written(BuildSettings(board="", model="mlp", batch=4, devices=devices))
    return {path: files[path] for path in files if not path.startswith("linux-small")}


def written(settings: BuildSettings) -> Files:
    files = plan_build(settings, progress=lambda text: None).project.files
    return {path: content for path, content in files.items() if "platforms" not in path}


def objects(files: Files, folder: Path, prefix: str, *flags: str) -> None:
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    headers = sorted({f"-I{path.parent}" for path in folder.rglob("*.h")})
    sources = sorted(folder.rglob("*.[cS]"))
    for place, group in groupby(sources, key=lambda path: path.parent):
        command = [f"{prefix}gcc", *flags, "-std=c11", "-ffreestanding", "-fno-builtin", *headers]
        compile_each(command, group, place)


def circles(folder: Path, prefix: str) -> list[list[str]]:
    """The units that need each other, in circles; a unit is a C file, and assembly beside it.

    A symbol of several units, of which a board takes one, is taken to be of all of them.
    """
    needs, has = defaultdict(set), defaultdict(set)
    for path in folder.rglob("*.o"):
        unit = path.relative_to(folder).with_suffix("").as_posix().removesuffix("_asm")
        listed = subprocess.run(
            [f"{prefix}nm", "--extern-only", str(path)], check=True, capture_output=True, text=True
        )
        for *_, kind, name in map(str.split, listed.stdout.splitlines()):
            (needs if kind in "Uw" else has)[name].add(unit)
    calls = nx.DiGraph((a, b) for name in needs for a in needs[name] for b in has[name] if a != b)
    return [sorted(part) for part in nx.strongly_connected_components(calls) if len(part) > 1]


PROJECTS: dict[str, tuple[Callable[[], Files], tuple[str, ...]]] = {
    "chips": (on_every_chip, ("arm-none-eabi-", *CORTEX_M4F, "-D_Static_assert(...)=")),
    "threads": (lambda: of_two(parallel=True), ("",)),
    "apart": (lambda: of_two(apart=True), ("",)),
}


@pytest.mark.parametrize("name", PROJECTS)
def test_no_units_need_each_other(name: str, tmp_path: Path) -> None:
    files, (prefix, *flags) = PROJECTS[name]
    if shutil.which(f"{prefix}gcc") is None:
        pytest.skip(f"{prefix}gcc is not installed")
    objects(files(), tmp_path, prefix, *flags)
    assert circles(tmp_path, prefix) == []


@needs_compiler
def test_no_kernels_need_each_other(tmp_path: Path) -> None:
    kernel_objects(Build(CORTEX_M0PLUS), tmp_path)
    assert circles(tmp_path, "arm-none-eabi-") == []


def test_a_circle_is_found(tmp_path: Path) -> None:
    files = {
        "a.h": b"void a(void);\nextern int b;\n",
        "a.c": b'#include "a.h"\nint c(void);\nint c(void) { return b; }\n',
        "b_asm.S": b".globl b\nb: .long a\n",
        "d.c": b'#include "a.h"\nvoid a(void) { b = 1; }\n',
    }
    objects(files, tmp_path, "")
    assert circles(tmp_path, "") == [["b", "d"]]
