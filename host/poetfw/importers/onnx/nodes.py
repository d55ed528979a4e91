# SPDX-License-Identifier: Apache-2.0
"""One rule per ONNX operator: how it is said in poetfw's own operators.

A rule returns the name of the tensor that the node's first output stands for, or None where it
binds its outputs itself. What it cannot say, it refuses with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType

import numpy as np
import onnx
from numpy.typing import NDArray

from poetfw.importers.network import Edges, Pair
from poetfw.importers.onnx.values import Node, Values
from poetfw.importers.recurrence import Cell, Direction, gru, lstm, plain, run_layers
from poetfw.importers.refusal import UnsupportedError
from poetfw.ops import KINDS

Rule = Callable[[Node, Values], str | None]

_BATCH = "axis 0 is the batch, unless the file was written for the one that is trained with"


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
        None if not node.has_input(2) else values.layer_weight(node.inputs[2]),
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


def _channel_bias(node: Node, values: Values, position: int) -> str | None:
    if not node.has_input(position):
        return None
    return _bias(node.inputs[position], values, values.dims(node.inputs[1])[0])


def _gemm(node: Node, values: Values) -> str:
    net, factors = values.net, [_decimal(node.attributes.get(n, 1.0)) for n in ("alpha", "beta")]
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
        x = values.operand(name)
        pair.append(net.permute(node.name, x, (1, 0)) if turn else x)
    y = net.scale(node.name, net.matmul(node.name, *pair), factors[0])
    if bias is None:
        return y
    return net.add(node.name, y, net.scale(node.name, values.operand(bias), factors[1]))


def _is_row(bias: str, values: Values, weight: tuple[str, bool], transposed: bool) -> bool:
    """Whether a bias is a constant of as many numbers as a product has columns."""
    name, turned = weight
    if len(values.dims(name)) != 2:
        return False
    columns = values.dims(name)[1 if turned == transposed else 0]
    return values.is_constant(bias) and values.dims(bias) in ((columns,), (1, columns))


def _matmul(node: Node, values: Values) -> str | None:
    """A product with constant weights, and the addition of a bias where one follows."""
    weight = values.matrix(node.inputs[1])
    if weight is None or values.is_constant(node.inputs[0]) or len(values.dims(weight[0])) != 2:
        return values.net.matmul(node.name, *map(values.operand, node.inputs))
    addition = bias_addition(node, values)
    if addition is None:
        return _linear(node, values, None, weight, transposed=False)
    (bias,) = (name for name in addition.inputs if name != node.output)
    values.bind(addition.output, _linear(node, values, bias, weight, transposed=False))
    values.note_batch(addition)
    return None


def bias_addition(node: Node, values: Values) -> Node | None:
    """The addition of a constant that becomes part of a product; None where there is none."""
    addition = values.reader(node.output)
    if node.kind != "MatMul" or addition is None or addition.kind != "Add":
        return None
    others = [name for name in addition.inputs if name != node.output]
    weight = values.matrix(node.inputs[1])
    if len(others) != 1 or weight is None or values.matrix(node.inputs[0]) is not None:
        return None
    return addition if _is_row(others[0], values, weight, False) else None


def _linear(
    node: Node, values: Values, bias: str | None, weight: tuple[str, bool], *, transposed: bool
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


def _batch_norm(node: Node, values: Values) -> str:
    values.expect_unread(node.outputs[1:])
    _expect_batch_statistics(node, values)
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
    momentum = 1 - _decimal(node.attributes.get("momentum", 0.9))
    eps = _decimal(node.attributes.get("epsilon", 1e-5))
    y = values.builder.op("batch_norm", node.name, inputs, {"eps": eps, "momentum": momentum})
    return values.net.reshape(node.name, y, shape)


def _expect_batch_statistics(node: Node, values: Values) -> None:
    """Check that a batch norm normalises with its batch's statistics, as poetfw trains it.

    Operator set 14 brought an attribute for that; before, training form was to have more outputs.

    Raises:
        UnsupportedError: it normalises with statistics that do not move.
    """
    if values.opset < 14:
        trains, sign = any(node.outputs[1:]), "it has one output"
    else:
        trains, sign = bool(node.attributes.get("training_mode", 0)), "its training_mode is 0"
    if not trains:
        raise UnsupportedError(
            f"it is in evaluation mode ({sign}) and normalises with statistics that do not move, "
            "which poetfw does not train: export the network in training mode, from PyTorch with "
            "dynamo=False, training=torch.onnx.TrainingMode.TRAINING (docs/your-model.md)"
        )


def _decimal(value: float) -> float:
    """What was meant by an attribute, which ONNX stores as float32: 0.9, not 0.8999999762."""
    return float(str(np.float32(value)))


def _clip(node: Node, values: Values) -> str:
    low, high = (values.number(node.inputs[i]) if node.has_input(i) else None for i in (1, 2))
    return values.net.clip(node.name, values.tensor(node.inputs[0]), low, high)


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


def _reduce_max(node: Node, values: Values) -> str:
    x, axes, keep = _reduced(node, values)
    return values.net.largest(node.name, x, axes, keep=keep)


def _reduce_min(node: Node, values: Values) -> str:
    x, axes, keep = _reduced(node, values)
    negative = values.net.scale(node.name, x, -1.0)
    least = values.net.largest(node.name, negative, axes, keep=keep)
    return values.net.scale(node.name, least, -1.0)


def _reduce_of(kind: str, after: str | None = None) -> Rule:
    """The rule of the sum of a function, and of a function of that."""

    def rule(node: Node, values: Values) -> str:
        x, axes, keep = _reduced(node, values)
        each = values.builder.op(kind, node.name, (x,))
        y = values.net.mean(node.name, each, axes, keep=keep, total=True)
        return y if after is None else values.builder.op(after, node.name, (y,))

    return rule


def _reduce(node: Node, values: Values, *, total: bool) -> str:
    x, axes, keep = _reduced(node, values)
    return values.net.mean(node.name, x, axes, keep=keep, total=total)


def _reduced(node: Node, values: Values) -> tuple[str, list[int], bool]:
    """What a node reduces, along which axes, and whether they stay."""
    x = values.operand(node.inputs[0])
    rank = len(values.builder.shape(x))
    axes: Sequence[int] = node.attributes.get("axes", ())
    if node.has_input(1):
        axes = values.integers(node.inputs[1])
    if not axes and node.attributes.get("noop_with_empty_axes", 0):
        raise UnsupportedError("it reduces no axes")
    found = [range(rank)[axis] for axis in axes or range(rank)]
    if (0 in found and values.has_batch(x)) or len(set(found)) != len(found):
        raise UnsupportedError(f"it reduces axes {list(axes)}: {_BATCH}")
    return x, found, bool(node.attributes.get("keepdims", 1))


def _flatten(node: Node, values: Values) -> str:
    x = values.tensor(node.inputs[0])
    shape = values.builder.shape(x)
    axis = int(node.attributes.get("axis", 1))
    if not -len(shape) <= axis <= len(shape):
        raise UnsupportedError(f"its axis {axis} does not exist")
    axis += len(shape) if axis < 0 else 0
    if axis != 1 and values.has_batch(x):
        raise UnsupportedError(f"axis is {axis}, but must be 1: {_BATCH}")
    return values.net.reshape(node.name, x, (math.prod(shape[:axis]), math.prod(shape[axis:])))


def _reshape(node: Node, values: Values) -> str:
    """The file's batch, in the constant shape, gives way to the batch that was asked for."""
    x = values.weight(node.inputs[0])
    shape = values.builder.shape(x)
    target = values.integers(node.inputs[1])
    copies = not node.attributes.get("allowzero", 0)  # a 0 stands for the input's extent
    wanted = [
        shape[axis] if extent == 0 and copies and axis < len(shape) else extent
        for axis, extent in enumerate(target)
    ]
    if values.has_batch(x):
        first = target[:1]
        if first not in ((-1,), (values.file_batch,), shape[:1]) and not (copies and first == (0,)):
            raise UnsupportedError(f"its shape {list(target)} does not keep axis 0: {_BATCH}")
        wanted[0] = shape[0]
    if target.count(-1) == wanted.count(-1) == 1:
        known = -math.prod(wanted)
        wanted[wanted.index(-1)] = math.prod(shape) // known if known > 0 else 0
    if any(extent < 1 for extent in wanted) or math.prod(wanted) != math.prod(shape):
        raise UnsupportedError(f"its shape {list(target)} does not fit {list(shape)}")
    return values.net.reshape(node.name, x, wanted)


