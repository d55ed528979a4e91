# SPDX-License-Identifier: Apache-2.0
"""One rule per ATen operator: how it is said in poetfw's own operators.

A rule is a function whose parameters behind the call are the operator's arguments, by ATen's names
and with ATen's defaults: an argument that a rule does not have, or of another type, is refused
before the rule runs. It returns what the outputs stand for, in their order, or the only one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from pydantic import validate_call

from poetfw.importers.network import HIDDEN, Pair
from poetfw.importers.recurrence import Cell, Direction, gru, lstm, plain, run_layers
from poetfw.importers.refusal import UnsupportedError
from poetfw.importers.torch_export.calls import (
    CHECKED,
    Call,
    Live,
    Result,
    Value,
    axes_of,
    axis_of,
)
from poetfw.importers.torch_export.constants import FILLED
from poetfw.importers.torch_export.file import Weight
from poetfw.ops import Shape

Rule = Callable[..., Result | Weight | tuple[Result, ...]]
Ints = tuple[int, ...]
Number = int | float

RULES: dict[str, Rule] = {}
"""Every ATen operator that is understood, by its name and overload."""
VIEWS: set[str] = set()
"""Those whose result may lie in the bytes of their first argument."""
STRETCHING = ("expand.default", "repeat.default")
"""Those that may give the batch's axis to what has none."""
RESHAPING = (
    *("view.default", "reshape.default", "flatten.using_ints", "unflatten.int"),
    *STRETCHING,
    *FILLED,
)
"""Those whose result has the shape that `Call.results` says."""

_Rule = TypeVar("_Rule", bound=Rule)


def _aten(*targets: str, view: bool = False) -> Callable[[_Rule], _Rule]:
    """Makes a function the rule of operators.

    Raises:
        ValueError: one of them has a rule.
    """

    def register(rule: _Rule) -> _Rule:
        checked = validate_call(config=CHECKED)(rule)
        for target in targets:
            if target in RULES:
                raise ValueError(f"{target} has a rule already")
            RULES[target] = checked
            if view:
                VIEWS.add(target)
        return rule

    return register


# Layers -----------------------------------------------------------------------------------------


@_aten("linear.default")
def _linear(call: Call, input: Value, weight: Value, bias: Value | None = None) -> str:
    return call.net.linear(call.name, call.tensor(input), call.tensor(weight), _bias(call, bias))


def _bias(call: Call, bias: Value | None) -> str | None:
    return None if bias is None else call.tensor(bias)


@_aten("addmm.default")
def _addmm(
    call: Call, self: Value, mat1: Value, mat2: Value, beta: Number = 1, alpha: Number = 1
) -> str:
    net = call.net
    product = net.scale(call.name, _matmul(call, mat1, mat2), float(alpha))
    return net.add(call.name, product, net.scale(call.name, call.tensor(self), float(beta)))


@_aten("conv1d.default", "conv2d.default")
def _conv(
    call: Call,
    input: Value,
    weight: Value,
    bias: Value | None = None,
    stride: Ints = (1,),
    padding: Ints = (0,),
    dilation: Ints = (1,),
    groups: int = 1,
) -> str:
    low, left = _pair(padding, call.shape(weight), 0)
    return _convolve(call, input, weight, bias, stride, (low, left, low, left), dilation, groups)


@_aten("conv1d.padding", "conv2d.padding")
def _conv_with_mode(
    call: Call,
    input: Value,
    weight: Value,
    bias: Value | None = None,
    stride: Ints = (1,),
    padding: str = "valid",
    dilation: Ints = (1,),
    groups: int = 1,
) -> str:
    if padding not in ("valid", "same"):
        raise UnsupportedError(f"padding is {padding!r}")
    edges = [0, 0, 0, 0]
    if padding == "same":  # the odd one comes at the end
        kernel = _image_of(call.shape(weight))[2:]
        for axis, (k, d) in enumerate(
            zip(kernel, _pair(dilation, call.shape(weight), 1), strict=True)
        ):
            total = (k - 1) * d
            edges[axis], edges[axis + 2] = total // 2, total - total // 2
    top, left, bottom, right = edges
    return _convolve(
        call, input, weight, bias, stride, (top, left, bottom, right), dilation, groups
    )


def _convolve(
    call: Call,
    input: Value,
    weight: Value,
    bias: Value | None,
    stride: Ints,
    edges: tuple[int, int, int, int],
    dilation: Ints,
    groups: int,
) -> str:
    shape = call.shape(weight)
    y = call.net.conv(
        call.name,
        _image(call, input),
        call.weight(weight, _image_of(shape)),
        _bias(call, bias),
        stride=_pair(stride, shape, 1),
        padding=edges,
        dilation=_pair(dilation, shape, 1),
        groups=groups,
    )
    return _as_ranked(call, y, input)


@_aten("conv_transpose1d.default", "conv_transpose2d.input")
def _conv_transpose(
    call: Call,
    input: Value,
    weight: Value,
    bias: Value | None = None,
    stride: Ints = (1,),
    padding: Ints = (0,),
    output_padding: Ints = (0,),
    groups: int = 1,
    dilation: Ints = (1,),
) -> str:
    shape = call.shape(weight)
    y = call.net.conv_transpose(
        call.name,
        _image(call, input),
        call.weight(weight, _image_of(shape)),
        _bias(call, bias),
        stride=_pair(stride, shape, 1),
        padding=_pair(padding, shape, 0),
        more=_pair(output_padding, shape, 0),
        dilation=_pair(dilation, shape, 1),
        groups=groups,
    )
    return _as_ranked(call, y, input)


