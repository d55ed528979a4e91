"""How the programs are used: what to start from, what to solve first, when to stop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
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
from poetfw.schedule.transfers import plan_transfers

_TIGHTENINGS = 3


@dataclass(frozen=True, slots=True)
class SolveOptions(SolverOptions):
    """How to search for a schedule.

    Attributes:
        window: how far from what a stage differentiates it may compute again, in a first search
            whose result starts the unrestricted one; None to search without restriction at once.
        small_share: tensors that together take at most this share of the budget are left out of
            the first searches; see `without_small_tensors`.
    """

    window: int | None = 8
    small_share: float = 0.01


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
        plan = None if plan is None else plan_transfers(problem, plan)
        simulation = accepts(problem, plan) if plan is not None else None
        if simulation is None or simulation.energy_j >= self.energy_j:
            return self
        bound_j = min(self.bound_j, simulation.energy_j)
        return replace(self, plan=plan, energy_j=simulation.energy_j, bound_j=bound_j)


def best_known(problem: ScheduleProblem, plans: Iterable[ExecutionPlan]) -> Found:
    """The best of some plans. No plan takes less energy than computing each node once."""
    found = Found(None, math.inf, math.fsum(node.energy_j for node in problem.nodes))
    for plan in plans:
        found = found.or_better(problem, plan)
    return found


def search_checkpoint_all(problem: ScheduleProblem, options: SolveOptions, known: Found) -> Found:
    """The plan that keeps everything, if it fits: then nothing is better."""
    return best_known(problem, [checkpoint_all(Indexed.of(problem))])


def search_compact(problem: ScheduleProblem, options: SolveOptions, known: Found) -> Found:
    """The best plan that the compact formulation finds, and never a worse than its start."""
    graph = Indexed.of(problem)
    found = known.or_better(problem, checkpoint_all(graph))
    if found.gap <= 0:
        return found
    if max(map(graph.working_set, range(graph.n))) > problem.ram_bytes:
        return replace(found, bound_j=math.inf)
    found = found.or_better(problem, furthest_use(graph))
    passes = _passes(problem, options)
    ends_s = time.perf_counter() + options.time_limit_s
    try:
        for number, (reduced, window) in enumerate(passes, start=1):
            left_s = max(0.0, ends_s - time.perf_counter())
            limit_s = left_s if number == len(passes) else left_s / 2
            limits = replace(options, time_limit_s=limit_s)
            found = _improve(problem, found, limits, reduced, window)
            if found.gap <= options.gap:
                break
    except KeyboardInterrupt:
        if found.plan is None:
            raise
        return replace(found, interrupted=True)
    return found


def _passes(
    problem: ScheduleProblem, options: SolveOptions
) -> list[tuple[ScheduleProblem, int | None]]:
    """Programs to solve one after the other, each starting from the plan of the one before."""
    reduced = without_small_tensors(problem, options.small_share)
    passes: list[tuple[ScheduleProblem, int | None]] = []
    if options.window is not None and any(node.backward for node in problem.nodes):
        passes.append((reduced, options.window))
    if reduced != problem:
        passes.append((reduced, None))
    return [*passes, (problem, None)]


def without_small_tensors(problem: ScheduleProblem, share: float) -> ScheduleProblem:
    """The problem with its smallest tensors, together at most this share of the budget, for free.

    Batch statistics and losses are a few bytes, but each costs a program as many variables as any
    other tensor. Without them it is a relaxation, so its bound holds; and a plan of it that keeps
    them in RAM as long as they are wanted overruns the budget by little or nothing.
    """
    left_bytes = problem.ram_bytes * share
    nodes = list(problem.nodes)
    for i in sorted(range(len(nodes)), key=lambda i: nodes[i].output_bytes):
        left_bytes -= nodes[i].output_bytes
        if left_bytes < 0:
            break
        nodes[i] = replace(nodes[i], output_bytes=0)
    return replace(problem, nodes=tuple(nodes))


def search_algorithm_1(problem: ScheduleProblem, options: SolveOptions, known: Found) -> Found:
    """The best plan that Algorithm 1 finds."""
    found = known.or_better(problem, checkpoint_all(Indexed.of(problem)))
    if found.gap <= 0:
        return found

    def write(problem: ScheduleProblem) -> _Written:
        formulation = formulate_algorithm_1(Indexed.of(problem))
        return _Written(formulation.program, formulation.stages)

    return _run(problem, found, options, problem, write)


@dataclass(frozen=True)
class _Written:
    """A problem as a program."""

    program: Program
    stages: Callable[[Vector], Stages]
    start: Vector | None = None


def _improve(
    problem: ScheduleProblem,
    found: Found,
    options: SolveOptions,
    reduced: ScheduleProblem,
    window: int | None,
) -> Found:
    """Solve the compact formulation of the reduced problem, starting from what is known."""

    def write(problem: ScheduleProblem) -> _Written:
        graph = Indexed.of(problem)
        compact = formulate(graph, window=window)
        start = compact.start(graph, found.plan) if found.plan else None
        return _Written(compact.program, compact.stages, start)

    improved = _run(problem, found, options, reduced, write)
    # A bound within the window bounds nothing else.
    return improved if window is None else replace(improved, bound_j=found.bound_j)


def _run(
    problem: ScheduleProblem,
    found: Found,
    options: SolveOptions,
    relaxed: ScheduleProblem,
    write: Callable[[ScheduleProblem], _Written],
) -> Found:
    """Solve the program of a relaxation until the simulator accepts its plan for the problem.

    The plan may overrun the budget or the deadline, by what the relaxation leaves out or by a
    solver's tolerance; then the program is solved again with that much less of it.
    """
    graph = Indexed.of(problem)
    tightened = relaxed
    for _ in range(_TIGHTENINGS):
        written = write(tightened)
        solution = solve_program(written.program, options, written.start)
        if tightened is relaxed:
            found = replace(found, bound_j=max(found.bound_j, solution.bound))
        if solution.values is None:
            break
        plan = plan_transfers(problem, lower(graph, written.stages(solution.values)))
        if accepts(problem, plan):
            return found.or_better(problem, plan)
        overrun = unlimited(problem, plan)
        ram_bytes = tightened.ram_bytes - max(0, overrun.peak_bytes - problem.ram_bytes)
        deadline_s = tightened.deadline_s
        if deadline_s is not None and problem.deadline_s is not None:
            deadline_s -= max(0.0, overrun.time_s - problem.deadline_s)
        tightened = replace(tightened, ram_bytes=ram_bytes, deadline_s=deadline_s)
    return found
