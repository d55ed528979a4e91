"""How the programs are used: what to start from, what to solve first, when to stop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from poetfw.schedule.algorithm_1 import formulate_algorithm_1
from poetfw.schedule.baselines.checkpoint_all import checkpoint_all
from poetfw.schedule.baselines.furthest_use import furthest_use
from poetfw.schedule.bounds import accepts, unlimited
from poetfw.schedule.compact import formulate
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.milp import Program, SolverOptions, Vector, solve_program
from poetfw.schedule.plan import Stages, lower
from poetfw.schedule.problem import ExecutionPlan, ScheduleProblem

_ROUNDING_RETRIES = 3


@dataclass(frozen=True, slots=True)
class SolveOptions(SolverOptions):
    """How to search for a schedule.

    Attributes:
        window: how far from what a stage differentiates it may compute again, in a first search
            whose result starts the unrestricted one; None to search without restriction at once.
    """

    window: int | None = 8


@dataclass(frozen=True, slots=True)
class Found:
    """What a search knows.

    Attributes:
        plan: the best plan, which the simulator accepts; None without one.
        energy_j: its energy; infinite without one.
        bound_j: no plan that the formulation can express takes less; infinite if there is none.
        interrupted: whether the user ended the search.
    """

    plan: ExecutionPlan | None
    energy_j: float
    bound_j: float
    interrupted: bool = False

    @property
    def gap(self) -> float:
        """(energy_j - bound_j) / energy_j; 1 without a plan."""
        if self.plan is None:
            return 1.0
        return (self.energy_j - self.bound_j) / self.energy_j if self.energy_j else 0.0

    def or_better(self, problem: ScheduleProblem, plan: ExecutionPlan | None) -> Found:
        """With this plan instead, if the simulator accepts it and it takes less energy."""
        simulation = accepts(problem, plan) if plan is not None else None
        if simulation is None or simulation.energy_j >= self.energy_j:
            return self
        bound_j = min(self.bound_j, simulation.energy_j)
        return replace(self, plan=plan, energy_j=simulation.energy_j, bound_j=bound_j)


def search_checkpoint_all(problem: ScheduleProblem, options: SolveOptions) -> Found:
    """The plan that keeps everything, if it fits: then nothing is better."""
    bound_j = math.fsum(node.energy_j for node in problem.nodes)
    nothing = Found(None, math.inf, bound_j)
    return nothing.or_better(problem, checkpoint_all(Indexed.of(problem)))


def search_compact(problem: ScheduleProblem, options: SolveOptions) -> Found:
    """The best plan that the compact formulation finds, and never a worse than its start."""
    found = search_checkpoint_all(problem, options)
    graph = Indexed.of(problem)
    if found.plan is not None:
        return found
    if max(map(graph.working_set, range(graph.n))) > problem.ram_bytes:
        return replace(found, bound_j=math.inf)
    found = found.or_better(problem, furthest_use(graph))
    windows: list[int | None] = [None]
    if options.window is not None and any(node.backward for node in problem.nodes):
        windows.insert(0, options.window)
    ends_s = time.perf_counter() + options.time_limit_s
    try:
        for window in windows:
            left_s = max(0.0, ends_s - time.perf_counter())
            limits = replace(options, time_limit_s=left_s if window is None else left_s / 2)
            found = _improve(problem, found, limits, window)
            if found.gap <= options.gap:
                break
    except KeyboardInterrupt:
        if found.plan is None:
            raise
        return replace(found, interrupted=True)
    return found


def search_algorithm_1(problem: ScheduleProblem, options: SolveOptions) -> Found:
    """The best plan that Algorithm 1 finds."""
    found = search_checkpoint_all(problem, options)
    if found.plan is not None:
        return found

    def write(problem: ScheduleProblem) -> _Written:
        graph = Indexed.of(problem)
        formulation = formulate_algorithm_1(graph)
        return _Written(graph, formulation.program, formulation.stages)

    return _run(problem, found, options, write)


@dataclass(frozen=True)
class _Written:
    """A problem as a program."""

    graph: Indexed
    program: Program
    stages: Callable[[Vector], Stages]
    start: Vector | None = None


def _improve(
    problem: ScheduleProblem, found: Found, options: SolveOptions, window: int | None
) -> Found:
    """Solve the compact formulation, starting from what is known."""

    def write(problem: ScheduleProblem) -> _Written:
        graph = Indexed.of(problem)
        compact = formulate(graph, window=window)
        start = compact.start(graph, found.plan) if found.plan else None
        return _Written(graph, compact.program, compact.stages, start)

    improved = _run(problem, found, options, write)
    # A bound within the window bounds nothing else.
    return improved if window is None else replace(improved, bound_j=found.bound_j)


def _run(
    problem: ScheduleProblem,
    found: Found,
    options: SolveOptions,
    write: Callable[[ScheduleProblem], _Written],
) -> Found:
    """Solve a program until the simulator accepts its plan.

    A solver's tolerance may let a plan overrun the budget or the deadline by a hair; then the
    program is solved again with that much less of it.
    """
    tightened = problem
    for _ in range(_ROUNDING_RETRIES):
        written = write(tightened)
        solution = solve_program(written.program, options, written.start)
        if tightened is problem:
            found = replace(found, bound_j=max(found.bound_j, solution.bound))
        if solution.values is None:
            break
        plan = lower(written.graph, written.stages(solution.values))
        if accepts(problem, plan):
            return found.or_better(problem, plan)
        over = unlimited(problem, plan)
        overrun_bytes = max(0, over.peak_bytes - problem.ram_bytes)
        deadline_s = tightened.deadline_s
        if deadline_s is not None and problem.deadline_s is not None:
            deadline_s -= max(0.0, over.time_s - problem.deadline_s)
        tightened = replace(
            tightened, ram_bytes=tightened.ram_bytes - overrun_bytes, deadline_s=deadline_s
        )
    return found
