# SPDX-License-Identifier: Apache-2.0
"""What is not a number stays visible: kernels and references let it through where PyTorch does."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
import torch
import torch.nn.functional as functional

from poetfw.ir import Attribute
from poetfw.ops import KINDS, Array
from poetfw.ops.class_losses import ClassOptions
from poetfw.ops.pointwise import FUNCTIONS
from unit.kernels.conftest import Libraries, call, graph_of_one

NANS = [np.uint32(bits).view(np.float32) for bits in (0x7FC00000, 0xFFC00000)]
POOL: Mapping[str, Attribute] = {"kernel": (2, 2), "stride": (2, 2), "padding": (0, 0, 0, 0)}
PADDED: Mapping[str, Attribute] = {**POOL, "kernel": (3, 2), "padding": (1, 0, 1, 0)}
CONV: Mapping[str, Attribute] = {"stride": (1, 1), "padding": (1, 1, 1, 1), "groups": 1}
LABELS = np.array([0, 2], np.int32)


def ones(*shape: int) -> Array:
    return np.linspace(0.1, 0.9, int(np.prod(shape)), dtype=np.float32).reshape(shape)


def _parameter(kind: str) -> dict[str, Attribute]:
    named = FUNCTIONS[kind].parameter
    return {} if named is None else {named[0]: 0.3}


WEIGHTED = ClassOptions((1.0, 0.5, 2.0), 0.1, None).attributes(3)
FORWARD: dict[str, tuple[str, list[Array], Mapping[str, Attribute], bool]] = {
    **{kind: (kind, [ones(11)], _parameter(kind), False) for kind in FUNCTIONS},
    **{kind: (kind, [ones(11)], {}, False) for kind in ("relu", "relu6")},
    "max_pool2d": ("max_pool2d", [ones(1, 1, 4, 6)], POOL, False),
    "max_pool2d, padded": ("max_pool2d", [ones(1, 1, 4, 6)], PADDED, False),
    "softmax": ("softmax", [ones(2, 5)], {}, False),
    "conv2d": ("conv2d", [ones(1, 2, 5, 5), ones(3, 2, 3, 3)], CONV, False),
    "linear": ("linear", [ones(2, 5), ones(4, 5)], {}, False),
    "cross entropy": ("softmax_cross_entropy", [ones(2, 3), LABELS], {}, True),
    "weighted": ("weighted_cross_entropy", [ones(2, 3), LABELS], WEIGHTED, True),
    "mse": ("mse", [ones(2, 3), ones(2, 3)], {}, True),
    **{kind: (kind, [ones(6), ones(6)], {}, True) for kind in ("l1", "huber")},
    "binary": ("binary_cross_entropy", [ones(6), ones(6)], {}, True),
}


@pytest.mark.parametrize("name", FORWARD)
@pytest.mark.parametrize("nan", NANS, ids=["NaN", "-NaN"])
def test_a_forward_kernel_keeps_it_as_the_reference_does(
    libraries: Libraries, name: str, nan: np.float32
) -> None:
    """In every place of the input; on cores without an FPU, too."""
    kind, inputs, attributes, has_loss = FORWARD[name]
    updates = [np.zeros(1, np.float32)] if has_loss else []
    op, graph = graph_of_one(kind, inputs, attributes, updates)
    kernel = KINDS[kind].kernel(op, graph)
    for place in range(inputs[0].size):
        x = inputs[0].copy()
        x.flat[place] = nan
        given = [x, *inputs[1:]]
        left_there = [value.copy() for value in updates]
        with np.errstate(all="ignore"):
            result = KINDS[kind].compute(op, given, left_there)
        wanted = np.isnan(left_there[0] if has_loss else result).ravel()
        assert wanted.any(), place
        for library in (libraries.optimised, libraries.plain, libraries.without_fpu):
            (left,) = call(library, kernel, op, graph, given, updates, prefill=0)
            left_of_it = np.frombuffer(left, np.float32)
            np.testing.assert_array_equal(np.isnan(left_of_it), wanted, str(place))


@pytest.mark.parametrize("kind", ["relu", "relu6"])
@pytest.mark.parametrize("nan", NANS, ids=["NaN", "-NaN"])
def test_a_gradient_passes_where_the_result_is_none(
    libraries: Libraries, kind: str, nan: np.float32
) -> None:
    """And as ever elsewhere: infinities and either zero, with the same bits."""
    inf = np.float32(np.inf)
    y, dy = np.array([0, 2, nan, 6, inf, 7], np.float32), np.arange(1, 7, dtype=np.float32)
    op, graph = graph_of_one(f"{kind}_backward", [y, dy], {}, [])
    kernel = KINDS[op.kind].kernel(op, graph)
    expected = np.array([0, 2, 3, *((4, 5, 6) if kind == "relu" else (0, 0, 0))], np.float32)
    np.testing.assert_array_equal(KINDS[op.kind].compute(op, [y, dy], []), expected)
    for library in (libraries.optimised, libraries.plain, libraries.without_fpu):
        (left,) = call(library, kernel, op, graph, [y, dy], [], prefill=0)
        assert left == expected.tobytes()


@pytest.mark.parametrize("kind", ["relu", "relu6", "at_least", "at_most", "max_pool2d"])
def test_zeros_and_infinities_are_compared_as_ever(libraries: Libraries, kind: str) -> None:
    """The bits are those of the first of two that are equal, and a rectified -0 is 0."""
    values = [0.0, -0.0, np.inf, -np.inf, 1.0, -1.0, 6.0, 1e-45, -1e-45, 3e38]
    pairs = np.array([(a, b) for a in values for b in values], np.float32)
    expected = {
        "relu": np.where(pairs > 0, pairs, np.float32(0)),
        "relu6": np.where(pairs > 0, np.where(pairs < 6, pairs, np.float32(6)), np.float32(0)),
        "at_least": np.where(pairs > 0, pairs, np.float32(0)),
        "at_most": np.where(pairs < 0, pairs, np.float32(0)),
        "max_pool2d": np.where(pairs[:, 1] > pairs[:, 0], pairs[:, 1], pairs[:, 0]),
    }[kind]
    window = {**POOL, "kernel": (1, 2), "stride": (1, 2)}
    attributes = {"max_pool2d": window, "at_least": {"bound": 0.0}, "at_most": {"bound": 0.0}}
    x = pairs.reshape(1, 1, *pairs.shape) if kind == "max_pool2d" else pairs
    op, graph = graph_of_one(kind, [x], attributes.get(kind, {}), [])
    kernel = KINDS[kind].kernel(op, graph)
    for library in (libraries.optimised, libraries.plain, libraries.without_fpu):
        (left,) = call(library, kernel, op, graph, [x], [], prefill=0)
        assert left == expected.astype(np.float32).tobytes()


@pytest.mark.parametrize(
    ("kind", "by_torch"),
    [
        ("relu", functional.relu),
        ("relu6", functional.relu6),
        ("at_least", lambda x: torch.clamp(x, min=0.3)),
        ("at_most", lambda x: torch.clamp(x, max=0.3)),
        ("leaky_relu", lambda x: functional.leaky_relu(x, 0.3)),
        ("elu", lambda x: functional.elu(x, 0.3)),
        ("hard_sigmoid", functional.hardsigmoid),
        ("hard_swish", functional.hardswish),
        ("softplus", functional.softplus),
        ("gelu", functional.gelu),
        ("silu", functional.silu),
        ("tanh", torch.tanh),
        ("erf", torch.erf),
    ],
)
def test_pytorch_keeps_it_where_the_reference_does(kind: str, by_torch: object) -> None:
    x = np.array([-1, np.nan, 1, 7, *[0.2] * 12, np.nan], np.float32)
    attributes = _parameter(kind) if kind in FUNCTIONS else {}
    op, _ = graph_of_one(kind, [x], attributes, [])
    with np.errstate(all="ignore"):
        ours = np.isnan(KINDS[kind].compute(op, [x], []))
    theirs = torch.isnan(by_torch(torch.tensor(x))).numpy()  # type: ignore[operator]
    np.testing.assert_array_equal(ours, theirs)
