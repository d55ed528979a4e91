# SPDX-License-Identifier: Apache-2.0
"""No op is given to a kernel that holds less of it in registers or on the stack than it has."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from poetfw.ops import kind_of
from poetfw.ops.linear import LinearBackwardWeight
from unit.kernels.conftest import graph_of_one

KERNELS = Path(__file__).parents[3] / "firmware_templates/kernels"


def constant(file: str, name: str) -> int:
    """What an enumeration of a C file gives to a name."""
    found = re.findall(rf"\b{name} = (\d+)", (KERNELS / file).read_text())
    assert len(found) == 1
    return int(found[0])


def test_all_weights_of_a_small_layer_are_held() -> None:
    most = constant("linear_small.c", "MOST_PRODUCTS")
    given = [
        features * outputs
        for batch, features, outputs in product(range(1, 67), repeat=3)
        if "small" in LinearBackwardWeight().kernel_of((batch, features, outputs), ()).function
    ]
    assert 1 < max(given) <= most


@pytest.mark.parametrize("kind", ["conv2d", "conv2d_backward_input"])
def test_channels_and_positions_apart_are_held(kind: str) -> None:
    most, least = (constant("conv2d_pointwise_apart.c", name) for name in ("MOST", "FOUR"))
    seen = set()
    for channels, rows, columns, stride in product(
        range(1, 9), range(1, 8), range(1, 8), (1, 2, 3)
    ):
        x = np.zeros((1, channels, rows, columns), np.float32)
        w = np.zeros((3, channels, 1, 1), np.float32)
        y = np.zeros((1, 3, -(-rows // stride), -(-columns // stride)), np.float32)
        window = {"stride": (stride, stride), "padding": (0, 0, 0, 0), "groups": 1}
        shape = {"input_shape": x.shape} if kind != "conv2d" else {}
        op, graph = graph_of_one(kind, [x, w] if kind == "conv2d" else [w, y], window | shape, ())
        if "apart" in kind_of(op).kernel(op, graph).function:
            seen.add(channels)
            assert y[0, 0].size >= least
            assert channels <= most or kind != "conv2d"  # dX goes through them one by one
    assert max(seen) >= most
