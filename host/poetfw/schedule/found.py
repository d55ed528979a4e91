# SPDX-License-Identifier: Apache-2.0
"""State of a search: the incumbent plan, its bounds, and reports of both."""

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

_ROUNDING = 1e-6  # relative: solvers work in doubles, and within tolerances


@dataclass(frozen=True, slots=True)
class Found:
    """The state of a search.

    Attributes:
        plan: the best plan, which the simulator accepts; None without one.
        energy_j: its energy; infinite without one.
        bound_j: no plan in stages takes less; infinite if no such plan exists. Other plans may.
        every_j: no plan at all takes less; at most `bound_j`.
    """

    plan: ExecutionPlan | None
    energy_j: float
    bound_j: float
    every_j: float

    @property
    def gap(self) -> float:
        """(energy_j - bound_j) / energy_j; negative if no plan in stages is as good; 1 without."""
        if self.plan is None:
            return 1.0
        return (self.energy_j - self.bound_j) / self.energy_j if self.energy_j else 0.0

    def with_bound(self, problem: ScheduleProblem, bound_j: float) -> Found:
        """With what a program proves that may leave out plans that are worse than this one.

        Raises:
            RuntimeError: the program did not see this plan, though it is one in stages.
        """
        if bound_j > self.energy_j:
            self._require_outside_stages(problem, bound_j)
        return replace(self, bound_j=max(self.bound_j, min(bound_j, self.energy_j)))

    def with_bound_of_every_plan(self, problem: ScheduleProblem, bound_j: float) -> Found:
        """With what is proven of every plan, in any order.

        Raises:
            RuntimeError: this plan takes less.
        """
        if self.energy_j * (1 + _ROUNDING) < bound_j:
            raise RuntimeError(
                f"a plan of {problem.name!r} takes {self.energy_j:.9g} J, though none in any order "
                f"was proven to take less than {bound_j:.9g} J"
            )
        every_j = max(self.every_j, min(bound_j, self.energy_j))
        return replace(self, bound_j=max(self.bound_j, every_j), every_j=every_j)

    def require_truth(self, problem: ScheduleProblem) -> Found:
        """Itself, unless its plan refutes its bound.

        Raises:
            RuntimeError: the plan takes less than the bound, though it is one in stages.
        """
        if self.energy_j < self.bound_j:
            self._require_outside_stages(problem, self.bound_j)
        return self

    def _require_outside_stages(self, problem: ScheduleProblem, bound_j: float) -> None:
        if self.plan is None:
            return
        deadline_s = problem.deadline_s
        if deadline_s is not None:
            # The simulator lets plans take a little longer than programs do.
            deadline_s *= 1 - _ROUNDING
        simulation = in_stages(replace(problem, deadline_s=deadline_s), self.plan)
        if simulation is not None and simulation.energy_j * (1 + _ROUNDING) < bound_j:
            raise RuntimeError(
                f"a plan of {problem.name!r} in stages takes {simulation.energy_j:.9g} J, though a "
                f"program proved that none takes less than {bound_j:.9g} J"
            )

    def or_better(
        self, problem: ScheduleProblem, plan: ExecutionPlan | None, deadline: Deadline | None = None
    ) -> Found:
        """With this plan instead, if the simulator accepts it and it takes less energy.

        When the deadline has passed, its transfers stay where they are.
        """
        plan = None if plan is None else plan_transfers(problem, plan, deadline)
        simulation = accepts(problem, plan) if plan is not None else None
        if simulation is None or simulation.energy_j >= self.energy_j:
            return self
        return replace(self, plan=plan, energy_j=simulation.energy_j)


def in_stages(problem: ScheduleProblem, plan: ExecutionPlan) -> Simulation | None:
    """The simulation of a plan put into stages; None if the simulator refuses it."""
    return accepts(problem, plan_transfers(problem, Contraction.nothing(problem).contract(plan)))


def best_known(
    problem: ScheduleProblem, plans: Iterable[ExecutionPlan], deadline: Deadline | None = None
) -> Found:
    """The best of some plans. No plan takes less energy than computing each node once."""
    once_j = math.fsum(node.energy_j for node in problem.nodes)
    found = Found(None, math.inf, once_j, once_j)
    for plan in plans:
        found = found.or_better(problem, plan, deadline)
    return found


@dataclass(frozen=True, slots=True)
class SearchProgress:
    """State of a search.

    Attributes:
        phase: what it does now.
        energy_j: the best plan's energy; infinite without one.
        bound_j: no plan in stages takes less; the energy where that is below.
        gap: (energy_j - bound_j) / energy_j; 1 without a plan.
    """

    phase: str
    energy_j: float
    bound_j: float
    gap: float


Tell = Callable[[SearchProgress], None]
"""Called when a phase begins, a better plan is found, or a bound rises; maybe in another thread."""


def tell_nobody(progress: SearchProgress) -> None:
    """Ignore progress."""


class Incumbent:
    """The best that a search knows of its problem, at every moment.

    Args:
        problem: what is searched.
        found: what is known before.
        tell: is told of each change.
        deadline: when not to improve a plan any more; None for never.

    Attributes:
        problem: as given, but for what `in_order` and `at_leisure` say.
        found: what is known now.
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

    @contextmanager
    def in_order(self, problem: ScheduleProblem) -> Iterator[None]:
        """A block that searches the problem in another order; bounds in that one end with it."""
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
        """A block that searches without the deadline, and as if the core waited for each transfer.

        So problems that differ only there are searched alike, and plans that need not hurry cost no
        more where there is a deadline that they meet. Waiting changes no plan's energy or need of
        RAM: where transfers overlap, a tensor on its way out is waited for when its RAM is needed.
        After the block the best of its plans that meet the deadline is known, with its transfers
        planned, and what the block proved.
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
        """Keep the best plan if it meets the deadline that `at_leisure` leaves out.

        Returns:
            Whether it does; so it does where there is no deadline.
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
        """Log and tell what this block is about."""
        name += self._suffix
        self._phase = name
        self._report()
        with work.phase(name):
            yield work

    def tell(self, news: str) -> None:
        """Tell something that has no figure of its own, in the place of a phase's name."""
        phase, self._phase = self._phase, news
        self._report()
        self._phase = phase

    def offer(self, plan: ExecutionPlan | None) -> None:
        """Take this plan instead, if the simulator accepts it and it takes less energy."""
        self._update(self.found.or_better(self.problem, plan, self._deadline))

    def prove(self, bound_j: float) -> None:
        """No plan in stages that is better than this one takes less than that.

        Raises:
            RuntimeError: this plan refutes it.
        """
        self._update(self.found.with_bound(self.problem, bound_j))

    def prove_of_every_plan(self, bound_j: float) -> None:
        """No plan takes less than that, in whatever order it computes.

        Raises:
            RuntimeError: this plan refutes it.
        """
        self._update(self.found.with_bound_of_every_plan(self.problem, bound_j))

    def _update(self, found: Found) -> None:
        changed, self.found = found != self.found, found
        if changed:
            self._report()

    def _report(self) -> None:
        energy_j = self.found.energy_j
        bound_j = min(self.found.bound_j, energy_j)  # the plan known may be one out of stages
        gap = max(0.0, self.found.gap)
        self._tell(SearchProgress(self._phase, energy_j, bound_j, gap))
