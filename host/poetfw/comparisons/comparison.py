# SPDX-License-Identifier: Apache-2.0
"""Comparison of schedulers for one model on one board, over budgets.

`Comparison.cells` solves; `settle` shares plans, so that more RAM is never worse and POET never
worse than another scheduler, even if the solver was short of time.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from fractions import Fraction
from typing import Any

from poetfw.common.errors import ConfigError, InfeasibleError, UnsuitableError
from poetfw.common.limits import Deadline, Work
from poetfw.common.option_values import SCHEDULERS
from poetfw.planning import (
    BuildSettings,
    TrainingProblem,
    costs_from,
    load_training_problem,
)
from poetfw.report import Line
from poetfw.schedule import (
    ExecutionPlan,
    Interrupted,
    Schedule,
    ScheduleSummary,
    SolveOptions,
    Status,
    checkpoint_all_schedule,
    overhead_gap,
    solve,
)
from poetfw.training import AS_FILED

FRACTIONS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Budgets that are compared by default, as `TrainingProblem.budget_bytes` takes them."""

BUDGET_AXIS = "budget / keeping everything, both beside what never leaves RAM"
"""Label of an axis that shows `Cell.ram_fraction`."""

COMPARED = tuple(name for name in SCHEDULERS if name != "poet-algorithm-1")
"""Default schedulers: all but the one for small problems only."""

UNSUITABLE = "unsuitable"
"""Status of a cell whose scheduler is not applicable, or does not reach the budget."""


@dataclass(frozen=True)
class Task:
    """A training step to schedule, on a board.

    Attributes:
        board, model: as in `poetfw build`.
        batch: samples in a batch.
        model_as: a key of `poetfw.schedule.MODELS_AS`.
        db: database of measured costs; None for the analytic model.
    """

    board: str
    model: str
    batch: int = 1
    model_as: str = "device"
    db: str | None = None

    @property
    def settings(self) -> BuildSettings:
        """Settings of the build whose step it is."""
        return BuildSettings(board=self.board, model=self.model, batch=self.batch, train=AS_FILED)

    def load(self, warn: Callable[[str], None] = lambda text: None) -> TrainingProblem:
        """The schedule problem of its training step.

        Args:
            warn: called with each warning of the model.

        Raises:
            PoetfwError: The board or the model is unknown or malformed, or nothing of the board is
                in the database.
        """
        training = load_training_problem(self.settings, warn, costs_from(self.db))
        return training.modelled_as(self.model_as)


@dataclass(frozen=True)
class Trial:
    """One scheduler at one budget and deadline.

    Attributes:
        board, model, batch, model_as: see `Task`.
        deadline_factor: upper bound on a step's time as a multiple of checkpoint-all's, or None.
        deadline_s: upper bound in seconds, or None.
        ram_fraction: budget as a fraction for `Variants.budget_bytes`.
        ram_bytes: budget of the arena.
        scheduler: name of the scheduler.
        status: optimal, feasible or interrupted with a plan; infeasible or unsuitable without.
        reason: reason for the lack of a plan; empty with one.
        answer: figures and bounds of the plan; None without one.
        time_limited: True if the time limit ended the search, so that another run may differ.
        solve_time_s: time of the scheduler in seconds.
        db: database of measured costs; None for the analytic model.
    """

    board: str
    model: str
    batch: int
    model_as: str
    deadline_factor: float | None
    deadline_s: float | None
    ram_fraction: float
    ram_bytes: int
    scheduler: str
    status: str
    reason: str = ""
    answer: ScheduleSummary | None = None
    time_limited: bool = False
    solve_time_s: float | None = None
    db: str | None = None

    @property
    def overhead(self) -> float | None:
        """Energy relative to checkpoint-all, minus 1; None without a plan."""
        return None if self.answer is None else self.answer.overhead

    def to_json(self) -> dict[str, Any]:
        """Fields by name, with those of the answer among them."""
        own = asdict(self)
        return {**(own.pop("answer") or dict.fromkeys(_ANSWER)), **own}


_ANSWER = tuple(field.name for field in fields(ScheduleSummary))
_COLUMNS = tuple(dict.fromkeys([f.name for f in fields(Trial) if f.name != "answer"] + [*_ANSWER]))


