# SPDX-License-Identifier: Apache-2.0
"""A step on several devices, run by its addresses and its waits alone, on marks for bytes.

Every tensor is a mark in the bytes that it has. Workers are drawn at random, as far as their waits
let them; whatever order comes of it, each op must find its inputs' marks, and parameters as often
updated as in the plan's order.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from poetfw.firmware import statement_numbers
from poetfw.firmware.views import StatementView
from poetfw.memory import Allocation
from poetfw.ops import kind_of
from poetfw.schedule import Step, StepKind
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.several.plan import Made, complete, named
from unit.workers.device_plans import Case, Placed, any_plan, case_of, placed, placed_parts

_WAIT = re.compile(r"POET_TRY\(poet_wait_for\((\d+)u, (\d+)u\)\);")


@pytest.fixture(
    scope="module", params=[("mlp", 2), ("digits-cnn", 2), ("mlp", 3)], ids=["mlp", "cnn", "three"]
)
def case(request: pytest.FixtureRequest) -> Case:
    return case_of(*request.param)


class Machine:
    """Memory that holds marks, and the statements of a step."""

    def __init__(self, case: Case, plan: Placed) -> None:
        self.graph = case.program.training
        self.ops = {op.name: op for op in self.graph.ops}
        self.memory, self.step = plan.memory, plan.step
        self.marks = {tensor.name: n for n, tensor in enumerate(self.graph.tensors, 1)}
        for op in self.graph.ops:
            if kind_of(op).view and op.output is not None:  # of the same bytes by another name
                self.marks[op.output] = self.marks[op.inputs[0]]
        self.bytes = np.zeros(plan.memory.arena_bytes, np.int32)
        self.updates = dict.fromkeys((t.name for t in self.graph.persistent), 0)

    def place(self, name: str, device: str, index: int, workspace: bool = False) -> Allocation:
        (arena,) = (part.arena for part in self.step.parts if part.device == device)
        (stay,) = (
            stay
            for stay in self.memory.training
            if (stay.owner, stay.workspace) == (name, workspace)
            and stay.lower <= index < stay.upper
            and arena.offset <= stay.offset < arena.offset + arena.size_bytes
        )
        assert stay.offset + stay.size_bytes <= arena.offset + arena.size_bytes
        return stay

    def holds(self, name: str, device: str, index: int) -> bool:
        stay = self.place(name, device, index)
        return bool((self.bytes[self._slice(stay)] == self.marks[name]).all())

    def write(self, stay: Allocation, mark: int) -> None:
        self.bytes[self._slice(stay)] = mark

    @staticmethod
    def _slice(stay: Allocation) -> slice:
        return slice(stay.offset, stay.offset + stay.size_bytes)

    def run(self, index: int, step: Step) -> tuple[bool, tuple[int, ...]]:
        """Whether it found what it reads, and how often the parameters it touches were updated."""
        op = self.ops[step.node]
        if step.kind is StepKind.COPY:
            assert op.output is not None
            assert step.target is not None
            for end in (step.device, step.target):
                buffer = self.place(op.name, end, index, workspace=True)
                assert buffer.size_bytes >= self.step.buffers[step.device, step.target] > 0
                self.write(buffer, -1)
            found = self.holds(op.output, step.device, index)
            self.write(self.place(op.output, step.target, index), self.marks[op.output])
            return found, ()
        names = self.graph.reads(op)
        if any(w.owner == op.name and w.workspace and w.lower == index for w in self._stays):
            self.write(self.place(op.name, step.device, index, workspace=True), -1)
        found = all(
            self.holds(name, step.device, index) for name in names if name not in self.updates
        )
        touched = [*names, *op.updates, *([op.output] if op.output is not None else [])]
        versions = tuple(self.updates[name] for name in touched if name in self.updates)
        for name in (*op.updates, op.output):
            if name in self.updates:
                self.updates[name] += 1
            elif name is not None:
                self.write(self.place(name, step.device, index), self.marks[name])
        return found, versions

    @property
    def _stays(self) -> Sequence[Allocation]:
        return self.memory.training


def drawn(statements: Sequence[StatementView], rng: random.Random) -> list[int]:
    """Numbers of statements in an order in which workers may come to end them."""
    queues: dict[int, list[StatementView]] = {}
    for statement in statements:
        if statement.code:
            queues.setdefault(statement.worker, []).append(statement)
    last: dict[int, int] = {}
    order = []
    lazy = rng.sample(sorted(queues), len(queues))  # the first of them goes whenever it can
    while any(queues.values()):
        ready = [
            worker
            for worker in lazy
            if queues[worker]
            and all(
                last.get(int(m[1]), 0) >= int(m[2])
                for m in map(_WAIT.fullmatch, queues[worker][0].waits)
                if m is not None
            )
        ]
        assert ready, "all wait for each other"
        worker = ready[0] if rng.random() < 0.8 else rng.choice(ready)
        last[worker] = queues[worker].pop(0).number
        order.append(last[worker])
    return order


def found_all(case: Case, plan: Placed, statements: Sequence[StatementView], seed: int) -> bool:
    numbers = statement_numbers(plan.step.steps)
    steps = {
        number: (index, step)
        for index, (number, step) in enumerate(zip(numbers, plan.step.steps, strict=True))
        if step.kind is not StepKind.FREE
    }
    in_order = [statement.number for statement in statements if statement.code]
    machine = Machine(case, plan)
    versions = {number: machine.run(*steps[number]) for number in in_order}
    assert all(found for found, _ in versions.values())
    machine = Machine(case, plan)
    order = drawn(statements, random.Random(seed))
    return all(machine.run(*steps[number]) == versions[number] for number in order)


def test_evaluation_takes_the_arena_with_the_largest_limit(case: Case) -> None:
    """Also where training computes nothing there."""
    nodes = case.problem.devices[0].problem.nodes
    one = tuple(Made(n, n, StepKind.COMPUTE, 0) for n in range(len(nodes)))
    graph = Indexed.of(case.problem.devices[0].problem)
    names = tuple(device.name for device in case.problem.devices)
    plan = named(graph, names, complete(graph, one))
    limits = {name: 10**6 * (n + 1) for n, name in enumerate(names)}
    step, memory = placed_parts(case, plan, limits, {})
    arenas = [part.arena for part in step.parts]
    ends = [stay.offset + stay.size_bytes for stay in memory.evaluation]
    assert [arena.device for arena in arenas] == list(names)
    assert min(stay.offset for stay in memory.evaluation) == arenas[-1].offset
    assert arenas[-1].offset + arenas[-1].size_bytes == max(ends)
    assert arenas[0].offset >= max(ends)


@pytest.mark.parametrize("seed", range(4))
def test_any_order_that_waits_allow_finds_what_it_reads(case: Case, seed: int) -> None:
    plan = placed(case, any_plan(case.problem, seed))
    statements = plan.lowering.view.training.statements
    assert all(found_all(case, plan, statements, n) for n in range(10))


def test_without_waits_something_is_missed(case: Case) -> None:
    """The check itself: a step whose workers wait for nothing does not pass it."""
    plan = placed(case, any_plan(case.problem, 0))
    statements = plan.lowering.view.training.statements
    hasty = [replace(statement, waits=()) for statement in statements]
    assert not all(found_all(case, plan, hasty, n) for n in range(10))


def test_in_turn_there_is_one_order(case: Case) -> None:
    plan = placed(case, any_plan(case.problem, 1), parallel=False)
    statements = [s for s in plan.lowering.view.training.statements if s.code]
    for n in range(5):
        assert drawn(statements, random.Random(n)) == [s.number for s in statements]


def test_arenas_are_apart_and_within_their_limits(case: Case) -> None:
    plan = placed(case, any_plan(case.problem, 2))
    arenas = sorted((part.arena for part in plan.step.parts), key=lambda arena: arena.offset)
    resident = plan.memory.persistent[-1]
    assert arenas[0].offset >= resident.offset + resident.size_bytes
    for arena, after in itertools.pairwise(arenas):
        assert arena.offset + arena.size_bytes == after.offset
    assert all(arena.size_bytes <= arena.limit_bytes for arena in arenas)
    assert plan.memory.arena_bytes == arenas[-1].offset + arenas[-1].size_bytes
    for stay in plan.memory.training:
        assert sum(stay in arena.own(plan.memory.training) for arena in arenas) == 1
    for stay in plan.memory.evaluation:
        biggest = arenas[0]
        assert biggest.offset <= stay.offset
        assert stay.offset + stay.size_bytes <= biggest.offset + biggest.size_bytes


def test_a_project_is_the_same_each_time(case: Case) -> None:
    plan = any_plan(case.problem, 3)
    assert placed(case, plan).lowering == placed(case, plan).lowering
