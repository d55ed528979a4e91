# SPDX-License-Identifier: Apache-2.0
"""The energy of a training step over its RAM: a search at several budgets that share their plans.

Each budget has a search of its own, with the same work. The plan of a larger budget is then made
to fit, that of a smaller one keeps what there is RAM for, and the better plan stays. Work that is
left, where optimal plans are found early, goes into second searches that start from these plans.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace

from poetfw.common.errors import InfeasibleError
from poetfw.common.limits import Work
from poetfw.planning.variants import Variants, solve_variants
from poetfw.schedule import (
    SCHEDULERS,
    BoundCovers,
    ExecutionPlan,
    Interrupted,
    PlanFigures,
    Schedule,
    ScheduleProblem,
    SolveOptions,
    Status,
    Tell,
    handed,
    minimum_budget,
    overhead_gap,
    simulate,
    tell_nobody,
)

_DOWN_SHARE = 0.1  # of the work at a budget, in addition to it, to make a larger one's plan fit
_UP_SHARE = 0.05  # the same, for what it may keep of a smaller one's plan
_MINIMUM_SHARE = 0.05  # of the work, for the smallest budget
_SAME = 1e-7  # relative: solvers work in doubles


@dataclass(frozen=True)
class Point:
    """A budget of a curve.

    Attributes:
        budget_bytes: what the arena may occupy.
        schedule: the best schedule known, whose peak counts resident bytes; None without one.
        reason: why there is none; empty with one.
        time_limited: True if the time limit ended its search.
    """

    budget_bytes: int
    schedule: Schedule | None
    reason: str = ""
    time_limited: bool = False


def budgets_between(low: int, high: int, count: int) -> tuple[int, ...]:
    """Budgets in bytes at equal distances, two ends among them; fewer where bytes are few."""
    return tuple(dict.fromkeys(low + (high - low) * k // (count - 1) for k in range(count)))


def smallest_budget(variants: Variants, work: Work) -> int:
    """The smallest budget in bytes for which a schedule is known.

    Args:
        variants: the problem.
        work: of which a part is for this.
    """
    with work.part(work.left * _MINIMUM_SHARE).phase("smallest budget") as part:
        needed = minimum_budget(variants.lean, work=part).bytes
    return max(variants.lean.resident_bytes + needed, variants.evaluation_bytes)


class Curve:
    """Schedules of a problem at several budgets, as far as a search has come.

    Args:
        variants: the problem.
        budgets: what the arena may occupy, in bytes.
        scheduler: a key of `poetfw.schedule.SCHEDULERS`. Plans are made to fit for those that start
            from plans; from others, a plan is used unchanged in more RAM.
        options: how to search.
    """

    def __init__(
        self,
        variants: Variants,
        budgets: Iterable[int],
        scheduler: str = "poet",
        options: SolveOptions | None = None,
    ) -> None:
        self._variants = variants
        self._budgets = sorted(set(budgets))
        self._scheduler = scheduler
        self._options = options
        self._found: dict[int, Point] = {}
        self._starts = SCHEDULERS[scheduler].starts

    @property
    def points(self) -> tuple[Point, ...]:
        """Every budget that was searched, the smallest first; more RAM never takes more energy."""
        settled: list[Point] = []
        best: Schedule | None = None
        for budget in self._budgets:
            if budget not in self._found:
                continue
            point = self._found[budget]
            own = point.schedule
            if best is not None and (own is None or best.energy_j < own.energy_j):
                point = replace(point, schedule=_by_plan_of(best, own), reason="")
            best = point.schedule
            settled.append(point)
        return _with_bounds(settled)

    def search(
        self,
        work: Work,
        tell: Tell = tell_nobody,
        progress: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Search at every budget, the largest first.

        Args:
            work: for all budgets together. What is handed on takes up to a fifth more.
            tell: is told how each search goes on.
            progress: called with what begins.

        Raises:
            InfeasibleError: there is no schedule at any budget.
            ToolError: the solver is missing or failed.
            KeyboardInterrupt: the user interrupted the search; what it knew then is among `points`.
        """
        total = len(self._budgets)
        units = work.left / total
        larger: Schedule | None = None
        refused: InfeasibleError | None = None
        for done, budget in enumerate(reversed(self._budgets)):
            progress(f"{done + 1} of {total}: {budget:,} B")
            needed = None if refused is None else refused.minimum_budget_bytes
            if needed is not None and budget < needed:
                reason = f"it needs {needed:,} bytes, the smallest budget known to be feasible"
                self._found[budget] = Point(budget, None, reason)
                continue
            try:
                self._solve(budget, (), work.part(units), tell)
            except InfeasibleError as error:
                limited = work.deadline.decided
                self._found[budget] = Point(budget, None, error.message, limited)
                refused = refused or error
            if larger is not None:
                self._hand(larger, budget, work.beside(units * _DOWN_SHARE), "from more RAM")
            larger = self._found[budget].schedule or larger
        if refused is not None and larger is None:
            raise refused
        self._hand_up(work, units)
        open_ = [(budget, found) for budget, found in self._known() if found.gap]
        if self._starts and open_ and work.left >= units:
            for done, (budget, found) in enumerate(open_):
                progress(f"again: {budget:,} B")
                part = work.part(work.left / (len(open_) - done))
                self._solve(budget, [found.plan], part, tell)
            self._hand_up(work, units)

    def _known(self) -> list[tuple[int, Schedule]]:
        """The budgets that have a schedule, the smallest first."""
        found = {budget: self._found[budget].schedule for budget in self._budgets}
        return [(budget, known) for budget, known in found.items() if known is not None]

    def _solve(self, budget: int, known: Iterable[ExecutionPlan], work: Work, tell: Tell) -> None:
        """Search at a budget, and note what is found."""
        resident = self._variants.lean.resident_bytes
        before = self._found.get(budget, Point(budget, None))

        def note(found: Schedule) -> None:
            schedule = found.beside(resident)
            if before.schedule is not None and before.schedule.energy_j < schedule.energy_j:
                schedule = _by_plan_of(before.schedule, schedule)
            limited = work.deadline.decided
            self._found[budget] = replace(before, schedule=schedule, time_limited=limited)

        variants = self._variants.within(budget)
        try:
            note(solve_variants(variants, self._scheduler, self._options, known, work, tell))
        except Interrupted as stop:
            note(stop.schedule)
            raise

    def _hand_up(self, work: Work, units: float) -> None:
        """Give each budget the plan of the next smaller one, with what there is room to keep."""
        below: Schedule | None = None
        for budget in self._budgets:
            if below is not None:
                self._hand(below, budget, work.beside(units * _UP_SHARE), "from less RAM")
            below = self._found[budget].schedule or below

    def _hand(self, schedule: Schedule, budget: int, work: Work, phase: str) -> None:
        """Make a schedule of another budget fit this one, and keep it if it is better."""
        point = self._found[budget]
        own = point.schedule
        if not self._starts or (own is not None and _is_best(own)):
            return
        try:
            within = self._variants.within(budget)
        except InfeasibleError:
            return
        problem = SCHEDULERS[self._scheduler].restrict(within.by(schedule.faster))
        with work.phase(phase):
            better = adapted(problem, schedule, work)
        if better is not None and (own is None or better.energy_j < own.energy_j):
            better = better.beside(problem.resident_bytes)
            self._found[budget] = replace(point, schedule=_by_plan_of(better, own), reason="")


