# SPDX-License-Identifier: Apache-2.0
"""The decisions of a build, and its report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from poetfw.boards import Board
from poetfw.common.limits import Timing
from poetfw.costs import CostTable
from poetfw.firmware import (
    BLOCK_BYTES,
    Project,
    assign_slots,
    commit_traffic,
    render_project,
    step_traffic,
    streaming_traffic,
)
from poetfw.importers import DataSet
from poetfw.memory import ONLY, resident_bytes
from poetfw.models import Model
from poetfw.optimizers import Optimizer
from poetfw.planning.choices import frozen_parameters, trained_weights
from poetfw.planning.kept_features import find_keepable
from poetfw.planning.plans import Plan, lower_plan
from poetfw.planning.problem import schedule_problem, streaming_cost
from poetfw.report import (
    BuildReport,
    EnduranceReport,
    FeaturesReport,
    FrozenAs,
    MoreRam,
    ProgramReport,
    RamPoint,
    StoredAs,
    StreamingReport,
)
from poetfw.schedule import ScheduleSummary, StepKind
from poetfw.tools import step_bytes
from poetfw.training import Program, constant_bytes, stored_tensors

_DAY_S = 86_400


@dataclass(frozen=True)
class Image:
    """The program of one memory.

    Attributes:
        board: target board.
        plan: the plan, with this program selected.
        plan_id: identifier of the plan.
        budget_bytes: budget of the arena.
        minimum_budget_bytes: the smallest budget for which a schedule is known.
        project: the rendered project, with its stage files and storage image.
    """

    board: Board
    plan: Plan
    plan_id: str
    budget_bytes: int
    minimum_budget_bytes: int
    project: Project = field(repr=False)


@dataclass(frozen=True)
class Build:
    """Result of a build's decisions.

    Attributes:
        model: the model with its initial weights.
        data: training and held-out samples.
        optimizer: the optimizer.
        program: training and evaluation step.
        costs: costs of the training step's ops.
        checkpoint_all: the plan that keeps everything, without a limit on RAM.
        plan: the plan of the firmware, with the evaluating program selected.
        images: programs by memory name.
        beside: additional files of the build that belong to no single program.
        time_limited: True if the time limit ended a search, so that another run may differ.
        timing: work units and seconds of each search phase.
        frozen_as: effect of a smaller format of frozen weights; None for float32.
        stored_as: effect of a smaller form of waiting activations; None for float32.
        features: output of the frozen part, kept or calculated; None without frozen part.
        more_ram: what a larger budget would save; None where nobody asked, or little.
        ram_curve: schedules of larger budgets; empty where nobody asked.
        command: the command line that this build is for.
        sets: number of commit sets.
        checkpoint_every: steps between two checkpoints; 0 for one at the end.
    """

    model: Model
    data: DataSet
    optimizer: Optimizer
    program: Program
    costs: CostTable
    checkpoint_all: Plan
    plan: Plan
    images: Mapping[str, Image]
    beside: Project = field(repr=False)
    time_limited: bool
    timing: Timing
    frozen_as: FrozenAs | None = None
    stored_as: StoredAs | None = None
    features: FeaturesReport | None = None
    more_ram: MoreRam | None = None
    ram_curve: tuple[RamPoint, ...] = ()
    command: tuple[str, ...] = ()
    sets: int = 2
    checkpoint_every: int = 0

    @property
    def image(self) -> Image:
        """The program that evaluates held-out samples; the only one of a single memory."""
        return self.images[self.plan.step.here]

    @property
    def project(self) -> Project:
        """All files of the build; each of several programs has a folder of its name."""
        folders = folders_of(self.images, Path())
        return self.beside.with_files(
            {
                (folders[name] / path).as_posix(): content
                for name, image in self.images.items()
                for path, content in image.project.files.items()
            }
        )


def folders_of(memories: Iterable[str], folder: Path) -> dict[str, Path]:
    """Project folders by memory name; the project of a single memory is in the build's folder."""
    return {name: folder if name == ONLY else folder / name for name in memories}


