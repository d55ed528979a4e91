# SPDX-License-Identifier: Apache-2.0
"""Instructions of layers with packed weights, as planned, against those that an emulator counts."""

from __future__ import annotations

import shutil
from itertools import product

import pytest

from poetfw.boards import load_board
from poetfw.costs import Case, alone, planned_instructions
from poetfw.ops.packed import FORMATS
from unit.kernels.test_packed import CONVOLUTIONS
from workloads import op_costs

BOARD = "nrf52840"
LARGEST_ERROR = 0.001

pytestmark = [
    pytest.mark.emulator,
    pytest.mark.skipif(
        shutil.which("qemu-system-arm") is None or shutil.which("arm-none-eabi-gcc") is None,
        reason="needs qemu-system-arm and arm-none-eabi-gcc",
    ),
]


def cases() -> dict[str, Case]:
    found = {}
    for form in FORMATS:
        for name, (x, w, y, attributes) in CONVOLUTIONS.items():
            found[f"{name}, {form}"] = op_costs.packed_case(
                "conv2d", [x, w, w[:1]], form, attributes
            )
            back = {**attributes, "input_shape": x}
            gradient = op_costs.packed_case("conv2d_backward_input", [w, y], form, back)
            found[f"{name}, back, {form}"] = gradient
        for batch, features in product((1, 3), (641, 642)):
            x, w, y = (batch, features), (12, features), (batch, 12)
            name = f"linear of {batch}, {features} features, {form}"
            found[name] = op_costs.packed_case("linear", [x, w, (12,)], form, {})
            found[f"{name}, back"] = op_costs.packed_case("linear_backward_input", [w, y], form, {})
    return found


CASES = cases()


@pytest.fixture(scope="module")
def counted() -> dict[str, int]:
    found = op_costs.count(BOARD, CASES.values())
    return {name: found[case.key].instructions for name, case in CASES.items()}


@pytest.mark.parametrize("name", CASES)
def test_a_packed_layer_takes_the_instructions_that_are_planned(
    counted: dict[str, int], name: str
) -> None:
    op, graph = alone(CASES[name])
    planned = planned_instructions(graph, [op.name], (), load_board(BOARD))
    assert planned == pytest.approx(counted[name], rel=LARGEST_ERROR)
