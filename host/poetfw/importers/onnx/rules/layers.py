# SPDX-License-Identifier: Apache-2.0
"""Rules of layers with weights, norms and dropout."""

from __future__ import annotations

import math

import numpy as np

from poetfw.importers.network_tensors import Pair
from poetfw.importers.onnx.nodes import OnnxNode
from poetfw.importers.onnx.roles import Doubt
from poetfw.importers.onnx.rules.images import as_image, as_ranked, pair_of, window_of
from poetfw.importers.onnx.rules.registry import onnx_rule
from poetfw.importers.onnx.rules.shapes import BATCH
from poetfw.importers.onnx.values import Values
from poetfw.importers.refusal import UnsupportedError
from poetfw.ir import Attribute


@onnx_rule("Conv")
def _conv(node: OnnxNode, values: Values) -> str:
    x, weight, kernel = _convolved(node, values)
    stride, padding = window_of(node, values, values.builder.shape(x), kernel)
    y = values.net.conv(
        node.name,
        x,
        weight,
        _channel_bias(node, values, 2),
        stride=stride,
        padding=padding,
        dilation=pair_of(node, values, "dilations", (1, 1)),
        groups=int(node.attributes.get("group", 1)),
    )
    return as_ranked(node, values, y)


@onnx_rule("ConvTranspose")
def _conv_transpose(node: OnnxNode, values: Values) -> str:
    x, weight, kernel = _convolved(node, values)
    node.expect("auto_pad", "NOTSET", "NOTSET", "VALID")
    if "output_shape" in node.attributes:
        raise UnsupportedError("it has an output_shape; poetfw reads output_padding")
    stride, padding = window_of(node, values, values.builder.shape(x), kernel)
    if padding[:2] != padding[2:]:
        raise UnsupportedError(f"its padding is {list(padding)}, but must be alike on both sides")
    groups = int(node.attributes.get("group", 1))
    y = values.net.conv_transpose(
        node.name,
        x,
        weight,
        None if not node.has_input(2) else values.layer_weight(node.inputs[2]),
        stride=stride,
        padding=padding[:2],
        more=pair_of(node, values, "output_padding", (0, 0)),
        dilation=pair_of(node, values, "dilations", (1, 1)),
        groups=groups,
    )
    return as_ranked(node, values, y)


def _convolved(node: OnnxNode, values: Values) -> tuple[str, str, Pair]:
    """Input images of a convolution, its weight, and the kernel's height and width."""
    x = as_image(node, values)
    if not values.is_constant(node.inputs[1]):
        tensor = values.weight(node.inputs[1])
        if values.has_batch(tensor):
            raise UnsupportedError("its weights have the batch on axis 0")
        shape = values.net.shape(tensor)
        whole = shape if len(shape) == 4 else (*shape[:2], 1, *shape[2:])
        tensor = values.net.reshape(node.name, tensor, whole)
    else:
        weight = values.floats(node.inputs[1])
        shape = weight.shape
        whole = shape if weight.ndim == 4 else (*shape[:2], 1, *shape[2:])
        tensor = values.parameter(node.inputs[1:2], weight.reshape(whole), str(whole))
    if len(shape) != len(values.shape(node.inputs[0])):
        raise UnsupportedError(f"its weight has {len(shape)} axes; poetfw convolves images")
    node.expect("kernel_shape", list(shape[2:]), list(shape[2:]))
    return x, tensor, (whole[2], whole[3])


def _channel_bias(node: OnnxNode, values: Values, position: int) -> str | None:
    if not node.has_input(position):
        return None
    return _bias(node.inputs[position], values, values.dims(node.inputs[1])[0])


