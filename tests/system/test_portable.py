# SPDX-License-Identifier: Apache-2.0
"""Builds with zig and runs with unicorn, both from pip, have the bits of GCC and QEMU."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from poetfw.api.plans import plan
from poetfw.boards import Board, load_board
from poetfw.boards.toolchain import toolchain_names
from poetfw.costs import analytic_costs
from poetfw.firmware import (
    IMAGE,
    assign_slots,
    constant_values,
    read_request,
    render_project,
)
from poetfw.firmware.platformio_ini import compile_flags
from poetfw.models import MODELS
from poetfw.planning import BuildSettings, derive_program, load_model, lower_plan, plan_unscheduled
from poetfw.runs.execution import execute
from poetfw.tools import build_environments, elf_machine
from poetfw.tools.emulators import emulator_of
from poetfw.tools.toolchains import find_command, require_compiler
from system.commands import needs_twin, poetfw, succeed

pytestmark = pytest.mark.skipif(find_command("ziglang:zig") is None, reason="needs ziglang")

ENVIRONMENT = "nrf52840-twin"
FPU = re.compile(r"\t(vfma|vmla|vmul|vadd)\.f32\t")
STEPS = 2


@pytest.fixture(scope="module")
def elfs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A small training step of each toolchain, for the twin."""
    built = {}
    for toolchain in ("system", "zig"):
        folder = tmp_path_factory.mktemp(toolchain) / "project"
        options = {"batch": 8, "scheduler": "checkpoint-all", "toolchain": toolchain}
        plan("mlp", board="nrf52840", ram="100K", **options).write(folder)
        built[toolchain] = build_environments(folder, [ENVIRONMENT])[ENVIRONMENT]
    return built


def image_of(elf: Path) -> Path:
    return elf.parents[3] / IMAGE


def trained(elf: Path, twin: str, folder: Path, board: str = "nrf52840") -> bytes:
    """The storage image after a few steps on a twin."""
    machine = load_board(board).twin(twin).machine
    short = replace(read_request(image_of(elf)), steps=STEPS, evaluate=False)
    folder.mkdir()
    log = execute(machine, elf, image_of(elf), folder, short, 0, 300.0)
    assert len(log.losses) == STEPS
    return (folder / IMAGE).read_bytes()


@needs_twin
@pytest.mark.emulator
def test_zig_and_unicorn_train_to_the_bits_of_gcc_and_qemu(
    elfs: dict[str, Path], tmp_path: Path
) -> None:
    assert image_of(elfs["zig"]).read_bytes() == image_of(elfs["system"]).read_bytes()
    portable = trained(elfs["zig"], "mps2", tmp_path / "portable")
    assert portable != image_of(elfs["zig"]).read_bytes()
    assert portable == trained(elfs["system"], "qemu", tmp_path / "system")


@pytest.mark.skipif(shutil.which("arm-none-eabi-objdump") is None, reason="needs GNU binutils")
def test_zig_builds_for_the_fpu(elfs: dict[str, Path]) -> None:
    """Its cores have none until a feature adds it, and then nobody is told."""
    assert elf_machine(elfs["zig"]) == "EM_ARM"
    command = ["arm-none-eabi-objdump", "-d", str(elfs["zig"])]
    code = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert len(FPU.findall(code)) > 100
    assert "__aeabi_fmul" not in code


def test_the_machine_of_unicorn_ends_where_memory_does(
    elfs: dict[str, Path], tmp_path: Path
) -> None:
    """The firmware's guard holds the machine's 4 MB to the board's 256 KB."""
    emulator = emulator_of(load_board("nrf52840").twin("mps2").machine)
    assert emulator.installed
    elf = bytearray(elfs["zig"].read_bytes())
    with elfs["zig"].open("rb") as file:
        start = ELFFile(file).get_section_by_name(".text")["sh_offset"]
    assert elf[start : start + 4] == (0x20001000).to_bytes(4, "little")  # the stack pointer
    elf[start : start + 4] = (0x20300000).to_bytes(4, "little")
    (tmp_path / "bad.elf").write_bytes(elf)
    shutil.copy(image_of(elfs["zig"]), tmp_path / IMAGE)
    command = emulator.command(load_board("nrf52840").twin("mps2").machine, tmp_path / "bad.elf")
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert re.search(r"a (read|write) of \d bytes at 0x20[23]\w+, where that is not", ran.stderr)


