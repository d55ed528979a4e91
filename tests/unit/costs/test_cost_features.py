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
    "of16.steps": 16,
    "of4.steps": 4,
    "of4_exchanged.steps": 4,
    "of1.steps": 1,
    "bursts.pairs.steps": 2 * 8,
    "bursts.single.steps": 8,
    "of_one.pairs.steps": 2 * 8,
    "of_one.single.steps": 8,
    "apart.steps": 4,
    "apart_backwards.steps": 4,
    "planes.threes": 2 * 3 * 9,
    "pairs.threes": 2 * 3 * 9,
    "pairs.left": 2 * 9,
    "strips.rows": 2 * 4 * 3,
    "tap_rows.strips": 4 * 4 * 3,
    "tap_rows.left": 4 * 3,
    "strips_by_2.rows": 2 * 4 * 3,
    "wide_strips.channels": 2 * 4 * 3,
    "wide_strips.shared": 4 * 3,
    "tap_rows_by_2.strips": 4 * 4 * 3,
    "tap_rows_by_2.left": 4 * 3,
    "fives.rows": 4 * 5,
    "fives.wide.rows": 4 * 5,
    "fives.fours.columns": 5,
    "fives.twos.columns": 5,
    "plane_fives.rows": 4 * 5,
    "plane_fives_by_2.rows": 4 * 5,
    "plane_wide_fives.rows": 4 * 5,
    "tap_fives.columns": 5,
    "tap_fives_by_2.columns": 5,
    "pair_lines.strips": 4 * 4 * 2,
    "pair_lines.left": 4 * 2,
    "lines.strips": 4 * 4,
    "lines.left": 4,
    "fours.pair.columns": 4 * 2,
    "fours.one.columns": 4,
    "fours_of_x.pair.columns": 4 * 2,
    "fours_of_x.one.columns": 4,
    "single_pair_lines.strips": 4 * 2,
    "single_pair_lines.left": 2,
    "single_lines.strips": 4,
    "single_lines.left": 1,
    "narrow.columns": 4,
    "narrow_backwards.rows": 3 * 5,
    "narrow_backwards.last": 2 * 5,
    "taps.threes": 3 * 9,
    "taps.left": 9,
    "taps.after": 2 * 3,
    "plane_strips.rows": 4 * 9,
    "plane_strips_by_2.rows": 4 * 3,
    "plane_wide_strips.rows": 4 * 3,
    "plane_narrow_strips.rows": 5,
    "each.products": 1,
    "few_taps.columns": 3,
    "taps_by_2.pairs": 2 * 9,
    "taps_by_2.left": 9,
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


NOT_OF_CONVOLUTIONS = ("dots", "columns", "few", "scaled")


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


SEEDS = (
    *range(40),
    52,
    178,
    262,
    414,
    518,
    587,
    610,
    747,
    250,
    370,
    454,
    489,
    490,
    733,
    1303,
    2022,
    87,
    177,
    69,
    136,
    272,
    322,
)
"""The last ones draw 3x3 kernels of stride 2, 5x5 kernels, 1x1 kernels of stride 2, and
depthwise 5x5 kernels."""


@pytest.mark.parametrize("seed", SEEDS)
def test_a_convolutions_products_are_all_counted(seed: int) -> None:
    cases, expected = convolutions(seed)
    for case in cases:
        features = featured(case).features
        assert products(features) == expected + padding(case, features, expected), case.to_json()


