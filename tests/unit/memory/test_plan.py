# SPDX-License-Identifier: Apache-2.0
"""Memory plans: stays, sharing in place, and what is never free."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest

from poetfw.boards import load_board
from poetfw.costs import analytic_costs
from poetfw.firmware import BLOCK_BYTES
from poetfw.memory import ONLY, place_parts
from poetfw.memory.plan import Allocation, MemoryPlan, resident_bytes
from poetfw.models import build_model
from poetfw.planning import BuildSettings, load_schedule_problem, plan_evaluation
from poetfw.schedule import ExecutionPlan, Schedule, simulate, solve
from poetfw.training import Program, in_place_input, make_program

SETTINGS = BuildSettings(board="nrf52840", model="digits-cnn", batch=2)


@pytest.fixture(scope="module")
def program() -> Program:
    model = build_model("digits-cnn", 2, 0)
    return make_program(model.graph, model.loss, model.optimizer)


@pytest.fixture(scope="module")
def schedule() -> Schedule:
    return solve(load_schedule_problem(SETTINGS), "checkpoint-all")


@pytest.fixture(scope="module")
def evaluation(program: Program) -> ExecutionPlan:
    return plan_evaluation(program, load_board("nrf52840"), analytic_costs).plan


def placed(program: Program, training: ExecutionPlan, evaluation: ExecutionPlan) -> MemoryPlan:
    steps = training, evaluation
    return place_parts(program, *steps, {ONLY: ONLY}, {ONLY: None}, BLOCK_BYTES).memories[ONLY]


@pytest.fixture(scope="module")
def memory(program: Program, schedule: Schedule, evaluation: ExecutionPlan) -> MemoryPlan:
    return placed(program, schedule.plan, evaluation)


def test_peak_is_the_simulators(program: Program, schedule: Schedule, memory: MemoryPlan) -> None:
    resident = resident_bytes(program.persistent, BLOCK_BYTES)
    assert memory.peak_bytes == memory.arena_bytes == resident + schedule.peak_bytes


def test_nothing_live_overlaps_but_what_is_written_over(
    program: Program, memory: MemoryPlan
) -> None:
    taken = {(op.output, in_place_input(program.training, op)) for op in program.training.ops}

    def share(a: Allocation, b: Allocation) -> bool:
        one_step = min(a.upper, b.upper) - max(a.lower, b.lower) == 1
        return one_step and ((a.owner, b.owner) in taken or (b.owner, a.owner) in taken)

    for a, b in combinations(memory.training, 2):
        in_time = a.lower < b.upper and b.lower < a.upper
        in_space = a.offset < b.offset + b.size_bytes and b.offset < a.offset + a.size_bytes
        assert not (in_time and in_space) or share(a, b), (a, b)


def test_what_is_never_free_lies_at_the_bottom(program: Program, memory: MemoryPlan) -> None:
    end = 0
    for tensor, allocation in zip(program.persistent, memory.persistent, strict=True):
        assert (allocation.owner, allocation.offset) == (tensor.name, end)
        end += -(-tensor.size_bytes // 8) * 8
    assert memory.page_buffer_offset == end
    assert min(stay.offset for stay in memory.training) == end + BLOCK_BYTES
    assert max(stay.offset + stay.size_bytes for stay in memory.training) == memory.arena_bytes


def test_the_arena_holds_either_step(
    program: Program, schedule: Schedule, evaluation: ExecutionPlan, memory: MemoryPlan
) -> None:
    swapped = replace(program, training=program.evaluation, evaluation=program.training)
    other = placed(swapped, evaluation, schedule.plan)
    assert (other.arena_bytes, other.peak_bytes) == (memory.arena_bytes, memory.peak_bytes)


def test_batch_norm_and_relu_share_their_buffer(memory: MemoryPlan) -> None:
    offsets = {allocation.owner: allocation.offset for allocation in memory.training}
    assert offsets["bn1"] == offsets["relu1"]
    assert offsets["conv1"] != offsets["bn1"]  # the backward pass reads conv1


def test_sharing_lowers_the_peak() -> None:

    problem = load_schedule_problem(SETTINGS)
    apart = replace(problem, nodes=tuple(replace(node, in_place=None) for node in problem.nodes))
    together = solve(problem, "checkpoint-all")
    assert together.peak_bytes < solve(apart, "checkpoint-all").peak_bytes
    assert simulate(apart, together.plan).peak_bytes > together.peak_bytes
