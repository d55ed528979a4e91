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
from poetfw.ops.base import DIVISORS, PLAIN_LOOPS
from unit.kernels.conftest import (
    INCLUDES,
    KERNELS,
    SCALAR,
    SEMANTICS,
    TEMPLATES,
    call,
    graph_of_one,
)

TOLD = dict.fromkeys(DIVISORS, 8) | dict.fromkeys(PLAIN_LOOPS, 1)
SOURCES = ("batch_norm", "relu")
OPS: tuple[tuple[str, tuple[tuple[int, ...], ...], Mapping[str, Attribute]], ...] = (
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
    shapes = ((2, 3, 5, 7), (2, 3), (2, 3))
    inputs = [np.ones(shape, np.float32) for shape in shapes]
    op, graph = graph_of_one("batch_norm_normalize", inputs, {"eps": 1e-5}, ())
    kernel = KINDS["batch_norm_normalize"].kernel(op, graph)
    every, told = (call(library, kernel, op, graph, inputs, (), 0xA5) for library in compiled)
    assert every[0] != told[0]
