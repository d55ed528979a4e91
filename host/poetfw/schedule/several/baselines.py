# SPDX-License-Identifier: Apache-2.0
"""Baselines for several devices: one device alone, unlimited memory, greedy placement."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from poetfw.common.limits import Work
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.milp import IntegerProgram, SolverOptions, solve_program
from poetfw.schedule.problem import ExecutionPlan, StepKind
from poetfw.schedule.search import SolveOptions
from poetfw.schedule.several.plan import Made, complete, in_order, named
from poetfw.schedule.several.problem import (
    Device,
    DevicesProblem,
    Minimise,
)
from poetfw.schedule.several.program import formulate_devices
from poetfw.schedule.solve import solve

SINGLE = {
    "single": "checkpoint-all",
    "single + recompute": "poet-paging-off",
    "single + paging": "poet-remat-off",
    "single + both": "poet",
}
"""Each device alone: what it may do, and the scheduler that finds how."""


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The best placement where memory has no limits.

    Attributes:
        cost: no plan takes less: seconds or joules.
        steps: plans that place so, copying at once and copying as late as can be; any of them may
            need more RAM than there is.
    """

    cost: float
    steps: tuple[list[Made], ...]


def single_plan(
    problem: DevicesProblem,
    device: Device,
    minimise: Minimise,
    scheduler: str,
    options: SolveOptions | None = None,
    work: Work | None = None,
) -> ExecutionPlan:
    """A plan that leaves every device but one alone.

    Raises:
        InfeasibleError: as `poetfw.schedule.solve`.
    """
    answer = solve(problem.priced(device, minimise), scheduler, options, work=work)
    return on_device(device.name, answer.plan)


def on_device(name: str, plan: ExecutionPlan) -> ExecutionPlan:
    """A plan for one device as one for several."""
    return tuple(step._replace(device=name) for step in plan)


@dataclass(frozen=True)
class PlacementProgram:
    """The program of the best placement where memory has no limits, and its columns.

    Attributes:
        program: what to solve.
        runs: by (device, node), whether it is computed there.
        copies: by (source, target, node), whether its tensor is copied.
    """

    program: IntegerProgram = field(default_factory=IntegerProgram)
    runs: dict[tuple[int, int], int] = field(default_factory=dict)
    copies: dict[tuple[int, int, int], int] = field(default_factory=dict)


def formulate_placement(problem: DevicesProblem, minimise: Minimise) -> PlacementProgram:
    """Placement of nodes and copies, as a program: for two devices a minimum cut.

    Binaries R[d,i] compute node i on d, and C[a,b,i] copy its tensor: R[d,k] ≤ R[d,i] + ΣC[·,d,i]
    for an input i of k. A tensor may be computed on several devices. With y = 1 - R on one of two
    devices, every row has two terms of opposite signs beside C, so that the relaxation's best
    solution is whole: it is a minimum s-t cut. With more, C may copy in circles, and the sum is a
    bound only.
    """
    graphs = [Indexed.of(problem.priced(device, minimise)) for device in problem.devices]
    graph, made = graphs[0], PlacementProgram()
    program, runs, copies = made.program, made.runs, made.copies
    number = {device.name: d for d, device in enumerate(problem.devices)}
    for i, node in enumerate(graph.problem.nodes):
        for d, device in enumerate(problem.devices):
            if node.name not in device.lacks:
                runs[d, i] = program.binary(graphs[d].problem.nodes[i].energy_j)
        firsts = [(runs[d, i], 1.0) for d in range(len(graphs)) if (d, i) in runs]
        if node.recompute and node.output_bytes:
            program.at_most([(column, -1.0) for column, _ in firsts], -1)
        else:
            program.equal(firsts, 1)
        for link in problem.links if graph.consumers[i] else ():
            a, b = number[link.source], number[link.target]
            transfer, size = link.transfer, graph.size[i]
            cost = problem.cost(minimise, transfer.cost_j(size), transfer.time_s(size))
            copies[a, b, i] = program.binary(cost)
    for (d, k), column in runs.items():
        for i in graph.inputs[k]:
            there = [(copies[a, b, i], -1.0) for a, b, j in copies if (b, j) == (d, i)]
            there += [(runs[d, i], -1.0)] if (d, i) in runs else []
            program.at_most([(column, 1.0), *there], 0)
    return made


