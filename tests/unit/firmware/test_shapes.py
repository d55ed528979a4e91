# SPDX-License-Identifier: Apache-2.0
"""What a network's shapes have in common, which its kernels are told."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np

from poetfw.boards import load_board
from poetfw.common.resources import firmware_templates_dir
from poetfw.costs import analytic_costs
from poetfw.firmware import assign_slots
from poetfw.firmware.lower import lower
from poetfw.firmware.project import render_project
from poetfw.ir import Graph
from poetfw.models.builder import GraphBuilder
from poetfw.ops.base import DIVISORS
from poetfw.planning import plan_unscheduled
from poetfw.training import Sgd, make_program

BOARD = load_board("linux")
SHAPES = "lib/poetfw/kernels/shapes.h"


def layers(*features: int) -> Graph:
    """x [4, first] through linear layers to the last of the features, a ReLU behind the first."""
    builder = GraphBuilder("layers", "x", (4, features[0]))
    name = builder.input
    for i, (read, made) in enumerate(pairwise(features)):
        weight = builder.parameter(f"w{i}", np.ones((made, read), np.float32))
        name = builder.op("linear", f"y{i}", (name, weight))
        if i == 0:
            name = builder.op("relu", "active", (name,))
    return builder.build(name)[0]


def convolutions(*channels: int, groups: int = 1) -> Graph:
    """x [2, first, 6, 6] through 3x3 convolutions, of which the last has groups."""
    builder = GraphBuilder("convolutions", "x", (2, channels[0], 6, 6))
    name = builder.input
    for i, (read, made) in enumerate(pairwise(channels)):
        of = groups if i == len(channels) - 2 else 1
        weight = builder.parameter(f"w{i}", np.ones((made, read // of, 3, 3), np.float32))
        attributes = {"stride": (1, 1), "padding": (1, 1, 1, 1), "groups": of}
        name = builder.op("conv2d", f"y{i}", (name, weight), attributes)
    name = builder.op("global_avg_pool", "pooled", (name,))
    return builder.build(builder.op("reshape", "flat", (name,), {"shape": (2, channels[-1])}))[0]


def macros(text: str) -> dict[str, int]:
    return {name: int(value) for name, value in re.findall(r"#define (POET_\w+) (\d+)\b", text)}


def shapes_of(graph: Graph) -> dict[str, int]:
    program = make_program(graph, "mse", Sgd())
    plan = plan_unscheduled(program, BOARD, analytic_costs)
    steps = plan.step, plan.evaluation.plan
    view = lower(program, BOARD, *steps, plan.memory, assign_slots(program, plan.step.steps)).view
    return macros(render_project(view, BOARD).files[SHAPES].decode())


def test_a_number_divides_what_all_layers_have() -> None:
    shapes = shapes_of(layers(64, 24, 10))
    assert shapes["POET_LINEAR_FEATURES"] == 8
    assert shapes["POET_LINEAR_OUTPUTS"] == 2
    assert shapes["POET_RELU_ELEMENTS"] == 4 * 24


def test_channels_count_where_they_are_summed() -> None:
    """The input has three channels, and no gradient: dx has 12, y has 12 and 8, dw is of those."""
    shapes = shapes_of(convolutions(3, 12, 8))
    assert shapes["POET_CONV2D_SUMS"] == shapes["POET_CONV2D_OUTPUTS"] == 4


def test_channels_are_those_of_a_group() -> None:
    shapes = shapes_of(convolutions(3, 12, 8, groups=2))
    assert shapes["POET_CONV2D_SUMS"] == 2  # of 12 / 2 in dx, of 12 and 8 / 2 in y
    assert shapes["POET_CONV2D_OUTPUTS"] == 4


def test_what_is_not_divided_is_left_open() -> None:
    shapes = shapes_of(layers(6, 5))
    assert {name: shapes[name] for name in DIVISORS if "CONV2D" in name} == {
        "POET_CONV2D_SUMS": 1,
        "POET_CONV2D_OUTPUTS": 1,
        "POET_CONV2D_COLUMNS": 1,
    }


def test_kernels_of_no_network_are_for_every_shape() -> None:
    text = (firmware_templates_dir() / "kernels" / "shapes.h").read_text()
    assert macros(text) == dict.fromkeys(DIVISORS, 1)
    for name, comment in DIVISORS.items():
        assert re.search(rf"#define {name} 1 +/\* {re.escape(comment)} \*/", text), name
