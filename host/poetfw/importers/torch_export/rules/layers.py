# SPDX-License-Identifier: Apache-2.0
"""Rules of layers with weights, norms and dropout."""

from __future__ import annotations

import math

import numpy as np

from poetfw.importers.refusal import UnsupportedError
from poetfw.importers.torch_export.calls import Call, Live, Value
from poetfw.importers.torch_export.expression import Expression, expression
from poetfw.importers.torch_export.file import Weight
from poetfw.importers.torch_export.rules.arithmetic import matmul
from poetfw.importers.torch_export.rules.choices import take
from poetfw.importers.torch_export.rules.images import as_image, as_ranked, image_of, pair_of
from poetfw.importers.torch_export.rules.registry import Ints, Number, aten


@aten("linear.default")
def _linear(call: Call, input: Value, weight: Value, bias: Value | None = None) -> str:
    return call.net.linear(call.name, call.tensor(input), call.tensor(weight), bias_of(call, bias))


def bias_of(call: Call, bias: Value | None) -> str | None:
    """Tensor of a bias; None for a layer without one."""
    return None if bias is None else call.tensor(bias)


@aten("addmm.default")
def _addmm(
    call: Call, self: Value, mat1: Value, mat2: Value, beta: Number = 1, alpha: Number = 1
) -> str:
    net = call.net
    product = net.scale(call.name, matmul(call, mat1, mat2), float(alpha))
    return net.add(call.name, product, net.scale(call.name, call.tensor(self), float(beta)))


@aten("conv1d.default", "conv2d.default")
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
    low, left = pair_of(padding, call.shape(weight), 0)
    return _convolve(call, input, weight, bias, stride, (low, left, low, left), dilation, groups)


@aten("conv1d.padding", "conv2d.padding")
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
    if padding == "same":  # an odd element is added at the end
        kernel = image_of(call.shape(weight))[2:]
        for axis, (k, d) in enumerate(
            zip(kernel, pair_of(dilation, call.shape(weight), 1), strict=True)
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
        as_image(call, input),
        call.weight(weight, image_of(shape)),
        bias_of(call, bias),
        stride=pair_of(stride, shape, 1),
        padding=edges,
        dilation=pair_of(dilation, shape, 1),
        groups=groups,
    )
    return as_ranked(call, y, input)


@aten("conv_transpose1d.default", "conv_transpose2d.input")
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
        as_image(call, input),
        call.weight(weight, image_of(shape)),
        bias_of(call, bias),
        stride=pair_of(stride, shape, 1),
        padding=pair_of(padding, shape, 0),
        more=pair_of(output_padding, shape, 0),
        dilation=pair_of(dilation, shape, 1),
        groups=groups,
    )
    return as_ranked(call, y, input)


@aten("batch_norm.default")
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
    statistics = call.pair(running_mean, running_var, channels)
    if training:
        names = (*running_mean.names[:1], *running_var.names[:1])
        if not net.is_held(*names) or not net.fixed.isdisjoint(names):
            raise UnsupportedError(
                "its running statistics are read before it moves them: put the norm into "
                "evaluation mode, or write the loss without them"
            )
        net.moving.update(names)
    inputs = (
        net.reshape(
            call.name, x, (batch, channels, math.prod(rest[:-1]), *rest[-1:]) if rest else shape
        ),
        call.pair(weight, bias, channels),
        statistics,
    )
    attributes = {"eps": eps, "momentum": momentum} | ({} if training else {"frozen": 1})
    y = net.builder.op("batch_norm", call.name, inputs, attributes)
    return net.reshape(call.name, y, shape)


@aten("layer_norm.default")
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


@aten("group_norm.default")
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


@aten("instance_norm.default")
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


