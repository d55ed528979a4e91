# SPDX-License-Identifier: Apache-2.0
"""ResNets for CIFAR-10: He, Zhang, Ren, Sun, CVPR 2016, table 1.

As is usual for 32 x 32 images, a 3 x 3 convolution of stride 1 replaces the 7 x 7 stem and its
pooling. If a block changes the shape, its shortcut is a 1 x 1 convolution with batch normalisation
(option B in section 3.3). In a bottleneck, the 3 x 3 convolution has the stride.
"""

from __future__ import annotations

from collections.abc import Sequence

from poetfw.models.layers import Layers
from poetfw.models.model import Model
from poetfw.training import Sgd

_STAGES = (64, 128, 256, 512)
"""Channels of each stage; every stage but the first halves height and width."""

_BOTTLENECK = 4
"""Ratio of a bottleneck's output channels to its stage's channels."""


def resnet18(batch: int, seed: int) -> Model:
    """ResNet-18, 3 x 32 x 32 images, 10 classes."""
    return _resnet("18", (2, 2, 2, 2), False, batch, seed)


def resnet50(batch: int, seed: int) -> Model:
    """ResNet-50, 3 x 32 x 32 images, 10 classes."""
    return _resnet("50", (3, 4, 6, 3), True, batch, seed)


def _resnet(
    layer_count: str, blocks: Sequence[int], bottleneck: bool, batch: int, seed: int
) -> Model:
    layers = Layers(f"resnet{layer_count}", (batch, 3, 32, 32), seed)

    def conv_bn(name: str, x: str, channels: int, kernel: int, stride: int = 1) -> str:
        padding = (kernel // 2,) * 2
        x = layers.conv(f"{name}.conv", x, channels, kernel, stride=stride, padding=padding * 2)
        return layers.batch_norm(f"{name}.bn", x)

    def conv_bn_relu(name: str, x: str, channels: int, kernel: int, stride: int = 1) -> str:
        return layers.relu(f"{name}.relu", conv_bn(name, x, channels, kernel, stride))

    x = layers.relu("stem.relu", conv_bn("stem", layers.input, _STAGES[0], 3))
    for stage, (channels, count) in enumerate(zip(_STAGES, blocks, strict=True), start=1):
        for index in range(1, count + 1):
            block = f"stage{stage}.{index}"
            stride = 2 if stage > 1 and index == 1 else 1
            if bottleneck:
                y = conv_bn_relu(f"{block}.a", x, channels, 1)
                y = conv_bn_relu(f"{block}.b", y, channels, 3, stride)
                y = conv_bn(f"{block}.c", y, _BOTTLENECK * channels, 1)
            else:
                y = conv_bn_relu(f"{block}.a", x, channels, 3, stride)
                y = conv_bn(f"{block}.b", y, channels, 3)
            if layers.shape(x) != layers.shape(y):
                x = conv_bn(f"{block}.shortcut", x, layers.shape(y)[1], 1, stride)
            x = layers.relu(f"{block}.relu", layers.add(f"{block}.add", y, x))
    x = layers.op("global_avg_pool", "pool", (x,))
    return Model(
        *layers.build(layers.linear("logits", layers.flatten("flatten", x), 10)),
        loss="softmax_cross_entropy",
        description=f"ResNet-{layer_count}, 3 x 32 x 32 images, 10 classes",
        optimizer=Sgd(learning_rate=0.02, momentum=0.9, weight_decay=5e-4),
    )
