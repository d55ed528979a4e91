# SPDX-License-Identifier: Apache-2.0
"""From plans to statements: what is called, and what needs no call."""

from __future__ import annotations

import re
from typing import NamedTuple

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
from poetfw.planning import Plan, plan_unscheduled
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


def two_halves() -> Graph:
    """x [1, 6] -> linear [1, 8], of which both halves are read apart: they are windows."""
    builder = GraphBuilder("two halves", "x", (1, 6))
    weight = np.ones((8, 6), np.float32)
    y = builder.op("linear", "y", (builder.input, builder.parameter("w", weight)))
    halves = [
        builder.op("slice", f"from{start}", (y,), {"axis": 1, "start": start, "length": 4})
        for start in (0, 4)
    ]
    return builder.build(builder.op("add", "sum", halves))[0]


def turned_parameter() -> Graph:
    """x [4, 6] times a parameter that is reshaped, for which an activation would stay."""
    builder = GraphBuilder("turned parameter", "x", (4, 6))
    weight = builder.parameter("w", np.ones(36, np.float32))
    square = builder.op("reshape", "square", (weight,), {"shape": (6, 6)})
    return builder.build(builder.op("linear", "y", (builder.input, square)))[0]


class Lowered(NamedTuple):
    """A program, its plan, and the step that it was lowered to."""

    program: Program
    plan: Plan
    step: StepView


def lowered(graph: Graph) -> Lowered:
    program = make_program(graph, "mse", Sgd())
    plan = plan_unscheduled(program, BOARD, analytic_costs)
    steps = plan.step, plan.evaluation.plan
    lowering = lower(program, BOARD, *steps, plan.memory, assign_slots(program, plan.step.steps))
    return Lowered(program, plan, lowering.view.training)


def _address(stays: tuple[Allocation, ...], tensor: str, index: int) -> int:
    (stay,) = (s for s in stays if s.owner == tensor and s.lower <= index < s.upper)
    return stay.offset


def test_a_view_is_copied_exactly_where_it_lies_elsewhere() -> None:
    program, plan, step = lowered(two_readers())
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


def test_a_view_of_a_parameter_is_a_copy() -> None:
    program, plan, step = lowered(turned_parameter())
    lasting = [s for s in plan.training.plan if s.kind is not StepKind.FREE]
    codes = {s.node: view.code for s, view in zip(lasting, step.statements, strict=True)}
    (copied,) = (op for op in program.training.ops if op.inputs[:1] == ("w",) and op.output)
    assert codes[copied.name].startswith("poet_")


@pytest.mark.parametrize("graph", [two_readers(), two_halves()], ids=lambda graph: graph.name)
def test_every_operand_of_a_call_is_where_the_memory_plan_says(graph: Graph) -> None:
    program, plan, step = lowered(graph)
    values = {define.name: define.value for define in step.addresses}
    stays = {stay.owner: stay for stay in plan.memory.training}
    ops = {op.name: op for op in program.training.ops}
    lasting = [s for s in plan.training.plan if s.kind is not StepKind.FREE]
    for plan_step, statement in zip(lasting, step.statements, strict=True):
        op = ops[plan_step.node]
        names = [*op.inputs, *([op.output] if op.output else [])]
        tensors = [program.training.by_name[name] for name in names]
        named = re.findall(r"\bT\d+(?:_\d+)?\b", statement.comment)
        assert [values[name] for name in named] == [
            f"((float *)(void *)(poet_arena + {stays[t.base or t.name].offset + t.offset_bytes}u))"
            for t in tensors
            if not t.role.persistent
        ]


def test_a_step_says_what_it_holds_and_for_how_long() -> None:
    _, plan, step = lowered(two_readers())
    rows = {row.holds: row for row in step.memory_map}
    numbers = np.cumsum([s.kind is not StepKind.FREE for s in plan.training.plan])
    assert len(rows) == len(plan.memory.training)
    for stay in plan.memory.training:
        row = rows[stay.owner]
        assert (row.offset, row.size_bytes) == (stay.offset, stay.size_bytes)
        assert row.steps == f"{numbers[stay.lower]}-{numbers[stay.upper - 1]}"
