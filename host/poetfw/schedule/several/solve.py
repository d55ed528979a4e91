# SPDX-License-Identifier: Apache-2.0
"""Solver of problems with several devices."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace

from poetfw.common.errors import InfeasibleError, PlanError, ProblemError
from poetfw.common.limits import RAISE_TIME_LIMIT, OutOfTime, Work
from poetfw.schedule.highs import SolveOutcome
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.milp import SolverOptions, solve_program
from poetfw.schedule.problem import (
    BoundCovers,
    ExecutionPlan,
    PlanFigures,
    Schedule,
    ScheduleProblem,
    Status,
    StepKind,
)
from poetfw.schedule.search import SolveOptions
from poetfw.schedule.several.baselines import Ceiling, ceiling, greedy, on_device, single_plan
from poetfw.schedule.several.bounds import bound_by_blocks
from poetfw.schedule.several.fitting import Fitter, Recipe, improve
from poetfw.schedule.several.parallel import at_once, earliest
from poetfw.schedule.several.plan import Made, complete, in_order, in_stages, named
from poetfw.schedule.several.problem import (
    AtOnce,
    Device,
    DevicesFigures,
    DevicesProblem,
    DevicesSchedule,
    Minimise,
    validate_devices,
)
from poetfw.schedule.several.program import formulate_devices
from poetfw.schedule.several.simulator import simulate_devices
from poetfw.schedule.simulator import simulate
from poetfw.schedule.solve import Interrupted, solve

WHOLE_NODES = 24
"""Most nodes of a problem that is solved as one program; larger ones are bounded by blocks."""

_NODES_UNFIT = 100  # the same, if no placement fits
_CEILING_SHARE = 0.1  # of the remaining work
_IN_TURN_SHARE = 0.5  # of the remaining work, for sequential plans
_FITTING_SHARE = 0.3  # of the remaining work, to make placements fit
_BLOCKS_SHARE = 0.6  # of the remaining work, for a bound and the plan that it suggests
_BOUND_SHARE = 0.8  # of that, for the bound
_SINGLES_SHARE = 0.3  # of the remaining work, for single devices
_WHOLE_SHARE = 0.8  # of the remaining work, if one program covers all stages
_TELLING = 1e-3  # relative: smaller improvements are not reported
_ROUNDING = 1e-7  # relative: solvers and the simulator compute in doubles


class DevicesInterrupted(KeyboardInterrupt):
    """Interrupt of a search by the user.

    Attributes:
        schedule: the incumbent, with status INTERRUPTED.
    """

    def __init__(self, schedule: DevicesSchedule) -> None:
        super().__init__()
        self.schedule = schedule


Tell = Callable[[str, float, float], None]
"""Callback for each clearly better plan: phase, cost, bound."""


def solve_devices(
    problem: DevicesProblem,
    minimise: Minimise = Minimise.TIME,
    options: SolveOptions | None = None,
    work: Work | None = None,
    tell: Tell = lambda phase, cost, bound: None,
) -> DevicesSchedule:
    """Find a schedule that meets every budget and the deadline.

    With one device this is `poetfw.schedule.solve`.

    Args:
        problem: the problem.
        minimise: the objective.
        options: search options.
        work: work limit; None for the default. The same arguments give the same answer, unless the
            work's deadline passes.
        tell: called with each clearly better plan.

    Raises:
        ProblemError: the problem is malformed, or has parallel devices and energy as objective.
        InfeasibleError: there is no schedule, or none was found within the limits.
        ToolError: the solver is missing or failed.
        DevicesInterrupted: the user interrupted the search after it found a schedule.
    """
    validate_devices(problem)
    if problem.parallel and minimise is not Minimise.TIME:
        raise ProblemError("devices that work at once are scheduled for the least time only")
    options, work = options or SolveOptions(), work or Work()
    if len(problem.devices) == 1:
        return _on_one(problem, minimise, options, work)
    search = _Search(problem, minimise, options, tell)
    interrupted = False
    try:
        search.run(work)
    except OutOfTime:
        pass  # the incumbent is the answer
    except KeyboardInterrupt:
        if search.plan is None:
            raise
        interrupted = True
    answer = search.answer(work)
    if interrupted:
        raise DevicesInterrupted(replace(answer, status=Status.INTERRUPTED))
    return answer


def _on_one(
    problem: DevicesProblem, minimise: Minimise, options: SolveOptions, work: Work
) -> DevicesSchedule:
    device = problem.devices[0]
    if device.lacks:
        raise InfeasibleError(
            f"device {device.name!r} cannot compute node {min(device.lacks)!r}, and it is alone"
        )
    priced = problem.priced(device, minimise)
    try:
        return _of_one(problem, priced, minimise, solve(priced, "poet", options, work=work))
    except Interrupted as interrupted:
        found = _of_one(problem, priced, minimise, interrupted.schedule)
        raise DevicesInterrupted(found) from None


def _of_one(
    problem: DevicesProblem, priced: ScheduleProblem, minimise: Minimise, answer: Schedule
) -> DevicesSchedule:
    """Schedule of a problem with one device, from a schedule of its `priced` problem."""
    device = problem.devices[0]
    once = math.fsum(node.energy_j for node in priced.nodes)
    simulation = simulate(replace(device.problem, deadline_s=problem.deadline_s), answer.plan)
    figures = PlanFigures.of(simulation)
    proven = once, BoundCovers.ALL, max(0.0, 1 - once / answer.energy_j) if answer.energy_j else 0.0
    if answer.gap is not None and answer.bound_j is not None and answer.bound_covers is not None:
        proven = answer.bound_j, answer.bound_covers, answer.gap
    bound, covers, gap = proven
    return DevicesSchedule(
        energy_j=figures.energy_j + problem.idle_w * figures.time_s,
        time_s=figures.time_s,
        peak_bytes={device.name: figures.peak_bytes},
        computed={device.name: len(device.problem.nodes) + figures.recomputes},
        recomputes=figures.recomputes,
        copies=0,
        page_ins=figures.page_ins,
        page_outs=figures.page_outs,
        scheduler="poet",
        status=answer.status,
        minimised=minimise,
        bound=bound,
        bound_covers=covers,
        ceiling=once,
        gap=gap,
        plan=on_device(device.name, answer.plan),
        tensor_bytes=problem.tensor_bytes,
    )


def accepts(problem: DevicesProblem, plan: ExecutionPlan) -> DevicesFigures | None:
    """Simulate a plan; None if the simulator refuses it."""
    try:
        return simulate_devices(problem, plan)
    except PlanError:
        return None


class _Search:
    """State of a search for plans."""

    def __init__(
        self, problem: DevicesProblem, minimise: Minimise, options: SolveOptions, tell: Tell
    ) -> None:
        self.problem, self.minimise, self.options, self.tell = problem, minimise, options, tell
        self.fitter = Fitter(problem, minimise)
        self.recipe: Recipe | None = None
        self.at_once: AtOnce | None = None
        self.graph = Indexed.of(problem.devices[0].problem)
        self.names = tuple(device.name for device in problem.devices)
        self.plan: ExecutionPlan | None = None
        self.figures: DevicesFigures | None = None
        self.scheduler = ""
        self.cost = self.told = math.inf
        self.ceiling = Ceiling(0.0, ())
        self.bound = 0.0
        self.covers = BoundCovers.ALL

    def run(self, work: Work) -> None:
        """Search until the incumbent is proven optimal, or the work limit."""
        if self.problem.parallel:
            self.run_at_once(work)
        else:
            self.run_in_turn(work)

    def run_at_once(self, work: Work) -> None:
        """Improve the best sequential plan and the earliest-finish plan for parallel devices.

        A plan takes no longer on parallel devices than sequentially.
        """
        alone = replace(self.problem, parallel=False, deadline_s=None)
        in_turn = _Search(alone, self.minimise, self.options, lambda phase, cost, bound: None)
        self.at_once = at_once(self.problem, work)
        self.bound = max(self.at_once.path_s, self.at_once.balanced_s)
        self.ceiling = Ceiling(self.bound, ())
        try:
            in_turn.run(work.part(work.left * _IN_TURN_SHARE))
        finally:
            if in_turn.plan is not None:
                self.at_once = replace(self.at_once, sequential_s=in_turn.cost)
                self.take(in_turn.scheduler, in_turn.plan)
        starts = [earliest(self.fitter), *([in_turn.recipe] if in_turn.recipe else [])]
        self.fit(work, starts)

    def run_in_turn(self, work: Work) -> None:
        """Search for plans whose steps run one after another."""
        part = work.part(work.left * _CEILING_SHARE)
        self.ceiling = ceiling(self.problem, self.minimise, part)
        self.bound = self.ceiling.cost
        starts = [*self.ceiling.steps, greedy(self.problem, self.minimise)]
        for steps in starts:
            self.take("placement", self.named(steps))
        if self.is_proven():
            return
        if self.graph.n <= WHOLE_NODES:
            self.solve_whole(work.part(work.left * _WHOLE_SHARE), starts)
        else:
            self.solve_large(work, starts)
        # A bound on plans in stages does not hold for a single device in another op order.
        least = self.ceiling.cost if self.options.other_orders else self.bound
        if not self.is_near(least):
            self.solve_single(work, self.options)

    def solve_large(self, work: Work, starts: Iterable[list[Made]]) -> None:
        """Fit placements, bound by blocks, and solve for single devices.

        If no placement fits, the whole program may still find a plan.
        """
        self.fit(work.part(work.left * _FITTING_SHARE), self.recipes(starts))
        if self.plan is None and self.graph.n <= _NODES_UNFIT:
            self.solve_whole(work.part(work.left * _WHOLE_SHARE), starts)
        as_given = replace(self.options, other_orders=False)
        if not self.is_proven():
            self.solve_blocks(work.part(work.left * _BLOCKS_SHARE))
        if not self.is_proven():
            self.solve_single(work.part(work.left * _SINGLES_SHARE), as_given)
        if not self.is_proven() and self.recipe is not None:
            self.fit(work, [self.recipe])

    def take(self, phase: str, plan: ExecutionPlan, figures: DevicesFigures | None = None) -> None:
        """Take a plan as incumbent if it is better and legal; given figures prove it legal."""
        figures = figures or accepts(self.problem, plan)
        if figures is None:
            return
        cost = self.cost_of(figures)
        if cost < self.cost * (1 - 1e-12):
            self.plan, self.figures, self.cost, self.scheduler = plan, figures, cost, phase
            if cost < self.told * (1 - _TELLING):
                self.told = cost
                self.tell(phase, cost, min(cost, self.bound))

    def is_proven(self) -> bool:
        """True if the incumbent is optimal among the plans that the bound covers."""
        return self.is_near(self.bound)

    def is_near(self, bound: float) -> bool:
        """True if the incumbent costs at most this bound, or is within the gap of it."""
        return self.cost <= bound * (1 + self.options.gap + _ROUNDING)

    def fit(self, work: Work, recipes: Iterable[Recipe]) -> None:
        """Fit recipes, then improve the best of them by small changes."""
        costs = [
            (math.inf if made is None else self.fitted(made), recipe)
            for recipe in recipes
            for made in (self.fitter.follow(recipe, work),)
        ]
        cost, recipe = min(costs, key=lambda pair: pair[0])
        if cost < math.inf:
            proven = self.bound * (1 + self.options.gap + _ROUNDING)
            self.recipe = improve(
                self.fitter, recipe, self.fitted, work, proven, orders=self.problem.parallel
            )

    def recipes(self, starts: Iterable[list[Made]]) -> Iterator[Recipe]:
        """Recipes with all nodes on one device, and with the placement of each start."""
        for d in range(len(self.names)):
            yield self.fitter.recipe([d] * self.graph.n)
        for steps in starts:
            first = {
                step.node: step.device for step in reversed(steps) if step.kind is StepKind.COMPUTE
            }
            if first:
                yield self.fitter.recipe([first[i] for i in range(self.graph.n)])

    def fitted(self, made: list[Made]) -> float:
        """Cost of a fitted plan without unused steps; becomes the incumbent if it is the best."""
        plan = self.named(complete(self.graph, made))
        figures = accepts(self.problem, plan)
        if figures is None:
            return math.inf
        self.take("fitting", plan, figures)
        return self.cost_of(figures)

    def cost_of(self, figures: DevicesFigures) -> float:
        """Value of the objective."""
        return figures.time_s if self.minimise is Minimise.TIME else figures.energy_j

    def solve_single(self, work: Work, options: SolveOptions) -> None:
        """Solve for each single device that may beat the incumbent, the fastest first."""
        able = [device for device in self.problem.devices if not device.lacks]
        able.sort(key=self.once)
        for done, device in enumerate(able):
            if self.once(device) >= self.cost:
                break
            part = work.part(work.left / (len(able) - done))
            try:
                plan = single_plan(self.problem, device, self.minimise, "poet", options, part)
            except InfeasibleError:
                continue  # it may still help the others
            self.take(f"{device.name} alone", plan)

    def solve_blocks(self, work: Work) -> None:
        """Bound by the block relaxation, and try the placement that it suggests."""
        part, gap = work.part(work.left * _BOUND_SHARE), self.options.gap / 2
        options = SolverOptions(self.options.solver, gap)
        found = bound_by_blocks(self.problem, self.minimise, self.cost, options, part)
        if found.bound > self.bound:
            self.bound, self.covers = found.bound, BoundCovers.STAGES
        if found.place is not None and not self.is_proven():
            before, recipe = self.cost, self.recipe
            self.fit(work, [self.fitter.recipe(list(found.place))])
            if self.cost == before:
                self.recipe = recipe

    def once(self, device: Device) -> float:
        """Cost of computing every node once on a device."""
        priced = self.problem.priced(device, self.minimise)
        return math.fsum(node.energy_j for node in priced.nodes)

    def solve_whole(self, work: Work, starts: Iterable[list[Made]]) -> None:
        """Solve as one program."""
        whole = formulate_devices(self.problem, self.minimise, deadline=work.deadline)
        known = [whole.start(steps) for steps in starts if self.known(steps)]
        solution = solve_program(
            whole.program,
            SolverOptions(self.options.solver, self.options.gap),
            work,
            known[0] if known else None,
        )
        if solution.outcome is SolveOutcome.INFEASIBLE:
            self.bound, self.covers = math.inf, BoundCovers.STAGES
            return
        if solution.values is not None:
            steps = complete(self.graph, in_order(whole.chosen(solution.values)))
            self.take("program", self.named(steps))
        if solution.bound > self.bound:
            self.bound, self.covers = min(solution.bound, self.cost), BoundCovers.STAGES

    def named(self, steps: list[Made]) -> ExecutionPlan:
        """Convert steps from indices to names of nodes and devices."""
        return named(self.graph, self.names, steps)

    def known(self, steps: list[Made]) -> bool:
        """True if the simulator accepts these steps."""
        return accepts(self.problem, self.named(steps)) is not None

    def is_in_stages(self, plan: ExecutionPlan) -> bool:
        """True if sorting a plan into stages does not raise its cost."""
        steps = in_stages(self.graph, self.names, plan)
        figures = None if steps is None else accepts(self.problem, self.named(steps))
        return figures is not None and self.cost_of(figures) <= self.cost * (1 + _ROUNDING)

    def answer(self, work: Work) -> DevicesSchedule:
        """Best known plan as a schedule.

        Raises:
            InfeasibleError: no plan is known.
        """
        if self.plan is None or self.figures is None:
            budgets = " and ".join(
                f"{device.problem.ram_bytes:,} bytes on {device.name!r}"
                for device in self.problem.devices
            )
            within = (
                "" if self.problem.deadline_s is None else f" within {self.problem.deadline_s:g} s"
            )
            proven = math.isinf(self.bound)
            raise InfeasibleError(
                f"{'there is' if proven else 'found'} no schedule of {self.problem.name!r}{within} "
                f"in {budgets}{', computing nodes in the order given' if proven else ''}",
                "give one of the devices more RAM"
                + ("" if self.problem.deadline_s is None else ", or more time"),
                *(() if proven else (_more(work),)),
            )
        if math.isinf(self.bound):  # no plan in stages fits, so the incumbent is not one
            self.bound, self.covers = self.ceiling.cost, BoundCovers.ALL
        is_covered = self.covers is BoundCovers.ALL or self.is_in_stages(self.plan)
        bound = min(self.bound, self.cost) if is_covered else self.bound
        gap: float | None = (self.cost - bound) / self.cost if self.cost else 0.0
        if not is_covered and bound >= self.cost * (1 - _ROUNDING):
            gap = None
        return DevicesSchedule(
            **asdict(self.figures),
            scheduler=self.scheduler,
            status=Status.OPTIMAL if is_covered and self.is_proven() else Status.FEASIBLE,
            minimised=self.minimise,
            bound=bound,
            bound_covers=self.covers,
            ceiling=self.ceiling.cost,
            gap=gap,
            plan=self.plan,
            tensor_bytes=self.problem.tensor_bytes,
            at_once=self.at_once,
        )


def _more(work: Work) -> str:
    return RAISE_TIME_LIMIT if work.deadline.decided else "raise the work limit"