def adapted(problem: ScheduleProblem, schedule: Schedule, work: Work) -> Schedule | None:
    """The schedule of another budget with its plan adapted to this one; None if none was found.

    Bounds remain those of the other budget.
    """
    plan = handed(problem, schedule.plan, work)
    if plan is None:
        return None
    figures = PlanFigures.of(simulate(problem, plan))
    once_j = _once_j(schedule)
    overhead = figures.energy_j / once_j - 1 if once_j else None
    return replace(schedule, **asdict(figures), plan=plan, overhead=overhead)


def _is_best(schedule: Schedule) -> bool:
    """True if no plan at all is better."""
    return schedule.status is Status.OPTIMAL and schedule.bound_covers is BoundCovers.ALL


def _once_j(schedule: Schedule) -> float:
    """Joules of computing each node once, which no plan goes below."""
    return 0.0 if schedule.overhead is None else schedule.energy_j / (1 + schedule.overhead)


def _by_plan_of(better: Schedule, own: Schedule | None) -> Schedule:
    """The plan of another schedule, and what is proven at its new budget.

    Args:
        better: the other one.
        own: the one that was found at this budget. What is proven of it holds for nodes that run in
            the same ways; else no plan takes less than computing each node once.
    """
    if own is not None and own.faster == better.faster:
        assert own.bound_j is not None
        return _with_bound(better, own.bound_j, own.bound_covers)
    return _with_bound(better, _once_j(better), BoundCovers.ALL)


def _with_bound(schedule: Schedule, bound_j: float, covers: BoundCovers | None) -> Schedule:
    """A schedule whose plan may be out of reach of a bound, which it then lies below."""
    gap: float | None = 0.0
    if schedule.energy_j:
        gap = max(0.0, 1 - bound_j / schedule.energy_j)
        if covers is not BoundCovers.ALL and gap <= _SAME:
            gap = None
    proven = covers is BoundCovers.ALL and gap is not None and gap <= SolveOptions().gap
    return replace(
        schedule,
        status=Status.OPTIMAL if proven else Status.FEASIBLE,
        bound_j=bound_j,
        bound_covers=covers,
        gap=gap,
        overhead_gap=overhead_gap(gap, schedule.overhead),
    )


def _with_bounds(points: Sequence[Point]) -> tuple[Point, ...]:
    """Points with bounds of larger budgets: every plan within less RAM is one within more."""
    known: list[Schedule] = []
    result: list[Point] = []
    for point in reversed(points):
        own = point.schedule
        if own is not None:
            for larger in known:
                if _bounds_more(larger, own):
                    assert larger.bound_j is not None
                    own = _with_bound(own, larger.bound_j, own.bound_covers)
            known.append(own)
        result.append(replace(point, schedule=own))
    return tuple(reversed(result))


def _bounds_more(larger: Schedule, own: Schedule) -> bool:
    """True if the bound of a larger budget says more of the same plans."""
    return (
        own.status is not Status.OPTIMAL
        and larger.faster == own.faster
        and larger.bound_covers in (own.bound_covers, BoundCovers.ALL)
        and (larger.bound_j or 0.0) > (own.bound_j or 0.0)
    )
