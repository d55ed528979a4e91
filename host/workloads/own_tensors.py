# SPDX-License-Identifier: Apache-2.0
"""Networks with parameters and buffers of their own beside layers, as their authors write them.

What an ONNX file says of these tensors differs from exporter to exporter.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

IMAGE = (3, 8, 8)
ROW = (12,)
SEQUENCE = (8, 6)


class Sum(nn.Module):
    """A head behind any body that ends in [batch, features...]."""

    def __init__(self, body, width):
        super().__init__()
        self.body, self.head = body, nn.Linear(width, 10)

    def forward(self, x):
        return self.head(self.body(x).flatten(1))


def small(*last, first=nn.Identity, norm=None, bias=True):
    norm = norm or nn.Identity
    body = nn.Sequential(
        first(), nn.Conv2d(3, 8, 3, 2, 1, bias=bias), norm(), nn.ReLU(), *last, nn.MaxPool2d(2)
    )
    return Sum(body, 32)


class Normalize(nn.Module):
    """Mean and deviation of a data set, as buffers [1, 3, 1, 1]."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1))

    def forward(self, x):
        return (x - self.mean) / self.std


class NormalizeVector(nn.Module):
    """The same, as vectors that forward() brings into shape."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406]))
        self.register_buffer("std", torch.tensor([0.229, 0.224, 0.225]))

    def forward(self, x):
        return (x - self.mean[None, :, None, None]) / self.std[None, :, None, None]


class NormalizeAttribute(nn.Module):
    """The same, as plain tensors, which are neither parameters nor buffers."""

    def __init__(self):
        super().__init__()
        self.mean = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
        self.std = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)

    def forward(self, x):
        return (x - self.mean) / self.std


class NormalizeNumber(nn.Module):
    """A single mean and deviation, as buffers."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.tensor(0.1307))
        self.register_buffer("std", torch.tensor(0.3081))

    def forward(self, x):
        return (x - self.mean) / self.std


class LayerScale(nn.Module):
    def __init__(self, start=1e-2, shape=(8, 1, 1)):
        super().__init__()
        self.gamma = nn.Parameter(torch.full(shape, start))

    def forward(self, x):
        return x + x.tanh() * self.gamma


class LayerScaleView(nn.Module):
    def __init__(self):
        super().__init__()
        self.gamma = nn.Parameter(torch.rand(8))

    def forward(self, x):
        return x * self.gamma.view(1, -1, 1, 1)


class Affine(nn.Module):
    """ResMLP's affine layer, which calls its parameters alpha and beta."""

    def __init__(self, width):
        super().__init__()
        self.alpha = nn.Parameter(torch.ones(width))
        self.beta = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return self.alpha * x + self.beta


class Temperature(nn.Module):
    def __init__(self, start=1.5, shape=(1,)):
        super().__init__()
        self.temperature = nn.Parameter(torch.ones(shape) * start)

    def forward(self, x):
        return x / self.temperature


class LogitScale(nn.Module):
    """CLIP's head: cosines times the exponential of a trained number."""

    def __init__(self):
        super().__init__()
        self.prototypes = nn.Parameter(torch.randn(10, 12))
        self.logit_scale = nn.Parameter(torch.ones([]) * math.log(5.0))

    def forward(self, x):
        x = F.normalize(x, dim=-1)
        return self.logit_scale.exp() * x @ F.normalize(self.prototypes, dim=-1).t()


class FixedScale(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.tensor(0.5))

    def forward(self, x):
        return x * self.scale


