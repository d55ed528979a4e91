"""Running what was built: on the twin or on this computer, and comparing with the references."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike

from poetfw.boards import Board, load_board
from poetfw.costs import analytic_costs
from poetfw.devices import Event, RunLog, build_environments, emulator_command, run_firmware
from poetfw.errors import ConfigError, DeviceError, OutputError
from poetfw.firmware import (
    RunRequest,
    SlotPurpose,
    assign_slots,
    read_request,
    read_samples,
    read_slots,
    render_project,
    sample_order,
    set_request,
    write_image,
    write_project,
)
from poetfw.firmware.project import RUN_DIR
from poetfw.ir import Tensor
from poetfw.ops import Array
from poetfw.pipeline import IMAGE, REPORT, Progress
from poetfw.planning import lower_plan, plan_unscheduled
from poetfw.report import BuildReport, RunReport, Stages, Verification, read_stages
from poetfw.training import Reference

REFERENCE_RAM_BYTES = 4 * 1024 * 1024
"""RAM of the machine that runs a model without recomputing or paging, to compare with."""

ACCEPTED_ERROR = 1e-5
"""Relative error of weights below which no second reference is asked."""

_ERROR_FLOOR = 1e-3

OnEvent = Callable[[Event], None]
SlotValues = Mapping[tuple[str, SlotPurpose], Array]


@dataclass(frozen=True)
class RunSettings:
    """What a user may set for a run.

    Attributes:
        steps: training steps; None for as many as the build recommends.
        epochs: passes over the training samples, instead of steps.
        verify: whether to compare with the references.
        timeout_s: seconds a run may take.
    """

    steps: int | None = None
    epochs: int | None = None
    verify: bool = False
    timeout_s: float = 600.0


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
        OutputError: there is none, it was not compiled, its firmware is gone, or it is for
            another board.
    """
    report = BuildReport.read(folder / REPORT)
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


def make_request(project: BuiltProject, settings: RunSettings) -> RunRequest:
    """What the firmware shall do.

    Raises:
        ConfigError: the settings contradict each other or are out of range.
    """
    if settings.steps is not None and settings.epochs is not None:
        raise ConfigError("--steps and --epochs both say how long to train: give one of them")
    built = read_request(project.image)
    per_epoch = project.report.train_samples // project.report.batch
    steps = settings.steps or (settings.epochs or 0) * per_epoch or built.steps
    if not 1 <= steps < 2**32:
        raise ConfigError(f"a run has {steps} steps: it must be 1 or more, and below 2^32")
    return replace(built, steps=steps, capture=settings.verify)


def run_project(
    project: BuiltProject, settings: RunSettings, progress: Progress, on_event: OnEvent
) -> RunReport:
    """Run a built firmware, and verify it if asked to.

    Raises:
        DeviceError: the firmware hangs, faults or reports an error.
        ToolError: the emulator is missing.
    """
    request = make_request(project, settings)
    folder = project.folder / RUN_DIR
    progress("training")
    run = partial(_run, project.board, project.runnable, project.image, folder)
    log = run(request, project.evaluations, settings.timeout_s, on_event)
    verification = None
    if settings.verify:
        values = read_slots(folder / IMAGE, project.stages.slots, project.tensors)
        verification = verify(project, request, log, values, settings.timeout_s, progress)
    return _report(project, request, log, folder / IMAGE, verification)


def environment_of(board: Board) -> str:
    """The PlatformIO environment whose ELF runs here: the twin's, or this computer's."""
    return board.twin.platformio_env if board.twin is not None else board.platformio_env


def verify(
    project: BuiltProject,
    request: RunRequest,
    log: RunLog,
    values: SlotValues,
    timeout_s: float,
    progress: Progress,
) -> Verification:
    """Compare a run with the NumPy reference and with a run that recomputes and pages nothing.

    Args:
        project: what ran.
        request: what it was asked to do.
        log: what it reported.
        values: what it left in its slots.
        timeout_s: seconds the unscheduled run may take.
        progress: called with what begins.
    """
    progress("building and running without recomputing or paging")
    unscheduled_log, unscheduled = run_unscheduled(project, request, timeout_s)
    persistent = {
        name: value
        for (name, purpose), value in values.items()
        if purpose is SlotPurpose.PERSISTENT and name != project.stages.program.metric.name
    }
    momenta = {name: persistent[name] for name in project.stages.program.momenta.values()}
    trained = {name: value for name, value in persistent.items() if name not in momenta}
    gradients = {
        name: value for (name, purpose), value in values.items() if purpose is SlotPurpose.CAPTURE
    }
    same_bits = log.losses == unscheduled_log.losses and all(
        value.tobytes() == unscheduled[name, SlotPurpose.PERSISTENT].tobytes()
        for name, value in persistent.items()
    )
    # Rounding can flip a ReLU or a maximum whose candidates are all but equal, and the gradient
    # then takes another way. Where double precision decides differently, single precision tells
    # whether the arithmetic is right.
    verifications = []
    for dtype in (np.float64, np.float32):
        progress(f"calculating the reference in {np.dtype(dtype).name}")
        reference, losses = _run_reference(project, request, dtype)
        verifications.append(
            Verification(
                reference=np.dtype(dtype).name,
                max_rel_error_loss=max(
                    abs(ours - theirs) / abs(theirs)
                    for ours, theirs in zip(log.losses, losses, strict=True)
                ),
                max_rel_error_gradients=max(
                    (
                        relative_error(ours, theirs)
                        for ours, theirs in (
                            (gradients, reference.gradients),
                            (momenta, reference.persistent),
                        )
                        if ours
                    ),
                    default=None,
                ),
                max_rel_error_weights=relative_error(trained, reference.persistent),
                bit_identical_to_unscheduled=same_bits,
            )
        )
        if verifications[-1].max_rel_error_weights <= ACCEPTED_ERROR:
            break
    return min(verifications, key=lambda verification: verification.max_rel_error_weights)


