# SPDX-License-Identifier: Apache-2.0
"""Placement of a plan with parts: one arena per device, in the memory that the device works in.

The arenas of a memory are parts of one array, after its persistent tensors and its page buffer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from poetfw.common.errors import InfeasibleError
from poetfw.common.limits import Deadline
from poetfw.ir import Graph
from poetfw.memory.plan import (
    Allocation,
    MemoryPlan,
    PlacedStep,
    padded,
    place_resident,
    place_step,
)
from poetfw.memory.step_plan import DeviceArena, Part, StepPlan
from poetfw.schedule import ExecutionPlan, Step, StepKind
from poetfw.training import Program


class Placed(NamedTuple):
    """Training step with its parts, and the memory plan of each memory by name."""

    step: StepPlan
    memories: Mapping[str, MemoryPlan]


def place_parts(
    program: Program,
    steps: ExecutionPlan,
    evaluation: ExecutionPlan,
    at: Mapping[str, str],
    limits: Mapping[str, int | None],
    block_bytes: int,
    *,
    buffers: Mapping[tuple[str, str], int] | None = None,
    at_once: bool = False,
    deadline: Deadline | None = None,
) -> Placed:
    """Give every buffer of both steps a fixed address; training buffers go to their device's arena.

    Evaluation uses the arena of the device with the most bytes, which comes first in its memory.

    Args:
        program: the trained program.
        steps: plan of the training step.
        evaluation: plan of the evaluation step.
        at: memory of each device, by the device's name.
        limits: bytes for tensors by device name, None for no limit. Training may exceed its limit:
            placement can need more than the live peak.
        block_bytes: bytes of one storage block.
        buffers: bytes of a link's buffer on both devices, by source and target. Messages use no
            buffer.
        at_once: see `StepPlan`.
        deadline: time limit of the search for addresses; None without one.

    Raises:
        InfeasibleError: Evaluation fits on no device.
        PlanError: The plan cannot be run; see `StepPlan`.
    """
    inside = {ends: size for ends, size in (buffers or {}).items() if at[ends[0]] == at[ends[1]]}
    first = max(limits, key=lambda name: limits[name] or 0)
    unplaced = tuple(Part(at[name], DeviceArena(name, 0, 0, 0)) for name in limits)
    plan = StepPlan(steps, unplaced, at[first], first, at_once, inside)
    arenas: dict[str, DeviceArena] = {}
    memories: dict[str, MemoryPlan] = {}
    for memory in plan.memories:
        held = plan.of(memory).held(program)
        tensors = [tensor for tensor in program.resident if tensor.name in held]
        resident, page_buffer = place_resident(tensors)
        offset = peak = page_buffer + padded(block_bytes)
        stays: list[Allocation] = []
        evaluated: tuple[Allocation, ...] = ()
        names = [name for name in limits if at[name] == memory]
        for name in sorted(names, key=lambda name: name != first):
            placed = [_place_on(name, program.training, plan, offset, deadline)]
            if name == first:
                step = program.evaluation, evaluation
                placed.append(_place_evaluation(*step, offset, limits[name], deadline))
                evaluated = placed[-1].stays
            size = max(each.height_bytes for each in placed)
            limit = limits[name]
            arenas[name] = DeviceArena(name, offset, size, size if limit is None else limit)
            stays += placed[0].stays
            offset += size
            peak += max(each.peak_bytes for each in placed)
        memories[memory] = MemoryPlan(resident, page_buffer, tuple(stays), evaluated, offset, peak)
    parts = tuple(Part(at[name], arenas[name]) for name in limits)
    return Placed(replace(plan, parts=parts), memories)


def _place_evaluation(
    graph: Graph,
    plan: ExecutionPlan,
    base: int,
    limit_bytes: int | None,
    deadline: Deadline | None,
) -> PlacedStep:
    try:
        return place_step(graph, plan, base, limit_bytes, deadline)
    except InfeasibleError as error:
        raise InfeasibleError(
            f"the evaluation step fits on no device: {error.message}",
            "give one of the devices more RAM",
        ) from error


def _place_on(
    device: str,
    graph: Graph,
    plan: StepPlan,
    base: int,
    deadline: Deadline | None,
) -> PlacedStep:
    """Place one device's allocations, with step indices of the whole plan."""
    own: list[Step] = []
    positions: list[int] = []
    beside: list[Allocation] = []
    for position, step in enumerate(plan.steps):
        kind = _as_on_one(step, device)
        if kind is None:
            continue
        size = padded(plan.buffers.get((step.device, step.target or ""), 0))
        if size:
            beside.append(Allocation(step.node, True, len(own), len(own) + 1, 0, size))
        own.append(Step(kind, step.node))
        positions.append(position)
    placed = place_step(graph, tuple(own), base, None, deadline, beside)
    return placed._replace(
        stays=tuple(
            replace(stay, lower=positions[stay.lower], upper=positions[stay.upper - 1] + 1)
            if stay.workspace
            else replace(stay, lower=positions[stay.lower], upper=positions[stay.upper])
            for stay in placed.stays
        )
    )


def _as_on_one(step: Step, device: str) -> StepKind | None:
    """Kind of a step in one device's memory: copies become page-ins or page-outs."""
    match step.kind:
        case StepKind.COPY if step.target == device:
            return StepKind.PAGE_IN
        case StepKind.COPY if step.device == device:
            return StepKind.PAGE_OUT
        case StepKind.COPY:
            return None
        case kind:
            return kind if step.device == device else None
