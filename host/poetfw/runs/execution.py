# SPDX-License-Identifier: Apache-2.0
"""A project that was built, and running an ELF on its storage image."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from poetfw.boards import Board, Machine, Twin, load_board
from poetfw.common.errors import ConfigError, OutputError
from poetfw.common.option_values import SILENCE_S
from poetfw.firmware import (
    IMAGE,
    RunRequest,
    SlotPurpose,
    refuse_links,
    set_request,
    trains_alike,
)
from poetfw.firmware.platformio_ini import SYSTEM_SUFFIX
from poetfw.ir import Tensor
from poetfw.ops import Array
from poetfw.pipeline import REPORT
from poetfw.report import BuildReport, Stages, read_stages
from poetfw.tools import Event, RunLog, emulator_of, run_firmware

OnEvent = Callable[[Event], None]
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


def open_project(
    folder: Path,
    board: str | None = None,
    emulator: str | None = None,
    on_board: bool = False,
    threads: int | None = None,
) -> BuiltProject:
    """The project in a folder.

    Args:
        folder: where it is.
        board: label of the board it must be for; None for any.
        emulator: which of the board's twins shall run it; None for the first.
        on_board: whether the board itself shall: then its firmware must be there.
        threads: that kernels shall divide their results among on the twin; None for the build's.

    Raises:
        BoardError: the board has no such twin, or no operating system for threads.
        ConfigError: threads are given, and the build is for several devices.
        OutputError: there is none, it was not compiled, its firmware is gone, it is for another
            board, or holds a link.
    """
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
    twin = built_for.with_threads(threads).twin(emulator)
    twin = replace(twin, machine=replace(twin.machine, threads=threads))
    project = BuiltProject(
        folder, built_for, twin, report, read_stages(folder, built_for.erase_bytes)
    )
    if report.elf is None:
        raise OutputError(
            f"{folder} was generated but not compiled",
            "run `poetfw build` again, to its end and without --generate-only",
        )
    needed = project.flashable if on_board else project.runnable
    if not needed.is_file():
        raise OutputError(f"{needed}, the compiled firmware, is gone", "run `poetfw build` again")
    return project


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
