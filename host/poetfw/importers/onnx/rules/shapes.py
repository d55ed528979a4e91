# SPDX-License-Identifier: Apache-2.0
"""Rules of shapes: views, slices, joins, padding, resizing, and constant shape computations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import onnx
from numpy.typing import NDArray

from poetfw.importers.onnx.nodes import OnnxNode
from poetfw.importers.onnx.roles import Doubt
from poetfw.importers.onnx.rules.images import as_image, as_ranked
from poetfw.importers.onnx.rules.registry import onnx_rule
from poetfw.importers.onnx.values import Values
from poetfw.importers.refusal import UnsupportedError
from poetfw.ir import Attribute

BATCH = "axis 0 is the batch, unless the file was written for the one that is trained with"


@onnx_rule("Flatten")
def _flatten(node: OnnxNode, values: Values) -> str:
    x = values.tensor(node.inputs[0])
    shape = values.builder.shape(x)
    axis = int(node.attributes.get("axis", 1))
    if not -len(shape) <= axis <= len(shape):
        raise UnsupportedError(f"its axis {axis} does not exist")
    axis += len(shape) if axis < 0 else 0
    if axis != 1 and values.has_batch(x):
        raise UnsupportedError(f"axis is {axis}, but must be 1: {BATCH}")
    return values.net.reshape(node.name, x, (math.prod(shape[:axis]), math.prod(shape[axis:])))


@onnx_rule("Reshape")
def _reshape(node: OnnxNode, values: Values) -> str:
    """Replace the file's batch size in the constant shape by the requested one."""
    x = values.weight(node.inputs[0])
    shape = values.builder.shape(x)
    target = values.integers(node.inputs[1])
    copies = not node.attributes.get("allowzero", 0)  # 0 means the input's extent
    wanted = [
        shape[axis] if extent == 0 and copies and axis < len(shape) else extent
        for axis, extent in enumerate(target)
    ]
    if values.has_batch(x):
        first = target[:1]
        if first not in ((-1,), (values.file_batch,), shape[:1]) and not (copies and first == (0,)):
            raise UnsupportedError(f"its shape {list(target)} does not keep axis 0: {BATCH}")
        wanted[0] = shape[0]
    if target.count(-1) == wanted.count(-1) == 1:
        known = -math.prod(wanted)
        wanted[wanted.index(-1)] = math.prod(shape) // known if known > 0 else 0
    if any(extent < 1 for extent in wanted) or math.prod(wanted) != math.prod(shape):
        raise UnsupportedError(f"its shape {list(target)} does not fit {list(shape)}")
    return values.net.reshape(node.name, x, wanted)


@onnx_rule("Slice")
def _slice(node: OnnxNode, values: Values) -> str:
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


@onnx_rule("Split")
def _split(node: OnnxNode, values: Values) -> None:
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
    node: OnnxNode, values: Values, x: str, axis: int, start: int, length: int, step: int = 1
) -> str:
    """Slice of one axis: `length` positions from `start` on, `step` apart."""
    shape = values.builder.shape(x)
    if length == shape[axis] and step == 1:
        return x
    axis = range(len(shape))[axis]
    if axis == 0 and values.has_batch(x):
        raise UnsupportedError(f"it takes a part of axis 0: {BATCH}")
    return values.net.part(node.name, x, axis, start, length, step)


@onnx_rule("Identity")
def _identity(node: OnnxNode, values: Values) -> str | None:
    """Exporters use Identity to store equal constants once: each name remains its own constant."""
    if node.detached:
        return values.net.detach(node.name, values.weight(node.inputs[0]))
    if not values.is_constant(node.inputs[0]):
        return values.weight(node.inputs[0])
    values.copy(node.output, node.inputs[0])
    return None


@onnx_rule("Constant")
def _constant(node: OnnxNode, values: Values) -> None:
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


@onnx_rule("Shape")
def _shape(node: OnnxNode, values: Values) -> None:
    """Bind the known shape, from which exporters compute the targets of reshapes."""
    shape = values.dims(node.inputs[0])
    part = slice(node.attributes.get("start"), node.attributes.get("end"))
    _bind_integers(node, values, np.asarray(shape[part]))


@onnx_rule("Gather")
def _gather(node: OnnxNode, values: Values) -> str:
    """Select positions along an axis, or rows of a table by computed ids."""
    data, indices = node.inputs
    axis = int(node.attributes.get("axis", 0))
    x = values.weight(data)
    shape = values.builder.shape(x)
    axis = range(len(shape))[axis]
    if not values.is_constant(indices):
        ids = values.tensor(indices)
        if axis != 0 or len(shape) != 2 or not values.is_ids(ids):
            raise UnsupportedError("it looks up what is calculated")
        return values.builder.op("embedding", node.name, (ids, x), _padding(node, values))
    index = values.integer_array(indices)
    positions = [range(shape[axis])[i] for i in index.reshape(-1).tolist()]
    steps = {b - a for a, b in pairwise(positions)} or {1}
    if len(steps) != 1 or 0 in steps:
        raise UnsupportedError("it takes positions that are not evenly apart")
    one = _part(node, values, x, axis, positions[0], len(positions), steps.pop())
    return values.net.reshape(node.name, one, (*shape[:axis], *index.shape, *shape[axis + 1 :]))


