# SPDX-License-Identifier: Apache-2.0
"""What a network's shapes have in common, which its kernels are told."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np

from poetfw.boards import Board, load_board
from poetfw.common.resources import firmware_templates_dir
from poetfw.costs import analytic_costs
from poetfw.firmware import assign_slots
from poetfw.firmware.lower import lower
from poetfw.firmware.project import render_project
from poetfw.ir import Graph
from poetfw.models.builder import GraphBuilder
from poetfw.ops.base import DIVISORS, PLAIN_LOOPS
from poetfw.planning import plan_unscheduled
from poetfw.training import Sgd, make_program

BOARD = load_board("linux")
SHAPES = "lib/poetfw/kernels/shapes.h"


def layers(*features: int, active: int = 1) -> Graph:
    """x [4, first] through linear layers to the last of the features, ReLU behind the first."""
    builder = GraphBuilder("layers", "x", (4, features[0]))
    name = builder.input
    for i, (read, made) in enumerate(pairwise(features)):
        weight = builder.parameter(f"w{i}", np.ones((made, read), np.float32))
        name = builder.op("linear", f"y{i}", (name, weight))
        if i < active:
            name = builder.op("relu", f"active{i}", (name,))
    return builder.build(name)[0]


def macros(text: str) -> dict[str, int]:
    return {name: int(value) for name, value in re.findall(r"#define (POET_\w+) (\d+)\b", text)}


def shapes_of(graph: Graph, board: Board = BOARD) -> dict[str, int]:
    program = make_program(graph, "mse", Sgd())
    plan = plan_unscheduled(program, board, analytic_costs)
    steps = plan.step, plan.evaluation.plan
    view = lower(program, board, *steps, plan.memory, assign_slots(program, plan.step.steps)).view
    return macros(render_project(view, board).files[SHAPES].decode())


def test_a_number_divides_what_all_layers_have() -> None:
    shapes = shapes_of(layers(64, 24, 10))
    assert shapes["POET_RELU_ELEMENTS"] == 4 * 24
    assert [shapes[name] for name in PLAIN_LOOPS] == [1, 1]


def test_a_core_with_tiles_for_all_ops_has_no_plain_loops() -> None:
    shapes = shapes_of(layers(64, 24, 10), load_board("nrf52840"))
    assert [shapes[name] for name in PLAIN_LOOPS] == [1, 0]


def test_the_number_is_the_largest_that_divides_all_layers() -> None:
    assert shapes_of(layers(64, 24, 10, 3, active=2))["POET_RELU_ELEMENTS"] == 4 * 2


def test_what_is_not_divided_is_left_open() -> None:
    assert shapes_of(layers(6, 5))["POET_BATCH_NORM_ROWS"] == 1


def test_kernels_of_no_network_are_for_every_shape() -> None:
    text = (firmware_templates_dir() / "kernels" / "shapes.h").read_text()
    known = {**DIVISORS, **PLAIN_LOOPS}
    assert macros(text) == dict.fromkeys(known, 1)
    for name, comment in known.items():
        assert re.search(rf"#define {name} 1 +/\* {re.escape(comment)} \*/", text), name
