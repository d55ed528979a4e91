# SPDX-License-Identifier: Apache-2.0
"""Built projects, and running an ELF on a copy of the storage image."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from poetfw.boards import Board, Machine, Twin, load_board
from poetfw.common.errors import ConfigError, DeviceError, OutputError
from poetfw.common.option_values import SILENCE_S
from poetfw.firmware import (
    IMAGE,
    RunRequest,
    SlotPurpose,
    check_image,
    read_slots,
    refuse_links,
    set_request,
    trains_alike,
)
from poetfw.ir import Tensor
from poetfw.memory import Message
from poetfw.ops import Array
from poetfw.pipeline import REPORT
from poetfw.planning import folders_of
from poetfw.report import BuildReport, Stages, read_stages
from poetfw.report.stage_files import PLAN
from poetfw.schedule import StepKind
from poetfw.tools import Event, RunLog, default_twin, emulator_of, run_firmware

OnEvent = Callable[[Event], None]
SlotValues = Mapping[tuple[str, SlotPurpose], Array]


@dataclass(frozen=True)
class BuiltProject:
    """A project that `poetfw build` wrote and compiled.

    Attributes:
        folder: folder of the project.
        board: target board, as it was at build time.
        twin: twin that runs the project.
        report: report of the build.
        stages: intermediate results of the build.
    """

    folder: Path
    board: Board
    twin: Twin
    report: BuildReport
    stages: Stages

    @property
    def image(self) -> Path:
        """Path of the storage image with the initial weights."""
        return self.folder / IMAGE

    @property
    def environment(self) -> str:
        """PlatformIO environment that built the ELF for the board.

        Raises:
            OutputError: The report names no ELF of the board.
        """
        elf, own = Path(self.report.elf or ""), self.board.own_environment
        if elf.parent.name != own:
            raise OutputError(
                f"{self.folder / REPORT}: elf is not the board's: {str(elf)!r:.200}",
                "run `poetfw build` again",
            )
        return own

    def environment_of(self, machine: Machine) -> str:
        """PlatformIO environment whose ELF runs on a machine.

        Raises:
            OutputError: The machine runs the board's ELF, and the report does not name it.
        """
        return machine.platformio_env or self.environment

    @property
    def runnable(self) -> Path:
        """Path of the ELF that runs on the twin."""
        return self._elf(self.environment_of(self.twin.machine))

    @property
    def flashable(self) -> Path:
        """Path of the ELF for the board."""
        return self._elf(self.environment)

    def _elf(self, environment: str) -> Path:
        return self.folder / ".pio" / "build" / environment / "firmware.elf"

    @property
    def evaluations(self) -> int:
        """Number of held-out batches; a partial last batch counts for classifiers only."""
        held_out, batch = self.report.held_out_samples, self.report.batch
        return -(-held_out // batch) if self.report.classifies else held_out // batch

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        """Tensors that slots hold, by name."""
        program = self.stages.program
        return {tensor.name: tensor for tensor in (*program.training.tensors, program.metric)}


@dataclass(frozen=True)
class BuildFolder:
    """The programs that `poetfw build` wrote and compiled, one per memory.

    Attributes:
        folder: folder of the build.
        report: report of the build.
        projects: projects by memory name. If `folder` is that of one of several programs, only this
            one.
    """

    folder: Path
    report: BuildReport
    projects: Mapping[str, BuiltProject]

    @property
    def messages(self) -> tuple[Message, ...]:
        """Messages of all programs, in plan order."""
        return self.report.messages

    @property
    def messages_of_a_step(self) -> tuple[Message, ...]:
        """Messages that each training step sends."""
        return tuple(message for message in self.messages if message.behind is not None)

    @property
    def apart(self) -> bool:
        """True if there are several programs."""
        return len(self.report.memories) > 1

    @cached_property
    def evaluator(self) -> BuiltProject:
        """Program that evaluates held-out samples and holds all weights after training.

        Raises:
            ConfigError: The program is not in this folder.
        """
        for project in self.projects.values():
            if project.stages.training.evaluates_here:
                return project
        raise ConfigError(
            f"{self.folder} holds one of several programs, which need not have all weights",
            f"name the folder of all: --out {shlex.quote(str(self.folder.parent))}",
        )

    def size_bytes(self, message: Message) -> int:
        """Size of a message in bytes."""
        return self.evaluator.tensors[message.tensor].size_bytes

    def check(self) -> None:
        """Check that all programs are present, of the same build, and have their storage image.

        Raises:
            ConfigError: A program is not in this folder.
            DeviceError: A storage image is missing, damaged or of another build.
            OutputError: The projects are of different builds.
        """
        if set(self.projects) != set(self.report.memories):
            raise ConfigError(
                f"{self.folder} holds one of several programs, which train together only",
                f"poetfw run --out {shlex.quote(str(self.folder.parent))}",
            )
        first = next(iter(self.projects.values())).stages
        for name, project in self.projects.items():
            stages = project.stages
            if (
                project.report.plan_id != self.report.memories[name].plan_id
                or stages.training != first.training.of(name)
                or stages.training.memories != tuple(self.projects)
                or stages.program.to_json() != first.program.to_json()
                or stages.messages != self.messages
            ):
                raise OutputError(
                    f"{project.folder} is of another build than its partners",
                    "run `poetfw build` again",
                )
            check_image(project.image, project.report.plan_id)

    def values(self, images: Mapping[str, Path]) -> SlotValues:
        """Read the slot values of all programs from their images.

        Raises:
            DeviceError: An image belongs to another program, or two images have different values.
        """
        program = self.evaluator.stages.program
        own = {  # slots that every program has but only one writes
            program.loss.name: self.loss_memory,
            program.metric.name: self.evaluator.stages.training.here,
        }
        found: dict[tuple[str, SlotPurpose], Array] = {}
        said_by: dict[tuple[str, SlotPurpose], str] = {}
        for name, project in self.projects.items():
            values = read_slots(images[name], project.stages.slots, project.tensors)
            for key, value in values.items():
                if own.get(key[0], name) != name:
                    continue
                if key in found and found[key].tobytes() != value.tobytes():
                    raise DeviceError(
                        f"devices {said_by[key]!r} and {name!r} have different values of "
                        f"{key[0]!r}",
                        "build again, and run once more; if it happens again, it is a bug in "
                        "poetfw",
                    )
                found.setdefault(key, value)
                said_by.setdefault(key, name)
        return found

    @property
    def loss_memory(self) -> str:
        """Name of the memory whose program computes the loss."""
        stages = self.evaluator.stages
        program, plan = stages.program, stages.training
        ops = [op.name for op in program.training.ops if program.loss.name in op.updates]
        devices = [s.device for s in plan.steps if s.kind is StepKind.COMPUTE and s.node in ops]
        memories = {part.device: part.memory for part in plan.parts}
        return memories[devices[0]] if devices else plan.here


def open_build(
    folder: Path,
    board: str | None = None,
    emulator: str | None = None,
    on_board: Container[str] = (),
    threads: int | None = None,
) -> BuildFolder:
    """Open the build in a folder.

    Args:
        folder: folder of the build, or of one of its programs.
        board: label of the board that the build must be for; None for any.
        emulator: name of the twin to run programs on, where their board has it; None for the first
            twin.
        on_board: names of the memories whose programs run on their board.
        threads: number of threads that kernels use on the twin; None for the build's.

    Raises:
        BoardError: No board has such a twin, or there is no operating system for threads.
        ConfigError: `threads` is given, and the build is for several devices.
        OutputError: The folder holds no build, an incomplete one or one for another board, or
            contains a link.
    """
    report = BuildReport.read(folder / REPORT)
    names = report.memories
    if not names or any(name in (".", "..") or Path(name).name != name for name in names):
        raise OutputError(f"{folder / REPORT} names no memories", "run `poetfw build` again")
    if (folder / PLAN).exists():
        project = _open(folder, report, board, threads)
        opened = {project.stages.training.here: project}
    else:
        places = folders_of(report.memories, folder)
        opened = {
            name: _open(place, BuildReport.read(place / REPORT), board, threads)
            for name, place in places.items()
        }
    on_twins = {name: project for name, project in opened.items() if name not in on_board}
    able = [name for name, p in on_twins.items() if emulator in [t.name for t in p.board.twins]]
    projects = {
        name: _choose(
            project,
            emulator if name in (able or on_twins) else None,
            name in on_board,
            threads,
        )
        for name, project in opened.items()
    }
    return BuildFolder(folder, report, projects)


def open_project(folder: Path, board: str | None = None, on_board: bool = False) -> BuiltProject:
    """Open the project of one program.

    Args:
        folder: folder of the project.
        board: label of the board that the project must be for; None for any.
        on_board: True to run on the board, whose firmware must then be compiled.

    Raises:
        OutputError: The folder holds no project, an uncompiled one or one for another board, or
            contains a link.
    """
    report = BuildReport.read(folder / REPORT)
    return _choose(_open(folder, report, board, None), None, on_board, None)


def _open(
    folder: Path, report: BuildReport, board: str | None, threads: int | None
) -> BuiltProject:
    """Open a project with its first twin; its firmware may be missing."""
    refuse_links(folder)
    expect_board(folder, report, board)
    if threads is not None and report.devices > 1:
        raise ConfigError(
            f"--threads divides the kernels of one device, and {folder} is for several",
            "run it without: each of them has a thread of its own",
        )
    built_for = board_of(folder, report)
    stages = read_stages(folder, built_for.erase_bytes)
    return BuiltProject(folder, built_for, default_twin(built_for), report, stages)


def expect_board(folder: Path, report: BuildReport, board: str | None) -> None:
    """Check that a build is for a board; None for any.

    Raises:
        OutputError: It is for another.
    """
    if board not in (None, report.board):
        raise OutputError(
            f"{folder} holds a build for {report.board}, not for {board}",
            f"use --board {report.board}, or name another folder with --out",
        )


def _choose(
    project: BuiltProject, emulator: str | None, on_board: bool, threads: int | None
) -> BuiltProject:
    """Select the twin that runs a project, and check that the firmware to run is compiled."""
    board = project.board.with_threads(threads)
    twin = default_twin(board) if emulator is None else board.twin(emulator)
    chosen = replace(project, twin=replace(twin, machine=replace(twin.machine, threads=threads)))
    if project.report.elf is None:
        raise OutputError(
            f"{project.folder} was generated but not compiled",
            "run `poetfw build` again, to its end and without --generate-only",
        )
    needed = chosen.flashable if on_board else chosen.runnable
    if not needed.is_file():
        raise OutputError(f"{needed}, the compiled firmware, is gone", "run `poetfw build` again")
    return chosen


def board_of(folder: Path, report: BuildReport) -> Board:
    """Board that a project was built for, as it was at build time, with the build's threads.

    Raises:
        BoardError: The project's board file is malformed.
    """
    board = load_board(folder / "board.toml", report.board.partition(":")[2] or None)
    return board.with_threads(report.threads).with_toolchain(report.toolchain)


def execute(
    machine: Machine,
    elf: Path,
    image: Path,
    folder: Path,
    request: RunRequest,
    evaluations: int,
    timeout_s: float,
    on_event: OnEvent = lambda event: None,
    prepare: Callable[[Path], None] = lambda copy: None,
    room_bytes: int = 0,
    resume: bool = False,
    silence_s: float = SILENCE_S,
) -> RunLog:
    """Run an ELF on a copy of a storage image; the copy keeps what the run writes.

    Args:
        machine: machine that runs the ELF.
        elf: the firmware.
        image: the storage image, which is not changed.
        folder: folder for the copy.
        request: what the firmware shall do.
        evaluations: number of held-out batches, which the firmware evaluates if requested.
        timeout_s: seconds that the run may take.
        on_event: called for each event of the console as it comes.
        prepare: called with the copy before the run.
        room_bytes: bytes behind the copy that the firmware may write as well.
        resume: True to continue on the last run's copy instead of a fresh one.
        silence_s: seconds without a line after which the firmware counts as hung.

    Raises:
        BoardError: The machine is unknown.
        DeviceError: The firmware hangs, faults or reports an error.
        OutputError: The copy cannot be written, or no run can be resumed.
        ToolError: The emulator is missing.
    """
    emulator = emulator_of(machine)
    emulator.require()
    copy = fresh_image(machine, image, folder, request, prepare, room_bytes, resume)
    command = emulator.command(machine, elf)
    threads = {} if machine.threads is None else {"POETFW_THREADS": str(machine.threads)}
    log = run_firmware(
        command,
        folder,
        timeout_s,
        on_event,
        steps=request.steps,
        evaluations=evaluations if request.evaluate else 0,
        resume=resume,
        silence_s=silence_s,
        environment=threads,
    )
    set_request(copy, replace(request, capture=False))
    return log


def fresh_image(
    machine: Machine,
    image: Path,
    folder: Path,
    request: RunRequest,
    prepare: Callable[[Path], None] = lambda copy: None,
    room_bytes: int = 0,
    resume: bool = False,
) -> Path:
    """Copy a storage image for a run on a machine, or reuse the last run's copy; see `execute`.

    Raises:
        OutputError: The copy cannot be written, or no run can be resumed.
    """
    copy = folder / IMAGE
    try:
        folder.mkdir(exist_ok=True)
        if resume:
            check_resumable(copy, image)
        else:
            copy.unlink(missing_ok=True)  # a link must not redirect the copy
            shutil.copyfile(image, copy)
        prepare(copy)
        emulator_of(machine).prepare(machine, copy, room_bytes)
    except OSError as error:
        raise OutputError(f"{copy} cannot be written: {error.strerror or error}") from error
    set_request(copy, request)
    return copy


def check_resumable(left: Path, image: Path) -> None:
    """Check that the image left by the last run can be resumed: that it is of this build.

    Raises:
        DeviceError: One of the files is not a storage image.
        OutputError: The last run left no image, or one of another build.
    """
    if not left.is_file():
        raise OutputError(
            f"there is no run to resume: {left} is not there", "run it without --resume"
        )
    if not trains_alike(left, image):
        raise OutputError(
            f"the run that left {left} was of another build: its plan, samples or seed are others",
            "run it without --resume",
        )
