# SPDX-License-Identifier: Apache-2.0
"""A small transformer encoder whose tokens are the rows of the 8 x 8 digits.

Rows are embedded and get trained position embeddings, like image patches in Dosovitskiy et al.,
ICLR 2021, section 3.1; the mean of the tokens is classified. Layers are pre-norm (Xiong et al.,
ICML 2020), equal to PyTorch's `nn.TransformerEncoderLayer(32, 4, 64, 0.0, "gelu",
norm_first=True)`. Between attention blocks, states are a matrix with one row per token of the
batch.
"""

from __future__ import annotations

import math

from poetfw.models.attention import self_attention
from poetfw.models.layers import Layers
from poetfw.models.model import Model
from poetfw.models.weights import Initializer, normal
from poetfw.training import Sgd

_TOKENS, _FEATURES = 8, 8
_HIDDEN, _HEADS, _WIDE, _LAYERS = 32, 4, 64, 2
_EPS = 1e-5


def transformer_tiny(batch: int, seed: int) -> Model:
    """Two layers of hidden size 32 with 4 heads."""
    layers = Layers("transformer-tiny", (batch, _TOKENS, _FEATURES), seed, weight=_weight)
    rows = batch * _TOKENS
    x = layers.reshape("tokens", layers.input, rows, _FEATURES)
    x = layers.reshape("embed.tokens", layers.linear("embed", x, _HIDDEN), batch, _TOKENS, _HIDDEN)
    positions = layers.weight("positions", (_TOKENS, _HIDDEN))
    x = layers.op("add_broadcast", "embed.positions", (x, positions))
    x = layers.reshape("states", x, rows, _HIDDEN)
    for index in range(1, _LAYERS + 1):
        name = f"layer{index}"
        y = layers.layer_norm(f"{name}.norm1", x, eps=_EPS)
        y = self_attention(layers, name, y, batch, _HEADS)
        x = layers.add(f"{name}.add1", x, layers.linear(f"{name}.attention", y, _HIDDEN))
        y = layers.linear(f"{name}.expand", layers.layer_norm(f"{name}.norm2", x, eps=_EPS), _WIDE)
        y = layers.linear(f"{name}.contract", layers.op("gelu", f"{name}.gelu", (y,)), _HIDDEN)
        x = layers.add(f"{name}.add2", x, y)
    x = layers.reshape("states.tokens", x, batch, _TOKENS, _HIDDEN)
    x = layers.op("sum_to", "sum", (x,), {"shape": (batch, 1, _HIDDEN)})
    x = layers.op("scale", "mean", (layers.flatten("flatten", x),), {"factor": 1 / _TOKENS})
    return Model(
        *layers.build(layers.linear("logits", x, 10)),
        loss="softmax_cross_entropy",
        description="transformer of two layers that reads 8 x 8 handwritten digits row by row",
        optimizer=Sgd(learning_rate=0.05, momentum=0.9),
        epochs=10,
    )


def _weight(shape: tuple[int, ...]) -> Initializer:
    """Normal with variance 1 / fan_in."""
    return normal(shape, 1 / math.sqrt(shape[1]))
