# SPDX-License-Identifier: Apache-2.0
"""Slots: the places in storage that hold one tensor each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from poetfw.schedule import ExecutionPlan, StepKind
from poetfw.training import Program

BLOCK_BYTES = 512
TRAILER_BYTES = 16
"""What ends every slot's last block: magic, payload bytes, generation, CRC-32 of the payload."""


class SlotPurpose(StrEnum):
    """Why a tensor is in storage."""

    PERSISTENT = "persistent"
    """Loaded at boot, saved at the end of training."""
    PAGE = "page"
    """Paged out and in within one training step."""
    CAPTURE = "capture"
    """A parameter's gradient, kept for comparison when the run asks for it."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One slot.

    Attributes:
        tensor: name of the tensor; for a captured gradient the parameter's.
        purpose: why it is in storage.
        first_block: relative to the slot region.
        size_bytes: bytes of its payload.
    """

    tensor: str
    purpose: SlotPurpose
    first_block: int
    size_bytes: int

    @property
    def blocks(self) -> int:
        """Blocks it occupies, trailer included."""
        return -(-(self.size_bytes + TRAILER_BYTES) // BLOCK_BYTES)


def assign_slots(
    program: Program, training: ExecutionPlan, erase_bytes: int | None = None
) -> tuple[Slot, ...]:
    """Lay out the slots of a program whose training step follows the given plan.

    Where so many bytes of the storage are erased at once, no two slots share any of them: writing
    one neither takes longer nor endangers another.
    """
    unit = 1 if erase_bytes is None else erase_bytes // BLOCK_BYTES
    ops = {op.name: op for op in program.training.ops}
    paged = [ops[step.node].output for step in training if step.kind is StepKind.PAGE_OUT]
    wanted = [
        *((tensor.name, SlotPurpose.PERSISTENT) for tensor in program.persistent),
        *((name, SlotPurpose.PAGE) for name in dict.fromkeys(paged) if name is not None),
        *((name, SlotPurpose.CAPTURE) for name in program.parameter_gradients),
    ]
    slots: list[Slot] = []
    block = 0
    for name, purpose in wanted:
        size = _tensor_bytes(program, name)
        slots.append(Slot(name, purpose, block, size))
        block += -(-slots[-1].blocks // unit) * unit
    return tuple(slots)


def slot_region_blocks(slots: Sequence[Slot]) -> int:
    """Blocks that all slots together occupy."""
    return slots[-1].first_block + slots[-1].blocks if slots else 0


def _tensor_bytes(program: Program, name: str) -> int:
    graph = program.training if name in program.training.by_name else program.evaluation
    return graph.by_name[name].size_bytes
