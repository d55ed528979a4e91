# SPDX-License-Identifier: Apache-2.0
"""VGG-16 for CIFAR-10: Simonyan and Zisserman, ICLR 2015, table 1, column D.

As is usual for 32 x 32 images, each convolution is followed by batch normalisation, and one linear
layer on the 512 features after the fifth pooling replaces the original's three.
"""

from __future__ import annotations

from poetfw.models.layers import Layers
from poetfw.models.model import Model
from poetfw.training import Sgd

_STAGES = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))
"""Channels and convolutions of each stage."""


def vgg16(batch: int, seed: int) -> Model:
    """VGG-16 with batch normalisation, 3 x 32 x 32 images, 10 classes."""
    layers = Layers("vgg16", (batch, 3, 32, 32), seed)
    x = layers.input
    for stage, (channels, convolutions) in enumerate(_STAGES, start=1):
        for index in range(1, convolutions + 1):
            name = f"conv{stage}_{index}"
            x = layers.conv(name, x, channels, 3, padding=(1, 1, 1, 1), bias=True)
            x = layers.relu(f"{name}.relu", layers.batch_norm(f"{name}.bn", x))
        x = layers.pool("max_pool2d", f"pool{stage}", x, 2)
    return Model(
        *layers.build(layers.linear("logits", layers.flatten("flatten", x), 10)),
        loss="softmax_cross_entropy",
        description="VGG-16 with batch norm, 3 x 32 x 32 images, 10 classes",
        optimizer=Sgd(learning_rate=0.02, momentum=0.9, weight_decay=5e-4),
    )
