# SPDX-License-Identifier: Apache-2.0
"""Multi-head self-attention: Vaswani et al., NeurIPS 2017, section 3.2."""

from __future__ import annotations

import math

from poetfw.models.layers import Layers


def self_attention(layers: Layers, name: str, x: str, batch: int, heads: int) -> str:
    """Multi-head attention softmax(Q·Kᵀ / √depth)·V over the sequences of a batch.

    Queries are scaled rather than scores, which are larger.

    Args:
        layers: network under construction.
        name: prefix of the layers' names.
        x: name of the input, [batch · sequence, hidden]: one row per token.
        batch: number of sequences.
        heads: number of heads; divides `hidden`.

    Returns:
        Concatenated results of the heads, of x's shape: what the output layer takes.
    """
    tokens, hidden = layers.shape(x)
    sequence, depth = tokens // batch, hidden // heads
    query, key, value = (
        layers.op(
            "transpose",
            f"{name}.{part}.heads",
            (layers.linear(f"{name}.{part}", x, hidden),),
            {
                "view": (batch, sequence, heads, depth),
                "axes": (0, 2, 1, 3),
                "shape": (batch, heads, sequence, depth),
            },
        )
        for part in ("query", "key", "value")
    )
    query = layers.op("scale", f"{name}.scale", (query,), {"factor": 1 / math.sqrt(depth)})
    scores = layers.op(
        "matmul", f"{name}.scores", (query, key), {"transpose_a": 0, "transpose_b": 1}
    )
    shares = layers.op("softmax", f"{name}.softmax", (scores,))
    context = layers.op(
        "matmul", f"{name}.context", (shares, value), {"transpose_a": 0, "transpose_b": 0}
    )
    return layers.op(
        "transpose",
        f"{name}.context.tokens",
        (context,),
        {
            "view": (batch, heads, sequence, depth),
            "axes": (0, 2, 1, 3),
            "shape": (tokens, hidden),
        },
    )
