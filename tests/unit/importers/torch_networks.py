# SPDX-License-Identifier: Apache-2.0
"""Ordinary networks as their authors write them, for the importer of PyTorch's exports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

IDS = "ids"
"""Of a network's input: token ids [batch, 8] below 20, not images."""


class Residual(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.a = nn.Conv2d(c, c, 3, padding=1, bias=False)
        self.n = nn.BatchNorm2d(c)
        self.b = nn.Conv2d(c, c, 3, padding=1)
        self.m = nn.BatchNorm2d(c)

    def forward(self, x):
        return F.relu(self.m(self.b(F.relu(self.n(self.a(x))))) + x)


class SqueezeExcite(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.a = nn.Conv2d(c, c // 2, 1)
        self.b = nn.Conv2d(c // 2, c, 1)

    def forward(self, x):
        gate = torch.sigmoid(self.b(F.silu(self.a(F.adaptive_avg_pool2d(x, 1)))))
        return x * gate


class Dense(nn.Module):
    def __init__(self, c, growth):
        super().__init__()
        self.n = nn.BatchNorm2d(c)
        self.a = nn.Conv2d(c, growth, 3, padding=1)

    def forward(self, x):
        return torch.cat([x, self.a(F.relu(self.n(x)))], 1)


class Inverted(nn.Module):
    def __init__(self, c, expand):
        super().__init__()
        e = c * expand
        self.layers = nn.Sequential(
            nn.Conv2d(c, e, 1, bias=False),
            nn.BatchNorm2d(e),
            nn.ReLU6(inplace=True),
            nn.Conv2d(e, e, 3, padding=1, groups=e, bias=False),
            nn.BatchNorm2d(e),
            nn.Hardswish(inplace=True),
            nn.Conv2d(e, c, 1, bias=False),
            nn.BatchNorm2d(c),
        )

    def forward(self, x):
        return x + self.layers(x)


class LastStep(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(8, 12, batch_first=True)
        self.head = nn.Linear(12, 10)

    def forward(self, x):
        y, _ = self.rnn(x.squeeze(1))
        return self.head(y[:, -1])


class Bidirectional(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(8, 6, num_layers=2, bidirectional=True)
        self.head = nn.Linear(12, 10)

    def forward(self, x):
        y, _ = self.rnn(x.squeeze(1).transpose(0, 1))
        return self.head(y.mean(0))


class VisionTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(1, 16, 4, 4)
        self.token = nn.Parameter(torch.randn(1, 1, 16) * 0.1)
        self.position = nn.Parameter(torch.randn(1, 5, 16) * 0.1)
        self.encoder = nn.TransformerEncoderLayer(
            16, 4, 32, dropout=0.0, batch_first=True, activation="gelu", norm_first=True
        )
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, 10)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.position
        return self.head(self.norm(self.encoder(x))[:, 0])


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.embed = nn.Linear(8, 16)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(16, 10)

    def forward(self, x):
        return self.head(self.encoder(self.embed(x.squeeze(1))).mean(1))


class Decoder(nn.Module):
    """A causal language model's block: token and position embeddings, one product for q, k, v."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(20, 16)
        self.positions = nn.Embedding(8, 16)
        self.qkv = nn.Linear(16, 48)
        self.head = nn.Linear(16, 10)
        self.norm = nn.LayerNorm(16)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions(torch.arange(8))
        b, t, c = x.shape
        q, k, v = (
            part.view(b, t, 2, 8).transpose(1, 2) for part in self.qkv(self.norm(x)).chunk(3, -1)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.head((x + y.transpose(1, 2).reshape(b, t, c))[:, -1])


class SelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        x = x.squeeze(1)
        y, _ = self.attention(x, x, x, need_weights=False)
        return self.head((x + y).flatten(1))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(1, 8, 3, padding=1)
        self.middle = nn.Conv2d(8, 16, 3, padding=1, stride=2)
        self.up = nn.ConvTranspose2d(16, 8, 2, 2)
        self.out = nn.Conv2d(16, 4, 3, padding=1)
        self.head = nn.Linear(4, 10)

    def forward(self, x):
        d = F.leaky_relu(self.down(x), 0.1)
        u = self.up(F.leaky_relu(self.middle(d), 0.1))
        return self.head(self.out(torch.cat([d, u], 1)).mean((2, 3)))


class Shuffle(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(1, 8, 1)
        self.depthwise = nn.Conv2d(4, 4, 3, padding=1, groups=4)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(8, 10)

    def forward(self, x):
        a, b = F.relu(self.a(x)).chunk(2, 1)
        x = torch.cat([a, self.norm(self.depthwise(b))], 1)
        n, c, h, w = x.shape
        x = x.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)
        return self.head(x.mean([2, 3]))


class SharedLayers(nn.Module):
    """One layer used three times, and a gate that is a single number."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(64, 16)
        self.again = nn.Linear(16, 16)
        self.head = nn.Linear(16, 10)
        self.gate = nn.Parameter(torch.tensor(0.5))

    def forward(self, x):
        x = self.first(x.flatten(1))
        for _ in range(3):
            x = x + self.gate * torch.tanh(self.again(x))
        return self.head(x)


class TiedAndFrozen(nn.Module):
    """Two layers with one weight, a frozen bias, and a buffer that is a constant."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(64, 12)
        self.a = nn.Linear(12, 12)
        self.b = nn.Linear(12, 12)
        self.b.weight = self.a.weight
        self.a.bias.requires_grad_(False)
        self.register_buffer("mask", torch.linspace(0, 1, 12))
        self.turned = nn.Parameter(torch.randn(10, 12).t())

    def forward(self, x):
        x = self.first(x.flatten(1)) * self.mask
        return self.b(F.silu(self.a(x))) @ self.turned


class ConvNext(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(1, 8, 2, 2)
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.norm = nn.LayerNorm(8, eps=1e-6)
        self.expand = nn.Linear(8, 16)
        self.contract = nn.Linear(16, 8)
        self.scale = nn.Parameter(torch.full((8,), 0.1))
        self.head = nn.Linear(8, 10)

    def forward(self, x):
        x = self.stem(x)
        y = self.depthwise(x).permute(0, 2, 3, 1)
        y = self.scale * self.contract(F.gelu(self.expand(self.norm(y))))
        return self.head((x + y.permute(0, 3, 1, 2)).mean([-2, -1]))


class InPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.GroupNorm(2, 4)
        self.head = nn.Linear(256, 10)

    def forward(self, x):
        x = self.norm(self.conv(x))
        x += 1.5
        x *= 0.5
        x = F.elu(x, inplace=True)
        return F.log_softmax(self.head(x.reshape(x.size(0), -1)), dim=1)


class Arithmetic(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 6, 3)
        self.norm = nn.InstanceNorm2d(6, affine=True)
        self.head = nn.Linear(6, 10)

    def forward(self, x):
        y = self.norm(self.conv(x))
        b = y - torch.sqrt(y * y + 1e-3) / 2
        shares = torch.softmax(b.flatten(2), -1).unflatten(-1, (6, 6))
        return self.head((shares * y / (1 + y.abs())).sum((2, 3)))


def _keyword_spotting():
    return nn.Sequential(
        nn.Flatten(1, 2),
        nn.Conv1d(8, 12, 3, stride=2, padding=2),
        nn.BatchNorm1d(12),
        nn.ReLU(),
        nn.MaxPool1d(2, ceil_mode=True),
        nn.Conv1d(12, 12, 2, groups=3, padding="same"),
        nn.AvgPool1d(2, stride=1, padding=1),
        nn.AdaptiveAvgPool1d(1),
        nn.Flatten(),
        nn.Linear(12, 10),
    )


def _paddings():
    return nn.Sequential(
        nn.Conv2d(1, 6, 3, padding=2, dilation=2, padding_mode="reflect"),
        nn.LeakyReLU(0.2),
        nn.Conv2d(6, 6, 3, dilation=(1, 2), stride=(2, 1)),
        nn.ReplicationPad2d((1, 0, 2, 1)),
        nn.CircularPad2d(1),
        nn.ZeroPad2d((0, 1, -1, 0)),
        nn.MaxPool2d(3, 2, ceil_mode=True),
        nn.Flatten(),
        nn.LazyLinear(10),
    )


def _upsampling():
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, 2, 1),
        nn.ELU(0.7),
        nn.Upsample(scale_factor=2),
        nn.ConvTranspose2d(4, 8, 3, 2, 1, output_padding=1, groups=2),
        nn.Softplus(),
        nn.ConvTranspose2d(8, 4, 3, dilation=2),
        nn.Hardsigmoid(),
        nn.PixelShuffle(2),
        nn.AvgPool2d(8),
        nn.Flatten(),
        nn.LazyLinear(10),
    )


NETWORKS: dict[str, tuple[Callable[[], Any], Any]] = {
    "mlp": (
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10)),
        (1, 8, 8),
    ),
    "vgg": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding="same"),
            nn.BatchNorm2d(16),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(64, 10),
        ),
        (1, 8, 8),
    ),
    "residual": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1),
            Residual(8),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(8, 10),
        ),
        (1, 8, 8),
    ),
    "squeeze-excite": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 8, 3),
            SqueezeExcite(8),
            nn.SiLU(),
            nn.AdaptiveAvgPool2d((2, 3)),
            nn.Flatten(),
            nn.Linear(48, 10),
        ),
        (1, 8, 8),
    ),
    "dense": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 4, 3),
            Dense(4, 3),
            Dense(7, 3),
            nn.AvgPool2d(3, 2, padding=1, count_include_pad=False),
            nn.Flatten(),
            nn.Linear(90, 10),
        ),
        (1, 8, 8),
    ),
    "mobilenet": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 4, 3, stride=2, padding=1),
            nn.BatchNorm2d(4, momentum=0.3, eps=1e-3),
            nn.Hardswish(),
            Inverted(4, 3),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(1),
            nn.Linear(4, 10),
            nn.LogSoftmax(1),
        ),
        (1, 8, 8),
    ),
    "autoencoder": (
        lambda: nn.Sequential(
            nn.Flatten(),
            nn.Linear(64, 16),
            nn.GELU(),
            nn.Linear(16, 4),
            nn.GELU(approximate="tanh"),
            nn.Linear(4, 10),
        ),
        (1, 8, 8),
    ),
    "batch norm without weights": (
        lambda: nn.Sequential(
            nn.Flatten(),
            nn.Linear(64, 12, bias=False),
            nn.BatchNorm1d(12, affine=False),
            nn.ReLU(),
            nn.Linear(12, 10),
        ),
        (1, 8, 8),
    ),
    "averages beyond the edge": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 3, 4),
            nn.AvgPool2d(2, 2, ceil_mode=True),
            nn.AvgPool2d(3, 2, padding=1, ceil_mode=True, count_include_pad=False),
            nn.Flatten(),
            nn.LazyLinear(10),
        ),
        (1, 8, 8),
    ),
    "keyword spotting": (_keyword_spotting, (1, 8, 8)),
    "paddings": (_paddings, (1, 8, 8)),
    "upsampling": (_upsampling, (1, 8, 8)),
    "u-net": (UNet, (1, 8, 8)),
    "shuffle": (Shuffle, (1, 8, 8)),
    "shared layers": (SharedLayers, (1, 8, 8)),
    "tied and frozen": (TiedAndFrozen, (1, 8, 8)),
    "convnext": (ConvNext, (1, 8, 8)),
    "in place": (InPlace, (1, 8, 8)),
    "arithmetic": (Arithmetic, (1, 8, 8)),
    "lstm": (LastStep, (1, 8, 8)),
    "gru": (Bidirectional, (1, 8, 8)),
    "attention": (SelfAttention, (1, 8, 8)),
    "encoder": (Encoder, (1, 8, 8)),
    "vision transformer": (VisionTransformer, (1, 8, 8)),
    "decoder": (Decoder, IDS),
}
"""Each network, and the features of one sample."""
