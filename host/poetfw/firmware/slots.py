# SPDX-License-Identifier: Apache-2.0
"""Slots: the regions of storage that hold one tensor each."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from poetfw.common.transfer import BLOCK_BYTES as BLOCK_BYTES
from poetfw.common.transfer import page_bytes
from poetfw.ops import ImageLayout, TileLayout, image_layout
from poetfw.schedule import ExecutionPlan, StepKind
from poetfw.training import Program, stored_tensors

SET_ALIGNMENT = 8
"""Sets begin and end at a multiple of so many blocks: 4 KiB, which flash erases at once."""


class SlotPurpose(StrEnum):
    """Reason why a tensor is in storage."""

    PERSISTENT = "persistent"
    """Loaded at boot, and committed: every set has a slot for it."""
    CONSTANT = "constant"
    """A frozen weight, which is only read."""
    PAGE = "page"
    """Paged out and in within one training step."""
    CAPTURE = "capture"
    """A parameter's gradient, kept for comparison when the run asks for it."""
    STORED = "stored"
    """An activation or a gradient that is never in RAM as a whole."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One slot.

    Attributes:
        tensor: name of the tensor; for a captured gradient the parameter's.
        purpose: why it is in storage.
        first_block: relative to its set; without one, to the slots that are in none.
        size_bytes: bytes of its payload.
        tiling: layout of a streamed tensor in columns; None for a tensor in its own order.
        image: layout of a stored tensor or of a table in storage, whose tiles have a trailer each;
            None for another one.
    """

    tensor: str
    purpose: SlotPurpose
    first_block: int
    size_bytes: int
    tiling: TileLayout | None = None
    image: ImageLayout | None = None

    @property
    def blocks(self) -> int:
        """Blocks it occupies, trailer included."""
        if self.image is not None:
            return self.image.stored_bytes // BLOCK_BYTES
        if self.tiling is None:
            return page_bytes(self.size_bytes, BLOCK_BYTES) // BLOCK_BYTES
        return self.tiling.stored_bytes // BLOCK_BYTES

    def payload(self, raw: bytes) -> bytes:
        """The tensor's bytes in its own order, from the bytes of the slot's blocks."""
        if self.image is not None:
            return self.image.payload(raw)
        if self.tiling is None:
            return raw[: self.size_bytes]
        whole = b"".join(self._columns(raw))
        return self.tiling.join(np.frombuffer(whole, "<u4")).tobytes()

    def stored(self, payload: bytes) -> bytes:
        """Bytes of the slot's blocks, without the trailer, from the tensor's own bytes."""
        if self.tiling is None:
            return payload.ljust(self.blocks * BLOCK_BYTES, b"\0")
        tiles = self.tiling.split(np.frombuffer(payload, "<u4"))
        columns = tiles.reshape(self.tiling.columns, -1)
        sizes = self.tiling.column_request_bytes
        whole = (c.tobytes().ljust(size, b"\0") for c, size in zip(columns, sizes, strict=True))
        return b"".join(whole)

    def crc(self, raw: bytes) -> int:
        """CRC-32 in the trailer: of the payload, or of the CRCs of a streamed tensor's columns."""
        if self.tiling is None:
            return zlib.crc32(raw[: self.size_bytes])
        crcs = (zlib.crc32(column).to_bytes(4, "little") for column in self._columns(raw))
        return zlib.crc32(b"".join(crcs))

    def _columns(self, raw: bytes) -> Iterator[bytes]:
        assert self.tiling is not None
        start = 0
        for size in self.tiling.column_request_bytes:
            yield raw[start : start + self.tiling.column_bytes]
            start += size

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
    constants = program.streamed_constants
    images = {tensor.name: image_layout(tensor) for tensor in stored_tensors(program)}
    layouts: Mapping[SlotPurpose, Mapping[str, TileLayout | ImageLayout]] = {
        SlotPurpose.PERSISTENT: program.streamed,
        SlotPurpose.CONSTANT: constants,
        SlotPurpose.STORED: images,
    }
    wanted = [
        *(
            (tensor.name, SlotPurpose.PERSISTENT)
            for tensor in (*program.resident, *streamed)
            if held is None or tensor.name in held
        ),
        *((name, SlotPurpose.CONSTANT) for name in constants),
        *((name, SlotPurpose.PAGE) for name in dict.fromkeys(paged) if name is not None),
        *((name, SlotPurpose.CAPTURE) for name in gradients if updated is None or name in updated),
        *((name, SlotPurpose.STORED) for name in images),
    ]
    slots: list[Slot] = []
    next_block = {True: 0, False: 0}
    for name, purpose in wanted:
        in_set = purpose is SlotPurpose.PERSISTENT
        stored = gradients[name] if purpose is SlotPurpose.CAPTURE else name
        layout = layouts.get(purpose, {}).get(name)
        tiling = layout if isinstance(layout, TileLayout) else None
        image = layout if isinstance(layout, ImageLayout) else None
        size_bytes = _tensor_bytes(program, stored)
        slots.append(Slot(name, purpose, next_block[in_set], size_bytes, tiling, image))
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
