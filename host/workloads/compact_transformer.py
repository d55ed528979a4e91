# SPDX-License-Identifier: Apache-2.0
"""CCT-2, a compact convolutional transformer (Hassani et al., 2021), and its low-rank adapters.

Images of 32 x 32 pixels become 64 tokens by two convolutions with pooling; two encoder layers and
attention over the tokens follow. About 0.28 M parameters, the size that TrainDeeploy trains.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class LowRank(nn.Module):
    """A linear layer and its adapter (LoRA, Hu et al., 2022): layer(x) + scale · up(down(x))."""

    def __init__(self, layer: nn.Linear, rank: int = 4, alpha: float = 8) -> None:
        super().__init__()
        self.layer = layer
        self.down = nn.Linear(layer.in_features, rank, bias=False)
        self.up = nn.Linear(rank, layer.out_features, bias=False)
        nn.init.zeros_(self.up.weight)
        self.scale = alpha / rank

    def forward(self, x: Tensor) -> Tensor:
        """Y [..., outputs] of x [..., inputs]."""
        y: Tensor = self.layer(x) + self.scale * self.up(self.down(x))
        return y


class Encoder(nn.Module):
    """Attention and two linear layers, each behind a layer norm and beside a skip connection."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q: nn.Module = nn.Linear(width, width)
        self.k: nn.Module = nn.Linear(width, width)
        self.v: nn.Module = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))

    def forward(self, x: Tensor) -> Tensor:
        """Y [N, tokens, width] of x of the same shape."""
        n, tokens, width = x.shape

        def split(y: Tensor) -> Tensor:
            return y.view(n, tokens, self.heads, width // self.heads).transpose(1, 2)

        y = self.norm1(x)
        y = F.scaled_dot_product_attention(split(self.q(y)), split(self.k(y)), split(self.v(y)))
        x = x + self.out(y.transpose(1, 2).reshape(n, tokens, width))
        z: Tensor = x + self.mlp(self.norm2(x))
        return z


class CompactTransformer(nn.Module):
    """Logits [N, classes] of images [N, 3, 32, 32]."""

    def __init__(
        self, width: int = 128, heads: int = 2, layers: int = 2, classes: int = 10
    ) -> None:
        super().__init__()

        def block(inputs: int, outputs: int) -> list[nn.Module]:
            conv = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
            return [conv, nn.ReLU(), nn.MaxPool2d(3, 2, 1)]

        self.tokens = nn.Sequential(*block(3, 64), *block(64, width))
        self.places = nn.Parameter(0.02 * torch.randn(1, 64, width))
        self.encoders = nn.Sequential(*(Encoder(width, heads) for _ in range(layers)))
        self.norm, self.weigh = nn.LayerNorm(width), nn.Linear(width, 1)
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits [N, classes] of images."""
        x = self.tokens(x).flatten(2).transpose(1, 2) + self.places
        x = self.norm(self.encoders(x))
        weights = torch.softmax(self.weigh(x), 1)
        logits: Tensor = self.head((weights.transpose(1, 2) @ x).squeeze(1))
        return logits


def with_adapters(net: CompactTransformer, rank: int = 4) -> CompactTransformer:
    """The network, frozen, with adapters on q and v of each encoder, which train."""
    net.requires_grad_(False)
    for encoder in net.encoders:
        encoder.q, encoder.v = LowRank(encoder.q, rank), LowRank(encoder.v, rank)
    return net
