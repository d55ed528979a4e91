# SPDX-License-Identifier: Apache-2.0
"""Running what was built on a twin of its board, and comparing with the references."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from poetfw.common.errors import ConfigError, DeviceError, OutputError
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
from poetfw.planning import Progress
from poetfw.report import Evaluation, ProgramRun, RunReport, Verification
from poetfw.runs.execution import BuiltProject, OnEvent, execute
from poetfw.runs.verification import Run, verify
from poetfw.settings import RunSettings
from poetfw.tools import RunLog, emulator_of
from poetfw.tools.link import Summary

_NANOSECONDS_PER_S = 1_000_000_000
_BEST = "best.img"


def expect_whole(project: BuiltProject) -> None:
    """Check that a project's program trains by itself.

    Raises:
        ConfigError: it is one of several that train together.
    """
    if project.stages.training.apart:
        raise ConfigError(
            f"{project.folder} holds one of several programs, which train together only",
            f"poetfw run --out {shlex.quote(str(project.folder.parent))}",
        )


def make_request(project: BuiltProject, settings: RunSettings) -> RunRequest:
    """The request that tells the firmware what to do.

    Raises:
        ConfigError: the settings contradict each other or are out of range.
    """
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
    if settings.patience is not None:
        log, evaluations = _train_by_epochs(project, request, settings, on_event)
        return _report(project, request, log, folder / IMAGE, None, None, evaluations)
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
        silence_s=settings.silence_s,
    )
    return report_run(project, request, log, folder / IMAGE, settings, progress)


def _train_by_epochs(
    project: BuiltProject, request: RunRequest, settings: RunSettings, on_event: OnEvent
) -> tuple[RunLog, tuple[Evaluation, ...]]:
    """Train epoch by epoch until the held-out samples get no better; keep the best epoch's image.

    Each epoch goes on from the checkpoint of the one before, to the same bits as in one run. In the
    log, losses and what is counted are of all epochs, and metrics of the best one.

    Raises:
        ConfigError: there are no whole batches of held-out samples.
    """
    if not project.evaluations:
        raise ConfigError("--patience needs held-out samples to evaluate, and there are none")
    folder = project.folder / RUN_DIR
    best_image = folder / _BEST
    per_epoch = project.report.train_samples // project.report.batch
    logs: list[RunLog] = []
    evaluations: list[Evaluation] = []
    best = 0
    for steps in [*range(per_epoch, request.steps, per_epoch), request.steps]:
        log = execute(
            project.twin.machine,
            project.runnable,
            project.image,
            folder,
            replace(request, steps=steps),
            project.evaluations,
            settings.timeout_s,
            on_event,
            resume=bool(logs),
            silence_s=settings.silence_s,
        )
        logs.append(log)
        evaluations.append(evaluate_log(project, steps, log))
        if len(logs) == 1 or evaluations[-1].better_than(evaluations[best]):
            best = len(logs) - 1
            _replace(folder / IMAGE, best_image, shutil.copyfile)
        elif len(logs) - 1 - best == settings.patience:
            break
    _replace(best_image, folder / IMAGE, Path.replace)
    return _joined(logs, logs[best]), tuple(evaluations)


def _replace(source: Path, target: Path, by: Callable[[Path, Path], object]) -> None:
    try:
        target.unlink(missing_ok=True)  # were it a link, the copy would go to where it leads
        by(source, target)
    except OSError as error:
        raise OutputError(f"{target} cannot be written: {error.strerror or error}") from error


def _joined(logs: Sequence[RunLog], best: RunLog) -> RunLog:
    """The log of runs that went on from each other, of which one is kept."""
    erases = [log.storage_erases for log in logs if log.storage_erases is not None]
    energies = [log.energy for log in logs if log.energy is not None]
    return replace(
        best,
        losses=tuple(loss for log in logs for loss in log.losses),
        resumed_from=0,
        ticks=sum(log.ticks for log in logs),
        high_water_bytes=max(log.high_water_bytes for log in logs),
        stack_high_water_bytes=max(log.stack_high_water_bytes for log in logs),
        arenas=tuple(max(used) for used in zip(*(log.arenas for log in logs), strict=True)),
        storage_bytes_read=sum(log.storage_bytes_read for log in logs),
        storage_bytes_written=sum(log.storage_bytes_written for log in logs),
        storage_erases=sum(erases) if erases else None,
        damaged={
            kind: tuple(sorted({number for log in logs for number in log.damaged.get(kind, ())}))
            for kind in sorted({kind for log in logs for kind in log.damaged})
        },
        begun_anew=any(log.begun_anew for log in logs),
        energy=replace(energies[0], energy_j=sum(e.energy_j for e in energies))
        if len(energies) == len(logs)
        else None,
    )


def evaluate_log(project: BuiltProject, step: int, log: RunLog) -> Evaluation:
    """Evaluations of the held-out batches from their metrics.

    Raises:
        DeviceError: there are more correct answers than samples.
    """
    if not log.metrics:
        return Evaluation(step, None, None)
    if not project.report.classifies:
        return Evaluation(step, None, sum(log.metrics) / len(log.metrics))
    accuracy = sum(log.metrics) / project.report.held_out_samples
    if not 0 <= accuracy <= 1:
        raise DeviceError(
            f"the device reports {sum(log.metrics):g} correct answers of "
            f"{project.report.held_out_samples}",
            "build again: `poetfw build`",
        )
    return Evaluation(step, accuracy, None)


def metrics_csv(report: RunReport) -> bytes:
    """A line for each step of a run: the batch's loss, and what was held out, where evaluated."""
    kind = report.metric_name
    evaluated = {each.step: getattr(each, kind) for each in report.evaluations}
    lines = [f"step,loss,{kind}"]
    for step, loss in enumerate(report.loss, start=report.resumed_from + 1):
        lines.append(f"{step},{loss!r},{evaluated.get(step, '')}")
    return "".join(f"{line}\n" for line in lines).encode()


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
        run = Run(project, request, log, values, settings.timeout_s, settings.silence_s)
        verification = verify(run, progress)
    return _report(project, request, log, trained, verification, port)


