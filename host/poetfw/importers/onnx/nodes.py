# SPDX-License-Identifier: Apache-2.0
"""One rule per ONNX operator: how it is said in poetfw's own operators.

A rule returns the name of the tensor that the node's first output stands for, or None where it
binds its outputs itself. What it cannot say, it refuses with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np
import onnx
from numpy.typing import NDArray

from poetfw.importers.network import Edges, Pair
from poetfw.importers.onnx.values import Node, Values
from poetfw.importers.refusal import UnsupportedError
from poetfw.ops import KINDS

Rule = Callable[[Node, Values], str | None]


def _conv(node: Node, values: Values) -> str:
    x, weight, kernel = _convolved(node, values)
    stride, padding = _window(node, values, values.builder.shape(x), kernel)
    y = values.net.conv(
        node.name,
        x,
        weight,
        _channel_bias(node, values, 2),
        stride=stride,
        padding=padding,
        dilation=_pair(node, values, "dilations", (1, 1)),
        groups=int(node.attributes.get("group", 1)),
    )
    return _as_ranked(node, values, y)


def _conv_transpose(node: Node, values: Values) -> str:
    x, weight, kernel = _convolved(node, values)
    node.expect("auto_pad", "NOTSET", "NOTSET", "VALID")
    if "output_shape" in node.attributes:
        raise UnsupportedError("it has an output_shape; poetfw reads output_padding")
    stride, padding = _window(node, values, values.builder.shape(x), kernel)
    if padding[:2] != padding[2:]:
        raise UnsupportedError(f"its padding is {list(padding)}, but must be alike on both sides")
    groups = int(node.attributes.get("group", 1))
    y = values.net.conv_transpose(
        node.name,
        x,
        weight,
        None if not node.has_input(2) else values.operand(node.inputs[2]),
        stride=stride,
        padding=padding[:2],
        more=_pair(node, values, "output_padding", (0, 0)),
        dilation=_pair(node, values, "dilations", (1, 1)),
        groups=groups,
    )
    return _as_ranked(node, values, y)


def _convolved(node: Node, values: Values) -> tuple[str, str, Pair]:
    """The images that a convolution reads, its weight, and the kernel's height and width."""
    x = _image(node, values)
    weight = values.floats(node.inputs[1])
    if weight.ndim != len(values.shape(node.inputs[0])):
        raise UnsupportedError(f"its weight has {weight.ndim} axes; poetfw convolves images")
    node.expect("kernel_shape", list(weight.shape[2:]), list(weight.shape[2:]))
    if weight.ndim == 3:
        weight = weight[:, :, np.newaxis]
    tensor = values.parameter(node.inputs[1:2], weight, str(weight.shape))
    return x, tensor, (weight.shape[2], weight.shape[3])


def _channel_bias(node: Node, values: Values, position: int) -> str | None:
    if not node.has_input(position):
        return None
    return _bias(node.inputs[position], values, values.floats(node.inputs[1]).shape[0])


def _gemm(node: Node, values: Values) -> str:
    node.expect("alpha", 1.0, 1.0)
    node.expect("beta", 1.0, 1.0)
    node.expect("transA", 0, 0)
    if len(values.shape(node.inputs[0])) != 2:
        raise UnsupportedError("it multiplies matrices of 2 axes only")
    transposed = node.attributes.get("transB", 0) != 0
    bias = node.inputs[2] if node.has_input(2) else None
    return _linear(node, values, bias, transposed=transposed)


def _matmul(node: Node, values: Values) -> str | None:
    """A product with constant weights, and the addition of a bias where one follows."""
    if not values.is_constant(node.inputs[1]) or values.is_constant(node.inputs[0]):
        return values.net.matmul(node.name, *map(values.operand, node.inputs))
    addition = bias_addition(node, values)
    if addition is None:
        return _linear(node, values, None, transposed=False)
    (bias,) = (name for name in addition.inputs if name != node.output)
    values.bind(addition.output, _linear(node, values, bias, transposed=False))
    return None


def bias_addition(node: Node, values: Values) -> Node | None:
    """The addition of a constant that becomes part of a product; None where there is none."""
    addition = values.reader(node.output)
    if node.kind != "MatMul" or addition is None or addition.kind != "Add":
        return None
    others = [name for name in addition.inputs if name != node.output]
    if len(others) != 1 or not values.is_constant(others[0]):
        return None
    products = [values.is_constant(name) for name in node.inputs[:2]]
    return addition if products == [False, True] else None