def padding(case: Case, features: Features, expected: int) -> int:
    """Products with zeros around a 3x3 kernel's planes, and of results that are made again."""
    shapes = [shape for shape, _ in case.inputs]
    if "strips.rows" in features or "tap_rows.strips" in features:
        weights = {"conv2d": 1, "conv2d_backward_input": 0}.get(case.kind)
        outer, inner = (
            case.attributes["weight_shape"] if weights is None else shapes[weights]  # type: ignore[index]
        )[:2]
        batch, _, rows, columns = shapes[1 - (weights or 0)]
        outer += outer % 2 if case.kind == "conv2d" else 0
        inner += inner % 2 if case.kind == "conv2d_backward_input" else 0
        if "tap_rows.strips" in features:
            return batch * (3 * rows - 2) * 3 * columns * inner * (outer + -outer % 4) - expected
        return batch * (3 * rows - 2) * 3 * (columns + -columns % 4) * inner * outer - expected
    if any(name.startswith("fives") for name in features):
        return fives(case) - expected
    if "plane_fives.products" in features:
        assert features["plane_fives.products"] == expected
        return depthwise_5x5(case) - expected
    if "by_2.products" in features:
        assert features["by_2.products"] == expected
        return depthwise_by_2(case) - expected
    if "fours.calls" in features:
        return in_fours(case, expected) - expected
    if any("by_2" in name or "wide" in name for name in features):
        return by_2(case) - expected
    if "narrow_backwards.last" in features:
        (outer, inner, *_), y = shapes
        return y[0] * (15 * y[2] - 5) * inner * outer - expected
    if not features.keys().isdisjoint(("runs", "apart.steps", "apart_backwards.steps")):
        return bursts(case) - expected
    if "pair_lines.rows" in features or "narrow.rows" in features:
        outer = shapes[1][1] // int(case.attributes["groups"])  # type: ignore[call-overload]
        return expected // outer * (-outer % 4)
    if "sums" in features:  # a last one of fewer than four is made again
        assert features["sums"] == expected
        return int(features["again"])
    if features.keys().isdisjoint(
        ("pairs.rows", "taps.rows", "few_taps.rows", "plane_strips.rows")
    ):
        return 0
    source, width = shapes[0][2:] if case.kind == "conv2d" else shapes[1][2:]
    rows, columns = case.attributes.get("input_shape", shapes[1])[2:]  # type: ignore[index]
    edge = case.attributes["padding"][0]  # type: ignore[index]
    if case.kind == "conv2d":
        rows, columns = source + 2 * edge - 2, width + 2 * edge - 2
    made = rows * columns * 9
    if "few_taps.rows" in features:
        made = inside(source, rows, 3, 1, edge) * 3 * columns
    elif case.kind == "conv2d_backward_weight":
        made -= rows * edge * 3  # a column of padding meets two taps
    elif "plane_strips.rows" in features:
        made = source * (columns + -columns % 4) * 9
    else:
        made += rows % 2 * columns * 9
    return int(features["planes"]) * made - expected


