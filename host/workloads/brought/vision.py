# SPDX-License-Identifier: Apache-2.0
"""Images: classification, segmentation, detection, restoration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from workloads.brought.networks import BATCH, Made, bits, brought, floats, ids, on, trained

IMAGE, GREY = floats(3, 16, 16), floats(1, 8, 8)


def conv(i: int, o: int, k: int = 3, s: int = 1, g: int = 1) -> nn.Module:
    """Convolution, batch norm, ReLU."""
    layer = nn.Conv2d(i, o, k, s, k // 2, groups=g, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(o), nn.ReLU())


def head(features: int, classes: int = 5) -> nn.Module:
    """Average pooling and a linear layer."""
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(features, classes))


trained(
    "lenet",
    lambda: nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(36, 5)
    ),
    GREY,
    ids(5),
)
trained(
    "vgg block",
    lambda: nn.Sequential(conv(3, 6), conv(6, 6), nn.MaxPool2d(2), conv(6, 8), head(8)),
    IMAGE,
    ids(5),
)
trained(
    "grouped convolution",
    lambda: nn.Sequential(conv(3, 8), conv(8, 8, g=4), head(8)),
    IMAGE,
    ids(5),
)
trained(
    "depthwise separable",
    lambda: nn.Sequential(conv(3, 8), conv(8, 8, g=8), conv(8, 12, 1), head(12)),
    IMAGE,
    ids(5),
)
trained(
    "dilated",
    lambda: nn.Sequential(nn.Conv2d(3, 6, 3, dilation=2, padding=2), nn.ELU(), head(6)),
    IMAGE,
    ids(5),
)
trained(
    "strided and padded",
    lambda: nn.Sequential(nn.ZeroPad2d((0, 1, 0, 1)), nn.Conv2d(3, 6, 3, 2), nn.ReLU6(), head(6)),
    IMAGE,
    ids(5),
)
trained(
    "frozen batch norm",
    lambda: nn.Sequential(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6).eval(), nn.ReLU(), head(6)),
    IMAGE,
    ids(5),
)
trained(
    "group norm",
    lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.SiLU(), head(8)),
    IMAGE,
    ids(5),
)
trained(
    "instance norm",
    lambda: nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.InstanceNorm2d(8, affine=True), nn.ReLU(), head(8)
    ),
    IMAGE,
    ids(5),
)
trained(
    "max and average pool",
    lambda: Made(
        lambda m, x: m.out(
            torch.cat(
                [F.adaptive_max_pool2d(m.c(x), 2), F.adaptive_avg_pool2d(m.c(x), 2)], 1
            ).flatten(1)
        ),
        c=nn.Conv2d(3, 4, 3),
        out=nn.Linear(32, 5),
    ),
    IMAGE,
    ids(5),
)
trained(
    "label smoothing",
    lambda: nn.Sequential(conv(3, 6), head(6)),
    IMAGE,
    ids(5),
    nn.CrossEntropyLoss(label_smoothing=0.1),
)
trained(
    "class weights",
    lambda: nn.Sequential(conv(3, 6), head(6, 3)),
    IMAGE,
    ids(3),
    nn.CrossEntropyLoss(torch.tensor([1.0, 2.0, 0.5])),
)
trained(
    "spectral norm",
    lambda: nn.Sequential(nn.Flatten(), nn.utils.parametrizations.spectral_norm(nn.Linear(64, 5))),
    GREY,
    ids(5),
)
trained(
    "weight norm",
    lambda: nn.Sequential(nn.Flatten(), nn.utils.parametrizations.weight_norm(nn.Linear(64, 5))),
    GREY,
    ids(5),
)


@brought("residual", IMAGE, ids(5))
class Residual(nn.Module):
    """A block with a projected shortcut."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = conv(3, 8, s=2), nn.Sequential(nn.Conv2d(8, 8, 3, 1, 1), nn.BatchNorm2d(8))
        self.short, self.head = nn.Conv2d(3, 8, 1, 2), head(8)

    def forward(self, x, y):
        """The loss, and the prediction."""
        p = self.head(F.relu(self.b(self.a(x)) + self.short(x)))
        return F.cross_entropy(p, y), p


