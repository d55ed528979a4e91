# SPDX-License-Identifier: Apache-2.0
"""From a program, its plans and its memory plan to the views that templates lay out."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from poetfw import __version__
from poetfw.boards import Arithmetic, Board
from poetfw.firmware.c_text import (
    comment_text,
    literal,
    shape_text,
    string_literal,
    wrap_call,
)
from poetfw.firmware.library import flash_array
from poetfw.firmware.ring import Ring
from poetfw.firmware.slots import BLOCK_BYTES, Slot, SlotPurpose
from poetfw.firmware.turns import Span, Turn, Turns
from poetfw.firmware.under_way import UnderWay
from poetfw.firmware.views import (
    ConstantsView,
    Define,
    FlashView,
    MemoryRow,
    MessageView,
    PersistentView,
    ProjectView,
    SlotView,
    StatementView,
    StepView,
)
from poetfw.ir import Dtype, Graph, Op, Tensor
from poetfw.memory.plan import ALIGNMENT, Allocation, MemoryPlan
from poetfw.memory.step_plan import Message, StepPlan, on_one
from poetfw.ops import Constants, Kernel, kind_of, stores_gradient
from poetfw.ops.base import DIVISORS, Field
from poetfw.schedule import ExecutionPlan, Step, StepKind
from poetfw.training import Program

_INDENT = 4
_IMAGE_WORDS = 18  # of a struct poet_image without a ring; poetfw.c asserts it
_OTHER_SUMS: Mapping[Arithmetic, tuple[str, ...]] = {
    Arithmetic.SEPARATE: (),
    Arithmetic.FMA: ("fused products",),
    Arithmetic.INTEGERS: ("fused sums",),
}
"""What tells plans apart that sum otherwise: training must not go on with other bits."""

C_TYPES: Mapping[Dtype, str] = {Dtype.F32: "float", Dtype.I32: "int32_t"}


@dataclass(frozen=True)
class Prediction:
    """How one sample is predicted.

    Attributes:
        graph: from the sample to the network's output.
        plan: when its ops run.
        memory: where its tensors lie in the arena.
    """

    graph: Graph
    plan: ExecutionPlan
    memory: tuple[Allocation, ...]


@dataclass(frozen=True)
class Lowering:
    """The views of a project, and which identifier stands for which of the model's names."""

    view: ProjectView
    names: Mapping[str, str]


def lower(
    program: Program,
    board: Board,
    training: StepPlan,
    evaluation: ExecutionPlan,
    memory: MemoryPlan,
    slots: Sequence[Slot],
    prediction: Prediction | None = None,
    ring: Ring | None = None,
    slices: bool = False,
    watchdog_ms: int | None = None,
) -> Lowering:
    """Turn plans into views. Identifiers are made from indices, never from a model's strings."""
    plan_id = _plan_id(
        program,
        board,
        ring,
        _identity(training.steps),
        _identity(evaluation),
        memory.to_json(),
        *_place_among_memories(training),
    )
    names = _Names(program, prediction)
    constants = ConstantTable()
    persistent_offsets = {a.owner: a.offset for a in memory.persistent}
    slot_names = {(slot.tensor, slot.purpose): names.slot(slot) for slot in slots}
    shared = _Shared(names, constants, slot_names, board.overlaps)
    training_view = replace(
        _StepLowering(
            shared,
            program.training,
            training,
            memory.training,
            memory.persistent,
            training.own_messages(program) if training.apart else (),
        ).lower("poet_train_step", "one training step"),
        sliced=slices,
    )
    evaluation_view = _StepLowering(
        shared, program.evaluation, on_one(evaluation), memory.evaluation
    ).lower("poet_evaluate_step", "one evaluation step")
    views = [training_view, evaluation_view]
    prediction_view = None
    if prediction is not None:
        prediction_view = _StepLowering(
            shared,
            prediction.graph,
            on_one(prediction.plan),
            prediction.memory,
            predicts=True,
        ).lower("poet_predict_step", "the prediction of one sample")
        views.append(prediction_view)
    facts = _Facts.of(program, memory, training.steps)
    view = ProjectView(
        title=f"{comment_text(program.training.name.removesuffix(' training'))} on {board.name}, "
        f"batch {program.batch}",
        plan_id=plan_id,
        poetfw_version=__version__,
        board=board.name,
        settings=(
            *_settings(program, board, memory, facts, names, plan_id),
            *_ring_facts(ring, "POET_"),
            *([Define("POET_SLICES", "1", "a training step can be cut")] if slices else []),
            *_worker_settings(training),
            *_message_settings(program, training),
        ),
        facts=(
            *facts.public(program, board, memory, plan_id),
            *_ring_facts(ring, ""),
            *_watchdog_facts(watchdog_ms),
            *_device_facts(training),
        ),
        slices=slices,
        ring=ring is not None,
        image_words=_IMAGE_WORDS + (ring is not None),
        target_type=C_TYPES[program.label.dtype],
        target_comment="a class" if facts.classes else "the outputs wanted",
        metric_comment="how many answers are right" if facts.classes else "mean loss",
        addresses=tuple(
            names.address(names.tensor(tensor), tensor, persistent_offsets[tensor.name])
            for tensor in program.persistent
            if tensor.name in persistent_offsets
        ),
        flash=tuple(names.in_flash(tensor) for tensor in program.constants),
        slots=tuple(
            SlotView(
                slot_names[slot.tensor, slot.purpose],
                slot.first_block,
                slot.size_bytes,
                f"{slot.purpose}: {comment_text(slot.tensor)}",
            )
            for slot in slots
        ),
        persistents=tuple(
            PersistentView(
                slot_names[slot.tensor, slot.purpose],
                persistent_offsets[slot.tensor],
                comment_text(slot.tensor),
            )
            for slot in slots
            if slot.purpose is SlotPurpose.PERSISTENT
        ),
        constants=constants.views(),
        divisors=divisors_of(
            program.training,
            program.evaluation,
            *([] if prediction is None else [prediction.graph]),
        ),
        kernels=tuple(sorted({kernel for step in views for kernel in step.kernels})),
        training=training_view,
        evaluation=evaluation_view,
        prediction=prediction_view,
        messages=_messages(program, training, memory),
    )
    return Lowering(view, names.table())