def _slice(node: Node, values: Values) -> str:
    x = values.weight(node.inputs[0])
    starts, ends = (values.integers(name, open_ended=True) for name in node.inputs[1:3])
    axes = values.integers(node.inputs[3]) if node.has_input(3) else range(len(starts))
    steps = values.integers(node.inputs[4]) if node.has_input(4) else (1,) * len(starts)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        taken = range(*slice(start, end, step).indices(values.builder.shape(x)[axis]))
        if not taken:
            raise UnsupportedError("it takes nothing")
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
    if axis == 0 and values.has_batch(x):
        raise UnsupportedError(f"it takes a part of axis 0: {_BATCH}")
    return values.net.part(node.name, x, axis, start, length, step)


def _identity(node: Node, values: Values) -> str | None:
    """Exporters use it to store equal constants once: each name stays a constant of its own."""
    if not values.is_constant(node.inputs[0]):
        return values.weight(node.inputs[0])
    values.copy(node.output, node.inputs[0])
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
    shape = values.dims(node.inputs[0])
    part = slice(node.attributes.get("start"), node.attributes.get("end"))
    _bind_integers(node, values, np.asarray(shape[part]))


def _gather(node: Node, values: Values) -> str:
    """Positions along an axis, or rows of a table by ids that are calculated."""
    data, indices = node.inputs
    axis = int(node.attributes.get("axis", 0))
    x = values.weight(data)
    shape = values.builder.shape(x)
    axis = range(len(shape))[axis]
    if not values.is_constant(indices):
        ids = values.tensor(indices)
        if axis != 0 or len(shape) != 2 or ids != values.builder.input:
            raise UnsupportedError("it looks up what is calculated")
        if values.is_constant(data) and not values.array(data).any(axis=1).all():
            values.net.warnings.append(
                f"a row of {data!r:.60} is zeros, and trained. If it is padding, this is another "
                "network than the exported one, and a .pt2 file is the better way"
            )
        return values.builder.op("embedding", node.name, (ids, x))
    index = values.integer_array(indices)
    positions = [range(shape[axis])[i] for i in index.reshape(-1).tolist()]
    steps = {b - a for a, b in pairwise(positions)} or {1}
    if len(steps) != 1 or 0 in steps:
        raise UnsupportedError("it takes positions that are not evenly apart")
    one = _part(node, values, x, axis, positions[0], len(positions), steps.pop())
    return values.net.reshape(node.name, one, (*shape[:axis], *index.shape, *shape[axis + 1 :]))


