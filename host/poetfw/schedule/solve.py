# SPDX-License-Identifier: Apache-2.0
"""Solution of a schedule problem by a named scheduler."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType

from poetfw.common.errors import ConfigError, InfeasibleError, ToolError, is_out_of_memory
from poetfw.common.limits import RAISE_TIME_LIMIT, OutOfTime, Work
from poetfw.schedule.baselines.checkpoint_all import checkpoint_all
from poetfw.schedule.baselines.registry import BASELINES, Baseline, published_plan
from poetfw.schedule.bounds import minimum_budget, require_time_to_compute, shortest_time
from poetfw.schedule.found import Found, Incumbent, Tell, best_known, in_stages, tell_nobody
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.problem import (
    BoundCovers,
    ExecutionPlan,
    PlanFigures,
    Schedule,
    ScheduleProblem,
    Status,
    overhead_gap,
)
from poetfw.schedule.search import (
    SolveOptions,
    search_algorithm_1,
    search_checkpoint_all,
    search_compact,
)
from poetfw.schedule.simulator import simulate, unlimited
from poetfw.schedule.validation import validate

_GAP_TOLERANCE = 1e-7  # relative: solvers and simulator compute in double precision


class Interrupted(KeyboardInterrupt):
    """The user interrupted a solve after it had found a schedule.

    Attributes:
        schedule: the best schedule found, with status INTERRUPTED.
    """

    def __init__(self, schedule: Schedule) -> None:
        super().__init__()
        self.schedule = schedule


@dataclass(frozen=True, slots=True)
class Scheduler:
    """A method that finds a schedule.

    Attributes:
        description: summary in a few words.
        search: improves the incumbent.
        restrict: removes the options that this scheduler does not use, such as paging.
        complete: true if its bound holds for every plan in stages of the restricted problem.
    """

    description: str
    search: Callable[[Incumbent, SolveOptions, Work], None]
    restrict: Callable[[ScheduleProblem], ScheduleProblem] = lambda problem: problem
    complete: bool = True

    @property
    def starts(self) -> bool:
        """True if it may start from plans of other methods."""
        return self.search is search_compact


def without_paging(problem: ScheduleProblem) -> ScheduleProblem:
    """The problem on a board without storage."""
    return replace(problem, storage=None)


def without_recompute(problem: ScheduleProblem) -> ScheduleProblem:
    """The problem with every node computed once."""
    return replace(problem, nodes=tuple(replace(node, recompute=False) for node in problem.nodes))


def _published(baseline: Baseline) -> Scheduler:
    """Wrap a baseline as a scheduler: it offers a plan or raises, and proves no bound."""

    def search(best: Incumbent, options: SolveOptions, work: Work) -> None:
        with best.phase("published methods", work):
            best.offer(published_plan(best.problem, baseline, work))

    return Scheduler(baseline.description, search)


SCHEDULERS: Mapping[str, Scheduler] = MappingProxyType(
    {
        "checkpoint-all": Scheduler("keep every tensor until its last use", search_checkpoint_all),
        "poet": Scheduler("recompute and page, at the least energy", search_compact),
        "poet-paging-off": Scheduler("recompute only", search_compact, without_paging),
        "poet-remat-off": Scheduler("page only", search_compact, without_recompute),
        "poet-algorithm-1": Scheduler(
            "POET's program as published: for small problems", search_algorithm_1, complete=False
        ),
        "checkmate": Scheduler(
            "recompute only, at the least energy (Jain et al. 2020)", search_compact, without_paging
        ),
        **{name: _published(baseline) for name, baseline in BASELINES.items()},
    }
)
"""Every scheduler by its name."""


def solve(
    problem: ScheduleProblem,
    scheduler: str = "poet",
    options: SolveOptions | None = None,
    known: Iterable[ExecutionPlan] = (),
    work: Work | None = None,
    tell: Tell = tell_nobody,
) -> Schedule:
    """Find a schedule that meets the budget and the deadline.

    Without storage, "poet" recomputes only.

    Args:
        problem: the problem to schedule.
        scheduler: a key of `SCHEDULERS`.
        options: options of the search.
        known: plans to start from; plans that this scheduler could not have found are ignored. The
            answer is never worse than the best of the others that meets budget and deadline.
        work: limit of the search; None for the default. The same problem, options, known plans and
            work give the same answer, unless the work's deadline passes.
        tell: called for each phase, better plan and better bound.

    Raises:
        ProblemError: the problem is malformed.
        ConfigError: there is no such scheduler.
        InfeasibleError: no schedule of this scheduler meets the budget and the deadline, or none
            was found within the work; the message names the smallest budget or the shortest time.
        ToolError: the solver is missing or failed, or memory ran out before a schedule was found.
        Interrupted: the user interrupted the search after it had found a schedule.
    """
    if scheduler not in SCHEDULERS:
        raise ConfigError(f"there is no scheduler {scheduler!r}: known are {', '.join(SCHEDULERS)}")
    validate(problem)
    require_time_to_compute(problem)
    options, work = options or SolveOptions(), work or Work()
    method = SCHEDULERS[scheduler]
    restricted = method.restrict(problem)
    found = best_known(restricted, known, work.deadline)
    best = Incumbent(restricted, found, tell, work.deadline)
    interrupted = exhausted = False
    try:
        method.search(best, options, work)
    except OutOfTime:
        pass  # the incumbent is the answer
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        exhausted = True
        best.tell("memory ran out: the best schedule so far is the answer")
    except KeyboardInterrupt:
        if best.found.plan is None:
            raise
        interrupted = True
    best.found.require_truth(best.problem)
    if best.found.plan is None:
        try:
            with best.phase("explanation", work):
                raise (
                    MemoryError if exhausted else _infeasible(restricted, scheduler, options, work)
                )
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            raise ToolError(
                f"memory ran out while {scheduler} looked for a schedule of {problem.name!r}",
                "free some of this computer's memory, or lower the work limit",
            ) from None
    schedule = _schedule(problem, scheduler, restricted, best, options)
    if interrupted:
        raise Interrupted(replace(schedule, status=Status.INTERRUPTED))
    return schedule


def checkpoint_all_schedule(problem: ScheduleProblem) -> Schedule:
    """The schedule that keeps every tensor, with unlimited RAM and time.

    Raises:
        ProblemError: the problem is malformed.
    """
    enough = sum(node.output_bytes + node.workspace_bytes for node in problem.nodes)
    return solve(replace(problem, ram_bytes=enough, deadline_s=None), "checkpoint-all")


def _schedule(
    problem: ScheduleProblem,
    scheduler: str,
    restricted: ScheduleProblem,
    best: Incumbent,
    options: SolveOptions,
) -> Schedule:
    found, once_j = best.found, math.fsum(node.energy_j for node in problem.nodes)
    plan = found.plan
    assert plan is not None
    simulation = simulate(problem, plan)
    if found.bound_j <= once_j * (1 + _GAP_TOLERANCE) or math.isinf(found.bound_j):
        # Every plan computes each node once. An infinite bound means that no plan in stages fits,
        # so this plan is not in stages and only a bound of all plans applies.
        bound_j = found.every_j if restricted == problem else once_j
        found, covers = replace(found, bound_j=bound_j), BoundCovers.ALL
    elif restricted == problem and _is_bound_by_every_plan(found, options):
        found, covers = replace(found, bound_j=found.every_j), BoundCovers.ALL
    elif SCHEDULERS[scheduler].complete and restricted == problem:
        covers = BoundCovers.STAGES
    else:
        covers = BoundCovers.OWN_STAGES
    overhead = simulation.energy_j / once_j - 1 if once_j else None
    proven = found.gap <= options.gap + _GAP_TOLERANCE
    outside = False  # true if at least as good as all plans that the bound covers, and none of them
    if proven and covers is not BoundCovers.ALL:
        proven = _is_in_stages(problem, plan, simulation.energy_j)
        outside = not proven and found.gap <= _GAP_TOLERANCE
    if outside and restricted == problem:
        found, covers, outside = replace(found, bound_j=found.every_j), BoundCovers.ALL, False
    gap = None if outside else max(0.0, found.gap)
    return Schedule(
        **asdict(PlanFigures.of(simulation)),
        scheduler=scheduler,
        status=Status.OPTIMAL if proven else Status.FEASIBLE,
        plan=plan,
        overhead=overhead,
        bound_j=found.bound_j,
        bound_covers=covers,
        gap=gap,
        overhead_gap=overhead_gap(gap, overhead),
    )


def _is_bound_by_every_plan(found: Found, options: SolveOptions) -> bool:
    """True if the bound of all plans is as strong as needed, or as that of plans in stages."""
    enough_j = min(found.bound_j, found.energy_j * (1 - options.gap))
    return found.every_j >= enough_j * (1 - _GAP_TOLERANCE)


def _is_in_stages(problem: ScheduleProblem, plan: ExecutionPlan, energy_j: float) -> bool:
    """True if the plan, converted to stages, takes no more than `energy_j`."""
    simulation = in_stages(problem, plan)
    return simulation is not None and simulation.energy_j <= energy_j * (1 + _GAP_TOLERANCE)


def _infeasible(
    problem: ScheduleProblem, scheduler: str, options: SolveOptions, work: Work
) -> InfeasibleError:
    """Error that names the limit that cannot be met, and a limit that can."""
    if scheduler == "checkpoint-all":
        simulation = unlimited(problem, plan := checkpoint_all(Indexed.of(problem)))
        peak = simulation.peak_bytes
        node, needs, exact = plan[simulation.during_bytes.index(peak)].node, "it needs", True
    else:
        peak, node, exact = minimum_budget(problem, options, work.part(work.left / 2))
        needs = "the smallest feasible budget is" if exact else "a budget known to be feasible is"
        if peak <= problem.ram_bytes:
            return InfeasibleError(
                f"{scheduler} found no schedule of {problem.name!r} within its limits, though one "
                f"exists in {peak + problem.resident_bytes:,} bytes",
                RAISE_TIME_LIMIT if work.deadline.decided else "raise the work limit",
                minimum_budget_bytes=peak + problem.resident_bytes,
            )
    peak += problem.resident_bytes
    within = "" if problem.deadline_s is None else f" within {problem.deadline_s:g} s"
    message = (
        f"{scheduler} {'has' if exact else 'found'} no schedule of {problem.name!r}{within} in "
        f"{problem.budget_bytes:,} bytes: {needs} {peak:,} bytes, for node {node!r}"
    )
    advice = [f"give it {peak:,} bytes or more"]
    if not exact and work.deadline.decided:
        advice.append(RAISE_TIME_LIMIT)
    if problem.deadline_s is not None and scheduler != "checkpoint-all":
        try:
            shortest = shortest_time(problem, options, work)
        except InfeasibleError:
            pass
        else:
            known = (
                "the shortest possible time" if shortest.exact else "a time known to be possible"
            )
            message += f"; in this budget {known} is {shortest.time_s:g} s"
            advice.append(f"set the deadline to {shortest.time_s:g} s or more")
    return InfeasibleError(message, *advice, minimum_budget_bytes=peak)