def _plan_id(
    program: Program,
    board: Board,
    ring: Ring | None,
    *parts: object,
) -> str:
    """Names everything that firmware and storage image must agree on."""
    document = [
        __version__,
        board.label,
        program.training.to_json(),
        program.evaluation.to_json(),
        *parts,
        *_OTHER_SUMS[board.compute.arithmetic],
        *([] if ring is None else [ring.samples, ring.share]),
        *([program.fingerprint] if program.fingerprint else []),
    ]
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:8]


def _identity(plan: ExecutionPlan) -> list[tuple[str | None, ...]]:
    """Each step as the plan's identifier covers it: an only device has no name there."""
    return [tuple(step) if step.device else tuple(step[:2]) for step in plan]


def _size(value: int) -> str:
    return f"{value}u"


@dataclass(frozen=True, slots=True)
class _Facts:
    """What follows from a program and its plan.

    Attributes:
        x_bytes, y_bytes, output_bytes: of one sample.
        classes: how many it tells apart; 0 where it does not classify.
        pages: how many transfers a training step begins.
    """

    x_bytes: int
    y_bytes: int
    output_bytes: int
    classes: int
    pages: int

    @staticmethod
    def of(program: Program, memory: MemoryPlan, training: ExecutionPlan) -> _Facts:
        metric = program.evaluation.ops[-1]
        output = program.evaluation.by_name[metric.inputs[0]]
        return _Facts(
            x_bytes=program.input.size_bytes // program.batch,
            y_bytes=program.label.size_bytes // program.batch,
            output_bytes=output.size_bytes // program.batch,
            classes=output.shape[1] if metric.kind == "correct_count" else 0,
            pages=sum(step.kind in ("page_in", "page_out") for step in training),
        )

    def public(
        self, program: Program, board: Board, memory: MemoryPlan, plan_id: str
    ) -> tuple[Define, ...]:
        """What poetfw.h says."""
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
    """What plan.h says of the board, and of the arena."""
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
    """What plan.h says of a batch and its samples."""
    x_bytes = program.input.size_bytes // program.batch
    y_bytes = program.label.size_bytes // program.batch
    return (
        Define("POET_BATCH", _size(program.batch)),
        Define("POET_X_BYTES", _size(x_bytes), "features of one sample"),
        Define("POET_Y_BYTES", _size(y_bytes), "target of one sample"),
    )