@brought("squeeze and excitation", IMAGE, ids(5))
class Excited(nn.Module):
    """Channels scaled by what is pooled."""

    def __init__(self) -> None:
        super().__init__()
        self.c, self.down, self.up = conv(3, 8), nn.Linear(8, 2), nn.Linear(2, 8)
        self.head = head(8)

    def forward(self, x, y):
        """The loss, and the prediction."""
        h = self.c(x)
        s = torch.sigmoid(self.up(F.relu(self.down(h.mean((2, 3))))))
        p = self.head(h * s[:, :, None, None])
        return F.cross_entropy(p, y), p


def segmenter(mode: str, **options: Any) -> Callable[[], nn.Module]:
    """An encoder and a decoder that resizes."""

    def forward(m, x, y):
        h = F.relu(m.down(x))
        p = m.out(torch.cat([F.interpolate(h, size=x.shape[2:], mode=mode, **options), x], 1))
        return F.cross_entropy(p, y), p

    return on(forward, down=lambda: nn.Conv2d(3, 6, 3, 2, 1), out=lambda: nn.Conv2d(9, 4, 3, 1, 1))


PIXELS = ids(4, 16, 16)
brought("segmentation, bilinear", IMAGE, PIXELS)(segmenter("bilinear", align_corners=False))
brought("segmentation, aligned", IMAGE, PIXELS)(segmenter("bilinear", align_corners=True))
brought("segmentation, bicubic", IMAGE, PIXELS)(segmenter("bicubic"))
brought("segmentation, nearest", IMAGE, PIXELS)(segmenter("nearest"))
brought("segmentation, ignored pixels", IMAGE, lambda: torch.randint(-1, 4, (BATCH, 16, 16)))(
    on(
        lambda m, x, y: F.cross_entropy(m.c(x), y, ignore_index=-1),
        c=lambda: nn.Conv2d(3, 4, 3, 1, 1),
    )
)
trained(
    "resize by 1.5",
    lambda: nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.Upsample(scale_factor=1.5, mode="nearest"), head(4)
    ),
    IMAGE,
    ids(5),
)


@brought("dice and cross-entropy", IMAGE, bits(1, 16, 16))
class Dice(nn.Module):
    """Masks with two losses."""

    def __init__(self) -> None:
        super().__init__()
        self.c, self.up = conv(3, 8, s=2), nn.ConvTranspose2d(8, 1, 2, 2)

    def forward(self, x, y):
        """The loss, and the prediction."""
        p = self.up(self.c(x))
        s = torch.sigmoid(p)
        dice = 1 - (2 * (s * y).sum((1, 2, 3)) + 1) / (s.sum((1, 2, 3)) + y.sum((1, 2, 3)) + 1)
        return F.binary_cross_entropy_with_logits(p, y) + dice.mean(), p


@brought("u-net", GREY, ids(3, 8, 8))
class UNet(nn.Module):
    """Two scales with a skip connection."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.up = conv(1, 4), conv(4, 8), nn.ConvTranspose2d(8, 4, 2, 2)
        self.c, self.out = conv(8, 4), nn.Conv2d(4, 3, 1)

    def forward(self, x, y):
        """The loss, and the prediction."""
        one = self.a(x)
        two = self.b(F.max_pool2d(one, 2))
        p = self.out(self.c(torch.cat([self.up(two), one], 1)))
        return F.cross_entropy(p, y), p


@brought("detector", IMAGE, ids(3), floats(4))
class Detector(nn.Module):
    """A class and a box."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.kind, self.box = conv(3, 8, s=2), nn.Linear(8, 3), nn.Linear(8, 4)

    def forward(self, image, kind, box):
        """The loss, and the predictions."""
        h = self.body(image).mean(dim=[2, 3])
        a, b = self.kind(h), self.box(h)
        return F.cross_entropy(a, kind) + 0.5 * F.smooth_l1_loss(b, box, beta=0.5), a, b


