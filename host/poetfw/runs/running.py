# SPDX-License-Identifier: Apache-2.0
"""Runs of a build's programs, from the request to the report."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from poetfw.common.errors import ConfigError, DeviceError, OutputError
from poetfw.costs import planned_instructions
from poetfw.firmware import (
    BLOCK_BYTES,
    IMAGE,
    RunRequest,
    Traffic,
    captured_traffic,
    read_commit,
    read_request,
    read_ring,
    ring_region,
    step_traffic,
)
from poetfw.firmware.project import RUN_DIR
from poetfw.firmware.tile_choice import program_tiles
from poetfw.ir import Graph
from poetfw.memory import ONLY, StepPlan
from poetfw.ops import streamed_kind
from poetfw.report import Evaluation, ProgramRun, RunReport, Verification
from poetfw.runs.execution import BuildFolder, BuiltProject, OnEvent, execute
from poetfw.runs.observer import RunObserver, StepDone
from poetfw.runs.verification import Run, verify
from poetfw.schedule import StepKind
from poetfw.settings import RunSettings
from poetfw.tools import Event, RunLog, emulator_of

_NANOSECONDS_PER_S = 1_000_000_000
_BEST = "best.img"


@dataclass(frozen=True)
class ProgramLog:
    """Log and storage image of one program's run.

    Attributes:
        log: report of the firmware.
        image: path of the storage image after the run.
        port: port or host of the board; None for a twin.
        repeated_commands: number of times that a command was sent again.
    """

    log: RunLog
    image: Path
    port: str | None = None
    repeated_commands: int = 0


@dataclass(frozen=True)
class Training:
    """Runs of all programs of a build.

    Attributes:
        programs: run of each program, by memory name; all have the same losses and metrics.
        evaluations: all evaluations, if there were several.
    """

    programs: Mapping[str, ProgramLog]
    evaluations: tuple[Evaluation, ...] = ()


Launch = Callable[[BuildFolder, RunRequest, RunSettings, RunObserver], Training]
"""Function that starts a build's programs and trains them."""


def make_request(project: BuiltProject, settings: RunSettings) -> RunRequest:
    """Request to the firmware that follows from the settings.

    Raises:
        ConfigError: The settings contradict each other or are out of range.
    """
    if settings.verify and _has_own_samples(project, project.image):
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
        evaluate=built.evaluate and not settings.skip_evaluation,
    )


def _has_own_samples(project: BuiltProject, image: Path) -> bool:
    stages = project.stages
    region = ring_region(image, stages.slots, stages.program)
    content = image.read_bytes() if region.samples else b""
    held = read_ring(region, lambda n: content[n * BLOCK_BYTES : (n + 1) * BLOCK_BYTES])
    return len(held.ids) > 0


def run_build(
    build: BuildFolder, settings: RunSettings, launch: Launch, observer: RunObserver
) -> RunReport:
    """Train a build's programs, and verify the result if requested.

    Args:
        build: the build.
        settings: settings of the run.
        launch: function that starts the programs: `on_twin`, `remote.on_host` or `desks.by_desk`.
        observer: told of progress and of each training step.

    Raises:
        ConfigError: The settings are invalid, or programs are missing.
        DeviceError: A program hangs, faults or reports an error, or its image is invalid.
        OutputError: The programs are of different builds.
        ToolError: The emulator is missing.
    """
    build.check()
    project = build.evaluator
    request = make_request(project, settings)
    observer.begin(build, request.steps)
    training = launch(build, request, settings, observer)
    verification = None
    if settings.verify:
        run = Run(
            project,
            request,
            training.programs[project.stages.training.here].log,
            build.values({name: each.image for name, each in training.programs.items()}),
            settings.timeout_s,
            settings.silence_s,
            build.values({name: each.image for name, each in build.projects.items()}),
        )
        verification = verify(run, lambda text: observer.activity(0, request.steps, text))
    return _report(build, request, training, verification)


def on_twin(
    build: BuildFolder, request: RunRequest, settings: RunSettings, observer: RunObserver
) -> Training:
    """Run a build with a single program to its end on its twin."""
    project = build.evaluator
    image = project.folder / RUN_DIR / IMAGE
    observer.activity(0, request.steps, "training")
    on_event = report_steps(request, observer)
    if settings.patience is not None:
        log, evaluations = _train_by_epochs(project, request, settings, on_event)
        return Training({ONLY: ProgramLog(log, image)}, evaluations)
    log = execute(
        project.twin.machine,
        project.runnable,
        project.image,
        image.parent,
        request,
        project.evaluations,
        settings.timeout_s,
        on_event,
        resume=settings.resume,
        silence_s=settings.silence_s,
    )
    return Training({ONLY: ProgramLog(log, image)})


