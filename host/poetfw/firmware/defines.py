# SPDX-License-Identifier: Apache-2.0
"""Definitions of generated headers: facts of the board, the batch, the devices and the data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from poetfw.boards import Arithmetic, Board
from poetfw.firmware.c_text import comment_text, string_literal
from poetfw.firmware.kept import KeptFeatures
from poetfw.firmware.ring import Ring
from poetfw.firmware.slots import BLOCK_BYTES
from poetfw.firmware.tensor_names import Names
from poetfw.firmware.views import Define, MessageView
from poetfw.ir import Graph
from poetfw.memory.plan import ALIGNMENT, MemoryPlan
from poetfw.memory.step_plan import Message, StepPlan
from poetfw.ops import kind_of, run_ops
from poetfw.ops.base import DIVISORS
from poetfw.schedule import ExecutionPlan
from poetfw.training import Program

IMAGE_WORDS = 18  # of a struct poet_image without a ring; poetfw.c asserts it


OTHER_SUMS: Mapping[Arithmetic, tuple[str, ...]] = {
    Arithmetic.SEPARATE: (),
    Arithmetic.FMA: ("fused products",),
    Arithmetic.INTEGERS: ("fused sums",),
}
"""Tags in a plan's identifier for its arithmetic: training must not resume with other rounding."""


def _size(value: int) -> str:
    return f"{value}u"


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts that follow from a program and its plan.

    Attributes:
        x_bytes, y_bytes, output_bytes: sizes of one sample.
        classes: number of classes; 0 for a network that does not classify.
        pages: number of transfers in a training step.
    """

    x_bytes: int
    y_bytes: int
    output_bytes: int
    classes: int
    pages: int

    @staticmethod
    def of(program: Program, memory: MemoryPlan, training: ExecutionPlan) -> Facts:
        """Facts of a program, its memory and its training step."""
        metric = program.evaluation.ops[-1]
        output = program.evaluation.by_name[metric.inputs[0]]
        return Facts(
            x_bytes=program.x.size_bytes,
            y_bytes=program.y.size_bytes,
            output_bytes=output.size_bytes // program.batch,
            classes=output.shape[1] if metric.kind == "correct_count" else 0,
            pages=sum(step.kind in ("page_in", "page_out") for step in training),
        )

    def public(
        self, program: Program, board: Board, memory: MemoryPlan, plan_id: str
    ) -> tuple[Define, ...]:
        """Definitions of poetfw.h."""
        return (
            Define("PLAN_ID", f"0x{plan_id}u", "names the plan; a storage image must agree"),
            Define("BOARD", string_literal(board.name), "for which it was made"),
            Define("BATCH", _size(program.batch), "samples of a training step"),
            Define("X_BYTES", _size(self.x_bytes), "features of one sample"),
            Define("Y_BYTES", _size(self.y_bytes), "target of one sample"),
            Define("OUTPUT_BYTES", _size(self.output_bytes), "what is predicted of one sample"),
            Define("CLASSES", str(self.classes), "that are told apart; 0 where none are"),
            Define("PAGES", str(self.pages), "transfers of a step; 0: training needs no storage"),
            Define("ARENA_BYTES", _size(memory.arena_bytes)),
        )


def board_settings(
    board: Board, plan_id: str, arena_bytes: int, page_buffer_offset: int
) -> tuple[Define, ...]:
    """Definitions of plan.h about the board and the arena."""
    size = _size
    firmware = board.require_firmware()
    inductor = str(int(firmware.dcdc_inductor))
    overlap: tuple[Define, ...] = ()
    if board.overlaps:
        comment = "that may be under way at once"
        overlap = (Define("POET_TRANSFERS", size(firmware.transfers), comment),)
    threads: tuple[Define, ...] = ()
    if board.compute.threads > 1:
        count = str(board.compute.threads)
        threads = (Define("POET_THREADS", count, "that divide the kernels' work"),)
    fma: tuple[Define, ...] = ()
    if board.compute.arithmetic is Arithmetic.FMA:
        fma = (Define("POET_FMA", "1", "products are added in one instruction, which rounds once"),)
    return (
        Define("POET_PLAN_ID", f"0x{plan_id}u", "names this plan; the storage image must agree"),
        Define("POET_BOARD", string_literal(board.name)),
        Define("POET_RAM_BYTES", size(board.ram_bytes)),
        Define("POET_FLASH_BYTES", size(board.flash_bytes)),
        Define("POET_STACK_BYTES", size(board.stack_bytes)),
        Define("POET_DCDC_INDUCTOR", inductor, "1 if the board has that of the chip's converter"),
        Define("POET_CONSOLE_BAUD", size(firmware.console_baud), "of the serial line"),
        Define("POET_ARENA_BYTES", size(arena_bytes)),
        Define("POET_ARENA_ALIGNMENT", size(ALIGNMENT)),
        Define("POET_BLOCK_BYTES", size(BLOCK_BYTES), "one storage block"),
        *overlap,
        *threads,
        *fma,
        Define("POET_PAGE_BUFFER", size(page_buffer_offset), "its offset in the arena"),
    )


def batch_settings(program: Program) -> tuple[Define, ...]:
    """Definitions of plan.h about a batch and its samples."""
    return (
        Define("POET_BATCH", _size(program.batch)),
        Define("POET_X_BYTES", _size(program.x.size_bytes), "features of one sample"),
        Define("POET_Y_BYTES", _size(program.y.size_bytes), "target of one sample"),
    )


def common_settings(
    program: Program,
    board: Board,
    memory: MemoryPlan,
    facts: Facts,
    names: Names,
    plan_id: str,
) -> tuple[Define, ...]:
    """Definitions of every project."""
    return (
        *board_settings(board, plan_id, memory.arena_bytes, memory.page_buffer_offset),
        *batch_settings(program),
        Define("POET_OUTPUT_BYTES", _size(facts.output_bytes), "what is predicted of one sample"),
        Define("POET_CLASSES", str(facts.classes), "0 where it does not classify"),
        Define("POET_PAGES", str(facts.pages), "transfers of a training step"),
        Define("POET_LOSS", names.tensor(program.loss)),
        Define("POET_METRIC", names.tensor(program.metric)),
    )


def ring_facts(ring: Ring | None, prefix: str) -> tuple[Define, ...]:
    """Definitions about the ring of recorded samples; empty without one."""
    if ring is None:
        return ()
    return (
        Define(f"{prefix}RING", _size(ring.samples), "samples that the ring holds"),
        Define(f"{prefix}RING_SHARE", _size(ring.share), "of each batch come from it"),
    )


def kept_settings(kept: KeptFeatures | None) -> tuple[Define, ...]:
    """Definitions of plan.h about kept features; empty without any."""
    if kept is None:
        return ()
    size = Define("POET_KEPT_BYTES", _size(kept.sample_bytes), "kept features of one sample")
    if kept.records:
        return (size, Define("POET_KEPT_RECORDS", _size(kept.records), "of samples, in RAM"))
    return (
        size,
        Define("POET_KEPT_BLOCKS", _size(kept.record_blocks), "of their record in storage"),
    )


def watchdog_facts(watchdog_ms: int | None) -> tuple[Define, ...]:
    """Definition of the watchdog's period; empty without one."""
    if watchdog_ms is None:
        return ()
    return (Define("WATCHDOG_MS", _size(watchdog_ms), "that the application may take unfed"),)


