# SPDX-License-Identifier: Apache-2.0
"""Slots: the regions of storage that hold one tensor each."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np

from poetfw.common.transfer import BLOCK_BYTES as BLOCK_BYTES
from poetfw.common.transfer import TRAILER_BYTES, page_bytes
from poetfw.ops import TileLayout
from poetfw.schedule import ExecutionPlan, StepKind
from poetfw.training import Program

SET_ALIGNMENT = 8
"""Sets begin and end at a multiple of so many blocks: 4 KiB, which flash erases at once."""


class SlotPurpose(StrEnum):
    """Reason why a tensor is in storage."""

    PERSISTENT = "persistent"
    """Loaded at boot, and committed: every set has a slot for it."""
    PAGE = "page"
    """Paged out and in within one training step."""
    CAPTURE = "capture"
    """A parameter's gradient, kept for comparison when the run asks for it."""


class PartPlace(NamedTuple):
    """Offsets in a slot's blocks: of a payload, and of its trailer."""

    start: int
    trailer: int


@dataclass(frozen=True, slots=True)
class Slot:
    """One slot.

    Attributes:
        tensor: name of the tensor; for a captured gradient the parameter's.
        purpose: why it is in storage.
        first_block: relative to its set; without one, to the slots that are in none.
        size_bytes: bytes of its payload.
        tiling: layout of a streamed tensor, whose tiles have a trailer each; None for a tensor with
            one trailer.
    """

    tensor: str
    purpose: SlotPurpose
    first_block: int
    size_bytes: int
    tiling: TileLayout | None = None

    @property
    def blocks(self) -> int:
        """Blocks it occupies, trailers included."""
        runs = 1 if self.tiling is None else self.tiling.columns
        return runs * self._run_bytes // BLOCK_BYTES

    @property
    def part_bytes(self) -> int:
        """Payload of a part in bytes: of a tile, or of the whole tensor."""
        return self.size_bytes if self.tiling is None else self.tiling.tile_bytes

    @property
    def parts(self) -> tuple[PartPlace, ...]:
        """Places of all parts that have a trailer: tiles, or the whole tensor."""
        if self.tiling is None:
            return (PartPlace(0, self._run_bytes - TRAILER_BYTES),)
        size, trailer = self.tiling.part_bytes, self.tiling.tile_bytes
        return tuple(
            PartPlace(start, start + trailer)
            for column in range(self.tiling.columns)
            for row in range(self.tiling.rows)
            for start in (column * self._run_bytes + row * size,)
        )

    @property
    def _run_bytes(self) -> int:
        """Bytes of blocks that begin with a part: of a column, or of the whole tensor."""
        if self.tiling is None:
            return page_bytes(self.size_bytes, BLOCK_BYTES)
        return self.tiling.column_request_bytes

    def payload(self, raw: bytes) -> bytes:
        """The tensor's bytes in its own order, from the bytes of the slot's blocks."""
        if self.tiling is None:
            return raw[: self.size_bytes]
        whole = b"".join(raw[part.start : part.start + self.part_bytes] for part in self.parts)
        return self.tiling.join(np.frombuffer(whole, "<u4")).tobytes()

    def to_json(self) -> dict[str, Any]:
        """Slot as plain JSON values; the layout is left out for one slot."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def assign_slots(
    program: Program,
    training: ExecutionPlan,
    erase_bytes: int | None = None,
    held: Collection[str] | None = None,
    updated: Collection[str] | None = None,
) -> tuple[Slot, ...]:
    """Lay out the slots of a program whose training step follows the given plan.

    Of a program that is one of several, there are slots for the persistent tensors that it has
    (`held`), and for the gradients of the parameters that it updates; None stands for all.

    Those of the sets come first, which tells the firmware which they are, and of these the resident
    ones. Where so many bytes of
    the storage are erased at once, no two slots share any of them: writing one neither takes longer
    nor endangers another.
    """
    unit = 1 if erase_bytes is None else erase_bytes // BLOCK_BYTES
    ops = {op.name: op for op in program.training.ops}
    paged = [ops[step.node].output for step in training if step.kind is StepKind.PAGE_OUT]
    gradients = program.parameter_gradients
    streamed = [tensor for tensor in program.persistent if tensor.name in program.streamed]
    wanted = [
        *(
            (tensor.name, SlotPurpose.PERSISTENT)
            for tensor in (*program.resident, *streamed)
            if held is None or tensor.name in held
        ),
        *((name, SlotPurpose.PAGE) for name in dict.fromkeys(paged) if name is not None),
        *((name, SlotPurpose.CAPTURE) for name in gradients if updated is None or name in updated),
    ]
    slots: list[Slot] = []
    next_block = {True: 0, False: 0}
    for name, purpose in wanted:
        in_set = purpose is SlotPurpose.PERSISTENT
        stored = gradients[name] if purpose is SlotPurpose.CAPTURE else name
        tiling = program.streamed.get(name) if in_set else None
        size_bytes = _tensor_bytes(program, stored)
        slots.append(Slot(name, purpose, next_block[in_set], size_bytes, tiling))
        next_block[in_set] += -(-slots[-1].blocks // unit) * unit
    return tuple(slots)


def slot_region_blocks(slots: Iterable[Slot]) -> int:
    """Blocks that the slots which are in no set together occupy."""
    return _end(slot for slot in slots if slot.purpose is not SlotPurpose.PERSISTENT)


def record_block(slots: Iterable[Slot]) -> int:
    """Index of a set's record block within the set: it follows the slots."""
    return _end(slot for slot in slots if slot.purpose is SlotPurpose.PERSISTENT)


def set_blocks(slots: Iterable[Slot]) -> int:
    """Blocks of a set, its record included; flash that is erased for it holds nothing else."""
    return (record_block(slots) // SET_ALIGNMENT + 1) * SET_ALIGNMENT


def _end(slots: Iterable[Slot]) -> int:
    return max((slot.first_block + slot.blocks for slot in slots), default=0)


def _tensor_bytes(program: Program, name: str) -> int:
    graph = program.training if name in program.training.by_name else program.evaluation
    return graph.by_name[name].size_bytes
