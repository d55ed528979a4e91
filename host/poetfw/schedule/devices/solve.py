# SPDX-License-Identifier: Apache-2.0
"""From a problem with several devices to a schedule."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace

from poetfw.errors import InfeasibleError, PlanError
from poetfw.limits import RAISE_TIME_LIMIT, OutOfTime, Work
from poetfw.schedule.devices.baselines import Ceiling, ceiling, greedy, on_device, single_plan
from poetfw.schedule.devices.plan import Made, complete, in_order, named
from poetfw.schedule.devices.problem import (
    DevicesFigures,
    DevicesPlan,
    DevicesProblem,
    DevicesSchedule,
    Minimise,
    validate_devices,
)
from poetfw.schedule.devices.program import DevicesProgram, formulate_devices, part_of
from poetfw.schedule.devices.simulator import simulate_devices
from poetfw.schedule.highs import Vector
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.milp import Outcome, SolverOptions, solve_program
from poetfw.schedule.problem import BoundCovers, PlanFigures, Status
from poetfw.schedule.search import SolveOptions
from poetfw.schedule.simulator import simulate
from poetfw.schedule.solve import solve

WHOLE_NODES = 24
"""Problems of so many nodes are solved as one program; larger ones stage by stage."""

_WINDOW = 12  # how far from what a stage differentiates it computes again, see `formulate_devices`
_STAGES = (12, 24, 48)  # of a part that is solved alone
_PART_WORK = 2.0  # units for each part
_CEILING_SHARE = 0.1  # of the work
_SINGLE_SHARE = 0.3
_ROUNDING = 1e-7  # relative: solvers work in doubles, and so does the simulator

Tell = Callable[[str, float, float], None]
"""Told of each better plan: the phase, what it takes, the bound."""


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
        problem: what to schedule.
        minimise: what to.
        options: how to search.
        work: what the search may do; None for as much as usual. The same arguments give the same
            answer, unless the work's deadline passes.
        tell: is told of each better plan.

    Raises:
        ProblemError: the problem is malformed.
        InfeasibleError: there is no schedule, or none was found within the limits.
        ToolError: the solver is missing or failed.
    """
    validate_devices(problem)
    options, work = options or SolveOptions(), work or Work()
    if len(problem.devices) == 1:
        return _on_one(problem, minimise, options, work)
    search = _Search(problem, minimise, options, tell)
    try:
        search.run(work)
    except OutOfTime:
        pass  # what is known is the answer
    return search.answer(work)


def _on_one(
    problem: DevicesProblem, minimise: Minimise, options: SolveOptions, work: Work
) -> DevicesSchedule:
    device = problem.devices[0]
    if device.lacks:
        raise InfeasibleError(
            f"device {device.name!r} cannot compute node {min(device.lacks)!r}, and it is alone"
        )
    priced = problem.priced(device, minimise)
    answer = solve(priced, "poet", options, work=work)
    once = math.fsum(node.energy_j for node in priced.nodes)
    simulation = simulate(replace(device.problem, deadline_s=problem.deadline_s), answer.plan)
    figures = PlanFigures.of(simulation)
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
        bound=once if answer.bound_j is None else answer.bound_j,
        bound_covers=answer.bound_covers or BoundCovers.ALL,
        ceiling=once,
        gap=answer.gap or 0.0,
        plan=on_device(device.name, answer.plan),
    )


def accepts(problem: DevicesProblem, plan: DevicesPlan) -> DevicesFigures | None:
    """What a plan comes to, or None if the simulator refuses it."""
    try:
        return simulate_devices(problem, plan)
    except PlanError:
        return None