def _padding(node: OnnxNode, values: Values) -> dict[str, Attribute]:
    """Attributes of a lookup: the row that is not trained, if the file notes one."""
    table = node.inputs[0]
    if values.notes_kinds:
        noted = values.padding(node)
        return {} if noted is None else {"padding": noted}
    if values.is_constant(table) and not values.is_fixed(table):
        used = values.array(table).any(axis=1)
        if used.any() and not used.all() and values.chosen.says(table, one_by_one=True) is None:
            values.doubts.append(Doubt(table, "padding"))
    return {}


@onnx_rule("Squeeze")
def _squeeze(node: OnnxNode, values: Values) -> str:
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


@onnx_rule("Unsqueeze")
def _unsqueeze(node: OnnxNode, values: Values) -> str:
    axes = values.integers(node.inputs[1])
    x = values.weight(node.inputs[0])
    shape = list(values.builder.shape(x))
    for axis in sorted(range(len(shape) + len(axes))[axis] for axis in axes):
        if axis == 0 and values.has_batch(x):
            raise UnsupportedError(f"it puts an axis before axis 0: {BATCH}")
        shape.insert(axis, 1)
    return values.net.reshape(node.name, x, shape)


@onnx_rule("Concat")
def _concat(node: OnnxNode, values: Values) -> str:
    axis = int(node.attributes["axis"])
    tensors = [values.weight(name) for name in node.inputs]
    axis = range(len(values.builder.shape(tensors[0])))[axis]
    if axis == 0 and any(map(values.has_batch, tensors)):
        raise UnsupportedError(f"it concatenates along axis 0: {BATCH}")
    return values.net.concat(node.name, tensors, axis)


@onnx_rule("Expand")
def _expand(node: OnnxNode, values: Values) -> str:
    x = values.weight(node.inputs[0])
    shape = list(values.integers(node.inputs[1]))
    if values.has_batch(x) and len(shape) == len(values.net.shape(x)):
        if shape[0] not in (1, values.file_batch):
            raise UnsupportedError(f"it stretches axis 0: {BATCH}")
        shape[0] = 1
    return values.net.stretch(
        node.name, x, tuple(np.broadcast_shapes(tuple(shape), values.net.shape(x)))
    )


@onnx_rule("Where")
def _where(node: OnnxNode, values: Values) -> str:
    """Select by a condition, constant or calculated."""
    condition, *both = node.inputs
    net = values.net
    if not values.is_fixed(condition):
        tensors = values.tensor(condition), *map(values.weight, both)
        shape = np.broadcast_shapes(*map(net.shape, tensors))
        stretched = tuple(net.stretch(node.name, each, shape) for each in tensors)
        return values.builder.op("where", node.name, stretched)
    chosen = values.array(condition).astype(np.float32)
    parts = [
        net.multiply(node.name, values.weight(name), net.constant(f"{node.name}.mask", mask))
        for name, mask in zip(both, (chosen, 1 - chosen), strict=True)
    ]
    return net.add(node.name, *parts)


@onnx_rule("Cast", "CastLike")
def _cast(node: OnnxNode, values: Values) -> str | None:
    """Convert between number types that poetfw represents as float32."""
    floats = (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16)
    if node.attributes.get("to", onnx.TensorProto.FLOAT) not in floats:
        raise UnsupportedError("it makes integers of what is calculated")
    (source, *_) = node.inputs
    if values.is_constant(source):
        array = values.array(source).astype(np.float32)
        values.copy(node.output, source, onnx.numpy_helper.from_array(array))
        return None
    if values.is_ids(values.tensor(source)):
        raise UnsupportedError("it makes numbers of ids")
    return values.tensor(source)


def _bind_integers(node: OnnxNode, values: Values, result: NDArray[np.int64]) -> None:
    values.bind_constant(node.output, onnx.numpy_helper.from_array(result.astype(np.int64)))


@onnx_rule("Transpose")
def _transpose(node: OnnxNode, values: Values) -> str | None:
    """Transpose; for a weight matrix, this is deferred to the product that reads it."""
    rank = len(values.dims(node.inputs[0]))
    axes = node.attributes.get("perm", list(reversed(range(rank))))
    if sorted(axes) != list(range(rank)):
        raise UnsupportedError(f"its axes are {list(axes)}")
    if values.is_constant(node.inputs[0]) and list(axes) == [1, 0]:
        values.turn(node.output, node.inputs[0])
        return None
    x = values.weight(node.inputs[0])
    if axes[0] != 0 and values.has_batch(x):
        raise UnsupportedError(f"its axes are {list(axes)}: {BATCH}")
    return values.net.permute(node.name, x, axes)


@onnx_rule("Pad")
def _pad(node: OnnxNode, values: Values) -> str:
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
        raise UnsupportedError(f"it pads axis 0: {BATCH}")
    return values.net.pad(node.name, x, pairs, mode)


@onnx_rule("Resize")
def _resize(node: OnnxNode, values: Values) -> str:
    x = as_image(node, values)
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
        return as_ranked(node, values, y)
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
    return as_ranked(node, values, values.net.repeat_positions(node.name, x, whole))


def _resized(node: OnnxNode, values: Values) -> tuple[int, ...]:
    """Shape of the result, for the file's batch."""
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


@onnx_rule("DepthToSpace")
def _depth_to_space(node: OnnxNode, values: Values) -> str:
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