_STARTS_FROM: Mapping[str, Callable[[ScheduleSummary], bool]] = {
    "poet-paging-off": lambda answer: not answer.page_outs,
    "poet-remat-off": lambda answer: not answer.recomputes,
    "poet": lambda answer: True,
}
"""For schedulers that start from plans of others, the names of these others."""


@dataclass(frozen=True)
class Comparison:
    """A comparison of schedulers on one task.

    Attributes:
        task: what is scheduled.
        deadline_factor: deadline as a multiple of checkpoint-all's time; None for none.
        training: its problem, with the deadline; budgets are set for each cell.
        everything: the schedule that keeps everything. Others are compared to it.
        warnings: the model's.
        costs: where the ops' costs come from, for people.
    """

    task: Task
    deadline_factor: float | None
    training: TrainingProblem
    everything: Schedule
    warnings: tuple[str, ...] = ()
    costs: str = ""

    @staticmethod
    def of(task: Task, deadline_factor: float | None = None) -> Comparison:
        """Prepare a comparison.

        Args:
            task: what is scheduled.
            deadline_factor: deadline as a multiple of checkpoint-all's time; None for none.

        Raises:
            PoetfwError: The board or the model is unknown or malformed.
        """
        warnings: list[str] = []
        training = task.load(warnings.append)
        everything = checkpoint_all_schedule(training.problem)
        if deadline_factor is not None:
            training = training.before(deadline_factor * everything.time_s)
        everything = everything.beside(training.problem.resident_bytes)
        costs = "" if training.costs is None else training.costs.summary
        return Comparison(task, deadline_factor, training, everything, tuple(warnings), costs)

    def cells(
        self,
        fractions: Sequence[float | Fraction],
        schedulers: Sequence[str],
        options: SolveOptions,
        work_limit: float = 10.0,
        time_limit_s: float = math.inf,
    ) -> Iterator[Trial]:
        """Solve with each scheduler at each budget, in ascending order; yields the cells.

        POET and its variants start from the plans of the others. If the user interrupts a solve
        that has found a plan, its cell is yielded before KeyboardInterrupt is raised.

        Args:
            fractions: budgets, as `TrainingProblem.budget_bytes` takes them.
            schedulers: keys of `poetfw.schedule.SCHEDULERS`.
            options: options of the solver.
            work_limit: limit of each solve in work units.
            time_limit_s: limit of each solve in seconds.

        Raises:
            ConfigError: A scheduler does not exist.
            ToolError: The solver is missing or failed.
        """
        check_schedulers(schedulers)
        plans: dict[str, ExecutionPlan] = {}
        for fraction in sorted(set(fractions)):
            ram_bytes = self.training.budget_bytes(fraction)
            for name in sorted(dict.fromkeys(schedulers), key=_turn):
                cell = self._blank(ram_bytes, float(fraction), name)
                known = [plans[n] for n in plans if n == name or name in _STARTS_FROM]
                work = Work(work_limit, Deadline(time_limit_s))
                try:
                    problem = self.training.within(ram_bytes)
                    schedule = solve(problem, name, options, known, work)
                except UnsuitableError as error:
                    yield replace(cell, status=UNSUITABLE, reason=error.reason)
                except InfeasibleError as error:
                    limited = work.deadline.decided
                    yield replace(cell, reason=error.message, time_limited=limited)
                except Interrupted as stop:
                    yield self._filled(cell, stop.schedule, work.deadline)
                    raise
                else:
                    plans[name] = schedule.plan
                    yield self._filled(cell, schedule, work.deadline)

    def _blank(self, ram_bytes: int, fraction: float, scheduler: str) -> Trial:
        return Trial(
            **asdict(self.task),
            deadline_factor=self.deadline_factor,
            deadline_s=self.training.problem.deadline_s,
            ram_fraction=fraction,
            ram_bytes=ram_bytes,
            scheduler=scheduler,
            status=Status.INFEASIBLE,
        )

    def _filled(self, cell: Trial, schedule: Schedule, deadline: Deadline) -> Trial:
        return replace(
            cell,
            status=schedule.status,
            answer=ScheduleSummary.of(schedule).beside(self.training.problem.resident_bytes),
            time_limited=deadline.decided,
            solve_time_s=deadline.elapsed_s,
        )


