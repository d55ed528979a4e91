# SPDX-License-Identifier: Apache-2.0
"""Every kernel that may run an op leaves the bits that the one for its shape leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poetfw.ir import Attribute
from poetfw.ops import VARIANT, Array, in_variants, kind_of
from unit.kernels.conftest import graph_of_one
from unit.kernels.test_kernels_match_reference import (
    Convolution,
    convolution,
    convolutions,
    few,
    normal,
    seeds,
)

Run = Callable[..., Any]
DESCENT: dict[str, Attribute] = {"learning_rate": 0.1, "momentum": 0.9, "weight_decay": 1e-3}


@st.composite
def of_classes(draw: st.DrawFn) -> Convolution:
    """Convolutions with a function of their own: depthwise, and 1x1."""
    stride = draw(st.sampled_from([(1, 1), (2, 2), (1, 2)]))
    padding = draw(st.tuples(*[st.integers(0, 2)] * 4))
    x = (
        draw(st.integers(1, 3)),
        draw(st.integers(1, 9)),
        *draw(st.tuples(*[st.integers(3, 13)] * 2)),
    )
    if draw(st.booleans()):
        side = draw(st.sampled_from([3, 5]))
        padding = padding if side == 3 else (2,) * 4
        window: dict[str, Attribute] = {"kernel": (side,) * 2, "stride": stride, "padding": padding}
        return convolution(x, x[1], 1, window)
    window = {"kernel": (1, 1), "stride": stride, "padding": (0, 0, 0, 0)}
    return convolution(x, 1, draw(st.integers(1, 9)), window)


def results(run: Run, case: Convolution, x: Array, w: Array, dy: Array) -> dict[str, list[Array]]:
    """What each pass leaves, by each of its kernels; the first is that for its shape."""
    found = {}
    for kind, inputs, more, updates in (
        ("conv2d", [x, w, w[:, 0, 0, 0].copy()], {}, ()),
        ("conv2d_backward_input", [w, dy], {"input_shape": case.x}, ()),
        ("conv2d_backward_weight", [x, dy], {"weight_shape": case.w}, ()),
        ("conv2d_backward_weight_sgd", [x, dy], {"weight_shape": case.w, **DESCENT}, (w, w)),
    ):
        attributes = {**case.attributes, **more}
        op, graph = graph_of_one(kind, inputs, attributes, updates)
        ran = [run(kind, inputs, way.attributes, updates) for way in in_variants(op, graph)]
        found[kind] = [one.results for one in ran]
    return found


def check(found: dict[str, list[Any]]) -> None:
    for kind, (first, *others) in found.items():
        for other in others:
            for ours, theirs in zip(first, other, strict=True):
                np.testing.assert_array_equal(ours, theirs, kind)
                known = ~np.isnan(ours)
                assert (ours.view(np.int32) == theirs.view(np.int32))[known].all(), kind


@few
@given(st.one_of(of_classes(), convolutions()), seeds)
def test_kernels_of_an_op_leave_the_same_bits(
    run_kernel: Run, case: Convolution, seed: int
) -> None:
    check(results(run_kernel, case, *normal(seed, case.x, case.w, case.y)))


SHAPES = (
    convolution((2, 3, 6, 8), 3, 1, {"kernel": (3, 3), "stride": (2, 2), "padding": (0, 0, 1, 1)}),
    convolution((1, 4, 7, 9), 4, 1, {"kernel": (3, 3), "stride": (2, 2), "padding": (1, 1, 1, 1)}),
    convolution((2, 3, 6, 8), 3, 1, {"kernel": (3, 3), "stride": (2, 2), "padding": (2, 2, 2, 2)}),
    convolution((2, 3, 6, 8), 3, 1, {"kernel": (5, 5), "stride": (1, 1), "padding": (2, 2, 2, 2)}),
    convolution((2, 3, 6, 9), 3, 1, {"kernel": (5, 5), "stride": (2, 2), "padding": (2, 2, 2, 2)}),
    convolution((1, 3, 6, 8), 1, 4, {"kernel": (3, 3), "stride": (1, 1), "padding": (1, 1, 1, 1)}),
    convolution((1, 3, 6, 8), 1, 4, {"kernel": (3, 3), "stride": (2, 2), "padding": (1, 1, 1, 1)}),
)

POINTWISE = [
    convolution(
        (2, inner, 5, width),
        groups,
        outer,
        {"kernel": (1, 1), "stride": (stride,) * 2, "padding": (0, 0, 0, 0)},
    )
    for inner, outer, groups in (
        *((5, 22, 1), (42, 7, 2), (3, 3, 1), (1, 18, 1), (21, 1, 1), (13, 22, 1)),
        *((1, 1, 1), (3, 2, 1), (9, 9, 9)),
    )
    for stride, width in ((1, 6), (2, 5), (3, 7))
]


@pytest.mark.parametrize("case", POINTWISE, ids=str)
def test_weights_of_1x1_kernels_are_put_once(run_kernel: Run, case: Convolution) -> None:
    """More than go into one run of sums, for one channel and for two."""
    check(results(run_kernel, case, *normal(5, case.x, case.w, case.y)))


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan, -0.0], ids=str)
def test_also_of_numbers_that_are_special(run_kernel: Run, special: float) -> None:
    for case in SHAPES:
        x, w, dy = normal(7, case.x, case.w, case.y)
        w[0, 0, 1, 2] = dy[0, 1, 0, 1] = x[0, 2, 3, 4] = special
        if special == 0:
            w, dy, x = np.full_like(w, -1), np.zeros_like(dy), np.full_like(x, special)
        check(results(run_kernel, case, x, w, dy))


def test_there_are_kernels_to_compare() -> None:
    general = ["general"]
    more = (general, general, ["general", "by_1"], *[general] * 4)
    for case, others in zip(SHAPES, more, strict=True):
        x, w = normal(1, case.x, case.w)
        op, graph = graph_of_one("conv2d", [x, w], case.attributes, ())
        names = [way.attributes.get(VARIANT) for way in in_variants(op, graph)]
        assert names == [None, *others]


def test_a_stride_along_an_axis_without_room_is_that_of_the_other() -> None:
    """A kernel at its only position goes by the function for usual strides."""
    for plane, stride, padding, function in (
        ((1, 1), (2, 3), (0, 0, 0, 0), "poet_conv2d_pointwise_forward_f32"),
        ((1, 9), (2, 1), (0, 0, 0, 0), "poet_conv2d_pointwise_forward_f32"),
        ((9, 1), (2, 5), (0, 0, 0, 0), "poet_conv2d_pointwise_apart_forward_f32"),
        ((9, 9), (2, 1), (0, 0, 0, 0), "poet_conv2d_pointwise_apart_forward_f32"),
    ):
        shape = {"kernel": (1, 1), "stride": stride, "padding": padding}
        case = convolution((1, 3, *plane), 1, 4, shape)
        x, w = normal(1, case.x, case.w)
        op, graph = graph_of_one("conv2d", [x, w], case.attributes, ())
        kernel = kind_of(op).kernel(op, graph)
        assert kernel.function == function
        moves = (dict(kernel.fields)["stride_height"], dict(kernel.fields)["stride_width"])
        assert moves == {(1, 1): (1, 1), (1, 9): (1, 1), (9, 1): (2, 2)}.get(plane, stride)
