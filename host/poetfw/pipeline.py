"""The way from a model to a firmware that trains it, stage by stage. Read this file first.

    model ──import──▶ Graph ──make_program──▶ Program ───┐
    board ──────────────────analytic_costs──▶ CostTable ─┤
                                                         ▼
                            ScheduleProblem ──solve──▶ Schedule (an execution plan)
                                                         ▼
         plan_memory ──▶ MemoryPlan ──lower──▶ views ──render──▶ Project ──PlatformIO──▶ ELF

Each arrow is one function from immutable values to the next. `plan_build` follows them up to the
project, in memory; `write_build` puts it on disk; `compile_build` makes the ELFs. Running what was
built is in `running.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from poetfw.boards import Board, TransferCost, load_board
from poetfw.costs import CostTable, analytic_costs
from poetfw.devices import (
    build_environments,
    choose_environment,
    elf_size,
    static_ram_bytes,
    step_bytes,
)
from poetfw.errors import ConfigError, InfeasibleError, ModelError
from poetfw.firmware import (
    BLOCK_BYTES,
    Lowering,
    Project,
    RunRequest,
    Slot,
    assign_slots,
    lower,
    render_project,
    write_image,
    write_project,
)
from poetfw.importers import DataSet, load_data
from poetfw.ir import Graph, Role
from poetfw.memory import MemoryPlan, padded, plan_memory, resident_bytes
from poetfw.memory.ordering import from_graph, order_ops, reorder, reorder_plan
from poetfw.models import DEFAULT_MODEL, Model, build_model
from poetfw.ops import Array, kind_of, kinds_without_kernel
from poetfw.output_file import replace_file
from poetfw.report import BuildReport, ScheduleSummary, draw_pictures, json_bytes, stage_files
from poetfw.schedule import (
    Node,
    Schedule,
    ScheduleProblem,
    SolveOptions,
    Storage,
    Transfer,
    minimum_budget,
    simulate,
    solve,
)
from poetfw.training import Program, Sgd, in_place_input, make_program, matching_parameters

DEFAULT_DATA = "digits"
DEFAULT_LOSS = "softmax_cross_entropy"

IMAGE = "storage.img"
"""The storage image's name in a project."""

REPORT = "build.json"
"""The build report's name in a project."""

_PLACEMENT_ATTEMPTS = 5
_ORDERING_TIME_S = 5.0

Progress = Callable[[str], None]
"""Called with what begins now."""


@dataclass(frozen=True)
class BuildSettings:
    """What a user may set for a build; None means the model's or the board's default.

    Attributes:
        board: a board's name, or the path of a board's TOML file.
        model: a built-in model's name, or the path of an ONNX file.
        data: a built-in data set's name, or the path of an NPZ file.
        batch: samples in a batch.
        ram_bytes: budget of the arena; None for all that the board leaves.
        deadline_s: upper bound on one training step, in seconds.
        scheduler: how to schedule, one of `poetfw.schedule.SCHEDULERS`.
        loss: one of `poetfw.training.LOSSES`.
        learning_rate, momentum, weight_decay, clip_norm: the optimizer.
        freeze: patterns of the names of parameters that are not trained.
        seed: decides the initial weights and the order of samples.
        time_limit_s: safety limit on the solver, in seconds.
    """

    board: str
    model: str = DEFAULT_MODEL
    data: str = DEFAULT_DATA
    batch: int = 32
    ram_bytes: int | None = None
    deadline_s: float | None = None
    scheduler: str = "poet"
    loss: str | None = None
    learning_rate: float | None = None
    momentum: float | None = None
    weight_decay: float | None = None
    clip_norm: float | None = None
    freeze: tuple[str, ...] = ()
    seed: int = 0
    time_limit_s: float = 60.0


@dataclass(frozen=True)
class Plan:
    """One way to run a program: when each op runs, and where every buffer lies."""

    training: Schedule
    evaluation: Schedule
    memory: MemoryPlan


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


