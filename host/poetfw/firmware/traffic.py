# SPDX-License-Identifier: Apache-2.0
"""Storage traffic of a training step: requests and bytes, as the firmware's runtime makes them.

A request moves neighbouring blocks. Pages follow `slots.c` and `pages.c`, which make the same ones;
records follow `data.c` and `storage.c`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from poetfw.common.transfer import TRAILER_BYTES
from poetfw.firmware.slots import BLOCK_BYTES, Slot, SlotPurpose
from poetfw.ir import Graph, Op
from poetfw.memory import StepPlan
from poetfw.ops import PiecedOp, kind_of, streamed_kind
from poetfw.ops.load import first_byte
from poetfw.ops.nests import sample_parts
from poetfw.ops.pieces import plain_name
from poetfw.schedule import StepKind
from poetfw.training import Program

_CRC_BYTES = 4


@dataclass(frozen=True, slots=True)
class Traffic:
    """Transfers from and to a storage, by which two traffics are compared and added.

    Attributes:
        requests: number of requests, each for neighbouring blocks.
        read_bytes, written_bytes: bytes of whole blocks.
    """

    requests: int = 0
    read_bytes: int = 0
    written_bytes: int = 0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(
            self.requests + other.requests,
            self.read_bytes + other.read_bytes,
            self.written_bytes + other.written_bytes,
        )

    def __sub__(self, other: Traffic) -> Traffic:
        return self + other * -1

    def __mul__(self, times: int) -> Traffic:
        return Traffic(self.requests * times, self.read_bytes * times, self.written_bytes * times)

    @property
    def blocks(self) -> int:
        """Number of blocks moved."""
        return (self.read_bytes + self.written_bytes) // BLOCK_BYTES


def step_traffic(program: Program, plan: StepPlan) -> Traffic:
    """Traffic of a training step: pages of its plan, and the samples on the card that it loads.

    Args:
        program: the training step.
        plan: its plan; only statements of the program that is looked at count.
    """
    ops, sizes = {op.name: op for op in program.training.ops}, program.training.by_name
    stops = {message.behind for message in plan.own_messages(program)} if plan.apart else set()
    found, checked = Traffic(), False
    for index, step in enumerate(plan.steps):
        op = ops[step.node]
        if plan.does(step) and op.output is not None:
            tensor = sizes[op.output]
            if step.kind is StepKind.PAGE_OUT:
                found += _written(tensor.size_bytes)
            elif step.kind is StepKind.PAGE_IN:
                found += _read(_page_requests(tensor.size_bytes))
            elif step.kind is StepKind.COMPUTE and plain_name(op.kind) in ("load_x", "load_y"):
                for wanted in _loaded_parts(op, program.training):
                    record = _record_requests(program, plain_name(op.kind), wanted, checked)
                    found += _read(record) * tensor.shape[0]
                    checked = True
        if index in stops:
            checked = False  # what follows a message selects the batch anew
    return found + streaming_traffic(program, plan)


def _loaded_parts(op: Op, graph: Graph) -> Iterator[tuple[int, int]]:
    """First byte and number of bytes of what a load reads of each sample: one part, or pieces."""
    kind = kind_of(op)
    if isinstance(kind, PiecedOp):
        yield from sample_parts(kind.nest(op, graph).body, {})
    elif op.output is not None:
        tensor = graph.by_name[op.output]
        yield first_byte(op), tensor.size_bytes // tensor.shape[0]


def streaming_traffic(program: Program, plan: StepPlan) -> Traffic:
    """Traffic of the streamed weights in a training step: part of that of the step."""
    ops, found = {op.name: op for op in program.training.ops}, Traffic()
    for step in plan.steps:
        kind = streamed_kind(ops[step.node])
        if plan.does(step) and step.kind is StepKind.COMPUTE and kind is not None:
            tiles = kind.traffic(ops[step.node], program.training)
            found += Traffic(tiles.requests, tiles.read_bytes, tiles.written_bytes)
    return found


def commit_traffic(program: Program) -> Traffic:
    """Writes of a commit: the persistent tensors that are in RAM, and a record of one block."""
    sizes = (tensor.size_bytes for tensor in program.resident)
    return sum(map(_written, sizes), Traffic(1, 0, BLOCK_BYTES))


def captured_traffic(slots: Iterable[Slot]) -> Traffic:
    """Traffic of a program's gradients, which the last step of a verified run writes."""
    kept = (slot.size_bytes for slot in slots if slot.purpose is SlotPurpose.CAPTURE)
    return sum(map(_written, kept), Traffic())


def _read(requests: Iterable[int]) -> Traffic:
    counts = list(requests)
    return Traffic(len(counts), BLOCK_BYTES * sum(counts))


def _written(size_bytes: int) -> Traffic:
    counts = list(_page_requests(size_bytes))
    return Traffic(len(counts), 0, BLOCK_BYTES * sum(counts))


def _page_requests(size_bytes: int) -> Iterator[int]:
    """Blocks of each request for a slot: whole ones, the rest's, the trailer's if it is apart."""
    whole, rest = divmod(size_bytes, BLOCK_BYTES)
    if whole:
        yield whole
    yield 1
    if rest > BLOCK_BYTES - TRAILER_BYTES:
        yield 1


def _record_requests(
    program: Program, kind: str, wanted: tuple[int, int], checked: bool
) -> Iterator[int]:
    """Blocks of each request for one sample.

    Args:
        program: its `x` and `y` are the parts of a record, which has a CRC of each behind them.
        kind: `load_x` or `load_y`.
        wanted: first byte and number of bytes, within the part.
        checked: True if the batch has been read before; else both parts are, to compare CRCs.
    """
    x, y = program.x.size_bytes, program.y.size_bytes
    held: list[int] = []
    for name, at, size, crc_at in (("load_x", 0, x, x + y), ("load_y", x, y, x + y + _CRC_BYTES)):
        if name == kind or not checked:
            whole = name == kind and wanted[1] == size
            yield from _part_requests(at, size, held, whole)
            yield from _part_requests(crc_at, _CRC_BYTES, held, True)


def _part_requests(at: int, size: int, held: list[int], directly: bool) -> Iterator[int]:
    """Blocks of each request for bytes of a record.

    Args:
        at: their offset.
        size: their number.
        held: the block in the page buffer, which is updated.
        directly: True if whole blocks are read to where they are wanted, in one request.
    """
    end = at + size
    while at < end:
        block, offset = divmod(at, BLOCK_BYTES)
        whole = (end - at) // BLOCK_BYTES if directly and not offset else 0
        if whole:
            yield whole
        elif [block] != held:
            held[:] = [block]
            yield 1
        at = (block + (whole or 1)) * BLOCK_BYTES
