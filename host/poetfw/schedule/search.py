# SPDX-License-Identifier: Apache-2.0
"""How the programs are used: what to start from, what to solve first, when to stop."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from poetfw.errors import UnsuitableError
from poetfw.limits import OutOfTime, Work
from poetfw.schedule.algorithm_1 import formulate_algorithm_1
from poetfw.schedule.baselines.checkpoint_all import checkpoint_all
from poetfw.schedule.baselines.furthest_use import furthest_use
from poetfw.schedule.baselines.registry import BASELINES
from poetfw.schedule.blocks import Blocks, cost_blocks, formulate_blocks
from poetfw.schedule.bounds import accepts, quick_plan, small_plan, unlimited
from poetfw.schedule.compact import WINDOW, formulate
from poetfw.schedule.contract import SMALL_SHARE, Contraction, Means, contract
from poetfw.schedule.cuts.cut import Cut, Residency
from poetfw.schedule.cuts.lineage import Lineage
from poetfw.schedule.fixing import without_what_costs_more
from poetfw.schedule.highs import Vector
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.milp import DEFAULT_SOLVER, Program, SolverOptions, solve_program
from poetfw.schedule.plan import Stages, lower
from poetfw.schedule.problem import ExecutionPlan, ScheduleProblem
from poetfw.schedule.strengthen import strengthen, strengthen_blocks
from poetfw.schedule.transfers import plan_transfers

_TIGHTENINGS = 3
_FIRST_PLAN_SHARE = 0.25  # of the work
_BLOCKS_SHARE = 0.15  # of the work left
_CUTS_SHARE = 0.5  # of a pass; the rest is for its integer program
_FEWER_BLOCKS = 0.5  # of the stages: more blocks make no smaller program
_LARGE = 20_000  # recomputations that a program could choose from: then blocks must do
_WINDOW_STAGES = 6_000  # 20 nodes in 300 stages
_LEAST_WINDOW = 8
_WINDOW_SHARE = 0.4  # of the work left; plans come from the window, global bounds from what follows
_ROUNDING = 1e-6  # relative: solvers work in doubles, and within tolerances
_UNFOUND_SHARE = 0.5  # of it, while there is no plan: that there is none must be explained


@dataclass(frozen=True, slots=True)
class SolveOptions(SolverOptions):
    """How to search for a schedule.

    Attributes:
        window: how far from what a stage differentiates it may compute again, in a first search
            whose result starts the unrestricted one: at most, for there are shorter ones for
            large problems. None to search without restriction at once.
        small_share: tensors that together take at most this share of the budget are looked at
            less closely in the first search; see `contract`.
        least_share: the same for bounds, which small tensors add to.
    """

    window: int | None = WINDOW
    small_share: float = SMALL_SHARE
    least_share: float = 0.01


@dataclass(frozen=True, slots=True)
class Found:
    """What a search knows.

    Attributes:
        plan: the best plan, which the simulator accepts; None without one.
        energy_j: its energy; infinite without one.
        bound_j: no plan in stages takes less; infinite if there is none. Other plans may.
        interrupted: whether the user ended the search.
    """

    plan: ExecutionPlan | None
    energy_j: float
    bound_j: float
    interrupted: bool = False

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
        staged = plan_transfers(problem, Contraction.nothing(problem).contract(self.plan))
        deadline_s = problem.deadline_s
        if deadline_s is not None:
            # The simulator lets plans take a little longer than programs do.
            deadline_s *= 1 - _ROUNDING
        simulation = accepts(replace(problem, deadline_s=deadline_s), staged)
        if simulation is not None and simulation.energy_j * (1 + _ROUNDING) < bound_j:
            raise RuntimeError(
                f"a plan of {problem.name!r} in stages takes {simulation.energy_j:.9g} J, though a "
                f"program proved that none takes less than {bound_j:.9g} J"
            )

    def or_better(self, problem: ScheduleProblem, plan: ExecutionPlan | None) -> Found:
        """With this plan instead, if the simulator accepts it and it takes less energy."""
        plan = None if plan is None else plan_transfers(problem, plan)
        simulation = accepts(problem, plan) if plan is not None else None
        if simulation is None or simulation.energy_j >= self.energy_j:
            return self
        return replace(self, plan=plan, energy_j=simulation.energy_j)


def best_known(problem: ScheduleProblem, plans: Iterable[ExecutionPlan]) -> Found:
    """The best of some plans. No plan takes less energy than computing each node once."""
    found = Found(None, math.inf, math.fsum(node.energy_j for node in problem.nodes))
    for plan in plans:
        found = found.or_better(problem, plan)
    return found


def search_checkpoint_all(
    problem: ScheduleProblem, options: SolveOptions, work: Work, known: Found
) -> Found:
    """The plan that keeps everything, if it fits: then nothing is better."""
    return best_known(problem, [checkpoint_all(Indexed.of(problem))])


def search_compact(
    problem: ScheduleProblem, options: SolveOptions, work: Work, known: Found
) -> Found:
    """The best plan that the compact formulation finds, and never a worse than its start.

    It starts from the best of the published methods. A first program, of the contracted problem
    and restricted to a window, finds a good plan quickly; those that follow are of relaxations,
    for a global bound, and of the problem itself. Each leaves out what cannot be part of a plan
    that is better than the best known.
    """
    graph = Indexed.of(problem)
    found = known.or_better(problem, checkpoint_all(graph))
    if found.gap <= 0:
        return found
    if max(map(graph.working_set, range(graph.n))) > problem.ram_bytes:
        return replace(found, bound_j=math.inf)
    try:
        with work.phase("published methods"):
            found = found.or_better(problem, furthest_use(graph))
            for plan in _published_plans(problem, work):
                found = found.or_better(problem, plan)
        units = work.left * _FIRST_PLAN_SHARE
        for first in (small_plan, quick_plan):
            if found.plan is None:
                with work.part(units).phase("first plan") as part:
                    found = found.or_better(problem, first(problem, options, part))
        for search in (_search_nearby, _search_relaxation, _search_everything):
            if not work.is_left() or found.gap <= options.gap:
                break
            found = search(problem, found, options, work)
    except OutOfTime:
        pass
    except KeyboardInterrupt:
        if found.plan is None:
            raise
        found = replace(found, interrupted=True)
    return found.require_truth(problem)


def _published_plans(problem: ScheduleProblem, work: Work) -> Iterator[ExecutionPlan]:
    """What the published methods find."""
    for baseline in work.deadline.during(BASELINES.values()):
        try:
            yield baseline.plan(problem, work.deadline)
        except UnsuitableError:
            continue


@dataclass(frozen=True, slots=True)
class _Hints:
    """Cuts that a relaxation by blocks rests on."""

    blocks: Blocks
    lineages: tuple[Lineage, ...]

    def cuts(self, residency: Residency) -> list[Cut]:
        """As cuts of the program itself."""
        stages = [x for lineage in self.lineages for x in self.blocks.in_stages(lineage, residency)]
        return list({cut.terms: cut for cut in (x.cut(residency) for x in stages)}.values())


@dataclass(frozen=True, slots=True)
class _Pass:
    """A program to solve, starting from the plan of the one before.

    Attributes:
        name: of the phase.
        contraction: the problem and what stands for it.
        window: where it may compute again; None for anywhere.
        hints: cuts to begin with.
    """

    name: str
    contraction: Contraction
    window: int | None = None
    hints: _Hints | None = None


def _search_nearby(
    problem: ScheduleProblem, found: Found, options: SolveOptions, work: Work
) -> Found:
    """Search the contracted problem for plans that compute again only within a window."""
    if options.window is None or not any(node.backward for node in problem.nodes):
        return found
    better = without_what_costs_more(problem, found.energy_j)
    nearby = contract(better, Means.RESTRICTION, options.small_share)
    share = _WINDOW_SHARE if found.plan is not None else _WINDOW_SHARE * _UNFOUND_SHARE
    stages = len(nearby.contracted.nodes)
    window = min(options.window, max(_LEAST_WINDOW, _WINDOW_STAGES // stages))
    attempt = _Pass("plans nearby", nearby, window)
    with work.part(work.left * share).phase(attempt.name) as part:
        return _improve(problem, found, options, part, attempt)


def _search_relaxation(
    problem: ScheduleProblem, found: Found, options: SolveOptions, work: Work
) -> Found:
    """Bound what any plan takes: by blocks, and where that is small enough by all stages."""
    better = without_what_costs_more(problem, found.energy_j)
    relaxed = contract(better, Means.RELAXATION, options.least_share)
    graph = Indexed.of(relaxed.contracted)
    ranges = cost_blocks(graph)
    attempt = _Pass("relaxation", relaxed)
    if options.solver != DEFAULT_SOLVER or len(ranges) > _FEWER_BLOCKS * graph.n:
        if relaxed.contracted == better:
            return found
        with work.phase(attempt.name):
            return _improve(problem, found, options, work, attempt)
    blocks = formulate_blocks(graph, ranges, work.deadline)
    is_large = _is_large(graph)
    with work.part(work.left * (1.0 if is_large else _BLOCKS_SHARE)).phase("blocks") as part:
        cutting = part.part(part.left * (_CUTS_SHARE if is_large else 1.0))
        bound_j, lineages = strengthen_blocks(blocks, found.energy_j, cutting)
        if is_large:
            bound_j = max(bound_j, solve_program(blocks.program, options, part).bound)
    found = found.with_bound(problem, bound_j)
    if is_large or found.gap <= options.gap:
        return found
    attempt = replace(attempt, hints=_Hints(blocks, tuple(lineages)))
    proof = replace(options, heuristics=False)
    with work.part(work.left).phase(attempt.name) as part:
        return _improve(problem, found, proof, part, attempt)


def _is_large(graph: Indexed) -> bool:
    """Whether the unrestricted program is more than a computer holds."""
    return sum(last - i for i, last in enumerate(graph.last_recompute)) > _LARGE


def _search_everything(
    problem: ScheduleProblem, found: Found, options: SolveOptions, work: Work
) -> Found:
    """Search the problem as it is, unless it is large."""
    if _is_large(Indexed.of(problem)):
        return found
    better = without_what_costs_more(problem, found.energy_j)
    attempt = _Pass("all plans", Contraction.nothing(better))
    with work.part(work.left).phase(attempt.name) as part:
        return _improve(problem, found, options, part, attempt)


def search_algorithm_1(
    problem: ScheduleProblem, options: SolveOptions, work: Work, known: Found
) -> Found:
    """The best plan that Algorithm 1 finds."""
    found = known.or_better(problem, checkpoint_all(Indexed.of(problem)))
    if found.gap <= 0:
        return found

    def write(problem: ScheduleProblem, _: ExecutionPlan | None) -> _Written:
        formulation = formulate_algorithm_1(Indexed.of(problem), work.deadline)
        return _Written(formulation.program, formulation.stages)

    attempt = _Pass("Algorithm 1", Contraction.nothing(problem))
    with work.phase(attempt.name):
        return _run(problem, found, options, work, attempt, write)


@dataclass(frozen=True)
class _Written:
    """A problem as a program."""

    program: Program
    stages: Callable[[Vector], Stages]
    start: Vector | None = None
    bound_j: float = -math.inf


_Write = Callable[[ScheduleProblem, ExecutionPlan | None], _Written]
"""Writes a problem as a program that starts from a plan of it."""


def _improve(
    problem: ScheduleProblem, found: Found, options: SolveOptions, work: Work, attempt: _Pass
) -> Found:
    """Solve the compact formulation of a pass, starting from what is known."""

    def write(problem: ScheduleProblem, start: ExecutionPlan | None) -> _Written:
        graph = Indexed.of(problem)
        window, deadline = attempt.window, work.deadline
        compact = formulate(
            graph, window=window, close_stages=window is not None, deadline=deadline
        )
        bound_j = -math.inf
        if options.solver == DEFAULT_SOLVER:
            cuts = attempt.hints.cuts(Residency.of(graph, compact)) if attempt.hints else []
            cutting = work.part(work.left * _CUTS_SHARE)
            bound_j = strengthen(graph, compact, found.energy_j, cutting, cuts)
        first = compact.start(graph, start) if start else None
        return _Written(compact.program, compact.stages, first, bound_j)

    return _run(problem, found, options, work, attempt, write)


def _run(
    problem: ScheduleProblem,
    found: Found,
    options: SolveOptions,
    work: Work,
    attempt: _Pass,
    write: _Write,
) -> Found:
    """Solve the program of a pass until the simulator accepts its plan for the problem.

    The plan may overrun the budget or the deadline, by what a relaxation leaves out or by a
    solver's tolerance; then the program is solved again with that much less of it.
    """
    contraction = attempt.contraction
    tightened = contraction.contracted
    for _ in range(_TIGHTENINGS):
        try:
            written = write(tightened, _start(tightened, contraction, found))
        except OutOfTime:
            break
        solution = solve_program(written.program, options, work, written.start)
        if tightened is contraction.contracted and attempt.window is None:
            found = found.with_bound(problem, max(solution.bound, written.bound_j))
        if solution.values is None:
            break
        plan = contraction.expand(lower(Indexed.of(tightened), written.stages(solution.values)))
        plan = plan_transfers(problem, plan)
        if accepts(problem, plan):
            return found.or_better(problem, plan)
        overrun = unlimited(problem, plan)
        ram_bytes = tightened.ram_bytes - max(0, overrun.peak_bytes - problem.ram_bytes)
        deadline_s = tightened.deadline_s
        if deadline_s is not None and problem.deadline_s is not None:
            deadline_s -= max(0.0, overrun.time_s - problem.deadline_s)
        tightened = replace(tightened, ram_bytes=ram_bytes, deadline_s=deadline_s)
        if not work.is_left():
            break
    return found


def _start(
    problem: ScheduleProblem, contraction: Contraction, found: Found
) -> ExecutionPlan | None:
    """The best known plan as one of a pass; without one, the plan that pages what is used last."""
    known = contraction.contract(found.plan) if found.plan is not None else None
    if known is not None and accepts(problem, known):
        return known
    return furthest_use(Indexed.of(problem))
