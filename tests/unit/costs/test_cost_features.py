# SPDX-License-Identifier: Apache-2.0
"""What is counted of a kernel's loops comes to its products, whichever loops they are in."""

from __future__ import annotations

import random

import numpy as np
import pytest

from poetfw.costs import Case
from poetfw.costs.features import Features, featured
from poetfw.ir import Attribute, Dtype

PRODUCTS = {
    "plain.products": 1,
    "dots4.bursts": 4 * 8,
    "dots4.singles": 4,
    "dots2.bursts": 2 * 8,
    "dots2.singles": 2,
    "dots1.bursts": 8,
    "dots1.singles": 1,
    "scaled.bursts": 8,
    "scaled.singles": 1,
    "columns16.steps": 16,
    "columns8.steps": 8,
    "columns4.steps": 4,
    "columns3.steps": 3,
    "columns2.steps": 2,
    "columns1.steps": 1,
    "few4.steps": 4,
    "few1.steps": 1,
}
"""Products in each step of a loop, as their C files have it."""


def products(features: Features) -> float:
    return sum(count * features.get(name, 0) for name, count in PRODUCTS.items())


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


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("extents", [(64, 10), (33, 7), (5, 21), (7, 10), (2, 6), (3, 2)])
def test_a_linear_layers_products_are_all_counted(batch: int, extents: tuple[int, int]) -> None:
    features, outputs = extents
    x, w, y = (
        (shape, Dtype.F32) for shape in ((batch, features), (outputs, features), (batch, outputs))
    )
    for kind, inputs in (
        ("linear", (x, w, ((outputs,), Dtype.F32))),
        ("linear_backward_input", (w, y)),
        ("linear_backward_weight", (x, y)),
    ):
        assert products(featured(Case(kind, inputs)).features) == batch * features * outputs
