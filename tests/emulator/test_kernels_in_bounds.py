# SPDX-License-Identifier: Apache-2.0
"""Kernels as a Cortex-M4F and a Cortex-M0+ have them, much of it assembly: bits, and bounds.

Tensors end, and then begin, where memory does: what lies beside one cannot be read or written.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import cache

import numpy as np
import pytest

from emulator.firmware_tools import CORTEX_M0PLUS
from emulator.kernel_core import Build, Core
from poetfw.ir import Attribute
from poetfw.ops import KINDS, Array
from poetfw.runs.op_check import largest_error
from unit.kernels.conftest import graph_of_one
from unit.kernels.test_canonical_sums import (
    GEOMETRIES,
    OF_ZEROS,
    BatchNorm,
    Dense,
    Geometry,
    backward_input,
    backward_weight,
    bits,
    forward,
    passes,
    passes_of_zeros,
    separate,
    sums,
)
from unit.kernels.test_error_bounds import CASES as OPERATORS
from unit.kernels.test_error_bounds import Draw
from unit.kernels.test_halves import ALL, AS_HALVES, EXTREMES, VALUES, rounding_cases

pytestmark = [
    pytest.mark.emulator,
    pytest.mark.skipif(shutil.which("arm-none-eabi-gcc") is None, reason="needs arm-none-eabi-gcc"),
]

M4F = Build()
M0PLUS, FUSED = Build(CORTEX_M0PLUS), Build(CORTEX_M0PLUS, dot="dot_fused.c")
OTHERS = [
    pytest.param(build, marks=pytest.mark.slow)
    for build in (Build(level="-O3"), Build(compiler="clang"), Build(compiler="clang", level="-O3"))
]
"""Other compilers' Cortex-M4F."""
LARGEST = 15_000
"""Products in a convolution."""
SHARE = 6
"""One of so many convolutions is run by `make test`: all are one loop, which this computer runs on
every shape (test_canonical_sums.py)."""

SMALL = [case for case in GEOMETRIES if np.prod(case.y) * np.prod(case.w[1:]) < LARGEST]
CASES = [
    pytest.param(case, marks=[] if i % SHARE == 0 else pytest.mark.slow)
    for i, case in enumerate(SMALL)
]


@pytest.fixture(scope="session")
def core_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Build], Core]:
    """A core by how its kernels are compiled."""

    @cache
    def core(build: Build) -> Core:
        if build.compiler == "clang" and shutil.which("clang") is None:
            pytest.skip("needs clang")
        return Core(build, tmp_path_factory.mktemp("core"))

    return core


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("build", [M4F, M0PLUS, *OTHERS], ids=str)
def test_convolutions(core_of: Callable[[Build], Core], build: Build, case: Geometry) -> None:
    for one, expected in zip(passes(case)[1:], sums(case)[1:], strict=True):
        (left,) = core_of(build).run(*one)
        np.testing.assert_array_equal(bits(left), bits(expected), one[0])


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("case", [case for case in SMALL if case.kernel == (1, 1)], ids=str)
def test_pointwise_sums_of_zeros_and_of_no_numbers(
    core_of: Callable[[Build], Core], case: Geometry
) -> None:
    """Sums of -0 are 0, whatever they began with, and what is not finite stays where it is."""
    core, attributes = core_of(M4F), case.attributes
    x, dy = (np.zeros(shape, np.float32) for shape in (case.x, case.y))
    w, b = np.full(case.w, -1, np.float32), np.full(case.w[:1], -0.0, np.float32)
    extents = attributes | {"input_shape": case.x}
    assert not bits(core.run("conv2d", [x, w, b], attributes)[0]).any()
    assert not bits(core.run("conv2d", [x, w], attributes)[0]).any()
    assert not bits(core.run("conv2d_backward_input", [w, dy], extents)[0]).any()
    w[0, -1] = x[-1, 0, 0, 0] = dy[0, -1, -1, -1] = np.inf
    w[-1, 0] = x[0, -1, -1, -1] = dy[-1, 0, 0, 0] = np.nan
    np.testing.assert_array_equal(
        core.run("conv2d", [x, w, b], attributes)[0], forward(case, x, w, b)
    )
    np.testing.assert_array_equal(
        core.run("conv2d_backward_input", [w, dy], extents)[0], backward_input(case, w, dy)
    )


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("special", [1, np.inf], ids=str)
def test_depthwise_planes_of_3x3_kernels(core_of: Callable[[Build], Core], special: float) -> None:
    cases = [case for case in DEPTHWISE if case.kernel == (3, 3)]
    expect_no_padding_is_multiplied(core_of(M4F), cases, special)


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("special", [1, np.inf], ids=str)
def test_depthwise_planes_of_5x5_kernels(core_of: Callable[[Build], Core], special: float) -> None:
    cases = [case for case in DEPTHWISE if case.kernel == (5, 5)]
    expect_no_padding_is_multiplied(core_of(M4F), cases, special)