def _settings(
    program: Program,
    board: Board,
    memory: MemoryPlan,
    facts: _Facts,
    names: _Names,
    plan_id: str,
) -> tuple[Define, ...]:
    return (
        *board_settings(board, plan_id, memory.arena_bytes, memory.page_buffer_offset),
        *batch_settings(program),
        Define("POET_OUTPUT_BYTES", _size(facts.output_bytes), "what is predicted of one sample"),
        Define("POET_CLASSES", str(facts.classes), "0 where it does not classify"),
        Define("POET_PAGES", str(facts.pages), "transfers of a training step"),
        Define("POET_LOSS", names.tensor(program.loss)),
        Define("POET_METRIC", names.tensor(program.metric)),
    )


def _ring_facts(ring: Ring | None, prefix: str) -> tuple[Define, ...]:
    if ring is None:
        return ()
    return (
        Define(f"{prefix}RING", _size(ring.samples), "samples that the ring holds"),
        Define(f"{prefix}RING_SHARE", _size(ring.share), "of each batch come from it"),
    )


def _watchdog_facts(watchdog_ms: int | None) -> tuple[Define, ...]:
    if watchdog_ms is None:
        return ()
    return (Define("WATCHDOG_MS", _size(watchdog_ms), "that the application may take unfed"),)


def _worker_settings(training: StepPlan) -> tuple[Define, ...]:
    if not training.threads:
        return ()
    names = workers_of(training)
    arenas = [part.arena for part in training.own]
    places = ", ".join(f"{{{_size(a.offset)}, {_size(a.size_bytes)}}}" for a in arenas)
    return (
        Define("POET_WORKERS", _size(len(names)), comment_text("; ".join(names))),
        Define("POET_DEVICE_ARENAS", places, "first byte in the arena, bytes"),
    )


def _device_facts(training: StepPlan) -> tuple[Define, ...]:
    if not training.threads:
        return ()
    return (Define("DEVICES", _size(len(training.own)), "that a training step runs on"),)


def _place_among_memories(training: StepPlan) -> tuple[str, ...]:
    """The memory and all others, in the plan's identifier; an only memory has no name there."""
    if not training.apart:
        return ()
    return training.here, training.evaluates, *training.memories


def _message_settings(program: Program, training: StepPlan) -> tuple[Define, ...]:
    if not training.apart:
        return ()
    messages = training.own_messages(program)
    in_a_step = sum(message.behind is not None for message in messages)
    return (
        Define("POET_MESSAGES", _size(len(messages)), "from partners and to them"),
        Define("POET_STEP_MESSAGES", _size(in_a_step), "the first ones: those of a training step"),
    )


def _messages(
    program: Program, training: StepPlan, memory: MemoryPlan
) -> tuple[MessageView, ...] | None:
    if not training.apart:
        return None
    tensors = {t.name: t for t in (*program.training.tensors, *program.persistent)}
    return tuple(
        MessageView(
            memory.offset_of(message.tensor, message.behind),
            tensors[message.tensor].size_bytes,
            message.target == training.here,
            _message_comment(message, training.here),
        )
        for message in training.own_messages(program)
    )


def _message_comment(message: Message, memory: str) -> str:
    where = f"to {message.target}" if message.source == memory else f"from {message.source}"
    return comment_text(f"{message.tensor} {where}")


def workers_of(plan: StepPlan) -> tuple[str, ...]:
    """The workers of a program, for people: a device each, and then each link that it uses."""
    copies = (s for s in plan.steps if s.kind is StepKind.COPY and plan.does(s))
    return (*(part.device for part in plan.own), *dict.fromkeys(map(_link, copies)))


def _link(copy: Step) -> str:
    """The one link of two devices, whose copies follow each other in whichever direction."""
    return " and ".join(sorted((copy.device, copy.target or "")))


