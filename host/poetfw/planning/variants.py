# SPDX-License-Identifier: Apache-2.0
"""Schedule problems whose nodes have two kernels: one of least workspace, and a faster one.

A first schedule is found with the kernels of least workspace. A node then uses its faster kernel if
the workspace fits into free RAM each time that the node runs. A second schedule uses all faster
kernels from the beginning, and may page or recompute tensors to make room for their workspace. The
schedule of less energy is used; it never takes more energy than one without faster kernels.

A search proves bounds for plans with the kernels of its problem. If some nodes do not use their
faster kernels, the bound is the energy of computing each node once with its faster kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import TypeVar

from poetfw.common.errors import InfeasibleError, PlanError
from poetfw.common.limits import Work
from poetfw.common.option_values import LARGEST_BYTES
from poetfw.planning.inference import ATTEMPT_SHARE
from poetfw.planning.plans import Scheduled
from poetfw.schedule import (
    MODELS_AS,
    BoundCovers,
    ExecutionPlan,
    Interrupted,
    PlanFigures,
    Schedule,
    ScheduleProblem,
    SolveOptions,
    Status,
    Tell,
    checkpoint_all_schedule,
    minimum_budget,
    overhead_gap,
    simulate,
    solve,
    tell_nobody,
)

_Found = TypeVar("_Found", bound=Scheduled)


@dataclass(frozen=True)
class Variants:
    """Schedule problem in two variants, which differ only in the nodes' costs and workspace.

    Attributes:
        lean: variant with the kernels of least workspace.
        every: variant in which each node with a faster kernel uses it.
        evaluation_bytes: budget in bytes that the evaluation step needs, without paging.
    """

    lean: ScheduleProblem
    every: ScheduleProblem
    evaluation_bytes: int = 0

    @property
    def faster(self) -> tuple[str, ...]:
        """Names of the nodes with a faster kernel, in descending order of saved energy."""
        pairs = zip(self.lean.nodes, self.every.nodes, strict=True)
        saved = {node.name: node.energy_j - fast.energy_j for node, fast in pairs if node != fast}
        return tuple(sorted(saved, key=lambda name: -saved[name]))

    def by(self, names: Collection[str]) -> ScheduleProblem:
        """The problem in which the named nodes use their faster kernels."""
        pairs = zip(self.lean.nodes, self.every.nodes, strict=True)
        nodes = tuple(fast if fast.name in names else node for node, fast in pairs)
        return replace(self.lean, nodes=nodes)

    def mapped(self, change: Callable[[ScheduleProblem], ScheduleProblem]) -> Variants:
        """Apply a function to both variants."""
        return replace(self, lean=change(self.lean), every=change(self.every))

    @cached_property
    def _minimum_bytes(self) -> int:
        """Smallest feasible budget without resident bytes, cached for all refused budgets."""
        return minimum_budget(self.lean).bytes

    def within(self, budget_bytes: int) -> Variants:
        """The problem within a budget that includes resident bytes.

        Raises:
            InfeasibleError: The budget is smaller than the resident bytes or `evaluation_bytes`.
        """
        resident_bytes = self.lean.resident_bytes
        needed = max(resident_bytes, self.evaluation_bytes)
        if needed > budget_bytes:
            if resident_bytes > budget_bytes:
                why = "parameters, optimizer state and the page buffer, which never leave RAM, take"
            else:
                why = "the evaluation step, which recomputes nothing, takes"
            minimum = max(needed, resident_bytes + self._minimum_bytes)
            raise InfeasibleError(
                f"the budget of {budget_bytes:,} bytes is too small: at least {minimum:,} are "
                f"needed, and {why} {needed:,}",
                f"give it {minimum:,} bytes or more",
                minimum_budget_bytes=minimum,
            )
        return self.mapped(partial(replace, ram_bytes=budget_bytes - resident_bytes))

    def budget_bytes(self, fraction: float | Fraction) -> int:
        """Resident bytes plus a fraction of the other bytes that keeping everything takes."""
        shared_bytes = checkpoint_all_schedule(self.every).peak_bytes
        return min(LARGEST_BYTES, self.lean.resident_bytes + int(fraction * shared_bytes))

    def fraction_of(self, budget_bytes: int) -> Fraction:
        """Fraction that corresponds to a budget in bytes; inverse of `budget_bytes`."""
        shared_bytes = checkpoint_all_schedule(self.every).peak_bytes
        return Fraction(budget_bytes - self.lean.resident_bytes, shared_bytes)


def modelled_as(variants: Variants, name: str) -> Variants:
    """Model a problem as named in `poetfw.schedule.MODELS_AS`; POET's model has no evaluation."""
    changed = variants.mapped(MODELS_AS[name])
    return changed if name == "device" else replace(changed, evaluation_bytes=0)


