# SPDX-License-Identifier: Apache-2.0
"""What is counted of a kernel's loops comes to its products, whichever loops they are in."""

from __future__ import annotations

import random

import numpy as np
import pytest

from poetfw.costs import Case
from poetfw.costs.features import Features, featured
from poetfw.ir import Attribute, Dtype


def products(features: Features) -> float:
    return features["plain.products"]


def inside(extents: int, outputs: int, kernel: int, stride: int, padding: int) -> int:
    """How many pairs of output and tap along one axis meet the input, one by one."""
    positions = np.arange(outputs)[:, None] * stride - padding + np.arange(kernel)
    return int(((positions >= 0) & (positions < extents)).sum())


def convolutions(seed: int) -> tuple[list[Case], int]:
    """The passes of a random convolution, and the products that each of them takes."""
    draw = random.Random(seed)
    batch, height, width = draw.randint(1, 5), draw.randint(3, 12), draw.randint(3, 12)
    kernel, stride = draw.choice((1, 3, 3, 3, 5)), draw.choice((1, 1, 2, 3))
    kernel = min(kernel, height, width)
    padding = draw.randint(0, kernel // 2)
    channels = draw.randint(1, 9)
    groups, out = draw.choice(((1, draw.randint(1, 9)), (channels, channels)))
    rows, columns = ((e + 2 * padding - kernel) // stride + 1 for e in (height, width))
    x = ((batch, channels, height, width), Dtype.F32)
    w = ((out, channels // groups, kernel, kernel), Dtype.F32)
    y = ((batch, out, rows, columns), Dtype.F32)
    window: dict[str, Attribute] = {
        "stride": (stride, stride),
        "padding": (padding,) * 4,
        "groups": groups,
    }
    pairs = inside(height, rows, kernel, stride, padding) * inside(
        width, columns, kernel, stride, padding
    )
    return [
        Case("conv2d", (x, w), attributes=window),
        Case("conv2d_backward_input", (w, y), attributes={**window, "input_shape": x[0]}),
        Case("conv2d_backward_weight", (x, y), attributes={**window, "weight_shape": w[0]}),
    ], batch * out * (channels // groups) * pairs


@pytest.mark.parametrize("seed", range(20))
def test_a_convolutions_products_are_all_counted(seed: int) -> None:
    cases, expected = convolutions(seed)
    for case in cases:
        features = featured(case).features
        assert products(features) == expected, case.to_json()


@pytest.mark.parametrize(
    ("plane", "window"), [((1, 2**17), (1, 3)), ((2**17, 1), (3, 1)), ((80, 80), (70, 70))]
)
def test_what_would_take_seconds_is_not_counted(
    plane: tuple[int, int], window: tuple[int, int]
) -> None:
    x, w = ((1, 1, *plane), Dtype.F32), ((1, 1, *window), Dtype.F32)
    attributes: dict[str, Attribute] = {"stride": (1, 1), "padding": (0,) * 4, "groups": 1}
    features = featured(Case("conv2d", (x, w), attributes=attributes)).features
    assert features["macs"] > 0
    assert "plain.products" not in features