class _Names:
    """Identifiers for tensors, ops and slots."""

    def __init__(self, program: Program, prediction: Prediction | None) -> None:
        self._table: dict[str, str] = {}
        self._persistent = {
            tensor.name: self._add(f"P{index:04d}", tensor.name)
            for index, tensor in enumerate(program.persistent)
        } | {
            tensor.name: self._add(f"C{index:04d}", tensor.name)
            for index, tensor in enumerate(program.constants)
        }
        self._transient: dict[tuple[str, str], str] = {}
        index = 0
        graphs = [program.training, program.evaluation]
        for graph in (*graphs, *([] if prediction is None else [prediction.graph])):
            for tensor in graph.tensors:
                if tensor.role.transient:
                    identifier = self._add(f"T{index:04d}", tensor.name)
                    self._transient[graph.name, tensor.name] = identifier
                    index += 1
        self._training = program.training

    def _add(self, identifier: str, name: str) -> str:
        self._table[identifier] = name
        return identifier

    def tensor(self, tensor: Tensor, graph: Graph | None = None) -> str:
        """The identifier of a tensor; transient ones are looked up in their graph."""
        if not tensor.role.transient:
            return self._persistent[tensor.name]
        return self._transient[(graph or self._training).name, tensor.name]

    def slot(self, slot: Slot) -> str:
        """The macro that holds a slot's index."""
        if slot.purpose is SlotPurpose.PAGE:
            return f"SLOT_{self._transient[self._training.name, slot.tensor]}"
        prefix = "CAPTURE" if slot.purpose is SlotPurpose.CAPTURE else "SLOT"
        return f"{prefix}_{self._persistent[slot.tensor]}"

    def address(self, identifier: str, tensor: Tensor, offset: int) -> Define:
        """The macro that gives a tensor's address."""
        c_type = C_TYPES[tensor.dtype]
        return Define(
            identifier,
            f"(({c_type} *)(void *)(poet_arena + {offset}u))",
            f"{comment_text(tensor.name)} {shape_text(tensor.shape)}",
        )

    def in_flash(self, tensor: Tensor) -> FlashView:
        """The array in flash that holds a constant, and the macro that stands for its address."""
        identifier = self._persistent[tensor.name]
        return FlashView(
            identifier,
            f"((const {C_TYPES[tensor.dtype]} *)(const void *){flash_array(identifier)})",
            f"{comment_text(tensor.name)} {shape_text(tensor.shape)}",
            flash_array(identifier),
            tensor.elements,
        )

    def table(self) -> Mapping[str, str]:
        """The model's name behind every identifier."""
        return dict(self._table)


class ConstantTable:
    """The kernels' constants; ops with the same ones share them."""

    def __init__(self) -> None:
        self._views: dict[tuple[str, tuple[tuple[str, str], ...]], ConstantsView] = {}

    def arguments(self, op: Op, kernel: Kernel, identifier: Callable[[str], str]) -> list[str]:
        """What a kernel is called with, but for its workspace, as C.

        Args:
            op: the op that it runs, which the constants' comment names.
            kernel: the call.
            identifier: what stands for a tensor, by its name.
        """
        arguments = []
        if kernel.struct is not None:
            arguments.append(f"&{self._add(op, kernel.struct, kernel.fields)}")
        for argument in kernel.arguments:
            if argument is None:
                arguments.append("NULL")
            elif isinstance(argument, Constants):
                constants = self._add(op, argument.struct, argument.fields)
                arguments.append(f"&{constants}.{argument.member}")
            elif isinstance(argument, int):
                arguments.append(literal(argument))
            else:
                arguments.append(identifier(argument))
        return arguments

    def _add(self, op: Op, struct: str, values: Sequence[tuple[str, Field]]) -> str:
        """The identifier of constants of a kernel."""
        fields = tuple((name, literal(value)) for name, value in values)
        key = (struct, fields)
        if key not in self._views:
            self._views[key] = ConstantsView(
                struct, f"poet_op{len(self._views):04d}", comment_text(op.name), fields
            )
        return self._views[key].name

    def views(self) -> tuple[ConstantsView, ...]:
        """All of them, for the templates."""
        return tuple(self._views.values())


def divisors_of(*graphs: Graph) -> tuple[Define, ...]:
    """What shapes.h says of the kernels of all these graphs; 1 where nothing is to be divided."""
    found: dict[str, int] = {}
    for graph in graphs:
        for op in graph.ops:
            for name, extent in kind_of(op).kernel(op, graph).divided:
                found[name] = math.gcd(found.get(name, 0), extent)
    return tuple(
        Define(name, str(found.get(name, 1)), comment) for name, comment in DIVISORS.items()
    )


class _Shared(NamedTuple):
    """Names, constants and slots that the steps of a program have together."""

    names: _Names
    constants: ConstantTable
    slots: Mapping[tuple[str, SlotPurpose], str]
    overlap: bool


