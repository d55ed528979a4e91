"""The memory plan: an address in the arena for every stay of every tensor in RAM."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from poetfw.errors import InfeasibleError
from poetfw.ir import Graph, Tensor
from poetfw.memory.placement import place
from poetfw.memory.problem import Buffer
from poetfw.memory.validator import validate_placement
from poetfw.ops import kind_of
from poetfw.schedule import ExecutionPlan, StepKind

ALIGNMENT = 8
"""Every allocation starts at, and is padded to, a multiple of this many bytes."""

SCHEMA_VERSION = 1


def padded(size_bytes: int) -> int:
    """Bytes that a tensor of the given size occupies in the arena."""
    return -(-size_bytes // ALIGNMENT) * ALIGNMENT


@dataclass(frozen=True, slots=True)
class Allocation:
    """One stay of a tensor (or of an op's workspace) in RAM, during plan steps [lower, upper).

    A tensor that is recomputed or paged in again has several, possibly at different offsets.

    Attributes:
        owner: the tensor's name; for a workspace the op's name.
        workspace: whether it is an op's workspace.
        lower: index of the plan step that writes it first.
        upper: index of the plan step that frees it.
        offset: first byte in the arena.
        size_bytes: bytes it occupies, padding included.
    """

    owner: str
    workspace: bool
    lower: int
    upper: int
    offset: int
    size_bytes: int


@dataclass(frozen=True)
class MemoryPlan:
    """Where everything is.

    Attributes:
        persistent: one allocation for each persistent tensor; they lie at the bottom.
        page_buffer_offset: where the block lies through which partial blocks are transferred.
        training: allocations of the training step.
        evaluation: allocations of the evaluation step.
        arena_bytes: bytes of the arena.
        peak_bytes: largest number of live bytes at any step; `arena_bytes` cannot be lower.
    """

    persistent: tuple[Allocation, ...]
    page_buffer_offset: int
    training: tuple[Allocation, ...]
    evaluation: tuple[Allocation, ...]
    arena_bytes: int
    peak_bytes: int

    def to_json(self) -> dict[str, Any]:
        """The plan as plain JSON values."""
        return {"schema_version": SCHEMA_VERSION, **asdict(self)}


def resident_bytes(persistent: Iterable[Tensor], block_bytes: int) -> int:
    """Bytes of the arena that are never free: persistent tensors and the page buffer."""
    return padded(block_bytes) + sum(padded(tensor.size_bytes) for tensor in persistent)


def plan_memory(
    persistent: Sequence[Tensor],
    block_bytes: int,
    training: tuple[Graph, ExecutionPlan],
    evaluation: tuple[Graph, ExecutionPlan],
    budget_bytes: int | None,
) -> MemoryPlan:
    """Give every buffer of both steps a fixed address.

    Args:
        persistent: the tensors that live for the whole run.
        block_bytes: bytes of one storage block.
        training: graph and plan of the training step.
        evaluation: graph and plan of the evaluation step.
        budget_bytes: what the arena may occupy, or None for no limit.

    Raises:
        InfeasibleError: no placement within the budget was found.
    """
    resident = []
    offset = 0
    for tensor in persistent:
        size = padded(tensor.size_bytes)
        resident.append(Allocation(tensor.name, False, 0, 0, offset, size))
        offset += size
    page_buffer = offset
    base = offset + padded(block_bytes)
    capacity = None if budget_bytes is None else budget_bytes - base

    heights, peaks, placed = [], [], []
    for graph, plan in (training, evaluation):
        buffers = _buffers(graph, plan)
        placement = place([stay.buffer for stay in buffers], capacity)
        if len(placement.offsets) < len(buffers):
            raise InfeasibleError(
                f"{graph.name}: no placement of {len(buffers)} buffers within "
                f"{capacity:,} bytes was found; at least {placement.lower_bound_bytes:,} are needed"
            )
        validate_placement([stay.buffer for stay in buffers], placement, capacity)
        heights.append(placement.height_bytes)
        peaks.append(placement.lower_bound_bytes)
        placed.append(
            tuple(
                Allocation(
                    stay.owner,
                    stay.workspace,
                    stay.buffer.lower,
                    stay.buffer.upper,
                    base + placement.offsets[stay.buffer.id],
                    stay.buffer.size,
                )
                for stay in buffers
            )
        )
    return MemoryPlan(
        persistent=tuple(resident),
        page_buffer_offset=page_buffer,
        training=placed[0],
        evaluation=placed[1],
        arena_bytes=base + max(heights),
        peak_bytes=base + max(peaks),
    )


class _Stay(NamedTuple):
    """A buffer and whose it is."""

    buffer: Buffer
    owner: str
    workspace: bool


def _buffers(graph: Graph, plan: ExecutionPlan) -> list[_Stay]:
    """The stays in RAM that a plan makes, in order."""
    ops = {op.name: op for op in graph.ops}
    started: dict[str, int] = {}
    stays: list[_Stay] = []

    def add(lower: int, upper: int, size_bytes: int, owner: str, workspace: bool) -> None:
        buffer = Buffer(f"{len(stays)}", lower, upper, padded(size_bytes), ALIGNMENT)
        stays.append(_Stay(buffer, owner, workspace))

    for index, step in enumerate(plan):
        op = ops[step.node]
        if step.kind is StepKind.COMPUTE:
            workspace_bytes = kind_of(op).workspace_bytes(op, graph)
            if workspace_bytes:
                add(index, index + 1, workspace_bytes, op.name, True)
        if op.output is None:
            continue
        if step.kind in (StepKind.COMPUTE, StepKind.PAGE_IN):
            started[op.output] = index
        elif step.kind is StepKind.FREE:
            lower = started.pop(op.output)
            add(lower, index, graph.by_name[op.output].size_bytes, op.output, False)
    return stays