class ReZero(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(12, 12)
        self.alpha = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return x + self.alpha * self.inner(x).tanh()


class TokenAndPosition(nn.Module):
    def __init__(self, start="random"):
        super().__init__()
        self.embed = nn.Linear(6, 16)
        zeros = start == "zeros"
        self.cls_token = nn.Parameter(torch.zeros(1, 1, 16) if zeros else torch.randn(1, 1, 16))
        self.pos_embed = nn.Parameter(torch.zeros(1, 9, 16) if zeros else torch.randn(1, 9, 16))
        self.head = nn.Linear(16, 10)

    def forward(self, x):
        x = torch.cat((self.cls_token.expand(x.shape[0], -1, -1), self.embed(x)), dim=1)
        x = x + self.pos_embed
        return self.head(x.tanh()[:, 0] + x.tanh().mean(1))


class Position(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(6, 16)
        self.pos_embed = nn.Parameter(torch.randn(1, 8, 16) * 0.2)
        self.head = nn.Linear(16, 10)

    def forward(self, x):
        return self.head((self.embed(x) + self.pos_embed).tanh().mean(1))


class Sinusoidal(nn.Module):
    """The tutorial's positional encoding, a buffer of which a part is read."""

    def __init__(self, width=16, longest=32):
        super().__init__()
        self.embed = nn.Linear(6, width)
        position = torch.arange(longest).unsqueeze(1)
        rate = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
        pe = torch.zeros(longest, width)
        pe[:, 0::2], pe[:, 1::2] = torch.sin(position * rate), torch.cos(position * rate)
        self.register_buffer("pe", pe.unsqueeze(0))
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        x = self.embed(x) * 4.0
        return self.head((x + self.pe[:, : x.size(1)]).tanh().mean(1))


class FilterBank(nn.Module):
    """A spectrum's powers times a buffer of bands, their logarithm, and a classifier."""

    def __init__(self):
        super().__init__()
        self.register_buffer("fb", torch.rand(6, 5))
        self.norm, self.head = nn.LayerNorm(5), nn.Linear(40, 10)

    def forward(self, x):
        return self.head(self.norm(torch.log(x.pow(2) @ self.fb + 1e-6)).flatten(1))


class Blur(nn.Module):
    """Convolution with a fixed filter, a buffer that the author calls as told."""

    def __init__(self, name="kernel"):
        super().__init__()
        a = torch.tensor([1.0, 2.0, 1.0])
        kernel = (a[:, None] * a[None] / 16)[None, None].repeat(8, 1, 1, 1)
        self.name = name
        self.register_buffer(name, kernel)

    def forward(self, x):
        return F.conv2d(x, getattr(self, self.name), padding=1, groups=8)


class Sobel(nn.Module):
    def __init__(self):
        super().__init__()
        g = torch.tensor([[1.0, 0, -1], [2, 0, -2], [1, 0, -1]])
        self.register_buffer("filters", torch.stack([g, g.t()])[:, None].repeat(1, 3, 1, 1))

    def forward(self, x):
        return torch.cat([x, F.conv2d(x, self.filters, padding=1)], 1)


class SobelParameter(nn.Module):
    """The same filters as a convolution whose weight requires no gradient."""

    def __init__(self):
        super().__init__()
        g = torch.tensor([[1.0, 0, -1], [2, 0, -2], [1, 0, -1]])
        self.conv = nn.Conv2d(3, 2, 3, padding=1, bias=False)
        self.conv.weight.data = torch.stack([g, g.t()])[:, None].repeat(1, 3, 1, 1)
        self.conv.weight.requires_grad_(False)

    def forward(self, x):
        return torch.cat([x, self.conv(x)], 1)


class OwnConv(nn.Module):
    """A convolution of the author's own, with a parameter that is called kernel."""

    def __init__(self):
        super().__init__()
        self.kernel = nn.Parameter(torch.randn(8, 8, 3, 3) * 0.1)

    def forward(self, x):
        return F.conv2d(x, self.kernel, padding=1)


class OwnLinear(nn.Module):
    """A linear layer as tutorials write it."""

    def __init__(self, i, o):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(o, i) * 0.2)
        self.bias = nn.Parameter(torch.randn(o) * 0.1)

    def forward(self, x):
        return F.linear(x, self.weight, self.bias)


class Matrix(nn.Module):
    """x @ W + b."""

    def __init__(self, i, o):
        super().__init__()
        self.W = nn.Parameter(torch.randn(i, o) * 0.2)
        self.b = nn.Parameter(torch.randn(o) * 0.1)

    def forward(self, x):
        return x @ self.W + self.b


class Masked(nn.Linear):
    """Pruned by hand: the weight times a mask, which is a buffer."""

    def __init__(self, i, o):
        super().__init__(i, o)
        self.register_buffer("mask", (torch.rand(o, i) > 0.4).float())

    def forward(self, x):
        return F.linear(x, self.weight * self.mask, self.bias)


class Gate(nn.Module):
    """A mask over features, as a buffer."""

    def __init__(self, width):
        super().__init__()
        self.register_buffer("mask", (torch.rand(width) > 0.3).float())

    def forward(self, x):
        return x * self.mask


class CausalMask(nn.Module):
    """Attention of nanoGPT: a buffer called bias holds a triangle, compared with 0."""

    def __init__(self):
        super().__init__()
        self.qkv, self.project = nn.Linear(6, 18), nn.Linear(6, 6)
        self.register_buffer("bias", torch.tril(torch.ones(8, 8)).view(1, 8, 8))
        self.head = nn.Linear(6, 10)

    def forward(self, x):
        q, k, v = self.qkv(x).split(6, dim=2)
        a = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(6))
        a = a.masked_fill(self.bias[:, : x.size(1), : x.size(1)] == 0, float("-inf"))
        return self.head((self.project(F.softmax(a, dim=-1) @ v) + x).mean(1))


