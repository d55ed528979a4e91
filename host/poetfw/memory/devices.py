# SPDX-License-Identifier: Apache-2.0
"""Memory for a step on several devices: an arena for each, and one memory that they share.

The devices' arenas are parts of one array, behind the persistent tensors and the page buffer, which
are there once: any device reads and updates parameters where they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from poetfw.errors import InfeasibleError
from poetfw.ir import Graph, Tensor
from poetfw.limits import Deadline
from poetfw.memory.plan import (
    Allocation,
    MemoryPlan,
    PlacedStep,
    padded,
    place_resident,
    place_step,
)
from poetfw.schedule import ExecutionPlan, Step, StepKind


@dataclass(frozen=True, slots=True)
class DeviceArena:
    """A device's part of the arena.

    Attributes:
        device: its name.
        offset: its first byte, from that of the whole arena.
        size_bytes: bytes that the plan takes of it.
        limit_bytes: bytes that the device has for tensors.
    """

    device: str
    offset: int
    size_bytes: int
    limit_bytes: int

    def own(self, allocations: Sequence[Allocation]) -> tuple[Allocation, ...]:
        """Those of some allocations that are in it."""
        end = self.offset + self.size_bytes
        return tuple(a for a in allocations if self.offset <= a.offset < end)


@dataclass(frozen=True)
class WorkersPlan:
    """A training step that a worker for each device, and for each link, takes part in.

    Attributes:
        steps: in their order, which the simulator has accepted.
        arenas: one for each device.
        parallel: whether a step waits for what it needs only, not for all that come before it.
        buffers: bytes of the buffer that a copy passes on its source and on its target, by both;
            of a link without buffer nothing.
    """

    steps: ExecutionPlan
    arenas: tuple[DeviceArena, ...]
    parallel: bool
    buffers: Mapping[tuple[str, str], int]


def place_devices(
    persistent: Sequence[Tensor],
    block_bytes: int,
    training: tuple[Graph, ExecutionPlan],
    evaluation: tuple[Graph, ExecutionPlan],
    limits: Mapping[str, int],
    buffers: Mapping[tuple[str, str], int],
    deadline: Deadline | None = None,
) -> tuple[MemoryPlan, tuple[DeviceArena, ...]]:
    """Give every buffer of both steps a fixed address, those of training in the device's arena.

    Evaluation takes the arena of the device with most bytes, which comes first in the whole.

    Args:
        persistent: the tensors that live for the whole run, in the memory that devices share.
        block_bytes: bytes of one storage block.
        training: graph and plan of the training step.
        evaluation: graph and plan of the evaluation step.
        limits: by each device's name, bytes that it has for tensors. What training takes may be
            more than that: placement can need more than the live peak.
        buffers: bytes of a link's buffer on both devices, by its source and its target.
        deadline: when to end the search for addresses; None for never.

    Raises:
        InfeasibleError: evaluation fits on no device.
    """
    resident, page_buffer = place_resident(persistent)
    base = page_buffer + padded(block_bytes)
    first = max(limits, key=lambda name: limits[name])
    try:
        evaluated = place_step(*evaluation, base, limits[first], deadline)
    except InfeasibleError as error:
        raise InfeasibleError(
            f"the evaluation step fits on no device: {error.message}",
            "give one of them more",
        ) from error
    arenas: dict[str, DeviceArena] = {}
    stays: list[Allocation] = []
    offset = peak = base
    for name in sorted(limits, key=lambda name: name != first):
        placed = place_on(name, *training, offset, buffers, deadline)
        besides = evaluated if name == first else PlacedStep((), 0, 0)
        size = max(placed.height_bytes, besides.height_bytes)
        arenas[name] = DeviceArena(name, offset, size, limits[name])
        stays += placed.stays
        offset += size
        peak += max(placed.peak_bytes, besides.peak_bytes)
    memory = MemoryPlan(resident, page_buffer, tuple(stays), evaluated.stays, offset, peak)
    return memory, tuple(arenas[name] for name in limits)


def place_on(
    device: str,
    graph: Graph,
    plan: ExecutionPlan,
    base: int,
    buffers: Mapping[tuple[str, str], int],
    deadline: Deadline | None,
) -> PlacedStep:
    """One device's stays, by the indices of the whole plan's steps."""
    own: list[Step] = []
    positions: list[int] = []
    beside: list[Allocation] = []
    for position, step in enumerate(plan):
        kind = _as_on_one(step, device)
        if kind is None:
            continue
        size = padded(buffers.get((step.device, step.target or ""), 0))
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
    """What a step is to the memory of one device: a copy comes as a page does, or goes as one."""
    match step.kind:
        case StepKind.COPY if step.target == device:
            return StepKind.PAGE_IN
        case StepKind.COPY if step.device == device:
            return StepKind.PAGE_OUT
        case StepKind.COPY:
            return None
        case kind:
            return kind if step.device == device else None
