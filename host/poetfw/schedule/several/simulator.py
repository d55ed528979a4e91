# SPDX-License-Identifier: Apache-2.0
"""Simulator for several devices: replays a plan and refuses it at the first illegal step.

Implemented from the meaning of the steps alone, independently of every scheduler. Every device has
its own memory. A copied tensor is resident on both devices until it is freed on each; the copy also
takes the link's buffer on both while it lasts.

Legality is defined for sequential steps. With parallel devices, the plan's order is the order on
each device and each link, and a step begins as soon as

- its device, or the one link of its pair of devices, has ended the steps before it there,
- its inputs are there, and nothing reads the tensor whose RAM it takes over any more,
- all ops that read parameters which it updates have ended, and
- there is room for all steps before it in the plan and for itself, after the frees until then.

A step waits only for earlier steps, so there is no deadlock, and no plan takes longer in parallel
than sequentially. At no moment does a device hold more than the sequential replay counts at the
beginning of some step: it holds at most the tensors of the steps before the last one begun.
"""

from __future__ import annotations

import math
from bisect import insort
from typing import NoReturn

from poetfw.common.errors import PlanError, listed
from poetfw.schedule.problem import ExecutionPlan, Node, Step, StepKind, Storage
from poetfw.schedule.several.problem import (
    Device,
    DevicesFigures,
    DevicesProblem,
)
from poetfw.schedule.simulator import TIME_TOLERANCE
from poetfw.schedule.timeline import StepCost


def simulate_devices(problem: DevicesProblem, plan: ExecutionPlan) -> DevicesFigures:
    """Replay a plan step by step, or in parallel where `problem.parallel`.

    Raises:
        PlanError: a step is illegal (the message gives its index, counted from 0), a node is never
            computed, a tensor is live at the end, or the deadline is missed.
    """
    return _replayed(problem, plan).finish()


def device_step_costs(problem: DevicesProblem, plan: ExecutionPlan) -> tuple[StepCost, ...]:
    """Times and energy of each step, in the plan's order.

    A free is at the end of the last step that touches the tensor on its device.

    Raises:
        PlanError: see `simulate_devices`.
    """
    replay = _replayed(problem, plan)
    replay.finish()
    return tuple(replay.costs)


def _replayed(problem: DevicesProblem, plan: ExecutionPlan) -> _Replay:
    replay = _Replay(problem)
    for number, step in enumerate(plan):
        replay.run(number, step, plan[number + 1] if number + 1 < len(plan) else None)
    return replay


class _Clock:
    """Begin and end of steps, in seconds.

    Attributes:
        busy: per device or pair of devices, the end of its last step.
        there: per device and resident tensor, the time of its arrival.
        read: per device and resident tensor, the end of the last step that touches it.
        computed: per node, the end of its first computation.
        uses: per node that ends the use of parameters, the end of the last such use.
        given: per device, (time, bytes) of each free, by time.
    """

    def __init__(self, problem: DevicesProblem) -> None:
        self.parallel = problem.parallel
        self.ram = {device.name: device.problem.ram_bytes for device in problem.devices}
        self.busy: dict[frozenset[str], float] = {}
        self.there: dict[tuple[str, str], float] = {}
        self.read: dict[tuple[str, str], float] = {}
        self.computed: dict[str, float] = {}
        self.uses: dict[str, float] = {}
        self.given: dict[str, list[tuple[float, int]]] = {name: [] for name in self.ram}

    def begin(
        self, where: frozenset[str], after: list[float], needs: dict[str, int]
    ) -> tuple[float, dict[str, int]]:
        """Find a step's begin, and the bytes that each of its devices holds then.

        Args:
            where: the device, or both ends of the link.
            after: other times that it waits for.
            needs: per device, the live bytes with the step, after all frees.
        """
        if not self.parallel:
            return max(self.busy.values(), default=0.0), needs
        begin = max([self.busy.get(where, 0.0), *after])
        for name, live in needs.items():
            late = [(when, size) for when, size in self.given[name] if when > begin]
            for when, _ in late:
                if live + sum(size for at, size in late if at > begin) <= self.ram[name]:
                    break
                begin = when
        return begin, {
            name: live + sum(size for at, size in self.given[name] if at > begin)
            for name, live in needs.items()
        }

    def give(self, name: str, when: float, size: int) -> None:
        """Free bytes of a device at a time."""
        if self.parallel and size:
            insort(self.given[name], (when, size))


