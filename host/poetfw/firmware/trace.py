# SPDX-License-Identifier: Apache-2.0
"""Tracing of a training step: the device records the operands of each op.

The traced program is a copy of the project's folder with the same kernels, addresses and slots, so
that files changed in the folder are checked, too. The copy has another `statement.h`: the marks at
the beginning of each statement and at the end of the step call a hook, which writes the tensors
listed in a table to an area behind the storage image. A statement's inputs are recorded before it
and its results before the next one. This covers buffers that are shared in place, and parameters
before their update.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from poetfw.boards import Board
from poetfw.common.errors import OutputError
from poetfw.common.resources import firmware_templates_dir
from poetfw.common.version import __version__
from poetfw.firmware.c_text import comment_text
from poetfw.firmware.library import GENERATED, LIBRARY
from poetfw.firmware.project import (
    Project,
    read_sources,
    render_linker_scripts,
    template_environment,
)
from poetfw.firmware.slots import BLOCK_BYTES, Slot
from poetfw.firmware.step_code import statement_numbers
from poetfw.ir import NUMPY_TYPES, Graph, Op, Tensor
from poetfw.memory import MemoryPlan, StepPlan
from poetfw.ops import Array
from poetfw.schedule import StepKind

_REQUEST = struct.Struct("<8s4I")
_MAGIC = b"POETTRC1"
_END_OF_TRACE = struct.Struct("<8sI")
_END_MAGIC = b"POETTRC2"
_STEP_FILE = f"{GENERATED}/train_step.c"
_PLAN_FILE = f"{GENERATED}/plan.h"

Key = tuple[int, str]
"""Key of a record: the statement before which it is made, and the tensor."""


@dataclass(frozen=True, slots=True)
class TensorRecord:
    """Record of a tensor before a statement.

    Attributes:
        statement: number of the statement, from 1; at the end of the step, one more than the last.
        tensor: the tensor.
        offset: offset in the arena; of a streamed tensor, its number.
        slot: place of a streamed tensor in storage, whose blocks are recorded; None in RAM.
    """

    statement: int
    tensor: Tensor
    offset: int
    slot: Slot | None = None

    @property
    def size_bytes(self) -> int:
        """Bytes of the tensor in RAM; 0 for a streamed tensor."""
        return self.tensor.size_bytes if self.slot is None else 0

    @property
    def comment(self) -> str:
        """Comment with the tensor's name."""
        return comment_text(self.tensor.name)

    @property
    def blocks(self) -> int:
        """Number of blocks in the trace area."""
        return -(-self.size_bytes // BLOCK_BYTES) if self.slot is None else self.slot.blocks

    def values(self, raw: Array) -> Array:
        """Values of the tensor, from the bytes of its blocks."""
        if self.slot is None:
            typed = raw[: self.size_bytes].view(NUMPY_TYPES[self.tensor.dtype])
        else:
            typed = np.frombuffer(self.slot.payload(raw.tobytes()), np.float32)
        return typed.reshape(self.tensor.shape)


@dataclass(frozen=True, slots=True)
class TracedOp:
    """Op of a statement."""

    statement: int
    op: Op


@dataclass(frozen=True)
class TraceTable:
    """Table of the tensors that a training step records.

    Attributes:
        graph: the training step.
        records: records in order of time; the persistent tensors come first.
        ops: executed ops in order, including recomputed ones.
        statements: number of statements.
    """

    graph: Graph
    records: tuple[TensorRecord, ...]
    ops: tuple[TracedOp, ...]
    statements: int

    @staticmethod
    def of(
        graph: Graph, plan: StepPlan, memory: MemoryPlan, slots: Sequence[Slot] = ()
    ) -> TraceTable:
        """Create the table of a training step with its plan, addresses and slots.

        Raises:
            OutputError: The memory plan is not that of the execution plan.
        """
        streamed = {s.tensor: s for s in slots if s.tiling is not None or s.image is not None}
        persistent = {stay.owner: stay.offset for stay in memory.persistent}
        persistent |= {name: number for number, name in enumerate(streamed)}
        ops = {op.name: op for op in graph.ops}
        steps = plan.steps
        stays = {
            part.device: part.arena.own(memory.training) if plan.threads else memory.training
            for part in plan.own
        }
        numbers = statement_numbers(steps)
        wanted: dict[Key, int] = {
            (1, tensor.name): persistent[tensor.name] for tensor in graph.persistent
        }
        traced = []
        for index, step in enumerate(steps):
            if step.kind != StepKind.COMPUTE:
                continue
            op, number = ops[step.node], numbers[index]
            there = {
                stay.owner: stay.offset
                for stay in stays[step.device]
                if stay.lower <= index < stay.upper and not stay.workspace
            } | persistent
            constants = {tensor.name for tensor in graph.constants}
            before = [*(name for name in graph.reads(op) if name not in constants), *op.updates]
            after = [*([op.output] if op.output is not None else []), *op.updates]
            wanted |= {(number, name): there[name] for name in before}
            wanted |= {(number + 1, name): there[name] for name in after}
            traced.append(TracedOp(number, op))
        records = tuple(
            TensorRecord(number, graph.by_name[name], offset, streamed.get(name))
            for (number, name), offset in sorted(wanted.items(), key=lambda item: item[0][0])
        )
        in_ram = [record for record in records if record.slot is None]
        if any(record.offset + record.size_bytes > memory.arena_bytes for record in in_ram):
            raise OutputError(
                "memory.json places a tensor beyond the arena", "run `poetfw build` again"
            )
        return TraceTable(graph, records, tuple(traced), numbers[-1])

    @cached_property
    def blocks(self) -> Mapping[int, int]:
        """Number of blocks recorded before each statement."""
        blocks = dict.fromkeys(range(1, self.statements + 2), 0)
        for record in self.records:
            blocks[record.statement] += record.blocks
        return blocks

    def recorded_blocks(self, request: TraceRequest) -> int:
        """Number of blocks that a run with this request records."""
        first, last = request.statements
        steps = request.steps[1] - request.steps[0] + 1
        return steps * sum(self.blocks[number] for number in range(first, last + 1))

    def parts(self, limit_bytes: int) -> Iterator[tuple[TracedOp, ...]]:
        """Runs of consecutive ops whose records fit the limit; a run has at least one op."""
        part: list[TracedOp] = []
        for traced in self.ops:
            first = part[0].statement if part else traced.statement
            blocks = sum(self.blocks[n] for n in range(first, traced.statement + 2))
            if part and blocks * BLOCK_BYTES > limit_bytes:
                yield tuple(part)
                part = []
            part.append(traced)
        yield tuple(part)


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """Request to record before a range of statements, in a range of training steps.

    Both ranges are inclusive and count from 1.
    """

    steps: tuple[int, int]
    statements: tuple[int, int]

    def pack(self) -> bytes:
        """The first block of the trace area."""
        return _REQUEST.pack(_MAGIC, *self.steps, *self.statements).ljust(BLOCK_BYTES, b"\0")


def traced_project(folder: Path, table: TraceTable, board: Board, block: int) -> Project:
    """A copy of the project in a folder that records what the table lists.

    Args:
        folder: folder of the project.
        table: table of the records.
        board: board with additional RAM for the trace's variables.
        block: first block of the trace area, after those of the storage image.

    Raises:
        OutputError: A file is missing.
    """
    files = dict(read_sources(folder))
    templates = firmware_templates_dir() / "trace"
    for name in ("trace.h", "trace.c", "statement.h"):
        files[f"{LIBRARY}/runtime/{name}"] = (templates / name).read_bytes()
    render = template_environment().get_template
    files[_PLAN_FILE] += render("trace/plan_end.h.j2").render(ram_bytes=board.ram_bytes).encode()
    files[f"{GENERATED}/trace_records.c"] = (
        render("trace/trace_records.c.j2")
        .render(version=__version__, block=block, records=table.records)
        .encode()
    )
    return Project({**files, **render_linker_scripts(board)})


def append_request(image: Path, request: TraceRequest) -> None:
    """Append a request to a file with a storage image."""
    with image.open("ab") as file:
        file.write(request.pack())


def read_trace(
    image: Path, table: TraceTable, block: int, request: TraceRequest
) -> dict[int, dict[Key, Array]]:
    """Read recorded values by training step; each value is read on access.

    Args:
        image: storage image of the run.
        table: table of the records.
        block: first block of the trace area.
        request: the request.

    Raises:
        OutputError: The run did not record what was requested, as its training step marks other
            statements.
    """
    first, last = request.statements
    records = [record for record in table.records if first <= record.statement <= last]
    steps = range(request.steps[0], request.steps[1] + 1)
    blocks = table.recorded_blocks(request)
    area = np.memmap(image, np.uint8, "r", block * BLOCK_BYTES)
    end = _END_OF_TRACE.unpack(area[: _END_OF_TRACE.size].tobytes())
    if end != (_END_MAGIC, blocks) or len(area) < (1 + blocks) * BLOCK_BYTES:
        raise OutputError(
            f"{_STEP_FILE} cannot be traced: the run did not record the {blocks:,} blocks it was "
            "asked for, because the file does not have the plan's statements",
            "leave the marks with their numbers, POET_STATEMENT(...), as they are",
            "or run `poetfw build` again",
        )
    content = area[BLOCK_BYTES:]
    values: dict[int, dict[Key, Array]] = {}
    begin = 0
    for step in steps:
        values[step] = {}
        for record in records:
            end_of_record = begin + record.blocks * BLOCK_BYTES
            typed = record.values(content[begin:end_of_record])
            values[step][record.statement, record.tensor.name] = typed
            begin = end_of_record
    return values
