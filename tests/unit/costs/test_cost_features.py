# SPDX-License-Identifier: Apache-2.0
"""What is counted of a kernel's loops comes to its products, whichever loops they are in."""

from __future__ import annotations

import random

import numpy as np
import pytest

from poetfw.costs import Case, alone
from poetfw.costs.features import Features, featured
from poetfw.ir import Attribute, Dtype


def products(features: Features) -> float:
    return features["products"]


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


@pytest.mark.parametrize("seed", range(20))
def test_sums_of_a_convolution_are_its_results_and_a_single_product_is_no_sum(seed: int) -> None:
    for case in convolutions(seed)[0]:
        op, graph = alone(case)
        assert op.output is not None
        features = featured(case).features
        assert features["sums"] == graph.by_name[op.output].elements
        single = products(features) <= features["sums"]
        assert features["dots"] == (0 if single else features["sums"])


def test_loops_go_by_blocks_and_by_what_these_leave() -> None:
    """Rows of 27 in pairs, of 3 samples of 5 channels: 16 + 8 + 2 + 1, in 13 pairs and a row."""
    x = ((3, 5, 27, 27), Dtype.F32)
    features = featured(Case("batch_norm_statistics", (x,))).features
    pair, odd = "loop.1.1.2", "loop.1.1.1"
    assert [features[name] for name in ("loop.1", "loop.1.1", pair, odd)] == [5, 15, 195, 15]
    for rows, count in ((pair, 195), (odd, 15)):
        sizes = {16: 1, 8: 1, 4: 0, 2: 1, 1: 1}
        assert {n: features[f"{rows}.{n}"] for n in sizes} == {n: count * sizes[n] for n in sizes}
        assert features[f"begin {rows}.4"] == 0
        assert features[f"begin {rows}.2"] == count


@pytest.mark.parametrize(("plane", "window"), [((1, 2**18), (1, 2**17)), ((2**18, 1), (2**17, 1))])
def test_what_would_take_seconds_is_not_counted(
    plane: tuple[int, int], window: tuple[int, int]
) -> None:
    x, w = ((1, 1, *plane), Dtype.F32), ((1, 1, *window), Dtype.F32)
    attributes: dict[str, Attribute] = {"stride": (1, 1), "padding": (0,) * 4, "groups": 1}
    features = featured(Case("conv2d", (x, w), attributes=attributes)).features
    assert features["macs"] > 0
    assert "products" not in features
