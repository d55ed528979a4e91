# SPDX-License-Identifier: Apache-2.0
"""Simulator of plans: replays a plan step by step and refuses it at the first illegal step.

It implements the meaning of the steps alone and shares no code with the programs' formulations, so
it detects their mistakes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NoReturn

from poetfw.common.errors import PlanError, listed
from poetfw.schedule.problem import (
    ExecutionPlan,
    Node,
    PlanFigures,
    ScheduleProblem,
    Step,
    StepKind,
)
from poetfw.schedule.timeline import Clock, Span, StepCost

TIME_TOLERANCE = 1e-9
"""Relative tolerance of the deadline: sums of the same times may differ by rounding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation(PlanFigures):
    """The costs of a legal plan, step by step.

    `time_s` is the time at which core and storage channel are done; without overlap, the sum of all
    steps' times. `peak_bytes` is the maximum of `during_bytes`.

    Attributes:
        during_bytes: per step, the most bytes live while it runs, workspace included.
        live_bytes: per step, the bytes live after it.
        stall_s: seconds of `time_s` during which the core waits for transfers.
        spans: per step, its begin and end in seconds.
    """

    during_bytes: tuple[int, ...]
    live_bytes: tuple[int, ...]
    stall_s: float
    spans: tuple[Span, ...]


def simulate(problem: ScheduleProblem, plan: ExecutionPlan) -> Simulation:
    """Replay a plan.

    A node without output bytes only has side effects: it is computed once and never freed or paged.
    Naming it as an input only requires that it runs before.

    Raises:
        PlanError: a step is illegal (the message names it by its number, counted from 0), a node
            is never computed, a tensor is live at the end, or the deadline is missed.
    """
    return _replayed(problem, plan).finish()


def step_costs(problem: ScheduleProblem, plan: ExecutionPlan) -> tuple[StepCost, ...]:
    """Times and energy of each step of a plan.

    Raises:
        PlanError: see `simulate`.
    """
    replay = _replayed(problem, plan)
    replay.finish()
    return replay.costs()


def _replayed(problem: ScheduleProblem, plan: ExecutionPlan) -> _Replay:
    replay = _Replay(problem)
    for number, step in enumerate(plan):
        replay.run(number, step, plan[number + 1] if number + 1 < len(plan) else None)
    return replay