def ceiling(problem: DevicesProblem, minimise: Minimise, work: Work) -> Ceiling:
    """The best placement where memory has no limits, see `formulate_placement`.

    Args:
        problem: valid.
        minimise: what to.
        work: what finding it may take.
    """
    placement = formulate_placement(problem, minimise)
    program, runs, copies = placement.program, placement.runs, placement.copies
    graph = Indexed.of(problem.devices[0].problem)
    firsts: dict[int, float] = {}
    for (_, i), column in runs.items():
        firsts[i] = min(program.costs[column], firsts.get(i, math.inf))
    least = math.fsum(firsts.values())
    solution = solve_program(program, SolverOptions(gap=0.0), work)
    bound = max(least, solution.bound) * (1 - 1e-9)
    if solution.values is None:
        return Ceiling(bound, ())
    values = solution.values
    plans = []
    for late in (False, True):
        made = []
        for (d, i), column in runs.items():
            if values[column] > 0.5:
                first = next(
                    a
                    for a in range(len(problem.devices))
                    if (a, i) in runs and values[runs[a, i]] > 0.5
                )
                made.append(Made(i if d == first else i + 1, i, StepKind.COMPUTE, d))
        for (a, b, i), column in copies.items():
            if values[column] > 0.5:
                readers = [k for k in graph.consumers[i] if values[runs.get((b, k), column)] > 0.5]
                stage = min(readers, default=i) if late else i
                made.append(Made(stage, i, StepKind.COPY, a, b))
        plans.append(complete(graph, in_order(made)))
    return Ceiling(bound, tuple(plans))


def greedy(problem: DevicesProblem, minimise: Minimise) -> list[Made]:
    """Each node in turn where it ends first, with the copies of what it reads (HEFT).

    Topcuoglu, Hariri, Wu, "Performance-effective and low-complexity task scheduling for
    heterogeneous computing", 2002, for steps one after the other: the problem's order is the order
    of priorities, and no device is ever busy. It asks nothing about RAM.
    """
    graphs = [Indexed.of(problem.priced(device, minimise)) for device in problem.devices]
    graph = graphs[0]
    number = {device.name: d for d, device in enumerate(problem.devices)}
    links = {(number[x.source], number[x.target]): x.transfer for x in problem.links}
    there: set[tuple[int, int]] = set()
    made: list[Made] = []
    for i, node in enumerate(graph.problem.nodes):
        best: tuple[float, int, list[Made]] | None = None
        for d, device in enumerate(problem.devices):
            if node.name in device.lacks:
                continue
            cost, copies = graphs[d].problem.nodes[i].energy_j, []
            for u in graph.inputs[i]:
                offers = [
                    (problem.cost(minimise, x.cost_j(graph.size[u]), x.time_s(graph.size[u])), a)
                    for (a, b), x in links.items()
                    if b == d and (a, u) in there
                ]
                if (d, u) not in there:
                    more, source = min(offers, default=(math.inf, d))
                    cost += more
                    copies.append(Made(i, u, StepKind.COPY, source, d))
            if cost < math.inf and (best is None or cost < best[0]):
                best = (cost, d, copies)
        if best is None:
            return []
        _, d, copies = best
        made += [*copies, Made(i, i, StepKind.COMPUTE, d)]
        there |= {(d, i), *((d, copy.node) for copy in copies)}
    return complete(graph, in_order(made))


def greedy_plan(problem: DevicesProblem, minimise: Minimise) -> ExecutionPlan:
    """The plan of `greedy`, by names."""
    graph = Indexed.of(problem.devices[0].problem)
    names = tuple(device.name for device in problem.devices)
    return named(graph, names, greedy(problem, minimise))


def xengine_plan(problem: DevicesProblem, minimise: Minimise, work: Work) -> ExecutionPlan | None:
    """The best plan of XEngine's program, or None without one.

    It counts no copy in the stage that makes it, so the simulator may refuse the plan.
    """
    whole = formulate_devices(problem, minimise, copies_take_ram=False)
    solution = solve_program(whole.program, SolverOptions(gap=0.0), work)
    if solution.values is None:
        return None
    graph = Indexed.of(problem.devices[0].problem)
    steps = complete(graph, in_order(whole.chosen(solution.values)))
    return named(graph, tuple(device.name for device in problem.devices), steps)
