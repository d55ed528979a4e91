# SPDX-License-Identifier: Apache-2.0
"""A step on several devices that share no memory: each is a partner, with a program of its own.

A partner holds the persistent tensors that its own ops read or update. What it computes of another
partner's goes there in messages: a plan's copies, and what each update leaves. Messages are behind
plan steps, so that one order, the plan's, is that of all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from poetfw.errors import InfeasibleError
from poetfw.ir import Graph, Op
from poetfw.limits import Deadline
from poetfw.memory.devices import DeviceArena, place_on
from poetfw.memory.plan import MemoryPlan, PlacedStep, padded, place_resident, place_step
from poetfw.schedule import ExecutionPlan, StepKind
from poetfw.training import Program


class Message(NamedTuple):
    """A tensor that goes from one partner to another.

    Attributes:
        tensor: its name.
        source: the partner that has it.
        target: the one that it goes to.
        behind: the step of the plan that it follows; None for the end of the last training step.
    """

    tensor: str
    source: str
    target: str
    behind: int | None


@dataclass(frozen=True)
class PartnerPlan:
    """One partner's part of a training step on several devices.

    Attributes:
        steps: the whole plan, in its order, which the simulator has accepted.
        device: whose part this is.
        devices: all partners' names.
        evaluates: the one that evaluates held-out samples.
        arena: where this one's transient tensors lie, in its own memory.
    """

    steps: ExecutionPlan
    device: str
    devices: tuple[str, ...]
    evaluates: str
    arena: DeviceArena

    def held(self, program: Program) -> tuple[str, ...]:
        """The persistent tensors that it has, in the program's order."""
        return held_by(program, self.steps, self.device, self.device == self.evaluates)

    def updated(self, program: Program) -> tuple[str, ...]:
        """The persistent tensors that its own ops update, in the program's order."""
        written = {
            name
            for op in _computed(program.training, self.steps, self.device)
            for name in op.updates
        }
        return tuple(t.name for t in program.persistent if t.name in written)

    def messages(self, program: Program) -> tuple[Message, ...]:
        """All messages of a training step, and those behind the last one, in their order."""
        return messages_of(program, self.steps, self.devices, self.evaluates)

    def own_messages(self, program: Program) -> tuple[Message, ...]:
        """Those that it sends or gets; its program counts them from 1."""
        ends = ((message, (message.source, message.target)) for message in self.messages(program))
        return tuple(message for message, devices in ends if self.device in devices)


def held_by(
    program: Program, steps: ExecutionPlan, device: str, evaluates: bool
) -> tuple[str, ...]:
    """The persistent tensors that a partner has: those it touches, the loss and the metric."""
    held = {program.loss.name, program.metric.name, *_touched(program.training, steps, device)}
    if evaluates:
        held |= {tensor.name for tensor in program.evaluation.persistent}
    return tuple(tensor.name for tensor in program.persistent if tensor.name in held)


def messages_of(
    program: Program, steps: ExecutionPlan, devices: tuple[str, ...], evaluates: str
) -> tuple[Message, ...]:
    """What partners have for each other, in the order of the plan.

    What a step updates goes at once to each partner whose ops touch it. The one that evaluates gets
    behind the last training step what it needs beside that.
    """
    graph = program.training
    ops = {op.name: op for op in graph.ops}
    touched = {device: _touched(graph, steps, device) for device in devices}
    messages: list[Message] = []
    last_written: dict[str, str] = {}
    for index, step in enumerate(steps):
        op = ops[step.node]
        if step.kind is StepKind.COMPUTE:
            for name in op.updates:
                last_written[name] = step.device
                messages += [
                    Message(name, step.device, device, index)
                    for device in devices
                    if device != step.device and name in touched[device]
                ]
        elif step.kind is StepKind.COPY:
            assert op.output is not None
            assert step.target is not None
            messages.append(Message(op.output, step.device, step.target, index))
    messages += [
        Message(tensor.name, last_written[tensor.name], evaluates, None)
        for tensor in program.evaluation.persistent
        if tensor.name not in touched[evaluates]
        and last_written.get(tensor.name, evaluates) != evaluates
    ]
    return tuple(messages)


def _computed(graph: Graph, steps: ExecutionPlan, device: str) -> tuple[Op, ...]:
    own = {s.node for s in steps if s.kind is StepKind.COMPUTE and s.device == device}
    return tuple(op for op in graph.ops if op.name in own)


def _touched(graph: Graph, steps: ExecutionPlan, device: str) -> frozenset[str]:
    """The persistent tensors that a device's ops read or update."""
    return frozenset(
        name
        for op in _computed(graph, steps, device)
        for name in (*graph.reads(op), *op.updates)
        if graph.by_name[name].role.persistent
    )


class Partner(NamedTuple):
    """Where all of a partner's tensors lie, and which part of it is its arena."""

    memory: MemoryPlan
    arena: DeviceArena


def place_partners(
    program: Program,
    steps: ExecutionPlan,
    evaluation: ExecutionPlan,
    limits: Mapping[str, int],
    block_bytes: int,
    deadline: Deadline | None = None,
) -> Mapping[str, Partner]:
    """Give every buffer of each partner a fixed address in its own memory, by the partners' names.

    Of the tensors that live for the whole run, each has those that it holds. Evaluation takes the
    arena of the one with most bytes. Links' buffers are not there: messages pass the line's.

    Args:
        program: what is trained.
        steps: the plan of the training step.
        evaluation: the plan of the evaluation step.
        limits: by each device's name, bytes that it has for transient tensors. What training takes
            may be more than that: placement can need more than the live peak.
        block_bytes: bytes of one storage block.
        deadline: when to end the search for addresses; None for never.

    Raises:
        InfeasibleError: evaluation fits on no device.
    """
    first = evaluator(limits)
    partners = {}
    for name, limit in limits.items():
        held = held_by(program, steps, name, name == first)
        tensors = [tensor for tensor in program.persistent if tensor.name in held]
        resident, page_buffer = place_resident(tensors)
        base = page_buffer + padded(block_bytes)
        evaluated = PlacedStep((), 0, 0)
        if name == first:
            try:
                evaluated = place_step(program.evaluation, evaluation, base, limit, deadline)
            except InfeasibleError as error:
                raise InfeasibleError(
                    f"the evaluation step fits on no device: {error.message}",
                    "give one of them more",
                ) from error
        placed = place_on(name, program.training, steps, base, {}, deadline)
        size = max(placed.height_bytes, evaluated.height_bytes)
        peak = base + max(placed.peak_bytes, evaluated.peak_bytes)
        memory = MemoryPlan(resident, page_buffer, placed.stays, evaluated.stays, base + size, peak)
        partners[name] = Partner(memory, DeviceArena(name, base, size, limit))
    return partners


def evaluator(limits: Mapping[str, int]) -> str:
    """The device that evaluates: that with most bytes, the first of several."""
    return max(limits, key=lambda name: limits[name])
