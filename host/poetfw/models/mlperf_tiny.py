# SPDX-License-Identifier: Apache-2.0
"""The four networks of MLPerf Tiny: Banbury et al., NeurIPS Datasets and Benchmarks 2021.

They follow the Keras sources of the reference implementation (github.com/mlcommons/tiny,
benchmark/training) with all weights, including biases of convolutions before a batch norm. With
stride 2, Keras's "same" padding puts an odd row or column at the bottom and right. Left out are
penalties on single layers' weights, and dropout, as if with probability 0. Running statistics adapt
faster than with Keras's momentum of 0.99, which needs thousands of steps to settle.
"""

from __future__ import annotations

from poetfw.models.layers import Layers, Pair, same_padding
from poetfw.models.model import Model
from poetfw.training import Sgd

_EPS = 1e-3
"""Epsilon of Keras's batch normalisation."""


def resnet8(batch: int, seed: int) -> Model:
    """Image classification (`resnet_v1_eembc`)."""
    net = _Keras("resnet8", (batch, 3, 32, 32), seed)
    x = net.conv_relu("stem", net.input, 16)
    for index, (channels, stride) in enumerate(((16, 1), (32, 2), (64, 2)), start=1):
        stack = f"stack{index}"
        y = net.conv_relu(f"{stack}.a", x, channels, stride=stride)
        y = net.conv_bn(f"{stack}.b", y, channels)
        if stride != 1:
            x = net.conv(f"{stack}.shortcut", x, channels, 1, stride=stride, bias=True)
        x = net.relu(f"{stack}.relu", net.add(f"{stack}.add", x, y))
    x = net.pool("avg_pool2d", "pool", x, 8)
    return _classifier(net, x, 10, "MLPerf Tiny's ResNet-8, 3 x 32 x 32 images, 10 classes", 3)


def ds_cnn(batch: int, seed: int) -> Model:
    """Keyword spotting: 49 frames of 10 MFCCs to 12 words (Zhang et al., 2017, DS-CNN-S)."""
    net = _Keras("ds-cnn", (batch, 1, 49, 10), seed)
    x = net.conv_relu("stem", net.input, 64, (10, 4), stride=2)
    for index in range(1, 5):
        x = net.separable(f"block{index}", x, 64)
    # The original's window is half of the input's extents, so that the last of 25 rows is unused.
    x = net.pool("avg_pool2d", "pool", x, (24, 5))
    return _classifier(net, x, 12, "MLPerf Tiny's DS-CNN, 49 x 10 MFCCs, 12 words", 3)


def mobilenet(batch: int, seed: int) -> Model:
    """Visual wake words: MobileNetV1 with a width of 0.25 (Howard et al., 2017, table 1)."""
    net = _Keras("mobilenet", (batch, 3, 96, 96), seed)
    x = net.conv_relu("stem", net.input, 8, stride=2)
    widths = (16, 32, 32, 64, 64, *(128,) * 6, 256, 256)
    for index, channels in enumerate(widths, start=1):
        halves = channels > net.shape(x)[1] and index > 1
        x = net.separable(f"block{index}", x, channels, stride=1 + halves)
    x = net.op("global_avg_pool", "pool", (x,))
    description = "MLPerf Tiny's MobileNetV1 0.25, 3 x 96 x 96 images, a person or none"
    return _classifier(net, x, 2, description, 3)


def autoencoder(batch: int, seed: int) -> Model:
    """Anomaly detection: reconstruction of five frames of 128 log-mel energies."""
    net = _Keras("autoencoder", (batch, 640), seed)
    x = net.input
    for index, features in enumerate((*(128,) * 4, 8, *(128,) * 4), start=1):
        x = net.linear(f"dense{index}", x, features)
        x = net.relu(f"relu{index}", net.batch_norm(f"bn{index}", x, eps=_EPS))
    return Model(
        *net.build(net.linear("output", x, 640)),
        loss="mse",
        description="MLPerf Tiny's auto-encoder, 640 log-mel energies, given back",
        optimizer=Sgd(learning_rate=1.0, momentum=0.9),
        epochs=3,
    )


class _Keras(Layers):
    """Layers with Keras's defaults."""

    def conv_bn(
        self,
        name: str,
        x: str,
        channels: int,
        kernel: Pair = (3, 3),
        *,
        stride: int = 1,
        groups: int = 1,
    ) -> str:
        padding = same_padding(self.shape(x)[2:], kernel, stride)
        x = self.conv(
            f"{name}.conv",
            x,
            channels,
            kernel,
            stride=stride,
            padding=padding,
            groups=groups,
            bias=True,
        )
        return self.batch_norm(f"{name}.bn", x, eps=_EPS)

    def conv_relu(
        self,
        name: str,
        x: str,
        channels: int,
        kernel: Pair = (3, 3),
        *,
        stride: int = 1,
        groups: int = 1,
    ) -> str:
        y = self.conv_bn(name, x, channels, kernel, stride=stride, groups=groups)
        return self.relu(f"{name}.relu", y)

    def separable(self, name: str, x: str, channels: int, *, stride: int = 1) -> str:
        """Append a depthwise 3 x 3 and a pointwise 1 x 1 convolution."""
        own = self.shape(x)[1]
        x = self.conv_relu(f"{name}.depthwise", x, own, stride=stride, groups=own)
        return self.conv_relu(f"{name}.pointwise", x, channels, (1, 1))


def _classifier(net: Layers, x: str, classes: int, description: str, epochs: int) -> Model:
    return Model(
        *net.build(net.linear("logits", net.flatten("flatten", x), classes)),
        loss="softmax_cross_entropy",
        description=description,
        optimizer=Sgd(learning_rate=0.02, momentum=0.9),
        epochs=epochs,
    )