@onnx_rule("Gemm")
def _gemm(node: OnnxNode, values: Values) -> str:
    net, factors = values.net, [decimal(node.attributes.get(n, 1.0)) for n in ("alpha", "beta")]
    turned = [node.attributes.get(name, 0) != 0 for name in ("transA", "transB")]
    bias = node.inputs[2] if node.has_input(2) else None
    if any(len(values.dims(name)) != 2 for name in node.inputs[:2]):
        raise UnsupportedError("it multiplies matrices of 2 axes only")
    known = values.matrix(node.inputs[1])
    plain = factors == [1, 1] and not turned[0] and not values.is_constant(node.inputs[0])
    if plain and known is not None and (bias is None or _is_row(bias, values, known, turned[1])):
        return _linear(node, values, bias, known, transposed=turned[1])
    pair = []
    for name, turn in zip(node.inputs[:2], turned, strict=True):
        x = values.weight(name)
        pair.append(net.permute(node.name, x, (1, 0)) if turn else x)
    y = net.scale(node.name, net.matmul(node.name, *pair), factors[0])
    if bias is None:
        return y
    return net.add(node.name, y, net.scale(node.name, values.weight(bias), factors[1]))


def _is_row(bias: str, values: Values, weight: tuple[str, bool], transposed: bool) -> bool:
    """True if a bias is a constant with as many numbers as the product has columns."""
    name, turned = weight
    if len(values.dims(name)) != 2:
        return False
    columns = values.dims(name)[1 if turned == transposed else 0]
    return values.is_constant(bias) and values.dims(bias) in ((columns,), (1, columns))


@onnx_rule("MatMul")
def _matmul(node: OnnxNode, values: Values) -> str | None:
    """Product with constant weights, and the addition of a bias if one follows."""
    weight = values.matrix(node.inputs[1])
    if weight is None or values.is_constant(node.inputs[0]) or len(values.dims(weight[0])) != 2:
        return values.net.matmul(node.name, *map(values.weight, node.inputs))
    addition = bias_addition(node, values)
    if addition is None:
        return _linear(node, values, None, weight, transposed=False)
    (bias,) = (name for name in addition.inputs if name != node.output)
    values.bind(addition.output, _linear(node, values, bias, weight, transposed=False))
    values.note_batch(addition)
    return None


def bias_addition(node: OnnxNode, values: Values) -> OnnxNode | None:
    """Addition of a constant that becomes the bias of a product; None without one."""
    addition = values.reader(node.output)
    if node.kind != "MatMul" or addition is None or addition.kind != "Add":
        return None
    others = [name for name in addition.inputs if name != node.output]
    weight = values.matrix(node.inputs[1])
    if len(others) != 1 or weight is None or values.matrix(node.inputs[0]) is not None:
        return None
    return addition if _is_row(others[0], values, weight, False) else None


def _linear(
    node: OnnxNode, values: Values, bias: str | None, weight: tuple[str, bool], *, transposed: bool
) -> str:
    x = values.tensor(node.inputs[0])
    name, turned = weight
    matrix = values.floats(name)
    if matrix.ndim != 2:
        raise UnsupportedError("poetfw multiplies by matrices of 2 axes only")
    if turned == transposed:
        matrix = np.ascontiguousarray(matrix.T)
    tensor = values.parameter((name,), matrix, "" if turned != transposed else "transposed")
    added = None if bias is None else _bias(bias, values, matrix.shape[0])
    return values.net.linear(node.name, x, tensor, added)


def _bias(name: str, values: Values, length: int) -> str:
    if not values.is_constant(name):
        return values.net.reshape(name, values.weight(name), (length,))
    bias = values.floats(name)
    if bias.shape not in ((length,), (1, length)):
        raise UnsupportedError(
            f"its bias {name!r} has shape {list(bias.shape)}, but must have [{length}]"
        )
    return values.parameter((name,), bias.reshape(length))


