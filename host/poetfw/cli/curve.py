# SPDX-License-Identifier: Apache-2.0
"""`poetfw schedule --pareto`: energy of a training step over its RAM budget."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from poetfw.cli import output
from poetfw.cli.compare import refuse_more_than_all
from poetfw.common.limits import Work

if TYPE_CHECKING:
    from poetfw.costs import CostTable
    from poetfw.planning import Point, TrainingProblem
    from poetfw.schedule import Schedule


@dataclass(frozen=True)
class CurveSearch:
    """A search for schedules at several budgets.

    Attributes:
        training: the problem, with its deadline.
        scheduler: name of the scheduler.
        solver: name of the solver.
        count: number of budgets.
        work: work limit and deadline for all budgets together.
    """

    training: TrainingProblem
    scheduler: str
    solver: str
    count: int
    work: Work

    def show(self, fractions: tuple[float, ...] | None, plot: Path | None, as_json: bool) -> int:
        """Search, print the points found and plot them; returns the exit code.

        Args:
            fractions: smallest and largest budget; None for the smallest budget known to be
                feasible, and that of keeping everything.
            plot: file of the plot; None for no plot.
            as_json: True to print JSON.

        Raises:
            UsageError: The fractions are not a range.
            InfeasibleError: No budget has a schedule.
            KeyboardInterrupt: The user interrupted the search before the first schedule.
        """
        from poetfw.common.output_file import replace_file
        from poetfw.planning import Curve, budgets_between, smallest_budget
        from poetfw.schedule import SolveOptions

        if fractions is not None:
            _require_range(fractions)
        code = 0
        with output.spinner() as progress:
            progress(f"{self.scheduler}: {self.training.problem.name}, {self.count} budgets")
            if fractions is None:
                low = smallest_budget(self.training, self.work)
                high = max(low, self.training.budget_bytes(1))
            else:
                low, high = map(self.training.budget_bytes, fractions)
            budgets = budgets_between(low, high, self.count)
            curve = Curve(self.training, budgets, self.scheduler, SolveOptions(solver=self.solver))

            try:
                curve.search(self.work, progress=progress)
            except KeyboardInterrupt:
                if not any(point.schedule for point in curve.points):
                    raise
                code = 130
        if plot is not None:
            replace_file(plot, self._picture(curve.points, plot.suffix[1:]))
        if as_json:
            output.print_json(self._document(curve.points, code == 130))
        else:
            self._print(curve.points)
        if code:
            known = len(curve.points)
            output.messages.print(f"interrupted after {known} of {len(budgets)} budgets")
        return code

    def _document(self, points: tuple[Point, ...], interrupted: bool) -> dict[str, Any]:
        from poetfw.schedule import schedule_to_json

        def of(point: Point) -> dict[str, Any]:
            found = point.schedule
            head = {
                "ram_bytes": point.budget_bytes,
                "ram_fraction": float(self.training.fraction_of(point.budget_bytes)),
                "reason": point.reason,
                "time_limited": point.time_limited,
            }
            if found is None:
                return {**head, "status": "infeasible"}
            return {**head, **schedule_to_json(found), **sources_json(self.training.costs)}

        return {
            "schema_version": 1,
            "name": self.training.problem.name,
            "scheduler": self.scheduler,
            "deadline_s": self.training.problem.deadline_s,
            "interrupted": interrupted,
            "points": [of(point) for point in points],
            **output.spent_json(self.work.deadline),
        }

    def _print(self, points: tuple[Point, ...]) -> None:
        rows = [[output.size(point.budget_bytes), *_cells(point.schedule)] for point in points]
        columns = ["budget", "peak", "energy of a step", "overhead", "gap", "recomputes, page-ins"]
        title = f"{self.scheduler}: {self.training.problem.name}, energy over RAM"
        output.results.print(output.table(title, columns, rows))
        for point in points[:1]:
            if point.reason:
                output.results.print(output.escaped(f"-  {point.reason}"))
        if any(point.schedule and point.schedule.gap is None for point in points):
            output.results.print("-  as gap: at least as good as any plan for this op order")
        for name, value in output.spent_rows(self.work.deadline):
            if name == "note":
                output.results.print(output.escaped(value))

    def _picture(self, points: tuple[Point, ...], kind: str) -> bytes:
        from poetfw.comparisons.comparison import BUDGET_AXIS
        from poetfw.report import Line, Panel, draw_panels

        shares = [(float(self.training.fraction_of(p.budget_bytes)), p.schedule) for p in points]
        line = Line(
            self.scheduler,
            tuple(
                (x, 100 * found.overhead)
                for x, found in shares
                if found and found.overhead is not None
            ),
            tuple(x for x, found in shares if found is None),
        )
        panel = Panel(self.training.problem.name, (line,))
        return draw_panels([panel], BUDGET_AXIS, "energy overhead (%)", kind)


def sources_json(costs: CostTable | None) -> dict[str, Any]:
    """Sources of the costs of a schedule's ops; nothing for a problem from a file."""
    return {} if costs is None else {"cost_sources": costs.sources}


def _require_range(fractions: tuple[float, ...]) -> None:
    """Check the ends of a range of budgets.

    Raises:
        UsageError: There are not two fractions, or the first is not smaller.
        BadParameter: A fraction is above 1.
    """
    if len(fractions) != 2:
        raise click.UsageError(
            "with --pareto, --ram-fraction takes the smallest and the largest budget, as 0.3,0.9"
        )
    refuse_more_than_all(fractions, "'--ram-fraction'")
    low, high = fractions
    if low >= high:
        raise click.UsageError(
            f"--ram-fraction {low:g},{high:g} is no range: the smaller budget comes first"
        )


def _cells(found: Schedule | None) -> list[str]:
    if found is None:
        return ["-"] * 5
    return [
        output.size(found.peak_bytes),
        f"{found.energy_j * 1e3:.6g} mJ",
        "-" if found.overhead is None else f"{found.overhead:.3%}",
        "-" if found.gap is None else f"{found.gap:.3%}",
        f"{found.recomputes}, {found.page_ins}",
    ]
