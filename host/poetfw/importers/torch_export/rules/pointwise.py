# SPDX-License-Identifier: Apache-2.0
"""Rules of activations and softmax."""

from __future__ import annotations

import math

from poetfw.importers.refusal import UnsupportedError
from poetfw.importers.torch_export.calls import Call, Value, axis_of
from poetfw.importers.torch_export.expression import expression
from poetfw.importers.torch_export.rules.registry import Number, aten
from poetfw.importers.torch_export.rules.shapes import chunk
from poetfw.ops.objective import OWN_LOSS


def _pointwise(target: str, kind: str) -> None:
    @aten(target)
    def rule(call: Call, self: Value) -> str:
        return call.net.builder.op(kind, call.name, (call.tensor(self),))


for _target, _kind in {
    "relu.default": "relu",
    "relu6.default": "relu6",
    "sigmoid.default": "sigmoid",
    "tanh.default": "tanh",
    "silu.default": "silu",
    "hardswish.default": "hard_swish",
    "hardsigmoid.default": "hard_sigmoid",
    "exp.default": "exp",
    "log.default": "log",
    "sqrt.default": "sqrt",
    "reciprocal.default": "reciprocal",
    "square.default": "square",
    "abs.default": "abs",
    "erf.default": "erf",
    "sin.default": "sin",
    "cos.default": "cos",
}.items():
    _pointwise(_target, _kind)


@aten("hardtanh.default")
def _hardtanh(call: Call, self: Value, min_val: Number = -1, max_val: Number = 1) -> str:
    return _clip(call, self, min_val, max_val)


@aten("clamp.default", "clamp_min.default", "clamp_max.default", "clip.default")
def _clip(call: Call, self: Value, min: Number | None = None, max: Number | None = None) -> str:
    return call.net.clip(call.name, call.tensor(self), min, max)


@aten("prelu.default")
def _prelu(call: Call, self: Value, weight: Value) -> str:
    channels = math.prod(call.shape(weight))
    rank = len(call.shape(self))
    shape = (channels, *(1,) * (rank - 2)) if rank > 1 else (channels,)
    slope = call.net.reshape(call.name, call.tensor(weight), shape)
    return call.net.prelu(call.name, call.tensor(self), slope)


@aten("gelu.default")
def _gelu(call: Call, self: Value, approximate: str = "none") -> str:
    if approximate not in ("none", "tanh"):
        raise UnsupportedError(f"approximate is {approximate!r}")
    kind = "gelu" if approximate == "none" else "gelu_tanh"
    return call.net.builder.op(kind, call.name, (call.tensor(self),))


@aten("leaky_relu.default")
def _leaky_relu(call: Call, self: Value, negative_slope: Number = 0.01) -> str:
    attributes = {"slope": float(negative_slope)}
    return call.net.builder.op("leaky_relu", call.name, (call.tensor(self),), attributes)


@aten("elu.default")
def _elu(
    call: Call, self: Value, alpha: Number = 1, scale: Number = 1, input_scale: Number = 1
) -> str:
    if input_scale != 1:
        raise UnsupportedError(f"its input_scale is {input_scale:g}")
    y = call.net.builder.op("elu", call.name, (call.tensor(self),), {"alpha": float(alpha)})
    return call.net.scale(call.name, y, float(scale))


@aten("selu.default")
def _selu(call: Call, self: Value) -> str:
    """SELU (Klambauer et al., 2017), with PyTorch's constants."""
    return _elu(call, self, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946)


@aten("celu.default")
def _celu(call: Call, self: Value, alpha: Number = 1) -> str:
    inner = call.net.scale(call.name, call.tensor(self), 1 / alpha)
    y = call.net.builder.op("elu", call.name, (inner,), {"alpha": 1.0})
    return call.net.scale(call.name, y, float(alpha))


@aten("mish.default")
def _mish(call: Call, self: Value) -> str:
    return call.net.mish(call.name, call.tensor(self))


@aten("glu.default")
def _glu(call: Call, self: Value, dim: int = -1) -> str:
    first, second = chunk(call, self, 2, dim)
    gate = call.net.builder.op("sigmoid", call.name, (second,))
    return call.net.multiply(call.name, first, gate)


@aten("log_sigmoid.default")
def _log_sigmoid(call: Call, self: Value) -> str:
    inner = call.net.scale(call.name, call.tensor(self), -1.0)
    return call.net.scale(call.name, call.net.builder.op("softplus", call.name, (inner,)), -1.0)


@aten("softplus.default")
def _softplus(call: Call, self: Value, beta: Number = 1, threshold: Number = 20) -> str:
    if threshold < 20:  # PyTorch's result is linear above the threshold
        raise UnsupportedError(f"its threshold is {threshold:g}")
    x = call.net.scale(call.name, call.tensor(self), float(beta))
    return call.net.scale(call.name, call.net.builder.op("softplus", call.name, (x,)), 1 / beta)


@aten("softmax.int")
def _softmax(call: Call, self: Value, dim: int) -> str:
    axis = axis_of(call, self, dim)
    x = call.tensor(self)
    if call.is_output and call.net.loss == "softmax_cross_entropy" and axis == 1:
        return x
    return call.net.softmax(call.name, x, axis)


@aten("log_softmax.int")
def _log_softmax(call: Call, self: Value, dim: int) -> str:
    """Drop a final log-softmax that the loss includes; after it, `nll` is cross-entropy."""
    if call.is_output and call.net.loss == "nll" and axis_of(call, self, dim) == 1:
        call.net.loss = "softmax_cross_entropy"
        return call.tensor(self)
    if call.net.loss == OWN_LOSS:
        return expression(call, self).log_softmax(axis_of(call, self, dim)).tensor
    y = _softmax(call, self, dim)
    if y == call.tensor(self):
        return y
    return call.net.builder.op("log", call.name, (y,))
