# SPDX-License-Identifier: Apache-2.0
"""The statements of a step in C: calls of kernels, transfers, copies and waits."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from poetfw.firmware.c_text import comment_text, shape_text, wrap_call
from poetfw.firmware.defines import message_comment
from poetfw.firmware.kept import KeptFeatures
from poetfw.firmware.nest_code import NestCode
from poetfw.firmware.slots import SlotPurpose
from poetfw.firmware.tensor_names import ConstantTable, Names
from poetfw.firmware.turns import ArenaRange, Turn, Turns
from poetfw.firmware.under_way import UnderWay
from poetfw.firmware.views import Define, KeptView, MemoryRow, StatementView, StepView
from poetfw.ir import Graph, Op
from poetfw.memory.plan import Allocation
from poetfw.memory.step_plan import Message, StepPlan, link_of
from poetfw.ops import Kernel, kind_of, stores_gradient, streamed_kind
from poetfw.ops.load import first_byte
from poetfw.schedule import ExecutionPlan, Step, StepKind

_INDENT = 4


class Shared(NamedTuple):
    """Names, constants and slots that a program's steps share."""

    names: Names
    constants: ConstantTable
    slots: Mapping[tuple[str, SlotPurpose], str]
    overlap: bool


class StepLowering:
    """Lowers what the program of one memory does of a step to the C function that does it.

    Args:
        shared: what it has together with the program's other steps.
        graph: the step.
        plan: when its ops run, and on which devices.
        allocations: where its tensors lie.
        persistent: where tensors lie that live for the whole run; needed for several devices.
        messages: those that the program stops for, in their order.
        predicts: True where the sample comes from the caller, and the output goes there.
        kept: features that are kept of training samples; None without one.
    """

    def __init__(
        self,
        shared: Shared,
        graph: Graph,
        plan: StepPlan,
        allocations: Sequence[Allocation],
        persistent: Sequence[Allocation] = (),
        messages: Sequence[Message] = (),
        *,
        predicts: bool = False,
        kept: KeptFeatures | None = None,
    ) -> None:
        self._shared = shared
        self._graph = graph
        self._plan = plan
        self._messages = messages
        self._predicts = predicts
        self._kept = kept
        self._ops = {op.name: op for op in graph.ops}
        self._numbers = statement_numbers(plan.steps)
        self._workers = plan.workers
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
                comment = f"message {order}: {message_comment(message, plan.here)}"
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
            end=max(self._numbers, default=0) + 1,
            workers=len(self._workers) if plan.threads else 0,
            stops=plan.apart,
            kept=self._kept_view(),
        )

    def _kept_view(self) -> KeptView | None:
        if self._kept is None:
            return None
        steps = self._plan.steps
        computes = [step.kind is not StepKind.FREE for step in steps[: self._kept.steps]]
        stays = self._stays[steps[self._kept.steps].device]
        return KeptView(stays.identifier(self._kept.tensor, self._kept.steps), sum(computes))

    def _statement(self, step: Step, index: int) -> StatementView:
        """One step with all that it waits for: transfers under way, and other workers."""
        op, number = self._ops[step.node], self._numbers[index]
        waits: tuple[str, ...] = ()
        if step.kind is StepKind.COPY:
            worker = self._workers.index(link_of(step))
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
            code = self._run(op, stays, index)
        if op.name in self._computed:
            comment += " (again)"
        self._computed.add(op.name)
        if self._predicts:
            code = _given(op, self._graph, stays, index, code)
        return comment, code

    def _run(self, op: Op, stays: _Stays, index: int) -> str:
        """The calls of an op's kernels."""
        kind = streamed_kind(op)
        if kind is None:
            kernel = kind_of(op).kernel(op, self._graph)
            self._kernels.update(kernel.sources)
            return self._call(op, kernel, stays, index)
        slices = kind.slice_ops(op, self._graph)
        for run in slices.ops:
            self._kernels.update(kind_of(run).kernel(run, slices).sources)
        return NestCode(
            kind.nest(op, self._graph),
            lambda tensor: stays.identifier(tensor, index),
            self._shared.names.stream,
            self._shared.names.stored,
            stays.workspace(op.name, index),
            self._shared.constants.arguments,
            "(const uint8_t *)x" if self._predicts else "",
        ).statement()

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
    """The address macros of one step: the address of a tensor at each plan step."""

    def __init__(
        self, names: Names, graph: Graph, allocations: Sequence[Allocation], prefix: str = ""
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
        """The macro of a tensor at a plan step: of a stored one, that of its number."""
        if self._graph.by_name[tensor].tile:
            return self._names.stored(tensor)
        if not self._graph.by_name[tensor].role.transient:
            return self._names.tensor(self._graph.by_name[tensor])
        return self._stay(tensor, False, index)[0]

    def shares_address(self, op: Op, index: int) -> bool:
        """True if an op's output lies at the address of its first input, a transient tensor."""
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
        """The stays of transient tensors that a plan step reads, and those that it begins."""
        names = {
            StepKind.COMPUTE: op.inputs,
            StepKind.PAGE_OUT: (op.output or "",),
            StepKind.PAGE_IN: (),
        }[step.kind]
        read = tuple(
            self._stay(name, False, index)[1]
            for name in names
            if self._graph.by_name[name].role.transient and not self._graph.by_name[name].tile
        )
        return read, tuple(stay for _, stay in self._named if stay.lower == index)

    def _stay(self, owner: str, workspace: bool, index: int) -> tuple[str, Allocation]:
        for identifier, allocation in self._by_owner[owner, workspace]:
            if allocation.lower <= index < allocation.upper:
                return identifier, allocation
        raise AssertionError(f"{owner} is not in RAM at step {index}")

    def span(self, owner: str, workspace: bool, index: int) -> ArenaRange:
        """The bytes of the arena that a transient tensor or a workspace has at a plan step."""
        stay = self._stay(owner, workspace, index)[1]
        return ArenaRange(stay.offset, stay.offset + stay.size_bytes)

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
    """Bytes that the statements of a step on several devices read and write."""

    def __init__(
        self,
        graph: Graph,
        plan: StepPlan,
        persistent: Sequence[Allocation],
        stays: Mapping[str, _Stays],
    ) -> None:
        self._graph = graph
        self._buffers = plan.buffers
        self._persistent = {
            a.owner: ArenaRange(a.offset, a.offset + a.size_bytes) for a in persistent
        }
        self._stays = stays

    def buffer_bytes(self, copy: Step) -> int:
        """Bytes of the buffer that a copy passes on both of its devices; 0 for none."""
        return self._buffers.get((copy.device, copy.target or ""), 0)

    def of(self, step: Step, op: Op, index: int) -> tuple[list[ArenaRange], list[ArenaRange]]:
        """The tensors that a step reads and writes."""
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
    ) -> tuple[list[ArenaRange], list[ArenaRange]]:
        assert op.output is not None
        writes = [self._tensor(op.output, target, index)]
        if self.buffer_bytes(copy):
            ends = (copy.device, target)
            writes += [self._stays[end].span(op.name, True, index) for end in ends]
        return [self._tensor(op.output, copy.device, index)], writes

    def _tensor(self, name: str, device: str, index: int) -> ArenaRange:
        if name in self._persistent:
            return self._persistent[name]
        return self._stays[device].span(name, False, index)


