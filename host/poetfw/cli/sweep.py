# SPDX-License-Identifier: Apache-2.0
"""`poetfw sweep`: all schedulers over boards x models x deadlines x budgets."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from poetfw.cli import output
from poetfw.cli.command import Command
from poetfw.cli.compare import parse_numbers, print_overheads, refuse_more_than_all
from poetfw.cli.options import (
    Folder,
    OutputFile,
    Positive,
    cost_options,
    json_option,
    limit_options,
    model_as_option,
    option,
    parse_names,
    schedulers_option,
    solver_option,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from poetfw.comparisons.comparison import Trial

_EPILOG = (
    "Example:  poetfw sweep --boards nrf52840,rpi4 --models resnet18,vgg16 "
    "--deadlines none,1.5 --out sweep.jsonl --plots plots"
)


def parse_deadlines(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> tuple[float | None, ...]:
    """Callback of an option that takes numbers above 0, or `none`, with commas between them."""
    return tuple(
        None if part == "none" else Positive().convert(part, parameter, context)
        for part in parse_names(context, parameter, value) or ("none",)
    )


@click.command(cls=Command, epilog=_EPILOG)
@option(
    "--boards",
    group="Task",
    first=True,
    required=True,
    callback=parse_names,
    metavar="NAME,...",
    help="Which boards.",
)
@option(
    "--models",
    group="Task",
    first=True,
    required=True,
    callback=parse_names,
    metavar="NAME,...",
    help="Which models.",
)
@option(
    "--fractions",
    group="Task",
    first=True,
    callback=parse_numbers,
    metavar="F,...",
    help="Budgets as fractions of what keeping everything takes beside what never leaves RAM.  "
    "[default: 0.2 to 0.9]",
)
@option(
    "--deadlines",
    group="Task",
    first=True,
    callback=parse_deadlines,
    metavar="F,...",
    help="Deadlines as multiples of checkpoint-all's time, or none.  [default: none]",
)
@schedulers_option
@option("--batch", type=click.IntRange(1), default=1, show_default=True, help="Samples in a batch.")
@cost_options
@limit_options(10.0, each=" for each scheduler at each point", time="for each of them")
@solver_option
@option(
    "--out",
    group="Output",
    first=True,
    command="sweep",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("sweep.jsonl"),
    show_default=True,
    metavar="FILE",
    help="Results, a JSON line per point; what is in it already is not computed again.",
)
@option("--jobs", type=click.IntRange(1), help="Processes.  [default: one per processor]")
@option("--dask", metavar="ADDRESS", help="Run on this Dask cluster instead.")
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
    "--plots",
    group="Output",
    first=True,
    type=Folder(),
    metavar="DIR",
    help="Draw energy over RAM, over deadlines, and against Capuchin's into this folder.",
)
@option(
    "--plot-format",
    type=click.Choice(["svg", "png"]),
    default="svg",
    show_default=True,
    help="How plots are written.",
)
@model_as_option
@json_option
def sweep(
    boards: tuple[str, ...],
    models: tuple[str, ...],
    fractions: tuple[float, ...] | None,
    deadlines: tuple[float | None, ...],
    schedulers: tuple[str, ...] | None,
    batch: int,
    costs: str | None,
    db: Path | None,
    work_limit: float,
    time_limit: float,
    solver: str,
    out: Path,
    jobs: int | None,
    dask: str | None,
    csv_file: Path | None,
    plots: Path | None,
    plot_format: str,
    model_as: str,
    as_json: bool,
) -> int:
    """Compare schedulers over a grid of boards, models, deadlines and budgets.

    Points are worked on in parallel. Stopped, by Ctrl-C or by a power cut, the same command goes
    on where it was. Costs are measured ones where there are any of a
    board, else analytic.
    """
    from poetfw.common.errors import OutputError
    from poetfw.common.output_file import check_output_file, replace_file
    from poetfw.comparisons.comparison import COMPARED, FRACTIONS, to_csv
    from poetfw.comparisons.sweep import (
        Grid,
        Results,
        dask_cluster,
        digest_of,
        draw_plots,
        finished,
        local_processes,
        run_sweep,
    )
    from poetfw.planning import database_for

    refuse_more_than_all(fractions)
    databases = tuple(database_for(board, costs, db) for board in boards)
    grid = Grid(
        boards=boards,
        models=models,
        deadline_factors=deadlines,
        fractions=tuple(sorted(fractions or FRACTIONS)),
        schedulers=schedulers or COMPARED,
        batch=batch,
        model_as=model_as,
        solver=solver,
        work_limit=work_limit,
        time_limit_s=time_limit,
        databases=databases,
        measurements=digest_of(databases),
    )
    warnings = grid.check()
    for name, said in warnings.items():
        for warning in said:
            output.warn(f"{name}: {warning}")
    results = Results(out, grid)
    if plots is not None:
        try:
            plots.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"{plots} cannot be made: {error.strerror}") from error
        check_output_file(plots / f"energy.{plot_format}")
    total, done = len(grid.points()), len(results.cells)
    interrupted = False
    with output.progress_bar() as progress:
        progress(done, total, "points")
        try:
            if done < total:
                workers = (
                    dask_cluster(dask) if dask else local_processes(jobs or os.cpu_count() or 1)
                )
                with workers as executor:
                    for point in run_sweep(grid, results, executor):
                        done += 1
                        progress(done, total, f"{point.task.model} on {point.task.board}")
        except KeyboardInterrupt:
            interrupted = True
    cells = finished(grid, results)
    if csv_file is not None:
        replace_file(csv_file, to_csv(cells))
    if plots is not None:
        for name, picture in draw_plots(cells, plot_format).items():
            replace_file(plots / name, picture)
    if as_json:
        output.print_json(
            {
                "schema_version": 1,
                "warnings": warnings,
                "costs": dict(zip(boards, map(_basis, databases), strict=True)),
                "points": total,
                "finished": done,
                "interrupted": interrupted,
                "cells": [cell.to_json() for cell in cells],
            }
        )
    else:
        _print(cells)
    if interrupted:
        kept = output.escaped(str(out))
        output.messages.print(f"interrupted after {done} of {total} points; {kept} keeps them")
        return 130
    return 0


def _basis(db: str | None) -> str:
    return "analytic" if db is None else "measured"


def _print(cells: Sequence[Trial]) -> None:
    groups: dict[tuple[str, str, str | None, float | None], list[Trial]] = {}
    for cell in cells:
        groups.setdefault((cell.board, cell.model, cell.db, cell.deadline_factor), []).append(cell)
    for (board, model, db, factor), group in groups.items():
        within = "" if factor is None else f", within {factor:g} x the time"
        title = f"{model} on {board}: energy over that of checkpoint-all{within} ({_basis(db)})"
        print_overheads(title, group)