def _squeeze(node: Node, values: Values) -> str:
    x = values.weight(node.inputs[0])
    shape = values.builder.shape(x)
    axes = values.integers(node.inputs[1]) if node.has_input(1) else ()
    gone = [range(len(shape))[axis] for axis in axes]
    if not axes:
        gone = [axis for axis, extent in enumerate(shape) if extent == 1]
    if any(shape[axis] != 1 or (axis == 0 and values.has_batch(x)) for axis in gone):
        raise UnsupportedError(f"it leaves out axes {list(axes)} of shape {list(shape)}")
    return values.net.reshape(
        node.name, x, [extent for axis, extent in enumerate(shape) if axis not in gone]
    )


def _unsqueeze(node: Node, values: Values) -> str:
    axes = values.integers(node.inputs[1])
    x = values.weight(node.inputs[0])
    shape = list(values.builder.shape(x))
    for axis in sorted(range(len(shape) + len(axes))[axis] for axis in axes):
        if axis == 0 and values.has_batch(x):
            raise UnsupportedError(f"it puts an axis before axis 0: {_BATCH}")
        shape.insert(axis, 1)
    return values.net.reshape(node.name, x, shape)


def _concat(node: Node, values: Values) -> str:
    axis = int(node.attributes["axis"])
    tensors = [values.weight(name) for name in node.inputs]
    axis = range(len(values.builder.shape(tensors[0])))[axis]
    if axis == 0 and any(map(values.has_batch, tensors)):
        raise UnsupportedError(f"it concatenates along axis 0: {_BATCH}")
    return values.net.concat(node.name, tensors, axis)