def _windows(graph: Graph, allocations: Sequence[Allocation]) -> Iterator[Allocation]:
    """Allocations of windows, for the lives of the tensors that they are windows on."""
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
        tensor = graph.by_name[op.output]
        source, size = "x", "POET_X_BYTES"
        if "first" in op.attributes:
            source = f"(const uint8_t *)x + {first_byte(op)}u"
            size = f"{tensor.size_bytes // tensor.shape[0]}u"
        lines = [f"memcpy({batch}, {source}, {size});"]
        if tensor.shape[0] > 1:
            rest = f"sizeof *{batch} * {tensor.elements}u - {size}"
            lines.append(f"memset((uint8_t *){batch} + {size}, 0, {rest});")
    if op.output == (graph.by_name[graph.output].base or graph.output):
        answer = stays.identifier(graph.output, index)
        lines.append(f"memcpy(output, {answer}, POET_OUTPUT_BYTES);")
    return f"\n{' ' * _INDENT}".join(lines)


def call_statement(
    function: str, arguments: list[str], *, fallible: bool, attempt: str = "POET_TRY"
) -> str:
    """The call as a statement; if the function is fallible, the step returns its error."""
    if fallible:
        return wrap_call(f"{attempt}({function}", arguments, _INDENT) + ");"
    return wrap_call(function, arguments, _INDENT) + ";"


def _compute_comment(op: Op, graph: Graph, stays: _Stays, index: int) -> str:
    def operand(name: str) -> str:
        return f"{stays.identifier(name, index)}{shape_text(graph.by_name[name].shape)}"

    inputs = ", ".join(operand(name) for name in op.inputs)
    outputs = ", ".join(operand(name) for name in (op.output, *op.updates) if name is not None)
    flow = " -> ".join(part for part in (inputs, outputs) if part)
    kinds = " + ".join(part.kind for part in op.parts)
    return f"{comment_text(op.name)}: {kinds} {flow}"


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
