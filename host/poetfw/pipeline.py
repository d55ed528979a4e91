# SPDX-License-Identifier: Apache-2.0
"""The way from a model to a firmware that trains it, stage by stage. Read this file first.

    model ──import──▶ Graph ──make_program──▶ Program ───┐
    board ────────────────────────costs─────▶ CostTable ─┤
                                                         ▼
                            ScheduleProblem ──solve──▶ Schedule (an execution plan)
                                                         ▼
         plan_memory ──▶ MemoryPlan ──lower──▶ views ──render──▶ Project ──PlatformIO──▶ ELF

Each arrow is one function from immutable values to the next. `plan_build` follows them up to the
project, in memory; `write_build` puts it on disk; `compile_build` makes the ELFs. `planning/`
decides what is solved within which budget. Running what was built is in `running.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from poetfw.boards import Board, load_board
from poetfw.costs import CostProvider, CostTable, analytic_costs
from poetfw.devices import build_environments, choose_environment, elf_size, step_bytes
from poetfw.firmware import (
    Project,
    RunRequest,
    assign_slots,
    render_project,
    write_image,
    write_project,
)
from poetfw.importers import DataSet, load_data
from poetfw.limits import Deadline, Timing, Work
from poetfw.models import Model
from poetfw.output_file import replace_file
from poetfw.planning import (
    BuildSettings,
    Plan,
    arena_budget,
    check_kernels,
    derive_program,
    frozen_parameters,
    held_out_batches,
    load_model,
    lower_plan,
    plan_unscheduled,
    plan_within,
)
from poetfw.report import BuildReport, draw_pictures, json_bytes, stage_files
from poetfw.schedule import ScheduleSummary
from poetfw.training import Program

IMAGE = "storage.img"
"""The storage image's name in a project."""

REPORT = "build.json"
"""The build report's name in a project."""

_RENDERING = 2.0
"""What follows the search takes about so many times as long as what comes before it: most of that
is to load Python packages, and most of this to load matplotlib and to draw."""

Progress = Callable[[str], None]
"""Called with what begins now."""


@dataclass(frozen=True)
class Build:
    """Everything a build decided.

    Attributes:
        board: the board.
        model: the model with its initial weights.
        data: what it is trained on.
        program: its training and evaluation step.
        costs: what the training step's ops cost.
        budget_bytes: what the arena may occupy.
        minimum_budget_bytes: the smallest budget for which a schedule is known.
        checkpoint_all: the plan that keeps everything, in as much RAM as it takes.
        plan: the plan that the firmware follows.
        plan_id: names the plan.
        project: the rendered project, with its stage files and storage image.
        time_limited: whether the time limit ended a search: another run may decide otherwise.
        timing: what each search took.
    """

    board: Board
    model: Model
    data: DataSet
    program: Program
    costs: CostTable
    budget_bytes: int
    minimum_budget_bytes: int
    checkpoint_all: Plan
    plan: Plan
    plan_id: str
    project: Project = field(repr=False)
    time_limited: bool
    timing: Timing


