# SPDX-License-Identifier: Apache-2.0
"""A project that was built, and running an ELF on its storage image."""

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
from poetfw.firmware.platformio_ini import SYSTEM_SUFFIX
from poetfw.ir import Tensor
from poetfw.memory import Message
from poetfw.ops import Array
from poetfw.pipeline import REPORT
from poetfw.planning import folders_of
from poetfw.report import BuildReport, Stages, read_stages
from poetfw.report.stage_files import PLAN
from poetfw.schedule import StepKind
from poetfw.tools import Event, RunLog, emulator_of, run_firmware

OnEvent = Callable[[Event], None]
Update = Callable[[int, int, str], None]
"""Called with how many of how many are done, and of what."""

SlotValues = Mapping[tuple[str, SlotPurpose], Array]


@dataclass(frozen=True)
class BuiltProject:
    """A project that `poetfw build` wrote and compiled.

    Attributes:
        folder: where it is.
        board: its board, as it was when the project was built.
        twin: the one that runs it.
        report: what the build came to.
        stages: the values it was made from.
    """

    folder: Path
    board: Board
    twin: Twin
    report: BuildReport
    stages: Stages

    @property
    def image(self) -> Path:
        """The storage image with the initial weights."""
        return self.folder / IMAGE

    @property
    def environment(self) -> str:
        """The PlatformIO environment that built the board's own ELF.

        Raises:
            OutputError: the report does not name one of the board's twins.
        """
        elf = Path(self.report.elf or "")
        own = self.board.platformio_env
        if elf.parent.name not in (own, own + SYSTEM_SUFFIX):
            raise OutputError(
                f"{self.folder / REPORT}: elf is not the board's: {str(elf)!r:.200}",
                "run `poetfw build` again",
            )
        return elf.parent.name

    def environment_of(self, machine: Machine) -> str:
        """The PlatformIO environment whose ELF runs on a machine.

        Raises:
            OutputError: it runs the board's own, and the report does not name that.
        """
        return machine.platformio_env or self.environment

    @property
    def runnable(self) -> Path:
        """The ELF that runs on the twin."""
        return self._elf(self.environment_of(self.twin.machine))

    @property
    def flashable(self) -> Path:
        """The board's own ELF."""
        return self._elf(self.environment)

    def _elf(self, environment: str) -> Path:
        return self.folder / ".pio" / "build" / environment / "firmware.elf"

    @property
    def evaluations(self) -> int:
        """Batches of held-out samples; without classes, samples beyond whole batches are left."""
        held_out, batch = self.report.held_out_samples, self.report.batch
        return -(-held_out // batch) if self.report.classifies else held_out // batch

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        """The tensors that slots hold, by name."""
        program = self.stages.program
        return {tensor.name: tensor for tensor in (*program.training.tensors, program.metric)}


@dataclass(frozen=True)
class BuildFolder:
    """The programs that `poetfw build` wrote and compiled, one for each memory.

    Attributes:
        folder: where they are.
        report: what the build came to.
        projects: the programs' projects, by their memories' names. A folder that holds one of
            several programs has that one alone.
    """

    folder: Path
    report: BuildReport
    projects: Mapping[str, BuiltProject]

    @property
    def messages(self) -> tuple[Message, ...]:
        """Messages of all programs, in their order."""
        return self.report.messages

    @property
    def messages_of_a_step(self) -> tuple[Message, ...]:
        """Those that each training step sends."""
        return tuple(message for message in self.messages if message.behind is not None)

    @property
    def apart(self) -> bool:
        """True where there are several programs."""
        return len(self.report.memories) > 1

    @cached_property
    def evaluator(self) -> BuiltProject:
        """The program that evaluates held-out samples, and has all weights in the end.

        Raises:
            ConfigError: it is not in this folder.
        """
        for project in self.projects.values():
            if project.stages.training.evaluates_here:
                return project
        raise ConfigError(
            f"{self.folder} holds one of several programs, which need not have all weights",
            f"name the folder of all: --out {shlex.quote(str(self.folder.parent))}",
        )

    def size_bytes(self, message: Message) -> int:
        """Bytes of a message."""
        return self.evaluator.tensors[message.tensor].size_bytes

    def check(self) -> None:
        """Check that all programs are there, of the same build, and each has its storage image.

        Raises:
            ConfigError: programs are not in this folder.
            DeviceError: the storage image of one is missing, damaged, or of another build.
            OutputError: a project is of another build than the others.
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
        """The slots of all programs, in their images.

        Raises:
            DeviceError: an image belongs to another program, or two have different values.
        """
        program = self.evaluator.stages.program
        own = {  # each of which only one program knows, although all have room for it
            program.loss.name: self.tells_loss,
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
    def tells_loss(self) -> str:
        """The memory whose program updates the loss."""
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
    """The build in a folder.

    Args:
        folder: where it is; or the folder of one of its programs.
        board: label of the board it must be for; None for any.
        emulator: which twin shall run each program whose board has it; None for the first of each.
        on_board: memories whose boards themselves shall run their programs.
        threads: that kernels shall divide their results among on the twin; None for the build's.

    Raises:
        BoardError: no board has such a twin, or there is no operating system for threads.
        ConfigError: threads are given, and the build is for several devices.
        OutputError: the folder holds no build, or one that was not compiled, lacks a program, is
            for another board, or holds a link.
    """
    report = BuildReport.read(folder / REPORT)
    names = report.memories
    if not names or any(name in (".", "..") or Path(name).name != name for name in names):
        raise OutputError(f"{folder / REPORT} names no memories", "run `poetfw build` again")
    if (folder / PLAN).exists():
        project = _open(folder, board, threads)
        opened = {project.stages.training.here: project}
    else:
        places = folders_of(report.memories, folder)
        opened = {name: _open(place, board, threads) for name, place in places.items()}
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
    """The project of one program, in its folder.

    Args:
        folder: where it is.
        board: label of the board it must be for; None for any.
        on_board: whether the board itself shall run it: then its firmware must be there.

    Raises:
        OutputError: the folder holds no project, or one that was not compiled, lacks its firmware,
            is for another board, or holds a link.
    """
    return _choose(_open(folder, board, None), None, on_board, None)


def _open(folder: Path, board: str | None, threads: int | None) -> BuiltProject:
    """A project with its first twin, whether or not anything of it was compiled."""
    report = BuildReport.read(folder / REPORT)
    refuse_links(folder)
    if board not in (None, report.board):
        raise OutputError(
            f"{folder} holds a build for {report.board}, not for {board}",
            f"use --board {report.board}, or name another folder with --out",
        )
    if threads is not None and report.devices > 1:
        raise ConfigError(
            f"--threads divides the kernels of one device, and {folder} is for several",
            "run it without: each of them has a thread of its own",
        )
    built_for = board_of(folder, report)
    stages = read_stages(folder, built_for.erase_bytes)
    return BuiltProject(folder, built_for, built_for.twin(None), report, stages)


def _choose(
    project: BuiltProject, emulator: str | None, on_board: bool, threads: int | None
) -> BuiltProject:
    """The project with the twin that runs it, where what runs was compiled."""
    twin = project.board.with_threads(threads).twin(emulator)
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
    """The board that a project was built for, as it was then, with what was chosen of it.

    Raises:
        BoardError: the project's board file is malformed.
    """
    board = load_board(folder / "board.toml", report.board.partition(":")[2] or None)
    return board.with_threads(report.threads)


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
    """Run an ELF on a copy of a storage image, which keeps what the run writes.

    Args:
        machine: what runs it.
        elf: the firmware.
        image: the storage image; it stays as it is.
        folder: where the copy goes.
        request: what the firmware shall do.
        evaluations: batches of held-out samples that it evaluates.
        timeout_s: seconds the run may take.
        on_event: called for each line of the protocol as it comes.
        prepare: called with the copy before the run.
        room_bytes: bytes behind the copy that the firmware may write too.
        resume: whether to take the copy that the run before left, not a fresh one.
        silence_s: seconds that the firmware may say nothing.

    Raises:
        BoardError: poetfw knows no such machine.
        DeviceError: the firmware hangs, faults or reports an error.
        OutputError: the copy cannot be written, or there is none to resume.
        ToolError: the emulator is missing.
    """
    emulator = emulator_of(machine)
    emulator.require()
    copy = fresh_image(machine, image, folder, request, prepare, room_bytes, resume)
    command = emulator.command(machine, elf)
    if machine.threads is not None:
        command = ["env", f"POETFW_THREADS={machine.threads}", *command]
    log = run_firmware(
        command,
        folder,
        timeout_s,
        on_event,
        steps=request.steps,
        evaluations=evaluations,
        resume=resume,
        silence_s=silence_s,
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
    """Make the copy of a storage image that a run on a machine writes to; see `execute`.

    Raises:
        OutputError: the copy cannot be written, or there is none to resume.
    """
    copy = folder / IMAGE
    try:
        folder.mkdir(exist_ok=True)
        if resume:
            check_resumable(copy, image)
        else:
            copy.unlink(missing_ok=True)  # were it a link, the copy would go to where it leads
            shutil.copyfile(image, copy)
        prepare(copy)
        emulator_of(machine).prepare(machine, copy, room_bytes)
    except OSError as error:
        raise OutputError(f"{copy} cannot be written: {error.strerror or error}") from error
    set_request(copy, request)
    return copy


def check_resumable(left: Path, image: Path) -> None:
    """Check that a run left an image, and that it was one of this build.

    Raises:
        DeviceError: one of them is not a storage image.
        OutputError: the run left none, or it was of another build.
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