class AddedMask(nn.Module):
    """Attention with a buffer of 0 and minus infinity that is added to its scores."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(6, 6, bias=False) for _ in range(3))
        self.register_buffer("mask", torch.triu(torch.full((8, 8), float("-inf")), 1))
        self.head = nn.Linear(6, 10)

    def forward(self, x):
        a = self.q(x) @ self.k(x).transpose(1, 2) / 6**0.5 + self.mask
        return self.head((a.softmax(-1) @ self.v(x)).mean(1))


class RelativeBias(nn.Module):
    """Swin's attention: a table of biases read at places that a buffer holds."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(6, 18)
        self.table = nn.Parameter(torch.randn(15, 2) * 0.1)
        place = torch.arange(8)
        self.register_buffer("place", (place[:, None] - place[None] + 7).flatten())
        self.head = nn.Linear(6, 10)

    def forward(self, x):
        q, k, v = (p.view(-1, 8, 2, 3).transpose(1, 2) for p in self.qkv(x).chunk(3, -1))
        bias = self.table[self.place].view(8, 8, 2).permute(2, 0, 1)
        a = q @ k.transpose(-1, -2) / 3**0.5 + bias.unsqueeze(0)
        y = (a.softmax(-1) @ v).transpose(1, 2).reshape(-1, 8, 6)
        return self.head(y.mean(1))


class RMSNorm(nn.Module):
    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.eps, self.weight = eps, nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class LayerNorm2d(nn.Module):
    """ConvNeXt's and SAM's norm over channels."""

    def __init__(self, width):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x):
        u = x.mean(1, keepdim=True)
        s = (x - u).pow(2).mean(1, keepdim=True)
        x = (x - u) / torch.sqrt(s + 1e-6)
        return self.weight[:, None, None] * x + self.bias[:, None, None]


class ResponseNorm(nn.Module):
    """ConvNeXt V2's global response normalization."""

    def __init__(self, width):
        super().__init__()
        self.gamma = nn.Parameter(torch.rand(1, width, 1, 1))
        self.beta = nn.Parameter(torch.rand(1, width, 1, 1))

    def forward(self, x):
        g = (x * x).sum((2, 3), keepdim=True).add(1e-6).sqrt()
        return self.gamma * (x * (g / (g.mean(1, keepdim=True) + 1e-6))) + self.beta + x


class FrozenNorm(nn.Module):
    """Torchvision's frozen batch norm: four buffers, two of which it calls weight and bias."""

    def __init__(self, width):
        super().__init__()
        self.register_buffer("weight", torch.rand(width) + 0.5)
        self.register_buffer("bias", torch.randn(width) * 0.1)
        self.register_buffer("running_mean", torch.randn(width) * 0.1)
        self.register_buffer("running_var", torch.rand(width) + 0.5)

    def forward(self, x):
        w, b = self.weight.reshape(1, -1, 1, 1), self.bias.reshape(1, -1, 1, 1)
        scale = w * (self.running_var.reshape(1, -1, 1, 1) + 1e-5).rsqrt()
        return x * scale + (b - self.running_mean.reshape(1, -1, 1, 1) * scale)


class GeneralizedMean(nn.Module):
    """GeM pooling, whose power is trained."""

    def __init__(self):
        super().__init__()
        self.p = nn.Parameter(torch.ones(1) * 3)

    def forward(self, x):
        return F.avg_pool2d(x.clamp(min=1e-6).pow(self.p), 2).pow(1.0 / self.p)


class Clipped(nn.Module):
    """PACT's activation: clipped at a trained number."""

    def __init__(self):
        super().__init__()
        self.alpha = nn.Parameter(torch.tensor(0.4))

    def forward(self, x):
        return torch.minimum(F.relu(x), self.alpha)