def plan_build(
    settings: BuildSettings,
    progress: Progress,
    costs: CostProvider = analytic_costs,
    deadline: Deadline | None = None,
) -> Build:
    """Decide everything and render the project. Nothing is written.

    Args:
        settings: what the user wants.
        progress: called with what begins.
        costs: says what every op costs on the board.
        deadline: when to end; None for the settings' time limit from now on.

    Raises:
        PoetfwError: the settings, the board, the model or the data are not usable, or no plan
            exists within the budget and the deadline.
    """
    deadline = deadline or Deadline(settings.time_limit_s)
    progress("reading board, model and data")
    board = load_board(settings.board)
    board.require_firmware()
    model = load_model(settings)
    check_kernels(model)
    data = load_data(settings.data, model)
    program = derive_program(settings, model, deadline)
    table = costs(program.training, board)
    unlimited = plan_unscheduled(program, board, costs, deadline)
    deadline.reserve(_RENDERING)

    budget = settings.ram_bytes
    if budget is None:
        progress("asking the compiler for the size of static data")
        with deadline.excluded():
            budget = arena_budget(program, board, unlimited)
    progress("solving for the schedule")
    work = Work(settings.work_limit, deadline)
    plan, minimum = plan_within(program, board, costs, budget, settings, unlimited.evaluation, work)

    progress("writing the project")
    slots = assign_slots(program, plan.training.plan)
    lowering = lower_plan(program, board, plan, slots)
    image = write_image(
        program,
        lowering.view.plan_id,
        slots,
        model.weights,
        (data.x_train, data.y_train),
        held_out_batches(data, model),
        RunRequest(model.epochs * (len(data.x_train) // model.batch), settings.seed),
    )
    stages = stage_files(
        program, table, plan.training, plan.evaluation, plan.memory, slots, lowering.names
    )
    project = render_project(lowering.view, board).with_files(
        {
            IMAGE: image,
            "board.toml": board.path.read_bytes(),
            **stages,
            **draw_pictures(program, plan.training, plan.memory, budget, board),
        }
    )
    return Build(
        board=board,
        model=model,
        data=data,
        program=program,
        costs=table,
        budget_bytes=budget,
        minimum_budget_bytes=minimum,
        checkpoint_all=unlimited,
        plan=plan,
        plan_id=lowering.view.plan_id,
        project=project,
        time_limited=deadline.decided,
        timing=deadline.timing(),
    )


def write_build(build: Build, folder: Path) -> BuildReport:
    """Write a build's project as a whole; report what it is.

    Raises:
        OutputError: the folder is not poetfw's, or cannot be written.
    """
    report = BuildReport(
        board=build.board.name,
        model=build.model.name,
        batch=build.model.batch,
        budget_bytes=build.budget_bytes,
        minimum_budget_bytes=build.minimum_budget_bytes,
        peak_bytes=build.plan.memory.peak_bytes,
        checkpoint_all_peak_bytes=build.checkpoint_all.memory.peak_bytes,
        arena_bytes=build.plan.memory.arena_bytes,
        flash_bytes=None,
        ram_bytes=None,
        schedule_bytes=None,
        elf=None,
        twin_elf=None,
        out_dir=str(folder),
        plan_id=build.plan_id,
        train_samples=len(build.data.x_train),
        held_out_samples=len(build.data.x_test),
        classifies=build.model.classes is not None,
        costs_are_analytic=build.costs.analytic,
        layers=build.model.layers,
        frozen=frozen_parameters(build.program, build.model),
        warnings=build.model.warnings,
        schedule=ScheduleSummary.of(build.plan.training),
        time_limited=build.time_limited,
        timing=build.timing,
    )
    write_project(build.project.with_files({REPORT: json_bytes(report.to_json())}), folder)
    return report


def compile_build(
    build: Build, report: BuildReport, folder: Path, toolchain: str = "auto"
) -> BuildReport:
    """Compile a written project for the board and its twin; report what came out.

    Raises:
        ToolError: the compiler or PlatformIO is missing or fails.
    """
    board = build.board
    twin = board.twin.platformio_env if board.twin is not None else None
    itself = choose_environment(board, toolchain)
    elfs = build_environments(folder, [itself, *([twin] if twin else [])])
    elf = elfs[itself]
    size = elf_size(elf)
    report = replace(
        report,
        flash_bytes=size.flash_bytes,
        ram_bytes=size.ram_bytes,
        schedule_bytes=schedule_bytes(build),
        elf=str(elf),
        twin_elf=str(elfs[twin]) if twin else None,
    )
    replace_file(folder / REPORT, json_bytes(report.to_json()))
    return report


def schedule_bytes(build: Build) -> int:
    """Bytes of flash that the schedule adds to the training step that keeps everything.

    Raises:
        ToolError: the compiler is missing or fails.
    """
    board, plan = build.board, build.checkpoint_all
    slots = assign_slots(build.program, plan.training.plan)
    unscheduled = render_project(lower_plan(build.program, board, plan, slots).view, board)
    return step_bytes(build.project, board) - step_bytes(unscheduled, board)
