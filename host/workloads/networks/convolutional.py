# SPDX-License-Identifier: Apache-2.0
"""Convolutional networks as torchvision defines them, on 224 x 224 images."""

from __future__ import annotations

from collections.abc import Callable

from poetfw.models.mobilenet_v2 import STAGES
from workloads.networks.layers import Layers
from workloads.networks.tape import TrainingStep, Value

CLASSES = 1000

Activation = Callable[[Value], Value]


def _finish(net: Layers, logits: Value) -> TrainingStep:
    return net.tape.training_step(net.total(logits))


def _image(net: Layers, batch: int) -> Value:
    return net.tape.resident(batch, 3, 224, 224)


def _unit(
    net: Layers,
    x: Value,
    channels: int,
    kernel: int = 1,
    stride: int = 1,
    groups: int = 1,
    active: Activation | None = None,
) -> Value:
    """Convolution without bias, batch norm, and an activation: ReLU in place if none is given."""
    y = net.convolution(x, channels, kernel, stride, kernel // 2, groups=groups)
    return (active or net.relu)(net.batch_norm(y))


def alexnet(batch: int) -> TrainingStep:
    """AlexNet (the one-column version of torchvision)."""
    net = Layers()
    x = net.relu(net.convolution(_image(net, batch), 64, 11, 4, 2, bias=True))
    x = net.relu(net.convolution(net.max_pool(x, 3, 2), 192, 5, 1, 2, bias=True))
    x = net.max_pool(x, 3, 2)
    for channels in (384, 256, 256):
        x = net.relu(net.convolution(x, channels, 3, 1, 1, bias=True))
    x = net.flatten(net.average_pool(net.max_pool(x, 3, 2), 6))
    for _ in range(2):
        x = net.relu(net.linear(net.dropout(x), 4096))
    return _finish(net, net.linear(x, CLASSES))


def vgg(batch: int, blocks: tuple[int, ...]) -> TrainingStep:
    """VGG with the given numbers of convolutions before each pooling."""
    net = Layers()
    x = _image(net, batch)
    for convolutions, channels in zip(blocks, (64, 128, 256, 512, 512), strict=True):
        for _ in range(convolutions):
            x = net.relu(net.convolution(x, channels, 3, 1, 1, bias=True))
        x = net.max_pool(x, 2, 2)
    x = net.flatten(net.average_pool(x, 7))
    for _ in range(2):
        x = net.dropout(net.relu(net.linear(x, 4096)))
    return _finish(net, net.linear(x, CLASSES))


def resnet18(batch: int) -> TrainingStep:
    """ResNet-18."""
    net = Layers()
    x = net.max_pool(_unit(net, _image(net, batch), 64, 7, 2), 3, 2, 1)
    for stage, channels in enumerate((64, 128, 256, 512)):
        for block in range(2):
            stride = 2 if stage and not block else 1
            y = _unit(net, x, channels, 3, stride)
            y = net.batch_norm(net.convolution(y, channels, 3, 1, 1))
            if x.shape != y.shape:
                x = net.batch_norm(net.convolution(x, channels, 1, stride))
            x = net.relu(net.add(y, x, in_place=True))
    return _finish(net, net.linear(net.flatten(net.mean_pool(x)), CLASSES))


def resnet50(batch: int) -> TrainingStep:
    """ResNet-50."""
    net = Layers()
    x = net.max_pool(_unit(net, _image(net, batch), 64, 7, 2), 3, 2, 1)
    for stage, (channels, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            y = _unit(net, _unit(net, x, channels), channels, 3, stride)
            y = net.batch_norm(net.convolution(y, 4 * channels, 1))
            if x.shape != y.shape:
                x = net.batch_norm(net.convolution(x, 4 * channels, 1, stride))
            x = net.relu(net.add(y, x, in_place=True))
    return _finish(net, net.linear(net.flatten(net.mean_pool(x)), CLASSES))


def resnet3d(batch: int, frames: int) -> TrainingStep:
    """ResNet3D-18 on frames of 112 x 112 pixels."""
    net = Layers()
    clip = net.tape.resident(batch, 3, frames, 112, 112)
    x = net.relu(net.batch_norm(net.convolution(clip, 64, (3, 7, 7), (1, 2, 2), (1, 3, 3))))
    for stage, channels in enumerate((64, 128, 256, 512)):
        for block in range(2):
            stride = 2 if stage and not block else 1
            y = _unit(net, x, channels, 3, stride)
            y = net.batch_norm(net.convolution(y, channels, 3, 1, 1))
            if x.shape != y.shape:
                x = net.batch_norm(net.convolution(x, channels, 1, stride))
            x = net.relu(net.add(y, x, in_place=True))
    return _finish(net, net.linear(net.flatten(net.mean_pool(x)), 400))


_INCEPTIONS = (
    (64, 96, 128, 16, 32, 32),
    (128, 128, 192, 32, 96, 64),
    (192, 96, 208, 16, 48, 64),
    (160, 112, 224, 24, 64, 64),
    (128, 128, 256, 24, 64, 64),
    (112, 144, 288, 32, 64, 64),
    (256, 160, 320, 32, 128, 128),
    (256, 160, 320, 32, 128, 128),
    (384, 192, 384, 48, 128, 128),
)
"""Channels of 3a, 3b, 4a-4e, 5a, 5b: 1x1; 3x3 reduced and full; 5x5 reduced and full; pooled."""


def googlenet(batch: int) -> TrainingStep:
    """GoogLeNet with its two auxiliary classifiers."""
    net = Layers()
    x = net.max_pool_up(_unit(net, _image(net, batch), 64, 7, 2), 3, 2)
    x = net.max_pool_up(_unit(net, _unit(net, x, 64), 192, 3), 3, 2)
    auxiliary = []
    for number, (c1, r3, c3, r5, c5, pooled) in enumerate(_INCEPTIONS):
        if number == 2:
            x = net.max_pool_up(x, 3, 2)
        if number == 7:
            x = net.max_pool_up(x, 2, 2)
        if number in (3, 6):
            auxiliary.append(_auxiliary(net, x))
        branches = [
            _unit(net, x, c1),
            _unit(net, _unit(net, x, r3), c3, 3),
            _unit(net, _unit(net, x, r5), c5, 3),
            _unit(net, net.max_pool(x, 3, 1, 1), pooled),
        ]
        x = net.concatenate(branches)
    x = net.dropout(net.flatten(net.mean_pool(x)))
    return _finish(net, net.concatenate([net.linear(x, CLASSES), *auxiliary]))


def _auxiliary(net: Layers, x: Value) -> Value:
    y = net.flatten(_unit(net, net.average_pool(x, 4), 128))
    return net.linear(net.dropout(net.relu(net.linear(y, 1024))), CLASSES)


def mobilenet_v1(batch: int) -> TrainingStep:
    """MobileNet v1."""
    net = Layers()
    x = _unit(net, _image(net, batch), 32, 3, 2)
    widths = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2))
    for channels, stride in (*widths, *((512, 1),) * 5, (1024, 2), (1024, 1)):
        x = _unit(net, x, x.shape[1], 3, stride, x.shape[1])
        x = _unit(net, x, channels)
    return _finish(net, net.linear(net.flatten(net.mean_pool(x)), CLASSES))


