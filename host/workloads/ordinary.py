# SPDX-License-Identifier: Apache-2.0
"""Ordinary networks as their authors write them, for what imports PyTorch's exports."""

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


class Dropped(nn.Module):
    """Numbers, and whole channels, that are left out in training."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 6, 3)
        self.channels = nn.Dropout2d(0.3)
        self.numbers = nn.Dropout(0.5)
        self.head = nn.Linear(54, 10)

    def forward(self, x):
        x = self.channels(F.max_pool2d(torch.tanh(self.conv(x)), 2))
        return self.head(self.numbers(x.flatten(1)))


class BilinearUNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU())
        self.middle = nn.Sequential(nn.Conv2d(6, 12, 3, padding=1), nn.PReLU(12))
        self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
        self.out = nn.Conv2d(18, 6, 3, padding=1)
        self.head = nn.Conv2d(6, 10, 1)

    def forward(self, x):
        d = self.down(x)
        u = self.up(self.middle(F.max_pool2d(d, 2)))
        y = F.relu(self.out(torch.cat([d, u], 1)))
        y = F.interpolate(y, size=(12, 12), mode="bilinear")
        return self.head(y).mean((2, 3))


class CausalEncoder(nn.Module):
    """PyTorch's encoder as its tutorials use it: a mask of 0 and minus infinity, and dropout."""

    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
        self.embed = nn.Embedding(20, 16)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(16, 10)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(8))

    def forward(self, ids):
        return self.head(self.encoder(self.embed(ids) * 4.0, self.mask, is_causal=False)[:, -1])


class Bert(nn.Module):
    """Embeddings, post-norm blocks with attention in its parts, a pooler: as in its first code."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(20, 16, padding_idx=0)
        self.positions = nn.Embedding(8, 16)
        self.register_buffer("position_ids", torch.arange(8).unsqueeze(0))
        self.norms = nn.ModuleList(nn.LayerNorm(16, eps=1e-12) for _ in range(3))
        self.query, self.key, self.value, self.output = (nn.Linear(16, 16) for _ in range(4))
        self.wide, self.narrow = nn.Linear(16, 32), nn.Linear(32, 16)
        self.pooler, self.head = nn.Linear(16, 16), nn.Linear(16, 10)
        self.dropout = nn.Dropout(0.1)

    def forward(self, ids):
        x = self.words(ids) + self.positions(self.position_ids)
        x = self.dropout(self.norms[0](x))
        q, k, v = (
            part(x).view(x.size(0), 8, 2, 8).permute(0, 2, 1, 3)
            for part in (self.query, self.key, self.value)
        )
        scores = torch.matmul(q, k.transpose(-1, -2)) / 8**0.5
        context = torch.matmul(self.dropout(torch.softmax(scores, dim=-1)), v)
        context = context.permute(0, 2, 1, 3).contiguous().view(x.size(0), 8, 16)
        x = self.norms[1](x + self.dropout(self.output(context)))
        x = self.norms[2](x + self.dropout(self.narrow(F.gelu(self.wide(x)))))
        return self.head(self.dropout(torch.tanh(self.pooler(x[:, 0]))))


class WaveNet(nn.Module):
    """Causal convolutions, each reaching twice as far, with gates and skip connections."""

    def __init__(self):
        super().__init__()
        self.start = nn.Conv1d(8, 8, 1)
        self.filters = nn.ModuleList(nn.Conv1d(8, 8, 2, dilation=2**i) for i in range(3))
        self.gates = nn.ModuleList(nn.Conv1d(8, 8, 2, dilation=2**i) for i in range(3))
        self.skips = nn.ModuleList(nn.Conv1d(8, 6, 1) for _ in range(3))
        self.end = nn.Conv1d(6, 10, 1)

    def forward(self, x):
        x, total = self.start(x.squeeze(1)), 0
        for i, (f, g, skip) in enumerate(zip(self.filters, self.gates, self.skips, strict=True)):
            before = F.pad(x, (2**i, 0))
            y = torch.tanh(f(before)) * torch.sigmoid(g(before))
            total = total + skip(y)
            x = x + y
        return self.end(F.relu(total))[:, :, -1]


class Recurrent(nn.Module):
    """Convolutions read by two layers of LSTM, of which the last state is used."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d((2, 1)))
        self.rnn = nn.LSTM(16, 6, num_layers=2, dropout=0.2)
        self.head = nn.Linear(6, 10)

    def forward(self, x):
        x = self.conv(x).permute(3, 0, 1, 2).flatten(2)
        _, (h, _) = self.rnn(x)
        return self.head(h[-1])


class GatedRecurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 6)
        self.rnn = nn.GRU(6, 8, batch_first=True, bidirectional=True)
        self.head = nn.Linear(16, 10)

    def forward(self, ids):
        _, h = self.rnn(self.embed(ids))
        return self.head(torch.cat((h[-2], h[-1]), dim=1))


