# SPDX-License-Identifier: Apache-2.0
"""Kernels that are told what a network's shapes have in common leave the same bits."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Mapping

import numpy as np
import pytest

from poetfw.ir import Attribute
from poetfw.ops import KINDS
from poetfw.ops.base import DIVISORS
from unit.kernels.conftest import (
    INCLUDES,
    KERNELS,
    SCALAR,
    SEMANTICS,
    TEMPLATES,
    call,
    graph_of_one,
)

TOLD = dict.fromkeys(DIVISORS, 8) | {"POET_LINEAR_FEATURES": 16}
SOURCES = (
    *(
        "batch_norm",
        "conv2d",
        "conv2d_3x3",
        "conv2d_3x3_narrow",
        "conv2d_blocks",
        "conv2d_bursts",
        "conv2d_clear",
        "conv2d_lines",
        "conv2d_pointwise",
        "conv2d_pointwise_apart",
    ),
    *("conv2d_pointwise_rows", "conv2d_strip", "dot", "linear", "linear_lanes", "relu", "update"),
)
MOVES_BY_1: Mapping[str, Attribute] = {"stride": (1, 1), "padding": (1, 1, 1, 1), "groups": 1}
POINTWISE: Mapping[str, Attribute] = {**MOVES_BY_1, "padding": (0, 0, 0, 0)}
X, DY, W = (2, 8, 6, 3), (2, 16, 6, 3), (16, 8, 3, 3)
WIDE, WIDE_DY = (2, 8, 5, 8), (2, 16, 5, 8)
OPS: tuple[tuple[str, tuple[tuple[int, ...], ...], Mapping[str, Attribute]], ...] = (
    ("conv2d", (X, W, (16,)), MOVES_BY_1),
    ("conv2d_backward_input", (W, DY), {**MOVES_BY_1, "input_shape": X}),
    ("conv2d_backward_weight", (X, DY), {**MOVES_BY_1, "weight_shape": W}),
    ("conv2d", (WIDE, W, (16,)), MOVES_BY_1),
    ("conv2d_backward_input", (W, WIDE_DY), {**MOVES_BY_1, "input_shape": WIDE}),
    ("conv2d_backward_weight", (WIDE, WIDE_DY), {**MOVES_BY_1, "weight_shape": W}),
    # of nine taps eight meet nothing
    ("conv2d_backward_weight", ((2, 8, 1, 1), (2, 16, 1, 1)), {**MOVES_BY_1, "weight_shape": W}),
    # four divides the outputs: none are left
    ("conv2d_backward_weight", (X, DY), {**POINTWISE, "weight_shape": (16, 8, 1, 1)}),
    ("linear", ((3, 32), (8, 32), (8,)), {}),
    ("linear_backward_input", ((8, 32), (3, 8)), {}),
    ("linear_backward_weight", ((8, 32), (8, 8)), {}),
    ("relu", ((4, 6),), {}),
    ("relu_backward", ((4, 6), (4, 6)), {}),
    ("batch_norm_statistics", ((2, 3, 8, 8),), {}),
    ("batch_norm_normalize", ((2, 3, 8, 8), (2, 3), (2, 3)), {"eps": 1e-5}),
)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[ctypes.CDLL, ctypes.CDLL]:
    """The kernels as they stand, and as they are where every shape is a multiple."""
    folder = tmp_path_factory.mktemp("shapes")
    told = ("-DPOET_SHAPES_H", *(f"-D{name}={value}" for name, value in TOLD.items()))
    libraries = []
    for name, flags in (("any", ()), ("told", told)):
        path = folder / f"{name}.so"
        sources = [KERNELS / f"{source}.c" for source in SOURCES]
        sources.append(TEMPLATES / "runtime" / "poet_math.c")
        command = ["gcc", "-O0", "-shared", "-fPIC", SCALAR, *SEMANTICS, *INCLUDES, *flags]
        subprocess.run([*command, "-o", str(path), *map(str, sources)], check=True)
        libraries.append(ctypes.CDLL(str(path)))
    return libraries[0], libraries[1]


@pytest.mark.parametrize(("kind", "shapes", "attributes"), OPS, ids=[op[0] for op in OPS])
def test_bits_are_the_same(
    compiled: tuple[ctypes.CDLL, ctypes.CDLL],
    kind: str,
    shapes: tuple[tuple[int, ...], ...],
    attributes: Mapping[str, Attribute],
) -> None:
    random = np.random.default_rng(5)
    inputs = [random.uniform(0.5, 2, shape).astype(np.float32) for shape in shapes]
    op, graph = graph_of_one(kind, inputs, attributes, ())
    kernel = KINDS[kind].kernel(op, graph)
    for name, extent in kernel.divided:
        assert extent % TOLD[name] == 0, name
    first, second = (call(library, kernel, op, graph, inputs, (), 0xA5) for library in compiled)
    assert first == second


def test_a_shape_that_is_no_multiple_shows_what_was_left_out(
    compiled: tuple[ctypes.CDLL, ctypes.CDLL],
) -> None:
    """Or the test above would compare the same code."""
    inputs = [np.ones(shape, np.float32) for shape in ((1, 32), (9, 32))]
    op, graph = graph_of_one("linear", inputs, {}, ())
    kernel = KINDS["linear"].kernel(op, graph)
    every, told = (call(library, kernel, op, graph, inputs, (), 0xA5) for library in compiled)
    assert every[0][:32] == told[0][:32]
    assert every[0][32:] != told[0][32:]