class Swish(nn.Module):
    def __init__(self):
        super().__init__()
        self.beta = nn.Parameter(torch.tensor(1.0))

    def forward(self, x):
        return x * torch.sigmoid(self.beta * x)


class MovingMean(nn.Module):
    """Subtracts a running mean, which it does not update in training."""

    def __init__(self, width):
        super().__init__()
        self.register_buffer("running_mean", torch.randn(width) * 0.1)
        self.register_buffer("count", torch.tensor(7.0))

    def forward(self, x):
        return x - self.running_mean / self.count


class Shifted(nn.Module):
    """A mean that stays and a shift that trains, both zeros at first."""

    def __init__(self, width):
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(width))
        self.register_buffer("mean", torch.zeros(width))

    def forward(self, x):
        return (x - self.mean).tanh() + self.shift


class LowRank(nn.Module):
    """LoRA around a layer, with matrices of its own."""

    def __init__(self, layer, rank=2):
        super().__init__()
        self.layer = layer
        self.lora_A = nn.Parameter(torch.randn(rank, layer.in_features) * 0.3)
        self.lora_B = nn.Parameter(torch.zeros(layer.out_features, rank))

    def forward(self, x):
        return self.layer(x) + (x @ self.lora_A.T @ self.lora_B.T) * 2.0


