"""From plans to statements: what is called, and what needs no call."""

from __future__ import annotations

import re

import numpy as np
import pytest

from poetfw.boards import load_board
from poetfw.costs import analytic_costs
from poetfw.firmware import assign_slots
from poetfw.firmware.lower import lower
from poetfw.firmware.views import StepView
from poetfw.ir import Graph
from poetfw.memory.plan import Allocation
from poetfw.models.builder import GraphBuilder
from poetfw.ops import kind_of
from poetfw.pipeline import Plan, plan_unscheduled
from poetfw.schedule import StepKind
from poetfw.training import Program, Sgd, make_program

BOARD = load_board("linux")


def two_readers() -> Graph:
    """x [4, 6] -> linear, relu [4, 6], which is reshaped, and read as it is as well."""
    builder = GraphBuilder("two readers", "x", (4, 6))
    weight = np.ones((6, 6), np.float32)
    y = builder.op("linear", "y", (builder.input, builder.parameter("w", weight)))
    active = builder.op("relu", "active", (y,))
    image = builder.op("reshape", "image", (active,), {"shape": (4, 6, 1, 1)})
    pooled = builder.op("global_avg_pool", "pooled", (image,))
    flat = builder.op("reshape", "flat", (pooled,), {"shape": (4, 6)})
    return builder.build(builder.op("add", "sum", (active, flat)))[0]


@pytest.fixture(scope="module")
def program() -> Program:
    return make_program(two_readers(), "mse", Sgd())


@pytest.fixture(scope="module")
def plan(program: Program) -> Plan:
    return plan_unscheduled(program, BOARD, analytic_costs(program.training, BOARD))


@pytest.fixture(scope="module")
def step(program: Program, plan: Plan) -> StepView:
    slots = assign_slots(program, plan.training.plan)
    lowered = lower(
        program, BOARD, plan.training.plan, plan.evaluation.plan, plan.memory, slots
    )
    return lowered.view.training


def _address(stays: tuple[Allocation, ...], tensor: str, index: int) -> int:
    (stay,) = (s for s in stays if s.owner == tensor and s.lower <= index < s.upper)
    return stay.offset


def test_a_view_is_copied_exactly_where_it_lies_elsewhere(
    program: Program, plan: Plan, step: StepView
) -> None:
    ops = {op.name: op for op in program.training.ops}
    lasting = [(i, s) for i, s in enumerate(plan.training.plan) if s.kind is not StepKind.FREE]
    moved = []
    for (index, plan_step), statement in zip(lasting, step.statements, strict=True):
        op = ops[plan_step.node]
        if not kind_of(op).view:
            assert statement.code, op.name
            continue
        assert op.output is not None
        stays = plan.memory.training
        addresses = {_address(stays, name, index) for name in (op.inputs[0], op.output)}
        assert bool(statement.code) == (len(addresses) > 1), op.name
        assert ("nothing moves" in statement.comment) == (len(addresses) == 1)
        moved.append(len(addresses) > 1)
    assert set(moved) == {True, False}


def test_every_operand_of_a_call_is_where_the_memory_plan_says(
    program: Program, plan: Plan, step: StepView
) -> None:
    offsets = {define.name: int(re.search(r"\+ (\d+)u", define.value)[1]) for define in step.addresses}
    by_owner = {stay.owner: stay for stay in plan.memory.training}
    ops = {op.name: op for op in program.training.ops}
    lasting = [s for s in plan.training.plan if s.kind is not StepKind.FREE]
    for plan_step, statement in zip(lasting, step.statements, strict=True):
        op = ops[plan_step.node]
        operands = [*op.inputs, *([op.output] if op.output else [])]
        transient = [n for n in operands if not program.training.by_name[n].role.persistent]
        named = re.findall(r"\bT\d+(?:_\d+)?\b", statement.comment)
        assert [offsets[name] for name in named] == [by_owner[name].offset for name in transient]


def test_a_step_says_what_it_holds_and_for_how_long(plan: Plan, step: StepView) -> None:
    rows = {row.holds: row for row in step.memory_map}
    numbers = np.cumsum([s.kind is not StepKind.FREE for s in plan.training.plan])
    assert len(rows) == len(plan.memory.training)
    for stay in plan.memory.training:
        row = rows[stay.owner]
        assert (row.offset, row.size_bytes) == (stay.offset, stay.size_bytes)
        assert row.steps == f"{numbers[stay.lower]}-{numbers[stay.upper - 1]}"
