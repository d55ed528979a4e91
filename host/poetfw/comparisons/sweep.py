# SPDX-License-Identifier: Apache-2.0
"""Comparison of schedulers over a grid of boards, models, deadlines and budgets, in parallel.

The points of the grid are independent, and the result of each is one line of the results file. So
a stopped sweep resumes where it ended, and several processes or a Dask cluster can share it;
`settle` carries plans from budget to budget afterwards.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import multiprocessing
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from poetfw.boards import load_board
from poetfw.common.errors import ConfigError, DeviceError, OutputError, ProblemError, ToolError
from poetfw.common.reading import parse_json, read_bytes
from poetfw.comparisons.comparison import (
    BUDGET_AXIS,
    Comparison,
    Task,
    Trial,
    check_schedulers,
    energy_line,
    energy_lines,
    settle,
)
from poetfw.costs import Database, to_json
from poetfw.planning import BuildSettings, load_model
from poetfw.report import Panel, draw_panels
from poetfw.schedule import SolveOptions
from poetfw.training import AS_FILED

SCHEMA_VERSION = 5
_LARGEST_FILE_BYTES = 1 << 28
_ABLATION = {
    "poet-remat-off": "paging only",
    "poet-paging-off": "remat only",
    "poet": "both",
}


@dataclass(frozen=True)
class SweepPoint:
    """One budget of one task at one deadline.

    Attributes:
        task: what is scheduled.
        deadline_factor: deadline as a multiple of checkpoint-all's time; None for none.
        ram_fraction: the budget, as `TrainingProblem.budget_bytes` takes it.
    """

    task: Task
    deadline_factor: float | None
    ram_fraction: float


@dataclass(frozen=True)
class Grid:
    """The points of a sweep. Two sweeps are the same if their grids are equal.

    Attributes:
        boards, models, deadline_factors, fractions: axes of the grid.
        schedulers: schedulers to compare at each point.
        batch, model_as: settings of each task.
        solver, work_limit, time_limit_s: solver and limits of each solve.
        databases: database of measured costs by board, None for the analytic model.
        measurements: digest of the databases' content.
    """

    boards: tuple[str, ...]
    models: tuple[str, ...]
    deadline_factors: tuple[float | None, ...]
    fractions: tuple[float, ...]
    schedulers: tuple[str, ...]
    batch: int
    model_as: str
    solver: str
    work_limit: float
    time_limit_s: float
    databases: tuple[str | None, ...] = ()
    measurements: str = ""

    def points(self) -> tuple[SweepPoint, ...]:
        """All points, in the order of the axes."""
        product = itertools.product(self.boards, self.models, self.deadline_factors, self.fractions)
        of_board = dict(zip(self.boards, self.databases, strict=False))
        return tuple(
            dict.fromkeys(
                SweepPoint(
                    Task(board, model, self.batch, self.model_as, of_board.get(board)),
                    factor,
                    fraction,
                )
                for board, model, factor, fraction in product
            )
        )

    def check(self) -> Mapping[str, tuple[str, ...]]:
        """Check that boards, models and schedulers exist before the sweep begins.

        Returns:
            Warnings by model, for models with warnings.

        Raises:
            PoetfwError: A board, model or scheduler is unknown, malformed or not named in UTF-8.
        """
        check_schedulers(self.schedulers)
        for name in (*self.boards, *self.models):
            if name != name.encode(errors="replace").decode():
                raise ConfigError(
                    f"{name!r} is not UTF-8, as the file of a sweep's results is", "rename it"
                )
        for board in self.boards:
            load_board(board)
        models = {
            name: load_model(
                BuildSettings(board=self.boards[0], model=name, batch=self.batch, train=AS_FILED)
            )
            for name in self.models
        }
        return {name: model.warnings for name, model in models.items() if model.warnings}


@dataclass(frozen=True)
class _Record:
    """A line of the results file."""

    point: SweepPoint
    cells: tuple[Trial, ...]


_RECORD: TypeAdapter[_Record] = TypeAdapter(_Record)


def digest_of(databases: Sequence[str | None]) -> str:
    """Digest of the measurements in databases of costs; empty without databases.

    Raises:
        CostsError: A database cannot be read.
    """
    paths = sorted({path for path in databases if path is not None})
    if not paths:
        return ""
    rows = b"".join(to_json(Database(Path(path)).all()) for path in paths)
    return hashlib.sha256(rows).hexdigest()[:16]


class Results:
    """The results file of a sweep in JSON lines: first the grid, then one line per point."""

    def __init__(self, file: Path, grid: Grid) -> None:
        """Open or create a results file.

        A truncated last line, as after a lost connection or on a full disk, is dropped.

        Raises:
            ConfigError: The file holds another sweep.
            ProblemError: A line is malformed.
            OutputError: The file cannot be read or written.
        """
        self._file = file
        self._header = json.loads(
            json.dumps({"schema_version": SCHEMA_VERSION, "sweep": asdict(grid)})
        )
        self.cells: dict[SweepPoint, tuple[Trial, ...]] = {}
        try:
            content = read_bytes(file, _LARGEST_FILE_BYTES) if file.exists() else b""
            whole = content[: content.rfind(b"\n") + 1]
            self._read(whole.splitlines())
            if content and not whole and not self._header_begins_with(content):
                raise self._other()
            if whole != content:
                with file.open("r+b") as stream:
                    stream.truncate(len(whole))
            if not whole:
                self._append(self._header)
        except OSError as error:
            raise OutputError(f"{file} cannot be used: {error.strerror}") from error

    def add(self, point: SweepPoint, cells: tuple[Trial, ...]) -> None:
        """Append the results of a point and flush them to disk.

        Raises:
            OutputError: The file cannot be written.
        """
        self.cells[point] = cells
        try:
            self._append(asdict(_Record(point, cells)))
        except OSError as error:
            raise OutputError(f"{self._file} cannot be written: {error.strerror}") from error

    def _read(self, lines: Sequence[bytes]) -> None:
        for number, line in enumerate(lines, start=1):
            if number == 1:
                if not _is_json(line, self._header):
                    raise self._other()
                continue
            try:
                parse_json(line)  # refuses numbers that pydantic lets pass
                record = _RECORD.validate_json(line, strict=True)
            except ValueError as error:  # ValidationError is one
                raise ProblemError(
                    f"{self._file}, line {number}: this is not a result of a sweep",
                    "delete that line: its point is computed again",
                ) from error
            self.cells[record.point] = record.cells

    def _append(self, document: Mapping[str, Any]) -> None:
        with self._file.open("ab") as stream:
            stream.write(json.dumps(document, allow_nan=False).encode() + b"\n")
            stream.flush()
            os.fsync(stream.fileno())

    def _header_begins_with(self, content: bytes) -> bool:
        return json.dumps(self._header).encode().startswith(content)

    def _other(self) -> ConfigError:
        return ConfigError(
            f"{self._file} holds something else than this sweep",
            "choose another --out",
            "or give the options with which it was begun",
        )


def run_sweep(grid: Grid, results: Results, executor: Executor) -> Iterator[SweepPoint]:
    """Solve all points without a result; yields each point after its result is recorded.

    Raises:
        ToolError: The solver is missing or failed, or a process ended early.
        OutputError: A result cannot be written.
    """
    futures = {
        executor.submit(run_point, point, grid): point
        for point in grid.points()
        if point not in results.cells
    }
    for future in as_completed(futures):
        point = futures[future]
        try:
            cells = future.result()
        except BrokenExecutor as error:
            raise ToolError(
                f"a process ended early, perhaps for want of memory: {error}", "set fewer --jobs"
            ) from error
        results.add(point, cells)
        yield point


def run_point(point: SweepPoint, grid: Grid) -> tuple[Trial, ...]:
    """Run all schedulers of a grid at one of its points."""
    comparison = _comparison(point.task, point.deadline_factor)
    options = SolveOptions(solver=grid.solver)
    fractions = (point.ram_fraction,)
    return tuple(
        comparison.cells(fractions, grid.schedulers, options, grid.work_limit, grid.time_limit_s)
    )


@lru_cache(maxsize=4)
def _comparison(task: Task, deadline_factor: float | None) -> Comparison:
    return Comparison.of(task, deadline_factor)


@contextmanager
def local_processes(jobs: int) -> Iterator[Executor]:
    """Executor with a number of local processes; Ctrl-C ends them at once."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_leave_interrupts) as executor:
        try:
            yield executor
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            raise


