# SPDX-License-Identifier: Apache-2.0
"""Programs of partners, run by their statements and messages alone, on marks for bytes.

Every tensor is a mark in the bytes that it has, a persistent one with how often it was updated.
Partners go on in an order that is drawn at random, as far as messages let them. Whatever order
comes of it, each op must find its inputs' marks, and parameters as in the plan's order.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest

from poetfw.boards import Board, load_board
from poetfw.common.errors import BoardError, ConfigError, InfeasibleError, PlanError
from poetfw.common.limits import Work
from poetfw.costs import analytic_costs
from poetfw.firmware import SlotPurpose, statement_numbers
from poetfw.firmware.views import ProjectView
from poetfw.memory import Message
from poetfw.ops import kind_of
from poetfw.ops.tile_tables import no_tiles
from poetfw.planning import Plan, lower_plan, plan_evaluation, plan_on_devices, read_device
from poetfw.planning.several import boards_apart, require_room
from poetfw.report import slots_of
from poetfw.report.stage_files import _training_json, step_costs_of, training_of
from poetfw.schedule import ExecutionPlan, StepKind
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.several.plan import Made, complete, named
from poetfw.schedule.timeline import Span, StepCost
from unit.workers.device_plans import PAIR, Case, any_plan, case_of

Parts = Mapping[str, tuple[Plan, ProjectView]]


@pytest.fixture(
    scope="module", params=[("mlp", 2), ("digits-cnn", 2), ("mlp", 3)], ids=["mlp", "cnn", "three"]
)
def case(request: pytest.FixtureRequest) -> Case:
    return case_of(*request.param)


def whole_of(case: Case, plan: ExecutionPlan) -> Plan:
    evaluation = plan_evaluation(case.program, case.board, analytic_costs)
    return plan_on_devices(
        case.program, evaluation, case.problem, plan, Work(1), lambda *_: None, apart=True
    )


def plans_of(case: Case, plan: ExecutionPlan) -> Mapping[str, Plan]:
    whole = whole_of(case, plan)
    return {name: whole.of(name) for name in whole.memories}


def parts_of(case: Case, plan: ExecutionPlan) -> Parts:
    parts = {}
    for name, each in plans_of(case, plan).items():
        slots = slots_of(case.program, each.step, None)
        parts[name] = each, lower_plan(case.program, case.board, each, slots).view
    return parts


class Marks:
    """What each tensor looks like in memory."""

    def __init__(self, case: Case) -> None:
        graph = case.program.training
        tensors = dict.fromkeys(t.name for t in (*graph.tensors, *case.program.persistent))
        self._number = {name: n for n, name in enumerate(tensors, 1)}
        for op in graph.ops:
            if kind_of(op).view and op.output is not None:  # of the same bytes by another name
                self._number[op.output] = self._number[op.inputs[0]]

    def of(self, name: str, version: int = 0) -> int:
        return self._number[name] * 1000 + version


class Team:
    """Partners, their memories, and messages on their way."""

    def __init__(self, case: Case, parts: Parts, carries: Callable[[Message], bool]) -> None:
        self.program, self.graph = case.program, case.program.training
        self.ops = {op.name: op for op in self.graph.ops}
        self.marks, self.parts, self.carries = Marks(case), parts, carries
        self.steps = next(iter(parts.values()))[0].step.steps
        numbers = statement_numbers(self.steps)
        self.index_of = {
            number: index
            for index, (number, step) in enumerate(zip(numbers, self.steps, strict=True))
            if step.kind is not StepKind.FREE
        }
        self.memory = {}
        for name, (each, _) in parts.items():
            self.memory[name] = np.zeros(each.memory.arena_bytes, np.int64)
            for stay in each.memory.persistent:
                self.write(name, stay.offset, stay.size_bytes, self.marks.of(stay.owner))
        self.versions = dict.fromkeys((t.name for t in case.program.persistent), 0)
        self.mail: dict[Message, np.ndarray] = {}
        self.wrong: list[str] = []

    def write(self, device: str, offset: int, size: int, mark: int) -> None:
        self.memory[device][offset : offset + size] = mark

    def expect(self, device: str, name: str, index: int, version: int) -> None:
        offset = self.parts[device][0].memory.offset_of(name, index)
        held = self.memory[device][offset : offset + self.graph.by_name[name].size_bytes]
        if not (held == self.marks.of(name, version)).all():
            self.wrong.append(f"{name} on {device} at step {index}")

    def in_order(self) -> dict[int, dict[str, int]]:
        """By each computing step's index, how often what it touches was updated before."""
        seen = {}
        for index, step in enumerate(self.steps):
            if step.kind is not StepKind.COMPUTE:
                continue
            op = self.ops[step.node]
            touched = {*self.graph.reads(op), *op.updates}
            seen[index] = {name: self.versions.get(name, 0) for name in touched}
            for name in op.updates:
                self.versions[name] += 1
        return seen

    def compute(self, device: str, index: int, seen: Mapping[str, int]) -> None:
        op, memory = self.ops[self.steps[index].node], self.parts[device][0].memory
        for name, version in seen.items():
            self.expect(device, name, index, version)
        for name in op.updates:
            tensor = self.graph.by_name[name]
            mark = self.marks.of(name, seen[name] + 1)
            self.write(device, memory.offset_of(name, index), tensor.size_bytes, mark)
        if op.output is not None:
            tensor = self.graph.by_name[op.output]
            offset = memory.offset_of(op.output, index)
            self.write(device, offset, tensor.size_bytes, self.marks.of(op.output))

    def stop_for(self, device: str, number: int) -> bool:
        """Whether a partner can go on behind a message, which it sends, or gets if it is there."""
        each, view = self.parts[device]
        message = each.step.own_messages(self.program)[number - 1]
        assert view.messages is not None
        there = view.messages[number - 1]
        bytes_ = self.memory[device][there.offset : there.offset + there.size_bytes]
        if not self.carries(message):
            return True
        if not there.arrives:
            self.mail[message] = bytes_.copy()
            return True
        if message not in self.mail:
            return False
        bytes_[:] = self.mail.pop(message)
        return True

    def train(self, rng: random.Random) -> None:
        """A whole step; partners go on in any order."""
        seen = self.in_order()
        queues = {name: list(view.training.statements) for name, (_, view) in self.parts.items()}
        idle = set()
        while any(queues.values()):
            ready = [name for name, queue in queues.items() if queue and name not in idle]
            assert ready, "all wait for each other"
            name = rng.choice(ready)
            statement = queues[name][0]
            if statement.message and not self.stop_for(name, statement.message):
                idle.add(name)
                continue
            if not statement.message:
                index = self.index_of[statement.number]
                self.compute(name, index, seen[index])
            queues[name].pop(0)
            idle.clear()
        assert not self.mail

    def end(self) -> None:
        """What follows the last step: then the one that evaluates has all that it needs."""
        for arrives in (False, True):
            for name, (each, view) in self.parts.items():
                messages = each.step.own_messages(self.program)
                for number, (message, there) in enumerate(
                    zip(messages, view.messages or (), strict=True), 1
                ):
                    if message.behind is None and there.arrives is arrives:
                        assert self.stop_for(name, number)
        (evaluator,) = (name for name, (each, _) in self.parts.items() if each.step.evaluates_here)
        for tensor in self.program.evaluation.persistent:
            if tensor.name != self.program.metric.name:
                offset = self.parts[evaluator][0].memory.offset_of(tensor.name, None)
                held = self.memory[evaluator][offset : offset + tensor.size_bytes]
                if not (held == self.marks.of(tensor.name, self.versions[tensor.name])).all():
                    self.wrong.append(f"{tensor.name} in evaluation")