def _expand(node: Node, values: Values) -> str:
    x = values.weight(node.inputs[0])
    shape = list(values.integers(node.inputs[1]))
    if values.has_batch(x) and len(shape) == len(values.net.shape(x)):
        if shape[0] not in (1, values.file_batch):
            raise UnsupportedError(f"it stretches axis 0: {_BATCH}")
        shape[0] = 1
    return values.net.stretch(
        node.name, x, tuple(np.broadcast_shapes(tuple(shape), values.net.shape(x)))
    )


def _where(node: Node, values: Values) -> str:
    """A constant condition chooses."""
    condition, *both = node.inputs
    if not values.is_fixed(condition):
        raise UnsupportedError("its condition is calculated")
    net, chosen = values.net, values.array(condition).astype(np.float32)
    parts = [
        net.multiply(node.name, values.operand(name), net.constant(f"{node.name}.mask", mask))
        for name, mask in zip(both, (chosen, 1 - chosen), strict=True)
    ]
    return net.add(node.name, *parts)


def _cast(node: Node, values: Values) -> str | None:
    """Between numbers that poetfw has as float32."""
    floats = (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16)
    if node.attributes.get("to", onnx.TensorProto.FLOAT) not in floats:
        raise UnsupportedError("it makes integers of what is calculated")
    (source, *_) = node.inputs
    if values.is_constant(source):
        array = values.array(source).astype(np.float32)
        values.copy(node.output, source, onnx.numpy_helper.from_array(array))
        return None
    if values.tensor(source) == values.builder.input and values.reads_ids:
        raise UnsupportedError("it makes numbers of ids")
    return values.tensor(source)


def _bind_integers(node: Node, values: Values, result: NDArray[np.int64]) -> None:
    values.bind_constant(node.output, onnx.numpy_helper.from_array(result.astype(np.int64)))


def _dropout(node: Node, values: Values) -> str:
    values.expect_unread(node.outputs[1:])
    x = values.tensor(node.inputs[0])
    ratio = values.number(node.inputs[1]) if node.has_input(1) else 0.5
    training = node.has_input(2) and bool(values.array(node.inputs[2]).reshape(-1)[0])
    if training:
        return values.net.dropout(node.name, x, _decimal(ratio))
    if ratio != 0:
        values.net.warnings.append(
            f"{node.name!r:.60} is dropout in evaluation mode: nothing is dropped in training"
        )
    return x


def _softmax(node: Node, values: Values) -> str:
    """The loss takes logits, and has the softmax within it: behind it, `nll` is cross-entropy."""
    x = values.tensor(node.inputs[0])
    rank = len(values.builder.shape(x))
    axis = range(rank)[int(node.attributes.get("axis", -1))]
    within = "nll" if node.kind == "LogSoftmax" else "softmax_cross_entropy"
    if node.output == values.output and values.net.loss in (within, "softmax_cross_entropy"):
        node.expect("axis", -1, -1, rank - 1)
        values.net.loss = "softmax_cross_entropy"
        return x
    if axis == 0 and values.has_batch(x):
        raise UnsupportedError(f"its axis is 0: {_BATCH}")
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
    if not values.is_constant(name) or math.prod(values.dims(name)) != 1:
        return None
    values.expect_number(name)
    return float(values.masks(name).reshape(-1)[0])


def _negate(node: Node, values: Values) -> str:
    return values.net.scale(node.name, values.operand(node.inputs[0]), -1.0)


def _power(node: Node, values: Values) -> str:
    if not values.is_constant(node.inputs[1]):
        raise UnsupportedError("its exponent is calculated")
    exponent = values.array(node.inputs[1])
    if exponent.size != 1:
        raise UnsupportedError("it has several exponents")
    return values.net.power(
        node.name, values.operand(node.inputs[0]), float(exponent.reshape(-1)[0])
    )


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
    net, x = values.net, values.tensor(node.inputs[0])
    if abs(alpha - 1 / 6) < 1e-6 and beta == 0.5:  # PyTorch's
        return values.builder.op("hard_sigmoid", node.name, (x,))
    return net.clip(node.name, net.shift(node.name, net.scale(node.name, x, alpha), beta), 0, 1)