def _linear(node: Node, values: Values, bias: str | None, *, transposed: bool) -> str:
    x = values.tensor(node.inputs[0])
    weight = values.floats(node.inputs[1])
    if weight.ndim != 2:
        raise UnsupportedError("poetfw multiplies by matrices of 2 axes only")
    if not transposed:
        weight = np.ascontiguousarray(weight.T)
    tensor = values.parameter(node.inputs[1:2], weight, "" if transposed else "transposed")
    added = None if bias is None else _bias(bias, values, weight.shape[0])
    return values.net.linear(node.name, x, tensor, added)


def _bias(name: str, values: Values, length: int) -> str:
    bias = values.floats(name)
    if bias.shape not in ((length,), (1, length)):
        raise UnsupportedError(
            f"its bias {name!r} has shape {list(bias.shape)}, but must have [{length}]"
        )
    return values.parameter((name,), bias.reshape(length))


def _batch_norm(node: Node, values: Values) -> str:
    values.expect_unread(node.outputs[1:])
    x = values.tensor(node.inputs[0])
    scale, shift, mean, variance = (values.floats(name) for name in node.inputs[1:5])
    if not scale.shape == shift.shape == mean.shape == variance.shape or scale.ndim != 1:
        raise UnsupportedError("its scale, bias, mean and variance differ in shape")
    if (variance < 0).any():
        raise UnsupportedError("its running variance is negative")
    shape = values.builder.shape(x)
    seen = (*shape[:2], math.prod(shape[2:-1]), shape[-1]) if len(shape) > 2 else shape
    inputs = (
        values.net.reshape(node.name, x, seen),
        values.parameter(node.inputs[1:3], np.stack([scale, shift])),
        values.state(node.inputs[3:5], np.stack([mean, variance])),
    )
    # ONNX's momentum is the weight of the old statistics, poetfw's that of the new batch.
    momentum = 1 - _decimal(node.attributes.get("momentum", 0.9))
    eps = _decimal(node.attributes.get("epsilon", 1e-5))
    y = values.builder.op("batch_norm", node.name, inputs, {"eps": eps, "momentum": momentum})
    return values.net.reshape(node.name, y, shape)


def _decimal(value: float) -> float:
    """What was meant by an attribute, which ONNX stores as float32: 0.9, not 0.8999999762."""
    return float(str(np.float32(value)))


def _clip(node: Node, values: Values) -> str:
    low = values.number(node.inputs[1]) if node.has_input(1) else -math.inf
    high = values.number(node.inputs[2]) if node.has_input(2) else math.inf
    if low != 0 or high not in (6, math.inf):
        raise UnsupportedError(f"it clips to [{low:g}, {high:g}]; poetfw has [0, 6] (ReLU6)")
    kind = "relu6" if high == 6 else "relu"
    return values.builder.op(kind, node.name, (values.tensor(node.inputs[0]),))


def _max_pool(node: Node, values: Values) -> str:
    values.expect_unread(node.outputs[1:])
    return _pool("max_pool2d", node, values)


def _average_pool(node: Node, values: Values) -> str:
    return _pool("avg_pool2d", node, values, bool(node.attributes.get("count_include_pad", 0)))


def _pool(kind: str, node: Node, values: Values, include: bool = True) -> str:
    x = _image(node, values)
    kernel = _pair(node, values, "kernel_shape")
    stride, padding = _window(node, values, values.builder.shape(x), kernel)
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
    return _as_ranked(node, values, y)


def _expect_dilation_1(node: Node) -> None:
    if set(node.attributes.get("dilations", [1])) != {1}:
        raise UnsupportedError(f"its dilation is {node.attributes['dilations']}, but must be 1")


def _global_average_pool(node: Node, values: Values) -> str:
    y = values.builder.op("global_avg_pool", node.name, (_image(node, values),))
    return _as_ranked(node, values, y)


def _reduce_mean(node: Node, values: Values) -> str:
    return _reduce(node, values, total=False)


def _reduce_sum(node: Node, values: Values) -> str:
    return _reduce(node, values, total=True)