def _leave_interrupts() -> None:
    """Ignore Ctrl-C in a worker, as the main process of the terminal handles it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def dask_cluster(address: str) -> Iterator[Executor]:
    """Executor on a Dask cluster.

    Args:
        address: address of the cluster's scheduler, such as `tcp://127.0.0.1:8786`.

    Raises:
        ToolError: Dask is not installed.
        DeviceError: The address does not answer.
    """
    try:
        from distributed import Client
    except ImportError as error:
        raise ToolError(
            "--dask needs Dask, which is not installed", "pip install 'poetfw[sweep]'"
        ) from error
    try:
        client = Client(address, timeout=10)
    except (OSError, ValueError) as error:
        raise DeviceError(f"no Dask scheduler answers at {address}: {error}") from error
    with client, client.get_executor() as executor:
        yield executor


def finished(grid: Grid, results: Results) -> tuple[Trial, ...]:
    """Settled cells of all points with a result, in the order of the grid."""
    return settle([cell for point in grid.points() for cell in results.cells.get(point, ())])


def draw_plots(cells: Sequence[Trial], kind: str) -> dict[str, bytes]:
    """Plots like POET's Figures 3 to 5, by file name, as far as the cells have the data.

    energy: energy over RAM, a line per scheduler, at the loosest deadline.
    ablation: energy over the deadline with paging only, remat only, and both.
    capuchin: energy over RAM, POET's against Capuchin's, at the loosest deadline.
    """
    ram, energy = BUDGET_AXIS, "energy overhead (%)"
    pictures = {
        "energy": (_over_ram(cells), ram),
        "ablation": (_ablation(cells), "deadline / checkpoint-all time"),
        "capuchin": (
            _over_ram([cell for cell in cells if cell.scheduler in ("capuchin", "poet")]),
            ram,
        ),
    }
    return {
        f"{name}.{kind}": draw_panels(panels, label, energy, kind)
        for name, (panels, label) in pictures.items()
        if panels
    }


def _over_ram(cells: Sequence[Trial]) -> list[Panel]:
    panels = []
    for (board, model), group in _grouped(cells, "board", "model").items():
        factors = [cell.deadline_factor for cell in group]
        loosest = None if None in factors else max(f for f in factors if f is not None)
        shown = [cell for cell in group if cell.deadline_factor == loosest]
        panels.append(Panel(f"{model} on {board}", energy_lines(shown)))
    return [panel for panel in panels if any(line.points for line in panel.lines)]


def _ablation(cells: Sequence[Trial]) -> list[Panel]:
    panels = []
    keys = ("board", "model", "ram_fraction")
    for (board, model, fraction), group in _grouped(cells, *keys).items():
        lines = []
        for scheduler, name in _ABLATION.items():
            at = [
                (cell.deadline_factor, cell)
                for cell in group
                if cell.scheduler == scheduler and cell.deadline_factor is not None
            ]
            if at:
                lines.append(energy_line(scheduler, at, name))
        if any(len(line.points) > 1 for line in lines):
            panels.append(Panel(f"{model} on {board}, {fraction:.0%} RAM", tuple(lines)))
    return panels


def _grouped(cells: Sequence[Trial], *names: str) -> dict[tuple[Any, ...], list[Trial]]:
    groups: dict[tuple[Any, ...], list[Trial]] = {}
    for cell in cells:
        groups.setdefault(tuple(getattr(cell, name) for name in names), []).append(cell)
    return groups


def _is_json(line: bytes, document: Mapping[str, Any]) -> bool:
    try:
        return bool(parse_json(line) == document)
    except ValueError:
        return False
