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

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from poetfw.boards import Board, load_board
from poetfw.costs import CostProvider, CostTable, analytic_costs
from poetfw.devices import build_environments, choose_environment, elf_size, emulator_of
from poetfw.errors import ToolError
from poetfw.firmware import (
    IMAGE,
    Lowering,
    Project,
    RunRequest,
    Slot,
    assign_slots,
    initial_weights,
    render_features,
    render_project,
    twin_environments,
    write_image,
    write_project,
)
from poetfw.importers import DataSet, load_data
from poetfw.importers.spectra import Spectra
from poetfw.limits import Deadline, Work
from poetfw.loading import loading
from poetfw.models import Model
from poetfw.output_file import replace_file
from poetfw.planning import (
    Build,
    BuildSettings,
    ChosenBy,
    DevicesBuildSettings,
    PartnerSchedule,
    Plan,
    WorkersSchedule,
    arena_budget,
    board_of_devices,
    boards_of_partners,
    choose_kernels,
    choose_optimizer,
    derive_program,
    devices_problem,
    held_out_batches,
    load_model,
    lower_plan,
    make_ring,
    plan_on_devices,
    plan_partners,
    plan_unscheduled,
    plan_within,
    read_device,
    report_build,
    require_fed,
    require_room,
    require_room_on,
    schedule_bytes,
    use_room,
    watchdog_time_ms,
)
from poetfw.report import (
    BuildReport,
    draw_pictures,
    draw_timeline,
    json_bytes,
    slots_of,
    stage_files,
)
from poetfw.schedule import Tell, tell_nobody
from poetfw.schedule.devices import DevicesPlan, DevicesProblem, devices_to_json
from poetfw.schedule.devices.solve import Tell as TellOfDevices
from poetfw.training import Program

PARTNERS = "partners.json"
"""What says of which devices there are projects in a folder, each with a program of its own."""

REPORT = "build.json"
"""The build report's name in a project."""

DATA = "data.json"
"""What a project remembers of its data, where it was made from files of images or sounds."""

_OVERFLOWED = re.compile(r"region `(\w+)' overflowed by (\d+) bytes")
_RENDERING = 2.5
"""What follows the search takes about so many times as long as what comes before it: most of that
is to load Python packages, and most of this to load matplotlib and to draw."""

Progress = Callable[[str], None]
"""Called with what begins now."""


def plan_build(
    settings: BuildSettings,
    progress: Progress,
    costs: CostProvider = analytic_costs,
    deadline: Deadline | None = None,
    tell: Tell = tell_nobody,
) -> Build:
    """Decide everything and render the project. Nothing is written.

    Args:
        settings: what the user wants.
        progress: called with what begins.
        costs: says what every op costs on the board.
        deadline: when to end; None for the settings' time limit from now on.
        tell: is told how the search for a schedule goes on.

    Raises:
        PoetfwError: the settings, the board, the model or the data are not usable, or no plan
            exists within the budget and the deadline.
    """
    deadline = deadline or Deadline(settings.time_limit_s)
    progress("reading board, model and data")
    board = load_board(settings.board, check_machine=emulator_of).with_threads(settings.threads)
    board.require_firmware()
    settings = settings.on(board)
    watchdog_ms = watchdog_time_ms(settings, board)
    model = load_model(settings)
    data = load_data(settings.data, model, settings.features)
    chosen = choose_kernels(derive_program(settings, model, deadline), board, costs)
    program = chosen.program
    ring = make_ring(settings, model.batch)
    unlimited = plan_unscheduled(program, board, costs, deadline)
    deadline.reserve(_RENDERING)

    budget = settings.ram_bytes
    if budget is None:
        progress("asking the compiler for the size of static data")
        with deadline.excluded(), loading("cvxpy", "matplotlib.figure"):
            budget = arena_budget(program, board, unlimited, ring)
    progress("solving for the schedule")
    work = Work(settings.work_limit, deadline)
    plan, minimum = plan_within(
        program, board, costs, budget, settings, unlimited.evaluation, work, tell
    )
    chosen, plan = use_room(chosen, plan, board, costs, budget, settings, work, tell)
    if chosen.program != program:
        program = chosen.program
        unlimited = plan_unscheduled(program, board, costs, deadline)
    table = costs(program.training, board)
    if watchdog_ms is not None:
        require_fed(watchdog_ms, program, board, costs, plan)

    progress("writing the project")
    slots = assign_slots(program, plan.training.plan, board.erase_bytes)
    lowering = lower_plan(program, board, plan, slots, ring, settings.slices, watchdog_ms)
    project = _project(
        settings, board, model, data, program, table, plan, slots, lowering, chosen.by
    )
    return Build(
        board=board,
        model=model,
        data=data,
        optimizer=choose_optimizer(settings, model),
        program=program,
        costs=table,
        kernels_by=chosen.by[program.training.name],
        budget_bytes=budget,
        minimum_budget_bytes=minimum,
        checkpoint_all=unlimited,
        plan=plan,
        plan_id=lowering.view.plan_id,
        project=project.with_files(
            draw_pictures(program, plan.training, plan.memory, budget, board)
        ),
        time_limited=deadline.decided,
        timing=deadline.timing(),
    )


