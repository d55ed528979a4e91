# SPDX-License-Identifier: Apache-2.0
"""Every C kernel against its operator's NumPy reference, over drawn shapes.

`run_kernel` holds each result to its operator's error bound, which `test_error_bounds.py` tests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from budgets import examples
from poetfw.ir import Attribute, Op
from poetfw.ops import KINDS, Array
from poetfw.ops.class_losses import ClassOptions
from poetfw.ops.pointwise import FUNCTIONS
from poetfw.ops.walk import contiguous_steps

few = examples(40, suppress_health_check=[HealthCheck.function_scoped_fixture])
Run = Callable[..., Any]
seeds = st.integers(0, 2**32 - 1)
small = st.integers(1, 5)


def normal(seed: int, *shapes: tuple[int, ...]) -> list[Array]:
    generator = np.random.default_rng(seed)
    return [generator.standard_normal(shape).astype(np.float32) for shape in shapes]


class Windowed(NamedTuple):
    """The extents of a drawn window op."""

    height: int
    width: int
    attributes: dict[str, Attribute]


@st.composite
def windows(draw: st.DrawFn, *, pooling: bool) -> Windowed:
    kernel = (draw(st.integers(1, 4)), draw(st.integers(1, 4)))
    most = [kernel[axis % 2] - 1 if pooling else 3 for axis in range(4)]
    padding = tuple(draw(st.integers(0, limit)) for limit in most)
    extents = [
        draw(st.integers(max(1, kernel[axis] - padding[axis] - padding[axis + 2]), 9))
        for axis in range(2)
    ]
    stride = (draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    attributes: dict[str, Attribute] = {"kernel": kernel, "stride": stride, "padding": padding}
    return Windowed(extents[0], extents[1], attributes)


@st.composite
def strips(draw: st.DrawFn) -> Windowed:
    """What kernels of 3x3 convolutions are for of stride 1 or 2."""
    stride = draw(st.integers(1, 2))
    attributes: dict[str, Attribute] = {
        "kernel": (3, 3),
        "stride": (stride, stride),
        "padding": (1, 1, 1, 1),
    }
    return Windowed(draw(st.integers(2, 7)), draw(st.integers(4, 21)), attributes)


class Convolution(NamedTuple):
    """A drawn convolution: shapes and attributes."""

    x: tuple[int, ...]
    w: tuple[int, ...]
    y: tuple[int, ...]
    attributes: dict[str, Attribute]


@st.composite
def convolutions(draw: st.DrawFn) -> Convolution:
    height, width, attributes = draw(st.one_of(windows(pooling=False), strips()))
    groups = draw(st.integers(1, 3))
    group_in, group_out = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    x = (draw(st.integers(1, 6)), groups * group_in, height, width)
    return convolution(x, groups, group_out, attributes)


def convolution(
    x: tuple[int, ...], groups: int, group_out: int, window: dict[str, Attribute]
) -> Convolution:
    """The convolution of an input of shape x [N, C, H, W] to so many channels per group."""
    attributes = dict(window)
    kernel = attributes.pop("kernel")
    assert isinstance(kernel, tuple)
    w = (groups * group_out, x[1] // groups, *kernel)
    stride, padding = attributes["stride"], attributes["padding"]
    assert isinstance(stride, tuple)
    assert isinstance(padding, tuple)
    rows = (x[2] + padding[0] + padding[2] - kernel[0]) // stride[0] + 1
    columns = (x[3] + padding[1] + padding[3] - kernel[1]) // stride[1] + 1
    return Convolution(x, w, (x[0], w[0], rows, columns), {**attributes, "groups": groups})


def run_passes(run: Run, case: Convolution, seed: int) -> None:
    """Forward, with and without a bias, and both gradients."""
    x, w, y, bias = normal(seed, case.x, case.w, case.y, case.w[:1])
    for kind, inputs, more in (
        ("conv2d", [x, w], {}),
        ("conv2d", [x, w, bias], {}),
        ("conv2d_backward_input", [w, y], {"input_shape": case.x}),
        ("conv2d_backward_weight", [x, y], {"weight_shape": case.w}),
    ):
        run(kind, inputs, {**case.attributes, **more})


@few
@given(convolutions(), seeds)
def test_conv2d(run_kernel: Run, case: Convolution, seed: int) -> None:
    run_passes(run_kernel, case, seed)


GEOMETRIES = [
    convolution((batch, groups * 2, 7, 8), groups, group_out, window)
    for batch, groups, group_out in ((1, 1, 5), (5, 2, 1), (2, 2, 5), (1, 3, 2))
    for window in (
        {"kernel": (3, 4), "stride": (1, 2), "padding": (1, 0, 0, 2)},
        {"kernel": (4, 3), "stride": (2, 1), "padding": (0, 2, 3, 0)},
        {"kernel": (4, 4), "stride": (3, 2), "padding": (3, 3, 1, 1)},
        {"kernel": (1, 1), "stride": (2, 3), "padding": (0, 0, 0, 0)},
    )
]
"""Rows and columns are never alike, nor are kernels and strides."""


@pytest.mark.parametrize("case", GEOMETRIES)
def test_conv2d_of_every_geometry(run_kernel: Run, case: Convolution) -> None:
    run_passes(run_kernel, case, 1)


@few
@given(st.tuples(small, small, small, small), seeds)
def test_conv2d_backward_bias(run_kernel: Run, shape: tuple[int, ...], seed: int) -> None:
    run_kernel("conv2d_backward_bias", normal(seed, shape))


@few
@given(small, st.integers(1, 100), st.integers(1, 9), seeds)
def test_linear(run_kernel: Run, batch: int, features: int, outputs: int, seed: int) -> None:
    x, w, b, dy = normal(seed, (batch, features), (outputs, features), (outputs,), (batch, outputs))
    run_kernel("linear", [x, w, b])
    run_kernel("linear", [x, w])
    run_kernel("linear_backward_input", [w, dy])
    run_kernel("linear_backward_weight", [x, dy])
    run_kernel("linear_backward_bias", [dy])


batches = st.one_of(st.tuples(small, small), st.tuples(small, small, small, small))


@few
@given(batches, seeds, st.sampled_from([1e-5, 1e-3, 0.1]))
def test_batch_norm(run_kernel: Run, shape: tuple[int, ...], seed: int, eps: float) -> None:
    pair = (2, shape[1])
    x, dy, affine, daffine, statistics = normal(seed, shape, shape, pair, pair, pair)
    statistics[1] = np.abs(statistics[1]) + np.float32(0.1)
    attributes: dict[str, Attribute] = {"eps": eps}
    for kind, inputs, more in (
        ("batch_norm", [x, affine, statistics], {"momentum": 0.1}),
        ("batch_norm_normalize", [x, statistics, affine], {}),
        ("batch_norm_backward_frozen", [dy, affine, statistics], {}),
    ):
        run_kernel(kind, inputs, {**attributes, **more})

    run_kernel("batch_norm_statistics", [x + np.float32(2)])

    run_kernel("batch_norm_backward_affine", [x, statistics, dy], attributes)

    run_kernel("batch_norm_backward_input", [x, statistics, affine, daffine, dy], attributes)


@few
@given(small, st.integers(2, 10_000), st.sampled_from([0.0, 0.01, 0.1, 1.0]), seeds)
def test_batch_norm_update_running(
    run_kernel: Run, channels: int, count: int, momentum: float, seed: int
) -> None:
    statistics, running = normal(seed, (2, channels), (2, channels))
    statistics, running = np.abs(statistics), np.abs(running)
    attributes: dict[str, Attribute] = {"momentum": momentum, "count": count}
    run_kernel("batch_norm_update_running", [statistics], attributes, [running])


@few
@given(batches, seeds, st.sampled_from(["relu", "relu6"]))
def test_relu(run_kernel: Run, shape: tuple[int, ...], seed: int, kind: str) -> None:
    x, dy = normal(seed, shape, shape)
    x = np.round(4 * x)  # hits 0 and 6
    ran = run_kernel(kind, [x])
    np.testing.assert_array_equal(ran.output, ran.expected_output)
    ran = run_kernel(f"{kind}_backward", [ran.output, dy])
    np.testing.assert_array_equal(ran.output, ran.expected_output)


@few
@given(st.lists(small, min_size=1, max_size=4), st.data(), seeds)
def test_slice(run_kernel: Run, shape: list[int], data: st.DataObject, seed: int) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    start = data.draw(st.integers(0, shape[axis] - 1))
    length = data.draw(st.integers(1, shape[axis] - start))
    (x,) = normal(seed, tuple(shape))
    where: dict[str, Attribute] = {"axis": axis, "start": start}
    ran = run_kernel("slice", [x], {**where, "length": length})
    np.testing.assert_array_equal(ran.output, ran.expected_output)
    ran = run_kernel("slice_backward", [ran.output], {**where, "extent": shape[axis]})
    np.testing.assert_array_equal(ran.output, ran.expected_output)


@few
@given(st.lists(small, min_size=1, max_size=6), st.data(), seeds)
def test_transpose(run_kernel: Run, view: list[int], data: st.DataObject, seed: int) -> None:
    axes = data.draw(st.permutations(range(len(view))))
    (x,) = normal(seed, tuple(view))
    shape = tuple(view[axis] for axis in axes)
    attributes = {"view": tuple(view), "axes": tuple(axes), "shape": shape}
    ran = run_kernel("transpose", [x], attributes)
    np.testing.assert_array_equal(ran.output, ran.expected_output)
    np.testing.assert_array_equal(ran.output, x.transpose(axes))


@few
@given(st.lists(small, min_size=1, max_size=4), st.data(), seeds)
def test_strided(run_kernel: Run, shape: list[int], data: st.DataObject, seed: int) -> None:
    steps = [data.draw(st.integers(-3, 7)) for _ in shape]
    ends = [(extent - 1) * step for extent, step in zip(shape, steps, strict=True)]
    offset = -sum(min(end, 0) for end in ends)
    elements = offset + sum(max(end, 0) for end in ends) + data.draw(small)
    x, y = normal(seed, (elements,), tuple(shape))
    where: dict[str, Attribute] = {"steps": tuple(steps), "offset": offset}
    ran = run_kernel("take_strided", [x], {**where, "shape": tuple(shape)})
    np.testing.assert_array_equal(ran.output, ran.expected_output)
    adjoint = KINDS["put_strided"].compute(
        Op("put", "put_strided", ("y",), "x", {**where, "shape": (elements,)}), [y], []
    )
    assert np.vdot(ran.output, y) == pytest.approx(np.vdot(x, adjoint), abs=1e-3)


@few
@given(st.lists(small, min_size=1, max_size=5), st.data(), seeds)
def test_stretched_and_summed(
    run_kernel: Run, shape: list[int], data: st.DataObject, seed: int
) -> None:
    kept = [extent if data.draw(st.booleans()) else 1 for extent in shape]
    small_shape = tuple(kept[data.draw(st.integers(0, len(kept) - 1)) :])
    a, b = normal(seed, tuple(shape), small_shape)
    for kind in ("add_broadcast", "multiply"):
        run_kernel(kind, [a, b])
    run_kernel("sum_to", [a], {"shape": small_shape})
    padding = tuple((1, 2) for _ in shape)
    wide = np.pad(a, padding)
    steps = contiguous_steps(wide.shape)
    where = {"shape": wide.shape, "steps": steps, "offset": sum(steps)}
    np.testing.assert_array_equal(run_kernel("put_strided", [a], where).output, wide)


@few
@given(st.lists(small, min_size=1, max_size=4), small, st.data(), seeds)
def test_concat(
    run_kernel: Run, shape: list[int], more: int, data: st.DataObject, seed: int
) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    other = [*shape[:axis], more, *shape[axis + 1 :]]
    ran = run_kernel("concat", normal(seed, tuple(shape), tuple(other)), {"axis": axis})
    np.testing.assert_array_equal(ran.output, ran.expected_output)


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_pointwise(run_kernel: Run, kind: str) -> None:
    """On a grid that has the corners, and far out; the bounds are checked by `run_kernel`."""
    x = np.concatenate([np.linspace(-8, 8, 65), [-100, -20, 20, 85]]).astype(np.float32)
    if kind in ("sqrt", "norm_root", "log", "reciprocal"):
        x = np.abs(x) + np.float32(0 if kind == "norm_root" else 0.25)
    named = FUNCTIONS[kind].parameter
    attributes: dict[str, Attribute] = {} if named is None else {named[0]: 0.3}
    y = run_kernel(kind, [x], attributes).output
    if kind != "scale":
        seen = y if FUNCTIONS[kind].from_output else x
        (dy,) = normal(5, x.shape)
        run_kernel(f"{kind}_backward", [seen, dy], attributes)


@few
@given(small, st.integers(1, 50), seeds, st.sampled_from([0.1, 1.0, 30.0]))
def test_softmax(run_kernel: Run, rows: int, length: int, seed: int, scale: float) -> None:
    x, dy = normal(seed, (rows, length), (rows, length))
    y = run_kernel("softmax", [np.float32(scale) * x]).output
    np.testing.assert_allclose(y.sum(-1), 1, rtol=1e-5)
    run_kernel("softmax_backward", [y, dy])


@few
@given(small, small, st.integers(1, 80), small, st.tuples(st.booleans(), st.booleans()), seeds)
def test_matmul(
    run_kernel: Run,
    batch: int,
    rows: int,
    inner: int,
    columns: int,
    turned: tuple[bool, bool],
    seed: int,
) -> None:
    a, b = normal(seed, (batch, rows, inner), (batch, inner, columns))
    inputs = [
        np.ascontiguousarray(value.mT) if turn else value
        for value, turn in zip((a, b), turned, strict=True)
    ]
    attributes: dict[str, Attribute] = {
        "transpose_a": int(turned[0]),
        "transpose_b": int(turned[1]),
    }
    run_kernel("matmul", inputs, attributes)


@few
@given(small, st.integers(1, 3), small, st.integers(1, 40), seeds)
def test_layer_norm(
    run_kernel: Run, samples: int, groups: int, channels: int, inner: int, seed: int
) -> None:
    shape, count = (samples, groups * channels, inner), groups * channels
    attributes: dict[str, Attribute] = {
        "eps": 1e-3,
        "groups": groups,
        "channels": count,
        "inner": inner,
    }
    x, dy, affine = normal(seed, shape, shape, (2, count))
    statistics = run_kernel("layer_norm_statistics", [x], attributes).output
    run_kernel("layer_norm", [x, affine], attributes)
    run_kernel("layer_norm_normalize", [x, statistics, affine], attributes)
    run_kernel("layer_norm_backward_affine", [x, statistics, dy], attributes)
    run_kernel("layer_norm_backward_input", [x, statistics, affine, dy], attributes)


@few
@given(
    st.integers(1, 50),
    st.integers(1, 9),
    st.floats(0, 0.99),
    st.integers(0, 2**24 - 1),
    st.integers(0, 1000),
)
def test_dropout(run_kernel: Run, size: int, run: int, share: float, step: int, seed: int) -> None:
    (x,) = normal(seed, (size,))
    attributes: dict[str, Attribute] = {"share": share, "seed": seed, "run": min(run, size)}
    ran = run_kernel("dropout_training", [x, np.float32([step])], attributes)
    np.testing.assert_array_equal(ran.output == 0, ran.expected_output == 0)


@few
@given(st.integers(1, 50), st.integers(0, 2**24 - 1), st.integers(0, 1000))
def test_uniform(run_kernel: Run, size: int, step: int, seed: int) -> None:
    ran = run_kernel("uniform", [np.float32([step])], {"shape": (size,), "seed": seed})
    np.testing.assert_array_equal(ran.output, ran.expected_output)
    assert ((ran.output >= 0) & (ran.output < 1)).all()


@pytest.mark.parametrize(("step", "following"), [(0, 1), (2**24 - 2, 2**24 - 1), (2**24 - 1, 0)])
def test_count_step(run_kernel: Run, step: int, following: int) -> None:
    (counted,) = run_kernel("count_step", [], {}, [np.float32([step])]).updates
    assert counted == following


@few
@given(
    st.lists(st.integers(-2, 8), min_size=1, max_size=12),
    small,
    st.booleans(),
    seeds,
    st.sampled_from([None, 0, 3]),
)
def test_embedding(
    run_kernel: Run, numbers: list[int], width: int, moving: bool, seed: int, padding: int | None
) -> None:
    ids = np.array(numbers, np.int32)
    table, momentum, dy = normal(seed, (6, width), (6, width), (len(ids), width))
    ran = run_kernel("embedding", [ids, table])
    np.testing.assert_array_equal(ran.output, ran.expected_output)
    rows: dict[str, Attribute] = {"rows": 6}
    if padding is not None:
        rows["padding"] = padding
    gradient = run_kernel("embedding_backward", [ids, dy], rows).output
    assert padding is None or not gradient[padding].any()
    descent: dict[str, Attribute] = {
        "learning_rate": 0.05,
        "momentum": 0.9 * moving,
        "weight_decay": 1e-2,
    }
    updates = [table, momentum][: 1 + moving]
    apart = run_kernel("sgd", [gradient], descent, updates)
    fused = run_kernel("embedding_backward_sgd", [ids, dy], {**rows, **descent}, updates)
    for actual, same in zip(fused.updates, apart.updates, strict=True):
        assert actual.tobytes() == same.tobytes()


@few
@given(windows(pooling=True), small, small, seeds, st.booleans())
def test_max_pool2d(
    run_kernel: Run, window: Windowed, batch: int, channels: int, seed: int, ties: bool
) -> None:
    (x,) = normal(seed, (batch, channels, window.height, window.width))
    x = np.round(x) if ties else x
    ran = run_kernel("max_pool2d", [x], window.attributes)
    np.testing.assert_array_equal(ran.output, ran.expected_output)
    (dy,) = normal(seed + 1, ran.output.shape)
    run_kernel("max_pool2d_backward", [x, dy], window.attributes)
    run_kernel("max_pool2d_shared_backward", [x, dy], window.attributes)


@pytest.mark.parametrize("stride", [(1, 3), (2, 2)])
@pytest.mark.parametrize("padding", [(0, 0, 0, 0), (1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 1)])
def test_max_pool2d_of_windows_of_two(
    run_kernel: Run, stride: tuple[int, int], padding: tuple[int, ...]
) -> None:
    attributes: dict[str, Attribute] = {"kernel": (2, 2), "stride": stride, "padding": padding}
    (x,) = normal(1, (2, 2, 5, 7))
    ran = run_kernel("max_pool2d", [x], attributes)
    np.testing.assert_array_equal(ran.output, ran.expected_output)
    (dy,) = normal(2, ran.output.shape)
    run_kernel("max_pool2d_backward", [x, dy], attributes)


@few
@given(windows(pooling=True), small, small, seeds, st.integers(0, 1))
def test_avg_pool2d(
    run_kernel: Run, window: Windowed, batch: int, channels: int, seed: int, include: int
) -> None:
    (x,) = normal(seed, (batch, channels, window.height, window.width))
    attributes: dict[str, Attribute] = {**window.attributes, "count_include_pad": include}
    ran = run_kernel("avg_pool2d", [x], attributes)
    (dy,) = normal(seed + 1, ran.output.shape)
    run_kernel("avg_pool2d_backward", [dy], {**attributes, "input_shape": x.shape})


@few
@given(st.tuples(small, small, small, small), seeds)
def test_global_avg_pool(run_kernel: Run, shape: tuple[int, ...], seed: int) -> None:
    (x,) = normal(seed, shape)
    run_kernel("global_avg_pool", [x])
    (dy,) = normal(seed + 1, (*shape[:2], 1, 1))
    run_kernel("global_avg_pool_backward", [dy], {"input_shape": shape})


@few
@given(batches, seeds)
def test_add_and_reshape(run_kernel: Run, shape: tuple[int, ...], seed: int) -> None:
    a, b = normal(seed, shape, shape)
    ran = run_kernel("add", [a, b])
    np.testing.assert_array_equal(ran.output, a + b)
    ran = run_kernel("reshape", [a], {"shape": (a.size,)})
    np.testing.assert_array_equal(ran.output, a.reshape(-1))


@few
@given(small, st.integers(1, 12), st.sampled_from([0.1, 1, 10, 100]), seeds)
def test_softmax_cross_entropy(
    run_kernel: Run, batch: int, classes: int, spread: float, seed: int
) -> None:
    logits = normal(seed, (batch, classes))[0] * np.float32(spread)
    # Labels that are no class are drawn too: they must be left out, not read or written there.
    labels = np.random.default_rng(seed).integers(-1, classes + 1, batch).astype(np.int32)
    loss = np.full(1, np.nan, np.float32)
    run_kernel("softmax_cross_entropy", [logits, labels], {}, [loss])
    run_kernel("softmax_cross_entropy_backward", [logits, labels])


@few
@given(
    small,
    st.integers(1, 12),
    st.sampled_from([0.1, 1, 10, 100]),
    st.sampled_from([0.0, 0.1, 1.0]),
    st.sampled_from([None, -100, 0]),
    seeds,
)
def test_losses_of_weighted_classes(
    run_kernel: Run,
    batch: int,
    classes: int,
    spread: float,
    smoothing: float,
    ignored: int | None,
    seed: int,
) -> None:
    logits = normal(seed, (batch, classes))[0] * np.float32(spread)
    random = np.random.default_rng(seed)
    labels = random.integers(-1, classes + 1, batch).astype(np.int32)
    weights = tuple(random.choice([0.0, 0.3, 1.0, 4.0], classes))
    options = ClassOptions(weights, smoothing, ignored).attributes(classes)
    without = ClassOptions(weights, 0.0, ignored).attributes(classes)
    for kind, attributes in (("weighted_cross_entropy", options), ("nll", without)):
        loss = np.full(1, np.nan, np.float32)
        run_kernel(kind, [logits, labels], attributes, [loss])
        run_kernel(f"{kind}_backward", [logits, labels], attributes)


def test_a_class_that_counts_nothing_may_have_no_likelihood(run_kernel: Run) -> None:
    likelihoods = np.array([[-1.0, 0.0], [-np.inf, -1.0]], np.float32)
    labels = np.array([1, 0], np.int32)
    attributes = ClassOptions((0.0, 1.0), 0.0, None).attributes(2)
    ran = run_kernel("nll", [likelihoods, labels], attributes, [np.full(1, np.nan, np.float32)])
    assert ran.updates[0] == ran.expected_updates[0] == 0


@few
@given(batches, seeds)
def test_mse(run_kernel: Run, shape: tuple[int, ...], seed: int) -> None:
    prediction, target = normal(seed, shape, shape)
    loss = np.full(1, np.nan, np.float32)
    run_kernel("mse", [prediction, target], {}, [loss])
    run_kernel("mse_backward", [prediction, target])


@few
@given(st.integers(1, 40), st.integers(1, 5), seeds)
def test_correct_count(run_kernel: Run, batch: int, classes: int, seed: int) -> None:
    logits = np.round(normal(seed, (batch, classes))[0])
    labels = np.random.default_rng(seed).integers(-1, classes, batch).astype(np.int32)
    ran = run_kernel("correct_count", [logits, labels], {}, [np.full(1, np.nan, np.float32)])
    np.testing.assert_array_equal(ran.updates[0], ran.expected_updates[0])


@few
@given(
    st.integers(1, 40),
    st.sampled_from([0.0, 0.9]),
    st.sampled_from([0.0, 1e-2]),
    st.booleans(),
    seeds,
)
def test_sgd(
    run_kernel: Run, elements: int, momentum: float, decay: float, clipped: bool, seed: int
) -> None:
    gradient, factor, *updates = normal(seed, (elements,), (1,), (elements,), (elements,))
    attributes: dict[str, Attribute] = {
        "learning_rate": 0.05,
        "momentum": momentum,
        "weight_decay": decay,
    }
    inputs = [gradient, factor] if clipped else [gradient]
    run_kernel("sgd", inputs, attributes, updates if momentum else updates[:1])


def assert_fused_as_apart(
    run: Run,
    kind: str,
    inputs: Sequence[Array],
    attributes: dict[str, Attribute],
    descent: dict[str, Attribute],
    updates: Sequence[Array],
) -> None:
    """The weight and its momentum get the bits that the gradient and `sgd` give them."""
    updates = updates if descent["momentum"] else updates[:1]
    gradient = run(kind, inputs, attributes).output
    apart = run("sgd", [gradient], descent, updates)
    fused = run(f"{kind}_sgd", inputs, {**attributes, **descent}, updates)
    assert len(fused.updates) == len(updates)
    for actual, same in zip(fused.updates, apart.updates, strict=True):
        assert actual.tobytes() == same.tobytes()


descents = st.fixed_dictionaries(
    {
        "learning_rate": st.just(0.05),
        "momentum": st.sampled_from([0.0, 0.9]),
        "weight_decay": st.sampled_from([0.0, 1e-2]),
    }
)


@few
@given(convolutions(), descents, seeds)
def test_conv2d_backward_weight_sgd(
    run_kernel: Run, case: Convolution, descent: dict[str, Attribute], seed: int
) -> None:
    x, dy, *updates = normal(seed, case.x, case.y, case.w, case.w)
    attributes = {**case.attributes, "weight_shape": case.w}
    assert_fused_as_apart(
        run_kernel, "conv2d_backward_weight", [x, dy], attributes, descent, updates
    )


@pytest.mark.parametrize(
    "case",
    [
        convolution(x, groups, outputs, {"kernel": (3, 3), "stride": stride, "padding": padding})
        for x, groups, outputs, stride, padding in (
            ((2, 3, 5, 3), 1, 5, (1, 1), (1, 1, 1, 1)),
            ((2, 4, 6, 7), 2, 6, (2, 2), (1, 1, 1, 1)),
            ((2, 3, 6, 12), 1, 7, (2, 2), (1, 1, 1, 1)),
            ((2, 3, 6, 9), 1, 5, (1, 1), (1, 1, 1, 1)),
            ((2, 3, 6, 5), 1, 6, (1, 1), (0, 0, 0, 0)),
        )
    ],
)
def test_weights_that_blocks_make_again_are_applied_once(
    run_kernel: Run, case: Convolution
) -> None:
    """Where 4 does not divide the output channels, the last block makes some that are there."""
    x, dy, *updates = normal(2, case.x, case.y, case.w, case.w)
    descent: dict[str, Attribute] = {"learning_rate": 0.1, "momentum": 0.9, "weight_decay": 0.0}
    attributes = {**case.attributes, "weight_shape": case.w}
    assert_fused_as_apart(
        run_kernel, "conv2d_backward_weight", [x, dy], attributes, descent, updates
    )


@few
@given(small, st.integers(1, 20), st.integers(1, 9), descents, seeds)
def test_linear_backward_weight_sgd(
    run_kernel: Run,
    batch: int,
    features: int,
    outputs: int,
    descent: dict[str, Attribute],
    seed: int,
) -> None:
    w = (outputs, features)
    x, dy, *updates = normal(seed, (batch, features), (batch, outputs), w, w)
    assert_fused_as_apart(run_kernel, "linear_backward_weight", [x, dy], {}, descent, updates)


def test_sgd_with_a_factor_of_1_gives_the_bits_of_sgd_without(run_kernel: Run) -> None:
    gradient, parameter = normal(3, (100,), (100,))
    attributes: dict[str, Attribute] = {"learning_rate": 0.1, "momentum": 0.0, "weight_decay": 0.0}
    ones = np.ones(1, np.float32)
    (clipped,) = run_kernel("sgd", [gradient, ones], attributes, [parameter]).updates
    (plain,) = run_kernel("sgd", [gradient], attributes, [parameter]).updates
    assert clipped.tobytes() == plain.tobytes()


@few
@given(st.integers(1, 600), st.booleans(), seeds)
def test_square_sum(run_kernel: Run, elements: int, first: bool, seed: int) -> None:
    gradient, before = normal(seed, (elements,), (1,))
    run_kernel("square_sum", [gradient] if first else [gradient, np.abs(before)])


@few
@given(st.floats(0, 1e6, width=32), st.floats(2.0**-20, 1e6, width=32))
def test_clip_factor(run_kernel: Run, total: float, max_norm: float) -> None:
    inputs = [np.array([total], np.float32)]
    ran = run_kernel("clip_factor", inputs, {"max_norm": max_norm})
    assert 0 < ran.output[0] <= 1


def test_a_gradient_that_is_no_number_stays_one(run_kernel: Run) -> None:
    total = run_kernel("square_sum", [np.array([1, np.nan], np.float32)])
    assert np.isnan(total.output)
    assert np.isnan(total.expected_output)
    factor = run_kernel("clip_factor", [total.output], {"max_norm": 1.0})
    assert np.isnan(factor.output)
    assert np.isnan(factor.expected_output)


def test_the_norm_of_a_million_elements_stays_accurate(run_kernel: Run) -> None:
    """Adding their squares one by one would be off by a thousand times as much."""
    gradient = np.full(1_000_000, 0.3, np.float32)
    ran = run_kernel("square_sum", [gradient])
    assert ran.output == pytest.approx(ran.expected_output, rel=1e-6)


def test_a_norm_beyond_float32_clips_to_nothing(run_kernel: Run) -> None:
    total = run_kernel("square_sum", [np.full(2000, 1e30, np.float32)]).output
    assert run_kernel("clip_factor", [total], {"max_norm": 1.0}).output == 0


def test_sums_over_large_images_stay_accurate(run_kernel: Run) -> None:
    """Adding 131,072 values one by one would be off by ten times as much."""
    shape = (32, 1, 64, 64)
    x = normal(1, shape)[0] + np.float32(3)
    ran = run_kernel("batch_norm_statistics", [x])
    np.testing.assert_allclose(ran.output, ran.expected_output, rtol=0, atol=1e-6)
    dy = np.abs(normal(2, shape)[0])
    attributes: dict[str, Attribute] = {
        "stride": (1, 1),
        "padding": (1, 1, 1, 1),
        "groups": 1,
        "weight_shape": (1, 1, 3, 3),
    }
    ran = run_kernel("conv2d_backward_weight", [x, dy], attributes)
    error = np.abs(ran.output - ran.expected_output).max()
    assert error <= 1e-5 * np.abs(ran.expected_output).max()