@_aten("batch_norm.default")
def _batch_norm(
    call: Call,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> str:
    net, x = call.net, call.tensor(input)
    shape = net.shape(x)
    batch, channels, *rest = shape
    if not isinstance(running_mean, Weight) or not isinstance(running_var, Weight):
        raise UnsupportedError("it keeps no running statistics, which evaluation needs")
    if running_var.values.astype(float).min() < 0:
        raise UnsupportedError("its running variance is negative")
    inputs = (
        net.reshape(
            call.name, x, (batch, channels, math.prod(rest[:-1]), *rest[-1:]) if rest else shape
        ),
        call.pair(weight, bias, channels),
        call.pair(running_mean, running_var, channels),
    )
    attributes = {"eps": eps, "momentum": momentum} | ({} if training else {"frozen": 1})
    y = net.builder.op("batch_norm", call.name, inputs, attributes)
    return net.reshape(call.name, y, shape)


@_aten("layer_norm.default")
def _layer_norm(
    call: Call,
    input: Value,
    normalized_shape: Ints,
    weight: Value | None = None,
    bias: Value | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> str:
    length = math.prod(normalized_shape)
    affine = call.pair(weight, bias, length)
    return call.net.normalize(call.name, call.tensor(input), affine, eps=eps, groups=1, inner=1)


@_aten("group_norm.default")
def _group_norm(
    call: Call,
    input: Value,
    num_groups: int,
    weight: Value | None = None,
    bias: Value | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> str:
    _, channels, *rest = call.shape(input)
    affine = call.pair(weight, bias, channels)
    return call.net.normalize(
        call.name,
        call.tensor(input),
        affine,
        eps=eps,
        groups=num_groups,
        inner=math.prod(rest),
    )


@_aten("instance_norm.default")
def _instance_norm(
    call: Call,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> str:
    if not use_input_stats or running_mean is not None or running_var is not None:
        raise UnsupportedError("it keeps running statistics, which poetfw has for batch norm only")
    return _group_norm(call, input, call.shape(input)[1], weight, bias, eps)


@_aten("embedding.default")
def _embedding(
    call: Call,
    weight: Value,
    indices: Value,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> str:
    if scale_grad_by_freq:
        raise UnsupportedError("it has scale_grad_by_freq, which poetfw has not")
    if not isinstance(indices, Live):
        ids = indices.values
        if padding_idx >= 0:
            raise UnsupportedError("it looks up ids that are constant, and has padding_idx")
        if ids.dtype.kind != "i" or not np.array_equal(ids.reshape(-1), np.arange(ids.size)):
            raise UnsupportedError("it looks up ids that are constant, and not 0, 1, 2, …")
        rows = call.net.part(call.name, call.tensor(weight), 0, 0, ids.size)
        return call.net.reshape(call.name, rows, (*ids.shape, call.shape(weight)[1]))
    attributes = {"padding": padding_idx} if padding_idx >= 0 else {}
    inputs = (indices.tensor, call.tensor(weight))
    return call.net.builder.op("embedding", call.name, inputs, attributes)


@_aten("dropout.default", view=True)
def _dropout(
    call: Call, *, input: Value | None = None, self: Value | None = None, p: float, train: bool
) -> str:
    return _dropped(call, input or self, p, train)


@_aten("feature_dropout.default", view=True)
def _feature_dropout(
    call: Call, *, input: Value | None = None, self: Value | None = None, p: float, train: bool
) -> str:
    """Whole channels: all of a sample's axes behind them are dropped as one."""
    return _dropped(call, input or self, p, train, channels=True)


@_aten("alpha_dropout.default", view=True)
def _alpha_dropout(
    call: Call, *, input: Value | None = None, self: Value | None = None, p: float, train: bool
) -> str:
    if train and p != 0:
        raise UnsupportedError("it is alpha dropout: poetfw has dropout of numbers and of channels")
    return _dropped(call, input or self, p, train)


def _dropped(
    call: Call, x: Value | None, share: float, train: bool, *, channels: bool = False
) -> str:
    """Dropout; where it works in place, ATen calls its input `self`."""
    if x is None:
        raise UnsupportedError("it has no input")
    run = math.prod(call.shape(x)[2:]) if channels else 1
    return call.net.dropout(call.name, call.tensor(x), _in_training(call, share, train), run)


def _in_training(call: Call, share: float, train: bool) -> float:
    """What is dropped in training: nothing, and a warning, where the mode drops nothing."""
    if not train and share != 0:
        call.net.warnings.append(
            f"{call.name!r} has dropout in evaluation mode: nothing is dropped in training"
        )
    return share if train else 0.0


# Pooling ----------------------------------------------------------------------------------------


@_aten("max_pool1d.default", "max_pool2d.default")
def _max_pool(
    call: Call,
    self: Value,
    kernel_size: Ints,
    stride: Ints = (),
    padding: Ints = (0,),
    dilation: Ints = (1,),
    ceil_mode: bool = False,
) -> str:
    if set(dilation) != {1}:
        raise UnsupportedError(f"its dilation is {list(dilation)}, but must be 1")
    return _pool(call, "max_pool2d", self, kernel_size, stride, padding, ceil_mode)


@_aten("avg_pool1d.default", "avg_pool2d.default")
def _avg_pool(
    call: Call,
    self: Value,
    kernel_size: Ints,
    stride: Ints = (),
    padding: Ints = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> str:
    if divisor_override is not None:
        raise UnsupportedError("it has a divisor_override")
    return _pool(
        call, "avg_pool2d", self, kernel_size, stride, padding, ceil_mode, count_include_pad
    )


def _pool(
    call: Call,
    kind: str,
    x: Value,
    kernel: Ints,
    stride: Ints,
    padding: Ints,
    ceil: bool,
    include: bool = True,
) -> str:
    rows, columns = _pair(padding, call.shape(x), 0)
    y = call.net.pool(
        kind,
        call.name,
        _image(call, x),
        kernel=_pair(kernel, call.shape(x), 1),
        stride=_pair(stride or kernel, call.shape(x), 1),
        padding=(rows, columns, rows, columns),
        ceil=ceil,
        include=include,
    )
    return _as_ranked(call, y, x)


@_aten("adaptive_avg_pool1d.default", "adaptive_avg_pool2d.default")
def _adaptive_avg_pool(call: Call, self: Value, output_size: Ints) -> str:
    return _adaptive(call, "avg_pool2d", self, output_size)


@_aten("adaptive_max_pool1d.default", "adaptive_max_pool2d.default")
def _adaptive_max_pool(call: Call, self: Value, output_size: Ints) -> tuple[str, None]:
    return _adaptive(call, "max_pool2d", self, output_size), None


def _adaptive(call: Call, kind: str, x: Value, sizes: Ints) -> str:
    image = _image(call, x)
    y = call.net.adaptive_pool(kind, call.name, image, _pair(sizes, call.shape(x), 1))
    return _as_ranked(call, y, x)


# Pointwise --------------------------------------------------------------------------------------


def _pointwise(target: str, kind: str) -> None:
    @_aten(target)
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
}.items():
    _pointwise(_target, _kind)


@_aten("hardtanh.default")
def _hardtanh(call: Call, self: Value, min_val: Number = -1, max_val: Number = 1) -> str:
    return _clip(call, self, min_val, max_val)


@_aten("clamp.default", "clamp_min.default", "clamp_max.default")
def _clip(call: Call, self: Value, min: Number | None = None, max: Number | None = None) -> str:
    return call.net.clip(call.name, call.tensor(self), min, max)


@_aten("prelu.default")
def _prelu(call: Call, self: Value, weight: Value) -> str:
    channels = math.prod(call.shape(weight))
    rank = len(call.shape(self))
    shape = (channels, *(1,) * (rank - 2)) if rank > 1 else (channels,)
    slope = call.net.reshape(call.name, call.tensor(weight), shape)
    return call.net.prelu(call.name, call.tensor(self), slope)


@_aten("gelu.default")
def _gelu(call: Call, self: Value, approximate: str = "none") -> str:
    if approximate not in ("none", "tanh"):
        raise UnsupportedError(f"approximate is {approximate!r}")
    kind = "gelu" if approximate == "none" else "gelu_tanh"
    return call.net.builder.op(kind, call.name, (call.tensor(self),))


@_aten("leaky_relu.default")
def _leaky_relu(call: Call, self: Value, negative_slope: Number = 0.01) -> str:
    attributes = {"slope": float(negative_slope)}
    return call.net.builder.op("leaky_relu", call.name, (call.tensor(self),), attributes)


@_aten("elu.default")
def _elu(
    call: Call, self: Value, alpha: Number = 1, scale: Number = 1, input_scale: Number = 1
) -> str:
    if input_scale != 1:
        raise UnsupportedError(f"its input_scale is {input_scale:g}")
    y = call.net.builder.op("elu", call.name, (call.tensor(self),), {"alpha": float(alpha)})
    return call.net.scale(call.name, y, float(scale))


@_aten("selu.default")
def _selu(call: Call, self: Value) -> str:
    """Klambauer et al., 2017; the numbers are PyTorch's."""
    return _elu(call, self, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946)


@_aten("celu.default")
def _celu(call: Call, self: Value, alpha: Number = 1) -> str:
    inner = call.net.scale(call.name, call.tensor(self), 1 / alpha)
    y = call.net.builder.op("elu", call.name, (inner,), {"alpha": 1.0})
    return call.net.scale(call.name, y, float(alpha))


@_aten("mish.default")
def _mish(call: Call, self: Value) -> str:
    return call.net.mish(call.name, call.tensor(self))


@_aten("glu.default")
def _glu(call: Call, self: Value, dim: int = -1) -> str:
    first, second = _chunk(call, self, 2, dim)
    gate = call.net.builder.op("sigmoid", call.name, (second,))
    return call.net.multiply(call.name, first, gate)


@_aten("log_sigmoid.default")
def _log_sigmoid(call: Call, self: Value) -> str:
    inner = call.net.scale(call.name, call.tensor(self), -1.0)
    return call.net.scale(call.name, call.net.builder.op("softplus", call.name, (inner,)), -1.0)


@_aten("softplus.default")
def _softplus(call: Call, self: Value, beta: Number = 1, threshold: Number = 20) -> str:
    if threshold < 20:  # from where on its own result is another
        raise UnsupportedError(f"its threshold is {threshold:g}")
    x = call.net.scale(call.name, call.tensor(self), float(beta))
    return call.net.scale(call.name, call.net.builder.op("softplus", call.name, (x,)), 1 / beta)


@_aten("softmax.int")
def _softmax(call: Call, self: Value, dim: int) -> str:
    axis = axis_of(call, self, dim)
    x = call.tensor(self)
    if call.is_output and call.net.loss == "softmax_cross_entropy" and axis == 1:
        return x
    return call.net.softmax(call.name, x, axis)


@_aten("log_softmax.int")
def _log_softmax(call: Call, self: Value, dim: int) -> str:
    """The loss takes logits, and has it within it: behind it, `nll` is cross-entropy."""
    if call.is_output and call.net.loss == "nll" and axis_of(call, self, dim) == 1:
        call.net.loss = "softmax_cross_entropy"
        return call.tensor(self)
    y = _softmax(call, self, dim)
    if y == call.tensor(self):
        return y
    return call.net.builder.op("log", call.name, (y,))


# Arithmetic -------------------------------------------------------------------------------------


@_aten("add.Tensor")
def _add(call: Call, self: Value, other: Value | Number, alpha: Number = 1) -> str:
    x = call.tensor(self)
    if isinstance(other, int | float):
        return call.net.shift(call.name, x, float(other * alpha))
    return call.net.add(call.name, x, call.net.scale(call.name, call.tensor(other), float(alpha)))


@_aten("sub.Tensor")
def _subtract(call: Call, self: Value, other: Value | Number, alpha: Number = 1) -> str:
    return _add(call, self, other, -alpha)


@_aten("rsub.Scalar")
def _subtract_from(call: Call, self: Value, other: Number, alpha: Number = 1) -> str:
    x = call.net.scale(call.name, call.tensor(self), -float(alpha))
    return call.net.shift(call.name, x, float(other))


@_aten("mul.Tensor")
def _multiply(call: Call, self: Value, other: Value | Number) -> str:
    x = call.tensor(self)
    if isinstance(other, int | float):
        return call.net.scale(call.name, x, float(other))
    return call.net.multiply(call.name, x, call.tensor(other))


@_aten("div.Tensor")
def _divide(call: Call, self: Value, other: Value | Number) -> str:
    x = call.tensor(self)
    if isinstance(other, int | float):
        return call.net.scale(call.name, x, 1 / other)
    inverse = call.net.builder.op("reciprocal", call.name, (call.tensor(other),))
    return call.net.multiply(call.name, x, inverse)


@_aten("neg.default")
def _negate(call: Call, self: Value) -> str:
    return call.net.scale(call.name, call.tensor(self), -1.0)


@_aten("pow.Tensor_Scalar")
def _power(call: Call, self: Value, exponent: Number) -> str:
    return call.net.power(call.name, call.tensor(self), float(exponent))


@_aten("rsqrt.default")
def _inverse_root(call: Call, self: Value) -> str:
    root = call.net.builder.op("sqrt", call.name, (call.tensor(self),))
    return call.net.builder.op("reciprocal", call.name, (root,))


@_aten("matmul.default", "mm.default", "bmm.default")
def _product(call: Call, self: Value, other: Value | None = None, mat2: Value | None = None) -> str:
    second = other if other is not None else mat2
    if second is None:
        raise UnsupportedError("it has one operand")
    return _matmul(call, self, second)


def _matmul(call: Call, first: Value, second: Value) -> str:
    return call.net.matmul(call.name, call.tensor(first), call.tensor(second))


@_aten("einsum.default")
def _einsum(call: Call, equation: str, tensors: tuple[Value, ...], path: Ints | None = None) -> str:
    return call.net.einsum(call.name, equation, [call.tensor(value) for value in tensors])


@_aten("mean.dim")
def _mean(call: Call, self: Value, dim: Ints | None, keepdim: bool = False) -> str:
    return _reduce(call, self, dim, keepdim, total=False)


@_aten("sum.dim_IntList")
def _sum(call: Call, self: Value, dim: Ints | None, keepdim: bool = False) -> str:
    return _reduce(call, self, dim, keepdim, total=True)


@_aten("amax.default")
def _largest(call: Call, self: Value, dim: Ints = (), keepdim: bool = False) -> str:
    axes = axes_of(call, self, dim or range(len(call.shape(self))))
    return call.net.largest(call.name, call.tensor(self), axes, keep=keepdim)


@_aten("amin.default")
def _smallest(call: Call, self: Value, dim: Ints = (), keepdim: bool = False) -> str:
    axes = axes_of(call, self, dim or range(len(call.shape(self))))
    negative = call.net.scale(call.name, call.tensor(self), -1.0)
    return call.net.scale(
        call.name, call.net.largest(call.name, negative, axes, keep=keepdim), -1.0
    )


@_aten("max.dim")
def _largest_of(call: Call, self: Value, dim: int, keepdim: bool = False) -> tuple[str, Result]:
    return _largest(call, self, (dim,), keepdim), None


@_aten("min.dim")
def _smallest_of(call: Call, self: Value, dim: int, keepdim: bool = False) -> tuple[str, Result]:
    return _smallest(call, self, (dim,), keepdim), None


@_aten("var.correction")
def _variance(
    call: Call,
    self: Value,
    dim: Ints | None = None,
    correction: Number | None = None,
    keepdim: bool = False,
) -> str:
    net, x = call.net, call.tensor(self)
    axes = axes_of(call, self, dim or range(len(call.shape(self))))
    count = math.prod(call.shape(self)[axis] for axis in axes)
    less = 1 if correction is None else correction
    if count <= less:
        raise UnsupportedError(f"it divides by {count} - {less:g}")
    centre = net.scale(call.name, net.mean(call.name, x, axes, keep=True), -1.0)
    square = net.builder.op("square", call.name, (net.add(call.name, x, centre),))
    return net.scale(
        call.name, net.mean(call.name, square, axes, keep=keepdim), count / (count - less)
    )


@_aten("std.correction")
def _deviation(
    call: Call,
    self: Value,
    dim: Ints | None = None,
    correction: Number | None = None,
    keepdim: bool = False,
) -> str:
    variance = _variance(call, self, dim, correction, keepdim)
    return call.net.builder.op("sqrt", call.name, (variance,))


@_aten("linalg_vector_norm.default")
def _length(
    call: Call, self: Value, ord: Number = 2, dim: Ints | None = None, keepdim: bool = False
) -> str:
    kinds = {1: "abs", 2: "square"}
    if ord not in kinds:
        raise UnsupportedError(f"its order is {ord:g}; poetfw has 1 and 2")
    axes = axes_of(call, self, dim or range(len(call.shape(self))))
    each = call.net.builder.op(kinds[int(ord)], call.name, (call.tensor(self),))
    total = call.net.mean(call.name, each, axes, keep=keepdim, total=True)
    return total if ord == 1 else call.net.builder.op("sqrt", call.name, (total,))


@_aten("norm.ScalarOpt_dim")
def _length_of(call: Call, self: Value, p: Number | None, dim: Ints, keepdim: bool = False) -> str:
    return _length(call, self, 2 if p is None else p, dim, keepdim)


@_aten("rms_norm.default")
def _rms_norm(
    call: Call,
    input: Value,
    normalized_shape: Ints,
    weight: Value | None = None,
    eps: float | None = None,
) -> str:
    """Zhang and Sennrich, 2019."""
    net, x = call.net, call.tensor(input)
    rank = len(call.shape(input))
    axes = range(rank - len(normalized_shape), rank)
    square = net.mean(call.name, net.builder.op("square", call.name, (x,)), axes, keep=True)
    added = float(np.finfo(np.float32).eps) if eps is None else eps
    root = net.builder.op("sqrt", call.name, (net.shift(call.name, square, added),))
    y = net.multiply(call.name, x, net.builder.op("reciprocal", call.name, (root,)))
    return y if weight is None else net.multiply(call.name, y, call.tensor(weight))


@_aten("_weight_norm.default")
def _weight_norm(call: Call, v: Value, g: Value, dim: int = 0) -> str:
    """V · g / |v|, of each position along an axis (Salimans and Kingma, 2016); -1 is of all."""
    kept = None if dim == -1 else axis_of(call, v, dim)
    axes = [axis for axis in range(len(call.shape(v))) if axis != kept]
    length = _length(call, v, 2, tuple(axes), True)
    inverse = call.net.builder.op("reciprocal", call.name, (length,))
    share = call.net.multiply(call.name, inverse, call.tensor(g))
    return call.net.multiply(call.name, call.tensor(v), share)


@_aten("masked_fill.Scalar")
def _masked_fill(call: Call, self: Value, mask: Value, value: Number) -> str:
    """X where the mask, a constant, is false, and elsewhere the number; infinity is HIDDEN."""
    if isinstance(mask, Live) or mask.values.dtype != np.bool_:
        raise UnsupportedError("its mask is no constant of true and false")
    net, x = call.net, call.tensor(self)
    hidden = mask.values.astype(np.float32)
    kept = net.constant(f"{call.name}.kept", 1 - hidden)
    number = max(min(float(value), -HIDDEN), HIDDEN)
    filled = net.constant(f"{call.name}.filled", hidden * np.float32(number))
    return net.add(call.name, net.multiply(call.name, x, kept), filled)


def _reduce(call: Call, x: Value, dims: Ints | None, keep: bool, *, total: bool) -> str:
    axes = axes_of(call, x, dims or range(len(call.shape(x))))
    return call.net.mean(call.name, call.tensor(x), axes, keep=keep, total=total)


# Shapes -----------------------------------------------------------------------------------------


@_aten("contiguous.default", "alias.default", "to.dtype", view=True)
@_aten("clone.default", "lift_fresh_copy.default")
def _same(call: Call, self: Value, copy: bool = False) -> str:
    return call.tensor(self)


@_aten("flatten.using_ints", view=True)
def _flatten(call: Call, self: Value, start_dim: int = 0, end_dim: int = -1) -> str:
    return call.net.reshape(call.name, call.tensor(self), call.results[0])


@_aten("unflatten.int", view=True)
def _unflatten(call: Call, self: Value, dim: int, sizes: Ints) -> str:
    return call.net.reshape(call.name, call.tensor(self), call.results[0])


@_aten("view.default", view=True)
def _view(call: Call, self: Value, size: Ints) -> str:
    return _reshaped(call, self, size)


@_aten("reshape.default", view=True)
def _reshape(call: Call, self: Value, shape: Ints) -> str:
    return _reshaped(call, self, shape)


def _reshaped(call: Call, value: Value, target: Sequence[int]) -> str:
    """The shape that the file gives the result, for the batch that was asked for."""
    (shape,) = call.sizes
    if len(shape) != len(target) or any(
        wanted not in (-1, extent) for wanted, extent in zip(target, shape, strict=True)
    ):
        raise UnsupportedError(f"its shape {list(target)} is not that of its result, {list(shape)}")
    return call.net.reshape(call.name, call.tensor(value), call.results[0])


@_aten("squeeze.dim", view=True)
def _squeeze(call: Call, self: Value, dim: int) -> str:
    return _squeeze_all(call, self, (dim,))


@_aten("squeeze.dims", view=True)
def _squeeze_all(call: Call, self: Value, dim: Ints) -> str:
    axes = axes_of(call, self, dim)
    shape = [e for axis, e in enumerate(call.shape(self)) if axis not in axes or e != 1]
    return call.net.reshape(call.name, call.tensor(self), shape)


@_aten("unsqueeze.default", view=True)
def _unsqueeze(call: Call, self: Value, dim: int) -> str:
    shape = list(call.shape(self))
    if not -len(shape) - 1 <= dim <= len(shape):
        raise UnsupportedError(f"axis {dim} does not exist")
    shape.insert(dim % (len(shape) + 1), 1)
    return call.net.reshape(call.name, call.tensor(self), shape)


@_aten("permute.default", view=True)
def _permute(call: Call, self: Value, dims: Ints) -> str:
    axes = axes_of(call, self, dims)
    if len(axes) != len(call.shape(self)):
        raise UnsupportedError(f"its axes {list(dims)} are not all of its axes")
    return call.net.permute(call.name, call.tensor(self), axes)


@_aten("transpose.int", view=True)
def _transpose(call: Call, self: Value, dim0: int, dim1: int) -> str:
    first, second = axis_of(call, self, dim0), axis_of(call, self, dim1)
    axes = list(range(len(call.shape(self))))
    axes[first], axes[second] = second, first
    return call.net.permute(call.name, call.tensor(self), axes)


@_aten("t.default", "numpy_T.default", view=True)
def _turn(call: Call, self: Value) -> str:
    if len(call.shape(self)) != 2:
        raise UnsupportedError("it is no matrix")
    return _transpose(call, self, 0, 1)


@_aten("mT.default", view=True)
def _turn_matrices(call: Call, self: Value) -> str:
    return _transpose(call, self, -2, -1)


@_aten("select.int", view=True)
def _select(call: Call, self: Value, dim: int, index: int) -> str:
    shape, axis = call.shape(self), axis_of(call, self, dim)
    if not -shape[axis] <= index < shape[axis]:
        raise UnsupportedError(f"position {index} does not exist in shape {list(shape)}")
    one = call.net.part(call.name, call.tensor(self), axis, index % shape[axis], 1)
    return call.net.reshape(call.name, one, (*shape[:axis], *shape[axis + 1 :]))


@_aten("slice.Tensor", view=True)
def _slice(
    call: Call,
    self: Value,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> str:
    axis = axis_of(call, self, dim)
    positions = range(*slice(start, end, step).indices(call.shape(self)[axis]))
    return call.net.part(call.name, call.tensor(self), axis, positions.start, len(positions), step)


@_aten("chunk.default", view=True)
def _chunk(call: Call, self: Value, chunks: int, dim: int = 0) -> tuple[str, ...]:
    extent = call.shape(self)[axis_of(call, self, dim)]
    return _split(call, self, -(-extent // max(chunks, 1)), dim)


@_aten("split.Tensor", view=True)
def _split(call: Call, self: Value, split_size: int, dim: int = 0) -> tuple[str, ...]:
    extent = call.shape(self)[axis_of(call, self, dim)]
    if not 1 <= split_size:
        raise UnsupportedError(f"its parts have {split_size} positions")
    starts = range(0, extent, split_size)
    return _split_to(call, self, tuple(min(split_size, extent - start) for start in starts), dim)


@_aten("split_with_sizes.default", view=True)
def _split_to(call: Call, self: Value, split_sizes: Ints, dim: int = 0) -> tuple[str, ...]:
    axis, parts, start = axis_of(call, self, dim), [], 0
    for length in split_sizes:
        parts.append(call.net.part(call.name, call.tensor(self), axis, start, length))
        start += length
    return tuple(parts)


@_aten("unbind.int", view=True)
def _unbind(call: Call, self: Value, dim: int = 0) -> tuple[str, ...]:
    extent = call.shape(self)[axis_of(call, self, dim)]
    return tuple(_select(call, self, dim, index) for index in range(extent))


@_aten("cat.default")
def _cat(call: Call, tensors: tuple[Value, ...], dim: int = 0) -> str:
    axis = axis_of(call, tensors[0], dim)
    return call.net.concat(call.name, [call.tensor(value) for value in tensors], axis)


@_aten("stack.default")
def _stack(call: Call, tensors: tuple[Value, ...], dim: int = 0) -> str:
    rank = len(call.shape(tensors[0]))
    if not -rank - 1 <= dim <= rank:
        raise UnsupportedError(f"axis {dim} does not exist")
    parts = [_unsqueeze(call, value, dim) for value in tensors]
    return call.net.concat(call.name, parts, dim % (rank + 1))


@_aten("expand.default", view=True)
def _expand(call: Call, self: Value, size: Ints) -> str:
    shape = call.shape(self)
    if len(size) < len(shape):
        raise UnsupportedError(f"shape {list(shape)} does not expand to {list(size)}")
    return call.net.stretch(call.name, call.tensor(self), call.results[0])


@_aten("expand_as.default", view=True)
def _expand_as(call: Call, self: Value, other: Value) -> str:
    return call.net.stretch(call.name, call.tensor(self), call.shape(other))


@_aten("repeat.default")
def _repeat(call: Call, self: Value, repeats: Ints) -> str:
    """All of x so often along each axis: an axis of its own for each, stretched."""
    shape = call.shape(self)
    if len(repeats) < len(shape):
        raise UnsupportedError(f"it repeats {len(shape)} axes by {list(repeats)}")
    result = call.results[0]
    seen = (1,) * (len(repeats) - len(shape)) + shape
    pairs = [(1, extent) for extent in seen]
    often = [(whole // extent, extent) for whole, extent in zip(result, seen, strict=True)]
    x = call.net.reshape(call.name, call.tensor(self), sum(pairs, ()))
    return call.net.reshape(call.name, call.net.stretch(call.name, x, sum(often, ())), result)


@_aten("unfold.default", view=True)
def _unfold(call: Call, self: Value, dimension: int, size: int, step: int) -> str:
    return call.net.windows(
        call.name, call.tensor(self), axis_of(call, self, dimension), size, step
    )


@_aten("narrow.default", view=True)
def _narrow(call: Call, self: Value, dim: int, start: int, length: int) -> str:
    axis = axis_of(call, self, dim)
    first = range(call.shape(self)[axis])[start]
    return call.net.part(call.name, call.tensor(self), axis, first, length)


@_aten("movedim.int", view=True)
def _move(call: Call, self: Value, source: int, destination: int) -> str:
    axes = list(range(len(call.shape(self))))
    axes.insert(axis_of(call, self, destination), axes.pop(axis_of(call, self, source)))
    return call.net.permute(call.name, call.tensor(self), axes)


@_aten("roll.default")
def _roll(call: Call, self: Value, shifts: Ints, dims: Ints = ()) -> str:
    x = call.tensor(self)
    if len(shifts) != len(dims):
        raise UnsupportedError("it rolls all elements as one row")
    for shift, dim in zip(shifts, dims, strict=True):
        axis = axis_of(call, self, dim)
        extent = call.net.shape(x)[axis]
        if by := shift % extent:
            parts = [
                call.net.part(call.name, x, axis, extent - by, by),
                call.net.part(call.name, x, axis, 0, extent - by),
            ]
            x = call.net.concat(call.name, parts, axis)
    return x


@_aten("flip.default")
def _flip(call: Call, self: Value, dims: Ints) -> str:
    x = call.tensor(self)
    for axis in axes_of(call, self, dims):
        extent = call.net.shape(x)[axis]
        x = call.net.part(call.name, x, axis, extent - 1, extent, -1) if extent > 1 else x
    return x


@_aten("pad.default")
def _pad(
    call: Call, self: Value, pad: Ints, mode: str = "constant", value: Number | None = None
) -> str:
    rank = len(call.shape(self))
    if len(pad) % 2 or len(pad) > 2 * rank:
        raise UnsupportedError(f"its widths are {list(pad)}")
    if value not in (None, 0):
        raise UnsupportedError(f"it pads with {value:g}; poetfw pads with 0")
    widths: dict[int, Pair] = {
        rank - 1 - i // 2: (pad[i], pad[i + 1]) for i in range(0, len(pad), 2)
    }
    return call.net.pad(call.name, call.tensor(self), widths, mode)


@_aten("pixel_shuffle.default")
def _pixel_shuffle(call: Call, self: Value, upscale_factor: int) -> str:
    x, r = call.tensor(self), upscale_factor
    batch, channels, height, width = _image_of(call.net.shape(x))
    if r < 1 or channels % (r * r):
        raise UnsupportedError(f"{channels} channels do not shuffle by {r}")
    seen = call.net.reshape(call.name, x, (batch, channels // (r * r), r, r, height, width))
    turned = call.net.permute(call.name, seen, (0, 1, 4, 2, 5, 3))
    return call.net.reshape(call.name, turned, (batch, channels // (r * r), height * r, width * r))


@_aten("upsample_nearest1d.vec", "upsample_nearest2d.vec")
def _upsample(
    call: Call,
    input: Value,
    output_size: Ints | None,
    scale_factors: tuple[float, ...] | None,
) -> str:
    sizes = _upsampled(call, input, output_size, scale_factors)
    image = _image(call, input)
    factors = [size / extent for size, extent in zip(sizes, call.net.shape(image)[2:], strict=True)]
    if any(factor != int(factor) for factor in factors):
        raise UnsupportedError(f"its factors are {factors}; poetfw repeats pixels whole times")
    y = call.net.repeat_positions(call.name, image, (int(factors[0]), int(factors[1])))
    return _as_ranked(call, y, input)


@_aten("upsample_linear1d.vec", "upsample_bilinear2d.vec")
def _interpolate(
    call: Call,
    input: Value,
    output_size: Ints | None,
    align_corners: bool,
    scale_factors: tuple[float, ...] | None,
) -> str:
    sizes = _upsampled(call, input, output_size, scale_factors)
    y = call.net.interpolate(call.name, _image(call, input), sizes, corners=align_corners)
    return _as_ranked(call, y, input)


def _upsampled(call: Call, x: Value, sizes: Ints | None, factors: tuple[float, ...] | None) -> Pair:
    """The height and width that an image is brought to."""
    extents = _image_of(call.shape(x))[2:]
    if sizes is not None:
        return _pair(sizes, call.shape(x), 1)
    if factors is None or len(factors) != len(call.shape(x)) - 2:
        raise UnsupportedError("it has neither a size nor factors")
    both = factors if len(factors) == 2 else (1.0, *factors)
    wanted = [extent * factor for extent, factor in zip(extents, both, strict=True)]
    if any(size != int(size) or size < 1 for size in wanted):
        raise UnsupportedError(
            f"its factors are {list(factors)}, which do not come to whole pixels: name a size"
        )
    return int(wanted[0]), int(wanted[1])


# Attention and recurrence -----------------------------------------------------------------------


@_aten("scaled_dot_product_attention.default")
def _attention(
    call: Call,
    query: Value,
    key: Value,
    value: Value,
    attn_mask: Value | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> str:
    if enable_gqa:
        raise UnsupportedError("it has groups of queries")
    net, name = call.net, call.name
    shape = call.shape(query)
    factor = 1 / math.sqrt(shape[-1]) if scale is None else scale
    q = net.scale(f"{name}.scale", call.tensor(query), factor)
    k = call.tensor(key)
    axes = list(range(len(net.shape(k))))
    axes[-2:] = axes[-1], axes[-2]
    scores = net.matmul(f"{name}.scores", q, net.permute(f"{name}.key", k, axes))
    if is_causal:
        rows, columns = net.shape(scores)[-2:]
        mask = np.where(np.tril(np.ones((rows, columns))), 0, HIDDEN).astype(np.float32)
        scores = net.add(f"{name}.mask", scores, net.constant(f"{name}.causal", mask))
    if attn_mask is not None:
        scores = net.add(f"{name}.mask", scores, call.tensor(_additive(attn_mask)))
    shares = net.softmax(f"{name}.softmax", scores, len(axes) - 1)
    return net.matmul(name, net.dropout(f"{name}.dropout", shares, dropout_p), call.tensor(value))


def _additive(mask: Value) -> Value:
    """A mask to add: one of true and false hides where it is false."""
    if isinstance(mask, Live) or mask.values.dtype != np.bool_:
        return mask
    return Weight((), np.where(mask.values, 0, HIDDEN).astype(np.float32))


@_aten("lstm.input")
def _lstm(
    call: Call,
    input: Value,
    hx: tuple[Value, ...],
    params: tuple[Value, ...],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Result, ...]:
    layers = _Layers(params, has_biases, num_layers, bidirectional, hx)
    return layers.run(call, lstm(), input, batch_first, dropout, train)


def _with_one_state(target: str, cell: Cell) -> None:
    """The rule of a recurrent network whose cells pass on one state."""

    @_aten(target)
    def rule(
        call: Call,
        input: Value,
        hx: Value,
        params: tuple[Value, ...],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> tuple[Result, ...]:
        layers = _Layers(params, has_biases, num_layers, bidirectional, (hx,))
        return layers.run(call, cell, input, batch_first, dropout, train)[:2]


_with_one_state("gru.input", gru())
_with_one_state("rnn_tanh.input", plain("tanh"))
_with_one_state("rnn_relu.input", plain("relu"))


def _single(target: str, cell: Cell) -> None:
    """The rule of a cell that its author calls step by step."""

    @_aten(target)
    def rule(
        call: Call,
        input: Value,
        hx: Value | tuple[Value, ...],
        w_ih: Value,
        w_hh: Value,
        b_ih: Value | None = None,
        b_hh: Value | None = None,
    ) -> Result | tuple[Result, ...]:
        net, name = call.net, call.name
        states = hx if isinstance(hx, tuple) else (hx,)
        h, *c = map(call.tensor, states)
        x = net.linear(f"{name}.input", call.tensor(input), call.tensor(w_ih), _bias(call, b_ih))
        product = net.linear(f"{name}.product", h, call.tensor(w_hh), _bias(call, b_hh))
        both = cell.step(net, name, x, product, h, c[0] if c else h)
        return both if c else both[0]


_single("lstm_cell.default", lstm())
_single("gru_cell.default", gru())
_single("rnn_tanh_cell.default", plain("tanh"))
_single("rnn_relu_cell.default", plain("relu"))


@dataclass(frozen=True)
class _Layers:
    """The arguments of a recurrent operator: each layer's and direction's weights and starts."""

    params: tuple[Value, ...]
    has_biases: bool
    layers: int
    bidirectional: bool
    starts: tuple[Value, ...]

    def run(
        self, call: Call, cell: Cell, x: Value, batch_first: bool, dropout: float, train: bool
    ) -> tuple[Result, ...]:
        """The sequence, and the last h and c."""
        count, each = 2 if self.bidirectional else 1, 4 if self.has_biases else 2
        if len(self.params) != self.layers * count * each:
            raise UnsupportedError(f"it has {len(self.params)} weights")
        directions = [
            [self._direction(call, layer * count + i, each) for i in range(count)]
            for layer in range(self.layers)
        ]
        return run_layers(
            call.net,
            call.name,
            cell,
            call.tensor(x),
            directions,
            batch_first=batch_first,
            share=_in_training(call, dropout, train) if self.layers > 1 else 0.0,
        )

    def _direction(self, call: Call, index: int, each: int) -> Direction:
        w_x, w_h, *biases = map(call.tensor, self.params[index * each : (index + 1) * each])
        both = (biases[0], biases[1]) if biases else None
        return Direction((w_x, w_h), both, *(self._start(call, s, index) for s in self.starts))

    def _start(self, call: Call, states: Value, index: int) -> str | None:
        if isinstance(states, Weight) and not states.names and not states.values.any():
            return None
        one = call.net.part(call.name, call.tensor(states), 0, index, 1)
        return call.net.reshape(call.name, one, call.shape(states)[1:])


# Images -----------------------------------------------------------------------------------------


def _image_of(shape: Shape) -> Shape:
    """Shape [N, C, L] as [N, C, 1, L]; one of four axes as it is.

    Raises:
        UnsupportedError: it has other axes.
    """
    if len(shape) not in (3, 4):
        raise UnsupportedError(f"shape {list(shape)} is no batch of images or sequences")
    return shape if len(shape) == 4 else (*shape[:2], 1, shape[2])


def _image(call: Call, value: Value) -> str:
    """A batch of images, or of sequences as images of height 1."""
    x = call.tensor(value)
    return call.net.reshape(call.name, x, _image_of(call.net.shape(x)))


def _as_ranked(call: Call, y: str, like: Value) -> str:
    """Images with as many axes as a value has."""
    shape = call.net.shape(y)
    if len(call.shape(like)) == 4:
        return y
    return call.net.reshape(call.name, y, (*shape[:2], shape[3]))


def _pair(numbers: Ints, shape: Shape, neutral: int) -> Pair:
    """Numbers for height and width; one number stands for both, or for the width of a sequence."""
    if len(shape) == 3 and len(numbers) == 1:
        return neutral, numbers[0]
    if len(numbers) not in (1, 2):
        raise UnsupportedError(f"it has {list(numbers)} where 2 numbers are meant")
    return numbers[0], numbers[-1]
