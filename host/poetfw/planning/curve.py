# SPDX-License-Identifier: Apache-2.0
"""Curve of energy over RAM: searches at several budgets that exchange their plans.

Each budget has a search of its own, with equal work. Plans are then adapted from one budget to the
next: in less RAM, tensors are evicted; in more RAM, tensors are kept. The better plan of a budget
is used. If searches end early with optimal plans, the remaining work goes into second searches that
start from the adapted plans.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace

from poetfw.common.errors import InfeasibleError
from poetfw.common.limits import Work
from poetfw.planning.training_problem import TrainingProblem
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
    solve,
    tell_nobody,
)

_DOWN_SHARE = 0.1  # of the work at a budget, in addition to it, to make a larger one's plan fit
_UP_SHARE = 0.05  # the same, for what it may keep of a smaller one's plan
_MINIMUM_SHARE = 0.05  # of the work, for the smallest budget
_SAME = 1e-7  # relative: solvers work in doubles


@dataclass(frozen=True)
class Point:
    """Point of a curve: a budget and its best schedule.

    Attributes:
        budget_bytes: budget of the arena.
        schedule: best schedule found, whose peak includes resident bytes; None without one.
        reason: reason for the lack of a schedule; empty with one.
        time_limited: True if the time limit ended the search.
    """

    budget_bytes: int
    schedule: Schedule | None
    reason: str = ""
    time_limited: bool = False


def budgets_between(low: int, high: int, count: int) -> tuple[int, ...]:
    """At most `count` evenly spaced budgets in bytes, including both ends, without duplicates."""
    return tuple(dict.fromkeys(low + (high - low) * k // (count - 1) for k in range(count)))


def smallest_budget(training: TrainingProblem, work: Work) -> int:
    """The smallest budget in bytes for which a schedule is known.

    Args:
        training: the problem.
        work: of which a part is for this.
    """
    with work.part(work.left * _MINIMUM_SHARE).phase("smallest budget") as part:
        needed = minimum_budget(training.problem, work=part).bytes
    return max(training.problem.resident_bytes + needed, training.evaluation_bytes)


class Curve:
    """Schedules of a problem at several budgets, which a search improves.

    Args:
        training: the problem.
        budgets: what the arena may occupy, in bytes.
        scheduler: a key of `poetfw.schedule.SCHEDULERS`. Plans are made to fit for those that start
            from plans; from others, a plan is used unchanged in more RAM.
        options: how to search.
    """

    def __init__(
        self,
        training: TrainingProblem,
        budgets: Iterable[int],
        scheduler: str = "poet",
        options: SolveOptions | None = None,
    ) -> None:
        self._training = training
        self._budgets = sorted(set(budgets))
        self._scheduler = scheduler
        self._options = options
        self._found: dict[int, Point] = {}
        self._starts = SCHEDULERS[scheduler].starts

    @property
    def points(self) -> tuple[Point, ...]:
        """Points in ascending order of budget; a larger budget never has more energy."""
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
        """Search at all budgets, in descending order.

        Args:
            work: limit of all searches together. Adapting plans takes up to a fifth more.
            tell: called with the progress of each search.
            progress: called with the name of each search as it begins.

        Raises:
            InfeasibleError: No budget has a schedule.
            ToolError: The solver is missing or failed.
            KeyboardInterrupt: The user interrupted the search; `points` has the results so far.
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
        """Budgets with a schedule, in ascending order."""
        found = {budget: self._found[budget].schedule for budget in self._budgets}
        return [(budget, known) for budget, known in found.items() if known is not None]

    def _solve(self, budget: int, known: Iterable[ExecutionPlan], work: Work, tell: Tell) -> None:
        """Search at a budget, and note what is found."""
        resident = self._training.problem.resident_bytes
        before = self._found.get(budget, Point(budget, None))

        def note(found: Schedule) -> None:
            schedule = found.beside(resident)
            if before.schedule is not None and before.schedule.energy_j < schedule.energy_j:
                schedule = _by_plan_of(before.schedule, schedule)
            limited = work.deadline.decided
            self._found[budget] = replace(before, schedule=schedule, time_limited=limited)

        problem = self._training.within(budget)
        try:
            note(solve(problem, self._scheduler, self._options, known, work, tell))
        except Interrupted as stop:
            note(stop.schedule)
            raise

    def _hand_up(self, work: Work, units: float) -> None:
        """Adapt the plan of each budget to the next larger one, which can keep more tensors."""
        below: Schedule | None = None
        for budget in self._budgets:
            if below is not None:
                self._hand(below, budget, work.beside(units * _UP_SHARE), "from less RAM")
            below = self._found[budget].schedule or below

    def _hand(self, schedule: Schedule, budget: int, work: Work, phase: str) -> None:
        """Adapt a schedule of another budget to this one, and store it if it is better."""
        point = self._found[budget]
        own = point.schedule
        if not self._starts or (own is not None and _is_best(own)):
            return
        try:
            within = self._training.within(budget)
        except InfeasibleError:
            return
        problem = SCHEDULERS[self._scheduler].restrict(within)
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
    return None if plan is None else _with_plan(problem, schedule, plan)


def following(problem: ScheduleProblem, schedule: Schedule, plan: ExecutionPlan) -> Schedule:
    """Another plan of the same problem, with the bound of a schedule."""
    followed = _with_plan(problem, schedule, plan)
    return _with_bound(followed, schedule.bound_j or 0.0, schedule.bound_covers)


def _with_plan(problem: ScheduleProblem, schedule: Schedule, plan: ExecutionPlan) -> Schedule:
    figures = PlanFigures.of(simulate(problem, plan))
    once_j = _once_j(schedule)
    overhead = figures.energy_j / once_j - 1 if once_j else None
    return replace(schedule, **asdict(figures), plan=plan, overhead=overhead)


def _is_best(schedule: Schedule) -> bool:
    """True if the schedule is proven optimal among all plans."""
    return schedule.status is Status.OPTIMAL and schedule.bound_covers is BoundCovers.ALL


def _once_j(schedule: Schedule) -> float:
    """Energy in joules of computing each node once: a lower bound for all plans."""
    return 0.0 if schedule.overhead is None else schedule.energy_j / (1 + schedule.overhead)


def _by_plan_of(better: Schedule, own: Schedule | None) -> Schedule:
    """A schedule adapted from another budget, with the bound that holds at this one.

    Args:
        better: the other one.
        own: the one that was found at this budget, and what is proven of it. Without one, no plan
            takes less than computing each node once.
    """
    if own is not None:
        assert own.bound_j is not None
        return _with_bound(better, own.bound_j, own.bound_covers)
    return _with_bound(better, _once_j(better), BoundCovers.ALL)


def _with_bound(schedule: Schedule, bound_j: float, covers: BoundCovers | None) -> Schedule:
    """A schedule with another bound, which may exceed its energy if it covers other plans."""
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
    """Points with bounds raised to those of larger budgets, which hold for less RAM, too."""
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
    """True if the bound of a larger budget covers the same plans and is higher."""
    return (
        own.status is not Status.OPTIMAL
        and larger.bound_covers in (own.bound_covers, BoundCovers.ALL)
        and (larger.bound_j or 0.0) > (own.bound_j or 0.0)
    )
