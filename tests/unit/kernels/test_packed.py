# SPDX-License-Identifier: Apache-2.0
"""Layers of packed weights leave the bits of the layer with the weights that these stand for."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from poetfw.common.errors import ModelError
from poetfw.ir import Attribute
from poetfw.ops import KINDS, Array
from poetfw.ops.packed import FORMATS, PACKED, pack, unpack
from unit.kernels.conftest import graph_of_one

Run = Callable[..., Any]
ONCE: dict[str, Attribute] = {"stride": (1, 1), "padding": (1, 1, 1, 1), "groups": 1}
TWICE: dict[str, Attribute] = {"stride": (2, 2), "padding": (0, 0, 1, 1), "groups": 1}
POINT: dict[str, Attribute] = {"stride": (1, 1), "padding": (0, 0, 0, 0), "groups": 1}
CONVOLUTIONS = {
    "3x3, slices": ((2, 32, 5, 6), (48, 32, 3, 3), (2, 48, 5, 6), ONCE),
    "3x3, one sample": ((1, 32, 5, 6), (48, 32, 3, 3), (1, 48, 5, 6), ONCE),
    "3x3, one slice": ((3, 3, 8, 8), (4, 3, 3, 3), (3, 4, 4, 4), TWICE),
    "1x1, channels of a prime": ((1, 67, 3, 3), (131, 67, 1, 1), (1, 131, 3, 3), POINT),
    "1x1": ((3, 64, 4, 4), (96, 64, 1, 1), (3, 96, 4, 4), POINT),
    "depthwise": ((2, 16, 7, 7), (16, 1, 3, 3), (2, 16, 7, 7), {**ONCE, "groups": 16}),
    "depthwise, slices": ((2, 256, 4, 4), (256, 1, 3, 3), (2, 256, 4, 4), {**ONCE, "groups": 256}),
    "groups, slices": ((2, 64, 5, 5), (96, 16, 3, 3), (2, 96, 5, 5), {**ONCE, "groups": 4}),
}


def cases() -> dict[str, tuple[str, list[Array], dict[str, Attribute]]]:
    found = {}
    d = np.random.default_rng(0)

    def normal(*shape: int) -> Array:
        return d.normal(size=shape).astype(np.float32)

    for name, (x, w, y, attributes) in CONVOLUTIONS.items():
        found[f"{name}, bias"] = "conv2d", [normal(*x), normal(*w), normal(w[0])], attributes
        found[name] = "conv2d", [normal(*x), normal(*w)], attributes
        back = {**attributes, "input_shape": x}
        found[f"{name}, back"] = "conv2d_backward_input", [normal(*w), normal(*y)], back
    for batch, features in product((1, 3), (640, 641)):
        x, w = normal(batch, features), normal(12, features)
        name = f"linear of {batch}, {features} features"
        found[name] = "linear", [x, w, normal(12)], {}
        found[f"{name}, back"] = "linear_backward_input", [w, normal(batch, 12)], {}
    return found


CASES = cases()


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", CASES)
def test_bits_are_those_of_the_layer(run_kernel: Run, name: str, form: str) -> None:
    layer, inputs, attributes = CASES[name]
    kind, position = PACKED[layer]
    weights = inputs[position]
    words, scales = pack("w", weights, form)
    given = [*inputs, *([] if scales is None else [scales])]
    given[position] = words
    more: dict[str, Attribute] = {"weight_shape": weights.shape, "format": form}
    packed = run_kernel(kind, given, {**attributes, **more})
    inputs = list(inputs)
    inputs[position] = unpack(words, scales, weights.shape).astype(np.float32)
    assert packed.output.tobytes() == run_kernel(layer, inputs, attributes).output.tobytes()
    op, graph = graph_of_one(kind, given, {**attributes, **more}, ())
    kernel = KINDS[kind].kernel(op, graph)
    fields = dict(kernel.fields)
    assert (fields["packed.slices"] == 1) is (weights.nbytes <= 8192)
    assert fields["packed.slices"] < 4 + 2 * weights.nbytes / 8192
    assert kernel.workspace_bytes * fields["packed.slices"] >= weights.nbytes


def test_all_halves_are_read_as_numpy_reads_them(run_kernel: Run) -> None:
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    halves = halves[np.isfinite(halves)].astype(np.float32).reshape(-1, 64)
    words, _ = pack("w", halves, "float16")
    more: dict[str, Attribute] = {"weight_shape": halves.shape, "format": "float16"}
    one = np.eye(64, dtype=np.float32)
    read = run_kernel("packed_linear", [one, words], more).output.T
    assert np.array_equal(read, halves)


@pytest.mark.parametrize("form", FORMATS)
def test_a_weight_is_off_by_half_a_step_at_most(form: str) -> None:
    weights = np.random.default_rng(0).normal(size=(7, 5, 3, 3)).astype(np.float32)
    weights[3] *= 100
    words, scales = pack("w", weights, form)
    error = np.abs(unpack(words, scales, weights.shape) - weights)
    if form == "float16":
        assert (error <= np.abs(weights) * 2.0**-11).all()
        assert words.shape == (7, 23)  # of 45 halves, from word to word
    else:
        largest = np.abs(weights).max(axis=(1, 2, 3), keepdims=True)
        assert (error <= largest / 254 * (1 + 1e-6)).all()
        assert words.shape == (7, 12)
    assert error.max() > 0


def test_weights_beyond_a_format_are_refused() -> None:
    weights = np.ones((3, 4), np.float32)
    weights[1] = 0
    with pytest.raises(ModelError, match=r"'body\.w': output channel 1 of 3 has the int8 scale 0"):
        pack("body.w", weights, "int8")
    weights[1] = 1e-40
    with pytest.raises(ModelError, match="output channel 1 of 3 has the int8 scale"):
        pack("body.w", weights, "int8")
    weights[1] = 127 * 2.0**-126  # the smallest scale that is a normal number
    scales = pack("body.w", weights, "int8")[1]
    assert scales is not None
    assert scales[1] == 2.0**-126
    weights[1] = np.nan
    with pytest.raises(ModelError, match="has the int8 scale nan"):
        pack("body.w", weights, "int8")
    weights[1] = 7e4
    with pytest.raises(ModelError, match=r"hold 70000, and float16 ends at 65504"):
        pack("body.w", weights, "float16")
