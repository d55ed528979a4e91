# SPDX-License-Identifier: Apache-2.0
"""Comparison of plans for several devices, one row for each method."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from poetfw.common.errors import InfeasibleError, PlanError
from poetfw.common.limits import Deadline, Work
from poetfw.schedule.problem import ExecutionPlan
from poetfw.schedule.several.baselines import (
    SINGLE,
    ceiling,
    greedy_plan,
    single_plan,
    xengine_plan,
)
from poetfw.schedule.several.problem import (
    Device,
    DevicesProblem,
    DevicesSchedule,
    Minimise,
)
from poetfw.schedule.several.simulator import simulate_devices
from poetfw.schedule.several.solve import WHOLE_NODES, solve_devices


@dataclass(frozen=True, slots=True)
class Row:
    """Cost of one method, or a lower bound on all of them.

    Attributes:
        name: name of the method.
        cost: seconds or joules of a training step; None without a plan.
        reason: reason why there is no plan.
        alone: True if one device trains within its own limit.
        bound: True if the cost is a lower bound on every plan.
        answer: the schedule, where all devices are used.
    """

    name: str
    cost: float | None
    reason: str = ""
    alone: bool = False
    bound: bool = False
    answer: DevicesSchedule | None = None


def compare_devices(
    problem: DevicesProblem,
    minimise: Minimise,
    work_limit: float,
    deadline: Deadline | None = None,
) -> Iterator[Row]:
    """Compare single devices, greedy, XEngine's program and all devices, sequential and parallel.

    XEngine's program is solved for graphs of at most `WHOLE_NODES` nodes. Energies are compared for
    sequential plans only.

    Args:
        problem: valid; `problem.parallel` is ignored.
        minimise: the objective.
        work_limit: work units for each row.
        deadline: time limit of all rows together.
    """
    in_turn = replace(problem, parallel=False)

    def work() -> Work:
        return Work(work_limit, deadline)

    def cost(plan: ExecutionPlan | None, on: DevicesProblem = in_turn) -> float:
        if plan is None:
            raise InfeasibleError("no plan was found")
        figures = simulate_devices(on, plan)
        return figures.time_s if minimise is Minimise.TIME else figures.energy_j

    def row(name: str, find: Callable[[], float], alone: bool = False) -> Row:
        try:
            return Row(name, find(), alone=alone)
        except (InfeasibleError, PlanError) as error:
            return Row(name, None, error.message, alone)

    def single(device: Device, scheduler: str, ram_bytes: int) -> float:
        able = replace(device, problem=replace(device.problem, ram_bytes=ram_bytes))
        if able.lacks:
            raise InfeasibleError(f"device {able.name!r} cannot compute all nodes")
        one = DevicesProblem(problem.name, (able,), (), problem.deadline_s)
        return cost(single_plan(one, able, minimise, scheduler, work=work()), one)

    yield Row("no memory limits", ceiling(in_turn, minimise, work()).cost, bound=True)
    total = sum(device.problem.ram_bytes for device in problem.devices)
    for device in problem.devices:
        for name, scheduler in SINGLE.items():
            if device.problem.storage is not None or scheduler in _WITHOUT_STORAGE:
                label, own = (
                    name.replace("single", f"{device.name} alone"),
                    device.problem.ram_bytes,
                )
                yield row(label, partial(single, device, scheduler, own), alone=True)
        label = f"{device.name} alone + recompute, all limits"
        yield row(label, partial(single, device, "poet-paging-off", total))
    yield row("greedy (HEFT)", lambda: cost(greedy_plan(in_turn, minimise)))
    if len(problem.devices[0].problem.nodes) <= WHOLE_NODES:
        yield row("XEngine's program", lambda: cost(xengine_plan(in_turn, minimise, work())))
    for name, parallel in (("all, in turn", False), ("all at once", True)):
        if parallel and minimise is not Minimise.TIME:
            break
        try:
            answer = solve_devices(replace(problem, parallel=parallel), minimise, None, work())
        except InfeasibleError as error:
            yield Row(name, None, error.message)
            continue
        if answer.at_once is not None:
            yield Row("critical path", answer.at_once.path_s, bound=True)
            yield Row("balanced work", answer.at_once.balanced_s, bound=True)
        yield Row(name, answer.cost, answer=answer)


def best_alone(rows: list[Row]) -> float | None:
    """Least cost of one device within its own limit; None if none fits."""
    return min((row.cost for row in rows if row.alone and row.cost is not None), default=None)


_WITHOUT_STORAGE = ("checkpoint-all", "poet-paging-off")