def report_steps(request: RunRequest, observer: RunObserver) -> OnEvent:
    """Event handler that tells an observer of the events of an only program."""
    moved: Traffic | None = None
    after_step = False

    def on_event(event: Event) -> None:
        nonlocal moved, after_step
        match event.word:
            case "step":
                ticks = {ONLY: event.integer("ticks")}
                observer.step(StepDone(event.number, request.steps, event.real("loss"), ticks))
            case "transfers":
                now = Traffic(*map(event.integer, ("requests", "read", "written")))
                if moved is not None and after_step:
                    observer.moved(now - moved)
                moved = now
            case "commit":
                observer.checkpoint(event.number)
            case "boot":
                observer.reset(event.values.get("reset", "unknown"))
            case "damaged" | "anew":
                found = " ".join(f"{key} {value}" for key, value in event.values.items())
                observer.problem(f"{event.word}: {found}")
            case "done":
                used = map(event.integer, ("high_water", "stack_high_water"))
                observer.memory(ONLY, *used)
        after_step = event.word == "step"

    return on_event


def _train_by_epochs(
    project: BuiltProject, request: RunRequest, settings: RunSettings, on_event: OnEvent
) -> tuple[RunLog, tuple[Evaluation, ...]]:
    """Train epoch by epoch until held-out samples stop improving; keep the best epoch's image.

    Each epoch resumes from the previous one's commit, bit-identical to a single run. The log has
    the losses and counters of all epochs and the metrics of the best.

    Raises:
        ConfigError: There are no whole batches of held-out samples.
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
        target.unlink(missing_ok=True)  # a link must not redirect the copy
        by(source, target)
    except OSError as error:
        raise OutputError(f"{target} cannot be written: {error.strerror or error}") from error


def _joined(logs: Sequence[RunLog], best: RunLog) -> RunLog:
    """Combine the logs of consecutive runs; metrics are those of `best`."""
    erases = [log.storage_erases for log in logs if log.storage_erases is not None]
    energies = [log.energy for log in logs if log.energy is not None]
    traffics = [log.step_traffic for log in logs if log.step_traffic is not None]
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
        step_traffic=sum(traffics, Traffic()) if len(traffics) == len(logs) else None,
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
    """Accuracy or loss of the held-out samples, from the metrics of their batches.

    Raises:
        DeviceError: The device reports more correct answers than samples.
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
    """CSV with one row per step: the batch's loss and, where evaluated, the held-out metric."""
    kind = report.metric_name
    evaluated = {each.step: getattr(each, kind) for each in report.evaluations}
    lines = [f"step,loss,{kind}"]
    for step, loss in enumerate(report.loss, start=report.resumed_from + 1):
        lines.append(f"{step},{loss!r},{evaluated.get(step, '')}")
    return "".join(f"{line}\n" for line in lines).encode()


def _program_run(
    build: BuildFolder, name: str, training: ProgramLog, request: RunRequest
) -> ProgramRun:
    """Report of one program's run."""
    project, log, port = build.projects[name], training.log, training.port
    plan = project.stages.training
    devices = [part.device for part in plan.own]
    emulated = log.tick_unit == "instructions"  # only emulators count instructions
    if port is None:
        emulated = emulator_of(project.twin.machine).emulates
    hz = _NANOSECONDS_PER_S if log.tick_unit == "ns" else project.board.clock_hz
    energy = None if emulated else log.energy  # otherwise it would be the emulator's
    commit = read_commit(training.image, project.stages.slots)
    epochs = commit.step * project.report.batch / project.report.train_samples
    return ProgramRun(
        board=project.board.label,
        plan_id=project.report.plan_id,
        emulator=project.twin.name if port is None else None,
        port=port,
        emulated=emulated,
        computed=sum(s.kind is StepKind.COMPUTE and s.device in devices for s in plan.steps),
        sent_bytes=sum(build.size_bytes(m) for m in build.messages_of_a_step if m.source == name),
        high_water_bytes=log.high_water_bytes,
        parts=plan.own,
        arenas=_arenas(plan, log),
        stack_high_water_bytes=log.stack_high_water_bytes,
        ticks=log.ticks,
        tick_unit=log.tick_unit,
        tick_s=1 / hz,
        step_s=log.ticks / hz / len(log.losses) if log.losses and log.ticks else None,
        instructions=log.ticks or None if log.tick_unit == "instructions" else None,
        storage_bytes_read=log.storage_bytes_read,
        storage_bytes_written=log.storage_bytes_written,
        step_traffic=log.step_traffic,
        planned_traffic=_planned_traffic(project, training, request),
        blocks_written=commit.written,
        blocks_per_epoch=commit.written / epochs if epochs else 0.0,
        storage_file=log.storage_file,
        storage_erases=log.storage_erases,
        damaged=dict(log.damaged),
        begun_anew=log.begun_anew,
        measured_energy_j=None if energy is None else energy.energy_j,
        energy_source=None if energy is None else energy.source,
        repeated_commands=training.repeated_commands,
        trained=str(training.image),
    )