def worker_settings(training: StepPlan) -> tuple[Define, ...]:
    """Definitions of a step's threads and their arenas; empty for a single device."""
    if not training.threads:
        return ()
    workers, arenas = training.workers, [part.arena for part in training.own]
    places = ", ".join(f"{{{_size(a.offset)}, {_size(a.size_bytes)}}}" for a in arenas)
    return (
        Define("POET_WORKERS", _size(len(workers)), comment_text("; ".join(workers))),
        Define("POET_DEVICE_ARENAS", places, "first byte in the arena, bytes"),
    )


def device_facts(training: StepPlan) -> tuple[Define, ...]:
    """Definition of the number of devices; empty for a single one."""
    if not training.threads:
        return ()
    return (Define("DEVICES", _size(len(training.own)), "that a training step runs on"),)


def message_settings(program: Program, training: StepPlan) -> tuple[Define, ...]:
    """Definition of the number of messages; empty where all devices share a memory."""
    if not training.apart:
        return ()
    messages = training.own_messages(program)
    in_a_step = sum(message.behind is not None for message in messages)
    return (
        Define("POET_MESSAGES", _size(len(messages)), "from partners and to them"),
        Define("POET_STEP_MESSAGES", _size(in_a_step), "the first ones: those of a training step"),
    )


def message_views(
    program: Program, training: StepPlan, memory: MemoryPlan
) -> tuple[MessageView, ...] | None:
    """Messages of a program; None for the only program."""
    if not training.apart:
        return None
    tensors = {t.name: t for t in (*program.training.tensors, *program.persistent)}
    return tuple(
        MessageView(
            memory.offset_of(message.tensor, message.behind),
            tensors[message.tensor].size_bytes,
            message.target == training.here,
            message_comment(message, training.here),
        )
        for message in training.own_messages(program)
    )


def message_comment(message: Message, memory: str) -> str:
    """Description of a message, seen from a memory."""
    where = f"to {message.target}" if message.source == memory else f"from {message.source}"
    return comment_text(f"{message.tensor} {where}")


def divisors_of(*graphs: Graph) -> tuple[Define, ...]:
    """Definitions of shapes.h: common divisors of extents in these graphs; 1 for unused ones."""
    found: dict[str, int] = {}
    for graph in graphs:
        for op, where in run_ops(graph):
            for name, extent in kind_of(op).kernel(op, where).divided:
                found[name] = math.gcd(found.get(name, 0), extent)
    return tuple(
        Define(name, str(found.get(name, 1)), comment) for name, comment in DIVISORS.items()
    )
