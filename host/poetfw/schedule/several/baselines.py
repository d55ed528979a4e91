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
"""Name and scheduler of each baseline that trains on one device."""


@dataclass(frozen=True, slots=True)
class Ceiling:
    """Best placement without memory limits.

    Attributes:
        cost: lower bound on the cost of every plan, seconds or joules.
        steps: plans with this placement, one with each copy as early as possible and one with each
            copy as late as possible; they may exceed the RAM.
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
    """Plan that uses one device only.

    Raises:
        InfeasibleError: see `poetfw.schedule.solve`.
    """
    answer = solve(problem.priced(device, minimise), scheduler, options, work=work)
    return on_device(device.name, answer.plan)


def on_device(name: str, plan: ExecutionPlan) -> ExecutionPlan:
    """Convert a single-device plan to a plan for several devices."""
    return tuple(step._replace(device=name) for step in plan)


@dataclass(frozen=True)
class PlacementProgram:
    """Integer program of the best placement without memory limits.

    Attributes:
        program: the integer program.
        runs: column by (device, node): 1 if the device computes the node.
        copies: column by (source, target, node): 1 if the node's tensor is copied.
    """

    program: IntegerProgram = field(default_factory=IntegerProgram)
    runs: dict[tuple[int, int], int] = field(default_factory=dict)
    copies: dict[tuple[int, int, int], int] = field(default_factory=dict)


def formulate_placement(problem: DevicesProblem, minimise: Minimise) -> PlacementProgram:
    """Formulate the placement of nodes and copies; for two devices it is a minimum cut.

    Binaries: R[d,i] computes node i on d, C[a,b,i] copies its tensor from a to b, and
    R[d,k] ≤ R[d,i] + ΣC[·,d,i] for each input i of k. Several devices may compute the same tensor.
    With two devices, substituting y = 1 - R on one of them leaves two terms of opposite signs
    beside C in every row: a minimum s-t cut, whose relaxation has an integral optimum. With more
    devices, C may form cycles, and the optimum is only a lower bound.
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
    """Best placement without memory limits, see `formulate_placement`.

    Args:
        problem: valid.
        minimise: the objective.
        work: work limit of the search.
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
    """Place each node where it ends first, with copies of its inputs (HEFT).

    Topcuoglu, Hariri, Wu, "Performance-effective and low-complexity task scheduling for
    heterogeneous computing", 2002, for sequential steps: the problem's order gives the
    priorities, and no device is ever busy. RAM limits are ignored.
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
    """Plan of `greedy`, with names."""
    graph = Indexed.of(problem.devices[0].problem)
    names = tuple(device.name for device in problem.devices)
    return named(graph, names, greedy(problem, minimise))


def xengine_plan(problem: DevicesProblem, minimise: Minimise, work: Work) -> ExecutionPlan | None:
    """Best plan of XEngine's program, or None if it finds none.

    The program ignores the RAM that a copy takes in its own stage, so the simulator may refuse it.
    """
    whole = formulate_devices(problem, minimise, copies_take_ram=False)
    solution = solve_program(whole.program, SolverOptions(gap=0.0), work)
    if solution.values is None:
        return None
    graph = Indexed.of(problem.devices[0].problem)
    steps = complete(graph, in_order(whole.chosen(solution.values)))
    return named(graph, tuple(device.name for device in problem.devices), steps)
