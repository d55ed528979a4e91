# SPDX-License-Identifier: Apache-2.0
"""MobileNetV2 of width 1: Sandler, Howard, Zhu, Zhmoginov, Chen, CVPR 2018, tables 1 and 2.

As in PyTorch's torchvision, a block with expansion 1 has no expanding convolution, and the
classifier is a linear layer with bias. The dropout before it is left out. The weight decay is the
paper's, which trains with RMSProp.
"""

from __future__ import annotations

from poetfw.models.layers import Layers
from poetfw.models.model import Model
from poetfw.training import Sgd

STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Expansion, channels, blocks, and first stride of each stage (table 2: t, c, n, s)."""


def mobilenetv2(batch: int, seed: int, *, size: int = 224) -> Model:
    """MobileNetV2, 3 x `size` x `size` images, 1,000 classes."""
    layers = Layers("mobilenetv2", (batch, 3, size, size), seed)

    def conv_bn(name: str, x: str, channels: int, kernel: int, stride: int, groups: int) -> str:
        side = kernel // 2
        padding = (side, side, side, side)
        x = layers.conv(
            f"{name}.conv", x, channels, kernel, stride=stride, padding=padding, groups=groups
        )
        return layers.batch_norm(f"{name}.bn", x)

    def conv_bn_relu6(
        name: str, x: str, channels: int, kernel: int, stride: int = 1, groups: int = 1
    ) -> str:
        y = conv_bn(name, x, channels, kernel, stride, groups)
        return layers.op("relu6", f"{name}.relu6", (y,))

    x = conv_bn_relu6("stem", layers.input, 32, 3, 2)
    for stage, (expansion, channels, blocks, stride_of_first) in enumerate(STAGES, start=1):
        for index in range(1, blocks + 1):
            block = f"stage{stage}.{index}"
            stride = stride_of_first if index == 1 else 1
            hidden = expansion * layers.shape(x)[1]
            y = x if expansion == 1 else conv_bn_relu6(f"{block}.expand", x, hidden, 1)
            y = conv_bn_relu6(f"{block}.depthwise", y, hidden, 3, stride, hidden)
            y = conv_bn(f"{block}.project", y, channels, 1, 1, 1)
            x = layers.add(f"{block}.add", x, y) if layers.shape(x) == layers.shape(y) else y
    x = layers.op("global_avg_pool", "pool", (conv_bn_relu6("head", x, 1280, 1),))
    return Model(
        *layers.build(layers.linear("logits", layers.flatten("flatten", x), 1000)),
        loss="softmax_cross_entropy",
        description=f"MobileNetV2, 3 x {size} x {size} images, 1,000 classes",
        optimizer=Sgd(learning_rate=0.02, momentum=0.9, weight_decay=4e-5),
    )
