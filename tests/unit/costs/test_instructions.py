# SPDX-License-Identifier: Apache-2.0
"""Instructions of a training step by the prices of a core, against those that were counted."""

from __future__ import annotations

from functools import cache

import pytest

from poetfw.boards import load_board
from poetfw.costs import case_of, planned_instructions
from poetfw.costs.features import featured
from poetfw.ir import Graph
from poetfw.models import build_model
from poetfw.training import make_program
from workloads import op_costs

BOARD = "nrf52840"
LARGEST_ERROR = 0.01
STEPS = op_costs.unfitted_steps(BOARD)


@cache
def counted() -> dict[str, int]:
    return op_costs.recorded()[1][BOARD]


def step_of(name: str) -> tuple[Graph, list[str]]:
    """A network's training step, and its ops but for loads."""
    graph = STEPS[name]
    return graph, [op.name for op in graph.ops if case_of(op, graph).kind[:5] != "load_"]


def test_there_are_eleven_networks_that_no_price_was_fitted_to() -> None:
    """Each with activations in floats, and in smaller forms."""
    fitted = {name for name, held_out, _ in op_costs.networks(BOARD, 3) if not held_out}
    assert len(STEPS) == 2 * 11
    assert not fitted & STEPS.keys()


@pytest.mark.parametrize("name", STEPS)
def test_planned_instructions_of_a_step_are_those_counted_within_1_percent(name: str) -> None:
    graph, computed = step_of(name)
    ops = {op.name: op for op in graph.ops}
    expected = sum(counted()[case_of(ops[op], graph).key] for op in computed)
    planned = planned_instructions(graph, computed, (), load_board(BOARD))
    assert planned is not None
    assert abs(planned / expected - 1) <= LARGEST_ERROR


@pytest.mark.parametrize("name", ["mobilenet", "mobilenetv2"])
def test_networks_with_stride_2_have_prices_for_a_whole_step(name: str) -> None:
    model = build_model(name, 1)
    graph = make_program(model.graph, model.loss, model.optimizer).training
    planned = planned_instructions(graph, [op.name for op in graph.ops], (), load_board(BOARD))
    assert planned is not None


def test_an_op_counts_as_often_as_it_is_computed_and_each_transfer_by_its_bytes() -> None:
    board = load_board(BOARD)
    graph, computed = step_of("mlp")
    once = planned_instructions(graph, computed, (), board)
    again = planned_instructions(graph, [*computed, computed[0]], (), board)
    alone = planned_instructions(graph, computed[:1], (), board)
    assert once is not None
    assert alone is not None
    assert again == pytest.approx(once + alone)
    moved = planned_instructions(graph, computed, [("page_in", 1024)] * 3, board)
    price = board.compute.instructions["page_in"]
    assert moved == pytest.approx(once + 3 * (price["fixed"] + 1024 * price["bytes"]))


def test_the_first_load_checks_the_part_that_it_does_not_load() -> None:
    """Counted in steps of the network: x before y, and y before x."""
    board = load_board(BOARD)
    model = op_costs.build_model("mlp", 8)
    graph = make_program(model.graph, model.loss, model.optimizer).training
    x, y = (op.name for op in graph.ops if featured(case_of(op, graph)).features.get("samples"))
    for order, count in (((x, y), 22_960 + 5_485), ((y, x), 20_925 + 21_625)):
        planned = planned_instructions(graph, order, (), board)
        assert planned == pytest.approx(count, rel=0.001)


def test_a_core_without_a_price_has_no_plan_of_instructions() -> None:
    graph, computed = step_of("mlp")
    assert planned_instructions(graph, computed, (), load_board("linux")) is None
    assert planned_instructions(graph, (), [("page_in", 8)], load_board("linux")) is None
