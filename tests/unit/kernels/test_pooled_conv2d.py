# SPDX-License-Identifier: Apache-2.0
"""Pooled convolutions leave the bits of the convolution, the activation and the pooling apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from poetfw.ir import Attribute, Op, Tensor
from poetfw.ops import KINDS, Array, kind_of
from poetfw.ops.packed import pack
from poetfw.ops.pooled import FLOAT32, pooled_conv2d
from unit.kernels.conftest import graph_of_one

Run = Callable[..., Any]
Attributes = dict[str, Attribute]
SAME: Attributes = {"stride": (1, 1), "padding": (1, 1, 1, 1), "groups": 1}
ODD: Attributes = {"stride": (2, 1), "padding": (0, 2, 1, 0), "groups": 1}
MAX: Attributes = {"kernel": (3, 3), "stride": (2, 2), "padding": (1, 1, 1, 1)}
HALF: Attributes = {"kernel": (2, 2), "stride": (2, 2), "padding": (0, 0, 0, 0)}
MEAN: Attributes = {**MAX, "padding": (1, 0, 1, 1), "count_include_pad": 0}
CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], Attributes, tuple[str, Attributes], Any]]
CASES = {
    "one sample": ((1, 3, 32, 32), (12, 3, 3, 3), SAME, ("max_pool2d", MAX), "relu"),
    "samples": ((3, 4, 24, 20), (20, 4, 3, 3), SAME, ("max_pool2d", HALF), "relu6"),
    "any padding, mean": ((2, 5, 40, 33), (14, 5, 3, 3), ODD, ("avg_pool2d", MEAN), "gelu"),
    "groups": (
        (2, 8, 24, 24),
        (24, 2, 3, 3),
        {**SAME, "groups": 4},
        ("max_pool2d", MAX),
        "leaky_relu",
    ),
    "depthwise": ((2, 16, 24, 24), (16, 1, 3, 3), {**SAME, "groups": 16}, ("avg_pool2d", MEAN), ""),
    "one slice": ((2, 3, 8, 8), (4, 3, 3, 3), SAME, ("max_pool2d", MAX), "silu"),
}
PARAMETERS: dict[str, Attributes] = {"leaky_relu": {"slope": 0.2}}


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("form", [FLOAT32, "float16", "int8"])
@pytest.mark.parametrize("name", CASES)
def test_bits_are_those_of_the_ops_apart(
    run_kernel: Run, name: str, form: str, *, bias: bool
) -> None:
    x_shape, w_shape, attributes, (pool, window), activation = CASES[name]
    d = np.random.default_rng(len(name))
    shapes = (x_shape, w_shape, *((w_shape[:1],) if bias else ()))
    inputs = [d.normal(size=shape).astype(np.float32) for shape in shapes]
    conv, given = "conv2d", list(inputs)
    if form != FLOAT32:
        conv, attributes = "packed_conv2d", {**attributes, "weight_shape": w_shape, "format": form}
        given[1], scales = pack("w", inputs[1], form)
        given += [] if scales is None else [scales]
    y: Array = run_kernel(conv, given, attributes).output
    slope = PARAMETERS.get(activation, {})
    y = run_kernel(activation, [y], slope).output if activation else y
    whole = y.nbytes
    y = run_kernel(pool, [y], window).output

    names = tuple(f"in{i}" for i in range(len(given)))
    fused = pooled_conv2d(
        Op("op", conv, names, "a", attributes),
        Op("act", activation, ("a",), "b", slope) if activation else None,
        Op("pool", pool, ("b",), "out", window),
        Tensor("w", w_shape),
    )
    ran = run_kernel(fused.kind, given, fused.attributes)
    assert ran.output.tobytes() == y.tobytes()
    op, graph = graph_of_one(fused.kind, given, fused.attributes, ())
    kernel = KINDS[fused.kind].kernel(op, graph)
    slices = dict(kernel.fields)["packed.slices"]
    assert (slices == 1) is (name == "one slice")
    assert kernel.workspace_bytes <= (whole if slices == 1 else 16384) + (
        0 if form == FLOAT32 else 8192
    )
    parts = kind_of(op).parts(op, graph)
    assert parts is not None
    assert [part.kind for part in parts.graph.ops] == [
        conv,
        *([activation] * bool(activation)),
        pool,
    ]