class _Memory:
    """State of a device: tensors in RAM and in storage, computed nodes."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.nodes = {node.name: node for node in device.problem.nodes}
        self.ram: set[str] = set()
        self.aux: set[str] = set()
        self.live = 0
        self.peak = 0
        self.steps = 0


class _Replay:
    def __init__(self, problem: DevicesProblem) -> None:
        self.problem = problem
        self.memories = {device.name: _Memory(device) for device in problem.devices}
        self.links = {(link.source, link.target): link for link in problem.links}
        self.computed: set[str] = set()
        self.times_s: list[float] = []
        self.energies_j: list[float] = []
        self.counts = {"recomputes": 0, "copies": 0, "page_ins": 0, "page_outs": 0}
        self.taken_over: str | None = None
        self.clock = _Clock(problem)
        self.costs: list[StepCost] = []
        self.needs: dict[str, int] = {}
        self.beside: dict[str, int] = {}
        self.number = 0
        self.step = Step(StepKind.COMPUTE, "", "")

    def run(self, number: int, step: Step, following: Step | None) -> None:
        """Execute one step, or refuse it."""
        self.number, self.step = number, step
        self.needs, self.beside = {}, {}
        memory = self.memories.get(step.device)
        if memory is None:
            self.refuse(f"there is no device {step.device!r}")
        node = memory.nodes.get(step.node)
        if node is None:
            self.refuse("there is no such node")
        if (step.target is not None) is not (step.kind is StepKind.COPY):
            self.refuse("a copy has a target device, and nothing else has")
        match step.kind:
            case StepKind.COMPUTE:
                freed = Step(StepKind.FREE, node.in_place or "", step.device)
                takes_over = following is not None and following == freed
                self.compute(memory, node, node.in_place if takes_over else None)
            case StepKind.COPY:
                self.copy(memory, node, step.target or "")
            case StepKind.PAGE_IN:
                if node.name not in memory.aux:
                    self.refuse("there is no copy of it in AUX")
                storage = self.storage(memory)
                self.put(memory, node)
                end_s = self.spend(
                    [],
                    storage.page_in_time_s(node.output_bytes),
                    storage.page_in_energy_j(node.output_bytes),
                )
                self.arrive(memory, node, end_s)
                self.counts["page_ins"] += 1
            case StepKind.PAGE_OUT:
                storage = self.storage(memory)
                if not node.page:
                    self.refuse("its tensor may not be paged")
                self.require(memory, node.name)
                here = (memory.device.name, node.name)
                end_s = self.spend(
                    [self.clock.there[here]],
                    storage.page_out_time_s(node.output_bytes),
                    storage.page_out_energy_j(node.output_bytes),
                )
                self.clock.read[here] = max(self.clock.read[here], end_s)
                memory.aux.add(node.name)
                self.counts["page_outs"] += 1
            case StepKind.FREE:
                self.require(memory, node.name)
                memory.ram.remove(node.name)
                when = self.clock.read[memory.device.name, node.name]
                self.costs.append(StepCost(when, when, 0.0))
                if self.taken_over == node.name:
                    self.taken_over = None  # the op that took over the bytes counts them
                else:
                    memory.live -= node.output_bytes
                    self.clock.give(memory.device.name, when, node.output_bytes)

    def compute(self, memory: _Memory, node: Node, taken: str | None) -> None:
        """Compute a node; its tensor takes over the bytes of the input `taken`, if any."""
        if node.name in memory.device.lacks:
            self.refuse("the device cannot compute it")
        clock, here = self.clock, memory.device.name
        after = [clock.uses.get(node.name, 0.0)]
        for name in node.inputs:
            if name not in self.computed:
                self.refuse(f"input {name!r} has not been computed")
            if memory.nodes[name].output_bytes:
                self.require(memory, name)
                after.append(clock.there[here, name])
            else:
                after.append(clock.computed[name])
        if node.recompute_before in self.computed:
            self.refuse(f"it may not be computed after {node.recompute_before!r}")
        if node.name in self.computed:
            if not (node.recompute and node.output_bytes):
                self.refuse("it may not be computed again")
            self.counts["recomputes"] += 1
        self.computed.add(node.name)
        if taken is not None:
            self.require(memory, taken)
            memory.live -= node.output_bytes
            self.taken_over = taken
            after.append(clock.read[here, taken])
        self.put(memory, node, node.workspace_bytes)
        end_s = self.spend(after, node.time_s, node.energy_j)
        for name in node.inputs:
            if memory.nodes[name].output_bytes:
                clock.read[here, name] = max(clock.read[here, name], end_s)
        if node.recompute_before is not None:
            before = clock.uses.get(node.recompute_before, 0.0)
            clock.uses[node.recompute_before] = max(before, end_s)
        clock.computed.setdefault(node.name, end_s)
        self.arrive(memory, node, end_s)
        memory.steps += 1

    def copy(self, memory: _Memory, node: Node, target: str) -> None:
        """Copy a tensor to another device."""
        link = self.links.get((memory.device.name, target))
        if link is None:
            self.refuse(f"there is no link to {target!r}")
        self.require(memory, node.name)
        self.occupy(memory, link.buffer_bytes, link.buffer_bytes)
        self.put(self.memories[target], node, link.buffer_bytes)
        here, clock = (memory.device.name, node.name), self.clock
        time_s, energy_j = (
            link.transfer.time_s(node.output_bytes),
            link.transfer.cost_j(node.output_bytes),
        )
        end_s = self.spend([clock.there[here]], time_s, energy_j)
        clock.read[here] = max(clock.read[here], end_s)
        self.arrive(self.memories[target], node, end_s)
        self.counts["copies"] += 1

    def storage(self, memory: _Memory) -> Storage:
        """The device's storage."""
        if memory.device.problem.storage is None:
            self.refuse("the device has no storage")
        return memory.device.problem.storage

    def require(self, memory: _Memory, name: str) -> None:
        """Refuse the step unless a tensor is in a device's RAM."""
        if name not in memory.ram:
            self.refuse(f"the tensor of {name!r} is not in the RAM of {memory.device.name!r}")

    def put(self, memory: _Memory, node: Node, beside_bytes: int = 0) -> None:
        """Put a tensor into RAM, with `beside_bytes` more while the step lasts."""
        if node.name in memory.ram:
            self.refuse(f"its tensor is in the RAM of {memory.device.name!r} already")
        self.occupy(memory, node.output_bytes + beside_bytes, beside_bytes)
        if node.output_bytes:
            memory.ram.add(node.name)
            memory.live += node.output_bytes

    def arrive(self, memory: _Memory, node: Node, end_s: float) -> None:
        """Record the arrival of a tensor in RAM."""
        here = (memory.device.name, node.name)
        self.clock.there[here] = self.clock.read[here] = end_s

    def occupy(self, memory: _Memory, more_bytes: int, beside_bytes: int) -> None:
        """Add live bytes; `beside_bytes` of them only while the step lasts."""
        during, budget = memory.live + more_bytes, memory.device.problem.ram_bytes
        memory.peak = max(memory.peak, during)
        if during > budget:
            self.refuse(f"{memory.device.name!r} needs {during:,} bytes of a budget of {budget:,}")
        self.needs[memory.device.name] = during
        self.beside[memory.device.name] = beside_bytes

    def spend(self, after: list[float], time_s: float, energy_j: float) -> float:
        """Record a step's time and energy; return its end, after the times it waits for."""
        device, target = self.step.device, self.step.target
        where = frozenset((device,) if target is None else (device, target))
        begin_s, held = self.clock.begin(where, after, self.needs)
        end_s = self.clock.busy[where] = begin_s + time_s
        for name, held_bytes in held.items():
            self.memories[name].peak = max(self.memories[name].peak, held_bytes)
            self.clock.give(name, end_s, self.beside[name])
        self.costs.append(StepCost(begin_s, end_s, energy_j))
        self.times_s.append(time_s)
        self.energies_j.append(energy_j)
        return end_s

    def finish(self) -> DevicesFigures:
        """Figures of the whole plan; refuses a plan that stops too early."""
        for node in self.problem.devices[0].problem.nodes:
            if node.name not in self.computed:
                raise PlanError(f"the plan never computes node {node.name!r}")
        for name, memory in self.memories.items():
            if memory.ram:
                tensors = listed([repr(tensor) for tensor in sorted(memory.ram)])
                raise PlanError(f"the plan ends with tensors in the RAM of {name!r}: {tensors}")
        time_s, deadline_s = math.fsum(self.times_s), self.problem.deadline_s
        if self.problem.parallel:
            time_s = max((cost.end_s for cost in self.costs), default=0.0)
        if deadline_s is not None and time_s > deadline_s * (1 + TIME_TOLERANCE):
            raise PlanError(
                f"the plan takes {time_s:g} s, longer than its deadline {deadline_s:g} s"
            )
        return DevicesFigures(
            energy_j=math.fsum(self.energies_j) + self.problem.idle_w * time_s,
            time_s=time_s,
            peak_bytes={name: memory.peak for name, memory in self.memories.items()},
            computed={name: memory.steps for name, memory in self.memories.items()},
            **self.counts,
        )

    def refuse(self, reason: str) -> NoReturn:
        kind, name, device, target = self.step
        where = f"on {device!r}" if target is None else f"from {device!r} to {target!r}"
        raise PlanError(
            f"step {self.number} ({kind.value.replace('_', '-')} of {name!r} {where}): {reason}"
        )