class Adapter(nn.Module):
    """LoRA of two linear layers, all of it trained."""

    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, width)
        self.down = nn.Linear(width, 2, bias=False)
        self.up = nn.Linear(2, width, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.layer(x) + 4 * self.up(self.down(x))


class Rnn(nn.Module):
    def __init__(self, kind, start=False, **options):
        super().__init__()
        self.rnn = kind(6, 6, batch_first=True, **options)
        self.h0 = nn.Parameter(torch.randn(1, 1, 6) * 0.3) if start else None
        self.head = nn.Linear(6, 10)

    def forward(self, x):
        h = None if self.h0 is None else self.h0.expand(-1, x.size(0), -1).contiguous()
        return self.head(self.rnn(x, h)[0][:, -1])


class CellLoop(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.head = nn.LSTMCell(6, 6), nn.Linear(6, 10)

    def forward(self, x):
        h = c = torch.zeros(x.size(0), 6)
        for t in range(4):
            h, c = self.cell(x[:, t], (h, c))
        return self.head(h)


class Weighted(nn.Module):
    """BiFPN's fusion: three branches by normalised trained weights."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(12, 12) for _ in range(3))
        self.w = nn.Parameter(torch.ones(3))
        self.head = nn.Linear(12, 10)

    def forward(self, x):
        w = F.relu(self.w)
        w = w / (w.sum() + 1e-4)
        return self.head(w[0] * self.a(x) + w[1] * self.b(x) + w[2] * self.c(x))


class Named(nn.Module):
    """Parameters with the names that exporters like to give."""

    def __init__(self):
        super().__init__()
        self.head_output_1 = nn.Parameter(torch.randn(12) * 0.3)
        self.Constant_scale = nn.Parameter(torch.rand(12) + 0.5)
        self.val_3 = nn.Parameter(torch.randn(12) * 0.3)
        self.head = nn.Linear(12, 10)

    def forward(self, x):
        return self.head((x + self.head_output_1) * self.Constant_scale + self.val_3)


class Listed(nn.Module):
    """A list of parameters."""

    def __init__(self):
        super().__init__()
        self.shifts = nn.ParameterList(nn.Parameter(torch.randn(12) * 0.3) for _ in range(2))
        self.head = nn.Linear(12, 10)

    def forward(self, x):
        for shift in self.shifts:
            x = (x + shift).tanh()
        return self.head(x)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(12, 12), nn.Linear(12, 12)
        self.b.weight = self.a.weight
        self.head = nn.Linear(12, 10)

    def forward(self, x):
        return self.head(self.b(self.a(x).tanh()))


class Autoencoder(nn.Module):
    """Decodes by the transpose of what it encodes by, with a bias of its own."""

    def __init__(self):
        super().__init__()
        self.encode = nn.Linear(12, 5)
        self.decoder_bias = nn.Parameter(torch.zeros(12))
        self.head = nn.Linear(12, 10)

    def forward(self, x):
        z = torch.sigmoid(self.encode(x))
        return self.head(F.linear(z, self.encode.weight.t(), self.decoder_bias))


class Kernels(nn.Module):
    """Random Fourier features: a buffer of frequencies and one of phases."""

    def __init__(self):
        super().__init__()
        self.register_buffer("frequencies", torch.randn(12, 16))
        self.register_buffer("phases", torch.rand(16) * 6)
        self.head = nn.Linear(16, 10)

    def forward(self, x):
        return self.head(torch.cos(x @ self.frequencies + self.phases))


class Radial(nn.Module):
    """Radial basis functions with trained centers and widths."""

    def __init__(self):
        super().__init__()
        self.centers = nn.Parameter(torch.randn(7, 12))
        self.log_sigmas = nn.Parameter(torch.zeros(7))
        self.head = nn.Linear(7, 10)

    def forward(self, x):
        d = (x.unsqueeze(1) - self.centers.unsqueeze(0)).pow(2).sum(-1)
        return self.head(torch.exp(-d * 0.05 * self.log_sigmas.exp()))


class Standardized(nn.Conv2d):
    """A convolution whose weight is standardized in each forward pass."""

    def forward(self, x):
        w = self.weight
        w = w - w.mean((1, 2, 3), keepdim=True)
        w = w / (w.pow(2).mean((1, 2, 3), keepdim=True) + 1e-5).sqrt()
        return F.conv2d(x, w, self.bias, self.stride, self.padding)


class Quantizer(nn.Module):
    """Distances to a codebook that a buffer holds."""

    def __init__(self):
        super().__init__()
        self.before = nn.Linear(12, 4)
        self.register_buffer("codebook", torch.randn(9, 4))
        self.head = nn.Linear(9, 10)

    def forward(self, x):
        z = self.before(x)
        d = z.pow(2).sum(1, keepdim=True) - 2 * z @ self.codebook.t()
        return self.head(-(d + self.codebook.pow(2).sum(1)))


class Projected(nn.Module):
    """A head on features that are standardized by two buffers."""

    def __init__(self):
        super().__init__()
        self.register_buffer("center", torch.randn(12) * 0.1)
        self.register_buffer("deviation", torch.rand(12) + 0.5)
        self.eps = 1e-5
        self.head = nn.Linear(12, 10)

    def forward(self, x):
        return self.head((x - self.center) / (self.deviation + self.eps))


class Block(nn.Module):
    """CaiT's block: attention and a perceptron, each scaled."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(6), nn.LayerNorm(6)
        self.attention = nn.MultiheadAttention(6, 2, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(6, 12), nn.GELU(), nn.Linear(12, 6))
        self.gamma_1 = nn.Parameter(0.1 * torch.ones(6))
        self.gamma_2 = nn.Parameter(0.1 * torch.ones(6))
        self.head = nn.Linear(6, 10)

    def forward(self, x):
        y = self.norm1(x)
        x = x + self.gamma_1 * self.attention(y, y, y, need_weights=False)[0]
        x = x + self.gamma_2 * self.mlp(self.norm2(x))
        return self.head(x.mean(1))


class Scaled(nn.Module):
    """PyTorch's attention, with trained queries."""

    def __init__(self):
        super().__init__()
        self.query = nn.Parameter(torch.randn(1, 2, 6))
        self.key, self.value = nn.Linear(6, 6), nn.Linear(6, 6)
        self.head = nn.Linear(12, 10)

    def forward(self, x):
        q = self.query.repeat(x.size(0), 1, 1)
        y = F.scaled_dot_product_attention(q, self.key(x), self.value(x))
        return self.head(y.flatten(1))


class Detached(nn.Module):
    """Part of the network learns nothing, since forward() detaches it."""

    def __init__(self):
        super().__init__()
        self.a, self.head = nn.Linear(12, 12), nn.Linear(12, 10)

    def forward(self, x):
        return self.head(self.a(x).tanh().detach())


class FrozenBackbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.head = nn.Linear(12, 12), nn.Linear(12, 10)
        self.a.requires_grad_(False)

    def forward(self, x):
        return self.head(self.a(x).tanh())


def fixed_norms():
    net = small(norm=lambda: nn.BatchNorm2d(8))
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eval()
    return net


def dense(*between, width=12):
    return nn.Sequential(nn.Linear(12, width), *between, nn.Linear(width, 10))


def parametrized(layer, kind="weight_norm"):
    return getattr(nn.utils.parametrizations, kind)(layer)


NETWORKS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "plain CNN": (small, IMAGE),
    "plain perceptron": (lambda: dense(nn.ReLU()), ROW),
    "batch norm": (lambda: small(norm=lambda: nn.BatchNorm2d(8), bias=False), IMAGE),
    "biased batch norm": (lambda: small(norm=lambda: nn.BatchNorm2d(8)), IMAGE),
    "batch norm of rows": (lambda: dense(nn.BatchNorm1d(12), nn.ReLU()), ROW),
    "some norms in evaluation mode": (fixed_norms, IMAGE),
    "evaluated batch norm": (
        lambda: small(norm=lambda: nn.BatchNorm2d(8), bias=False).eval(),
        IMAGE,
    ),
    "evaluated norm of rows": (lambda: dense(nn.BatchNorm1d(12), nn.ReLU()).eval(), ROW),
    "evaluated dropout": (lambda: dense(nn.Dropout(0.5)).eval(), ROW),
    "evaluated perceptron": (lambda: dense(nn.Tanh()).eval(), ROW),
    "batch norm without affine": (
        lambda: small(norm=lambda: nn.BatchNorm2d(8, affine=False)),
        IMAGE,
    ),
    "dropout of a perceptron": (lambda: dense(nn.ReLU(), nn.Dropout(0.5)), ROW),
    "batch norm and dropout": (
        lambda: small(nn.Dropout2d(0.2), norm=lambda: nn.BatchNorm2d(8)),
        IMAGE,
    ),
    "layer norm": (lambda: dense(nn.LayerNorm(12), nn.GELU()), ROW),
    "group norm": (lambda: small(nn.GroupNorm(2, 8)), IMAGE),
    "instance norm": (lambda: small(nn.InstanceNorm2d(8, affine=True)), IMAGE),
    "RMS norm": (lambda: dense(RMSNorm(12)), ROW),
    "PyTorch's RMS norm": (lambda: dense(nn.RMSNorm(12)), ROW),
    "norm over channels": (lambda: small(LayerNorm2d(8)), IMAGE),
    "response norm": (lambda: small(ResponseNorm(8)), IMAGE),
    "frozen batch norm": (lambda: small(FrozenNorm(8)), IMAGE),
    "PReLU": (lambda: small(nn.PReLU()), IMAGE),
    "PReLU of channels": (lambda: small(nn.PReLU(8)), IMAGE),
    "mean and deviation": (lambda: small(first=Normalize), IMAGE),
    "mean and deviation as vectors": (lambda: small(first=NormalizeVector), IMAGE),
    "mean and deviation as attributes": (lambda: small(first=NormalizeAttribute), IMAGE),
    "mean and deviation as numbers": (lambda: small(first=NormalizeNumber), IMAGE),
    "layer scale": (lambda: small(LayerScale()), IMAGE),
    "layer scale of ones": (lambda: small(LayerScale(1.0)), IMAGE),
    "viewed layer scale": (lambda: small(LayerScaleView()), IMAGE),
    "affine": (lambda: dense(Affine(12)), ROW),
    "temperature": (lambda: nn.Sequential(dense(nn.ReLU()), Temperature()), ROW),
    "temperature without axes": (
        lambda: nn.Sequential(dense(nn.ReLU()), Temperature(1.5, ())),
        ROW,
    ),
    "logit scale": (LogitScale, ROW),
    "fixed scale": (lambda: dense(FixedScale()), ROW),
    "ReZero": (lambda: dense(ReZero()), ROW),
    "token and position": (TokenAndPosition, SEQUENCE),
    "token and position of zeros": (lambda: TokenAndPosition("zeros"), SEQUENCE),
    "position": (Position, SEQUENCE),
    "sinusoidal position": (Sinusoidal, SEQUENCE),
    "filter bank": (FilterBank, SEQUENCE),
    "blur": (lambda: small(Blur()), IMAGE),
    "blur called weight": (lambda: small(Blur("weight")), IMAGE),
    "Sobel": (lambda: nn.Sequential(Sobel(), nn.Conv2d(5, 10, 8), nn.Flatten()), IMAGE),
    "frozen Sobel": (
        lambda: nn.Sequential(SobelParameter(), nn.Conv2d(5, 10, 8), nn.Flatten()),
        IMAGE,
    ),
    "own convolution": (lambda: small(OwnConv()), IMAGE),
    "own linear": (lambda: nn.Sequential(OwnLinear(12, 12), nn.Tanh(), OwnLinear(12, 10)), ROW),
    "matrices": (lambda: nn.Sequential(Matrix(12, 12), nn.Tanh(), Matrix(12, 10)), ROW),
    "masked weights": (lambda: nn.Sequential(Masked(12, 12), nn.Tanh(), nn.Linear(12, 10)), ROW),
    "masked weights of sequences": (
        lambda: nn.Sequential(Masked(6, 6), nn.Flatten(), nn.Linear(48, 10)),
        SEQUENCE,
    ),
    "feature mask": (lambda: dense(Gate(12)), ROW),
    "causal mask": (CausalMask, SEQUENCE),
    "added mask": (AddedMask, SEQUENCE),
    "relative bias": (RelativeBias, SEQUENCE),
    "trained power": (
        lambda: Sum(nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), GeneralizedMean()), 32),
        IMAGE,
    ),
    "trained clipping": (lambda: dense(Clipped()), ROW),
    "trained Swish": (lambda: dense(Swish()), ROW),
    "running mean": (lambda: dense(MovingMean(12)), ROW),
    "LoRA of matrices": (lambda: nn.Sequential(LowRank(nn.Linear(12, 12)), nn.Linear(12, 10)), ROW),
    "LoRA of sequences": (
        lambda: nn.Sequential(LowRank(nn.Linear(6, 6)), nn.Flatten(), nn.Linear(48, 10)),
        SEQUENCE,
    ),
    "LoRA of layers": (lambda: nn.Sequential(Adapter(12), nn.Linear(12, 10)), ROW),
    "LSTM": (lambda: Rnn(nn.LSTM), SEQUENCE),
    "GRU": (lambda: Rnn(nn.GRU), SEQUENCE),
    "RNN": (lambda: Rnn(nn.RNN), SEQUENCE),
    "GRU with a trained start": (lambda: Rnn(nn.GRU, True), SEQUENCE),
    "LSTM cells": (CellLoop, SEQUENCE),
    "shift and mean of zeros": (lambda: dense(Shifted(12)), ROW),
    "weighted branches": (Weighted, ROW),
    "names like an exporter's": (Named, ROW),
    "list of parameters": (Listed, ROW),
    "tied": (Tied, ROW),
    "tied transpose": (Autoencoder, ROW),
    "equal weights": (
        lambda: dense(nn.LayerNorm(12), nn.ReLU(), nn.Linear(12, 12), nn.LayerNorm(12)),
        ROW,
    ),
    "random features": (Kernels, ROW),
    "radial": (Radial, ROW),
    "weight norm": (lambda: nn.Sequential(parametrized(nn.Linear(12, 12)), nn.Linear(12, 10)), ROW),
    "weight norm of sequences": (
        lambda: nn.Sequential(parametrized(nn.Linear(6, 6)), nn.Flatten(), nn.Linear(48, 10)),
        SEQUENCE,
    ),
    "old weight norm": (lambda: nn.Sequential(nn.utils.weight_norm(nn.Linear(12, 10))), ROW),
    "standardized weights": (lambda: Sum(Standardized(3, 4, 3, 2, 1), 64), IMAGE),
    "codebook": (Quantizer, ROW),
    "standardized features": (Projected, ROW),
    "scaled block": (Block, SEQUENCE),
    "trained queries": (Scaled, SEQUENCE),
    "detached": (Detached, ROW),
    "frozen backbone": (FrozenBackbone, ROW),
    "embedding": (
        lambda: nn.Sequential(
            nn.Flatten(),
            nn.Linear(48, 16),
            nn.Unflatten(1, (4, 4)),
            nn.Linear(4, 4, bias=False),
            nn.Flatten(),
            nn.Linear(16, 10),
        ),
        SEQUENCE,
    ),
}
"""Each network, with the shape of a sample."""
IN_OWN_MODE = (
    "some norms in evaluation mode",
    "evaluated batch norm",
    "evaluated norm of rows",
    "evaluated dropout",
    "evaluated perceptron",
)
"""Networks that are trained in the mode that they are made in; others in training mode."""
DETACHED = ("detached",)
"""Networks in whose forward() gradients end."""