class Bottleneck(nn.Module):
    def __init__(self, inner, outer, stride):
        super().__init__()
        self.a = nn.Conv2d(8, inner, 1, bias=False)
        self.b = nn.Conv2d(inner, inner, 3, stride, 1, bias=False)
        self.c = nn.Conv2d(inner, outer, 1, bias=False)
        self.na, self.nb, self.nc = (nn.BatchNorm2d(n) for n in (inner, inner, outer))
        self.downsample = nn.Sequential(
            nn.Conv2d(8, outer, 1, stride, bias=False), nn.BatchNorm2d(outer)
        )

    def forward(self, x):
        y = F.relu(self.nb(self.b(F.relu(self.na(self.a(x))))))
        y = self.nc(self.c(y))
        y += self.downsample(x)
        return F.relu(y)


class Inception(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Conv2d(1, 4, 1)
        self.three = nn.Sequential(nn.Conv2d(1, 2, 1), nn.ReLU(), nn.Conv2d(2, 4, 3, padding=1))
        self.five = nn.Sequential(nn.Conv2d(1, 2, 1), nn.ReLU(), nn.Conv2d(2, 4, 5, padding=2))
        self.pool = nn.Sequential(nn.MaxPool2d(3, 1, 1), nn.Conv2d(1, 4, 1))
        self.head = nn.Linear(16, 10)

    def forward(self, x):
        parts = [self.one(x), self.three(x), self.five(x), self.pool(x)]
        x = F.relu(torch.cat(parts, dim=1))
        return self.head(torch.flatten(F.adaptive_avg_pool2d(x, (1, 1)), 1))


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(1, 12, 2, 2)
        self.norms = nn.ModuleList(nn.LayerNorm(12) for _ in range(3))
        self.tokens = nn.Sequential(nn.Linear(16, 8), nn.GELU(), nn.Linear(8, 16))
        self.channels = nn.Sequential(nn.Linear(12, 24), nn.GELU(), nn.Linear(24, 12))
        self.head = nn.Linear(12, 10)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = x + self.tokens(self.norms[0](x).transpose(1, 2)).transpose(1, 2)
        x = x + self.channels(self.norms[1](x))
        return self.head(self.norms[2](x).mean(dim=1))


class Efficient(nn.Module):
    """A block of EfficientNet: inverted, with gates, and dropout before the head."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 4, 3, 2, 1, bias=False), nn.BatchNorm2d(4))
        self.expand = nn.Sequential(nn.Conv2d(4, 12, 1, bias=False), nn.BatchNorm2d(12))
        self.deep = nn.Sequential(
            nn.Conv2d(12, 12, 5, padding=2, groups=12, bias=False), nn.BatchNorm2d(12, eps=1e-3)
        )
        self.gate = SqueezeExcite(12)
        self.project = nn.Sequential(nn.Conv2d(12, 4, 1, bias=False), nn.BatchNorm2d(4))
        self.head = nn.Sequential(nn.Dropout(0.2, inplace=True), nn.Linear(4, 10))

    def forward(self, x):
        x = F.silu(self.stem(x), inplace=True)
        y = self.gate(F.silu(self.deep(F.silu(self.expand(x)))))
        x = x + self.project(y)
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


class TextConvolutions(nn.Module):
    """Kim, 2014: the largest answer of each filter over a sentence."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 8)
        self.convs = nn.ModuleList(nn.Conv1d(8, 6, k) for k in (2, 3, 4))
        self.dropout = nn.Dropout(0.5)
        self.head = nn.Linear(18, 10)

    def forward(self, ids):
        x = self.embed(ids).transpose(1, 2)
        found = [F.relu(conv(x)).max(dim=2).values for conv in self.convs]
        return self.head(self.dropout(torch.cat(found, dim=1)))


class Points(nn.Module):
    """PointNet: each point alone, then the largest of each feature."""

    def __init__(self):
        super().__init__()
        self.each = nn.Sequential(
            *(nn.Conv1d(8, 12, 1), nn.BatchNorm1d(12), nn.ReLU(), nn.Conv1d(12, 24, 1))
        )
        self.head = nn.Sequential(nn.Linear(24, 12), nn.LeakyReLU(), nn.Linear(12, 10))

    def forward(self, x):
        x = self.each(x.squeeze(1))
        return self.head(torch.amax(x, 2))


class Translator(nn.Module):
    """A decoder's layer: causal over its own, and attention to what an encoder says."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(8, 16)
        self.encoder = nn.TransformerEncoderLayer(16, 2, 24, dropout=0.0, batch_first=True)
        self.decoder = nn.TransformerDecoderLayer(
            16, 4, 24, dropout=0.1, activation="gelu", batch_first=True
        )
        self.head = nn.Linear(16, 10)
        self.register_buffer("hidden", torch.triu(torch.ones(4, 4, dtype=torch.bool), 1))

    def forward(self, x):
        x = self.embed(x.squeeze(1))
        y = self.decoder(x[:, 4:], self.encoder(x[:, :4]), tgt_mask=self.hidden)
        return self.head(y[:, -1])


class Generative(nn.Module):
    """GPT-2's: weights of the first layer are the last one's, and masks are filled in."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(20, 16)
        self.positions = nn.Parameter(torch.randn(1, 8, 16) * 0.1)
        self.norm, self.last = nn.LayerNorm(16), nn.LayerNorm(16)
        self.qkv, self.project = nn.Linear(16, 48), nn.Linear(16, 16)
        self.head = nn.Linear(16, 20, bias=False)
        self.head.weight = self.tokens.weight
        self.register_buffer("bias", torch.tril(torch.ones(8, 8)).view(1, 1, 8, 8))

    def forward(self, ids):
        b, t = ids.shape
        x = self.tokens(ids) + self.positions
        q, k, v = self.qkv(self.norm(x)).split(16, dim=2)
        q, k, v = (part.view(b, t, 4, 4).transpose(1, 2) for part in (q, k, v))
        shares = (q @ k.transpose(-2, -1)) * (1.0 / 4**0.5)
        shares = shares.masked_fill(self.bias[:, :, :t, :t] == 0, float("-inf"))
        y = (F.softmax(shares, dim=-1) @ v).transpose(1, 2).contiguous().view(b, t, 16)
        return self.head(self.last(x + self.project(y)))[:, -1]


class Normalized(nn.Module):
    """Embeddings of length 1, compared with those of classes."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(64, 16)
        self.classes = nn.Parameter(torch.randn(10, 16))

    def forward(self, x):
        x = F.selu(self.a(x.flatten(1)))
        return 5 * F.linear(F.normalize(x), F.normalize(self.classes))


def _temporal():
    """A temporal network's block: what is padded at the end is cut off again."""

    class Chomp(nn.Module):
        def forward(self, x):
            return x[:, :, :-4].contiguous()

    return nn.Sequential(
        *(nn.Flatten(1, 2), nn.Conv1d(8, 12, 3, padding=4, dilation=2), Chomp(), nn.ReLU()),
        *(nn.Dropout(0.2), nn.AvgPool1d(2), nn.GroupNorm(3, 12), nn.Mish()),
        *(nn.Flatten(), nn.Linear(48, 10)),
    )


def _alexnet():
    return nn.Sequential(
        *(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d((3, 3))),
        *(nn.Flatten(), nn.Dropout(), nn.Linear(72, 24), nn.ReLU(inplace=True)),
        *(nn.Dropout(), nn.Linear(24, 10)),
    )


def _convolutional_autoencoder():
    return nn.Sequential(
        *(nn.Conv2d(1, 6, 3, 2, 1), nn.ReLU(), nn.Conv2d(6, 4, 3, 2, 1), nn.PReLU()),
        *(nn.ConvTranspose2d(4, 6, 2, 2), nn.Hardtanh(), nn.ConvTranspose2d(6, 1, 2, 2)),
        nn.Sigmoid(),
    )


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
    "dropout": (Dropped, (1, 8, 8)),
    "bilinear u-net": (BilinearUNet, (1, 8, 8)),
    "causal encoder": (CausalEncoder, IDS),
    "bert": (Bert, IDS),
    "wavenet": (WaveNet, (1, 8, 8)),
    "recurrent": (Recurrent, (1, 8, 8)),
    "gated recurrent": (GatedRecurrent, IDS),
    "bottleneck": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1),
            Bottleneck(4, 12, 2),
            nn.AdaptiveMaxPool2d(1),
            nn.Flatten(),
            nn.Linear(12, 10),
        ),
        (1, 8, 8),
    ),
    "inception": (Inception, (1, 8, 8)),
    "mixer": (Mixer, (1, 8, 8)),
    "efficient": (Efficient, (1, 8, 8)),
    "convolutional autoencoder": (_convolutional_autoencoder, (1, 8, 8)),
    "temporal": (_temporal, (1, 8, 8)),
    "text": (TextConvolutions, IDS),
    "points": (Points, (1, 8, 8)),
    "alexnet": (_alexnet, (1, 8, 8)),
    "translator": (Translator, (1, 8, 8)),
    "generative": (Generative, IDS),
    "normalized": (Normalized, (1, 8, 8)),
}
"""Each network, and the features of one sample."""

AUTOENCODERS = ("convolutional autoencoder",)
"""Those that are to give what they are given: their loss is the mean squared error."""