def _reduce(node: Node, values: Values, *, total: bool) -> str:
    x = values.operand(node.inputs[0])
    rank = len(values.builder.shape(x))
    axes: Sequence[int] = node.attributes.get("axes", ())
    if node.has_input(1):
        axes = values.integers(node.inputs[1])
    found = [range(rank)[axis] for axis in axes or range(rank)]
    if 0 in found or len(set(found)) != len(found):
        raise UnsupportedError(f"it reduces axes {list(axes)}; axis 0 is the batch")
    keep = bool(node.attributes.get("keepdims", 1))
    return values.net.mean(node.name, x, found, keep=keep, total=total)


def _flatten(node: Node, values: Values) -> str:
    x = values.tensor(node.inputs[0])
    batch, *features = values.builder.shape(x)
    axis = int(node.attributes.get("axis", 1))
    if axis not in (1, 1 - len(features) - 1):
        raise UnsupportedError(f"axis is {axis}, but must be 1: axis 0 is the batch")
    return values.net.reshape(node.name, x, (batch, math.prod(features)))


def _reshape(node: Node, values: Values) -> str:
    """The file's batch, in the constant shape, gives way to the batch that was asked for."""
    x = values.tensor(node.inputs[0])
    shape = values.builder.shape(x)
    target = values.integers(node.inputs[1])
    copies = not node.attributes.get("allowzero", 0)  # a 0 stands for the input's extent
    first, rest = target[:1], list(target[1:])
    if copies:
        rest = [
            shape[axis] if extent == 0 and axis < len(shape) else extent
            for axis, extent in enumerate(rest, start=1)
        ]
    features = math.prod(shape[1:])
    if rest.count(-1) == 1 and first != (-1,):
        known = -math.prod(rest)
        rest[rest.index(-1)] = features // known if known > 0 else 0
    keeps_batch = first in ((-1,), (values.file_batch,), shape[:1]) or (copies and first == (0,))
    if not keeps_batch or any(extent < 1 for extent in rest) or math.prod(rest) != features:
        raise UnsupportedError(
            f"its shape {list(target)} does not keep axis 0, the batch, and {features} features"
        )
    return values.net.reshape(node.name, x, (shape[0], *rest))


def _slice(node: Node, values: Values) -> str:
    x = values.tensor(node.inputs[0])
    starts, ends = (values.integers(name, open_ended=True) for name in node.inputs[1:3])
    axes = values.integers(node.inputs[3]) if node.has_input(3) else range(len(starts))
    steps = values.integers(node.inputs[4]) if node.has_input(4) else (1,) * len(starts)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        taken = range(*slice(start, end, step).indices(values.builder.shape(x)[axis]))
        x = _part(node, values, x, axis, taken.start, len(taken), step)
    return x


