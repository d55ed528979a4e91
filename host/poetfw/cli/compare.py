# SPDX-License-Identifier: Apache-2.0
"""`poetfw compare`: energy of all schedulers for one model on one board."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import click

from poetfw.cli import output
from poetfw.cli.command import command
from poetfw.cli.devices import compare_on_devices
from poetfw.settings import CellLimits, CostSettings, Schedulers, Solver
from poetfw.settings.schedule import Budgets, Compared, Figures

if TYPE_CHECKING:
    from poetfw.comparisons.comparison import Comparison, Trial


def refuse_more_than_all(fractions: tuple[float, ...] | None, flag: str = "'--fractions'") -> None:
    """Refuse budgets above 1: keeping everything then fits, and all schedulers give the same plan.

    Args:
        fractions: budgets; None for the defaults.
        flag: option that sets them, for the message.

    Raises:
        BadParameter: A fraction is above 1.
    """
    for fraction in fractions or ():
        if fraction > 1:
            raise click.BadParameter(
                f"{fraction:g} is above 1: with a budget of 1 everything is kept already.",
                click.get_current_context(),
                param_hint=flag,
            )


@command("Example:  poetfw compare --board rpi4 --model resnet18 --fractions 0.3,0.5,0.7")
def compare(
    of: Compared,
    within: Budgets,
    by: Schedulers,
    costs: CostSettings,
    limits: CellLimits,
    solver: Solver,
    figures: Figures,
) -> int:
    """Compare the energy that schedulers need to train within less RAM.

    Figures are overheads over the energy of keeping everything, by measured or analytic costs.
    Ctrl-C keeps the finished cells.
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

    if of.devices is not None:
        return compare_on_devices(of, within.fractions, limits, figures.as_json)
    board = of.board or ""
    refuse_more_than_all(within.fractions)
    names = tuple(dict.fromkeys(by.schedulers or COMPARED))
    database = database_for(board, costs.costs, costs.db)
    task = Task(board, of.model, of.batch, solver.model_as, database)
    comparison = Comparison.of(task, within.deadline_factor)
    budgets: tuple[float | Fraction, ...] = tuple(dict.fromkeys(within.fractions or FRACTIONS))
    if within.ram_bytes and within.fractions is None:
        budgets = tuple(map(comparison.training.fraction_of, dict.fromkeys(within.ram_bytes)))
    for warning in comparison.warnings:
        output.warn(warning)
    options = SolveOptions(solver=solver.solver)
    cells: list[Trial] = []
    interrupted = False
    total = len(names) * len(budgets)
    with output.progress_bar() as progress:
        progress(0, total, f"{of.model} on {board}")
        try:
            for cell in comparison.cells(
                budgets, names, options, limits.work_limit, limits.time_limit_s
            ):
                cells.append(cell)
                progress(len(cells), total, f"{cell.scheduler} at {cell.ram_fraction:g}")
        except KeyboardInterrupt:
            interrupted = True
    settled = settle(cells)
    if figures.csv is not None:
        replace_file(figures.csv, to_csv(settled))
    if figures.plot is not None:
        panel = Panel(f"{of.model} on {board}, batch {of.batch}", energy_lines(settled))
        picture = draw_panels([panel], BUDGET_AXIS, "energy overhead (%)", figures.plot.suffix[1:])
        replace_file(figures.plot, picture)
    if figures.as_json:
        everything = comparison.everything
        output.print_json(
            {
                "schema_version": 1,
                "board": board,
                "model": of.model,
                "batch": of.batch,
                "model_as": solver.model_as,
                "warnings": comparison.warnings,
                "costs": comparison.costs,
                "deadline_s": comparison.training.problem.deadline_s,
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
        f"{output.size(comparison.training.problem.resident_bytes)} that never leave RAM",
        cells,
    )
    output.results.print(
        f"100% is {output.size(everything.peak_bytes)} and {everything.energy_j:.6g} J, "
        f"{everything.time_s:.6g} s; costs: {output.escaped(comparison.costs)}"
    )


def print_overheads(title: str, cells: Sequence[Trial]) -> None:
    """Print each scheduler's energy overhead at each budget, and why some have no plan."""
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
    """Column heading of a budget: its fraction, and its bytes if the same in all cells."""
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
    """Reason why a scheduler has no plan, for the largest such budget."""
    reasons = {cell.scheduler: cell for cell in cells if cell.reason}
    return [f"-  {name} at {cell.ram_fraction:g}: {cell.reason}" for name, cell in reasons.items()]
