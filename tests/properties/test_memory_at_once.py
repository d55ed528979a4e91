# SPDX-License-Identifier: Apache-2.0
"""Devices that work at once: their memory swept again, their times against bounds and in turn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from devices_brute_force import random_devices
from random_graphs import chunks

from poetfw.common.errors import InfeasibleError, PlanError
from poetfw.common.limits import Work
from poetfw.schedule import ExecutionPlan, StepKind
from poetfw.schedule.several import (
    Device,
    DevicesProblem,
    Minimise,
    device_step_costs,
    simulate_devices,
    solve_devices,
)
from poetfw.schedule.several.fitting import Fitter
from poetfw.schedule.several.parallel import at_once, earliest
from poetfw.schedule.several.plan import complete, named


def without_storage(seed: int) -> DevicesProblem:
    """A random problem in which nothing is paged."""
    problem = random_devices(seed)
    devices = tuple(
        replace(device, problem=replace(device.problem, storage=None)) for device in problem.devices
    )
    return replace(problem, devices=devices, deadline_s=None)


def fitted(problem: DevicesProblem) -> Iterator[ExecutionPlan]:
    """What recipes come to: all on one device, and where each node ends earliest."""
    fitter = Fitter(problem, Minimise.TIME)
    names = tuple(device.name for device in problem.devices)
    places = [[d] * fitter.n for d in fitter.devices]
    for recipe in (*map(fitter.recipe, places), earliest(fitter)):
        made = fitter.follow(recipe, Work())
        if made is not None:
            yield named(fitter.graph, names, complete(fitter.graph, made))


def live_at_most(problem: DevicesProblem, plan: ExecutionPlan, device: Device) -> int:
    """The most bytes that are live on a device at any moment, from when steps begin and end."""
    nodes = {node.name: node for node in device.problem.nodes}
    buffers = {(link.source, link.target): link.buffer_bytes for link in problem.links}
    spans = device_step_costs(problem, plan)
    changes: list[tuple[float, int]] = []
    ends: dict[str, float] = {}
    taken: str | None = None
    for number, step in enumerate(plan):
        node = nodes[step.node]
        if step.kind is StepKind.FREE:
            if step.device == device.name:
                if taken != step.node:
                    changes.append((ends[step.node], -node.output_bytes))
                taken = None
            continue
        span = spans[number]
        beside = node.workspace_bytes
        if step.target is not None:
            beside = buffers[step.device, step.target]
        if device.name not in (step.device, step.target):
            continue
        if beside:
            changes += [(span.begin_s, beside), (span.end_s, -beside)]
        for name in node.inputs if step.kind is StepKind.COMPUTE else (step.node,):
            if name in ends:
                ends[name] = max(ends[name], span.end_s)
        if step.kind is StepKind.COPY and step.device == device.name:
            continue
        after = plan[number + 1] if number + 1 < len(plan) else None
        freed = after is not None and after[:3] == (StepKind.FREE, node.in_place, step.device)
        if step.kind is StepKind.COMPUTE and node.in_place is not None and freed:
            taken = node.in_place
        else:
            changes.append((span.begin_s, node.output_bytes))
        ends[step.node] = span.end_s
    live = most = 0
    for _, change in sorted(changes):
        live += change
        most = max(most, live)
    assert live == 0
    return most


@pytest.mark.parametrize("numbers", chunks(range(400), 20))
def test_what_is_made_to_fit_is_legal_and_no_slower_at_once(numbers: range) -> None:
    for number in numbers:
        in_turn = without_storage(number)
        problem = replace(in_turn, parallel=True)
        bounds = at_once(problem, Work())
        for plan in fitted(in_turn):
            together = simulate_devices(problem, plan)
            one_by_one = simulate_devices(in_turn, plan)
            assert together.time_s <= one_by_one.time_s * (1 + 1e-12), number
            assert together.time_s >= max(bounds.path_s, bounds.balanced_s), number
            assert together.copies == one_by_one.copies
            for device in problem.devices:
                most = live_at_most(problem, plan, device)
                assert most <= together.peak_bytes[device.name], number
                assert together.peak_bytes[device.name] <= device.problem.ram_bytes, number


@pytest.mark.parametrize("numbers", chunks(range(100), 3))
def test_at_once_is_no_slower_than_the_best_in_turn(numbers: range) -> None:
    for number in numbers:
        in_turn = without_storage(number)
        try:
            best = solve_devices(in_turn, work=Work(20.0))
        except InfeasibleError:
            continue
        answer = solve_devices(replace(in_turn, parallel=True), work=Work(20.0))
        assert answer.at_once is not None
        assert answer.time_s <= best.time_s * (1 + 1e-9), number
        assert answer.bound <= answer.time_s, number


def test_what_the_sweep_finds_can_differ() -> None:
    # The sweep above says something: some plans overlap, and some hold more than in turn.
    faster = fuller = 0
    for number in range(20):
        in_turn = without_storage(number)
        problem = replace(in_turn, parallel=True)
        for plan in fitted(in_turn):
            try:
                one_by_one = simulate_devices(in_turn, plan)
            except PlanError:
                continue
            together = simulate_devices(problem, plan)
            faster += together.time_s < one_by_one.time_s
            fuller += together.peak_bytes != one_by_one.peak_bytes
    assert faster
    assert fuller