def fives(case: Case) -> int:
    """Products of 5x5 kernels with columns of zeros, by rows that meet the kernel."""
    first, second = (shape for shape, _ in case.inputs)
    attributes: dict[str, tuple[int, ...]] = {**case.attributes}  # type: ignore[dict-item]
    x, w = (
        (attributes["input_shape"], first)
        if case.kind == "conv2d_backward_input"
        else (first, attributes.get("weight_shape", second))
    )
    (batch, inner, height, width), outer, stride = x, w[0], attributes["stride"][0]
    groups = int(case.attributes["groups"])  # type: ignore[call-overload]
    batch, inner, outer = batch * groups, inner // groups, outer // groups
    rows, columns = -(-height // stride), -(-width // stride)
    met = [sum(0 <= row * stride + tap - 2 < height for tap in range(5)) for row in range(rows)]
    whole = columns + -columns % 4
    if case.kind == "conv2d_backward_weight":
        return batch * inner * (outer + outer % 2) * sum(met) * columns * 5
    channels, summed = (outer, inner) if case.kind == "conv2d" else (inner, outer)
    if case.kind == "conv2d_backward_input" and stride == 2:
        return batch * inner * outer * sum(met) * whole * 5
    again = met[max(rows - 2, 0)] if channels % 2 and rows % 2 else 0
    return batch * summed * whole * 5 * (channels * sum(met) + again)


def bursts(case: Case) -> int:
    """Products of a 1x1 kernel, at positions that are summed in bursts, and in runs of these."""
    first, second = (shape for shape, _ in case.inputs)
    attributes: dict[str, tuple[int, ...]] = {**case.attributes}  # type: ignore[dict-item]
    backward = case.kind == "conv2d_backward_input"
    x, w = (attributes["input_shape"], first) if backward else (first, second)
    rows, columns = ((e - 1) // s + 1 for e, s in zip(x[2:], attributes["stride"], strict=True))
    positions, batch = rows * columns, x[0]
    summed = w[0] // int(case.attributes["groups"]) if backward else w[1]  # type: ignore[call-overload]
    per_position = w[0] * w[1]
    if positions < 4:
        return batch * positions * per_position
    apart = max(attributes["stride"]) > 1 and (backward or summed <= 4)
    if apart:
        channels = w[1] if backward else summed
        most = 16 if backward else 8
        together = most if channels == 1 and positions >= most else 4
        return batch * (positions + -positions % together) * per_position
    gathered = max(attributes["stride"]) > 1
    if positions < 8:
        if not gathered and positions != 7:
            return batch * positions * per_position
        fours = batch * (1 if positions == 4 else 2)
        return (fours + fours % 2) * 4 * per_position
    single = positions % 8 if positions % 8 < 4 and summed > 1 else 0
    if gathered:
        most = 8 * (16 // min(summed, 16))
        whole = positions - single
        made = whole // most * most
        over = whole - made
        if 0 < over < 8 or whole < 12:
            made += 8 * -(-over // 8)
        else:
            made += over + -over % 4
        made += 4 if made % 8 else 0  # half a burst is made again
        return batch * (made + single) * per_position
    return batch * (positions + (-positions % 8 if summed == 1 else 0)) * per_position


def in_fours(case: Case, expected: int) -> int:
    """Products of a 1x1 kernel's weights where four channels make up what fewer are."""
    outer, inner = case.attributes["weight_shape"][:2]  # type: ignore[index]
    outer //= int(case.attributes["groups"])  # type: ignore[call-overload]
    apart = 0 if outer >= inner < 4 else outer % 4
    fours = outer - apart
    made = inner * (fours + -fours % 4) + apart * (inner + -inner % 4)
    return expected // (inner * outer) * int(made)


def by_2(case: Case) -> int:
    """Products of a 3x3 kernel that has stride 2."""
    shapes = [shape for shape, _ in case.inputs]
    if case.kind == "conv2d":
        x, (outer, inner, *_) = shapes
        rows = inside(x[2], (x[2] + 1) // 2, 3, 2, 1)
        columns = (x[3] + 1) // 2
        return x[0] * rows * 3 * (columns + -columns % 4) * inner * (outer + outer % 2)
    if case.kind == "conv2d_backward_input":
        (outer, inner, *_), y = shapes
        lines, columns = y[2:]
        return y[0] * (9 * lines - 3) * (columns + -columns % 4) * inner * outer
    x, y = shapes
    rows, outer = inside(x[2], y[2], 3, 2, 1), y[1]
    return x[0] * rows * 3 * y[3] * x[1] * (outer + -outer % 4)


def depthwise_by_2(case: Case) -> int:
    """Products of a depthwise 3x3 kernel that has stride 2, in strips of four or eight columns."""
    attributes: dict[str, tuple[int, ...]] = {**case.attributes}  # type: ignore[dict-item]
    x = attributes.get("input_shape", case.inputs[0][0])
    edge = attributes["padding"][0]
    rows, columns = ((extent + 2 * edge - 3) // 2 + 1 for extent in x[2:])
    planes = x[0] * x[1]
    if case.kind == "conv2d_backward_weight" and columns <= 4:
        return planes * inside(x[2], rows, 3, 2, edge) * columns * 3
    if case.kind == "conv2d_backward_weight":
        return planes * rows * columns * 9
    met = inside(x[2], rows, 3, 2, edge)
    if case.kind == "conv2d_backward_input" and columns == 2 and edge and x[3] <= 4:
        return planes * met * 5
    strips = -(-x[3] // 8) if case.kind == "conv2d_backward_input" else -(-columns // 4)
    pairs = x[1] * (x[0] // 2) if case.kind == "conv2d" and columns == 2 else 0
    return (planes - pairs) * met * strips * 4 * 3


def depthwise_5x5(case: Case) -> int:
    """Products of a depthwise 5x5 kernel, in strips whose columns are four of y."""
    attributes: dict[str, tuple[int, ...]] = {**case.attributes}  # type: ignore[dict-item]
    x, stride = attributes.get("input_shape", case.inputs[0][0]), attributes["stride"][0]
    rows, columns = ((extent - 1) // stride + 1 for extent in x[2:])
    if case.kind != "conv2d_backward_weight":
        columns += -columns % 4
    return x[0] * x[1] * inside(x[2], rows, 5, stride, 2) * columns * 5


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
    assert "boxes" not in features


def test_every_way_of_summing_is_among_them() -> None:
    seen = {
        name
        for seed in SEEDS
        for case in convolutions(seed)[0]
        for name, count in featured(case).features.items()
        if count
    }
    assert {name for name in PRODUCTS if not name.startswith(NOT_OF_CONVOLUTIONS)} <= seen


@pytest.mark.parametrize("channels", [(6, 4), (8, 7), (3, 9), (1, 3), (3, 3), (5, 1), (1, 1)])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_a_pointwise_weights_products_are_all_counted(
    channels: tuple[int, int], stride: int
) -> None:
    inner, outer = channels
    x = ((3, inner, 5, 7), Dtype.F32)
    rows, columns = {1: (5, 7), 2: (3, 4), 3: (2, 3)}[stride]
    y = ((3, outer, rows, columns), Dtype.F32)
    window: dict[str, Attribute] = {"stride": (stride,) * 2, "padding": (0,) * 4, "groups": 1}
    attributes = {**window, "weight_shape": (outer, inner, 1, 1)}
    case = Case("conv2d_backward_weight", (x, y), attributes=attributes)
    features = featured(case).features
    assert features["macs"] == 3 * inner * outer * rows * columns
    alone = outer == inner == 1
    made = features["macs"] if alone else in_fours(case, int(features["macs"]))
    assert products(features) == made


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