def plan_devices_build(
    settings: BuildSettings,
    devices: DevicesBuildSettings,
    progress: Progress,
    deadline: Deadline | None = None,
    tell: TellOfDevices = lambda phase, cost, bound: None,
) -> Build:
    """The same for several devices of one board, each with an arena of its own.

    Args:
        settings: what the user wants; the board is the devices'.
        devices: which devices, and what of them.
        progress: called with what begins.
        deadline: when to end; None for the settings' time limit from now on.
        tell: is told how the search for a plan goes on.

    Raises:
        PoetfwError: the settings, the devices, the model or the data are not usable, no plan exists
            within the limits, or the one to follow is not legal there.
    """
    deadline = deadline or Deadline(settings.time_limit_s)
    progress("reading devices, model and data")
    files = [read_device(path) for path in devices.files]
    board = board_of_devices(files, devices.files)
    settings = replace(settings, board=board.label).on(board)
    model = load_model(settings)
    data = load_data(settings.data, model, settings.features)
    program = derive_program(settings, model, deadline)
    problem = replace(
        devices_problem(program.training, files, devices.ram_fractions),
        parallel=devices.parallel,
        deadline_s=settings.deadline_s,
    )
    unlimited = plan_unscheduled(program, board, analytic_costs, deadline)
    deadline.reserve(_RENDERING)
    progress("solving for the plan")
    work = Work(settings.work_limit, deadline)
    followed = devices.plan_of(problem)
    plan = plan_on_devices(program, unlimited.evaluation, problem, followed, work, tell)
    require_room(board, plan.memory)

    progress("writing the project")
    slots = assign_slots(program, (), board.erase_bytes)
    build = _on_devices(settings, board, model, data, program, unlimited, plan, slots, deadline)
    beside = _of_devices(problem, plan.workers.steps)
    return replace(build, project=build.project.with_files(beside))


def _on_devices(
    settings: BuildSettings,
    board: Board,
    model: Model,
    data: DataSet,
    program: Program,
    unlimited: Plan,
    plan: WorkersSchedule | PartnerSchedule,
    slots: Sequence[Slot],
    deadline: Deadline,
) -> Build:
    """The build of a program that follows a plan for several devices, or one device's part."""
    lowering = lower_plan(program, board, plan, slots)
    return Build(
        board=board,
        model=model,
        data=data,
        optimizer=choose_optimizer(settings, model),
        program=program,
        costs=plan.costs,
        budget_bytes=plan.limit_bytes,
        minimum_budget_bytes=plan.memory.arena_bytes,
        checkpoint_all=unlimited,
        plan=plan,
        plan_id=lowering.view.plan_id,
        project=_project(settings, board, model, data, program, plan.costs, plan, slots, lowering),
        time_limited=deadline.decided,
        timing=deadline.timing(),
    )


@dataclass(frozen=True)
class PartnersBuild:
    """A build for several devices on boards of their own.

    Attributes:
        partners: each device's build, by its name.
        project: what is beside their projects, each of which is in a folder of its name.
    """

    partners: Mapping[str, Build]
    project: Project


def plan_partners_build(
    settings: BuildSettings,
    devices: DevicesBuildSettings,
    progress: Progress,
    deadline: Deadline | None = None,
    tell: TellOfDevices = lambda phase, cost, bound: None,
) -> PartnersBuild:
    """The same for devices that share no memory: each has a program, on a board of its own.

    Arguments and errors are those of `plan_devices_build`; boards' defaults are the first device's.
    """
    deadline = deadline or Deadline(settings.time_limit_s)
    progress("reading devices, model and data")
    files = [read_device(path) for path in devices.files]
    boards = boards_of_partners(files, devices.files)
    first = next(iter(boards.values()))
    settings = replace(
        settings, board=first.label, weights_in_flash=False, checkpoint_every=0, ring=0
    ).on(first)
    model = load_model(settings)
    data = load_data(settings.data, model, settings.features)
    program = derive_program(settings, model, deadline)
    problem = replace(
        devices_problem(program.training, files, devices.ram_fractions),
        parallel=devices.parallel,
        deadline_s=settings.deadline_s,
    )
    unlimited = plan_unscheduled(program, first, analytic_costs, deadline)
    deadline.reserve(_RENDERING)
    progress("solving for the plan")
    work = Work(settings.work_limit, deadline)
    plans = plan_partners(
        program, unlimited.evaluation, problem, devices.plan_of(problem), work, tell
    )
    require_room_on(boards, plans)

    progress("writing the projects")
    partners = {}
    for name, plan in plans.items():
        board = boards[name]
        slots = slots_of(program, plan.steps, board.erase_bytes)
        partners[name] = _on_devices(
            settings, board, model, data, program, unlimited, plan, slots, deadline
        )
    part = next(iter(plans.values())).steps
    listed = {
        "schema_version": 1,
        "devices": [{"name": name, "plan_id": b.plan_id} for name, b in partners.items()],
        "messages": [message._asdict() for message in part.messages(program)],
    }
    beside = Project({PARTNERS: json_bytes(listed), **_of_devices(problem, part.steps)})
    return PartnersBuild(partners, beside)