def check_schedulers(names: Sequence[str]) -> None:
    """Check that schedulers exist.

    Raises:
        ConfigError: A scheduler does not exist.
    """
    for name in names:
        if name not in SCHEDULERS:
            raise ConfigError(
                f"there is no scheduler {name!r}: known are {', '.join(SCHEDULERS)}",
            )


def settle(cells: Sequence[Trial]) -> tuple[Trial, ...]:
    """Give each cell the best plan of all cells that is legal for it.

    A plan is legal at every budget that it fits, and POET may use every scheduler's plan. Among the
    plans that a cell's scheduler may use, the one of least energy is chosen, then the one of lowest
    peak. So energy falls and the peak rises with the budget, and no scheduler is better than POET.
    The figures of a plan do not depend on the budget; cells keep their own bounds.

    Args:
        cells: cells of any boards, models, budgets and deadlines.
    """
    groups: dict[tuple[object, ...], list[Trial]] = {}
    for cell in cells:
        groups.setdefault(_group(cell), []).append(cell)
    return tuple(_settled(cell, groups[_group(cell)]) for cell in cells)


def _group(cell: Trial) -> tuple[object, ...]:
    """Key of the cells that may share plans."""
    return cell.board, cell.model, cell.batch, cell.model_as, cell.db, cell.deadline_factor


def _settled(cell: Trial, group: Sequence[Trial]) -> Trial:
    usable = _STARTS_FROM.get(cell.scheduler)
    best = cell.answer
    for other in group:
        answer = other.answer
        if answer is None or answer.peak_bytes > cell.ram_bytes:
            continue
        if other.scheduler != cell.scheduler and not (usable is not None and usable(answer)):
            continue
        if best is None or _rank(answer) < _rank(best):
            best = answer
    if best is cell.answer or best is None:
        return cell
    own = cell.answer
    bound_j = None if own is None else own.bound_j
    gap = None
    if bound_j is not None:
        gap = max(0.0, 1 - bound_j / best.energy_j) if best.energy_j else 0.0
    answer = replace(
        best,
        scheduler=cell.scheduler,
        status=Status.FEASIBLE if own is None else own.status,
        bound_j=bound_j,
        bound_covers=None if own is None else own.bound_covers,
        gap=gap,
        overhead_gap=overhead_gap(gap, best.overhead),
    )
    return replace(cell, status=answer.status, reason="", answer=answer)


def _rank(answer: ScheduleSummary) -> tuple[float, int]:
    return answer.energy_j, answer.peak_bytes


def _turn(scheduler: str) -> int:
    """Rank in the order of solving; schedulers that start from others' plans come last."""
    return [*_STARTS_FROM].index(scheduler) + 1 if scheduler in _STARTS_FROM else 0


def to_csv(cells: Sequence[Trial]) -> bytes:
    """Cells as CSV in UTF-8, one per line; unknown values are empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(cell.to_json() for cell in cells)
    return text.getvalue().encode(errors="backslashreplace")  # file names may be any bytes


def energy_lines(cells: Sequence[Trial]) -> tuple[Line, ...]:
    """Energy over RAM, a line per scheduler, in the order of the cells."""
    groups: dict[str, list[Trial]] = {}
    for cell in cells:
        groups.setdefault(cell.scheduler, []).append(cell)
    return tuple(
        energy_line(name, [(cell.ram_fraction, cell) for cell in group])
        for name, group in groups.items()
    )


def energy_line(scheduler: str, cells: Iterable[tuple[float, Trial]], label: str = "") -> Line:
    """Energy overhead of a scheduler's cells in percent, over their values of x."""
    ordered = sorted(cells, key=lambda pair: pair[0])
    return Line(
        scheduler,
        tuple((x, 100 * cell.overhead) for x, cell in ordered if cell.overhead is not None),
        tuple(x for x, cell in ordered if cell.answer is None),
        label,
    )
