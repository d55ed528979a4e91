# SPDX-License-Identifier: Apache-2.0
"""Machines without compiler or emulator, and compilers that fail."""

from __future__ import annotations

from pathlib import Path

from invalid.case import Case
from invalid.makers import both

NOTHING = {"PATH": "{folder}/bin"}
LINUX = "build --board linux --model mlp --batch 8"


def no_programs(folder: Path) -> None:
    (folder / "bin").mkdir()


def program(name: str, script: str) -> object:
    def make(folder: Path) -> None:
        path = folder / "bin" / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    return make


def twin_project(folder: Path) -> None:
    """The compiled project, said to be for a board with a twin."""
    from poetfw.common.resources import boards_dir

    project = folder / "build/linux"
    target = folder / "build/nrf52840"
    project.rename(target)
    (target / "board.toml").write_bytes((boards_dir() / "nrf52840.toml").read_bytes())
    report = target / "build.json"
    report.write_text(report.read_text().replace('"board": "linux"', '"board": "nrf52840"'))
    elf = target / ".pio/build/nrf52840-twin/firmware.elf"
    elf.parent.mkdir()
    elf.write_bytes(b"")


CASES = (
    Case(
        "no compiler",
        f"{LINUX} --toolchain system",
        3,
        (
            "the compiler gcc is not installed",
            "sudo apt-get install gcc libc6-dev",
            "pip install 'poetfw[portable]'",
        ),
        no_programs,
        NOTHING,
    ),
    Case(
        "no compiler, budget given",
        f"{LINUX} --ram 1000000 --toolchain system",
        3,
        ("the compiler gcc is not installed",),
        no_programs,
        NOTHING,
    ),
    Case(
        "no Arm compiler",
        "build --board nrf52840 --toolchain system",
        3,
        (
            "the compiler arm-none-eabi-gcc is not installed",
            "sudo apt-get install gcc-arm-none-eabi",
        ),
        no_programs,
        NOTHING,
    ),
    Case(
        "compiler that fails",
        LINUX,
        3,
        ("gcc ended with exit code 1:", "no licence"),
        both(no_programs, program("gcc", "echo no licence >&2; exit 1")),
        NOTHING,
    ),
    Case(
        "compiler that makes no object files",
        LINUX,
        3,
        ("is not a readable ELF file",),
        both(no_programs, program("gcc", 'for last; do :; done; echo junk > "$last"')),
        NOTHING,
    ),
    Case(
        "no QEMU",
        "run --board nrf52840 --emulator qemu",
        3,
        ("qemu-system-arm is not installed", "sudo apt-get install qemu-system-arm"),
        both(twin_project, no_programs),
        NOTHING,
        built=True,
    ),
    Case(
        "QEMU that fails",
        "run --board nrf52840",
        4,
        ("ended with exit code 1 before its report was complete:", "no such machine"),
        both(
            twin_project,
            no_programs,
            program("qemu-system-arm", "echo no such machine >&2; exit 1"),
        ),
        NOTHING,
        built=True,
    ),
)