def program_run(
    project: BuiltProject,
    port: str | None,
    image: Path,
    steps: int,
    ticks: int,
    ended: RunLog | Summary,
) -> ProgramRun:
    """Name of one program, and the RAM and time of the steps that it took part in."""
    emulated = ended.tick_unit == "instructions"  # which only emulators count
    if port is None:
        emulated = emulator_of(project.twin.machine).emulates
    hz = _NANOSECONDS_PER_S if ended.tick_unit == "ns" else project.board.clock_hz
    return ProgramRun(
        board=project.board.label,
        emulator=project.twin.name if port is None else None,
        port=port,
        emulated=emulated,
        high_water_bytes=ended.high_water_bytes,
        stack_high_water_bytes=ended.stack_high_water_bytes,
        step_s=ticks / hz / steps if steps else None,
        trained=str(image),
    )


def _arenas(project: BuiltProject, log: RunLog) -> dict[str, int]:
    """Bytes that were used of each device's arena.

    Raises:
        DeviceError: the device reports of other arenas than there are.
    """
    plan = project.stages.training
    names = [part.device for part in plan.own] if plan.threads else []
    if len(log.arenas) != len(names):
        raise DeviceError(
            f"the device reports {len(log.arenas)} arenas of {len(names)}",
            "build again: `poetfw build`",
        )
    return dict(zip(names, log.arenas, strict=True))


def _report(
    project: BuiltProject,
    request: RunRequest,
    log: RunLog,
    trained: Path,
    verification: Verification | None,
    port: str | None,
    evaluations: tuple[Evaluation, ...] = (),
) -> RunReport:
    kept = evaluate_log(project, request.steps, log)
    program = program_run(project, port, trained, len(log.losses), log.ticks, log)
    energy = None if program.emulated else log.energy  # a meter would have measured the emulator
    commit = read_commit(trained, project.stages.slots)
    epochs = commit.step * project.report.batch / project.report.train_samples
    return RunReport(
        **vars(program),
        steps=commit.step if evaluations else max(request.steps, log.resumed_from),
        resumed_from=log.resumed_from,
        loss=log.losses,
        accuracy=kept.accuracy,
        held_out_loss=kept.held_out_loss,
        evaluations=evaluations or ((kept,) if log.metrics else ()),
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
        planned_by=project.report.costs,
        verify=verification,
        arenas=_arenas(project, log),
        damaged=dict(log.damaged),
        begun_anew=log.begun_anew,
    )
