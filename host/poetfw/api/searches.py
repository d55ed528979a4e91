# SPDX-License-Identifier: Apache-2.0
"""Searches without firmware: `poetfw.schedule` for one problem, `poetfw.sweep` for a grid."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from poetfw.api.answers import read_file
from poetfw.api.html_table import html_table
from poetfw.api.options import SCHEDULE, SWEEP, settings_of
from poetfw.common.errors import ConfigError, ToolError
from poetfw.common.limits import Deadline, Work
from poetfw.common.temporary import temporary_directory
from poetfw.comparisons.comparison import COMPARED, FRACTIONS, Trial
from poetfw.comparisons.sweep import (
    Grid,
    Results,
    SweepPoint,
    digest_of,
    finished,
    local_processes,
    run_point,
    run_sweep,
)
from poetfw.planning import TrainingProblem, database_for
from poetfw.schedule import Schedule, ScheduleProblem, SolveOptions, problem_from_json, solve
from poetfw.settings import CellLimits, CostSettings, Schedulers, Solver
from poetfw.settings.schedule import GridSettings

if TYPE_CHECKING:
    from poetfw.api.keywords import ScheduleOptions, SweepOptions


def schedule(
    problem: ScheduleProblem | Mapping[str, Any] | str | os.PathLike[str],
    *,
    ram: int | str | None = None,
    **options: Unpack[ScheduleOptions],
) -> Schedule:
    """Find a schedule of recomputation and paging for a problem.

    Args:
        problem: the problem, its JSON document, or the path of a file with one.
        ram: budget of the arena in bytes, or a text such as "200K"; None for the problem's.
        options: options of `poetfw schedule`, with underscores.

    Raises:
        PoetfwError: An option or the problem is invalid, or no plan meets budget and deadline.
        KeyboardInterrupt: Ctrl-C cancelled the search; if it had found a schedule, that is the
            exception's attribute `schedule`.
    """
    by, budget, limits, solver = settings_of(SCHEDULE, {**options, "ram": ram})
    if isinstance(problem, Mapping):
        problem = problem_from_json(json.dumps(problem))
    elif not isinstance(problem, ScheduleProblem):
        path = Path(problem)
        problem = problem_from_json(read_file(path), str(path))
    limited = limited_problem(
        TrainingProblem(problem).modelled_as(solver.model_as),
        budget.ram_bytes,
        budget.ram_fraction,
        budget.deadline_s,
    )
    work = Work(limits.work_limit, Deadline(limits.time_limit_s))
    return solve(limited, by.scheduler, SolveOptions(solver=solver.solver), work=work)


def limited_problem(
    training: TrainingProblem,
    ram_bytes: int | None,
    ram_fraction: Sequence[float] | None,
    deadline_s: float | None,
) -> ScheduleProblem:
    """Problem with the requested budget and deadline.

    Raises:
        ConfigError: Several fractions are given.
        InfeasibleError: The budget is too small.
    """
    if deadline_s is not None:
        training = training.before(deadline_s)
    if ram_fraction is not None:
        if len(ram_fraction) != 1:
            raise ConfigError("--ram-fraction takes several values with --devices or --pareto only")
        ram_bytes = training.budget_bytes(*ram_fraction)
    return training.problem if ram_bytes is None else training.within(ram_bytes)


@dataclass(frozen=True)
class SweepTable(Sequence[Trial]):
    """Table of a sweep: a cell for each scheduler at each point of the grid.

    Attributes:
        cells: the cells, in the order of the grid.
    """

    cells: tuple[Trial, ...]

    def __getitem__(self, index: Any) -> Any:
        return self.cells[index]

    def __len__(self) -> int:
        return len(self.cells)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Figures of each cell by name, as in the columns of `poetfw sweep --csv`."""
        return [cell.to_json() for cell in self.cells]

    def to_dataframe(self) -> Any:
        """A pandas DataFrame of the rows.

        Raises:
            ToolError: pandas is not installed.
        """
        try:
            import pandas
        except ImportError as error:
            raise ToolError(
                "a DataFrame needs pandas, which is not installed",
                "pip install pandas",
                "or use `rows`, a list of dictionaries",
            ) from error
        return pandas.DataFrame(self.rows)

    def _repr_html_(self) -> str:
        names = ("board", "model", "deadline_factor", "ram_fraction", "scheduler", "status")
        heads = (*names, "ram_bytes", "overhead")
        rows = [[getattr(cell, name) for name in heads] for cell in self.cells]
        return html_table(heads, rows)


def sweep(
    models: str | Sequence[str],
    *,
    boards: str | Sequence[str],
    out: str | os.PathLike[str] | None = None,
    jobs: int = 1,
    progress: Callable[[int, int, str], object] = lambda done, total, text: None,
    **options: Unpack[SweepOptions],
) -> SweepTable:
    """Compare schedulers over a grid of boards, models, deadlines and budgets.

    Args:
        models: models to cover: names, or `.pt2` or `.onnx` files.
        boards: boards to cover.
        out: file of results: points that are in it are not computed again. None for no file.
        jobs: worker processes. With more than one, a script needs `if __name__ == "__main__":`.
        progress: called with the number of points done, that of all, and a description.
        options: options of `poetfw sweep`, with underscores.

    Raises:
        PoetfwError: An option, a board, a model or the file of results is invalid.
        KeyboardInterrupt: Ctrl-C cancelled the sweep; `out` keeps what was computed.
    """
    grid = grid_of(*settings_of(SWEEP, {**options, "models": models, "boards": boards}))
    grid.check()
    total = len(grid.points())
    with temporary_directory("poetfw-") as folder:
        results = Results(Path(folder, "sweep.jsonl") if out is None else Path(out), grid)
        done = len(results.cells)
        progress(done, total, "points")
        for point in _computed(grid, results, jobs):
            done += 1
            progress(done, total, f"{point.task.model} on {point.task.board}")
        return SweepTable(finished(grid, results))


def _computed(grid: Grid, results: Results, jobs: int) -> Iterator[SweepPoint]:
    """Compute the points that have no result yet, here or in several processes."""
    if jobs > 1:
        with local_processes(jobs) as executor:
            yield from run_sweep(grid, results, executor)
        return
    for point in grid.points():
        if point not in results.cells:
            results.add(point, run_point(point, grid))
            yield point


def grid_of(
    over: GridSettings, by: Schedulers, costs: CostSettings, limits: CellLimits, solver: Solver
) -> Grid:
    """Grid of a sweep by models of settings.

    Raises:
        ConfigError: A fraction is above 1.
        CostsError: The database of measured costs cannot be read.
    """
    for fraction in over.fractions or ():
        if fraction > 1:
            raise ConfigError(
                f"fractions: {fraction:g} is above 1: with a budget of 1 everything is kept already"
            )
    databases = tuple(database_for(board, costs.costs, costs.db) for board in over.boards)
    return Grid(
        boards=over.boards,
        models=over.models,
        deadline_factors=over.deadlines,
        fractions=tuple(sorted(over.fractions or FRACTIONS)),
        schedulers=by.schedulers or COMPARED,
        batch=over.batch,
        model_as=solver.model_as,
        solver=solver.solver,
        work_limit=limits.work_limit,
        time_limit_s=limits.time_limit_s,
        databases=databases,
        measurements=digest_of(databases),
    )
