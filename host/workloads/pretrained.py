# SPDX-License-Identifier: Apache-2.0
"""Networks of PyTorch's that are pretrained on digits, and then adapted to the same digits tilted.

The digits are scikit-learn's, scaled to each network's input. They stand for the data that the
networks are known for, none of which a package ships.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional as F

DEGREES = 30.0
"""Angle by which the digits are tilted."""


class Separable(nn.Module):
    """A depthwise and a 1x1 convolution, each with batch norm and ReLU."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1, *, pads: bool = False) -> None:
        super().__init__()
        self.pads = pads and stride == 2
        self.each = nn.Conv2d(
            inputs, inputs, 3, stride, 0 if self.pads else 1, groups=inputs, bias=False
        )
        self.norm1, self.norm2 = nn.BatchNorm2d(inputs), nn.BatchNorm2d(outputs)
        self.point = nn.Conv2d(inputs, outputs, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Y [N, outputs, H / stride, W / stride] of x [N, inputs, H, W]."""
        x = F.pad(x, (0, 1, 0, 1)) if self.pads else x
        return F.relu(self.norm2(self.point(F.relu(self.norm1(self.each(x))))))


class Residual(nn.Module):
    """Two convolutions with batch norm, beside a skip connection."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.main = nn.Sequential(
            *(nn.Conv2d(inputs, outputs, 3, stride, 1), nn.BatchNorm2d(outputs), nn.ReLU()),
            *(nn.Conv2d(outputs, outputs, 3, 1, 1), nn.BatchNorm2d(outputs)),
        )
        self.skip = nn.Conv2d(inputs, outputs, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Y [N, outputs, H / stride, W / stride] of x [N, inputs, H, W]."""
        return F.relu(self.main(x) + self.skip(x))


def mobilenet(*, pads: bool = False) -> nn.Module:
    """MobileNetV1 with a width of 0.25 (Howard et al., 2017, table 1), for 2 classes."""
    widths = (16, 32, 32, 64, 64, *(128,) * 6, 256, 256)
    first: list[nn.Module] = [nn.ZeroPad2d((0, 1, 0, 1))] if pads else []
    first.append(nn.Conv2d(3, 8, 3, 2, 0 if pads else 1, bias=False))
    layers = [*first, nn.BatchNorm2d(8), nn.ReLU()]
    for inputs, outputs in pairwise((8, *widths)):
        stride = 2 if inputs > 8 and outputs > inputs else 1
        layers.append(Separable(inputs, outputs, stride, pads=pads))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 2))


def resnet8() -> nn.Module:
    """MLPerf Tiny's network of images."""
    stem = (nn.Conv2d(3, 16, 3, 1, 1), nn.BatchNorm2d(16), nn.ReLU())
    stacks = (Residual(16, 16, 1), Residual(16, 32, 2), Residual(32, 64, 2))
    return nn.Sequential(*stem, *stacks, nn.AvgPool2d(8), nn.Flatten(), nn.Linear(64, 10))


def ds_cnn() -> nn.Module:
    """MLPerf Tiny's network of keywords, the last 1x1 convolution a layer of its own."""
    stem = (nn.Conv2d(1, 64, (10, 4), 2, (5, 1)), nn.BatchNorm2d(64), nn.ReLU())
    blocks = (Separable(64, 64) for _ in range(3))
    last = (nn.Conv2d(64, 64, 3, 1, 1, groups=64), nn.BatchNorm2d(64), nn.ReLU())
    point = (nn.Conv2d(64, 64, 1), nn.BatchNorm2d(64), nn.ReLU())
    pool = (nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return nn.Sequential(*stem, *blocks, *last, *point, *pool, nn.Linear(64, 12))


def dense() -> nn.Module:
    """A dense network, 640-128-128-8."""
    body = (nn.Linear(640, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU())
    return nn.Sequential(*body, nn.Linear(128, 8))


def autoencoder() -> nn.Module:
    """MLPerf Tiny's auto-encoder: layer -4 is the last one of 128 by 128."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise((640, *(128,) * 4, 8, *(128,) * 4)):
        layers += [nn.Linear(inputs, outputs), nn.BatchNorm1d(outputs), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(128, 640))


def only_trained(net: nn.Module, layers: Collection[int]) -> nn.Module:
    """The sequential network, of which all but these layers is frozen and in evaluation mode."""
    assert isinstance(net, nn.Sequential)
    net.train()
    for index, layer in enumerate(net):
        if index - len(net) not in layers:
            layer.eval()
            layer.requires_grad_(False)
    return net


@dataclass(frozen=True)
class Digits:
    """Digits of a network's input shape; targets are classes, or the digits themselves.

    Attributes:
        x: upright digits, [n, ...], in an order drawn once.
        tilted: the same digits, tilted.
        y: int64 class numbers [n], or float32 of the shape of x for None of `classes`.
        held_out: the number of digits at the end that are not trained with.
    """

    x: Tensor
    tilted: Tensor
    y: Tensor | None
    held_out: int

    @classmethod
    def of(cls, shape: Sequence[int], classes: int | None, held_out: int) -> Digits:
        """Digits for samples of a shape, of the first classes; for 2 classes, even and odd ones."""
        bunch = load_digits()
        x, y = torch.tensor(bunch.images / 16, dtype=torch.float32)[:, None], bunch.target
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
        x, y = x[order], torch.tensor(y)[order]
        if classes == 2:
            y %= 2
        elif classes is not None:
            x, y = x[y < classes], y[y < classes]
        channels, size = (shape[0], shape[1:]) if len(shape) == 3 else (1, (20, shape[0] // 20))
        x = F.interpolate(x, tuple(size), mode="bilinear").expand(-1, channels, -1, -1)
        turned = tilt(x)
        x, turned = (each.reshape(-1, *shape) for each in (x, turned))
        return cls(x, turned, y if classes else None, held_out)

    def targets(self, x: Tensor) -> Tensor:
        """Classes, or the digits `x` to be given back."""
        return x if self.y is None else self.y


def tilt(x: Tensor, degrees: float = DEGREES) -> Tensor:
    """Images [N, C, H, W], tilted by an angle."""
    cos, sin = (each(math.radians(degrees)) for each in (math.cos, math.sin))
    matrix = torch.tensor([[cos, -sin, 0.0], [sin, cos, 0.0]]).expand(len(x), 2, 3)
    grid = F.affine_grid(matrix, list(x.shape), align_corners=False)
    return F.grid_sample(x, grid, align_corners=False)


def loss_of(output: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy for class numbers, else the mean squared error."""
    classifies = target.dtype == torch.int64
    return F.cross_entropy(output, target) if classifies else F.mse_loss(output, target)


def pretrain(net: nn.Module, digits: Digits, epochs: int) -> None:
    """Train all of a network on the upright digits, by AdamW."""
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
    x = digits.x[: -digits.held_out]
    y = digits.targets(digits.x)[: -digits.held_out]
    net.train()
    for _ in range(epochs):
        for some in torch.randperm(len(x))[: len(x) // 32 * 32].split(32):
            optimizer.zero_grad()
            loss_of(net(x[some]), y[some]).backward()
            optimizer.step()


def adapt(net: nn.Module, digits: Digits, steps: int, rate: float, momentum: float) -> None:
    """Train what is not frozen on the first tilted digits, one by one in random order.

    The rate falls as a cosine does.
    """
    parameters = [each for each in net.parameters() if each.requires_grad]
    optimizer = torch.optim.SGD(parameters, rate, momentum)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    y = digits.targets(digits.tilted)
    for at in torch.randperm(steps):
        optimizer.zero_grad()
        loss_of(net(digits.tilted[at, None]), y[at, None]).backward()
        optimizer.step()
        schedule.step()


def held_out_figure(net: nn.Module, digits: Digits) -> float:
    """Accuracy of the tilted digits that are held out; their loss where there are no classes."""
    part = slice(-digits.held_out, None)
    was = [(module, module.training) for module in net.modules()]
    net.eval()
    with torch.no_grad():
        output = net(digits.tilted[part])
    for module, training in was:
        module.training = training
    y = digits.targets(digits.tilted)[part]
    if digits.y is None:
        return float(loss_of(output, y))
    return float((output.argmax(1) == y).float().mean())
