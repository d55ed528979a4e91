# SPDX-License-Identifier: Apache-2.0
"""Some of the networks as PyTorch modules, to measure what the others only calculate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

import torch
from torch import nn

CLASSES = 1000


def _unit(
    width: int,
    channels: int,
    kernel: int = 1,
    stride: int = 1,
    groups: int = 1,
    active: Callable[..., nn.Module] = nn.ReLU,
) -> nn.Sequential:
    """Convolution without bias, batch norm, and an activation in place."""
    return nn.Sequential(
        nn.Conv2d(width, channels, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(channels),
        active(inplace=True),
    )


def alexnet() -> nn.Module:
    """AlexNet."""
    layers: list[nn.Module] = []
    width = 3
    for channels, kernel, stride, padding, pooled in (
        (64, 11, 4, 2, True),
        (192, 5, 1, 2, True),
        (384, 3, 1, 1, False),
        (256, 3, 1, 1, False),
        (256, 3, 1, 1, True),
    ):
        layers += [nn.Conv2d(width, channels, kernel, stride, padding), nn.ReLU(inplace=True)]
        layers += [nn.MaxPool2d(3, 2)] if pooled else []
        width = channels
    layers += [nn.AdaptiveAvgPool2d(6), nn.Flatten()]
    for inputs in (256 * 36, 4096):
        layers += [nn.Dropout(), nn.Linear(inputs, 4096), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers, nn.Linear(4096, CLASSES))


def vgg(blocks: Sequence[int]) -> nn.Module:
    """VGG of so many convolutions in each of its five blocks."""
    layers: list[nn.Module] = []
    width = 3
    for convolutions, channels in zip(blocks, (64, 128, 256, 512, 512), strict=True):
        for _ in range(convolutions):
            layers += [nn.Conv2d(width, channels, 3, 1, 1), nn.ReLU(inplace=True)]
            width = channels
        layers.append(nn.MaxPool2d(2, 2))
    layers += [nn.AdaptiveAvgPool2d(7), nn.Flatten()]
    for inputs in (512 * 49, 4096):
        layers += [nn.Linear(inputs, 4096), nn.ReLU(inplace=True), nn.Dropout()]
    return nn.Sequential(*layers, nn.Linear(4096, CLASSES))


class _Residual(nn.Module):
    """The sum of a main path and a short one, in place, and ReLU."""

    def __init__(self, main: nn.Module, short: nn.Module) -> None:
        super().__init__()
        self.main, self.short = main, short

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.main(x)
        y += self.short(x)
        return torch.relu_(y)


def _basic_block(
    width: int, channels: int, stride: int, conv: type[nn.Module], norm: type[nn.Module]
) -> nn.Module:
    main = nn.Sequential(
        conv(width, channels, 3, stride, 1, bias=False),
        norm(channels),
        nn.ReLU(inplace=True),
        conv(channels, channels, 3, 1, 1, bias=False),
        norm(channels),
    )
    if stride == 1 and width == channels:
        return _Residual(main, nn.Identity())
    short = nn.Sequential(conv(width, channels, 1, stride, bias=False), norm(channels))
    return _Residual(main, short)


def _bottleneck(width: int, channels: int, stride: int) -> nn.Module:
    main = nn.Sequential(
        *_unit(width, channels),
        *_unit(channels, channels, 3, stride),
        *_unit(channels, 4 * channels)[:2],
    )
    if stride == 1 and width == 4 * channels:
        return _Residual(main, nn.Identity())
    return _Residual(main, _unit(width, 4 * channels, 1, stride)[:2])


def resnet18() -> nn.Module:
    """ResNet-18."""
    layers: list[nn.Module] = [*_unit(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    width = 64
    for stage, channels in enumerate((64, 128, 256, 512)):
        for block in range(2):
            stride = 2 if stage and not block else 1
            layers.append(_basic_block(width, channels, stride, nn.Conv2d, nn.BatchNorm2d))
            width = channels
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, CLASSES))


def resnet50() -> nn.Module:
    """ResNet-50."""
    layers: list[nn.Module] = [*_unit(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    width = 64
    for stage, (channels, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for block in range(blocks):
            layers.append(_bottleneck(width, channels, 2 if stage and not block else 1))
            width = 4 * channels
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, CLASSES))


def resnet3d() -> nn.Module:
    """ResNet3D-18."""
    layers: list[nn.Module] = [
        nn.Conv3d(3, 64, (3, 7, 7), (1, 2, 2), (1, 3, 3), bias=False),
        nn.BatchNorm3d(64),
        nn.ReLU(inplace=True),
    ]
    width = 64
    for stage, channels in enumerate((64, 128, 256, 512)):
        for block in range(2):
            stride = 2 if stage and not block else 1
            layers.append(_basic_block(width, channels, stride, nn.Conv3d, nn.BatchNorm3d))
            width = channels
    return nn.Sequential(*layers, nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(width, 400))


class _Inverted(nn.Module):
    """Expand, depthwise, project, and the sum where shapes agree."""

    def __init__(
        self,
        width: int,
        channels: int,
        kernel: int,
        stride: int,
        expand: int,
        active: Callable[..., nn.Module],
    ) -> None:
        super().__init__()
        hidden = width * expand
        self.main = nn.Sequential(
            *(_unit(width, hidden, active=active) if expand != 1 else []),
            *_unit(hidden, hidden, kernel, stride, hidden, active),
            *_unit(hidden, channels)[:2],
        )
        self.sums = stride == 1 and width == channels

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.main(x)
        return x + y if self.sums else y


def mobilenet_v2() -> nn.Module:
    """MobileNet-v2."""
    layers: list[nn.Module] = [_unit(3, 32, 3, 2, active=nn.ReLU6)]
    width = 32
    for expand, channels, blocks, stride in (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ):
        for block in range(blocks):
            step = 1 if block else stride
            layers.append(_Inverted(width, channels, 3, step, expand, nn.ReLU6))
            width = channels
    layers += [_unit(width, 1280, active=nn.ReLU6), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Dropout(0.2), nn.Linear(1280, CLASSES))


MODULES: Mapping[str, Callable[[], nn.Module]] = MappingProxyType(
    {
        "alexnet": alexnet,
        "vgg": partial(vgg, (1, 1, 2, 2, 2)),
        "vgg16": partial(vgg, (2, 2, 3, 3, 3)),
        "vgg19": partial(vgg, (2, 2, 4, 4, 4)),
        "resnet": resnet18,
        "resnet50": resnet50,
        "resnet3d": resnet3d,
        "mobilenet": mobilenet_v2,
    }
)
"""By the names of `networks.NETWORKS`."""