class _StepLowering:
    """Lowers what the program of one memory does of a step to the C function that does it.

    Args:
        shared: what it has together with the program's other steps.
        graph: the step.
        plan: when its ops run, and on which devices.
        allocations: where its tensors lie.
        persistent: where tensors lie that live for the whole run; needed for several devices.
        messages: those that the program stops for, in their order.
        predicts: True where the sample comes from the caller, and the output goes there.
    """

    def __init__(
        self,
        shared: _Shared,
        graph: Graph,
        plan: StepPlan,
        allocations: Sequence[Allocation],
        persistent: Sequence[Allocation] = (),
        messages: Sequence[Message] = (),
        *,
        predicts: bool = False,
    ) -> None:
        self._shared = shared
        self._graph = graph
        self._plan = plan
        self._messages = messages
        self._predicts = predicts
        self._ops = {op.name: op for op in graph.ops}
        self._numbers = statement_numbers(plan.steps)
        self._workers = workers_of(plan)
        self._stays = {
            part.device: _Stays(
                shared.names,
                graph,
                part.arena.own(allocations) if plan.threads else allocations,
                f"A{number}_" if plan.threads else "",
            )
            for number, part in enumerate(plan.own)
        }
        self._places = _Places(graph, plan, persistent, self._stays)
        self._turns = Turns(plan.at_once)
        self._under_way = UnderWay()
        self._kernels: set[str] = set()
        self._computed: set[str] = set()

    def lower(self, function: str, title: str) -> StepView:
        """The view of the C function."""
        plan = self._plan
        statements: list[StatementView] = []
        behind: defaultdict[int | None, list[tuple[int, Message]]] = defaultdict(list)
        for order, message in enumerate(self._messages, 1):
            behind[message.behind].append((order, message))
        for index, step in enumerate(plan.steps):
            if plan.does(step):
                statements.append(self._statement(step, index))
            for order, message in behind[index]:
                comment = f"message {order}: {_message_comment(message, plan.here)}"
                statements.append(StatementView(self._numbers[index], comment, "", message=order))
        parameters = "const void *x, void *output" if self._predicts else "void"
        if plan.threads:
            function, parameters = "take_turns", "uint32_t worker"
            title += " on several devices"
        elif plan.apart:
            title = f"the part of {comment_text(plan.here)} in a training step on several devices"
        stays = self._stays.values()
        rows = [row for each in stays for row in each.memory_map(self._numbers)]
        return StepView(
            function=function,
            parameters=parameters,
            title=title,
            summary=self._summary(),
            kernels=tuple(sorted(self._kernels)),
            addresses=tuple(define for each in stays for define in each.addresses()),
            memory_map=tuple(sorted(rows, key=lambda row: (row.offset, row.identifier))),
            statements=tuple(statements),
            waits=self._under_way.end(),
            workers=len(self._workers) if plan.threads else 0,
            stops=plan.apart,
        )

    def _statement(self, step: Step, index: int) -> StatementView:
        """One step with all that it waits for: transfers under way, and other workers."""
        op, number = self._ops[step.node], self._numbers[index]
        waits: tuple[str, ...] = ()
        if step.kind is StepKind.COPY:
            worker = self._workers.index(_link(step))
            comment, code = self._copy(step, op, index)
        else:
            worker = self._workers.index(step.device)
            read, written = self._stays[step.device].touched(step, op, index)
            waits = self._under_way.waits(read, written)
            if step.kind is StepKind.COMPUTE:
                comment, code = self._compute(step, op, index)
            else:
                comment, code = self._transfer(step, op, index)
                if self._shared.overlap:
                    (stay,) = read or written
                    arrives = step.kind is StepKind.PAGE_IN
                    self._under_way.begin(self._page_slot(op), stay, arrives=arrives)
            if self._plan.threads:
                comment += f", on {comment_text(step.device)}"
        if self._plan.threads and code:
            reads, writes = self._places.of(step, op, index)
            turns = self._turns.take(Turn(worker, number), reads, writes)
            waits += tuple(f"POET_TRY(poet_wait_for({t.worker}u, {t.number}u));" for t in turns)
        return StatementView(number, comment, code, waits, worker)

    def _compute(self, step: Step, op: Op, index: int) -> tuple[str, str]:
        """An op's comment and its code."""
        stays = self._stays[step.device]
        comment = _compute_comment(op, self._graph, stays, index)
        if kind_of(op).view and stays.shares_address(op, index):
            code = ""
            comment += " (a view: nothing moves)"
        else:
            kernel = kind_of(op).kernel(op, self._graph)
            self._kernels.update(kernel.sources)
            code = self._call(op, kernel, stays, index)
        if op.name in self._computed:
            comment += " (again)"
        self._computed.add(op.name)
        if self._predicts:
            code = _given(op, self._graph, stays, index, code)
        return comment, code

    def _call(self, op: Op, kernel: Kernel, stays: _Stays, index: int) -> str:
        attempt = "POET_ALONE" if self._plan.threads else "POET_TRY"
        arguments = self._shared.constants.arguments(
            op, kernel, lambda tensor: stays.identifier(tensor, index)
        )
        if kernel.workspace_bytes:
            arguments.append(stays.workspace(op.name, index))
        statement = call_statement(
            kernel.function, arguments, fallible=kernel.fallible, attempt=attempt
        )
        if not stores_gradient(op):
            return statement
        gradient, parameter = self._graph.by_name[op.inputs[0]], op.updates[0]
        capture = call_statement(
            "poet_capture",
            [
                self._shared.slots[parameter, SlotPurpose.CAPTURE],
                stays.identifier(gradient.name, index),
                f"{gradient.size_bytes}u",
            ],
            fallible=True,
            attempt=attempt,
        )
        return f"{capture}\n{' ' * _INDENT}{statement}"

    def _transfer(self, step: Step, op: Op, index: int) -> tuple[str, str]:
        """The comment and the code of a page-in or a page-out."""
        assert op.output is not None
        tensor = self._graph.by_name[op.output]
        code = call_statement(
            f"poet_{step.kind}_begin" if self._shared.overlap else f"poet_{step.kind}",
            [
                self._page_slot(op),
                self._stays[step.device].identifier(tensor.name, index),
                f"{tensor.size_bytes}u",
            ],
            fallible=True,
        )
        return _transfer_comment(step, op, self._plan.steps, index, self._numbers), code

    def _copy(self, step: Step, op: Op, index: int) -> tuple[str, str]:
        """The comment and the code of a copy between two devices of the memory."""
        assert op.output is not None
        assert step.target is not None
        ends = [self._stays[end] for end in (step.device, step.target)]
        source, target = (end.identifier(op.output, index) for end in ends)
        arguments = [target, source, f"{self._graph.by_name[op.output].size_bytes}u"]
        buffer_bytes = self._places.buffer_bytes(step)
        if buffer_bytes:
            arguments += [end.workspace(op.name, index) for end in ends]
            arguments.append(f"{buffer_bytes}u")
        code = call_statement("poet_copy" if buffer_bytes else "memcpy", arguments, fallible=False)
        comment = f"copy {comment_text(op.output)}, {source} -> {target}, "
        return comment + comment_text(f"from {step.device} to {step.target}"), code

    def _page_slot(self, op: Op) -> str:
        assert op.output is not None
        return self._shared.slots[op.output, SlotPurpose.PAGE]

    def _summary(self) -> str:
        plan = self._plan
        counts = Counter(step.kind for step in plan.steps if plan.does(step))
        runs = counts[StepKind.COMPUTE]
        again = f"{runs - len(self._computed)} of them again"
        if plan.apart:
            in_a_step = sum(message.behind is not None for message in self._messages)
            return f"{runs} of {self._numbers[-1]} steps, {again}; {in_a_step} messages"
        moved = f"{counts[StepKind.COPY]} copies"
        if not plan.threads:
            moved = f"{counts[StepKind.PAGE_OUT]} page-outs, {counts[StepKind.PAGE_IN]} page-ins"
        return f"{counts.total()} steps: {runs} compute, {again}; {moved}"


