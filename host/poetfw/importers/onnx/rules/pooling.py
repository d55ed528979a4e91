# SPDX-License-Identifier: Apache-2.0
"""Rules of pooling."""

from __future__ import annotations

from poetfw.importers.onnx.nodes import OnnxNode
from poetfw.importers.onnx.rules.images import as_image, as_ranked, pair_of, window_of
from poetfw.importers.onnx.rules.registry import onnx_rule
from poetfw.importers.onnx.values import Values
from poetfw.importers.refusal import UnsupportedError


@onnx_rule("MaxPool")
def _max_pool(node: OnnxNode, values: Values) -> str:
    values.expect_unread(node.outputs[1:])
    return _pool("max_pool2d", node, values)


@onnx_rule("AveragePool")
def _average_pool(node: OnnxNode, values: Values) -> str:
    return _pool("avg_pool2d", node, values, bool(node.attributes.get("count_include_pad", 0)))


def _pool(kind: str, node: OnnxNode, values: Values, include: bool = True) -> str:
    x = as_image(node, values)
    kernel = pair_of(node, values, "kernel_shape")
    stride, padding = window_of(node, values, values.builder.shape(x), kernel)
    _expect_dilation_1(node)
    ceil = bool(node.attributes.get("ceil_mode", 0))
    extents = zip(
        values.builder.shape(x)[2:], kernel, stride, padding[:2], padding[2:], strict=True
    )
    if ceil and any(
        -(-(extent + before + after - k) // s) * s >= extent + before
        for extent, k, s, before, after in extents
    ):
        raise UnsupportedError("with ceil_mode its last window begins behind its input")
    y = values.net.pool(
        kind,
        node.name,
        x,
        kernel=kernel,
        stride=stride,
        padding=padding,
        ceil=ceil,
        include=include,
    )
    return as_ranked(node, values, y)


def _expect_dilation_1(node: OnnxNode) -> None:
    if set(node.attributes.get("dilations", [1])) != {1}:
        raise UnsupportedError(f"its dilation is {node.attributes['dilations']}, but must be 1")


@onnx_rule("GlobalAveragePool")
def _global_average_pool(node: OnnxNode, values: Values) -> str:
    y = values.builder.op("global_avg_pool", node.name, (as_image(node, values),))
    return as_ranked(node, values, y)


@onnx_rule("GlobalMaxPool")
def _global_max_pool(node: OnnxNode, values: Values) -> str:
    x = values.tensor(node.inputs[0])
    axes = range(2, len(values.net.shape(x)))
    return values.net.largest(node.name, x, axes, keep=True)