def _transpose(node: Node, values: Values) -> str | None:
    """Of a weight, a matrix: whoever multiplies by it takes it as it lies."""
    rank = len(values.dims(node.inputs[0]))
    axes = node.attributes.get("perm", list(reversed(range(rank))))
    if sorted(axes) != list(range(rank)):
        raise UnsupportedError(f"its axes are {list(axes)}")
    if values.is_constant(node.inputs[0]) and list(axes) == [1, 0]:
        values.turn(node.output, node.inputs[0])
        return None
    x = values.weight(node.inputs[0])
    if axes[0] != 0 and values.has_batch(x):
        raise UnsupportedError(f"its axes are {list(axes)}: {_BATCH}")
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
    if any(pairs.get(0, ())) and values.has_batch(x):
        raise UnsupportedError(f"it pads axis 0: {_BATCH}")
    return values.net.pad(node.name, x, pairs, mode)


def _layer_norm(node: Node, values: Values) -> str:
    values.expect_unread(node.outputs[1:])
    x = values.tensor(node.inputs[0])
    shape = values.builder.shape(x)
    axis = range(len(shape))[int(node.attributes.get("axis", -1))]
    if axis == 0 and values.has_batch(x):
        raise UnsupportedError(f"its axis is 0: {_BATCH}")
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
    if node.has_input(2):
        return values.channels(node.inputs[1:3], length)
    scale = values.net.reshape(node.name, values.weight(node.inputs[1]), (1, length))
    zeros = values.net.constant(f"{node.name}.shift", np.zeros((1, length), np.float32))
    return values.net.concat(node.name, [scale, zeros], 0)


def _resize(node: Node, values: Values) -> str:
    x = _image(node, values)
    node.expect("mode", "nearest", "nearest", "linear")
    for name, neutral in (("antialias", 0), ("exclude_outside", 0)):
        node.expect(name, neutral, neutral)
    if "axes" in node.attributes or "keep_aspect_ratio_policy" in node.attributes:
        node.expect("keep_aspect_ratio_policy", "stretch", "stretch")
        if "axes" in node.attributes:
            raise UnsupportedError("it resizes some axes only")
    extents, sizes = values.shape(node.inputs[0]), _resized(node, values)
    if len(sizes) != len(extents) or list(sizes[:2]) != [values.file_batch or sizes[0], extents[1]]:
        raise UnsupportedError(
            f"it resizes {list(extents)} to {list(sizes)}; poetfw resizes images"
        )
    height, width = sizes[2:] if len(sizes) == 4 else (1, sizes[2])
    place = node.attributes.get("coordinate_transformation_mode", "half_pixel")
    if node.attributes.get("mode", "nearest") == "linear":
        if place not in ("half_pixel", "pytorch_half_pixel", "align_corners"):
            raise UnsupportedError(f"coordinate_transformation_mode is {place!r}")
        if place == "pytorch_half_pixel" and 1 in (height, width) and len(sizes) == 4:
            raise UnsupportedError(f"coordinate_transformation_mode is {place!r}, to 1 pixel")
        y = values.net.interpolate(node.name, x, (height, width), corners=place == "align_corners")
        return _as_ranked(node, values, y)
    if place not in ("asymmetric", "half_pixel"):
        raise UnsupportedError(f"coordinate_transformation_mode is {place!r}")
    factors = [
        size / extent for size, extent in zip((height, width), values.net.shape(x)[2:], strict=True)
    ]
    if any(factor != int(factor) for factor in factors):
        raise UnsupportedError(f"its factors are {factors}; poetfw repeats pixels whole times")
    rounded = ("floor",) if place == "asymmetric" else ("round_prefer_floor", "round_prefer_ceil")
    node.expect("nearest_mode", "round_prefer_floor", *rounded)
    whole = (int(factors[0]), int(factors[1]))
    return _as_ranked(node, values, values.net.repeat_positions(node.name, x, whole))


def _resized(node: Node, values: Values) -> tuple[int, ...]:
    """The shape that it gives, for the file's batch."""
    shape = values.shape(node.inputs[0])
    if node.has_input(3):
        return values.integers(node.inputs[3])
    if not node.has_input(2):
        raise UnsupportedError("it has neither factors nor sizes")
    factors = values.floats(node.inputs[2]).astype(float)
    batch = values.file_batch or shape[0]
    if len(factors) != len(shape):
        raise UnsupportedError(f"its factors are {factors.tolist()}")
    wanted = [extent * factor for extent, factor in zip((batch, *shape[1:]), factors, strict=True)]
    if any(size != int(size) for size in wanted):
        raise UnsupportedError(f"its factors are {factors.tolist()}: not to whole pixels")
    return tuple(map(int, wanted))


