# SPDX-License-Identifier: Apache-2.0
"""Lower bounds of schedules: the smallest budget, and the shortest time."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

from poetfw.common.errors import InfeasibleError
from poetfw.common.limits import OutOfTime, Work
from poetfw.schedule.baselines.checkpoint_all import checkpoint_all
from poetfw.schedule.baselines.furthest_use import furthest_use
from poetfw.schedule.compact import Objective, formulate
from poetfw.schedule.contract import SMALL_SHARE, Contraction, Means, contract
from poetfw.schedule.every_plan import bound_of_every_plan
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.milp import SolverOptions, solve_program
from poetfw.schedule.orders import in_better_order
from poetfw.schedule.plan import lower
from poetfw.schedule.problem import ExecutionPlan, ScheduleProblem
from poetfw.schedule.simulator import TIME_TOLERANCE, Simulation, accepts, simulate, unlimited
from poetfw.schedule.transfers import plan_transfers
from poetfw.schedule.validation import validate

_ORDER_SHARE = 0.1  # of the work
_NEARBY = 5  # nodes: window of a first plan; see `compact.formulate`


class MinimumBudget(NamedTuple):
    """The smallest budget.

    Attributes:
        bytes: smallest budget for which a plan is known.
        node: node at which that plan needs it.
        exact: true if no smaller budget is feasible in any order: it is the working set of a node,
            or a smaller budget was proven infeasible.
    """

    bytes: int
    node: str
    exact: bool


class ShortestTime(NamedTuple):
    """The shortest time of a training step.

    Attributes:
        time_s: seconds of the fastest plan known.
        exact: true if no plan takes less: it is the time of computing each node once.
    """

    time_s: float
    exact: bool


def largest_working_set(problem: ScheduleProblem) -> int:
    """Bytes of the inputs, output and workspace of one node, at most: no budget is smaller."""
    return max(working_sets(problem).values())


def working_sets(problem: ScheduleProblem) -> dict[str, int]:
    """Bytes of the inputs, output and workspace of each node, by name."""
    graph = Indexed.of(problem)
    return {node.name: graph.working_set(i) for i, node in enumerate(problem.nodes)}


def minimum_budget(
    problem: ScheduleProblem, options: SolverOptions | None = None, work: Work | None = None
) -> MinimumBudget:
    """The smallest `ram_bytes` with which the problem, deadline included, has a plan.

    It is the largest working set (inputs, output and workspace of one node) if paging achieves
    that. If tensors cannot be paged, or the deadline forbids it, a program searches for it.

    Args:
        problem: the problem; its `ram_bytes` is ignored.
        options: options for solving programs.
        work: limit of the search; None for the default.

    Raises:
        ProblemError: the problem is malformed.
        InfeasibleError: the deadline is shorter than computing each node once.
    """
    validate(problem)
    require_time_to_compute(problem)
    graph = Indexed.of(problem)
    largest = max(range(graph.n), key=graph.working_set)
    floor = replace(problem, ram_bytes=graph.working_set(largest))
    plan = furthest_use(Indexed.of(floor))
    if plan is not None and accepts(floor, plan):
        return MinimumBudget(floor.ram_bytes, problem.nodes[largest].name, exact=True)
    options, work = options or SolverOptions(), work or Work()
    if graph.is_rigid:
        return _least_of_orders(floor, work)
    plans = [small_plan(problem, options, work.part(work.left / 4))]
    ordered = in_better_order(floor, work.part(work.left * _ORDER_SHARE))
    if ordered != floor:
        plans.append(small_plan(ordered, options, work.part(work.left / 3)))
    best = min(plans, key=lambda plan: unlimited(problem, plan).peak_bytes)
    found = _best_in_stages(Contraction.nothing(ordered), Objective.PEAK, best, options, work)
    if found is not None:
        needed = replace(problem, ram_bytes=unlimited(problem, found).peak_bytes)
        plans.append(plan_transfers(needed, found, work.deadline))
    plans = [plan for plan in plans if _in_time(problem, unlimited(problem, plan))]
    best = min(plans, key=lambda plan: unlimited(problem, plan).peak_bytes)
    simulation = unlimited(problem, best)
    peak = simulation.peak_bytes
    return MinimumBudget(
        peak, best[simulation.during_bytes.index(peak)].node, exact=peak == floor.ram_bytes
    )


def _least_of_orders(problem: ScheduleProblem, work: Work) -> MinimumBudget:
    """The smallest budget found for a problem whose plans differ only in their order."""
    given = checkpoint_all(Indexed.of(problem))
    peak = unlimited(problem, given).peak_bytes
    less = Indexed.of(replace(problem, ram_bytes=peak - 1))
    exact = math.isinf(bound_of_every_plan(less, work))
    plans = [given]
    if not exact:
        ordered = in_better_order(problem, work.part(work.left * _ORDER_SHARE))
        plans.append(checkpoint_all(Indexed.of(ordered)))
    best = min(plans, key=lambda plan: unlimited(problem, plan).peak_bytes)
    simulation = unlimited(problem, best)
    peak = simulation.peak_bytes
    exact |= peak == problem.ram_bytes
    return MinimumBudget(peak, best[simulation.during_bytes.index(peak)].node, exact)


def small_plan(problem: ScheduleProblem, options: SolverOptions, work: Work) -> ExecutionPlan:
    """A plan that needs little RAM and meets the deadline, if found; the budget is ignored."""
    plan = checkpoint_all(Indexed.of(problem))
    found = _search_nearby(problem, Objective.PEAK, plan, options, work)
    if found is None or not _in_time(problem, unlimited(problem, found)):
        return plan
    return min(plan, found, key=lambda plan: unlimited(problem, plan).peak_bytes)


def quick_plan(
    problem: ScheduleProblem, options: SolverOptions, work: Work
) -> ExecutionPlan | None:
    """A plan within the budget that takes little time; the deadline is ignored."""
    problem = replace(problem, deadline_s=None)
    start = furthest_use(Indexed.of(problem))
    return _search_nearby(problem, Objective.TIME, start, options, work)


def _search_nearby(
    problem: ScheduleProblem,
    objective: Objective,
    start: ExecutionPlan | None,
    options: SolverOptions,
    work: Work,
) -> ExecutionPlan | None:
    """The best plan found of the contracted problem, with recomputes only within `_NEARBY`."""
    if not any(node.backward for node in problem.nodes):
        return None
    contraction = contract(problem, Means.RESTRICTION, SMALL_SHARE)
    return _best_in_stages(contraction, objective, start, options, work, _NEARBY)


def _best_in_stages(
    contraction: Contraction,
    objective: Objective,
    start: ExecutionPlan | None,
    options: SolverOptions,
    work: Work,
    window: int | None = None,
) -> ExecutionPlan | None:
    """The best plan in stages found for a contracted problem, within a window."""
    if not work.is_left():
        return None
    graph, near = Indexed.of(contraction.contracted), window is not None
    try:
        compact = formulate(
            graph, objective, window=window, close_stages=near, deadline=work.deadline
        )
    except OutOfTime:
        return None
    first = compact.start(graph, contraction.contract(start)) if start else None
    solution = solve_program(compact.program, options, work, first)
    if solution.values is None:
        return None
    return contraction.expand(lower(graph, compact.stages(solution.values)))


def shortest_time(
    problem: ScheduleProblem, options: SolverOptions | None = None, work: Work | None = None
) -> ShortestTime:
    """The shortest time of a training step within the budget.

    Args:
        problem: the problem; its deadline is ignored.
        options: options for solving programs.
        work: limit of the search; None for the default.

    Raises:
        ProblemError: the problem is malformed.
        InfeasibleError: no plan within the budget was found.
    """
    validate(problem)
    problem = replace(problem, deadline_s=None)
    graph = Indexed.of(problem)
    simulation = accepts(problem, checkpoint_all(graph))
    if simulation:
        return ShortestTime(simulation.time_s, exact=True)
    options, work = options or SolverOptions(), work or Work()
    ordered = in_better_order(problem, work.part(work.left * _ORDER_SHARE))
    plans = (
        checkpoint_all(Indexed.of(ordered)),
        furthest_use(graph),
        quick_plan(problem, options, work.part(work.left / 2)),
    )
    known = [plan for plan in plans if plan is not None and accepts(problem, plan)]
    quickest = min(known, key=lambda plan: simulate(problem, plan).time_s, default=None)
    found = _best_in_stages(Contraction.nothing(ordered), Objective.TIME, quickest, options, work)
    if found is not None:
        known.append(found)
    simulations = [accepts(problem, plan_transfers(problem, plan, work.deadline)) for plan in known]
    times = [simulation.time_s for simulation in simulations if simulation]
    if not times:
        raise InfeasibleError(
            f"no schedule of {problem.name!r} fits in {problem.budget_bytes:,} bytes"
        )
    once_s = math.fsum(node.time_s for node in problem.nodes)
    return ShortestTime(min(times), exact=min(times) <= once_s * (1 + TIME_TOLERANCE))


def require_time_to_compute(problem: ScheduleProblem) -> None:
    """Refuse a deadline that even unlimited RAM cannot meet.

    Raises:
        InfeasibleError: computing each node once takes longer; the message says how long.
    """
    shortest_s = math.fsum(node.time_s for node in problem.nodes)
    deadline_s = problem.deadline_s
    if deadline_s is not None and shortest_s > deadline_s * (1 + TIME_TOLERANCE):
        raise InfeasibleError(
            f"no schedule of {problem.name!r} takes {deadline_s:g} s or less: computing each node "
            f"once takes {shortest_s:g} s, the shortest possible time",
            f"set the deadline to {shortest_s:g} s or more",
        )


def _in_time(problem: ScheduleProblem, simulation: Simulation) -> bool:
    deadline_s = problem.deadline_s
    return deadline_s is None or simulation.time_s <= deadline_s * (1 + TIME_TOLERANCE)
