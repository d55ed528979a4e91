# SPDX-License-Identifier: Apache-2.0
"""Plans for several devices that no search has to find: each op is computed anywhere."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from poetfw.boards import Board
from poetfw.costs import analytic_costs
from poetfw.firmware import BLOCK_BYTES, Lowering, assign_slots, lower
from poetfw.memory import ONLY, MemoryPlan, StepPlan, place_parts
from poetfw.planning import (
    BuildSettings,
    DevicesSettings,
    boards_of,
    derive_program,
    devices_problem,
    load_model,
    plan_evaluation,
    read_device,
)
from poetfw.schedule import ExecutionPlan, StepKind
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.several import DevicesProblem, simulate_devices
from poetfw.schedule.several.plan import Made, complete, named
from poetfw.training import Program

FILES = Path(__file__).parents[3] / "examples" / "devices"
PAIR = (FILES / "linux-big.toml", FILES / "linux-small.toml")


class Case(NamedTuple):
    """A network on two devices of this computer."""

    board: Board
    program: Program
    problem: DevicesProblem


def case_of(model: str, devices: int = 2) -> Case:
    """A built-in model in batches of 4; further devices are like the second one."""
    files = [read_device(path) for path in PAIR]
    settings = BuildSettings("", model=model, batch=4, devices=DevicesSettings(PAIR))
    board = boards_of(settings)[ONLY]
    program = derive_program(settings, load_model(settings))
    problem = devices_problem(program.training, files)
    more = [replace(problem.devices[1], name=f"linux-{n}") for n in range(2, devices)]
    all_devices = (*problem.devices, *more)
    links = [
        replace(problem.links[0], source=a.name, target=b.name)
        for a, b in itertools.permutations(all_devices, 2)
    ]
    return Case(board, program, replace(problem, devices=all_devices, links=tuple(links)))


def any_plan(problem: DevicesProblem, seed: int) -> ExecutionPlan:
    """A legal plan: each node anywhere, what it reads copied there or computed again."""
    rng = random.Random(seed)
    graph = Indexed.of(problem.devices[0].problem)
    nodes = problem.devices[0].problem.nodes
    devices = range(len(problem.devices))
    made: list[Made] = []
    held: set[tuple[int, int]] = set()

    def bring(i: int, d: int, stage: int) -> None:
        if not graph.size[i] or (d, i) in held:
            return
        again = nodes[i].recompute and nodes[i].recompute_before is None and rng.random() < 0.3
        source = next(e for e in devices if (e, i) in held)
        if again:
            for u in graph.inputs[i]:
                bring(u, d, stage)
            made.append(Made(stage, i, StepKind.COMPUTE, d))
        else:
            made.append(Made(stage, i, StepKind.COPY, source, d))
        held.add((d, i))

    for i in range(len(nodes)):
        d = rng.choice(devices)
        for u in graph.inputs[i]:
            bring(u, d, i)
        made.append(Made(i, i, StepKind.COMPUTE, d))
        held.add((d, i))
    names = tuple(device.name for device in problem.devices)
    plan = named(graph, names, complete(graph, made))
    simulate_devices(problem, plan)
    return plan


class Placed(NamedTuple):
    """A plan and where all of it lies."""

    step: StepPlan
    memory: MemoryPlan
    lowering: Lowering


def placed_parts(
    case: Case,
    plan: ExecutionPlan,
    limits: Mapping[str, int] | None = None,
    buffers: Mapping[tuple[str, str], int] | None = None,
    at_once: bool = True,
) -> tuple[StepPlan, MemoryPlan]:
    """Place a plan's buffers in one memory; of the problem, what is not given."""
    problem = case.problem
    names = [device.name for device in problem.devices]
    placed = place_parts(
        case.program,
        plan,
        plan_evaluation(case.program, case.board, analytic_costs).plan,
        dict.fromkeys(names, ONLY),
        limits or {device.name: device.problem.ram_bytes for device in problem.devices},
        BLOCK_BYTES,
        buffers={(link.source, link.target): link.buffer_bytes for link in problem.links}
        if buffers is None
        else buffers,
        at_once=at_once,
    )
    return placed.step, placed.memories[ONLY]


def placed(case: Case, plan: ExecutionPlan, parallel: bool = True) -> Placed:
    """Place a plan's buffers, and lower it."""
    step, memory = placed_parts(case, plan, at_once=parallel)
    evaluation = plan_evaluation(case.program, case.board, analytic_costs)
    slots = assign_slots(case.program, ())
    lowering = lower(case.program, case.board, step, evaluation.plan, memory, slots)
    return Placed(step, memory, lowering)
