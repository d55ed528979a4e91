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

from poetfw.importers.onnx.values import Node, UnsupportedError, Values
from poetfw.ir import Attribute
from poetfw.ops import KINDS

Rule = Callable[[Node, Values], str | None]


def _conv(node: Node, values: Values) -> str:
    x = _image(node, values)
    weight = values.floats(node.inputs[1])
    if weight.ndim != 4:
        raise UnsupportedError(f"its weight has {weight.ndim} axes; poetfw convolves images")
    kernel = (weight.shape[2], weight.shape[3])
    node.expect("kernel_shape", list(kernel), list(kernel))
    stride, padding = _window(node, values.builder.shape(x), kernel)
    inputs = [x, values.parameter(node.inputs[1:2], weight)]
    if node.has_input(2):
        inputs.append(_bias(node.inputs[2], values, weight.shape[0]))
    attributes: dict[str, Attribute] = {
        "stride": stride,
        "padding": padding,
        "groups": int(node.attributes.get("group", 1)),
    }
    return values.builder.op("conv2d", node.name, inputs, attributes)


def _gemm(node: Node, values: Values) -> str:
    node.expect("alpha", 1.0, 1.0)
    node.expect("beta", 1.0, 1.0)
    node.expect("transA", 0, 0)
    transposed = node.attributes.get("transB", 0) != 0
    bias = node.inputs[2] if node.has_input(2) else None
    return _linear(node, values, bias, transposed=transposed)


def _matmul(node: Node, values: Values) -> str | None:
    """A product with constant weights, and the addition of a bias where one follows."""
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
    return addition if len(others) == 1 and values.is_constant(others[0]) else None


def _linear(node: Node, values: Values, bias: str | None, *, transposed: bool) -> str:
    x = values.tensor(node.inputs[0])
    weight = values.floats(node.inputs[1])
    if weight.ndim != 2 or len(values.builder.shape(x)) != 2:
        raise UnsupportedError("poetfw multiplies matrices of 2 axes only")
    if not transposed:
        weight = np.ascontiguousarray(weight.T)
    form = "" if transposed else "transposed"
    inputs = [x, values.parameter(node.inputs[1:2], weight, form)]
    if bias is not None:
        inputs.append(_bias(bias, values, weight.shape[0]))
    return values.builder.op("linear", node.name, inputs)


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
    inputs = (
        x,
        values.parameter(node.inputs[1:3], np.stack([scale, shift])),
        values.builder.state(f"{node.name}.running", np.stack([mean, variance])),
    )
    # ONNX's momentum is the weight of the old statistics, poetfw's that of the new batch.
    momentum = 1 - _decimal(node.attributes.get("momentum", 0.9))
    eps = _decimal(node.attributes.get("epsilon", 1e-5))
    return values.builder.op("batch_norm", node.name, inputs, {"eps": eps, "momentum": momentum})


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
    include = 1 if node.attributes.get("count_include_pad", 0) else 0
    return _pool("avg_pool2d", node, values, {"count_include_pad": include})


def _pool(
    kind: str, node: Node, values: Values, more: Mapping[str, Attribute] | None = None
) -> str:
    x = _image(node, values)
    shape = values.builder.shape(x)
    kernel = _pair(node, "kernel_shape", None)
    stride, padding = _window(node, shape, kernel)
    if node.attributes.get("ceil_mode", 0):
        padded = (shape[2] + padding[0] + padding[2], shape[3] + padding[1] + padding[3])
        if any((p - k) % s for p, k, s in zip(padded, kernel, stride, strict=True)):
            raise UnsupportedError("with ceil_mode it has windows beyond its input's edge")
    attributes: dict[str, Attribute] = {"kernel": kernel, "stride": stride, "padding": padding}
    return values.builder.op(kind, node.name, (x,), attributes | dict(more or {}))


def _global_average_pool(node: Node, values: Values) -> str:
    return values.builder.op("global_avg_pool", node.name, (_image(node, values),))


def _reduce_mean(node: Node, values: Values) -> str:
    x = _image(node, values)
    axes: Sequence[int] = node.attributes.get("axes", ())
    if node.has_input(1):
        axes = values.integers(node.inputs[1])
    if sorted(axis % 4 if -4 <= axis < 4 else axis for axis in axes) != [2, 3]:
        raise UnsupportedError(f"it averages over axes {list(axes)}; poetfw has [2, 3]")
    pooled = values.builder.op("global_avg_pool", node.name, (x,))
    if node.attributes.get("keepdims", 1):
        return pooled
    return _reshape_to(values.builder.shape(pooled)[:2], pooled, node, values)


def _flatten(node: Node, values: Values) -> str:
    x = values.tensor(node.inputs[0])
    batch, *features = values.builder.shape(x)
    axis = int(node.attributes.get("axis", 1))
    if axis not in (1, 1 - len(features) - 1):
        raise UnsupportedError(f"axis is {axis}, but must be 1: axis 0 is the batch")
    return _reshape_to((batch, math.prod(features)), x, node, values)


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
    return _reshape_to((shape[0], *rest), x, node, values)


def _reshape_to(shape: tuple[int, ...], x: str, node: Node, values: Values) -> str:
    if values.builder.shape(x) == shape:
        return x
    return values.builder.op("reshape", node.name, (x,), {"shape": shape})