@aten("embedding.default")
def _embedding(
    call: Call,
    weight: Value,
    indices: Value,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> str:
    if scale_grad_by_freq:
        raise UnsupportedError("it has scale_grad_by_freq, which poetfw does not support")
    if not isinstance(indices, Live):
        ids = indices.values
        if padding_idx >= 0 and (ids == padding_idx).any():
            raise UnsupportedError("it looks up padding_idx by ids that are constant")
        rows = take(expression(call, weight), 0, ids.reshape(-1))
        return rows.reshape((*ids.shape, call.shape(weight)[1])).tensor
    attributes = {"padding": padding_idx} if padding_idx >= 0 else {}
    inputs = (call.net.integers(call.name, indices.tensor), call.tensor(weight))
    return call.net.builder.op("embedding", call.name, inputs, attributes)


@aten("embedding_bag.padding_idx", "embedding_bag.default")
def _embedding_bag(
    call: Call,
    weight: Value,
    indices: Value,
    offsets: Value,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Value | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[str, None, None, None]:
    """The sum, mean or maximum (mode 0, 1, 2) over bags of one size, whose offsets are constant."""
    if scale_grad_by_freq or include_last_offset or padding_idx not in (None, -1):
        raise UnsupportedError("it has padding_idx, include_last_offset or scale_grad_by_freq")
    (count,) = call.shape(indices)
    if not isinstance(offsets, Weight) or not isinstance(indices, Live):
        raise UnsupportedError("its bags have sizes that are calculated")
    size = count // max(len(offsets.values), 1)
    if not np.array_equal(offsets.values, np.arange(0, count, max(size, 1))):
        raise UnsupportedError("its bags differ in size: give ids [batch, length]")
    rows = _embedding(call, weight, indices)
    features = call.shape(weight)[1]
    bags = Expression(call, rows).reshape((count // size, size, features))
    if per_sample_weights is not None:
        bags = bags * expression(call, per_sample_weights).reshape((count // size, size, 1))
    if mode == 2:
        return call.net.largest(call.name, bags.tensor, (1,), keep=False), None, None, None
    return (bags.mean([1]) if mode == 1 else bags.sum([1])).tensor, None, None, None


@aten("bilinear.default")
def _bilinear(
    call: Call, input1: Value, input2: Value, weight: Value, bias: Value | None = None
) -> str:
    """X1 times each output's matrix times x2, of vectors on the last axis."""
    lead = call.shape(input1)[:-1]
    rows = [
        call.net.reshape(call.name, call.tensor(each), (math.prod(lead), call.shape(each)[-1]))
        for each in (input1, input2)
    ]
    y = call.net.einsum(call.name, "bi,oij,bj->bo", [rows[0], call.tensor(weight), rows[1]])
    shaped = call.net.reshape(call.name, y, (*lead, call.shape(weight)[0]))
    return shaped if bias is None else call.net.add(call.name, shaped, call.tensor(bias))


@aten("dropout.default", view=True)
def _dropout(
    call: Call, *, input: Value | None = None, self: Value | None = None, p: float, train: bool
) -> str:
    return _dropped(call, input or self, p, train)


@aten("feature_dropout.default", view=True)
def _feature_dropout(
    call: Call, *, input: Value | None = None, self: Value | None = None, p: float, train: bool
) -> str:
    """Dropout of whole channels: all elements of a channel are dropped together."""
    return _dropped(call, input or self, p, train, channels=True)


@aten("alpha_dropout.default", view=True)
def _alpha_dropout(
    call: Call, *, input: Value | None = None, self: Value | None = None, p: float, train: bool
) -> str:
    if train and p != 0:
        raise UnsupportedError("it is alpha dropout: poetfw has dropout of numbers and of channels")
    return _dropped(call, input or self, p, train)


def _dropped(
    call: Call, x: Value | None, share: float, train: bool, *, channels: bool = False
) -> str:
    """Dropout; the in-place variant's input is called `self` in ATen."""
    if x is None:
        raise UnsupportedError("it has no input")
    run = math.prod(call.shape(x)[2:]) if channels else 1
    return call.net.dropout(call.name, call.tensor(x), in_training(call, share, train), run)


def in_training(call: Call, share: float, train: bool) -> float:
    """Dropout probability in training; 0 with a warning if the module is in evaluation mode."""
    if not train and share != 0:
        call.net.warnings.append(
            f"{call.name!r} has dropout in evaluation mode: nothing is dropped in training"
        )
    return share if train else 0.0