class _Search:
    """What is known of a problem so far."""

    def __init__(
        self, problem: DevicesProblem, minimise: Minimise, options: SolveOptions, tell: Tell
    ) -> None:
        self.problem, self.minimise, self.options, self.tell = problem, minimise, options, tell
        self.graph = Indexed.of(problem.devices[0].problem)
        self.names = tuple(device.name for device in problem.devices)
        self.plan: DevicesPlan | None = None
        self.figures: DevicesFigures | None = None
        self.scheduler = ""
        self.cost = math.inf
        self.ceiling = Ceiling(0.0, ())
        self.bound = 0.0
        self.covers = BoundCovers.ALL

    def run(self, work: Work) -> None:
        """Look for plans until one is proven the best, or the work is over."""
        part = work.part(work.left * _CEILING_SHARE)
        self.ceiling = ceiling(self.problem, self.minimise, part)
        self.bound = self.ceiling.cost
        starts = [*self.ceiling.steps, greedy(self.problem, self.minimise)]
        for steps in starts:
            self.take("placement", named(self.graph, self.names, steps))
        if self.is_proven():
            return
        if self.graph.n <= WHOLE_NODES:
            self.solve_whole(work, starts)
            return
        self.solve_single(work)
        if not self.is_proven():
            self.solve_parts(work, starts)

    def take(self, phase: str, plan: DevicesPlan) -> None:
        """Know a plan, if the simulator accepts it and it is better."""
        figures = accepts(self.problem, plan)
        if figures is None:
            return
        cost = figures.time_s if self.minimise is Minimise.TIME else figures.energy_j
        if cost < self.cost * (1 - 1e-12):
            self.plan, self.figures, self.cost, self.scheduler = plan, figures, cost, phase
            self.tell(phase, cost, self.bound)

    def is_proven(self) -> bool:
        """Whether no plan is better."""
        return self.cost <= self.bound * (1 + self.options.gap + _ROUNDING)

    def solve_single(self, work: Work) -> None:
        """Each device alone."""
        able = [device for device in self.problem.devices if not device.lacks]
        share = work.left * _SINGLE_SHARE / max(1, len(able))
        for device in able:
            try:
                plan = single_plan(
                    self.problem, device, self.minimise, "poet", self.options, work.part(share)
                )
            except InfeasibleError:
                continue  # the others may help it
            self.take(f"{device.name} alone", plan)

    def solve_whole(self, work: Work, starts: Iterable[list[Made]]) -> None:
        """As one program."""
        whole = formulate_devices(self.problem, self.minimise, deadline=work.deadline)
        known = [x for steps in starts if (x := self.known(whole, steps)) is not None]
        solution = solve_program(
            whole.program,
            SolverOptions(self.options.solver, self.options.gap),
            work,
            known[0] if known else None,
        )
        if solution.outcome is Outcome.INFEASIBLE:
            self.bound, self.covers = math.inf, BoundCovers.STAGES
            return
        if solution.values is not None:
            self.take_values("program", whole, solution.values)
        if solution.bound > self.bound:
            self.bound, self.covers = min(solution.bound, self.cost), BoundCovers.STAGES

    def known(self, whole: DevicesProgram, steps: list[Made]) -> Vector | None:
        """A plan as the program's solution, if the simulator accepts it."""
        figures = accepts(self.problem, named(self.graph, self.names, steps))
        return None if figures is None else whole.start(steps)

    def take_values(self, phase: str, whole: DevicesProgram, values: Vector) -> None:
        """Know the plan of a solution."""
        steps = complete(self.graph, in_order(whole.chosen(values)))
        self.take(phase, named(self.graph, self.names, steps))

    def solve_parts(self, work: Work, starts: Iterable[list[Made]]) -> None:
        """Some stages at a time, from a placement that may need more RAM than there is."""
        whole = formulate_devices(
            self.problem, self.minimise, _WINDOW, elastic=True, deadline=work.deadline
        )
        values = next((x for steps in starts if (x := whole.start(steps)) is not None), None)
        if values is None:
            return
        best = math.inf
        for stages in _STAGES:
            better = True
            while better and work.is_left():
                before, best = best, math.inf
                for first in range(self.graph.n, -stages, -(stages // 2)):
                    window = range(max(0, first), min(first + stages, self.graph.n))
                    program, columns = part_of(whole, values, window)
                    solution = solve_program(
                        program,
                        SolverOptions(self.options.solver, self.options.gap),
                        work.part(_PART_WORK),
                        values[columns],
                    )
                    if solution.values is not None:
                        values[columns] = solution.values
                        best = solution.objective
                self.take_values("program", whole, values)
                better = best < before * (1 - 1e-4)
                if self.is_proven():
                    return

    def answer(self, work: Work) -> DevicesSchedule:
        """The best plan known.

        Raises:
            InfeasibleError: there is none.
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
                f"in {budgets}",
                "give one of them more",
                *(() if proven else (_more(work),)),
            )
        gap = max(0.0, (self.cost - self.bound) / self.cost) if self.cost else 0.0
        return DevicesSchedule(
            **asdict(self.figures),
            scheduler=self.scheduler,
            status=Status.OPTIMAL if self.is_proven() else Status.FEASIBLE,
            minimised=self.minimise,
            bound=self.bound,
            bound_covers=self.covers,
            ceiling=self.ceiling.cost,
            gap=gap,
            plan=self.plan,
        )


def _more(work: Work) -> str:
    return RAISE_TIME_LIMIT if work.deadline.decided else "raise the work limit"