class _Stays:
    """The macros of one step: which address a tensor has at which plan step."""

    def __init__(
        self, names: _Names, graph: Graph, allocations: Sequence[Allocation], prefix: str = ""
    ) -> None:
        self._names = names
        self._graph = graph
        self._named: list[tuple[str, Allocation]] = []
        by_owner: defaultdict[tuple[str, bool], list[Allocation]] = defaultdict(list)
        stays = [*allocations, *_windows(graph, allocations)]
        for allocation in sorted(stays, key=lambda a: a.lower):
            by_owner[allocation.owner, allocation.workspace].append(allocation)
        workspaces = 0
        for (owner, workspace), owned in by_owner.items():
            if workspace:
                base = f"{prefix}W{workspaces:04d}"
                workspaces += 1
            else:
                base = prefix + names.tensor(graph.by_name[owner], graph)
            offsets = list(dict.fromkeys(allocation.offset for allocation in owned))
            for allocation in owned:
                number = offsets.index(allocation.offset) + 1
                identifier = f"{base}_{number}" if len(offsets) > 1 else base
                self._named.append((identifier, allocation))
        self._by_owner: dict[tuple[str, bool], list[tuple[str, Allocation]]] = {}
        for identifier, allocation in self._named:
            key = (allocation.owner, allocation.workspace)
            self._by_owner.setdefault(key, []).append((identifier, allocation))

    def identifier(self, tensor: str, index: int) -> str:
        """The macro of a tensor that is in RAM at a plan step."""
        if not self._graph.by_name[tensor].role.transient:
            return self._names.tensor(self._graph.by_name[tensor])
        return self._stay(tensor, False, index)[0]

    def shares_address(self, op: Op, index: int) -> bool:
        """True where an op's output lies at its first input's address, which is transient then."""
        assert op.output is not None
        if not self._graph.by_name[op.inputs[0]].role.transient:
            return False
        stays = [self._stay(name, False, index) for name in (op.inputs[0], op.output)]
        return stays[0][1].offset == stays[1][1].offset

    def workspace(self, op: str, index: int) -> str:
        """The macro of an op's workspace at a plan step."""
        return self._stay(op, True, index)[0]

    def touched(
        self, step: Step, op: Op, index: int
    ) -> tuple[tuple[Allocation, ...], tuple[Allocation, ...]]:
        """The stays that a plan step reads, and those that it begins: transient tensors."""
        names = {
            StepKind.COMPUTE: op.inputs,
            StepKind.PAGE_OUT: (op.output or "",),
            StepKind.PAGE_IN: (),
        }[step.kind]
        read = tuple(
            self._stay(name, False, index)[1]
            for name in names
            if self._graph.by_name[name].role.transient
        )
        return read, tuple(stay for _, stay in self._named if stay.lower == index)

    def _stay(self, owner: str, workspace: bool, index: int) -> tuple[str, Allocation]:
        for identifier, allocation in self._by_owner[owner, workspace]:
            if allocation.lower <= index < allocation.upper:
                return identifier, allocation
        raise AssertionError(f"{owner} is not in RAM at step {index}")

    def span(self, owner: str, workspace: bool, index: int) -> Span:
        """The bytes of the arena that a transient tensor or a workspace has at a plan step."""
        stay = self._stay(owner, workspace, index)[1]
        return Span(stay.offset, stay.offset + stay.size_bytes)

    def addresses(self) -> tuple[Define, ...]:
        defines: dict[str, Define] = {}
        for identifier, allocation in self._named:
            if allocation.workspace:
                value = f"((void *)(poet_arena + {allocation.offset}u))"
                comment = f"workspace of {comment_text(allocation.owner)}"
                defines[identifier] = Define(identifier, value, comment)
            else:
                tensor = self._graph.by_name[allocation.owner]
                defines[identifier] = self._names.address(identifier, tensor, allocation.offset)
        return tuple(sorted(defines.values(), key=lambda define: define.name))

    def memory_map(self, numbers: Sequence[int]) -> tuple[MemoryRow, ...]:
        rows: dict[str, MemoryRow] = {}
        for identifier, allocation in self._named:
            steps = f"{numbers[allocation.lower]}-{numbers[allocation.upper - 1]}"
            if identifier in rows:
                row = rows[identifier]
                rows[identifier] = replace(row, steps=f"{row.steps}, {steps}")
                continue
            holds = comment_text(allocation.owner)
            if allocation.workspace:
                holds = f"workspace of {holds}"
            elif (base := self._graph.by_name[allocation.owner].base) is not None:
                holds += f" (in {self._names.tensor(self._graph.by_name[base], self._graph)})"
            rows[identifier] = MemoryRow(
                allocation.offset, allocation.size_bytes, identifier, holds, steps
            )
        return tuple(sorted(rows.values(), key=lambda row: (row.offset, row.identifier)))


