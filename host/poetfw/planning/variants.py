# SPDX-License-Identifier: Apache-2.0
"""A schedule problem whose nodes have two kernels: one of least workspace, one faster with more.

A first schedule is found with the kernels of least workspace. A node then uses its faster kernel if
the workspace fits beside the live buffers each time that it runs. A second schedule takes all
faster kernels from the beginning: it may page or recompute tensors to make room for the workspace.
The schedule of less energy is followed; neither takes more than without faster kernels.

A search proves bounds for plans with the kernels of its problem. If some nodes do not use their
faster kernels, the only proven bound is the energy of computing each node once with the faster one.
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
    """A schedule problem in two variants that differ in the cost and workspace of nodes alone.

    Attributes:
        lean: the variant with the least workspace.
        every: the variant in which each node with a faster kernel uses it.
        evaluation_bytes: what the evaluation step, which pages nothing, needs of the budget.
    """

    lean: ScheduleProblem
    every: ScheduleProblem
    evaluation_bytes: int = 0

    @property
    def faster(self) -> tuple[str, ...]:
        """Names of the nodes with a faster kernel, the largest saving first."""
        pairs = zip(self.lean.nodes, self.every.nodes, strict=True)
        saved = {node.name: node.energy_j - fast.energy_j for node, fast in pairs if node != fast}
        return tuple(sorted(saved, key=lambda name: -saved[name]))

    def by(self, names: Collection[str]) -> ScheduleProblem:
        """The problem in which these nodes use their faster kernels."""
        pairs = zip(self.lean.nodes, self.every.nodes, strict=True)
        nodes = tuple(fast if fast.name in names else node for node, fast in pairs)
        return replace(self.lean, nodes=nodes)

    def mapped(self, change: Callable[[ScheduleProblem], ScheduleProblem]) -> Variants:
        """Both variants after the same change."""
        return replace(self, lean=change(self.lean), every=change(self.every))

    @cached_property
    def _minimum_bytes(self) -> int:
        """The smallest budget beside resident bytes, found once for all that are refused."""
        return minimum_budget(self.lean).bytes

    def within(self, budget_bytes: int) -> Variants:
        """The problem within a budget, of which resident bytes are a part.

        Raises:
            InfeasibleError: the resident bytes, or what evaluation needs, are more.
        """
        resident_bytes = self.lean.resident_bytes
        needed = max(resident_bytes, self.evaluation_bytes)
        if needed > budget_bytes:
            if resident_bytes > budget_bytes:
                why = "parameters, optimizer state and the page buffer, which never leave RAM, take"
            else:
                why = "evaluation, which pages nothing, takes"
            minimum = max(needed, resident_bytes + self._minimum_bytes)
            raise InfeasibleError(
                f"the budget of {budget_bytes:,} bytes is too small: at least {minimum:,} are "
                f"needed, and {why} {needed:,}",
                f"give it {minimum:,} bytes or more",
                minimum_budget_bytes=minimum,
            )
        return self.mapped(partial(replace, ram_bytes=budget_bytes - resident_bytes))

    def budget_bytes(self, fraction: float | Fraction) -> int:
        """The budget at a fraction of what keeping everything takes beside resident bytes."""
        shared_bytes = checkpoint_all_schedule(self.every).peak_bytes
        return min(LARGEST_BYTES, self.lean.resident_bytes + int(fraction * shared_bytes))

    def fraction_of(self, budget_bytes: int) -> Fraction:
        """The fraction that corresponds to a budget in bytes."""
        shared_bytes = checkpoint_all_schedule(self.every).peak_bytes
        return Fraction(budget_bytes - self.lean.resident_bytes, shared_bytes)


def modelled_as(variants: Variants, name: str) -> Variants:
    """A problem as `poetfw.schedule.MODELS_AS` has it; what POET's paper models only trains."""
    changed = variants.mapped(MODELS_AS[name])
    return changed if name == "device" else replace(changed, evaluation_bytes=0)


def use_faster(
    variants: Variants,
    found: _Found,
    follow: Callable[[Schedule], _Found | None],
    search: Callable[[ExecutionPlan], _Found],
) -> _Found:
    """Find a schedule with faster kernels in more workspace, if one is better.

    Args:
        variants: the problem, within its budget and deadline.
        found: what was found for it with less workspace.
        follow: makes the result of a schedule with faster kernels; None where that is infeasible.
        search: searches with all faster kernels, from a known plan if one is given.

    Raises:
        Interrupted: the user interrupted the search: the best that was known.
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
    """The schedule that `solve` finds, in whichever ways the nodes run. Addresses are not searched.

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
    """The schedule of less energy; `other` if both take the same."""
    return other if other.energy_j <= one.energy_j else one


def _is_legal(problem: ScheduleProblem, plan: ExecutionPlan) -> bool:
    try:
        simulate(problem, plan)
    except PlanError:
        return False
    return True


def _running(variants: Variants, names: Collection[str], schedule: Schedule) -> Schedule:
    """A schedule's figures when only these nodes use their faster kernels."""
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
