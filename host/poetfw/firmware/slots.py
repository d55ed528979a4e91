# SPDX-License-Identifier: Apache-2.0
"""Slots: the regions of storage that hold one tensor each."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum

from poetfw.common.transfer import BLOCK_BYTES, TRAILER_BYTES
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


@dataclass(frozen=True, slots=True)
class Slot:
    """One slot.

    Attributes:
        tensor: name of the tensor; for a captured gradient the parameter's.
        purpose: why it is in storage.
        first_block: relative to its set; without one, to the slots that are in none.
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
    program: Program,
    training: ExecutionPlan,
    erase_bytes: int | None = None,
    held: Collection[str] | None = None,
    updated: Collection[str] | None = None,
) -> tuple[Slot, ...]:
    """Lay out the slots of a program whose training step follows the given plan.

    Of a program that is one of several, there are slots for the persistent tensors that it has
    (`held`), and for the gradients of the parameters that it updates; None stands for all.

    Those of the sets come first, which tells the firmware which they are. Where so many bytes of
    the storage are erased at once, no two slots share any of them: writing one neither takes longer
    nor endangers another.
    """
    unit = 1 if erase_bytes is None else erase_bytes // BLOCK_BYTES
    ops = {op.name: op for op in program.training.ops}
    paged = [ops[step.node].output for step in training if step.kind is StepKind.PAGE_OUT]
    gradients = program.parameter_gradients
    wanted = [
        *(
            (tensor.name, SlotPurpose.PERSISTENT)
            for tensor in program.persistent
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
        slots.append(Slot(name, purpose, next_block[in_set], _tensor_bytes(program, stored)))
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