class _Places:
    """Which bytes the statements of a step on several devices read and write."""

    def __init__(
        self,
        graph: Graph,
        plan: StepPlan,
        persistent: Sequence[Allocation],
        stays: Mapping[str, _Stays],
    ) -> None:
        self._graph = graph
        self._buffers = plan.buffers
        self._persistent = {a.owner: Span(a.offset, a.offset + a.size_bytes) for a in persistent}
        self._stays = stays

    def buffer_bytes(self, copy: Step) -> int:
        """Bytes of the buffer that a copy passes on both of its devices; 0 for none."""
        return self._buffers.get((copy.device, copy.target or ""), 0)

    def of(self, step: Step, op: Op, index: int) -> tuple[list[Span], list[Span]]:
        """What a step reads and writes."""
        if step.target is not None:
            return self._of_copy(step, op, step.target, index)
        reads = [self._tensor(name, step.device, index) for name in self._graph.reads(op)]
        written = [*op.updates, *([op.output] if op.output is not None else [])]
        writes = [self._tensor(name, step.device, index) for name in written]
        if kind_of(op).workspace_bytes(op, self._graph):
            writes.append(self._stays[step.device].span(op.name, True, index))
        return reads, writes

    def _of_copy(
        self, copy: Step, op: Op, target: str, index: int
    ) -> tuple[list[Span], list[Span]]:
        assert op.output is not None
        writes = [self._tensor(op.output, target, index)]
        if self.buffer_bytes(copy):
            ends = (copy.device, target)
            writes += [self._stays[end].span(op.name, True, index) for end in ends]
        return [self._tensor(op.output, copy.device, index)], writes

    def _tensor(self, name: str, device: str, index: int) -> Span:
        if name in self._persistent:
            return self._persistent[name]
        return self._stays[device].span(name, False, index)