def _planned_traffic(
    project: BuiltProject, training: ProgramLog, request: RunRequest
) -> Traffic | None:
    """Transfers of a run's training steps by the plan; None with samples of the device's own."""
    stages, steps = project.stages, len(training.log.losses)
    if _has_own_samples(project, training.image):
        return None
    planned = step_traffic(stages.program, stages.training) * steps
    return planned + captured_traffic(stages.slots) if request.capture and steps else planned


def _arenas(plan: StepPlan, log: RunLog) -> dict[str, int]:
    """Bytes used of each device's arena; with a single device, of the program's arena.

    Raises:
        DeviceError: The device reports another number of arenas.
    """
    arenas = [part.arena for part in plan.own]
    used = log.arenas if plan.threads else [max(0, log.high_water_bytes - arenas[0].offset)]
    if len(used) != len(arenas):
        raise DeviceError(
            f"the device reports {len(used)} arenas of {len(arenas)}",
            "build again: `poetfw build`",
        )
    return {arena.device: size for arena, size in zip(arenas, used, strict=True)}


def _counted(project: BuiltProject, log: RunLog) -> float | None:
    """Instructions of a training step, on average; None if not counted or those of threads."""
    if log.tick_unit != "instructions" or not log.losses or not log.ticks:
        return None
    if project.stages.training.threads:
        return None
    return log.ticks / len(log.losses)


def _planned(project: BuiltProject) -> float | None:
    """Instructions of a training step by the prices of the board's core."""
    plan, graph = project.stages.training, project.stages.program.training
    outputs = {op.name: op.output for op in graph.ops}
    return planned_instructions(
        graph,
        [step.node for step in plan.steps if step.kind is StepKind.COMPUTE],
        [
            *(
                (step.kind.value, graph.by_name[outputs[step.node] or ""].size_bytes)
                for step in plan.steps
                if step.kind in (StepKind.PAGE_IN, StepKind.PAGE_OUT)
            ),
            *_tiles_moved(graph, plan),
        ],
        project.board,
        program_tiles(project.stages.program, project.board),
    )


def _tiles_moved(graph: Graph, plan: StepPlan) -> Iterator[tuple[str, int]]:
    """Requests for streamed weights of a step, each priced as a page of its bytes."""
    ops = {op.name: op for op in graph.ops}
    for step in plan.steps:
        kind = streamed_kind(ops[step.node])
        if step.kind is StepKind.COMPUTE and kind is not None:
            tiles = kind.traffic(ops[step.node], graph)
            for way, sizes in ((StepKind.PAGE_IN, tiles.reads), (StepKind.PAGE_OUT, tiles.writes)):
                yield from ((way.value, size) for size in Counter(sizes).elements())


def _report(
    build: BuildFolder,
    request: RunRequest,
    training: Training,
    verification: Verification | None,
) -> RunReport:
    project = build.evaluator
    programs = {
        name: _program_run(build, name, one, request) for name, one in training.programs.items()
    }
    here = project.stages.training.here
    log = training.programs[here].log
    kept = evaluate_log(project, request.steps, log)
    commit = read_commit(training.programs[here].image, project.stages.slots)
    counted = _counted(project, log) if len(programs) == 1 else None
    return RunReport(
        **vars(programs[here]),
        steps=commit.step,
        resumed_from=log.resumed_from,
        loss=log.losses,
        accuracy=kept.accuracy,
        held_out_loss=kept.held_out_loss,
        evaluations=training.evaluations or ((kept,) if log.metrics else ()),
        messages=len(build.messages_of_a_step),
        message_bytes=sum(map(build.size_bytes, build.messages_of_a_step)),
        planned_step_s=project.report.schedule.time_s,
        planned_by=project.report.costs,
        step_instructions=counted,
        planned_instructions=None if counted is None else _planned(project),
        memories=programs,
        verify=verification,
    )