def plan_build(settings: BuildSettings, progress: Progress) -> Build:
    """Decide everything and render the project. Nothing is written.

    Raises:
        PoetfwError: the settings, the board, the model or the data are not usable, or no plan
            exists within the budget and the deadline.
    """
    progress("reading board, model and data")
    board = load_board(settings.board)
    board.require_firmware()
    model = load_model(settings)
    check_kernels(model)
    data = load_data(settings.data, model)
    program = derive_program(settings, model)
    costs = analytic_costs(program.training, board)
    unlimited = plan_unscheduled(program, board, costs)

    budget = settings.ram_bytes
    if budget is None:
        progress("asking the compiler for the size of static data")
        budget = arena_budget(program, board, unlimited)
    progress("solving for the schedule")
    plan, minimum = plan_within(program, board, costs, budget, settings, unlimited.evaluation)

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
        program, costs, plan.training, plan.evaluation, plan.memory, slots, lowering.names
    )
    project = render_project(lowering.view, board).with_files(
        {
            IMAGE: image,
            "board.toml": board.path.read_bytes(),
            **stages,
            **draw_pictures(program, plan.training, plan.memory, budget, board.name),
        }
    )
    return Build(
        board=board,
        model=model,
        data=data,
        program=program,
        costs=costs,
        budget_bytes=budget,
        minimum_budget_bytes=minimum,
        checkpoint_all=unlimited,
        plan=plan,
        plan_id=lowering.view.plan_id,
        project=project,
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
        layers=build.model.layers,
        frozen=frozen_parameters(build.program, build.model),
        warnings=build.model.warnings,
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
        schedule=ScheduleSummary.of(build.plan.training),
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


# The stages ------------------------------------------------------------------------------------


def load_model(settings: BuildSettings) -> Model:
    """The model: an ONNX file's, or a built-in one.

    Raises:
        ModelError: there is no such model, or poetfw cannot train it.
    """
    if settings.batch < 1:
        raise ConfigError(f"the batch is {settings.batch}: it must be 1 or more")
    if settings.model.endswith(".onnx"):
        from poetfw.importers.onnx import import_onnx  # slow to import, and seldom needed

        return import_onnx(Path(settings.model), settings.batch, settings.loss or DEFAULT_LOSS)
    model = build_model(settings.model, settings.batch, settings.seed)
    return model if settings.loss is None else replace(model, loss=settings.loss)


def check_kernels(model: Model) -> None:
    """Check that a device can run every operator of a model.

    Raises:
        ModelError: it cannot; the message names them all.
    """
    missing = kinds_without_kernel(model.graph)
    if missing:
        raise ModelError(
            f"model {model.name!r} uses operators that have no C kernel yet: "
            f"{', '.join(missing)}. It can be scheduled, not built",
            "choose a model that can be built (`poetfw models`)",
        )


def choose_optimizer(settings: BuildSettings, model: Model) -> Sgd:
    """The model's optimizer, with what the user set instead."""
    chosen = {
        name: value
        for name in ("learning_rate", "momentum", "weight_decay", "clip_norm")
        if (value := getattr(settings, name)) is not None
    }
    return replace(model.optimizer, **chosen)


def derive_program(settings: BuildSettings, model: Model) -> Program:
    """The training and evaluation step of a model, as the user wants it trained.

    Raises:
        ConfigError: a setting of the optimizer is out of range, or nothing is there to freeze.
        ModelError: nothing is left to train, or the model cannot be trained.
    """
    frozen = matching_parameters(model.graph, settings.freeze)
    program = make_program(model.graph, model.loss, choose_optimizer(settings, model), frozen)
    return order_program(program)


def frozen_parameters(program: Program, model: Model) -> tuple[str, ...]:
    """Names of the parameters that the training step leaves as they are."""
    trained = {name for op in program.training.ops for name in op.updates}
    names = (tensor.name for tensor in model.graph.with_role(Role.PARAMETER))
    return tuple(name for name in names if name not in trained)


def order_program(program: Program) -> Program:
    """The program with its training step's ops in an order of lower peak, where there is one."""
    ordering = order_ops(from_graph(program.training), _ORDERING_TIME_S)
    return replace(program, training=reorder(program.training, ordering.order))


def schedule_problem(
    graph: Graph,
    board: Board,
    costs: CostTable,
    ram_bytes: int | None,
    deadline_s: float | None = None,
) -> ScheduleProblem:
    """The schedule problem of a graph on a board.

    Args:
        graph: a training or evaluation step.
        board: says what paging costs.
        costs: what each op costs.
        ram_bytes: what its tensors may occupy together, beside persistent ones; None for enough
            to keep everything.
        deadline_s: upper bound on the step's time.
    """
    updated_by: dict[str, str] = {}
    for op in graph.ops:
        for name in op.updates:
            updated_by.setdefault(name, op.name)
    position = {op.name: index for index, op in enumerate(graph.ops)}
    nodes = []
    for op in graph.ops:
        updates = [updated_by[name] for name in op.inputs if name in updated_by]
        size = padded(graph.by_name[op.output].size_bytes) if op.output is not None else 0
        taken = in_place_input(graph, op)
        nodes.append(
            Node(
                name=op.name,
                inputs=tuple(
                    graph.producer[name].name for name in graph.reads(op) if name in graph.producer
                ),
                time_s=costs.ops[op.name].time_s,
                energy_j=costs.ops[op.name].energy_j,
                output_bytes=size,
                workspace_bytes=padded(kind_of(op).workspace_bytes(op, graph)),
                recompute=kind_of(op).recomputable,
                page=size > 0,
                backward=op.backward,
                recompute_before=min(updates, key=position.__getitem__, default=None),
                in_place=graph.producer[taken].name if taken is not None else None,
            )
        )
    enough = sum(node.output_bytes + node.workspace_bytes for node in nodes)
    return ScheduleProblem(
        name=graph.name,
        ram_bytes=enough if ram_bytes is None else ram_bytes,
        deadline_s=deadline_s,
        storage=_storage(board),
        nodes=tuple(nodes),
    )


def load_schedule_problem(
    settings: BuildSettings, warn: Progress = lambda text: None
) -> ScheduleProblem:
    """The schedule problem of a model on a board, with all the RAM that the board has for tensors.

    Nothing is compiled: static data is not known, and not counted. `warn` is called with each of
    the model's warnings.
    """
    board = load_board(settings.board)
    model = load_model(settings)
    for warning in model.warnings:
        warn(warning)
    program = derive_program(settings, model)
    costs = analytic_costs(program.training, board)
    taken = board.reserved_ram_bytes + board.stack_bytes
    resident = resident_bytes(program.persistent, BLOCK_BYTES)
    available = max(0, board.ram_bytes - taken - resident)
    return schedule_problem(program.training, board, costs, available, settings.deadline_s)


def plan_unscheduled(program: Program, board: Board, costs: CostTable) -> Plan:
    """The plan that computes everything once, pages nothing, and takes the RAM it needs."""
    training = solve(schedule_problem(program.training, board, costs, None), "checkpoint-all")
    evaluation = plan_evaluation(program, board)
    return Plan(training, evaluation, place_plan(program, training, evaluation, None))


def unscheduled_peak_bytes(model: Model, board: Board) -> int:
    """Bytes of RAM that training takes if everything is computed once and kept."""
    program = order_program(make_program(model.graph, model.loss, model.optimizer))
    return plan_unscheduled(
        program, board, analytic_costs(program.training, board)
    ).memory.peak_bytes


def plan_evaluation(program: Program, board: Board) -> Schedule:
    """The plan of the evaluation step: inference frees as it goes and needs no schedule."""
    costs = analytic_costs(program.evaluation, board)
    return solve(schedule_problem(program.evaluation, board, costs, None), "checkpoint-all")


def place_plan(
    program: Program, training: Schedule, evaluation: Schedule, budget_bytes: int | None
) -> MemoryPlan:
    """Addresses for both steps, within a budget if there is one."""
    return plan_memory(
        program.persistent,
        BLOCK_BYTES,
        (program.training, training.plan),
        (program.evaluation, evaluation.plan),
        budget_bytes,
    )


def arena_budget(program: Program, board: Board, plan: Plan) -> int:
    """What the arena may occupy: the board's RAM without stack, static data and what is reserved.

    Static data is measured: the firmware of a plan is compiled, and what its objects ask for is
    added up. It does not depend on which plan.
    """
    lowering = lower_plan(program, board, plan, assign_slots(program, plan.training.plan))
    static = static_ram_bytes(render_project(lowering.view, board), board)
    return board.ram_bytes - board.reserved_ram_bytes - board.stack_bytes - static


def lower_plan(program: Program, board: Board, plan: Plan, slots: Sequence[Slot]) -> Lowering:
    """The views of the project that follows a plan."""
    return lower(program, board, plan.training.plan, plan.evaluation.plan, plan.memory, slots)


def plan_within(
    program: Program,
    board: Board,
    costs: CostTable,
    budget_bytes: int,
    settings: BuildSettings,
    evaluation: Schedule,
) -> tuple[Plan, int]:
    """The best schedule that fits the budget, placed; and the smallest budget there could be.

    Raises:
        InfeasibleError: there is none; the message names the smallest feasible budget.
    """
    resident = resident_bytes(program.persistent, BLOCK_BYTES)
    options = SolveOptions(time_limit_s=settings.time_limit_s)
    problem = schedule_problem(program.training, board, costs, None, settings.deadline_s)
    minimum = check_budget(program, board, problem, evaluation, budget_bytes, resident)
    available = budget_bytes - resident
    for _ in range(_PLACEMENT_ATTEMPTS):
        limited = replace(problem, ram_bytes=available)
        training = with_lower_peak(limited, solve(limited, settings.scheduler, options))
        memory = place_plan(program, training, evaluation, None)
        excess = memory.arena_bytes - budget_bytes
        if excess <= 0:
            return Plan(training, evaluation, memory), minimum
        available -= excess
    raise InfeasibleError(
        f"no schedule was found whose buffers could be placed within {budget_bytes:,} bytes",
        "raise --ram, or choose a smaller --batch",
    )


def with_lower_peak(problem: ScheduleProblem, schedule: Schedule) -> Schedule:
    """The schedule with its steps in an order of lower peak, where there is one."""
    plan = reorder_plan(problem, schedule.plan, _ORDERING_TIME_S)
    simulation = simulate(problem, plan)
    return replace(schedule, plan=plan, peak_bytes=simulation.peak_bytes, time_s=simulation.time_s)


def check_budget(
    program: Program,
    board: Board,
    problem: ScheduleProblem,
    evaluation: Schedule,
    budget_bytes: int,
    resident: int,
) -> int:
    """Check that some schedule fits the budget; returns the smallest one for which that holds.

    Raises:
        InfeasibleError: none does; the message says what is in the way.
    """
    needed, op, _ = minimum_budget(problem)
    what = f"Op {op!r}"
    if evaluation.peak_bytes > needed:
        needed = evaluation.peak_bytes
        what = f"Op {_op_at_peak(program.evaluation, board, evaluation)!r} of the evaluation"
    if resident + needed <= budget_bytes:
        return resident + needed
    parameters = sum(tensor.size_bytes for tensor in program.persistent)
    raise InfeasibleError(
        f"the budget of {budget_bytes:,} bytes is too small: {program.training.name} needs at "
        f"least {resident + needed:,} bytes. {what} needs {needed:,} at once, beside the "
        f"{resident:,} that are never free ({parameters:,} of parameters, optimizer state and "
        f"running statistics, which are not paged)",
        "choose a smaller --batch",
        "set --momentum 0, which keeps no optimizer state",
        "freeze layers with --freeze: they need no gradient and no optimizer state",
        "choose a smaller model or a board with more RAM (`poetfw boards`)",
        minimum_budget_bytes=resident + needed,
    )


def _op_at_peak(graph: Graph, board: Board, schedule: Schedule) -> str:
    """The op that runs when most is live."""
    problem = schedule_problem(graph, board, analytic_costs(graph, board), None)
    during = simulate(problem, schedule.plan).during_bytes
    return schedule.plan[during.index(max(during))].node


def held_out_batches(data: DataSet, model: Model) -> tuple[Array, Array]:
    """The held-out samples as whole batches.

    Where the model classifies, the last batch is filled up with samples of class -1, which no
    answer matches; otherwise it is left out.
    """
    x, y = data.x_test, data.y_test
    if model.classes is None:
        whole = len(x) // model.batch * model.batch
        return x[:whole], y[:whole]
    missing = -len(x) % model.batch
    blank = np.zeros((missing, *x.shape[1:]), x.dtype)
    return np.concatenate([x, blank]), np.concatenate([y, np.full(missing, -1, y.dtype)])


def _storage(board: Board) -> Storage | None:
    """What paging costs. A slot's trailer may take a block of its own, so one more is counted."""
    storage = board.storage
    if storage is None:
        return None
    block = storage.block_bytes

    def transfer(cost: TransferCost) -> Transfer:
        return Transfer(
            cost.bandwidth_bytes_per_s,
            cost.time_s(block),
            cost.energy_j_per_byte,
            cost.joules(block),
        )

    page_in, page_out = transfer(storage.page_in), transfer(storage.page_out)
    return Storage(block, page_in, page_out, storage.overlap)