def _windows(graph: Graph, allocations: Sequence[Allocation]) -> Iterator[Allocation]:
    """Where the windows on tensors are, as long as those are there."""
    for window in graph.windows:
        for stay in allocations:
            if stay.owner == window.base and not stay.workspace:
                offset = stay.offset + window.offset_bytes
                yield replace(stay, owner=window.name, offset=offset, size_bytes=window.size_bytes)


def statement_numbers(plan: Sequence[Step]) -> list[int]:
    """For every plan step the number of its statement; a free has that of the one before it."""
    numbers: list[int] = []
    number = 0
    for step in plan:
        number += step.kind != StepKind.FREE
        numbers.append(number)
    return numbers


def _given(op: Op, graph: Graph, stays: _Stays, index: int, code: str) -> str:
    """The code of a prediction's op: the sample comes from the caller, the output goes there."""
    lines = [code] if code else []
    if op.kind == "load_x":
        assert op.output is not None
        batch = stays.identifier(op.output, index)
        lines = [f"memcpy({batch}, x, POET_X_BYTES);"]
        if graph.by_name[op.output].shape[0] > 1:
            rest = f"sizeof *{batch} * {graph.by_name[op.output].elements}u - POET_X_BYTES"
            lines.append(f"memset((uint8_t *){batch} + POET_X_BYTES, 0, {rest});")
    if op.output == (graph.by_name[graph.output].base or graph.output):
        answer = stays.identifier(graph.output, index)
        lines.append(f"memcpy(output, {answer}, POET_OUTPUT_BYTES);")
    return f"\n{' ' * _INDENT}".join(lines)


def call_statement(
    function: str, arguments: list[str], *, fallible: bool, attempt: str = "POET_TRY"
) -> str:
    """The call, as a statement; that of a fallible function returns where it fails."""
    if fallible:
        return wrap_call(f"{attempt}({function}", arguments, _INDENT) + ");"
    return wrap_call(function, arguments, _INDENT) + ";"


def _compute_comment(op: Op, graph: Graph, stays: _Stays, index: int) -> str:
    def operand(name: str) -> str:
        return f"{stays.identifier(name, index)}{shape_text(graph.by_name[name].shape)}"

    inputs = ", ".join(operand(name) for name in op.inputs)
    outputs = ", ".join(operand(name) for name in (op.output, *op.updates) if name is not None)
    flow = " -> ".join(part for part in (inputs, outputs) if part)
    return f"{comment_text(op.name)}: {op.kind} {flow}"


def _transfer_comment(
    step: Step, op: Op, plan: ExecutionPlan, index: int, numbers: Sequence[int]
) -> str:
    name = comment_text(op.output or "")
    if step.kind is StepKind.PAGE_IN:
        return f"page in {name}"
    again = [
        numbers[later]
        for later in range(index + 1, len(plan))
        if plan[later] == step._replace(kind=StepKind.PAGE_IN)
    ]
    wanted = ", ".join(map(str, again))
    return f"page out {name}, wanted again at step {wanted}"