def use_faster(
    variants: Variants,
    found: _Found,
    follow: Callable[[Schedule], _Found | None],
    search: Callable[[ExecutionPlan], _Found],
) -> _Found:
    """Find a better schedule that uses faster kernels with more workspace, if there is one.

    Args:
        variants: the problem, within its budget and deadline.
        found: result with the kernels of least workspace.
        follow: creates the result of a schedule with faster kernels; None if it is infeasible.
        search: searches with all faster kernels, starting from a plan.

    Raises:
        Interrupted: The user interrupted the search; the exception has the best schedule so far.
    """
    faster = variants.faster
    if not faster:
        return found
    plan = found.training.plan
    taken = [name for name in faster if _is_legal(variants.by([name]), plan)]
    found = replace(found, training=_running(variants, (), found.training))
    while taken:
        followed = follow(_running(variants, taken, found.training))
        if followed is not None:
            found = followed
            break
        taken.pop()
    try:
        again = search(plan)
    except InfeasibleError:
        return found
    except KeyboardInterrupt as stop:
        best = found.training
        if isinstance(stop, Interrupted):
            best = _better(best, replace(stop.schedule, faster=faster))
        raise Interrupted(replace(best, status=Status.INTERRUPTED)) from None
    again = replace(again, training=replace(again.training, faster=faster))
    return again if _better(found.training, again.training) is again.training else found


def solve_variants(
    variants: Variants,
    scheduler: str = "poet",
    options: SolveOptions | None = None,
    known: Iterable[ExecutionPlan] = (),
    work: Work | None = None,
    tell: Tell = tell_nobody,
) -> Schedule:
    """Find a schedule with `solve` for either kernel of each node, without searching addresses.

    Arguments and errors are those of `solve`; both searches share the work.
    """
    work, known = work or Work(), tuple(known)
    first = work.part(work.left * ATTEMPT_SHARE) if variants.faster else work
    try:
        found = solve(variants.lean, scheduler, options, known, first, tell)
    except Interrupted as stop:
        raise Interrupted(_running(variants, (), stop.schedule)) from None

    def search(plan: ExecutionPlan) -> Scheduled:
        return Scheduled(solve(variants.every, scheduler, options, (*known, plan), work, tell))

    return use_faster(variants, Scheduled(found), Scheduled, search).training


def _better(one: Schedule, other: Schedule) -> Schedule:
    """The schedule of less energy; `other` if both are equal."""
    return other if other.energy_j <= one.energy_j else one


def _is_legal(problem: ScheduleProblem, plan: ExecutionPlan) -> bool:
    try:
        simulate(problem, plan)
    except PlanError:
        return False
    return True


def _running(variants: Variants, names: Collection[str], schedule: Schedule) -> Schedule:
    """The schedule with its figures if only the named nodes use their faster kernels."""
    if not variants.faster:
        return schedule
    simulation = simulate(variants.by(names), schedule.plan)
    energy_j = simulation.energy_j
    once_j = math.fsum(node.energy_j for node in variants.every.nodes)
    overhead = energy_j / once_j - 1 if once_j else None
    gap = (energy_j - once_j) / energy_j if energy_j else 0.0
    status = Status.OPTIMAL if gap <= SolveOptions().gap else Status.FEASIBLE
    return replace(
        schedule,
        **asdict(PlanFigures.of(simulation)),
        status=Status.INTERRUPTED if schedule.status is Status.INTERRUPTED else status,
        overhead=overhead,
        bound_j=once_j,
        bound_covers=BoundCovers.ALL,
        gap=gap,
        overhead_gap=overhead_gap(gap, overhead),
        faster=tuple(names),
    )
