# SPDX-License-Identifier: Apache-2.0
"""What the smallest core, without FPU and with 32 KB of RAM, cannot afford."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from compiling import compile_each
from emulator.firmware_tools import (
    C_FLAGS,
    CORTEX_M0PLUS,
    SAMPLE,
    TEMPLATES,
    compile_sample,
    needs_qemu,
)
from emulator.kernel_core import Build, kernel_objects
from poetfw.boards import load_board
from unit.kernels.conftest import KERNELS

pytestmark = needs_qemu  # and its compiler

BOARD = load_board("mkr1000")
CPP = BOARD.toolchain.prefix + "g++"
FOLDERS = (
    *(TEMPLATES / name for name in ("runtime", "storage", "port")),
    *(TEMPLATES / name for name in ("hal", "hal/cortex_m")),
    TEMPLATES / "hal" / BOARD.hal,
    SAMPLE / "src/generated",
)
ARENA_BYTES, PAGE_BUFFER_BYTES = 4096, 512
DOUBLE = re.compile(r"__aeabi_(?:c?d\w+|\w+2d)\b")
"""The ABI's helpers (RTABI32, section 4.1) for double, which here is long double as well."""


def calls_of(sources: list[Path], folder: Path) -> list[str]:
    """Names that the objects of sources need from elsewhere."""
    compiler, *machine = BOARD.toolchain.compiler, *BOARD.toolchain.machine_flags
    includes = [f"-I{path}" for path in (*FOLDERS, KERNELS)]
    flags = [*machine, *C_FLAGS, "-O1", "-ffreestanding", *includes]
    return undefined(compile_each([compiler, *flags], sources, folder))


def undefined(objects: list[str]) -> list[str]:
    """Names that objects need from elsewhere."""
    names = [BOARD.toolchain.prefix + "nm", "--undefined-only", *objects]
    return subprocess.run(names, check=True, capture_output=True, text=True).stdout.split()


def test_nothing_calculates_in_double(tmp_path: Path) -> None:
    sources = [file for folder in FOLDERS for file in sorted(folder.glob("*.[cS]"))]
    sources += sorted(KERNELS.glob("dot*.[cS]"))
    (kernels := tmp_path / "kernels").mkdir()
    calls = calls_of(sources, tmp_path) + undefined(kernel_objects(Build(CORTEX_M0PLUS), kernels))
    assert "__aeabi_fadd" in calls
    assert [name for name in calls if DOUBLE.match(name)] == []


@pytest.mark.skipif(shutil.which(CPP) is None, reason="needs a compiler of C++")
def test_a_class_with_virtual_functions_needs_no_library_of_cpp(tmp_path: Path) -> None:
    source = tmp_path / "application.cpp"
    source.write_text(
        "struct Meter { virtual ~Meter(); virtual float read() = 0; };\nMeter::~Meter() {}\n"
    )
    flags = [*BOARD.toolchain.machine_flags, "-Os", "-ffreestanding"]
    application, own = str(tmp_path / "application.o"), str(tmp_path / "cxx.o")
    command = [CPP, *flags, "-fno-rtti", "-fno-exceptions", "-c", str(source), "-o", application]
    subprocess.run(command, check=True)
    assert {*undefined([application])} >= {"_ZdlPvj", "__cxa_pure_virtual"}
    compiler = [BOARD.toolchain.compiler, *flags, *(f"-I{path}" for path in FOLDERS)]
    cxx = TEMPLATES / "hal/cortex_m/cxx.c"
    subprocess.run([*compiler, "-c", str(cxx), "-o", own], check=True)
    together = str(tmp_path / "together.o")
    link = [BOARD.toolchain.prefix + "ld", "-r", application, own, "-o", together]
    subprocess.run(link, check=True)
    assert undefined([together]) == []


@pytest.mark.parametrize(
    "expression", ["x * 0.1", "(float)(x + (double)n)", "x < 0.1", "(float)(x * 0.1L)"]
)
def test_a_double_by_accident_is_found(tmp_path: Path, expression: str) -> None:
    source = tmp_path / "accident.c"
    source.write_text(
        "float f(float x, long long n);\n"
        f"float f(float x, long long n) {{ (void)n; return (float)({expression}); }}\n"
    )
    assert any(DOUBLE.match(name) for name in calls_of([source], tmp_path))


def test_static_data_stack_and_page_buffer_take_3_kb(tmp_path: Path) -> None:
    elf = compile_sample(
        tmp_path / "sample.elf",
        BOARD.hal,
        machine=BOARD.toolchain.machine_flags,
        ram_bytes=BOARD.ram_bytes,
        flash_bytes=BOARD.flash_bytes,
        stack_bytes=BOARD.stack_bytes,
    )
    with elf.open("rb") as file:
        sections = {section.name: section["sh_size"] for section in ELFFile(file).iter_sections()}
    assert sections[".noinit"] == BOARD.stack_bytes
    ram = sum(sections[name] for name in (".noinit", ".data", ".bss"))
    assert 0 < ram - BOARD.stack_bytes - ARENA_BYTES < 416
    assert ram - ARENA_BYTES + PAGE_BUFFER_BYTES <= 3 * 1024