def _prelu(node: Node, values: Values) -> str:
    x, slopes = values.tensor(node.inputs[0]), values.layer_weight(node.inputs[1])
    return values.net.prelu(node.name, x, slopes)


def _selu(node: Node, values: Values) -> str:
    alpha = _decimal(node.attributes.get("alpha", 1.67326319217681884765625))
    gamma = _decimal(node.attributes.get("gamma", 1.05070102214813232421875))
    inputs = (values.tensor(node.inputs[0]),)
    y = values.builder.op("elu", node.name, inputs, {"alpha": alpha})
    return values.net.scale(node.name, y, gamma)


def _celu(node: Node, values: Values) -> str:
    alpha = _decimal(node.attributes.get("alpha", 1.0))
    inner = values.net.scale(node.name, values.tensor(node.inputs[0]), 1 / alpha)
    y = values.builder.op("elu", node.name, (inner,), {"alpha": 1.0})
    return values.net.scale(node.name, y, alpha)


def _mish(node: Node, values: Values) -> str:
    return values.net.mish(node.name, values.tensor(node.inputs[0]))


def _sum_all(node: Node, values: Values) -> str:
    first, *others = map(values.operand, node.inputs)
    for other in others:
        first = values.net.add(node.name, first, other)
    return first


def _depth_to_space(node: Node, values: Values) -> str:
    x, r = values.tensor(node.inputs[0]), int(node.attributes["blocksize"])
    batch, channels, height, width = values.net.shape(x)
    node.expect("mode", "DCR", "DCR", "CRD")
    if r < 1 or channels % (r * r):
        raise UnsupportedError(f"{channels} channels do not come to blocks of {r}")
    depth = channels // (r * r)
    rows_first = node.attributes.get("mode", "DCR") == "DCR"
    seen = (
        (batch, r, r, depth, height, width) if rows_first else (batch, depth, r, r, height, width)
    )
    axes = (0, 3, 4, 1, 5, 2) if rows_first else (0, 1, 4, 2, 5, 3)
    turned = values.net.permute(node.name, values.net.reshape(node.name, x, seen), axes)
    return values.net.reshape(node.name, turned, (batch, depth, height * r, width * r))


def _global_max_pool(node: Node, values: Values) -> str:
    x = values.tensor(node.inputs[0])
    axes = range(2, len(values.net.shape(x)))
    return values.net.largest(node.name, x, axes, keep=True)


def _lstm(node: Node, values: Values) -> None:
    if node.has_input(7) or node.attributes.get("input_forget", 0):
        raise UnsupportedError("it has peepholes, or one gate for input and forget")
    _recurrent(node, values, lstm("iofg"), ["Sigmoid", "Tanh", "Tanh"])


def _gru(node: Node, values: Values) -> None:
    node.expect("linear_before_reset", 0, 1)
    _recurrent(node, values, gru("zrn"), ["Sigmoid", "Tanh"])


def _rnn(node: Node, values: Values) -> None:
    kinds = {"Tanh": "tanh", "Relu": "relu"}
    first = node.attributes.get("activations", [b"Tanh"])[0]
    name = first.decode() if isinstance(first, bytes) else first
    if name not in kinds:
        raise UnsupportedError(f"its activation is {name}")
    _recurrent(node, values, plain(kinds[name]), [name])