def report_build(build: Build, folder: Path) -> BuildReport:
    """Report of a build that will be written to `folder`, before it is compiled."""
    places = folders_of(build.images, folder)
    memories = {n: _report_program(image, places[n]) for n, image in build.images.items()}
    step = build.plan.step
    return BuildReport(
        **vars(memories[step.here]),
        model=build.model.name,
        batch=build.model.batch,
        checkpoint_all_peak_bytes=build.checkpoint_all.memory.peak_bytes,
        frozen_bytes=constant_bytes(build.program),
        frozen_as=build.frozen_as,
        streaming=_report_streaming(build),
        endurance=_report_endurance(build),
        stored_as=build.stored_as,
        features=build.features,
        train_samples=len(build.data.x_train),
        held_out_samples=len(build.data.x_test),
        classifies=build.model.classes is not None,
        cost_sources=build.costs.sources,
        costs=build.costs.summary,
        layers=build.model.layers,
        frozen=frozen_parameters(build.program, build.model),
        optimizer=build.optimizer.summary,
        weights=build.model.parameter_count,
        trained_weights=trained_weights(build.program),
        trained_in_part={
            name: f"{count} of {build.model.graph.by_name[name].shape[1]} input channels"
            for name, count in build.program.trained_channels.items()
        },
        warnings=build.model.warnings,
        schedule=ScheduleSummary.of(build.plan.training).beside(
            resident_bytes(build.program.resident, BLOCK_BYTES)
        ),
        devices=len(step.parts),
        memories=memories,
        messages=step.messages(build.program),
        time_limited=build.time_limited,
        timing=build.timing,
        more_ram=build.more_ram,
        ram_curve=build.ram_curve,
        command=build.command,
    )


def _report_streaming(build: Build) -> StreamingReport | None:
    program, plan = build.program, build.plan
    stored = stored_tensors(program)
    constants = program.streamed_constants
    if not program.streamed and not stored and not constants:
        return None
    graph = program.training
    storage = schedule_problem(graph, build.image.board, build.costs, None).storage
    times = Counter(step.node for step in plan.step.steps if step.kind is StepKind.COMPUTE)
    traffic = streaming_traffic(program, plan.step)
    own = build.costs.ops
    costs = [
        (times[op.name], streaming_cost(op, graph, storage, own[op.name].time_s))
        for op in graph.ops
    ]
    steps = len(build.data.x_train) // program.batch
    return StreamingReport(
        tensors=tuple(program.streamed),
        streamed_bytes=sum(
            tensor.size_bytes for tensor in program.persistent if tensor.name in program.streamed
        ),
        resident_bytes=sum(tensor.size_bytes for tensor in program.resident),
        stored=tuple(tensor.name for tensor in stored),
        stored_bytes=sum(tensor.size_bytes for tensor in stored),
        constants=tuple(constants),
        constant_bytes=sum(
            tensor.size_bytes for tensor in program.constants if tensor.name in constants
        ),
        requests=traffic.requests,
        read_bytes=traffic.read_bytes,
        written_bytes=traffic.written_bytes,
        energy_j=sum(count * cost.energy_j for count, cost in costs),
        time_s=sum(count * cost.time_s for count, cost in costs),
        epoch_steps=steps,
        rewrites=float(steps if stored else steps / build.sets if program.streamed else 0),
    )


def _report_endurance(build: Build) -> EnduranceReport | None:
    program, plan, storage = build.program, build.plan, build.image.board.storage
    rated_bytes = None if storage is None else storage.endurance_bytes
    if rated_bytes is None or len(plan.step.parts) > 1:
        return None
    written = float(step_traffic(program, plan.step).written_bytes)
    if build.checkpoint_every:
        written += commit_traffic(program).written_bytes / build.checkpoint_every
    if not written:
        return None
    steps = rated_bytes / written
    return EnduranceReport(
        rated_bytes=rated_bytes,
        step_bytes=written,
        steps=int(steps),
        epochs=steps / (len(build.data.x_train) // program.batch),
        days=steps * plan.training.time_s / _DAY_S,
    )


def _report_program(image: Image, folder: Path) -> ProgramReport:
    return ProgramReport(
        board=image.board.label,
        budget_bytes=image.budget_bytes,
        minimum_budget_bytes=image.minimum_budget_bytes,
        peak_bytes=image.plan.memory.arena_bytes,
        live_bytes=image.plan.memory.peak_bytes,
        flash_bytes=None,
        ram_bytes=None,
        schedule_bytes=None,
        elf=None,
        twin_elf=None,
        out_dir=str(folder),
        arithmetic=image.board.compute.arithmetic,
        threads=image.board.compute.threads,
        plan_id=image.plan_id,
        parts=image.plan.step.own,
        toolchain=image.board.toolchain.name,
    )


def schedule_bytes(build: Build) -> int:
    """Bytes of flash by which the schedule's training step exceeds that of keeping everything.

    Raises:
        ToolError: The compiler is missing or fails.
    """
    board, plan = build.image.board, build.checkpoint_all
    slots = assign_slots(build.program, plan.training.plan, board.erase_bytes)
    keeps = build.features is not None and build.features.kept
    in_ram = build.features is not None and build.features.place == "ram"
    cuts = find_keepable(build.program, plan.training.plan, board, build.costs) if keeps else None
    kept = None if cuts is None else cuts[in_ram].features
    if kept is not None and in_ram:
        kept = replace(kept, records=1)  # the step is the same for any number
    lowering = lower_plan(build.program, board, plan, slots, kept=kept)
    unscheduled = render_project(lowering.view, board)
    return step_bytes(build.image.project, board) - step_bytes(unscheduled, board)
