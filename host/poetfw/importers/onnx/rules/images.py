# SPDX-License-Identifier: Apache-2.0
"""Images with one or two spatial axes, as rules use them."""

from __future__ import annotations

from poetfw.importers.network import Edges
from poetfw.importers.network_tensors import Pair
from poetfw.importers.onnx.nodes import OnnxNode
from poetfw.importers.onnx.values import Values
from poetfw.importers.refusal import UnsupportedError


def as_image(node: OnnxNode, values: Values) -> str:
    """View the input as a batch of images; sequences become images of height 1."""
    x = values.tensor(node.inputs[0])
    shape = values.builder.shape(x)
    if len(shape) not in (3, 4):
        raise UnsupportedError(f"its input has {len(shape)} axes; poetfw needs [N, C, H, W]")
    return x if len(shape) == 4 else values.net.reshape(node.name, x, (*shape[:2], 1, shape[2]))


def as_ranked(node: OnnxNode, values: Values, y: str) -> str:
    """View a result with as many axes as the node's input."""
    if len(values.shape(node.inputs[0])) == 4:
        return y
    shape = values.builder.shape(y)
    return values.net.reshape(node.name, y, (*shape[:2], shape[3]))


def pair_of(node: OnnxNode, values: Values, name: str, default: Pair | None = None) -> Pair:
    """Attribute for height and width; for a sequence, a neutral value and the attribute's own."""
    value = node.attributes.get(name, default)
    if value is not None and name in node.attributes and len(values.shape(node.inputs[0])) == 3:
        neutral = 0 if name == "output_padding" else 1
        value = (neutral, *value)
    if value is None or len(value) != 2:
        raise UnsupportedError(f"{name} is {value}; poetfw works on images, with 2")
    return int(value[0]), int(value[1])


def window_of(
    node: OnnxNode, values: Values, shape: tuple[int, ...], kernel: Pair
) -> tuple[Pair, Edges]:
    """Stride, and padding at top, left, bottom and right."""
    stride = pair_of(node, values, "strides", (1, 1))
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
    dilation = pair_of(node, values, "dilations", (1, 1))
    total = [
        max((-(-extent // step) - 1) * step + (size - 1) * spread + 1 - extent, 0)
        for extent, step, size, spread in zip(shape[2:], stride, kernel, dilation, strict=True)
    ]
    less, more = [t // 2 for t in total], [t - t // 2 for t in total]
    begin, end = (less, more) if mode == "SAME_UPPER" else (more, less)
    return stride, (begin[0], begin[1], end[0], end[1])
