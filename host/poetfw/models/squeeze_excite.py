# SPDX-License-Identifier: Apache-2.0
"""A network with squeeze-and-excitation blocks: Hu, Shen, Sun, CVPR 2018, section 3."""

from __future__ import annotations

from poetfw.models.layers import Layers
from poetfw.models.model import Model
from poetfw.training import Sgd

_REDUCTION = 4
"""Channel reduction in a block's bottleneck. The paper's 16 would leave one channel."""


def squeeze_excite(batch: int, seed: int) -> Model:
    """Two convolutions with a squeeze-and-excitation block each, for the 8 x 8 digits."""
    layers = Layers("squeeze-excite", (batch, 1, 8, 8), seed)
    x = layers.input
    for index, channels in ((1, 16), (2, 32)):
        x = layers.conv(f"conv{index}", x, channels, 3, padding=(1, 1, 1, 1))
        x = _excite(layers, f"se{index}", layers.batch_norm(f"bn{index}", x))
        x = layers.pool("max_pool2d", f"pool{index}", layers.relu(f"relu{index}", x), 2)
    return Model(
        *layers.build(layers.linear("logits", layers.flatten("flatten", x), 10)),
        loss="softmax_cross_entropy",
        description="two convolutions with squeeze-and-excitation for 8 x 8 handwritten digits",
        optimizer=Sgd(learning_rate=0.02, momentum=0.9),
        epochs=3,
    )


def _excite(layers: Layers, name: str, x: str) -> str:
    """Scale each channel of x by a number in (0, 1) computed from the means of all channels."""
    batch, channels, *_ = layers.shape(x)
    y = layers.flatten(f"{name}.means", layers.op("global_avg_pool", f"{name}.squeeze", (x,)))
    y = layers.relu(f"{name}.relu", layers.linear(f"{name}.reduce", y, channels // _REDUCTION))
    y = layers.op("sigmoid", f"{name}.sigmoid", (layers.linear(f"{name}.expand", y, channels),))
    return layers.op(
        "multiply", name, (x, layers.reshape(f"{name}.scales", y, batch, channels, 1, 1))
    )
