# SPDX-License-Identifier: Apache-2.0
"""Rules of convolutions and pooling over three axes: those of two, of windows along the first."""

from __future__ import annotations

import math

from poetfw.importers.refusal import UnsupportedError
from poetfw.importers.torch_export.calls import Call, Value
from poetfw.importers.torch_export.rules.layers import bias_of
from poetfw.importers.torch_export.rules.registry import Ints, aten


def _three(numbers: Ints) -> tuple[int, int, int]:
    first, second, third = numbers if len(numbers) == 3 else (numbers[0],) * 3
    return first, second, third


def _windows(call: Call, x: str, size: int, stride: int, padding: int) -> str:
    """X [N, C, D, H, W] as [N, C, positions, H, W, size]."""
    if len(call.net.shape(x)) != 5:
        raise UnsupportedError(f"its input has the shape {list(call.net.shape(x))}")
    padded = call.net.pad(call.name, x, {2: (padding, padding)})
    return call.net.windows(call.name, padded, 2, size, stride)


@aten("conv3d.default")
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
    """Each window's layers are channels of an image."""
    net, name = call.net, call.name
    outputs, inputs, depth, *kernel = call.shape(weight)
    steps, edges, apart = map(_three, (stride, padding, dilation))
    if apart[0] != 1:
        raise UnsupportedError(f"its dilation is {list(apart)}: poetfw dilates the last two axes")
    taken = _windows(call, call.tensor(input), depth, steps[0], edges[0])
    batch, channels, positions, height, width, _ = net.shape(taken)
    turned = net.permute(name, taken, (0, 2, 1, 5, 3, 4))
    image = net.reshape(name, turned, (batch * positions, channels * depth, height, width))
    y = net.conv(
        name,
        image,
        call.weight(weight, (outputs, inputs * depth, *kernel)),
        bias_of(call, bias),
        stride=steps[1:],
        padding=(*edges[1:], *edges[1:]),
        dilation=apart[1:],
        groups=groups,
    )
    parts = net.reshape(name, y, (batch, positions, *net.shape(y)[1:]))
    return net.permute(name, parts, (0, 2, 1, 3, 4))


@aten("max_pool3d.default")
def _max_pool(
    call: Call,
    self: Value,
    kernel_size: Ints,
    stride: Ints = (),
    padding: Ints = (0,),
    dilation: Ints = (1,),
    ceil_mode: bool = False,
) -> str:
    edges = _three(padding)
    if set(dilation) != {1} or edges[0]:
        raise UnsupportedError("it is dilated, or pads the first axis")
    return _pool(call, "max_pool2d", self, kernel_size, stride or kernel_size, edges, ceil_mode)


@aten("avg_pool3d.default")
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
    edges = _three(padding)
    if divisor_override is not None or (edges[0] and not count_include_pad):
        raise UnsupportedError("it divides by another number than that of all in a window")
    return _pool(call, "avg_pool2d", self, kernel_size, stride or kernel_size, edges, ceil_mode)


def _pool(
    call: Call,
    kind: str,
    x: Value,
    kernel_size: Ints,
    stride: Ints,
    edges: tuple[int, int, int],
    ceil: bool,
) -> str:
    """Over windows along the first axis, and then over the other two."""
    net, name, tensor = call.net, call.name, call.tensor(x)
    kernel, steps = _three(kernel_size), _three(stride)
    if ceil:
        raise UnsupportedError("it has ceil_mode")
    if kernel[0] > 1 or steps[0] > 1 or edges[0]:
        taken = _windows(call, tensor, kernel[0], steps[0], edges[0])
        over = (len(net.shape(taken)) - 1,)
        largest = kind == "max_pool2d"
        tensor = (
            net.largest(name, taken, over, keep=False)
            if largest
            else net.mean(name, taken, over, keep=False)
        )
    batch, channels, depth, height, width = net.shape(tensor)
    y = net.reshape(name, tensor, (batch, channels * depth, height, width))
    if math.prod(kernel[1:]) > 1 or math.prod(steps[1:]) > 1:
        y = net.pool(
            kind,
            name,
            y,
            kernel=kernel[1:],
            stride=steps[1:],
            padding=(*edges[1:], *edges[1:]),
            ceil=False,
            include=True,
        )
    return net.reshape(name, y, (batch, channels, depth, *net.shape(y)[2:]))
