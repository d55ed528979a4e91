# SPDX-License-Identifier: Apache-2.0
"""Memory plan: an arena address for every stay of every tensor in RAM."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from pydantic import TypeAdapter, ValidationError

from poetfw.common.errors import InfeasibleError, PlanError
from poetfw.common.limits import Deadline, Work
from poetfw.common.reading import first_flaw
from poetfw.ir import Graph, Op, Tensor
from poetfw.memory.placement import WORK_LIMIT, place
from poetfw.memory.problem import Buffer
from poetfw.memory.validator import validate_placement
from poetfw.ops import kind_of
from poetfw.schedule import ExecutionPlan, Step, StepKind
from poetfw.training import in_place_input

ALIGNMENT = 8
"""Alignment and padding of every allocation, in bytes."""

SCHEMA_VERSION = 1


def padded(size_bytes: int) -> int:
    """Bytes that a tensor of the given size occupies in the arena."""
    return -(-size_bytes // ALIGNMENT) * ALIGNMENT


@dataclass(frozen=True, slots=True)
class Allocation:
    """Stay of a tensor (or of an op's workspace) in RAM, during plan steps [lower, upper).

    A tensor that is recomputed or paged in has several, possibly at different offsets.

    Attributes:
        owner: name of the tensor; for a workspace, of the op.
        workspace: True for an op's workspace.
        lower: index of the plan step that first writes it.
        upper: index of the plan step that frees it.
        offset: first byte in the arena.
        size_bytes: bytes including padding.
    """

    owner: str
    workspace: bool
    lower: int
    upper: int
    offset: int
    size_bytes: int


@dataclass(frozen=True)
class MemoryPlan:
    """Addresses of everything in the arena.

    Attributes:
        persistent: one allocation per persistent tensor, from offset 0 on.
        page_buffer_offset: offset of the block that transfers partial blocks.
        training: allocations of the training step.
        evaluation: allocations of the evaluation step.
        arena_bytes: size of the arena.
        peak_bytes: most live bytes at any step, a lower bound on `arena_bytes`.
    """

    persistent: tuple[Allocation, ...]
    page_buffer_offset: int
    training: tuple[Allocation, ...]
    evaluation: tuple[Allocation, ...]
    arena_bytes: int
    peak_bytes: int

    def offset_of(self, tensor: str, index: int | None) -> int:
        """Offset of a tensor at a step of the training plan; None for after the plan."""
        stays = self.persistent if index is None else (*self.persistent, *self.training)
        for stay in stays:
            resident = stay.lower == stay.upper
            here = resident or (index is not None and stay.lower <= index < stay.upper)
            if stay.owner == tensor and not stay.workspace and here:
                return stay.offset
        raise AssertionError(f"{tensor} is not in RAM at step {index}")

    def to_json(self) -> dict[str, Any]:
        """Convert the plan to JSON values."""
        return {"schema_version": SCHEMA_VERSION, **asdict(self)}

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> MemoryPlan:
        """Parse the output of `to_json`.

        Raises:
            PlanError: The document is malformed.
        """
        try:
            plan: MemoryPlan = TypeAdapter(MemoryPlan).validate_python(
                {key: value for key, value in document.items() if key != "schema_version"}
            )
        except ValidationError as error:
            raise PlanError(f"the memory plan is malformed: {first_flaw(error)}") from error
        return plan


def resident_bytes(persistent: Iterable[Tensor], block_bytes: int) -> int:
    """Bytes of the arena that are never free: persistent tensors and the page buffer."""
    return padded(block_bytes) + sum(padded(tensor.size_bytes) for tensor in persistent)


def place_resident(persistent: Iterable[Tensor]) -> tuple[tuple[Allocation, ...], int]:
    """Place persistent tensors from the arena's first byte on; also return their end."""
    resident = []
    offset = 0
    for tensor in persistent:
        size = padded(tensor.size_bytes)
        resident.append(Allocation(tensor.name, False, 0, 0, offset, size))
        offset += size
    return tuple(resident), offset


def place_beside(
    memory: MemoryPlan, block_bytes: int, graph: Graph, plan: ExecutionPlan
) -> tuple[Allocation, ...]:
    """Place a further step in the arena of a memory plan, above the resident bytes.

    Args:
        memory: the plan, whose persistent tensors and page buffer keep their addresses.
        block_bytes: bytes of one storage block.
        graph: the step, with the same persistent tensors as the plan.
        plan: execution plan of the step.

    Raises:
        InfeasibleError: No placement within the arena was found.
    """
    base = memory.page_buffer_offset + padded(block_bytes)
    return place_step(graph, plan, base, memory.arena_bytes - base, None).stays


class PlacedStep(NamedTuple):
    """Placed allocations of a step, their height, and a lower bound on it, in bytes."""

    stays: tuple[Allocation, ...]
    height_bytes: int
    peak_bytes: int


def place_step(
    graph: Graph,
    plan: ExecutionPlan,
    base: int,
    capacity: int | None,
    deadline: Deadline | None,
    beside: Sequence[Allocation] = (),
) -> PlacedStep:
    """Give every buffer of one step a fixed address.

    Args:
        graph: the step.
        plan: execution plan of the step.
        base: first byte of its part of the arena.
        capacity: bytes of that part, or None for no limit.
        deadline: time limit of the search; None without one.
        beside: further allocations to place.

    Raises:
        InfeasibleError: No placement within the capacity was found.
    """
    buffers = _buffers(graph, plan, beside)
    with Work(WORK_LIMIT, deadline).phase("addresses") as work:
        placement = place([shared.buffer for shared in buffers], capacity, work)
    if len(placement.offsets) < len(buffers):
        raise InfeasibleError(
            f"{graph.name}: no placement of {len(buffers)} buffers within "
            f"{capacity:,} bytes was found; at least {placement.lower_bound_bytes:,} are needed"
        )
    validate_placement([shared.buffer for shared in buffers], placement, capacity)
    stays = tuple(
        replace(stay, offset=base + placement.offsets[shared.buffer.id])
        for shared in buffers
        for stay in shared.stays
    )
    return PlacedStep(stays, placement.height_bytes, placement.lower_bound_bytes)


class _Shared(NamedTuple):
    """Buffer, and the successive allocations that share it; their offsets are not yet set."""

    buffer: Buffer
    stays: tuple[Allocation, ...]


def _buffers(graph: Graph, plan: ExecutionPlan, beside: Sequence[Allocation] = ()) -> list[_Shared]:
    """Buffers of a plan, in the order in which they are freed, then those of `beside`.

    An op whose in-place input is freed in the next step overwrites it: both allocations share one
    buffer.
    """
    ops = {op.name: op for op in graph.ops}
    live: dict[str, list[Allocation]] = {}
    begun: dict[str, int] = {}
    buffers: list[_Shared] = []

    def add(stays: Sequence[Allocation]) -> None:
        lower, upper = stays[0].lower, stays[-1].upper
        buffer = Buffer(f"{len(buffers)}", lower, upper, stays[0].size_bytes, ALIGNMENT)
        buffers.append(_Shared(buffer, tuple(stays)))

    for index, step in enumerate(plan):
        op = ops[step.node]
        workspace_bytes = kind_of(op).workspace_bytes(op, graph)
        if step.kind is StepKind.COMPUTE and workspace_bytes:
            add([Allocation(op.name, True, index, index + 1, 0, padded(workspace_bytes))])
        if op.output is None or graph.by_name[op.output].tile:
            continue
        size_bytes = padded(graph.by_name[op.output].size_bytes)
        if step.kind is StepKind.FREE:
            stay = Allocation(op.output, False, begun.pop(op.output), index, 0, size_bytes)
            sharing = live.pop(op.output)
            taken_by = _taken_by(graph, ops, plan[index - 1], op.output)
            if taken_by is None:
                add([*sharing, stay])
            else:
                live[taken_by] = [*sharing, stay]
        elif step.kind in (StepKind.COMPUTE, StepKind.PAGE_IN):
            begun[op.output] = index
            live.setdefault(op.output, [])
    for stay in beside:
        add([stay])
    return buffers


def _taken_by(graph: Graph, ops: Mapping[str, Op], before: Step, freed: str) -> str | None:
    """Tensor that overwrote the freed one in the step before, or None."""
    if before.kind is not StepKind.COMPUTE:
        return None
    op = ops[before.node]
    return op.output if in_place_input(graph, op) == freed else None
