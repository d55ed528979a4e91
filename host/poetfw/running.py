# SPDX-License-Identifier: Apache-2.0
"""Running what was built on a twin of its board, and comparing with the references."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from poetfw.boards import Board
from poetfw.devices import RunLog, emulator_of
from poetfw.errors import ConfigError, DeviceError
from poetfw.execution import BuiltProject, OnEvent, execute
from poetfw.firmware import (
    BLOCK_BYTES,
    IMAGE,
    RunRequest,
    read_commit,
    read_request,
    read_ring,
    read_slots,
    ring_region,
)
from poetfw.firmware.project import RUN_DIR
from poetfw.pipeline import Progress
from poetfw.report import RunReport, Verification
from poetfw.verification import Run, verify

_NANOSECONDS_PER_S = 1_000_000_000


@dataclass(frozen=True)
class RunSettings:
    """What a user may set for a run.

    Attributes:
        steps: training steps; None for as many as the build recommends.
        epochs: passes over the training samples, instead of steps.
        verify: whether to compare with the references.
        timeout_s: seconds a run may take.
        checkpoint_every: steps between two checkpoints, 0 for one at the end; None for what the
            build has.
        resume: whether to go on from the last checkpoint.
    """

    steps: int | None = None
    epochs: int | None = None
    verify: bool = False
    timeout_s: float = 600.0
    checkpoint_every: int | None = None
    resume: bool = False


def make_request(project: BuiltProject, settings: RunSettings) -> RunRequest:
    """What the firmware shall do.

    Raises:
        ConfigError: the settings contradict each other or are out of range.
    """
    if settings.steps is not None and settings.epochs is not None:
        raise ConfigError("--steps and --epochs both say how long to train: give one of them")
    if settings.verify and _has_own_samples(project):
        raise ConfigError(
            f"--verify compares with a training on the data set alone, and {project.image} holds "
            "samples of the device's own",
            "build again, or run it without --verify",
        )
    built = read_request(project.image)
    per_epoch = project.report.train_samples // project.report.batch
    steps = settings.steps or (settings.epochs or 0) * per_epoch or built.steps
    if not 1 <= steps < 2**32:
        raise ConfigError(f"a run has {steps} steps: it must be 1 or more, and below 2^32")
    every = settings.checkpoint_every
    return replace(
        built,
        steps=steps,
        capture=settings.verify,
        checkpoint_every=built.checkpoint_every if every is None else every,
    )


def _has_own_samples(project: BuiltProject) -> bool:
    stages, content = project.stages, project.image.read_bytes()
    region = ring_region(project.image, stages.slots, stages.program)
    held = read_ring(region, lambda n: content[n * BLOCK_BYTES : (n + 1) * BLOCK_BYTES])
    return len(held.ids) > 0


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
    log = execute(
        project.twin.machine,
        project.runnable,
        project.image,
        folder,
        request,
        project.evaluations,
        settings.timeout_s,
        on_event,
        resume=settings.resume,
    )
    return report_run(project, request, log, folder / IMAGE, settings, progress)


def report_run(
    project: BuiltProject,
    request: RunRequest,
    log: RunLog,
    trained: Path,
    settings: RunSettings,
    progress: Progress,
    port: str | None = None,
) -> RunReport:
    """Verify a run if asked to, and say what it came to.

    Args:
        project: what ran.
        request: what it was asked to do.
        log: what it reported.
        trained: the storage image that it left.
        settings: of the run.
        progress: called with what is being done.
        port: how the board that it ran on was reached; None for the project's twin.

    Raises:
        DeviceError: the report or the image makes no sense.
    """
    verification = None
    if settings.verify:
        values = read_slots(trained, project.stages.slots, project.tensors)
        verification = verify(Run(project, request, log, values, settings.timeout_s), progress)
    return _report(project, request, log, trained, verification, port)


def _step_s(board: Board, log: RunLog) -> float | None:
    """Seconds of a training step, by its ticks."""
    hz = _NANOSECONDS_PER_S if log.tick_unit == "ns" else board.clock_hz
    return log.ticks / hz / len(log.losses) if log.losses else None


def _report(
    project: BuiltProject,
    request: RunRequest,
    log: RunLog,
    trained: Path,
    verification: Verification | None,
    port: str | None,
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
    emulated = log.tick_unit == "instructions"  # which only emulators count
    if port is None:
        emulated = emulator_of(project.twin.machine).emulates
    energy = None if emulated else log.energy  # a meter would have measured the emulator
    commit = read_commit(trained, project.stages.slots)
    epochs = commit.step * project.report.batch / project.report.train_samples
    return RunReport(
        board=project.board.label,
        emulator=project.twin.name if port is None else None,
        port=port,
        emulated=emulated,
        steps=max(request.steps, log.resumed_from),
        resumed_from=log.resumed_from,
        loss=log.losses,
        accuracy=accuracy,
        mean_squared_error=error,
        high_water_bytes=log.high_water_bytes,
        stack_high_water_bytes=log.stack_high_water_bytes,
        instructions=log.ticks if log.tick_unit == "instructions" else None,
        storage_bytes_read=log.storage_bytes_read,
        storage_bytes_written=log.storage_bytes_written,
        blocks_written=commit.written,
        blocks_per_epoch=commit.written / epochs if epochs else 0.0,
        storage_file=log.storage_file,
        storage_erases=log.storage_erases,
        measured_energy_j=None if energy is None else energy.energy_j,
        energy_source=None if energy is None else energy.source,
        planned_step_s=project.report.schedule.time_s,
        step_s=_step_s(project.board, log),
        trained=str(trained),
        verify=verification,
    )