class _Replay:
    """State of RAM and AUX between two steps, and costs of the steps so far."""

    def __init__(self, problem: ScheduleProblem) -> None:
        self.problem = problem
        self.nodes = {node.name: node for node in problem.nodes}
        self.ram: set[str] = set()
        self.aux: set[str] = set()
        self.computed: set[str] = set()
        self.live = 0
        self.during_bytes: list[int] = []
        self.live_bytes: list[int] = []
        self.compute_j: list[float] = []
        self.paging_j: list[float] = []
        self.times_s: list[float] = []
        self.energies_j: list[float] = []
        self.overlap = problem.storage is not None and problem.storage.overlap
        self.clock = Clock(self.overlap)
        self.counts = {"recomputes": 0, "page_ins": 0, "page_outs": 0}
        self.taken_over: str | None = None
        self.number = 0
        self.step = Step(StepKind.COMPUTE, "")

    def run(self, number: int, step: Step, following: Step | None) -> None:
        """Execute one step, or refuse it."""
        self.number, self.step = number, step
        node = self.nodes.get(step.node)
        if node is None:
            self.refuse("there is no such node")
        match step.kind:
            case StepKind.COMPUTE:
                takes_over = (
                    following is not None
                    and following.kind is StepKind.FREE
                    and following.node == node.in_place
                )
                during = self.compute(node, node.in_place if takes_over else None)
            case StepKind.PAGE_IN:
                during = self.page_in(node)
            case StepKind.PAGE_OUT:
                during = self.page_out(node)
            case StepKind.FREE:
                during = self.free(node)
            case StepKind.COPY:
                self.refuse("there is one device only: nothing is copied")
        if during > self.problem.ram_bytes:
            needed, budget = during + self.problem.resident_bytes, self.problem.budget_bytes
            self.refuse(f"it needs {needed:,} bytes of a budget of {budget:,}")
        self.during_bytes.append(during)
        self.live_bytes.append(self.live)

    def compute(self, node: Node, taken: str | None) -> int:
        """Compute a node, in place of its input `taken` if given; return the bytes live then."""
        for name in node.inputs:
            if name not in self.computed:
                self.refuse(f"input {name!r} has not been computed")
            if self.nodes[name].output_bytes and name not in self.ram:
                self.refuse(f"input {name!r} is not in RAM")
        if node.name in self.ram:
            self.refuse("its tensor is in RAM already")
        if node.recompute_before in self.computed:
            self.refuse(f"it may not be computed after {node.recompute_before!r}")
        if node.name in self.computed:
            if not node.recompute:
                self.refuse("it may not be computed again")
            if not node.output_bytes:
                self.refuse("it only has side effects, so computing it again is pointless")
            self.counts["recomputes"] += 1
        self.computed.add(node.name)
        self.compute_j.append(node.energy_j)
        self.energies_j.append(node.energy_j)
        self.times_s.append(node.time_s)
        if taken is not None:
            self.clock.take_over(taken)
            self.live -= node.output_bytes
            self.taken_over = taken
        self.clock.compute(node.inputs, node.time_s)
        during = self.live + node.output_bytes + node.workspace_bytes
        self.put(node)
        return during

    def page_in(self, node: Node) -> int:
        if node.name not in self.aux:
            self.refuse("there is no copy of it in AUX")
        if node.name in self.ram:
            self.refuse("its tensor is in RAM already")
        assert self.problem.storage is not None
        energy_j = self.problem.storage.page_in_energy_j(node.output_bytes)
        self.paging_j.append(energy_j)
        self.energies_j.append(energy_j)
        moving = self.problem.storage.moving_in(node.output_bytes)
        self.times_s.append(moving.storage_s)
        self.clock.page_in(node.name, moving)
        self.counts["page_ins"] += 1
        self.put(node)
        return self.live

    def page_out(self, node: Node) -> int:
        storage = self.problem.storage
        if storage is None:
            self.refuse("there is no storage")
        if not node.page:
            self.refuse("its tensor may not be paged")
        if node.name not in self.ram:
            self.refuse("its tensor is not in RAM")
        energy_j = storage.page_out_energy_j(node.output_bytes)
        self.paging_j.append(energy_j)
        self.energies_j.append(energy_j)
        moving = storage.moving_out(node.output_bytes)
        self.times_s.append(moving.storage_s)
        self.clock.page_out(node.name, moving)
        self.counts["page_outs"] += 1
        self.aux.add(node.name)
        return self.live

    def free(self, node: Node) -> int:
        if node.name not in self.ram:
            self.refuse("its tensor is not in RAM")
        during = self.live
        self.energies_j.append(0.0)
        self.clock.free(node.name)
        self.ram.remove(node.name)
        if self.taken_over == node.name:
            self.taken_over = None  # its bytes already belong to the op's output
        else:
            self.live -= node.output_bytes
        return during

    def put(self, node: Node) -> None:
        if node.output_bytes:
            self.ram.add(node.name)
            self.live += node.output_bytes

    def finish(self) -> Simulation:
        """Figures of the whole plan; refuses a plan that ends too early."""
        for name in self.nodes:
            if name not in self.computed:
                raise PlanError(f"the plan never computes node {name!r}")
        if self.ram:
            names = listed([repr(name) for name in self.nodes if name in self.ram])
            raise PlanError(f"the plan ends with tensors in RAM that it must free: {names}")
        time_s = self.clock.makespan_s if self.overlap else math.fsum(self.times_s)
        deadline_s = self.problem.deadline_s
        if deadline_s is not None and time_s > deadline_s * (1 + TIME_TOLERANCE):
            raise PlanError(
                f"the plan takes {time_s:g} s, longer than its deadline {deadline_s:g} s"
            )
        compute_energy_j, paging_energy_j = math.fsum(self.compute_j), math.fsum(self.paging_j)
        return Simulation(
            peak_bytes=max(self.during_bytes, default=0),
            during_bytes=tuple(self.during_bytes),
            live_bytes=tuple(self.live_bytes),
            energy_j=compute_energy_j + paging_energy_j,
            compute_energy_j=compute_energy_j,
            paging_energy_j=paging_energy_j,
            time_s=time_s,
            stall_s=self.clock.stall_s,
            spans=tuple(self.clock.spans),
            **self.counts,
        )

    def costs(self) -> tuple[StepCost, ...]:
        """Times and energy of each step."""
        waits = self.clock.waits
        return tuple(
            StepCost(*span, energy_j, waits.get(number, ()))
            for number, (span, energy_j) in enumerate(
                zip(self.clock.spans, self.energies_j, strict=True)
            )
        )

    def refuse(self, reason: str) -> NoReturn:
        kind = self.step.kind.value.replace("_", "-")
        raise PlanError(f"step {self.number} ({kind} of {self.step.node!r}): {reason}")


def accepts(problem: ScheduleProblem, plan: ExecutionPlan) -> Simulation | None:
    """Simulate a plan; None if the simulator refuses it."""
    try:
        return simulate(problem, plan)
    except PlanError:
        return None


def unlimited(problem: ScheduleProblem, plan: ExecutionPlan) -> Simulation:
    """Simulate a plan with unlimited RAM and time."""
    ram_bytes = sum(node.output_bytes + node.workspace_bytes for node in problem.nodes)
    return simulate(replace(problem, ram_bytes=ram_bytes, deadline_s=None), plan)