@pytest.mark.parametrize("counts", [False, True])
def test_time_stands_still_unless_instructions_are_counted(
    elfs: dict[str, Path], tmp_path: Path, counts: bool
) -> None:
    machine = load_board("nrf52840").twin("mps2").machine
    chosen = emulator_of(machine).counting(machine) if counts else machine
    elf = elfs["zig"]
    short = replace(read_request(image_of(elf)), steps=1, evaluate=False)
    log = execute(chosen, elf, image_of(elf), tmp_path / "run", short, 0, 300.0)
    assert log.tick_unit == "instructions"
    assert bool(log.ticks) is counts


@needs_twin
@pytest.mark.slow
@pytest.mark.parametrize(("board", "twin"), [("nrf52840", "mps2"), ("mkr1000", "unicorn")])
def test_a_whole_build_is_verified_without_gcc_and_qemu(
    tmp_path: Path, board: str, twin: str
) -> None:
    """And leaves the image that GCC and QEMU leave."""
    empty = tmp_path / "empty"
    empty.mkdir()
    model = [] if board == "nrf52840" else ["--model", "mlp"]
    trained = {}
    for name, path in (("zig", {"PATH": str(empty)}), ("gcc", {})):
        folder = tmp_path / name
        folder.mkdir()
        built = poetfw("build", "--board", board, *model, "--json", cwd=folder, **path)
        assert built.code == 0, built.stderr
        assert built.json["toolchain"] == name
        run = ("run", "--board", board, "--steps", "4", "--verify", "--json")
        ran = poetfw(*run, cwd=folder, timeout_s=900, **path)
        assert ran.code == 0, ran.stderr
        (program,) = ran.json["memories"].values()
        assert program["emulator"] == (twin if name == "zig" else "qemu")
        trained[name] = (folder / "build" / board / "run" / IMAGE).read_bytes()
    assert trained["zig"] == trained["gcc"]


@pytest.mark.slow
def test_the_demo_needs_neither_gcc_nor_qemu(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    shown = poetfw("demo", cwd=tmp_path, timeout_s=900, PATH=str(empty))
    assert shown.code == 0, shown.stderr
    assert "98.06%" in shown.stdout
    assert "with the toolchain zig" in shown.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", ["linux", "rpi4"])
def test_programs_under_linux_are_built_too(tmp_path: Path, name: str) -> None:
    """For this computer with its C library, for others with musl's."""
    options = ("--ram", "64M", "--batch", "8", "--toolchain", "zig")
    succeed("build", "--board", name, *options, cwd=tmp_path)
    run = poetfw("run", "--board", name, "--steps", "3", "--verify", "--json", cwd=tmp_path)
    assert run.json["verify"]["ok"]


@pytest.mark.slow
@pytest.mark.parametrize("board", ["nrf52840", "mkr1000"])
def test_the_code_of_all_built_in_models_compiles(board: str, tmp_path: Path) -> None:
    known = load_board(board).with_toolchain("zig")
    done: set[bytes] = set()
    for model in MODELS:
        for path, content in sources_of(model, known).items():
            target = tmp_path / model / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        folders = {path.parent for path in (tmp_path / model).rglob("*.h")}
        includes = [f"-I{folder}" for folder in sorted(folders)]
        flags = [*known.toolchain.machine_flags, *compile_flags(), "-ffreestanding", "-Werror"]
        compiler = [*require_compiler(known.toolchain), *flags, *includes]
        for source in sorted((tmp_path / model / "lib").rglob("*.[cS]")):
            if source.name == "plan.c":  # it asserts that everything kept fits the RAM
                continue
            text = source.read_bytes()
            if text not in done or "generated" in source.parts:
                done.add(text)
                command = [*compiler, "-c", str(source), "-o", str(tmp_path / "a.o")]
                subprocess.run(command, check=True, timeout=120)
        shutil.rmtree(tmp_path / model)
    assert len(done) > 50


def sources_of(model: str, board: Board) -> dict[str, bytes]:
    """Sources of a model's library, for a board with as much RAM as it takes."""
    settings = BuildSettings(board.name, model).on(board)
    loaded = load_model(settings)
    program = derive_program(settings, loaded)
    kept = plan_unscheduled(program, board, analytic_costs)
    lowering = lower_plan(program, board, kept, assign_slots(program, kept.training.plan))
    constants = constant_values(
        lowering.view.flash, lowering.names, {**loaded.weights, **program.made}
    )
    files = render_project(lowering.view, board, constants=constants).files
    return {path: content for path, content in files.items() if path.startswith(("lib/", "src/"))}


def test_every_toolchain_is_a_choice_of_the_command_line() -> None:
    from poetfw.settings.build import TOOLCHAINS

    assert {*TOOLCHAINS, "gcc"} == {"auto", "system", "stock", *toolchain_names()}
