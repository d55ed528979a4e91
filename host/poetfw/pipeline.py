# SPDX-License-Identifier: Apache-2.0
"""Pipeline from a model to firmware that trains it, stage by stage. Read this file first.

    model ──import──▶ Graph ──make_program──▶ Program ───┐
    board ────────────────────────costs─────▶ CostTable ─┤
                                                         ▼
                            ScheduleProblem ──solve──▶ Schedule (an execution plan)
                                                         ▼
         place_parts ──▶ MemoryPlan ──lower──▶ views ──render──▶ Project ──PlatformIO──▶ ELF

Each arrow is one function from immutable values to the next. `plan_build` follows them up to the
project, in memory; `write_build` puts it on disk; `compile_build` makes the ELFs. `planning/`
decides what is solved within which budget. Running what was built is in `runs/running.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from poetfw.boards import Board
from poetfw.common.errors import ToolError
from poetfw.common.limits import Deadline
from poetfw.common.output_file import replace_file
from poetfw.costs import CostProvider, analytic_costs
from poetfw.firmware import (
    IMAGE,
    KeptFeatures,
    Project,
    RunRequest,
    constant_values,
    image_bytes,
    initial_weights,
    render_features,
    render_project,
    twin_environments,
    write_image,
    write_project,
)
from poetfw.firmware.tile_choice import program_tiles
from poetfw.importers import DataSet, load_data
from poetfw.importers.spectra import Spectra
from poetfw.memory import ONLY
from poetfw.models import Model
from poetfw.planning import (
    Build,
    BuildSettings,
    Decision,
    Image,
    Progress,
    Searching,
    boards_of,
    choose_features,
    choose_optimizer,
    decide,
    effect_of_format,
    effect_of_storing,
    folders_of,
    held_out_batches,
    load_model,
    lower_plan,
    report_build,
    schedule_bytes,
    sets_of,
)
from poetfw.report import (
    BuildReport,
    FeaturesReport,
    ProgramReport,
    draw_pictures,
    draw_timeline,
    json_bytes,
    slots_of,
    stage_files,
)
from poetfw.schedule import Tell, tell_nobody
from poetfw.schedule.several import devices_to_json
from poetfw.schedule.several.solve import Tell as TellOfDevices
from poetfw.tools import build_environments, elf_size, require_toolchain
from poetfw.training import constant_bytes

REPORT = "build.json"
"""File name of the build report in a project."""

DATA = "data.json"
"""File name of the description of data that were made from images or sounds."""

_OVERFLOWED = re.compile(r"region [`'](\w+)'(?: overflowed by|: overflowed by) (\d+) bytes")


def plan_build(
    settings: BuildSettings,
    progress: Progress,
    costs: CostProvider = analytic_costs,
    deadline: Deadline | None = None,
    tell: Tell = tell_nobody,
    tell_of_devices: TellOfDevices = lambda phase, cost, bound: None,
) -> Build:
    """Plan a build and render its projects in memory.

    Args:
        settings: settings of the build.
        progress: called with the name of each stage as it begins.
        costs: provider of op costs on the board.
        deadline: end of the searches; None for the settings' time limit, counted from now.
        tell: called with the progress of the search for a schedule.
        tell_of_devices: called with the progress of the search for a plan of several devices.

    Raises:
        PoetfwError: The settings, the boards, the model or the data are invalid, no plan exists
            within the budget and the deadline, or the plan to follow is illegal.
    """
    deadline = deadline or Deadline(settings.time_limit_s)
    progress("reading board, model and data")
    boards = boards_of(settings)
    first = next(iter(boards.values()))
    settings = _without_others(settings).on(first)
    model = load_model(settings)
    data = load_data(settings.data, model, settings.features)
    searching = Searching(deadline, progress, costs, tell, tell_of_devices)
    decided = decide(settings, boards, model, searching)
    features, kept = _features(settings, first, model, data, decided)
    progress("writing the project")
    images = {
        name: _image(settings, name, board, model, data, decided, kept)
        for name, board in boards.items()
    }
    return Build(
        model=model,
        data=data,
        optimizer=choose_optimizer(settings, model),
        program=decided.program,
        costs=decided.costs,
        checkpoint_all=decided.checkpoint_all,
        plan=decided.plan,
        images=images,
        beside=_beside(decided, images),
        time_limited=deadline.decided,
        timing=deadline.timing(),
        frozen_as=effect_of_format(settings, model, data, decided.program),
        stored_as=effect_of_storing(settings, model, data, decided, first, searching),
        features=features,
        sets=sets_of(settings, decided.program),
        checkpoint_every=settings.checkpoint_every,
    )


def _without_others(settings: BuildSettings) -> BuildSettings:
    """The settings, with those that several devices do not support switched off."""
    devices = settings.devices
    if devices is not None:
        settings = replace(settings, ring=0, slices=False, watchdog_s=None, keep_features="never")
    if devices is not None and devices.apart:
        settings = replace(settings, weights_in_flash=False, checkpoint_every=0)
    return settings


def _beside(decided: Decision, images: Mapping[str, Image]) -> Project:
    """Pictures of the plan and, for several devices, the file of their problem."""
    plan, problem, program = decided.plan, decided.problem, decided.program
    if problem is None:
        budget_bytes, board = images[ONLY].budget_bytes, images[ONLY].board
        return Project(draw_pictures(program, plan.training, plan.memory, budget_bytes, board))
    files = {f"schedule.{k}": draw_timeline(problem, plan.step.steps, k) for k in ("svg", "png")}
    files["devices.json"] = json_bytes(devices_to_json(problem))
    return Project(files)


def _features(
    settings: BuildSettings, board: Board, model: Model, data: DataSet, decided: Decision
) -> tuple[FeaturesReport | None, KeptFeatures | None]:
    """Choice between keeping and recalculating features; None without any or on several devices."""
    if decided.problem is not None:
        return None, None
    program, plan = decided.program, decided.plan
    size_bytes = image_bytes(
        program,
        slots_of(program, plan.step, board.erase_bytes),
        (len(data.x_train), len(held_out_batches(data, model)[0])),
        sets_of(settings, program),
        settings.ring,
    )
    spare_bytes = decided.budgets[ONLY][0] - plan.memory.arena_bytes
    return choose_features(
        *(settings, board, model, data, program, plan.training, decided.keepable, decided.latest),
        size_bytes,
        spare_bytes,
        wanted=decided.keeps,
    )


def _image(
    settings: BuildSettings,
    memory: str,
    board: Board,
    model: Model,
    data: DataSet,
    decided: Decision,
    kept: KeptFeatures | None,
) -> Image:
    """Render the program of one memory: project, storage image and stage files."""
    program, plan = decided.program, decided.plan.of(memory)
    slots = slots_of(program, plan.step, board.erase_bytes)
    lowering = lower_plan(
        program, board, plan, slots, decided.ring, settings.slices, decided.watchdog_ms, kept
    )
    values = {**model.weights, **program.made}
    held_out = held_out_batches(data, model)
    if not plan.step.evaluates_here:
        held_out = held_out[0][:0], held_out[1][:0]
    content = write_image(
        program,
        lowering.view.plan_id,
        slots,
        values,
        (data.x_train, data.y_train),
        held_out,
        RunRequest(
            model.epochs * (len(data.x_train) // model.batch),
            settings.seed,
            checkpoint_every=settings.checkpoint_every,
        ),
        sets_of(settings, program),
        settings.ring,
        kept=kept,
    )
    if board.storage is not None:
        board.storage.require_room(len(content))
    stages = stage_files(
        program,
        decided.costs,
        plan.training,
        plan.step,
        decided.step_costs,
        plan.evaluation.plan,
        plan.memory,
        slots,
        lowering.names,
        board.compute.arithmetic,
        program_tiles(program, board),
        model.weights,
        model.state_dict,
    )
    held = settings.weights_in_flash
    weights = initial_weights(lowering.names, model.weights) if held else ()
    constants = constant_values(lowering.view.flash, lowering.names, values)
    project = render_project(lowering.view, board, weights, constants).with_files(
        {
            IMAGE: content,
            "board.toml": board.path.read_bytes(),
            **stages,
            **data_record(data),
            **_features_in_c(data),
        }
    )
    return Image(board, plan, lowering.view.plan_id, *decided.budgets[memory], project)


def data_record(data: DataSet) -> Mapping[str, bytes]:
    """File `data.json` with the kind of features and the names of classes; empty without any."""
    if not data.record:
        return {}
    return {DATA: json_bytes({"schema_version": 1, **data.record})}


def _features_in_c(data: DataSet) -> Mapping[str, bytes]:
    """C files that calculate the features of sounds on the device; empty for other data."""
    settings = data.record.get("features")
    return {} if settings is None else render_features(Spectra(**settings))


def write_build(build: Build, folder: Path) -> BuildReport:
    """Write a build's projects; returns the build's report.

    With several projects, the build's own files are written first, and a run checks that the
    projects match them.

    Raises:
        OutputError: A folder is not poetfw's, or cannot be written.
    """
    report = report_build(build, folder)
    files = {folder: dict(build.beside.files)}
    for name, place in folders_of(build.images, folder).items():
        files.setdefault(place, {}).update(build.images[name].project.files)
    for place, document in _documents(report, folder).items():
        write_project(Project({**files[place], REPORT: document}), place)
    return report


def _documents(report: BuildReport, folder: Path) -> dict[Path, bytes]:
    """Content of `build.json` by folder: that of the build, and that of each program."""
    places = folders_of(report.memories, folder)
    reports = {folder: report} | {places[name]: report.of(name) for name in places}
    return {place: json_bytes(each.to_json()) for place, each in reports.items()}


def _overflow(build: Build, board: Board, error: ToolError) -> ToolError | None:
    """Error with advice if a memory was too small for the linker; None if something else failed."""
    found = _OVERFLOWED.search("\n".join(error.said))
    if found is None:
        return None
    frozen = constant_bytes(build.program) if found[1].upper() == "FLASH" else 0
    return ToolError(
        f"the firmware does not fit {board.label}: {found[1].lower()} overflows by "
        f"{int(found[2]):,} B"
        + (f", and frozen weights take {frozen:,} B of it" if frozen else ""),
        "train a smaller network, or choose a scheduler with fewer recomputes",
        said=[line for line in error.said if _OVERFLOWED.search(line)],
    )


def compile_build(
    build: Build,
    report: BuildReport,
    folder: Path,
    progress: Progress = lambda text: None,
) -> BuildReport:
    """Compile written projects for their boards and twins; returns the report with their sizes.

    Args:
        build: the build.
        report: report of the written build.
        folder: folder of the build.
        progress: called with the name of each stage as it begins.

    Raises:
        ToolError: The compiler or PlatformIO is missing or fails.
    """
    compiled = {}
    for name, place in folders_of(report.memories, folder).items():
        which = "" if name == ONLY else f" {name!r}"
        progress(f"compiling{which} with PlatformIO")
        board = build.images[name].board
        compiled[name] = _compile(build, board, report.memories[name], place)
    report = replace(report, memories=compiled).of(build.plan.step.here)
    for place, document in _documents(report, folder).items():
        replace_file(place / REPORT, document)
    return report


def _compile(build: Build, board: Board, report: ProgramReport, folder: Path) -> ProgramReport:
    require_toolchain(board)
    itself = board.own_environment
    try:
        elfs = build_environments(folder, list(dict.fromkeys([itself, *twin_environments(board)])))
    except ToolError as error:
        raise _overflow(build, board, error) or error from None
    twin = board.twins[0].machine.platformio_env if board.twins else None
    elf = elfs[itself]
    size = elf_size(elf)
    return replace(
        report,
        flash_bytes=size.flash_bytes,
        ram_bytes=size.ram_bytes,
        schedule_bytes=schedule_bytes(build) if len(build.plan.step.parts) == 1 else None,
        elf=str(elf),
        twin_elf=str(elfs[twin]) if twin else None,
    )