def _inverted(
    net: Layers, x: Value, channels: int, kernel: int, stride: int, expand: int, active: Activation
) -> Value:
    """An inverted residual: expand, depthwise, project, and the sum where shapes agree."""
    hidden = x.shape[1] * expand
    y = _unit(net, x, hidden, active=active) if expand != 1 else x
    y = _unit(net, y, hidden, kernel, stride, hidden, active)
    y = net.batch_norm(net.convolution(y, channels, 1))
    return net.add(x, y) if x.shape == y.shape else y


def mobilenet_v2(batch: int) -> TrainingStep:
    """MobileNet v2."""
    net = Layers()
    x = _unit(net, _image(net, batch), 32, 3, 2, active=net.relu6)
    for expand, channels, blocks, stride in STAGES:
        for block in range(blocks):
            x = _inverted(net, x, channels, 3, 1 if block else stride, expand, net.relu6)
    x = _unit(net, x, 1280, active=net.relu6)
    x = net.dropout(net.flatten(net.mean_pool(x)))
    return _finish(net, net.linear(x, CLASSES))


def mnasnet(batch: int, width: float) -> TrainingStep:
    """MNASNet, its channels multiplied by the width and rounded to a multiple of 8."""

    def scaled(channels: int) -> int:
        rounded = max(8, int(channels * width + 4) // 8 * 8)
        return rounded if rounded >= 0.9 * channels * width else rounded + 8

    net = Layers()
    x = _unit(net, _image(net, batch), scaled(32), 3, 2)
    x = _unit(net, x, scaled(32), 3, 1, scaled(32))
    x = net.batch_norm(net.convolution(x, scaled(16), 1))
    for kernel, stride, expand, channels, blocks in (
        (3, 2, 3, 24, 3),
        (5, 2, 3, 40, 3),
        (5, 2, 6, 80, 3),
        (3, 1, 6, 96, 2),
        (5, 2, 6, 192, 4),
        (3, 1, 6, 320, 1),
    ):
        for block in range(blocks):
            step = 1 if block else stride
            x = _inverted(net, x, scaled(channels), kernel, step, expand, net.relu)
    x = net.dropout(net.flatten(net.mean_pool(_unit(net, x, 1280))))
    return _finish(net, net.linear(x, CLASSES))


def efficientnet_b0(batch: int) -> TrainingStep:
    """EfficientNet-B0 with squeeze and excitation; residual branches are dropped at random."""
    net = Layers()

    def unit(x: Value, channels: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> Value:
        y = net.convolution(x, channels, kernel, stride, kernel // 2, groups=groups)
        return net.silu(net.batch_norm(y))

    x = unit(_image(net, batch), 32, 3, 2)
    for expand, kernel, stride, channels, blocks in (
        (1, 3, 1, 16, 1),
        (6, 3, 2, 24, 2),
        (6, 5, 2, 40, 2),
        (6, 3, 2, 80, 3),
        (6, 5, 1, 112, 3),
        (6, 5, 2, 192, 4),
        (6, 3, 1, 320, 1),
    ):
        for block in range(blocks):
            hidden = x.shape[1] * expand
            y = unit(x, hidden) if expand != 1 else x
            y = unit(y, hidden, kernel, 1 if block else stride, hidden)
            gate = net.convolution(net.mean_pool(y), x.shape[1] // 4, 1, bias=True)
            gate = net.sigmoid(net.convolution(net.silu(gate), hidden, 1, bias=True))
            y = net.batch_norm(net.convolution(net.multiply(y, gate), channels, 1))
            x = net.add(net.scale(y), x) if x.shape == y.shape else y
    x = net.dropout(net.flatten(net.mean_pool(unit(x, 1280))))
    return _finish(net, net.linear(x, CLASSES))