def _recurrent(node: Node, values: Values, cell: Cell, kinds: list[str]) -> None:
    """A layer of ONNX: Y [T, directions, N, H], and the last h and c, [directions, N, H]."""
    net, name = values.net, node.name
    x = values.tensor(node.inputs[0])
    count = {"forward": 1, "bidirectional": 2}.get(node.attributes.get("direction", "forward"))
    given = [
        k.decode() if isinstance(k, bytes) else k for k in node.attributes.get("activations", [])
    ]
    if count is None or "clip" in node.attributes or node.has_input(4):
        raise UnsupportedError(
            "it runs backwards only, is clipped, or has sequences of many lengths"
        )
    if node.attributes.get("layout", 0) or given not in ([], kinds * count):
        raise UnsupportedError("it has the batch first, or activations of its own")
    if values.has_batch(x):
        raise UnsupportedError(f"its batch is axis 1: {_BATCH}")
    weights = [values.weight(node.inputs[1]), values.weight(node.inputs[2])]
    both = values.weight(node.inputs[3]) if node.has_input(3) else None

    def part(tensor: str, index: int) -> str:
        one = net.part(name, tensor, 0, index, 1)
        return net.reshape(name, one, net.shape(tensor)[1:])

    def start(position: int, index: int) -> str | None:
        if not node.has_input(position):
            return None
        state = node.inputs[position]
        if values.is_constant(state):
            if not values.floats(state).any():
                return None
            return part(net.constant(state, values.floats(state)), index)
        return part(values.weight(state), index)

    directions = []
    for index in range(count):
        biases = None
        if both is not None:
            row = part(both, index)
            half = net.shape(row)[0] // 2
            biases = (net.part(name, row, 0, 0, half), net.part(name, row, 0, half, half))
        w_x, w_h = (part(weight, index) for weight in weights)
        c = start(6, index) if cell.gates == 4 else None
        directions.append(Direction((w_x, w_h), biases, start(5, index), c))
    states = run_layers(net, name, cell, x, [directions], batch_first=False)
    time, batch, wide = net.shape(states.sequence)
    seen = net.reshape(name, states.sequence, (time, batch, count, wide // count))
    results = (net.permute(name, seen, (0, 2, 1, 3)), states.h, states.c)
    for output, result in zip(node.outputs, results, strict=False):
        if output:
            values.bind(output, result)


def _as_it_stands(kind: str) -> Rule:
    """The rule of an operator that poetfw has with the same inputs, and without attributes."""

    def rule(node: Node, values: Values) -> str:
        for name in node.attributes:
            raise UnsupportedError(f"its attribute {name!r} is set; poetfw has it without")
        return values.builder.op(kind, node.name, [values.weight(name) for name in node.inputs])

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
        "Cast": _cast,
        "CastLike": _cast,
        "Celu": _celu,
        "Clip": _clip,
        "Concat": _concat,
        "Constant": _constant,
        "Conv": _conv,
        "ConvTranspose": _conv_transpose,
        "DepthToSpace": _depth_to_space,
        "Div": _divide,
        "Dropout": _dropout,
        "Elu": _elu,
        "Expand": _expand,
        "Flatten": _flatten,
        "Gather": _gather,
        "Gelu": _gelu,
        "Gemm": _gemm,
        "GRU": _gru,
        "GlobalAveragePool": _global_average_pool,
        "GlobalMaxPool": _global_max_pool,
        "GroupNormalization": _group_norm,
        "HardSigmoid": _hard_sigmoid,
        "Identity": _identity,
        "InstanceNormalization": _instance_norm,
        "LSTM": _lstm,
        "LayerNormalization": _layer_norm,
        "LeakyRelu": _leaky_relu,
        "LogSoftmax": _softmax,
        "MatMul": _matmul,
        "MaxPool": _max_pool,
        "Mish": _mish,
        "Mul": _multiply,
        "Neg": _negate,
        "PRelu": _prelu,
        "Pad": _pad,
        "Pow": _power,
        "RNN": _rnn,
        "ReduceL1": _reduce_of("abs"),
        "ReduceL2": _reduce_of("square", "sqrt"),
        "ReduceMax": _reduce_max,
        "ReduceMean": _reduce_mean,
        "ReduceMin": _reduce_min,
        "ReduceSum": _reduce_sum,
        "ReduceSumSquare": _reduce_of("square"),
        "Reshape": _reshape,
        "Resize": _resize,
        "Selu": _selu,
        "Shape": _shape,
        "Slice": _slice,
        "Softmax": _softmax,
        "Split": _split,
        "Squeeze": _squeeze,
        "Sub": _subtract,
        "Sum": _sum_all,
        "Transpose": _transpose,
        "Unsqueeze": _unsqueeze,
        "Where": _where,
    }
)
"""Every ONNX operator that is understood."""