def _slice(node: Node, values: Values) -> str:
    x = values.tensor(node.inputs[0])
    starts, ends = (values.integers(name, open_ended=True) for name in node.inputs[1:3])
    axes = values.integers(node.inputs[3]) if node.has_input(3) else range(len(starts))
    steps = values.integers(node.inputs[4]) if node.has_input(4) else ()
    if any(step != 1 for step in steps):
        raise UnsupportedError(f"its steps are {list(steps)}, but must be 1")
    for axis, start, end in zip(axes, starts, ends, strict=True):
        first, last, _ = slice(start, end).indices(values.builder.shape(x)[axis])
        x = _part(node, values, x, axis, first, last - first)
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


def _part(node: Node, values: Values, x: str, axis: int, start: int, length: int) -> str:
    """The positions from `start` on along one axis."""
    shape = values.builder.shape(x)
    if length == shape[axis]:
        return x
    axis = range(len(shape))[axis]
    if axis == 0:
        raise UnsupportedError("it takes a part of axis 0, the batch")
    attributes: dict[str, Attribute] = {"axis": axis, "start": start, "length": length}
    return values.builder.op("slice", node.name, (x,), attributes)


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


def _gather(node: Node, values: Values) -> None:
    data, indices = (values.integer_array(name) for name in node.inputs)
    _bind_integers(node, values, np.take(data, indices, axis=node.attributes.get("axis", 0)))


def _unsqueeze(node: Node, values: Values) -> None:
    axes = values.integers(node.inputs[1])
    _bind_integers(node, values, np.expand_dims(values.integer_array(node.inputs[0]), axes))


def _concat(node: Node, values: Values) -> None:
    parts = [values.integer_array(name) for name in node.inputs]
    _bind_integers(node, values, np.concatenate(parts, axis=node.attributes["axis"]))


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
    if node.output != values.output or values.loss != "softmax_cross_entropy":
        raise UnsupportedError(
            "poetfw has it only as the last node, with the loss softmax_cross_entropy"
        )
    x = values.tensor(node.inputs[0])
    node.expect("axis", -1, -1, len(values.builder.shape(x)) - 1)
    return x


def _as_it_stands(kind: str) -> Rule:
    """The rule of an operator that poetfw has with the same inputs, and without attributes."""

    def rule(node: Node, values: Values) -> str:
        for name in node.attributes:
            raise UnsupportedError(f"its attribute {name!r} is set; poetfw has it without")
        return values.builder.op(kind, node.name, [values.tensor(name) for name in node.inputs])

    return rule


def _image(node: Node, values: Values) -> str:
    x = values.tensor(node.inputs[0])
    rank = len(values.builder.shape(x))
    if rank != 4:
        raise UnsupportedError(f"its input has {rank} axes; poetfw needs [N, C, H, W]")
    return x


def _pair(node: Node, name: str, default: tuple[int, int] | None) -> tuple[int, int]:
    value = node.attributes.get(name, default)
    if value is None or len(value) != 2:
        raise UnsupportedError(f"{name} is {value}; poetfw works on images, with 2")
    return int(value[0]), int(value[1])


def _window(
    node: Node, shape: tuple[int, ...], kernel: tuple[int, int]
) -> tuple[tuple[int, int], tuple[int, int, int, int]]:
    """Stride, and padding at the top, left, bottom and right."""
    node.expect("dilations", [1, 1], [1, 1])
    stride = _pair(node, "strides", (1, 1))
    mode = node.attributes.get("auto_pad", "NOTSET")
    if mode == "VALID":
        return stride, (0, 0, 0, 0)
    if mode == "NOTSET":
        pads = node.attributes.get("pads", [0, 0, 0, 0])
        if len(pads) != 4:
            raise UnsupportedError(f"pads is {pads}; poetfw works on images, with 4")
        top, left, bottom, right = map(int, pads)
        return stride, (top, left, bottom, right)
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        raise UnsupportedError(f"auto_pad is {mode!r}, which ONNX does not define")
    if min(stride) < 1:
        raise UnsupportedError(f"strides is {list(stride)}, but must be 1 or more")
    total = [
        max((-(-extent // step) - 1) * step + size - extent, 0)
        for extent, step, size in zip(shape[2:], stride, kernel, strict=True)
    ]
    less, more = [t // 2 for t in total], [t - t // 2 for t in total]
    begin, end = (less, more) if mode == "SAME_UPPER" else (more, less)
    return stride, (begin[0], begin[1], end[0], end[1])


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        **{kind.onnx: _as_it_stands(name) for name, kind in KINDS.items() if kind.onnx},
        "AveragePool": _average_pool,
        "BatchNormalization": _batch_norm,
        "Clip": _clip,
        "Concat": _concat,
        "Constant": _constant,
        "Conv": _conv,
        "Dropout": _dropout,
        "Flatten": _flatten,
        "Gather": _gather,
        "Gemm": _gemm,
        "GlobalAveragePool": _global_average_pool,
        "Identity": _identity,
        "LogSoftmax": _softmax,
        "MatMul": _matmul,
        "MaxPool": _max_pool,
        "ReduceMean": _reduce_mean,
        "Reshape": _reshape,
        "Shape": _shape,
        "Slice": _slice,
        "Softmax": _softmax,
        "Split": _split,
        "Unsqueeze": _unsqueeze,
    }
)
"""Every ONNX operator that is understood."""