def relative_error(ours: Mapping[str, Array], theirs: Mapping[str, Array]) -> float:
    """The largest relative error of any tensor; see `poetfw.report.Verification`."""
    magnitudes = {name: float(np.abs(theirs[name]).max()) for name in ours}
    floor = _ERROR_FLOOR * max(magnitudes.values())
    return max(
        float(np.abs(value - theirs[name]).max()) / max(magnitudes[name], floor)
        for name, value in ours.items()
    )


def run_unscheduled(
    project: BuiltProject, request: RunRequest, timeout_s: float
) -> tuple[RunLog, SlotValues]:
    """Build and run the same model with everything kept in RAM, on a machine with enough of it.

    Returns what it reported and what it left in its slots.
    """
    program = project.stages.program
    board = project.board
    environment = board.platformio_env
    if board.twin is not None:
        board = replace(board, ram_bytes=REFERENCE_RAM_BYTES)
        environment = project.board.twin.reference_env if project.board.twin else environment
    plan = plan_unscheduled(program, board, analytic_costs)
    slots = assign_slots(program, plan.training.plan)
    lowering = lower_plan(program, board, plan, slots)
    samples = read_samples(project.image, program)
    initial = read_slots(project.image, project.stages.slots, project.tensors)
    image = write_image(
        program,
        lowering.view.plan_id,
        slots,
        {name: value for (name, _), value in initial.items()},
        samples.training,
        samples.held_out,
        request,
    )
    folder = project.folder / RUN_DIR / "unscheduled"
    write_project(render_project(lowering.view, board).with_files({IMAGE: image}), folder)
    elf = build_environments(folder, [environment])[environment]
    run = partial(_run, board, elf, folder / IMAGE, folder / RUN_DIR)
    log = run(request, project.evaluations, timeout_s, lambda event: None)
    return log, read_slots(folder / RUN_DIR / IMAGE, slots, project.tensors)


def _run(
    board: Board,
    elf: Path,
    image: Path,
    folder: Path,
    request: RunRequest,
    evaluations: int,
    timeout_s: float,
    on_event: OnEvent,
) -> RunLog:
    """Run an ELF on a fresh copy of a storage image, which keeps what the run writes."""
    command = emulator_command(board, elf)
    copy = folder / IMAGE
    try:
        folder.mkdir(exist_ok=True)
        copy.unlink(missing_ok=True)  # were it a link, the copy would go to where it leads
        shutil.copyfile(image, copy)
    except OSError as error:
        raise OutputError(f"{copy} cannot be written: {error.strerror or error}") from error
    set_request(copy, request)
    log = run_firmware(
        command, folder, timeout_s, on_event, steps=request.steps, evaluations=evaluations
    )
    set_request(copy, replace(request, capture=False))
    return log


def _run_reference(
    project: BuiltProject, request: RunRequest, dtype: DTypeLike
) -> tuple[Reference, list[float]]:
    """Train as the firmware does, with NumPy; also the loss of each step."""
    program = project.stages.program
    initial = read_slots(project.image, project.stages.slots, project.tensors)
    x, y = read_samples(project.image, program).training
    reference = Reference(program, {name: value for (name, _), value in initial.items()}, dtype)
    losses = []
    for step in range(request.steps):
        chosen = sample_order(len(x), program.batch, request.seed, step)
        losses.append(reference.step(x[chosen], y[chosen]))
    return reference, losses


def _report(
    project: BuiltProject,
    request: RunRequest,
    log: RunLog,
    trained: Path,
    verification: Verification | None,
) -> RunReport:
    accuracy = error = None
    if log.metrics and project.report.classifies:
        accuracy = sum(log.metrics) / project.report.held_out_samples
        if not 0 <= accuracy <= 1:
            raise DeviceError(
                f"the device reports {sum(log.metrics):g} correct answers of "
                f"{project.report.held_out_samples}",
                "build again: `poetfw build`",
            )
    elif log.metrics:
        error = sum(log.metrics) / len(log.metrics)
    return RunReport(
        board=project.board.name,
        emulated=project.board.twin is not None,
        steps=request.steps,
        loss=log.losses,
        accuracy=accuracy,
        mean_squared_error=error,
        high_water_bytes=log.high_water_bytes,
        stack_high_water_bytes=log.stack_high_water_bytes,
        instructions=log.ticks if log.tick_unit == "instructions" else None,
        storage_bytes_read=log.storage_bytes_read,
        storage_bytes_written=log.storage_bytes_written,
        trained=str(trained),
        verify=verification,
    )