def _split(node: Node, values: Values) -> None:
    x = values.tensor(node.inputs[0])
    axis = int(node.attributes.get("axis", 0))
    extent = values.builder.shape(x)[axis]
    lengths: Sequence[int]
    if node.has_input(1):
        lengths = values.integers(node.inputs[1])
    else:
        most = -(-extent // len(node.outputs))
        lengths = [min(most, extent - start) for start in range(0, extent, most)]
    start = 0
    for output, length in zip(node.outputs, lengths, strict=True):
        values.bind(output, _part(node, values, x, axis, start, length))
        start += length


def _part(
    node: Node, values: Values, x: str, axis: int, start: int, length: int, step: int = 1
) -> str:
    """Every `step`-th position from `start` on along one axis."""
    shape = values.builder.shape(x)
    if length == shape[axis] and step == 1:
        return x
    axis = range(len(shape))[axis]
    if axis == 0:
        raise UnsupportedError("it takes a part of axis 0, the batch")
    return values.net.part(node.name, x, axis, start, length, step)


def _identity(node: Node, values: Values) -> str | None:
    """Exporters use it to store equal constants once: each name stays a constant of its own."""
    if not values.is_constant(node.inputs[0]):
        return values.tensor(node.inputs[0])
    values.bind_constant(node.output, values.constant_proto(node.inputs[0]))
    return None


def _constant(node: Node, values: Values) -> None:
    value = next(iter(node.attributes.values()), None) if len(node.attributes) == 1 else None
    if isinstance(value, float) or (
        isinstance(value, list) and any(isinstance(entry, float) for entry in value)
    ):
        value = onnx.numpy_helper.from_array(np.asarray(value, np.float32))
    elif isinstance(value, int | list):
        value = onnx.numpy_helper.from_array(np.asarray(value, np.int64))
    elif not isinstance(value, onnx.TensorProto):
        raise UnsupportedError("it holds neither a tensor nor numbers")
    values.bind_constant(node.output, value)


def _shape(node: Node, values: Values) -> None:
    """Exporters calculate what to reshape to from a shape, which is known here."""
    shape = values.shape(node.inputs[0])
    part = slice(node.attributes.get("start"), node.attributes.get("end"))
    _bind_integers(node, values, np.asarray(shape[part]))


def _gather(node: Node, values: Values) -> str | None:
    """A position of what is calculated, rows of a table, or an entry of a shape."""
    data, indices = node.inputs
    axis = int(node.attributes.get("axis", 0))
    if not values.is_constant(indices):
        raise UnsupportedError("it looks up what is calculated")
    if not values.is_constant(data):
        x = values.tensor(data)
        axis = range(len(values.builder.shape(x)))[axis]
        index = values.integer_array(indices)
        if index.ndim > 1 or index.size != 1:
            raise UnsupportedError("it takes several positions")
        (position,) = index.reshape(-1)
        extent = values.builder.shape(x)[axis]
        one = _part(node, values, x, axis, range(extent)[position], 1)
        shape = values.builder.shape(one)
        return (
            one
            if index.ndim
            else values.net.reshape(node.name, one, (*shape[:axis], *shape[axis + 1 :]))
        )
    taken = np.take(values.integer_array(data), values.integer_array(indices), axis=axis)
    _bind_integers(node, values, taken)
    return None


def _squeeze(node: Node, values: Values) -> str:
    x = values.tensor(node.inputs[0])
    shape = values.builder.shape(x)
    axes = values.integers(node.inputs[1]) if node.has_input(1) else ()
    gone = [range(len(shape))[axis] for axis in axes]
    if not gone or any(shape[axis] != 1 or axis == 0 for axis in gone):
        raise UnsupportedError(f"it leaves out axes {list(axes)} of shape {list(shape)}")
    return values.net.reshape(
        node.name, x, [extent for axis, extent in enumerate(shape) if axis not in gone]
    )


def _unsqueeze(node: Node, values: Values) -> str | None:
    axes = values.integers(node.inputs[1])
    if values.is_constant(node.inputs[0]):
        _bind_integers(node, values, np.expand_dims(values.integer_array(node.inputs[0]), axes))
        return None
    x = values.tensor(node.inputs[0])
    shape = list(values.builder.shape(x))
    for axis in sorted(range(len(shape) + len(axes))[axis] for axis in axes):
        if axis == 0:
            raise UnsupportedError("it puts an axis before the batch")
        shape.insert(axis, 1)
    return values.net.reshape(node.name, x, shape)


def _concat(node: Node, values: Values) -> str | None:
    axis = int(node.attributes["axis"])
    if all(map(values.is_constant, node.inputs)):
        parts = [values.integer_array(name) for name in node.inputs]
        _bind_integers(node, values, np.concatenate(parts, axis=axis))
        return None
    tensors = [values.operand(name) for name in node.inputs]
    axis = range(len(values.builder.shape(tensors[0])))[axis]
    if axis == 0:
        raise UnsupportedError("it concatenates along axis 0, the batch")
    return values.net.concat(node.name, tensors, axis)


def _bind_integers(node: Node, values: Values, result: NDArray[np.int64]) -> None:
    values.bind_constant(node.output, onnx.numpy_helper.from_array(result.astype(np.int64)))


def _dropout(node: Node, values: Values) -> str:
    values.expect_unread(node.outputs[1:])
    ratio = values.number(node.inputs[1]) if node.has_input(1) else 0.5
    if ratio != 0:
        raise UnsupportedError(
            f"it drops a share of {ratio:g}, and poetfw trains without dropout: set it to 0, or "
            "export without it"
        )
    return values.tensor(node.inputs[0])


def _softmax(node: Node, values: Values) -> str:
    """The loss takes logits, and has the softmax within it."""
    x = values.tensor(node.inputs[0])
    rank = len(values.builder.shape(x))
    axis = range(rank)[int(node.attributes.get("axis", -1))]
    if node.output == values.output and values.net.loss == "softmax_cross_entropy":
        node.expect("axis", -1, -1, rank - 1)
        return x
    if axis == 0:
        raise UnsupportedError("its axis is 0, the batch")
    y = values.net.softmax(node.name, x, axis)
    return y if node.kind == "Softmax" else values.builder.op("log", node.name, (y,))


def _add(node: Node, values: Values) -> str:
    return _sum(node, values, 1.0)


def _sum(node: Node, values: Values, factor: float) -> str:
    """The first input plus `factor` times the second."""
    first, second = node.inputs
    number = _number(values, second)
    if number is not None and not values.is_constant(first):
        return values.net.shift(node.name, values.tensor(first), factor * number)
    scaled = values.net.scale(node.name, values.operand(second), factor)
    number = _number(values, first)
    if number is not None:
        return values.net.shift(node.name, scaled, number)
    return values.net.add(node.name, values.operand(first), scaled)


def _multiply(node: Node, values: Values) -> str:
    """By another tensor, or by a single number that is no weight but part of the network."""
    first, second = node.inputs
    for x, number in ((first, second), (second, first)):
        factor = _number(values, number)
        if factor is not None and not values.is_constant(x):
            return values.net.scale(node.name, values.tensor(x), factor)
    return values.net.multiply(node.name, values.operand(first), values.operand(second))


def _subtract(node: Node, values: Values) -> str:
    return _sum(node, values, -1.0)


def _divide(node: Node, values: Values) -> str:
    first, second = node.inputs
    divisor = _number(values, second)
    if divisor:
        return values.net.scale(node.name, values.operand(first), 1 / divisor)
    inverse = values.builder.op("reciprocal", node.name, (values.operand(second),))
    return values.net.multiply(node.name, values.operand(first), inverse)


def _number(values: Values, name: str) -> float | None:
    """The number that a name stands for; None where it stands for something else."""
    if not values.is_constant(name) or values.floats(name).size != 1:
        return None
    return values.number(name)


def _negate(node: Node, values: Values) -> str:
    return values.net.scale(node.name, values.operand(node.inputs[0]), -1.0)


def _power(node: Node, values: Values) -> str:
    kind = {2.0: "square", 0.5: "sqrt", -1.0: "reciprocal"}.get(values.number(node.inputs[1]))
    if kind is None:
        raise UnsupportedError("poetfw has powers of 2, 0.5 and -1")
    return values.builder.op(kind, node.name, (values.operand(node.inputs[0]),))


def _leaky_relu(node: Node, values: Values) -> str:
    slope = _decimal(node.attributes.get("alpha", 0.01))
    return values.builder.op(
        "leaky_relu", node.name, (values.tensor(node.inputs[0]),), {"slope": slope}
    )


def _elu(node: Node, values: Values) -> str:
    alpha = _decimal(node.attributes.get("alpha", 1.0))
    return values.builder.op("elu", node.name, (values.tensor(node.inputs[0]),), {"alpha": alpha})


def _gelu(node: Node, values: Values) -> str:
    node.expect("approximate", "none", "none", "tanh")
    kind = "gelu_tanh" if node.attributes.get("approximate") == "tanh" else "gelu"
    return values.builder.op(kind, node.name, (values.tensor(node.inputs[0]),))


def _hard_sigmoid(node: Node, values: Values) -> str:
    alpha, beta = (_decimal(node.attributes.get(n, d)) for n, d in (("alpha", 0.2), ("beta", 0.5)))
    if abs(alpha - 1 / 6) > 1e-6 or beta != 0.5:
        raise UnsupportedError(f"its alpha is {alpha:g}; poetfw has PyTorch's, 1/6 x + 0.5")
    return values.builder.op("hard_sigmoid", node.name, (values.tensor(node.inputs[0]),))


def _transpose(node: Node, values: Values) -> str:
    x = values.operand(node.inputs[0])
    rank = len(values.builder.shape(x))
    axes = node.attributes.get("perm", list(reversed(range(rank))))
    if sorted(axes) != list(range(rank)) or axes[0] != 0:
        raise UnsupportedError(f"its axes are {list(axes)}; axis 0, the batch, must stay")
    return values.net.permute(node.name, x, axes)


def _pad(node: Node, values: Values) -> str:
    x = values.tensor(node.inputs[0])
    rank = len(values.builder.shape(x))
    widths = values.integers(node.inputs[1])
    mode = {"edge": "replicate", "wrap": "circular"}.get(
        node.attributes.get("mode", "constant"), node.attributes.get("mode", "constant")
    )
    axes: Sequence[int] = range(rank)
    if node.has_input(3):
        axes = [range(rank)[axis] for axis in values.integers(node.inputs[3])]
    if len(widths) != 2 * len(axes) or (node.has_input(2) and values.number(node.inputs[2]) != 0):
        raise UnsupportedError("it pads with something else than 0, or not each axis on both sides")
    pairs = {axis: (widths[i], widths[i + len(axes)]) for i, axis in enumerate(axes)}
    if any(pairs.get(0, ())):
        raise UnsupportedError("it pads axis 0, the batch")
    return values.net.pad(node.name, x, pairs, mode)


def _layer_norm(node: Node, values: Values) -> str:
    values.expect_unread(node.outputs[1:])
    x = values.tensor(node.inputs[0])
    shape = values.builder.shape(x)
    axis = range(len(shape))[int(node.attributes.get("axis", -1))]
    if axis == 0:
        raise UnsupportedError("its axis is 0, the batch")
    eps = _decimal(node.attributes.get("epsilon", 1e-5))
    affine = _affine(node, values, math.prod(shape[axis:]))
    return values.net.normalize(node.name, x, affine, eps=eps, groups=1, inner=1)


def _instance_norm(node: Node, values: Values) -> str:
    return _grouped_norm(node, values, values.shape(node.inputs[0])[1])


def _group_norm(node: Node, values: Values) -> str:
    if values.opset < 21:
        raise UnsupportedError("its scale is that of groups, as before opset 21")
    return _grouped_norm(node, values, int(node.attributes["num_groups"]))


def _grouped_norm(node: Node, values: Values, groups: int) -> str:
    x = values.tensor(node.inputs[0])
    _, channels, *rest = values.builder.shape(x)
    eps = _decimal(node.attributes.get("epsilon", 1e-5))
    affine = _affine(node, values, channels)
    inner = math.prod(rest)
    return values.net.normalize(node.name, x, affine, eps=eps, groups=groups, inner=inner)


def _affine(node: Node, values: Values, length: int) -> str:
    scale = values.floats(node.inputs[1])
    if not node.has_input(2):
        raise UnsupportedError("it has no bias")
    shift = values.floats(node.inputs[2])
    if scale.size != length or shift.size != length:
        raise UnsupportedError(f"its scale and bias have not {length} elements each")
    return values.parameter(node.inputs[1:3], np.stack([scale.reshape(-1), shift.reshape(-1)]))


def _resize(node: Node, values: Values) -> str:
    x = _image(node, values)
    node.expect("mode", "nearest", "nearest")
    node.expect("coordinate_transformation_mode", "half_pixel", "asymmetric", "half_pixel")
    if node.has_input(3):
        raise UnsupportedError("it has sizes; poetfw reads factors")
    if len(node.inputs) < 3 or node.has_input(1):
        raise UnsupportedError("it has no factors")
    factors = [float(factor) for factor in values.floats(node.inputs[2])]
    whole = [int(factor) for factor in factors]
    if whole != factors or len(whole) not in (3, 4) or whole[:2] != [1, 1] or min(whole) < 1:
        raise UnsupportedError(f"its factors are {factors}; poetfw repeats pixels whole times")
    rows = whole[2] if len(whole) == 4 else 1
    return _as_ranked(node, values, values.net.repeat_positions(node.name, x, (rows, whole[-1])))


def _as_it_stands(kind: str) -> Rule:
    """The rule of an operator that poetfw has with the same inputs, and without attributes."""

    def rule(node: Node, values: Values) -> str:
        for name in node.attributes:
            raise UnsupportedError(f"its attribute {name!r} is set; poetfw has it without")
        return values.builder.op(kind, node.name, [values.tensor(name) for name in node.inputs])

    return rule


def _image(node: Node, values: Values) -> str:
    """A batch of images; sequences become images of height 1."""
    x = values.tensor(node.inputs[0])
    shape = values.builder.shape(x)
    if len(shape) not in (3, 4):
        raise UnsupportedError(f"its input has {len(shape)} axes; poetfw needs [N, C, H, W]")
    return x if len(shape) == 4 else values.net.reshape(node.name, x, (*shape[:2], 1, shape[2]))


def _as_ranked(node: Node, values: Values, y: str) -> str:
    """Images with as many axes as the node's input has."""
    if len(values.shape(node.inputs[0])) == 4:
        return y
    shape = values.builder.shape(y)
    return values.net.reshape(node.name, y, (*shape[:2], shape[3]))


def _pair(node: Node, values: Values, name: str, default: Pair | None = None) -> Pair:
    """Numbers for height and width; of a sequence, the neutral number and that for its width."""
    value = node.attributes.get(name, default)
    if value is not None and name in node.attributes and len(values.shape(node.inputs[0])) == 3:
        neutral = 0 if name == "output_padding" else 1
        value = (neutral, *value)
    if value is None or len(value) != 2:
        raise UnsupportedError(f"{name} is {value}; poetfw works on images, with 2")
    return int(value[0]), int(value[1])


def _window(node: Node, values: Values, shape: tuple[int, ...], kernel: Pair) -> tuple[Pair, Edges]:
    """Stride, and padding at the top, left, bottom and right."""
    stride = _pair(node, values, "strides", (1, 1))
    mode = node.attributes.get("auto_pad", "NOTSET")
    if mode == "VALID":
        return stride, (0, 0, 0, 0)
    if mode == "NOTSET":
        pads = node.attributes.get("pads", [0, 0, 0, 0])
        if len(pads) == 2 and len(values.shape(node.inputs[0])) == 3:
            pads = [0, pads[0], 0, pads[1]]
        if len(pads) != 4:
            raise UnsupportedError(f"pads is {pads}; poetfw works on images, with 4")
        top, left, bottom, right = map(int, pads)
        return stride, (top, left, bottom, right)
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        raise UnsupportedError(f"auto_pad is {mode!r}, which ONNX does not define")
    if min(stride) < 1:
        raise UnsupportedError(f"strides is {list(stride)}, but must be 1 or more")
    dilation = _pair(node, values, "dilations", (1, 1))
    total = [
        max((-(-extent // step) - 1) * step + (size - 1) * spread + 1 - extent, 0)
        for extent, step, size, spread in zip(shape[2:], stride, kernel, dilation, strict=True)
    ]
    less, more = [t // 2 for t in total], [t - t // 2 for t in total]
    begin, end = (less, more) if mode == "SAME_UPPER" else (more, less)
    return stride, (begin[0], begin[1], end[0], end[1])


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        **{kind.onnx: _as_it_stands(name) for name, kind in KINDS.items() if kind.onnx},
        "Add": _add,
        "AveragePool": _average_pool,
        "BatchNormalization": _batch_norm,
        "Clip": _clip,
        "Concat": _concat,
        "Constant": _constant,
        "Conv": _conv,
        "ConvTranspose": _conv_transpose,
        "Div": _divide,
        "Dropout": _dropout,
        "Elu": _elu,
        "Flatten": _flatten,
        "Gather": _gather,
        "Gelu": _gelu,
        "Gemm": _gemm,
        "GlobalAveragePool": _global_average_pool,
        "GroupNormalization": _group_norm,
        "HardSigmoid": _hard_sigmoid,
        "Identity": _identity,
        "InstanceNormalization": _instance_norm,
        "LayerNormalization": _layer_norm,
        "LeakyRelu": _leaky_relu,
        "LogSoftmax": _softmax,
        "MatMul": _matmul,
        "MaxPool": _max_pool,
        "Mul": _multiply,
        "Neg": _negate,
        "Pad": _pad,
        "Pow": _power,
        "ReduceMean": _reduce_mean,
        "ReduceSum": _reduce_sum,
        "Reshape": _reshape,
        "Resize": _resize,
        "Shape": _shape,
        "Slice": _slice,
        "Softmax": _softmax,
        "Split": _split,
        "Squeeze": _squeeze,
        "Sub": _subtract,
        "Transpose": _transpose,
        "Unsqueeze": _unsqueeze,
    }
)
"""Every ONNX operator that is understood."""
