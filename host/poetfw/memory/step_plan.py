# SPDX-License-Identifier: Apache-2.0
"""Plan of a training step as a list of parts: a device, and its arena in a memory.

Each memory has one program. Devices of the same memory are threads of its program and share its
persistent tensors; devices of different memories share nothing. Each memory holds the persistent
tensors that its own ops read or update. Tensors go from one memory to another in messages: the
plan's copies, and tensors changed by updates. A message follows a plan step, so that all programs
keep the plan's order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from poetfw.common.errors import PlanError
from poetfw.ir import Graph, Op
from poetfw.memory.plan import Allocation
from poetfw.schedule import ExecutionPlan, Step, StepKind
from poetfw.training import Program

ONLY = ""
"""Name of a single device, and of a single memory."""


@dataclass(frozen=True, slots=True)
class DeviceArena:
    """Range of a memory's arena that belongs to a device.

    Attributes:
        device: name of the device.
        offset: first byte, relative to the whole arena.
        size_bytes: bytes that the plan uses.
        limit_bytes: bytes that the device has for tensors.
    """

    device: str
    offset: int
    size_bytes: int
    limit_bytes: int

    def own(self, allocations: Iterable[Allocation]) -> tuple[Allocation, ...]:
        """Allocations that lie in this arena."""
        end = self.offset + self.size_bytes
        return tuple(a for a in allocations if self.offset <= a.offset < end)


@dataclass(frozen=True, slots=True)
class Part:
    """Device of a plan.

    Attributes:
        memory: name of the memory that the device works in.
        arena: its range of that memory's arena.
    """

    memory: str
    arena: DeviceArena

    @property
    def device(self) -> str:
        """Name of the device."""
        return self.arena.device


class Message(NamedTuple):
    """Tensor sent from one memory to another.

    Attributes:
        tensor: name of the tensor.
        source: name of the sending memory.
        target: name of the receiving memory.
        behind: plan step that it follows; None for the end of the last training step.
    """

    tensor: str
    source: str
    target: str
    behind: int | None


@dataclass(frozen=True)
class StepPlan:
    """Training step on one device or several.

    Attributes:
        steps: steps of all devices, in an order that the simulator has accepted.
        parts: one per device.
        here: memory of the selected program.
        evaluates: device that evaluates held-out samples.
        at_once: True if a step waits only for what it needs, not for all earlier steps.
        buffers: by (source, target), bytes of a copy's buffer on both devices; links without a
            buffer are left out.

    Raises:
        PlanError: A step is on a device without a part, or such plans are not supported: several
            devices page, or devices share one of several memories.
    """

    steps: ExecutionPlan
    parts: tuple[Part, ...]
    here: str = ONLY
    evaluates: str = ONLY
    at_once: bool = False
    buffers: Mapping[tuple[str, str], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        named = {step.device for step in self.steps} | {self.evaluates}
        named |= {step.target for step in self.steps if step.target is not None}
        unknown = named - {part.device for part in self.parts}
        if unknown:
            raise PlanError(f"the plan has no arena of {', '.join(map(repr, sorted(unknown)))}")
        if self.here not in self.memories:
            raise PlanError(f"the plan has no memory {self.here!r}")
        pages = (StepKind.PAGE_IN, StepKind.PAGE_OUT)
        if len(self.parts) > 1 and any(step.kind in pages for step in self.steps):
            raise PlanError(
                "the plan pages tensors, which is not supported with several devices",
                "leave the storage of the devices out",
            )
        if len(self.parts) > len(self.memories) > 1:
            raise PlanError(
                "devices of the plan share one of several memories, which is not supported",
                "give each device a memory of its own, or one to all",
            )

    @property
    def memories(self) -> tuple[str, ...]:
        """Names of the memories, each with a program."""
        return tuple(dict.fromkeys(part.memory for part in self.parts))

    @property
    def own(self) -> tuple[Part, ...]:
        """Parts of the selected program."""
        return tuple(part for part in self.parts if part.memory == self.here)

    @property
    def threads(self) -> bool:
        """True if the selected program has a thread for each of several devices."""
        return len(self.own) > 1

    @property
    def apart(self) -> bool:
        """True if there are several programs, which exchange messages."""
        return len(self.memories) > 1

    @property
    def evaluates_here(self) -> bool:
        """True if the selected program evaluates held-out samples."""
        return any(part.device == self.evaluates for part in self.own)

    @property
    def workers(self) -> tuple[str, ...]:
        """Names of the selected program's workers: its devices, then the links of its copies."""
        copies = (s for s in self.steps if s.kind is StepKind.COPY and self.does(s))
        return (*(part.device for part in self.own), *dict.fromkeys(map(link_of, copies)))

    def of(self, memory: str) -> StepPlan:
        """Copy of this plan with the program of another memory selected."""
        return replace(self, here=memory)

    def does(self, step: Step) -> bool:
        """True if the selected program executes this step."""
        devices = [part.device for part in self.own]
        ends = [step.device] if step.target is None else [step.device, step.target]
        return step.kind is not StepKind.FREE and all(end in devices for end in ends)

    def held(self, program: Program) -> tuple[str, ...]:
        """Persistent tensors of the selected memory, in program order; all of an only memory."""
        held = {program.loss.name, program.metric.name, *self._touched(program.training, self.here)}
        if self.evaluates_here:
            held |= {tensor.name for tensor in program.evaluation.persistent}
        return tuple(t.name for t in program.persistent if not self.apart or t.name in held)

    def updated(self, program: Program) -> tuple[str, ...]:
        """Persistent tensors that ops of the selected memory update, in program order."""
        written = {
            name for op in self._computed(program.training, self.here) for name in op.updates
        }
        return tuple(t.name for t in program.persistent if t.name in written)

    def messages(self, program: Program) -> tuple[Message, ...]:
        """All messages of a training step in order, then those after the last training step.

        A tensor that a step updates goes at once to each memory whose ops touch it. The evaluating
        memory gets the other tensors that it needs after the last training step.
        """
        ops = {op.name: op for op in program.training.ops}
        memory_of = {part.device: part.memory for part in self.parts}
        touched = {name: self._touched(program.training, name) for name in self.memories}
        messages: list[Message] = []
        last_written: dict[str, str] = {}
        for index, step in enumerate(self.steps):
            op, source = ops[step.node], memory_of[step.device]
            if step.kind is StepKind.COMPUTE:
                for name in op.updates:
                    last_written[name] = source
                    messages += [
                        Message(name, source, memory, index)
                        for memory in self.memories
                        if memory != source and name in touched[memory]
                    ]
            elif step.target is not None and memory_of[step.target] != source:
                assert op.output is not None
                messages.append(Message(op.output, source, memory_of[step.target], index))
        evaluator = memory_of[self.evaluates]
        messages += [
            Message(tensor.name, last_written[tensor.name], evaluator, None)
            for tensor in program.evaluation.persistent
            if tensor.name not in touched[evaluator]
            and last_written.get(tensor.name, evaluator) != evaluator
        ]
        return tuple(messages)

    def own_messages(self, program: Program) -> tuple[Message, ...]:
        """Messages that the selected memory sends or receives; its program numbers them from 1."""
        return tuple(m for m in self.messages(program) if self.here in (m.source, m.target))

    def _computed(self, graph: Graph, memory: str) -> tuple[Op, ...]:
        devices = {part.device for part in self.parts if part.memory == memory}
        own = {s.node for s in self.steps if s.kind is StepKind.COMPUTE and s.device in devices}
        return tuple(op for op in graph.ops if op.name in own)

    def _touched(self, graph: Graph, memory: str) -> frozenset[str]:
        """Persistent tensors that a memory's ops read or update."""
        return frozenset(
            name
            for op in self._computed(graph, memory)
            for name in (*graph.reads(op), *op.updates)
            if graph.by_name[name].role.persistent
        )


def link_of(copy: Step) -> str:
    """Name of the link between two devices; its copies are serial, in both directions."""
    return " and ".join(sorted((copy.device, copy.target or "")))


def on_one(steps: Sequence[Step]) -> StepPlan:
    """Plan of a step on a single device, without addresses."""
    return StepPlan(tuple(steps), (Part(ONLY, DeviceArena(ONLY, 0, 0, 0)),))
