# SPDX-License-Identifier: Apache-2.0
"""A project that was built, and running an ELF on its storage image."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from poetfw.boards import Board, load_board
from poetfw.devices import Event, RunLog, emulator_command, run_firmware
from poetfw.errors import OutputError
from poetfw.firmware import RunRequest, SlotPurpose, refuse_links, set_request
from poetfw.ir import Tensor
from poetfw.ops import Array
from poetfw.pipeline import IMAGE, REPORT
from poetfw.report import BuildReport, Stages, read_stages

OnEvent = Callable[[Event], None]
SlotValues = Mapping[tuple[str, SlotPurpose], Array]


@dataclass(frozen=True)
class BuiltProject:
    """A project that `poetfw build` wrote and compiled.

    Attributes:
        folder: where it is.
        board: its board, as it was when the project was built.
        report: what the build came to.
        stages: the values it was made from.
    """

    folder: Path
    board: Board
    report: BuildReport
    stages: Stages

    @property
    def image(self) -> Path:
        """The storage image with the initial weights."""
        return self.folder / IMAGE

    @property
    def runnable(self) -> Path:
        """The ELF that runs here."""
        return self.folder / ".pio" / "build" / environment_of(self.board) / "firmware.elf"

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


def open_project(folder: Path, board: str | None = None) -> BuiltProject:
    """The project in a folder.

    Args:
        folder: where it is.
        board: name of the board it must be for; None for any.

    Raises:
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
    project = BuiltProject(folder, load_board(folder / "board.toml"), report, read_stages(folder))
    if report.elf is None:
        raise OutputError(
            f"{folder} was generated but not compiled",
            "run `poetfw build` without --generate-only",
        )
    if not project.runnable.is_file():
        raise OutputError(
            f"{project.runnable}, the compiled firmware, is gone", "run `poetfw build` again"
        )
    return project


def environment_of(board: Board) -> str:
    """The PlatformIO environment whose ELF runs here: the twin's, or this computer's."""
    return board.twin.platformio_env if board.twin is not None else board.platformio_env


def execute(
    board: Board,
    elf: Path,
    image: Path,
    folder: Path,
    request: RunRequest,
    evaluations: int,
    timeout_s: float,
    on_event: OnEvent = lambda event: None,
    prepare: Callable[[Path], None] = lambda copy: None,
) -> RunLog:
    """Run an ELF on a fresh copy of a storage image, which keeps what the run writes.

    Args:
        board: what runs it: this computer or the board's twin.
        elf: the firmware.
        image: the storage image; it stays as it is.
        folder: where the copy goes.
        request: what the firmware shall do.
        evaluations: batches of held-out samples that it evaluates.
        timeout_s: seconds the run may take.
        on_event: called for each line of the protocol as it comes.
        prepare: called with the copy before the run.

    Raises:
        DeviceError: the firmware hangs, faults or reports an error.
        OutputError: the copy cannot be written.
        ToolError: the emulator is missing.
    """
    command = emulator_command(board, elf)
    copy = folder / IMAGE
    try:
        folder.mkdir(exist_ok=True)
        copy.unlink(missing_ok=True)  # were it a link, the copy would go to where it leads
        shutil.copyfile(image, copy)
        prepare(copy)
    except OSError as error:
        raise OutputError(f"{copy} cannot be written: {error.strerror or error}") from error
    set_request(copy, request)
    log = run_firmware(
        command, folder, timeout_s, on_event, steps=request.steps, evaluations=evaluations
    )
    set_request(copy, replace(request, capture=False))
    return log
