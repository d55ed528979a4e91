# SPDX-License-Identifier: Apache-2.0
"""`poetfw schedule`: solve, or replay, a schedule without building anything."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from poetfw.cli import output
from poetfw.cli.command import Command
from poetfw.cli.devices import schedule_devices
from poetfw.cli.options import (
    Bytes,
    OutputFile,
    Positive,
    command_deadline,
    cost_options,
    json_option,
    limit_options,
    model_as_option,
    option,
    parse_fractions,
    parse_names,
    scheduler_option,
    solver_option,
    verbose_option,
)
from poetfw.common.errors import ProblemError
from poetfw.common.limits import Deadline, Work
from poetfw.common.reading import read_bytes

if TYPE_CHECKING:
    from poetfw.planning import Room, Ways
    from poetfw.schedule import Schedule, ScheduleProblem, Simulation

_EPILOG = "Example:  poetfw schedule --problem examples/chain.json --ram-fraction 0.5 --json"


def _read(path: Path) -> bytes:
    try:
        return read_bytes(path)
    except OSError as error:
        raise ProblemError(f"{path} cannot be read: {error.strerror}") from error


@click.command(cls=Command, epilog=_EPILOG)
@option(
    "--problem",
    group="Problem",
    first=True,
    excludes=("--board", "--model", "--batch", "--costs", "--db"),
    type=click.Path(path_type=Path),
    metavar="FILE.json",
    help="A problem.",
)
@option(
    "--board",
    group="Problem",
    first=True,
    metavar="NAME|FILE.toml",
    help="Instead of a problem: a board …",
)
@option(
    "--model",
    group="Problem",
    first=True,
    metavar="NAME|FILE.pt2|FILE.onnx",
    help="… and a model.",
)
@option(
    "--batch",
    group="Problem",
    first=True,
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Samples in a batch.",
)
@scheduler_option
@option(
    "--ram",
    group="Budget",
    first=True,
    excludes=("--ram-fraction",),
    type=Bytes(0),
    metavar="SIZE",
    help="Budget: what the arena may occupy, as in a build.  [default: the problem's]",
)
@option(
    "--ram-fraction",
    group="Budget",
    first=True,
    callback=parse_fractions,
    metavar="F[,F]",
    help="Budget as a fraction of what keeping everything takes beside what never leaves RAM; "
    "one for each of --devices.",
)
@option(
    "--devices",
    group="Several devices",
    first=True,
    excludes=("--problem", "--board", "--scheduler", "--ram", "--costs", "--db", "--model-as"),
    callback=parse_names,
    metavar="FILE.toml,...|FILE.json",
    help="Instead of a board: several devices for the model, or a problem with its devices.",
)
@option(
    "--minimise",
    group="Several devices",
    type=click.Choice(["time", "energy"]),
    default="time",
    show_default=True,
    help="With --devices: what a step shall take little of.",
)
@option(
    "--parallel",
    group="Several devices",
    needs=("--devices",),
    is_flag=True,
    help="With --devices: let them work at once.",
)
@option(
    "--plot",
    group="Several devices",
    needs=("--devices",),
    type=OutputFile(".svg", ".png"),
    metavar="FILE.svg|FILE.png",
    help="With --devices: draw who computes what when.",
)
@option(
    "--deadline",
    group="Budget",
    first=True,
    type=Positive(),
    metavar="SECONDS",
    help="Upper bound on one training step.",
)
@cost_options
@limit_options()
@solver_option
@option(
    "--replay",
    group="Output",
    first=True,
    type=click.Path(path_type=Path),
    metavar="ANSWER.json",
    help="Do not solve: run the simulator on the plan of this answer.",
)
@option(
    "--export",
    group="Output",
    first=True,
    excludes=("--replay", "--json", "--plot"),
    type=OutputFile(),
    metavar="FILE.json",
    help="Do not solve: write the problem to this file, for --problem.",
)
@model_as_option
@verbose_option
@json_option
def schedule(
    problem: Path | None,
    board: str | None,
    model: str | None,
    batch: int,
    scheduler: str,
    ram: int | None,
    ram_fraction: tuple[float, ...] | None,
    devices: tuple[str, ...] | None,
    minimise: str,
    parallel: bool,
    plot: Path | None,
    deadline: float | None,
    costs: str | None,
    db: Path | None,
    work_limit: float,
    time_limit: float,
    solver: str,
    replay: Path | None,
    export: Path | None,
    model_as: str,
    verbose: bool,
    as_json: bool,
) -> int:
    """Find the schedule of a problem, or of a model on a board.

    The answer holds every figure and the execution plan. With --replay the simulator alone judges
    a plan, wherever it comes from.
    """
    from poetfw.common.output_file import replace_file
    from poetfw.planning import (
        BuildSettings,
        Ways,
        costs_from,
        database_for,
        load_room,
        modelled_as,
        solve_ways,
    )
    from poetfw.report import json_bytes
    from poetfw.schedule import (
        Interrupted,
        SolveOptions,
        functions_from_json,
        plan_from_json,
        problem_from_json,
        problem_to_json,
        schedule_to_json,
        simulate,
    )

    end = command_deadline(time_limit)
    if devices is not None:
        work = Work(work_limit, end)
        return schedule_devices(
            devices,
            model,
            batch,
            ram_fraction,
            deadline,
            minimise,
            solver,
            work,
            replay,
            export,
            parallel,
            plot,
            as_json,
        )
    if ram_fraction is not None and len(ram_fraction) != 1:
        raise click.UsageError("--ram-fraction takes several values with --devices only")
    if problem is None and (board is None or model is None):
        raise click.UsageError("give either --problem, or --board and --model")
    room: Room | None = None
    if problem is not None:
        task = problem_from_json(_read(problem), str(problem))
        ways = Ways(task, task)
    else:
        assert board is not None
        assert model is not None
        room, ways = load_room(
            BuildSettings(board=board, model=model, batch=batch),
            output.warn,
            costs_from(database_for(board, costs, db)),
            end,
        )
    ways = _limited(
        modelled_as(ways, model_as), ram, ram_fraction[0] if ram_fraction else None, deadline
    )
    task = ways.lean
    if export is not None:
        replace_file(export, json_bytes(problem_to_json(task)))
        output.messages.print(f"wrote {output.escaped(str(export))}")
        return 0
    if replay is not None:
        text = _read(replay)
        plan = plan_from_json(text, str(replay))
        if room is not None:
            task = ways.by(room.with_functions(functions_from_json(text, str(replay))))
        _print_simulation(task, simulate(task, plan).beside(task.resident_bytes), as_json)
        return 0
    if room is not None and ram is None and ram_fraction is None:
        ways = ways.within(room.board.unreserved_bytes)
    options = SolveOptions(solver=solver)
    code = 0
    with output.spinner() as progress:
        progress(f"{scheduler}: {task.name}, {len(task.nodes)} nodes")
        tell = output.search_log(progress, end)
        try:
            answer = solve_ways(ways, scheduler, options, work=Work(work_limit, end), tell=tell)
        except Interrupted as interrupted:
            answer, code = interrupted.schedule, 130
    answer = answer.beside(task.resident_bytes)
    if as_json:
        limits = {"ram_bytes": task.budget_bytes, "deadline_s": task.deadline_s}
        of_model = {} if room is None else _sources_and_kernels(room, answer)
        output.print_json(schedule_to_json(answer) | limits | of_model | output.spent_json(end))
    else:
        _print(task, answer, end, room, verbose)
    return code


def _limited(
    ways: Ways,
    ram_bytes: int | None,
    ram_fraction: float | None,
    deadline_s: float | None,
) -> Ways:
    """The problem with the budget and deadline that were asked for."""
    if ram_fraction is not None:
        ram_bytes = ways.budget_bytes(ram_fraction)
    if ram_bytes is not None:
        ways = ways.within(ram_bytes)
    if deadline_s is not None:
        ways = ways.mapped(lambda problem: replace(problem, deadline_s=deadline_s))
    return ways


def _sources_and_kernels(room: Room, answer: Schedule) -> dict[str, Any]:
    return {
        "cost_sources": room.table_with(answer.faster).sources,
        "kernels": room.kernels(answer.faster),
    }


def _print(
    problem: ScheduleProblem, answer: Schedule, end: Deadline, room: Room | None, verbose: bool
) -> None:
    of_model: list[output.Detail] = []
    if room is not None:
        counts = Counter(by.value for by in room.chosen_by(answer.faster).values())
        costs = ("costs", room.table_with(answer.faster).summary)
        of_model = output.details([costs, *output.kernels_rows(counts)])
    rows = [
        ("budget", output.size(problem.budget_bytes)),
        ("peak", output.size(answer.peak_bytes)),
        *output.proven_rows(answer),
        *of_model,
        ("energy", f"{answer.energy_j:.6g} J"),
        output.Detail("… of it paging", f"{answer.paging_energy_j:.6g} J"),
        ("time", f"{answer.time_s:.6g} s"),
        ("recomputes", f"{answer.recomputes}"),
        ("page-outs, page-ins", f"{answer.page_outs}, {answer.page_ins}"),
        *output.spent_rows(end),
    ]
    output.results.print(output.facts(f"{answer.scheduler}: {problem.name}", rows, verbose=verbose))


def _print_simulation(problem: ScheduleProblem, simulation: Simulation, as_json: bool) -> None:
    from poetfw.schedule import PlanFigures

    if as_json:
        figures = asdict(PlanFigures.of(simulation))
        output.print_json({"schema_version": 1, "legal": True, **figures})
        return
    rows = [
        ("budget", output.size(problem.budget_bytes)),
        ("peak", output.size(simulation.peak_bytes)),
        ("energy", f"{simulation.energy_j:.6g} J"),
        ("… of it paging", f"{simulation.paging_energy_j:.6g} J"),
        ("time", f"{simulation.time_s:.6g} s"),
        ("recomputes", f"{simulation.recomputes}"),
        ("page-outs, page-ins", f"{simulation.page_outs}, {simulation.page_ins}"),
    ]
    output.results.print(output.facts(f"legal plan of {problem.name}", rows))