brought("patches", IMAGE, ids(5))(
    on(
        lambda m, x, y: F.cross_entropy(
            m.out(m.attend(*(F.unfold(x, 4, stride=4).transpose(1, 2) @ m.embed,) * 3)[0].mean(1)),
            y,
        ),
        embed=lambda: torch.randn(48, 8) * 0.1,
        attend=lambda: nn.MultiheadAttention(8, 2, batch_first=True),
        out=lambda: nn.Linear(8, 5),
    )
)
brought("3-D convolution", floats(1, 4, 6, 6), ids(5))(
    on(
        lambda m, x, y: F.cross_entropy(m.out(F.relu(m.c(x)).mean((2, 3, 4))), y),
        c=lambda: nn.Conv3d(1, 4, 3, padding=1),
        out=lambda: nn.Linear(4, 5),
    )
)
trained(
    "3-D with pooling",
    lambda: nn.Sequential(
        nn.Conv3d(1, 4, 3),
        nn.BatchNorm3d(4),
        nn.ReLU(),
        nn.MaxPool3d((1, 2, 2)),
        nn.Flatten(),
        nn.Linear(32, 5),
    ),
    floats(1, 4, 6, 6),
    ids(5),
)
brought("assignment to slices", GREY, ids(5))(
    on(
        lambda m, x, y: F.cross_entropy(m.out(_shifted(m.c(x)).flatten(1)), y),
        c=lambda: nn.Conv2d(1, 4, 3, 1, 1),
        out=lambda: nn.Linear(256, 5),
    )
)


def _shifted(x):
    """The temporal shift of half of the channels, as its repository writes it."""
    out = torch.zeros_like(x)
    out[:, :2, :, :-1] = x[:, :2, :, 1:]
    out[:, 2:] = x[:, 2:]
    return out


brought("parameters shared by slices", floats(8), ids(5))(
    on(
        lambda m, x, y: F.cross_entropy(torch.tanh(x @ m.w[:, :6]) @ m.w[:6, 6:11] + m.w[0, :5], y),
        w=lambda: torch.randn(8, 11) * 0.3,
    )
)
trained(
    "pixel shuffle",
    lambda: nn.Sequential(nn.Conv2d(1, 8, 3, 1, 1), nn.PixelShuffle(2), nn.Conv2d(2, 1, 3, 1, 1)),
    GREY,
    floats(1, 16, 16),
    F.l1_loss,
)
brought("charbonnier", GREY, floats(1, 8, 8))(
    on(
        lambda m, x, y: torch.sqrt((m.c(x) + x - y) ** 2 + 1e-6).mean(),
        c=lambda: nn.Conv2d(1, 1, 3, 1, 1, padding_mode="reflect"),
    )
)
brought("total variation", GREY, floats(1, 8, 8))(
    on(
        lambda m, x, y: (
            F.mse_loss(m.c(x), y) + 0.1 * (m.c(x)[..., 1:] - m.c(x)[..., :-1]).abs().mean()
        ),
        c=lambda: nn.Conv2d(1, 1, 3, 1, 1),
    )
)
brought("spatial attention", IMAGE, ids(5))(
    on(
        lambda m, x, y: F.cross_entropy(m.head(_attended(m, m.c(x))), y),
        c=lambda: conv(3, 6),
        a=lambda: nn.Conv2d(2, 1, 3, 1, 1),
        head=lambda: head(6),
    )
)


def _attended(m, h):
    pooled = torch.cat([h.mean(1, keepdim=True), h.amax(1, keepdim=True)], 1)
    return h * torch.sigmoid(m.a(pooled))


trained(
    "lp pooling",
    lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.LPPool2d(2, 2), head(4)),
    IMAGE,
    ids(5),
)
trained(
    "local response norm",
    lambda: nn.Sequential(nn.Conv2d(3, 6, 3), nn.LocalResponseNorm(3), nn.ReLU(), head(6)),
    IMAGE,
    ids(5),
)
trained(
    "channel shuffle",
    lambda: nn.Sequential(conv(3, 8), nn.ChannelShuffle(2), conv(8, 8, g=2), head(8)),
    IMAGE,
    ids(5),
)