@onnx_rule("BatchNormalization")
def _batch_norm(node: OnnxNode, values: Values) -> str:
    values.expect_unread(node.outputs[1:])
    x = values.tensor(node.inputs[0])
    mean, variance = (values.floats(name) for name in node.inputs[3:5])
    if not values.dims(node.inputs[1]) == values.dims(node.inputs[2]) == mean.shape or (
        mean.shape != variance.shape or mean.ndim != 1
    ):
        raise UnsupportedError("its scale, bias, mean and variance differ in shape")
    if (variance < 0).any():
        raise UnsupportedError("its running variance is negative")
    shape = values.builder.shape(x)
    seen = (*shape[:2], math.prod(shape[2:-1]), shape[-1]) if len(shape) > 2 else shape
    inputs = (
        values.net.reshape(node.name, x, seen),
        values.channels(node.inputs[1:3], len(mean)),
        values.state(node.inputs[3:5], np.stack([mean, variance])),
    )
    # ONNX's momentum is the weight of the old statistics, poetfw's that of the new batch.
    momentum = 1 - decimal(node.attributes.get("momentum", 0.9))
    eps = decimal(node.attributes.get("epsilon", 1e-5))
    attributes: dict[str, Attribute] = {"eps": eps, "momentum": momentum}
    if _takes_batch_statistics(node, values.opset):
        values.shows_mode = True
    else:
        attributes["frozen"] = 1
        values.keep_statistics(node)
    y = values.builder.op("batch_norm", node.name, inputs, attributes)
    return values.net.reshape(node.name, y, shape)


def _takes_batch_statistics(node: OnnxNode, opset: int) -> bool:
    """True if a batch norm uses its batch's statistics.

    Since opset 14, an attribute says so; before, training mode was marked by more outputs.
    """
    return any(node.outputs[1:]) if opset < 14 else bool(node.attributes.get("training_mode", 0))


def decimal(value: float) -> float:
    """Shortest decimal for a float32 attribute: 0.9, not 0.8999999762."""
    return float(str(np.float32(value)))


@onnx_rule("Dropout")
def _dropout(node: OnnxNode, values: Values) -> str:
    values.expect_unread(node.outputs[1:])
    x = values.tensor(node.inputs[0])
    ratio = values.number(node.inputs[1]) if node.has_input(1) else 0.5
    training = node.has_input(2) and bool(values.array(node.inputs[2]).reshape(-1)[0])
    if training or values.from_torch:  # which writes no dropout that drops nothing
        values.shows_mode = True
        return values.net.dropout(node.name, x, decimal(ratio))
    if ratio != 0 and not values.chosen.train:
        values.doubts.append(Doubt(node.name, "dropout"))
    return x


@onnx_rule("LayerNormalization")
def _layer_norm(node: OnnxNode, values: Values) -> str:
    values.expect_unread(node.outputs[1:])
    x = values.tensor(node.inputs[0])
    shape = values.builder.shape(x)
    axis = range(len(shape))[int(node.attributes.get("axis", -1))]
    if axis == 0 and values.has_batch(x):
        raise UnsupportedError(f"its axis is 0: {BATCH}")
    eps = decimal(node.attributes.get("epsilon", 1e-5))
    affine = _affine(node, values, math.prod(shape[axis:]))
    return values.net.normalize(node.name, x, affine, eps=eps, groups=1, inner=1)


@onnx_rule("InstanceNormalization")
def _instance_norm(node: OnnxNode, values: Values) -> str:
    return _grouped_norm(node, values, values.shape(node.inputs[0])[1])


@onnx_rule("GroupNormalization")
def _group_norm(node: OnnxNode, values: Values) -> str:
    if values.opset < 21:
        raise UnsupportedError("its scale is that of groups, as before opset 21")
    return _grouped_norm(node, values, int(node.attributes["num_groups"]))


def _grouped_norm(node: OnnxNode, values: Values, groups: int) -> str:
    x = values.tensor(node.inputs[0])
    _, channels, *rest = values.builder.shape(x)
    eps = decimal(node.attributes.get("epsilon", 1e-5))
    affine = _affine(node, values, channels)
    inner = math.prod(rest)
    return values.net.normalize(node.name, x, affine, eps=eps, groups=groups, inner=inner)


def _affine(node: OnnxNode, values: Values, length: int) -> str:
    if node.has_input(2):
        return values.channels(node.inputs[1:3], length)
    if values.is_neutral(node.inputs[1], 1):
        neutral = np.repeat(np.array([[1], [0]], np.float32), length, 1)
        return values.net.constant(f"{node.name}.affine", neutral)
    scale = values.net.reshape(node.name, values.weight(node.inputs[1]), (1, length))
    zeros = values.net.constant(f"{node.name}.shift", np.zeros((1, length), np.float32))
    return values.net.concat(node.name, [scale, zeros], 0)