def _of_devices(problem: DevicesProblem, steps: DevicesPlan) -> dict[str, bytes]:
    """What a project for several devices says of them: the problem, and who computes what when."""
    return {
        "devices.json": json_bytes(devices_to_json(problem)),
        **{f"schedule.{kind}": draw_timeline(problem, steps, kind) for kind in ("svg", "png")},
    }


def _project(
    settings: BuildSettings,
    board: Board,
    model: Model,
    data: DataSet,
    program: Program,
    table: CostTable,
    plan: Plan | WorkersSchedule | PartnerSchedule,
    slots: Sequence[Slot],
    lowering: Lowering,
    kernels_by: Mapping[str, Mapping[str, ChosenBy]] | None = None,
) -> Project:
    """The project that follows a plan, with its storage image and its stage files."""
    held_out = held_out_batches(data, model)
    if isinstance(plan, PartnerSchedule) and not plan.evaluates:
        held_out = held_out[0][:0], held_out[1][:0]
    image = write_image(
        program,
        lowering.view.plan_id,
        slots,
        model.weights,
        (data.x_train, data.y_train),
        held_out,
        RunRequest(
            model.epochs * (len(data.x_train) // model.batch),
            settings.seed,
            checkpoint_every=settings.checkpoint_every,
        ),
        settings.checkpoint_sets,
        settings.ring,
    )
    if board.storage is not None:
        board.storage.require_room(len(image))
    stages = stage_files(
        program,
        table,
        plan.training,
        plan.steps,
        plan.evaluation.plan,
        plan.memory,
        slots,
        lowering.names,
        board.compute.arithmetic,
        model.state_dict,
        kernels_by or {},
    )
    held = settings.weights_in_flash
    weights = initial_weights(lowering.names, model.weights) if held else ()
    return render_project(lowering.view, board, weights).with_files(
        {
            IMAGE: image,
            "board.toml": board.path.read_bytes(),
            **stages,
            **data_record(data),
            **_features_in_c(data),
        }
    )


def data_record(data: DataSet) -> Mapping[str, bytes]:
    """`data.json` where there is something in it: how features were made, what classes are."""
    if not data.record:
        return {}
    return {DATA: json_bytes({"schema_version": 1, **data.record})}


def _features_in_c(data: DataSet) -> Mapping[str, bytes]:
    """What calculates the data's features on the device, where they are of sounds."""
    settings = data.record.get("features")
    return {} if settings is None else render_features(Spectra(**settings))


def write_build(build: Build, folder: Path) -> BuildReport:
    """Write a build's project as a whole; report what it is.

    Raises:
        OutputError: the folder is not poetfw's, or cannot be written.
    """
    report = report_build(build, folder)
    write_project(build.project.with_files({REPORT: json_bytes(report.to_json())}), folder)
    return report


def write_partners(build: PartnersBuild, folder: Path) -> dict[str, BuildReport]:
    """Write the projects of a build for boards of their own; report what each is, by device.

    What is beside them comes first: whoever runs them checks that they are those that it lists.

    Raises:
        OutputError: a folder is not poetfw's, or cannot be written.
    """
    write_project(build.project, folder)
    return {name: write_build(each, folder / name) for name, each in build.partners.items()}


def _overflow(build: Build, error: ToolError) -> ToolError | None:
    """What to do where the linker had no room in a memory; None where something else failed."""
    found = _OVERFLOWED.search("\n".join(error.said))
    if found is None:
        return None
    measured = ChosenBy.MEASURED in build.kernels_by.values()
    return ToolError(
        f"the firmware does not fit {build.board.label}: {found[1].lower()} overflows by "
        f"{int(found[2]):,} B",
        *(["build with --costs analytic: faster kernels were chosen, of more code"] * measured),
        "train a smaller network, or choose a scheduler with fewer recomputes",
        said=[line for line in error.said if " region `" in line],
    )


def compile_build(
    build: Build, report: BuildReport, folder: Path, toolchain: str = "auto"
) -> BuildReport:
    """Compile a written project for the board and its twins; report what came out.

    Raises:
        ToolError: the compiler or PlatformIO is missing or fails.
    """
    board = build.board
    itself = choose_environment(board, toolchain)
    try:
        elfs = build_environments(folder, list(dict.fromkeys([itself, *twin_environments(board)])))
    except ToolError as error:
        raise _overflow(build, error) or error from None
    twin = board.twins[0].machine.platformio_env if board.twins else None
    elf = elfs[itself]
    size = elf_size(elf)
    report = replace(
        report,
        flash_bytes=size.flash_bytes,
        ram_bytes=size.ram_bytes,
        schedule_bytes=schedule_bytes(build) if isinstance(build.plan, Plan) else None,
        elf=str(elf),
        twin_elf=str(elfs[twin]) if twin else None,
    )
    replace_file(folder / REPORT, json_bytes(report.to_json()))
    return report
