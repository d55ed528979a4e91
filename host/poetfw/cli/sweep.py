# SPDX-License-Identifier: Apache-2.0
"""`poetfw sweep`: all schedulers over boards x models x deadlines x budgets."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from poetfw.cli import output
from poetfw.cli.command import command
from poetfw.cli.compare import print_overheads, refuse_more_than_all
from poetfw.settings import (
    CellLimits,
    CostSettings,
    Printed,
    Schedulers,
    Settings,
    Solver,
    like,
    setting,
)
from poetfw.settings.schedule import Figures, GridSettings
from poetfw.settings.values import File, Folder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from poetfw.comparisons.comparison import Trial


@dataclass(frozen=True)
class Processes(Settings):
    """Worker processes of a sweep; None for one per processor of this computer."""

    jobs: int | None = setting(
        "Worker processes.", otherwise="one per processor", type=click.IntRange(1)
    )
    dask: str | None = setting("Run on this Dask cluster instead.", metavar="ADDRESS")


@dataclass(frozen=True)
class SweepFiles(Printed):
    """Result files of a sweep."""

    out: Path = setting(
        "Results, a JSON line per point; points already in the file are not computed again.",
        Path("sweep.jsonl"),
        type=File(),
        metavar="FILE",
        own=True,
        first=True,
    )
    csv: Path | None = like(Figures, "csv")
    plots: Path | None = setting(
        "Plot energy over RAM, over deadlines, and against Capuchin's into this folder.",
        type=Folder(),
        metavar="DIR",
        first=True,
    )
    plot_format: str = setting(
        "Format of plots.", "svg", type=click.Choice(["svg", "png"]), group="Options"
    )


@command(
    "Example:  poetfw sweep --boards nrf52840,rpi4 --models resnet18,vgg16 --deadlines none,1.5 "
    "--out sweep.jsonl --plots plots"
)
def sweep(
    over: GridSettings,
    by: Schedulers,
    costs: CostSettings,
    limits: CellLimits,
    solver: Solver,
    processes: Processes,
    files: SweepFiles,
) -> int:
    """Compare schedulers over a grid of boards, models, deadlines and budgets.

    Points are computed in parallel. After an interruption, the same command continues where it
    stopped. Costs are measured where a board has measurements, else analytic.
    """
    from poetfw.api.searches import grid_of
    from poetfw.common.errors import OutputError
    from poetfw.common.output_file import check_output_file, replace_file
    from poetfw.comparisons.comparison import to_csv
    from poetfw.comparisons.sweep import (
        Results,
        dask_cluster,
        draw_plots,
        finished,
        local_processes,
        run_sweep,
    )

    refuse_more_than_all(over.fractions)
    plots = files.plots
    grid = grid_of(over, by, costs, limits, solver)
    warnings = grid.check()
    for name, said in warnings.items():
        for warning in said:
            output.warn(f"{name}: {warning}")
    results = Results(files.out, grid)
    if plots is not None:
        try:
            plots.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"{plots} cannot be made: {error.strerror}") from error
        check_output_file(plots / f"energy.{files.plot_format}")
    total, done = len(grid.points()), len(results.cells)
    interrupted = False
    with output.progress_bar() as progress:
        progress(done, total, "points")
        try:
            if done < total:
                jobs = processes.jobs or os.cpu_count() or 1
                workers = dask_cluster(processes.dask) if processes.dask else local_processes(jobs)
                with workers as executor:
                    for point in run_sweep(grid, results, executor):
                        done += 1
                        progress(done, total, f"{point.task.model} on {point.task.board}")
        except KeyboardInterrupt:
            interrupted = True
    cells = finished(grid, results)
    if files.csv is not None:
        replace_file(files.csv, to_csv(cells))
    if plots is not None:
        for name, picture in draw_plots(cells, files.plot_format).items():
            replace_file(plots / name, picture)
    if files.as_json:
        output.print_json(
            {
                "schema_version": 1,
                "warnings": warnings,
                "costs": dict(zip(over.boards, map(_basis, grid.databases), strict=True)),
                "points": total,
                "finished": done,
                "interrupted": interrupted,
                "cells": [cell.to_json() for cell in cells],
            }
        )
    else:
        _print(cells)
    if interrupted:
        kept = output.escaped(str(files.out))
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
