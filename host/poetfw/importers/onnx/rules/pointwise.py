# SPDX-License-Identifier: Apache-2.0
"""Rules of activations and softmax."""

from __future__ import annotations

from poetfw.importers.onnx.nodes import OnnxNode
from poetfw.importers.onnx.rules.layers import decimal
from poetfw.importers.onnx.rules.registry import onnx_rule
from poetfw.importers.onnx.rules.shapes import BATCH
from poetfw.importers.onnx.values import Values
from poetfw.importers.refusal import UnsupportedError


@onnx_rule("Clip")
def _clip(node: OnnxNode, values: Values) -> str:
    low, high = (values.number(node.inputs[i]) if node.has_input(i) else None for i in (1, 2))
    return values.net.clip(node.name, values.tensor(node.inputs[0]), low, high)


@onnx_rule("LogSoftmax", "Softmax")
def _softmax(node: OnnxNode, values: Values) -> str:
    """Drop a final softmax that the loss includes; after log-softmax, `nll` is cross-entropy."""
    x = values.tensor(node.inputs[0])
    rank = len(values.builder.shape(x))
    axis = range(rank)[int(node.attributes.get("axis", -1))]
    within = "nll" if node.kind == "LogSoftmax" else "softmax_cross_entropy"
    if node.output in values.outputs and values.net.loss in (within, "softmax_cross_entropy"):
        node.expect("axis", -1, -1, rank - 1)
        values.net.loss = "softmax_cross_entropy"
        return x
    if axis == 0 and values.has_batch(x):
        raise UnsupportedError(f"its axis is 0: {BATCH}")
    y = values.net.softmax(node.name, x, axis)
    return y if node.kind == "Softmax" else values.builder.op("log", node.name, (y,))


@onnx_rule("LeakyRelu")
def _leaky_relu(node: OnnxNode, values: Values) -> str:
    slope = decimal(node.attributes.get("alpha", 0.01))
    return values.builder.op(
        "leaky_relu", node.name, (values.tensor(node.inputs[0]),), {"slope": slope}
    )


@onnx_rule("Elu")
def _elu(node: OnnxNode, values: Values) -> str:
    alpha = decimal(node.attributes.get("alpha", 1.0))
    return values.builder.op("elu", node.name, (values.tensor(node.inputs[0]),), {"alpha": alpha})


@onnx_rule("Gelu")
def _gelu(node: OnnxNode, values: Values) -> str:
    node.expect("approximate", "none", "none", "tanh")
    kind = "gelu_tanh" if node.attributes.get("approximate") == "tanh" else "gelu"
    return values.builder.op(kind, node.name, (values.tensor(node.inputs[0]),))


@onnx_rule("HardSigmoid")
def _hard_sigmoid(node: OnnxNode, values: Values) -> str:
    alpha, beta = (decimal(node.attributes.get(n, d)) for n, d in (("alpha", 0.2), ("beta", 0.5)))
    net, x = values.net, values.tensor(node.inputs[0])
    if abs(alpha - 1 / 6) < 1e-6 and beta == 0.5:  # PyTorch's
        return values.builder.op("hard_sigmoid", node.name, (x,))
    return net.clip(node.name, net.shift(node.name, net.scale(node.name, x, alpha), beta), 0, 1)


@onnx_rule("PRelu")
def _prelu(node: OnnxNode, values: Values) -> str:
    x, slopes = values.tensor(node.inputs[0]), values.layer_weight(node.inputs[1])
    return values.net.prelu(node.name, x, slopes)


@onnx_rule("Selu")
def _selu(node: OnnxNode, values: Values) -> str:
    alpha = decimal(node.attributes.get("alpha", 1.67326319217681884765625))
    gamma = decimal(node.attributes.get("gamma", 1.05070102214813232421875))
    inputs = (values.tensor(node.inputs[0]),)
    y = values.builder.op("elu", node.name, inputs, {"alpha": alpha})
    return values.net.scale(node.name, y, gamma)


@onnx_rule("Celu")
def _celu(node: OnnxNode, values: Values) -> str:
    alpha = decimal(node.attributes.get("alpha", 1.0))
    inner = values.net.scale(node.name, values.tensor(node.inputs[0]), 1 / alpha)
    y = values.builder.op("elu", node.name, (inner,), {"alpha": 1.0})
    return values.net.scale(node.name, y, alpha)


@onnx_rule("Mish")
def _mish(node: OnnxNode, values: Values) -> str:
    return values.net.mish(node.name, values.tensor(node.inputs[0]))