def trained(
    case: Case, parts: Parts, seed: int, carries: Callable[[Message], bool] = lambda message: True
) -> list[str]:
    team = Team(case, parts, carries)
    for n in range(2):
        team.train(random.Random(seed * 2 + n))
    team.end()
    return team.wrong


@pytest.mark.parametrize("seed", range(4))
def test_in_any_order_each_finds_what_it_reads(case: Case, seed: int) -> None:
    parts = parts_of(case, any_plan(case.problem, seed))
    for n in range(6):
        assert trained(case, parts, n) == []


def test_each_message_is_needed(case: Case) -> None:
    """The check itself: without any one of them, something is missed."""
    parts = parts_of(case, any_plan(case.problem, 0))
    messages = next(iter(parts.values()))[0].step.messages(case.program)
    persistent = {tensor.name for tensor in case.program.persistent}
    assert {message.tensor in persistent for message in messages} == {False, True}
    for left_out in messages:
        wrong = trained(case, parts, 1, lambda m, left_out=left_out: m != left_out)  # type: ignore[misc]
        assert wrong, left_out


def test_a_partner_has_what_it_touches_and_no_more(case: Case) -> None:
    parts = parts_of(case, any_plan(case.problem, 1))
    ops = {op.name: op for op in case.program.training.ops}
    evaluated = {tensor.name for tensor in case.program.evaluation.persistent}
    captured: list[str] = []
    for name, (each, view) in parts.items():
        touched = {case.program.loss.name, case.program.metric.name}
        for step in each.step.steps:
            if step.kind is StepKind.COMPUTE and step.device == name:
                op = ops[step.node]
                touched |= {n for n in (*op.inputs, *op.updates) if n in evaluated}
                touched |= set(op.updates)
        held = {stay.owner for stay in each.memory.persistent}
        assert touched <= held
        assert (held >= evaluated) is each.step.evaluates_here or evaluated <= touched
        slots = slots_of(case.program, each.step, None)
        assert {s.tensor for s in slots if s.purpose is SlotPurpose.PERSISTENT} == held
        assert [define.name for define in view.addresses] == [
            slot.name.removeprefix("SLOT_") for slot in view.slots if slot.name.startswith("SLOT_")
        ]
        captured += [s.tensor for s in slots if s.purpose is SlotPurpose.CAPTURE]
        for stay in each.memory.training:
            arena = each.step.own[0].arena
            assert arena.offset <= stay.offset
            assert stay.offset + stay.size_bytes <= arena.offset + arena.size_bytes
    assert sorted(captured) == sorted(case.program.parameter_gradients)


