# SPDX-License-Identifier: Apache-2.0
"""State of a search: the incumbent plan, lower bounds, and progress reports."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from poetfw.common.limits import Deadline, Work
from poetfw.schedule.contract import Contraction
from poetfw.schedule.problem import ExecutionPlan, ScheduleProblem
from poetfw.schedule.simulator import Simulation, accepts
from poetfw.schedule.transfers import plan_transfers

_ROUNDING = 1e-6  # relative: solvers use double precision and tolerances


@dataclass(frozen=True, slots=True)
class Found:
    """Incumbent and lower bounds, in joules.

    Attributes:
        plan: the incumbent, a plan that the simulator accepts; None if none was found.
        energy_j: energy of the incumbent; infinite without one.
        bound_j: lower bound of plans in stages; infinite if none exists. Other plans may take less.
        every_j: lower bound of all plans; at most `bound_j`.
    """

    plan: ExecutionPlan | None
    energy_j: float
    bound_j: float
    every_j: float

    @property
    def gap(self) -> float:
        """(energy_j - bound_j) / energy_j; negative if the incumbent beats all plans in stages."""
        if self.plan is None:
            return 1.0
        return (self.energy_j - self.bound_j) / self.energy_j if self.energy_j else 0.0

    def with_bound(self, problem: ScheduleProblem, bound_j: float) -> Found:
        """Raise `bound_j` by a proof that may exclude plans worse than the incumbent.

        Raises:
            RuntimeError: the incumbent is a plan in stages and refutes the bound.
        """
        replace(self, bound_j=bound_j).require_truth(problem)
        return replace(self, bound_j=max(self.bound_j, min(bound_j, self.energy_j)))

    def with_bound_of_every_plan(self, problem: ScheduleProblem, bound_j: float) -> Found:
        """Raise `every_j` by a bound of all plans.

        Raises:
            RuntimeError: the incumbent takes less than the bound.
        """
        if self.energy_j * (1 + _ROUNDING) < bound_j:
            raise RuntimeError(
                f"a plan of {problem.name!r} takes {self.energy_j:.9g} J, less than the proven "
                f"lower bound of all plans, {bound_j:.9g} J"
            )
        every_j = max(self.every_j, min(bound_j, self.energy_j))
        return replace(self, bound_j=max(self.bound_j, every_j), every_j=every_j)

    def require_truth(self, problem: ScheduleProblem) -> Found:
        """Check that the incumbent does not refute `bound_j`, and return this state.

        Raises:
            RuntimeError: the incumbent is a plan in stages and takes less than the bound.
        """
        if self.energy_j < self.bound_j:
            self._require_outside_stages(problem, self.bound_j)
        return self

    def _require_outside_stages(self, problem: ScheduleProblem, bound_j: float) -> None:
        if self.plan is None:
            return
        deadline_s = problem.deadline_s
        if deadline_s is not None:
            # The simulator tolerates slightly longer times than programs do.
            deadline_s *= 1 - _ROUNDING
        simulation = in_stages(replace(problem, deadline_s=deadline_s), self.plan)
        if simulation is not None and simulation.energy_j * (1 + _ROUNDING) < bound_j:
            raise RuntimeError(
                f"a plan of {problem.name!r} in stages takes {simulation.energy_j:.9g} J, less "
                f"than the proven lower bound of such plans, {bound_j:.9g} J"
            )

    def or_better(
        self, problem: ScheduleProblem, plan: ExecutionPlan | None, deadline: Deadline | None = None
    ) -> Found:
        """Replace the incumbent if the simulator accepts the plan and it takes less energy.

        After `deadline` the plan's transfers are not optimised.
        """
        plan = None if plan is None else plan_transfers(problem, plan, deadline)
        simulation = accepts(problem, plan) if plan is not None else None
        if simulation is None or simulation.energy_j >= self.energy_j:
            return self
        return replace(self, plan=plan, energy_j=simulation.energy_j)


def in_stages(problem: ScheduleProblem, plan: ExecutionPlan) -> Simulation | None:
    """Convert a plan to stages and simulate it; None if the simulator refuses the result."""
    return accepts(problem, plan_transfers(problem, Contraction.nothing(problem).contract(plan)))


def best_known(
    problem: ScheduleProblem, plans: Iterable[ExecutionPlan], deadline: Deadline | None = None
) -> Found:
    """The best of some plans, with the energy of computing each node once as lower bound."""
    once_j = math.fsum(node.energy_j for node in problem.nodes)
    found = Found(None, math.inf, once_j, once_j)
    for plan in plans:
        found = found.or_better(problem, plan, deadline)
    return found


@dataclass(frozen=True, slots=True)
class SearchProgress:
    """Progress report of a search.

    Attributes:
        phase: name of the current phase.
        energy_j: energy of the incumbent; infinite without one.
        bound_j: lower bound of plans in stages, at most `energy_j`.
        gap: (energy_j - bound_j) / energy_j, at least 0; 1 without a plan.
    """

    phase: str
    energy_j: float
    bound_j: float
    gap: float


Tell = Callable[[SearchProgress], None]
"""Callback for a new phase, incumbent or bound; it may be called from another thread."""


def tell_nobody(progress: SearchProgress) -> None:
    """Ignore progress."""


class Incumbent:
    """Best plan and bounds of a running search.

    Args:
        problem: the problem to search.
        found: plan and bounds known before the search.
        tell: called on each change.
        deadline: time after which transfers of plans are not optimised; None for never.

    Attributes:
        problem: the problem, which `in_order` and `at_leisure` change for the time of a block.
        found: current plan and bounds.
    """

    def __init__(
        self,
        problem: ScheduleProblem,
        found: Found,
        tell: Tell,
        deadline: Deadline | None = None,
    ) -> None:
        self.found = found
        self._deadline = deadline
        self.problem = problem
        self._tell = tell
        self._phase, self._suffix = "known plans", ""
        self._hurried: ScheduleProblem | None = None
        self._in_time: ExecutionPlan | None = None

    def is_best_of_all(self, gap: float = 0.0) -> bool:
        """True if no plan, in any order, takes less than the incumbent by more than this share."""
        return self.found.energy_j * (1 - gap) <= self.found.every_j

    def is_outside(self) -> bool:
        """True if the incumbent takes less than all plans in stages: only `every_j` covers it."""
        return self.found.plan is not None and self.found.energy_j < self.found.bound_j

    @contextmanager
    def in_order(self, problem: ScheduleProblem) -> Iterator[None]:
        """Search the problem in another order within this block; its stage bounds end with it."""
        given, bound_j, suffix = self.problem, self.found.bound_j, self._suffix
        if problem is given:
            yield
            return
        self.problem = problem
        self.found = replace(self.found, bound_j=self.found.every_j)
        self._suffix += ", other order"
        try:
            yield
        finally:
            bound_j = max(bound_j, self.found.every_j)
            self.problem, self.found = given, replace(self.found, bound_j=bound_j)
            self._suffix = suffix

    @contextmanager
    def at_leisure(self) -> Iterator[None]:
        """Search without deadline and without overlap of transfers within this block.

        So a deadline or overlap does not steer the search, and a deadline that the best plan meets
        anyway does not make the result worse. Overlap changes neither energy nor RAM of a plan: the
        core waits for a page-out when it needs that tensor's RAM. After the block the incumbent is
        the best plan found that meets the deadline, with its transfers planned; the block's bounds
        are kept.
        """
        given, before, suffix = self.problem, self.found, self._suffix
        storage = given.storage
        if storage is not None:
            storage = replace(storage, overlap=False)
        at_leisure = replace(given, storage=storage, deadline_s=None)
        if at_leisure == given:
            yield
            return
        self.problem, self._hurried = at_leisure, given
        if given.deadline_s is not None:
            self._suffix += ", any time"
        try:
            yield
        finally:
            found = self._in_time if given.deadline_s is not None else None
            self.problem, self._hurried, self._in_time = given, None, None
            for plan in (found, self.found.plan):
                before = before.or_better(given, plan, self._deadline)
            self.found = replace(
                before,
                bound_j=max(before.bound_j, self.found.bound_j),
                every_j=max(before.every_j, self.found.every_j),
            )
            self._suffix = suffix

    def keep_in_time(self) -> bool:
        """Keep the incumbent for the end of `at_leisure` if it meets the deadline.

        Returns:
            True if it meets the deadline, or the problem has no deadline.
        """
        hurried, plan = self._hurried, self.found.plan
        if hurried is None or hurried.deadline_s is None:
            return True
        if plan is None:
            return False
        planned = plan_transfers(hurried, plan, self._deadline)
        if accepts(hurried, planned) is None:
            return False
        self._in_time = planned
        return True

    @contextmanager
    def phase(self, name: str, work: Work) -> Iterator[Work]:
        """Log and report a phase of the search."""
        name += self._suffix
        self._phase = name
        self._report()
        with work.phase(name):
            yield work

    def tell(self, news: str) -> None:
        """Report a message in place of the phase's name."""
        phase, self._phase = self._phase, news
        self._report()
        self._phase = phase

    def offer(self, plan: ExecutionPlan | None) -> None:
        """Make this plan the incumbent if the simulator accepts it and it takes less energy."""
        self._update(self.found.or_better(self.problem, plan, self._deadline))

    def prove(self, bound_j: float) -> None:
        """Raise the lower bound of plans in stages; it may exclude plans worse than the incumbent.

        Raises:
            RuntimeError: the incumbent refutes the bound.
        """
        self._update(self.found.with_bound(self.problem, bound_j))

    def prove_of_every_plan(self, bound_j: float) -> None:
        """Raise the lower bound of all plans, in any order.

        Raises:
            RuntimeError: the incumbent refutes the bound.
        """
        self._update(self.found.with_bound_of_every_plan(self.problem, bound_j))

    def _update(self, found: Found) -> None:
        changed, self.found = found != self.found, found
        if changed:
            self._report()

    def _report(self) -> None:
        energy_j = self.found.energy_j
        bound_j = min(self.found.bound_j, energy_j)  # the incumbent may not be a plan in stages
        gap = max(0.0, self.found.gap)
        self._tell(SearchProgress(self._phase, energy_j, bound_j, gap))
