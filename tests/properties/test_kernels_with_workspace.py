# SPDX-License-Identifier: Apache-2.0
"""Kernels that take workspace: no plan takes more energy with them, whatever ops cost."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from budgets import examples
from poetfw.boards import Board, load_board
from poetfw.common.errors import InfeasibleError
from poetfw.common.limits import Work
from poetfw.costs import CostTable, Source, analytic_costs
from poetfw.firmware import BLOCK_BYTES
from poetfw.ir import Graph
from poetfw.memory import resident_bytes
from poetfw.models.layers import Layers
from poetfw.ops import VARIANT, in_variants, kind_of
from poetfw.planning import (
    BuildSettings,
    KernelChoices,
    choose_kernels,
    plan_unscheduled,
    plan_within,
    schedule_problem,
    solve_variants,
    use_workspace,
)
from poetfw.schedule import simulate, solve
from poetfw.training import Program, Sgd, make_program

SETTINGS = BuildSettings(board="nrf52840", model="two", batch=4)
BOARD = load_board(SETTINGS.board)


@dataclass(frozen=True)
class Costs:
    """A hundredth of what is estimated or more, of each kernel another share, as if measured."""

    seed: int

    def __call__(self, graph: Graph, board: Board) -> CostTable:
        table = analytic_costs(graph, board)
        ops = {}
        for op in graph.ops:
            kernel = f"{op.name} {op.attributes.get(VARIANT)}".encode()
            energy, time = 10 ** np.random.default_rng([self.seed, *kernel]).uniform(-2, 0, 2)
            cost = table.ops[op.name]
            measured = {"energy_j": energy * cost.energy_j, "time_s": time * cost.time_s}
            ops[op.name] = replace(cost, **measured, source=Source.MEASURED)
        return replace(table, ops=ops)


def workspace_bytes(graph: Graph) -> int:
    """Of all ops together."""
    return sum(kind_of(op).workspace_bytes(op, graph) for op in graph.ops)


@pytest.fixture(scope="module")
def program() -> Program:
    """Of two layers forward and backward may have a workspace."""
    net = Layers("two", (4, 1, 8, 8), seed=0)
    x = net.relu("relu1", net.conv("conv1", net.input, 4, 3, padding=(1, 1, 1, 1)))
    for name in ("wide", "small"):
        x = net.conv(name, x, 4, 3, stride=2, padding=(2, 2, 1, 1), groups=4)
    graph, _ = net.build(net.linear("logits", net.flatten("flatten", x), 4))
    program = make_program(graph, "softmax_cross_entropy", Sgd())
    variants = [in_variants(op, program.training)[-1] for op in program.training.ops]
    assert workspace_bytes(replace(program.training, ops=tuple(variants))) > 0
    return program


@pytest.fixture(scope="module")
def budgets(program: Program) -> tuple[int, int]:
    """Bytes that the arena takes at least, and where everything is kept."""
    unlimited = plan_unscheduled(program, BOARD, analytic_costs)
    most, evaluation = unlimited.memory.arena_bytes, unlimited.evaluation
    plan = plan_within(program, BOARD, analytic_costs, most, SETTINGS, evaluation, Work(5.0))
    return plan[1], most


@examples(30)
@given(st.integers(0, 2**32 - 1), st.one_of(st.floats(0, 1.1), st.floats(0.99, 1.01)))
def test_no_plan_takes_more_with_than_without(
    program: Program, budgets: tuple[int, int], seed: int, share: float
) -> None:
    least, most = budgets
    costs, budget = Costs(seed), math.ceil(least + share * (most - least))
    chosen = choose_kernels(program, BOARD, costs)
    evaluation = plan_unscheduled(chosen.program, BOARD, costs).evaluation
    work = Work(20.0)
    try:
        without, _ = plan_within(chosen.program, BOARD, costs, budget, SETTINGS, evaluation, work)
    except InfeasibleError:
        assume(False)
    found, plan = use_workspace(chosen, without, BOARD, costs, budget, SETTINGS, work)
    assert plan.training.energy_j <= without.training.energy_j
    assert plan.memory.arena_bytes <= budget
    graph = found.program.training
    available = budget - resident_bytes(found.program.persistent, BLOCK_BYTES)
    problem = schedule_problem(graph, BOARD, costs(graph, BOARD), available)
    assert simulate(problem, plan.step.steps).energy_j == plan.training.energy_j


@examples(30)
@given(st.integers(0, 2**32 - 1), st.one_of(st.floats(0, 1.1), st.floats(0.99, 1.01)))
def test_no_schedule_takes_more_with_than_without(
    program: Program, budgets: tuple[int, int], seed: int, share: float
) -> None:
    least, most = budgets
    costs, budget = Costs(seed), math.ceil(least + share * (most - least))
    chosen = choose_kernels(program, BOARD, costs)
    training = chosen.program.training
    room = KernelChoices.of(training, chosen.by[training.name], BOARD, costs)
    assert room.faster_by.keys() <= room.by.keys()
    available = budget - resident_bytes(program.persistent, BLOCK_BYTES)
    variants = room.variants(available, None)
    try:
        without = solve(variants.lean, work=Work(15.0))
    except InfeasibleError:
        assume(False)
    found = solve_variants(variants, work=Work(20.0))
    assert found.energy_j <= without.energy_j
    graph = room.graph_with(found.faster)
    problem = schedule_problem(graph, BOARD, costs(graph, BOARD), available)
    assert problem == variants.by(found.faster), (
        "what an op takes does not depend on others' kernels"
    )
    assert simulate(problem, found.plan).energy_j == found.energy_j