def test_a_device_that_computes_nothing_has_a_program_all_the_same(case: Case) -> None:
    nodes = case.problem.devices[0].problem.nodes
    one = tuple(Made(n, n, StepKind.COMPUTE, 1) for n in range(len(nodes)))
    graph = Indexed.of(case.problem.devices[0].problem)
    names = tuple(device.name for device in case.problem.devices)
    parts = parts_of(case, named(graph, names, complete(graph, one)))
    idle, view = parts[names[0]]
    assert idle.step.evaluates_here  # of equal limits the first
    assert view.training.statements == ()
    assert all(message.arrives for message in view.messages or ())
    assert trained(case, parts, 1) == []


def test_programs_that_belong_together_say_which_they_are(case: Case) -> None:
    """Each part of a plan has a name of its own; and so have the same parts of another one."""
    ids = [
        view.plan_id
        for seed in (0, 1)
        for _, view in parts_of(case, any_plan(case.problem, seed)).values()
    ]
    assert len(set(ids)) == len(ids)


def test_parts_are_read_as_they_were_written(case: Case) -> None:
    for each in plans_of(case, any_plan(case.problem, 1)).values():
        costs = tuple(
            StepCost(float(i), i + 0.5, 0.25 * i, (Span(i - 0.5, float(i)),) * (i % 2))
            for i in range(len(each.step.steps))
        )
        document = _training_json(each.step, costs, case.program.training, no_tiles)
        assert training_of(document) == each.step
        assert step_costs_of(document) == costs
        for broken in ({"evaluates": "nobody"}, {"memory": "nobody"}, {"parts": []}):
            with pytest.raises(PlanError, match=r"the plan has no (arena of|memory)"):
                training_of({**document, **broken})


def boards(**of: str) -> Mapping[str, Board]:
    file = read_device(PAIR[0])
    files = [file.model_copy(update={"name": name, "board": of[name] or None}) for name in of]
    return boards_apart(files, [PAIR[0]] * len(files))


def test_boards_of_partners() -> None:
    found = boards(one="linux", two="nrf52840")
    assert [board.name for board in found.values()] == ["linux", "nrf52840"]
    with pytest.raises(ConfigError, match="round sums of products in different ways: 'one'"):
        boards(one="linux", two="mkr1000")
    with pytest.raises(ConfigError, match="two device files or more"):
        boards(one="linux")
    with pytest.raises(BoardError, match="board is missing"):
        boards(one="linux", two="")
    with pytest.raises(ConfigError, match="the name 'run' cannot be a program's"):
        boards(one="linux", run="linux")
    with pytest.raises(ConfigError, match="another device has it"):
        boards_apart([read_device(PAIR[0])] * 2, [PAIR[0]] * 2)


def test_what_does_not_fit_a_board_is_said(case: Case) -> None:
    whole = whole_of(case, any_plan(case.problem, 1))
    names = list(whole.memories)
    enough = {name: load_board("linux") for name in names}
    require_room(case.program, enough, whole)
    short = replace(load_board("nrf52840"), ram_bytes=12_000)
    with pytest.raises(InfeasibleError, match=f"device {names[1]!r} takes .* has "):
        require_room(case.program, {**enough, names[1]: short}, whole)