DEPTHWISE = [case for case in SMALL if case.w[1] == 1 and case.groups > 1]


def expect_no_padding_is_multiplied(core: Core, cases: Sequence[Geometry], special: float) -> None:
    """Whatever the weights or the gradients are."""
    for case in cases:
        generator = np.random.default_rng(5)
        x, w, dy, b = (
            generator.standard_normal(shape).astype(np.float32)
            for shape in (case.x, case.w, case.y, case.w[:1])
        )
        w[-1, 0, 0, 0] = w[0, 0, -1, -1] = special
        (y,) = core.run("conv2d", [x, w, b], case.attributes)
        np.testing.assert_array_equal(y, forward(case, x, w, b), str(case))
        extents = case.attributes | {"input_shape": case.x}
        (dx,) = core.run("conv2d_backward_input", [w, dy], extents)
        np.testing.assert_array_equal(dx, backward_input(case, w, dy), str(case))
        dy[0, 0, 0, 0] = dy[-1, -1, -1, -1] = special
        (dw,) = core.run(
            "conv2d_backward_weight", [x, dy], case.attributes | {"weight_shape": w.shape}
        )
        np.testing.assert_array_equal(dw, backward_weight(case, x, dy), str(case))


@pytest.mark.parametrize("special", [1, np.inf], ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradients_are_applied_alike(
    core_of: Callable[[Build], Core], case: Geometry, special: float
) -> None:
    """At once, as after they are stored; padding is not multiplied, whatever is."""
    generator = np.random.default_rng(3)
    x, w, dy, momentum = (
        generator.standard_normal(shape).astype(np.float32)
        for shape in (case.x, case.w, case.y, case.w)
    )
    dy[0, 0, 0, 0] = dy[-1, -1, -1, -1] = special
    rule = {"learning_rate": 0.1, "momentum": 0.9, "weight_decay": 1e-3}
    shape, updates, core = case.attributes | {"weight_shape": case.w}, (w, momentum), core_of(M4F)
    at_once = core.run("conv2d_backward_weight_sgd", [x, dy], shape | rule, updates)
    (gradient,) = core.run("conv2d_backward_weight", [x, dy], shape)
    after = core.run("sgd", [gradient], rule, updates)
    for ours, theirs in zip(at_once, after, strict=True):
        known = ~np.isnan(theirs)
        np.testing.assert_array_equal(np.isnan(ours), ~known)
        np.testing.assert_array_equal(bits(ours[known]), bits(theirs[known]))


@pytest.mark.parametrize("build", [M4F, M0PLUS], ids=str)
def test_zeros_have_no_sign(core_of: Callable[[Build], Core], build: Build) -> None:
    for case in OF_ZEROS:
        for kind, inputs, attributes in passes_of_zeros(case):
            (left,) = core_of(build).run(kind, inputs, attributes)
            assert not bits(left).any(), (kind, case)


LAYERS = [(1, features, 3) for features in range(1, 18)]
LAYERS += [(2, features, 4) for features in range(1, 36)]
LAYERS += [(1, 17, 1), (3, 33, 2), (1, 64, 3), (3, 70, 7)]
# lanes of outputs and of samples: eights, fours, some made again, and one that is left
LAYERS += [(1, 3, outputs) for outputs in range(4, 25)]
LAYERS += [(2, 11, outputs) for outputs in range(4, 18)]
LAYERS += [(batch, features, 3) for features in (3, 13) for batch in range(4, 18)]
LAYERS += [(9, 5, 10), (13, 9, 13), (17, 12, 1), (5, 65, 5)]
LAYERS += [(1, 1, 1), (2, 1, 2), (2, 3, 1), (9, 1, 3)]


@pytest.mark.parametrize("build", [M4F, M0PLUS, *OTHERS], ids=str)
def test_dense_layers(core_of: Callable[[Build], Core], build: Build) -> None:
    """Of all that is left over of runs of 32 features, and of blocks of 16, 8 and 4."""
    core = core_of(build)
    for layer in LAYERS:
        x, w, dy, b, *expected = Dense.of(*layer, separate)
        left = (
            *core.run("linear", [x, w, b]),
            *core.run("linear_backward_input", [w, dy]),
            *core.run("linear_backward_weight", [x, dy]),
        )
        for result, wanted in zip(left, expected, strict=True):
            np.testing.assert_array_equal(bits(result), bits(wanted), str(layer))


@pytest.mark.parametrize("build", [M4F, M0PLUS], ids=str)
def test_gradients_of_dense_layers_are_applied_alike(
    core_of: Callable[[Build], Core], build: Build
) -> None:
    """In pieces of so many weights, of which the last may have fewer."""
    core = core_of(build)
    rule: dict[str, Attribute] = {"learning_rate": 0.1, "momentum": 0.9, "weight_decay": 1e-3}
    for layer in [*LAYERS[::5], (2, 64, 3), (1, 65, 2), (3, 130, 2), (2, 1, 70)]:
        case = Dense.of(*layer, separate)
        updates = (case.w, 0.5 * case.w)
        fused = core.run("linear_backward_weight_sgd", [case.x, case.dy], rule, updates)
        for one, other in zip(fused, core.run("sgd", [case.dw], rule, updates), strict=True):
            np.testing.assert_array_equal(bits(one), bits(other), str(layer))


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("build", [M4F, M0PLUS], ids=str)
def test_dense_sums_of_zeros_and_of_no_numbers(
    core_of: Callable[[Build], Core], build: Build
) -> None:
    """Sums of -0 are 0, whatever is added, and what is not finite stays where it is."""
    core = core_of(build)
    for batch, features, outputs in [*LAYERS[::3], (1, 3, 9), (8, 3, 2), (1, 10, 4)]:
        x, dy = np.zeros((batch, features), np.float32), np.zeros((batch, outputs), np.float32)
        w, b = np.full((outputs, features), -1, np.float32), np.full(outputs, -0.0, np.float32)
        assert not bits(core.run("linear", [x, w, b])[0]).any()
        assert not bits(core.run("linear", [x, w])[0]).any()
        assert not bits(core.run("linear_backward_input", [w, dy])[0]).any()
        assert not bits(core.run("linear_backward_weight", [x - 1, dy])[0]).any()
        x[-1, 0] = w[0, -1] = dy[0, -1] = np.inf
        x[0, -1] = w[-1, 0] = dy[-1, 0] = np.nan
        np.testing.assert_array_equal(np.isnan(core.run("linear", [x, w, b])[0]), np.isnan(x @ w.T))
        (dx,) = core.run("linear_backward_input", [w, dy])
        np.testing.assert_array_equal(np.isnan(dx), np.isnan(dy @ w))
        (dw,) = core.run("linear_backward_weight", [x, dy])
        np.testing.assert_array_equal(np.isnan(dw), np.isnan(dy.T @ x))


PLANES = [
    (samples, 2, rows, width)
    for samples, rows in ((1, 1), (1, 2), (2, 3))
    for width in range(1, 36)
]
PLANES += [(3, 1, 1, 64), (2, 3, 4, 8), (1, 2, 4, 24), (5, 1, 7, 1), (1, 3, 2, 48)]


@pytest.mark.parametrize("build", [M4F, M0PLUS, *OTHERS], ids=str)
def test_batch_norm(core_of: Callable[[Build], Core], build: Build) -> None:
    """Of planes with rows of both parities, and all widths up to two blocks of 16."""
    core = core_of(build)
    for shape in PLANES:
        for kind, (inputs, attributes, expected) in BatchNorm.of(shape).passes().items():
            (left,) = core.run(kind, inputs, attributes)
            np.testing.assert_array_equal(bits(left), bits(expected), f"{kind} {shape}")


@pytest.mark.parametrize("build", [M4F, M0PLUS, *OTHERS], ids=str)
def test_relu(core_of: Callable[[Build], Core], build: Build) -> None:
    for elements in range(1, 36):
        y, dy = np.random.default_rng(elements).standard_normal((2, elements)).astype(np.float32)
        for kind, most in (("relu", np.inf), ("relu6", 6)):
            passed = (y > 0) & (5 * y < most)
            (left,) = core_of(build).run(kind, [5 * y])
            np.testing.assert_array_equal(left, np.clip(5 * y, 0, np.float32(most)))
            (left,) = core_of(build).run(f"{kind}_backward", [np.clip(5 * y, 0, most), dy])
            np.testing.assert_array_equal(left, np.where(passed, dy, 0))


def expect_within_bounds(
    core: Core,
    kind: str,
    inputs: Sequence[Array],
    attributes: Mapping[str, Attribute],
    updates: Sequence[Array] = (),
) -> None:
    """An operator leaves what it does in float64, but for what its bound allows."""
    left = core.run(kind, inputs, attributes, updates)
    op, _ = graph_of_one(kind, inputs, attributes, updates)
    wide = [v.astype(np.float64) if v.dtype == np.float32 else v for v in inputs]
    before = [value.astype(np.float64) for value in updates]
    expected = KINDS[kind].results(op, wide, before)
    bounds = KINDS[kind].error_bounds(op, wide, before)
    for result, value, bound in zip(left, expected, bounds, strict=True):
        assert largest_error(result, value, bound)[0] <= 1


@pytest.mark.parametrize("case", CASES, ids=str)
def test_sums_in_integers(core_of: Callable[[Build], Core], case: Geometry) -> None:
    generator = np.random.default_rng(3)
    x, w, dy, b = (
        generator.standard_normal(shape).astype(np.float32)
        for shape in (case.x, case.w, case.y, case.w[:1])
    )
    extents: dict[str, Attribute] = {"input_shape": case.x, "weight_shape": case.w}
    core, attributes = core_of(FUSED), case.attributes
    expect_within_bounds(core, "conv2d", [x, w, b], attributes)
    expect_within_bounds(core, "conv2d_backward_input", [w, dy], attributes | extents)
    expect_within_bounds(core, "conv2d_backward_weight", [x, dy], attributes | extents)


@pytest.mark.parametrize("build", [M4F, FUSED], ids=str)
@pytest.mark.parametrize("kind", OPERATORS)
def test_every_operator(core_of: Callable[[Build], Core], build: Build, kind: str) -> None:
    case = OPERATORS[kind](Draw(1, 1.0))
    expect_within_bounds(core_of(build), kind, case.inputs, case.attributes, case.updates)


@pytest.mark.parametrize("build", [M4F, M0PLUS, *OTHERS], ids=str)
def test_halves_are_those_of_this_computer(core_of: Callable[[Build], Core], build: Build) -> None:
    """Every half but NaN, which are not made; every rounding; what is beyond the largest."""
    core = core_of(build)
    halves = ALL[~np.isnan(VALUES)]
    (values,) = core.run("from_halves", [halves.view("<i4")], {"shape": halves.shape})
    assert values.tobytes() == halves.view("<f2").astype(np.float32).tobytes()
    x = rounding_cases()
    (words,) = core.run("to_halves", [x])
    assert words.view("<u2")[: x.size].tobytes() == x.astype("<f2").view("<u2").tobytes()
    (words,) = core.run("to_halves", [EXTREMES])
    assert words.view("<u2").tolist() == AS_HALVES
    (back,) = core.run("from_halves", [words], {"shape": EXTREMES.shape})
    assert np.isnan(back[5])
    assert back[3:5].tolist() == [np.inf, -np.inf]
