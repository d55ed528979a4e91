# SPDX-License-Identifier: Apache-2.0
"""`poetfw compare`: all schedulers side by side, one board, one model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import click

from poetfw.cli import output
from poetfw.cli.command import Command
from poetfw.cli.devices import compare_on_devices
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
    parse_names,
    schedulers_option,
    solver_option,
)
from poetfw.common.option_values import DEFAULT_MODEL

if TYPE_CHECKING:
    from poetfw.comparisons.comparison import Comparison, Trial

_EPILOG = "Example:  poetfw compare --board rpi4 --model resnet18 --fractions 0.3,0.5,0.7"


def parse_numbers(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> tuple[float, ...] | None:
    """Callback of an option that takes numbers above 0 with commas between them.

    Raises:
        BadParameter: one of them is not a number above 0.
    """
    parts = parse_names(context, parameter, value)
    if parts is None:
        return None
    return tuple(Positive().convert(part, parameter, context) for part in parts)


def refuse_more_than_all(fractions: tuple[float, ...] | None) -> None:
    """Refuse budgets above what keeping everything takes: all have the same plan, with no overhead.

    Raises:
        BadParameter: one is.
    """
    for fraction in fractions or ():
        if fraction > 1:
            raise click.BadParameter(
                f"{fraction:g} is above 1: with a budget of 1 everything is kept already.",
                click.get_current_context(),
                param_hint="'--fractions'",
            )


@click.command(cls=Command, epilog=_EPILOG)
@option(
    "--board",
    group="Task",
    first=True,
    metavar="NAME|FILE.toml[:STORAGE]",
    help="The board, and which of its storages; `poetfw boards` lists what is known.",
)
@option(
    "--devices",
    group="Task",
    first=True,
    excludes=(
        "--board",
        "--ram",
        "--schedulers",
        "--deadline-factor",
        "--costs",
        "--db",
        "--solver",
        "--csv",
        "--plot",
        "--model-as",
    ),
    callback=parse_names,
    metavar="FILE.toml,...|FILE.json",
    help="Instead of a board: several devices, together and each alone, in turn and at once.",
)
@option(
    "--model",
    group="Task",
    first=True,
    default=DEFAULT_MODEL,
    show_default=True,
    metavar="NAME|FILE.pt2|FILE.onnx",
)
@option(
    "--batch",
    group="Task",
    first=True,
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Samples in a batch.",
)
@option(
    "--fractions",
    group="Budget",
    first=True,
    callback=parse_numbers,
    metavar="F,...",
    help="Budgets as fractions of what keeping everything takes beside what never leaves RAM; "
    "with --devices one for each.  [default: 0.2 to 0.9; with --devices what they have]",
)
@option(
    "--ram",
    "ram_bytes",
    group="Budget",
    first=True,
    excludes=("--fractions",),
    type=Bytes(1),
    multiple=True,
    metavar="SIZE",
    help="Instead: a budget of the arena, as `poetfw build` takes it; may be given repeatedly.",
)
@schedulers_option
@option(
    "--deadline-factor",
    group="Budget",
    first=True,
    type=Positive(),
    metavar="F",
    help="Deadline as a multiple of checkpoint-all's time.  [default: none]",
)
@cost_options
@limit_options(10.0, each=" for each scheduler at each budget", time="for each of them")
@solver_option
@option(
    "--csv",
    "csv_file",
    group="Output",
    first=True,
    type=OutputFile(),
    metavar="FILE.csv",
    help="Write every figure of every cell to this file.",
)
@option(
    "--plot",
    group="Output",
    first=True,
    type=OutputFile(".svg", ".png"),
    metavar="FILE.svg|FILE.png",
    help="Draw energy over RAM here.",
)
@model_as_option
@json_option
def compare(
    board: str | None,
    devices: tuple[str, ...] | None,
    model: str,
    batch: int,
    fractions: tuple[float, ...] | None,
    ram_bytes: tuple[int, ...],
    schedulers: tuple[str, ...] | None,
    deadline_factor: float | None,
    costs: str | None,
    db: Path | None,
    work_limit: float,
    time_limit: float,
    solver: str,
    csv_file: Path | None,
    plot: Path | None,
    model_as: str,
    as_json: bool,
) -> int:
    """Compare schedulers: what training within less RAM costs with each, in energy.

    Figures are overheads over the energy of keeping everything, by measured or analytic
    costs. Ctrl-C
    keeps the cells that are done.
    """
    from poetfw.common.output_file import replace_file
    from poetfw.comparisons.comparison import (
        BUDGET_AXIS,
        COMPARED,
        FRACTIONS,
        Comparison,
        Task,
        energy_lines,
        settle,
        to_csv,
    )
    from poetfw.planning import database_for
    from poetfw.report import Panel, draw_panels
    from poetfw.schedule import SolveOptions

    if devices is not None:
        return compare_on_devices(
            devices, model, batch, fractions, work_limit, command_deadline(time_limit), as_json
        )
    if board is None:
        raise click.UsageError("give either --board or --devices")
    refuse_more_than_all(fractions)
    names = tuple(dict.fromkeys(schedulers or COMPARED))
    task = Task(board, model, batch, model_as, database_for(board, costs, db))
    comparison = Comparison.of(task, deadline_factor)
    budgets: tuple[float | Fraction, ...] = tuple(dict.fromkeys(fractions or FRACTIONS))
    if ram_bytes and fractions is None:
        budgets = tuple(map(comparison.ways.fraction_of, dict.fromkeys(ram_bytes)))
    for warning in comparison.warnings:
        output.warn(warning)
    options = SolveOptions(solver=solver)
    cells: list[Trial] = []
    interrupted = False
    total = len(names) * len(budgets)
    with output.progress_bar() as progress:
        progress(0, total, f"{model} on {board}")
        try:
            for cell in comparison.cells(budgets, names, options, work_limit, time_limit):
                cells.append(cell)
                progress(len(cells), total, f"{cell.scheduler} at {cell.ram_fraction:g}")
        except KeyboardInterrupt:
            interrupted = True
    settled = settle(cells)
    if csv_file is not None:
        replace_file(csv_file, to_csv(settled))
    if plot is not None:
        panel = Panel(f"{model} on {board}, batch {batch}", energy_lines(settled))
        picture = draw_panels([panel], BUDGET_AXIS, "energy overhead (%)", plot.suffix[1:])
        replace_file(plot, picture)
    if as_json:
        everything = comparison.everything
        output.print_json(
            {
                "schema_version": 1,
                "board": board,
                "model": model,
                "batch": batch,
                "model_as": model_as,
                "warnings": comparison.warnings,
                "costs": comparison.costs,
                "deadline_s": comparison.ways.lean.deadline_s,
                "interrupted": interrupted,
                "checkpoint_all": {
                    "energy_j": everything.energy_j,
                    "time_s": everything.time_s,
                    "peak_bytes": everything.peak_bytes,
                },
                "cells": [cell.to_json() for cell in settled],
            }
        )
    else:
        _print(comparison, settled)
    if interrupted:
        output.messages.print(f"interrupted after {len(cells)} of {total} cells")
        return 130
    return 0


def _print(comparison: Comparison, cells: Sequence[Trial]) -> None:
    task, everything = comparison.task, comparison.everything
    print_overheads(
        f"{task.model} on {task.board}, batch {task.batch}: energy over that of checkpoint-all, "
        "by budget and its share of what keeping everything takes beside "
        f"{output.size(comparison.ways.lean.resident_bytes)} that never leave RAM",
        cells,
    )
    output.results.print(
        f"100% is {output.size(everything.peak_bytes)} and {everything.energy_j:.6g} J, "
        f"{everything.time_s:.6g} s; costs: {output.escaped(comparison.costs)}"
    )


def print_overheads(title: str, cells: Sequence[Trial]) -> None:
    """Print the energy overhead of each scheduler at each budget; below, why some have none."""
    fractions = list(dict.fromkeys(cell.ram_fraction for cell in cells))
    by_scheduler: dict[str, dict[float, Trial]] = {}
    for cell in cells:
        by_scheduler.setdefault(cell.scheduler, {})[cell.ram_fraction] = cell
    rows = [
        [name, *(_overhead(row.get(fraction)) for fraction in fractions)]
        for name, row in by_scheduler.items()
    ]
    columns = ["scheduler", *(_budget(cells, fraction) for fraction in fractions)]
    least = [_least_energy(cells, fraction) for fraction in fractions]
    if len({_task(cell) for cell in cells}) == 1:
        rows.append(["least energy of a step", *least])
    output.results.print(output.table(title, columns, rows))
    limited = sum(cell.time_limited for cell in cells)
    if limited:
        output.results.print(
            f"The time limit ended the search of {limited} of {len(cells)} cells: another run may "
            "give other plans; raise --time-limit"
        )
    for line in _reasons(cells):
        output.results.print(output.escaped(line))


def _task(cell: Trial) -> tuple[object, ...]:
    return cell.board, cell.model, cell.batch, cell.deadline_factor


def _budget(cells: Sequence[Trial], fraction: float) -> str:
    """A column's budget: its share, and its bytes where they are those of all cells."""
    sizes = {cell.ram_bytes for cell in cells if cell.ram_fraction == fraction}
    share = f"{100 * fraction:.4g}%"
    return f"{share}, {output.size(*sizes)}" if len(sizes) == 1 else share


def _least_energy(cells: Sequence[Trial], fraction: float) -> str:
    energies = [
        cell.answer.energy_j
        for cell in cells
        if cell.ram_fraction == fraction and cell.answer is not None
    ]
    return f"{min(energies) * 1e3:.3f} mJ" if energies else "-"


def _overhead(cell: Trial | None) -> str:
    return "-" if cell is None or cell.overhead is None else f"{100 * cell.overhead:.3f}%"


def _reasons(cells: Iterable[Trial]) -> list[str]:
    """Reasons why schedulers have no plan, each for the largest budget tried."""
    reasons = {cell.scheduler: cell for cell in cells if cell.reason}
    return [f"-  {name} at {cell.ram_fraction:g}: {cell.reason}" for name, cell in reasons.items()]
