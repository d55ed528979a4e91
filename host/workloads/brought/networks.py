# SPDX-License-Identifier: Apache-2.0
"""A network as people bring it: a module that returns its loss, and its samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

BATCH = 4


@dataclass(frozen=True)
class Brought:
    """A network: how it is made, and how one batch of its samples is drawn, in forward's order."""

    make: Callable[[], nn.Module]
    draw: Callable[[], tuple[torch.Tensor, ...]]


NETWORKS: dict[str, Brought] = {}


def floats(*shape: int) -> Callable[[], torch.Tensor]:
    """Normally distributed numbers."""
    return lambda: torch.randn(BATCH, *shape)


def ids(count: int, *shape: int) -> Callable[[], torch.Tensor]:
    """Integers below a bound."""
    return lambda: torch.randint(0, count, (BATCH, *shape))


def bits(*shape: int) -> Callable[[], torch.Tensor]:
    """Numbers that are 0 or 1."""
    return lambda: torch.randint(0, 2, (BATCH, *shape)).float()


def brought(
    name: str, *samples: Callable[[], torch.Tensor]
) -> Callable[[Callable[[], nn.Module]], Callable[[], nn.Module]]:
    """Enters a network under a name, with what each of forward's arguments is drawn from."""

    def enter(make: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
        NETWORKS[name] = Brought(make, lambda: tuple(draw() for draw in samples))
        return make

    return enter


class Trained(nn.Module):
    """A network, and a loss of what it says and the labels."""

    def __init__(self, net: nn.Module, loss: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.net, self.loss = net, loss

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        """The loss, and the prediction."""
        said = self.net(x)
        return self.loss(said, y), said


def trained(
    name: str,
    make: Callable[[], nn.Module],
    x: Callable[[], torch.Tensor],
    y: Callable[[], torch.Tensor],
    loss: Callable[..., torch.Tensor] = F.cross_entropy,
) -> None:
    """Enters a network that a loss is taken of."""
    brought(name, x, y)(lambda: Trained(make(), loss))


class Made(nn.Module):
    """Layers by name, and a function of them and the samples: a forward without a class."""

    def __init__(self, forward: Callable[..., Any], **layers: Any) -> None:
        super().__init__()
        self.function = forward
        for name, layer in layers.items():
            setattr(self, name, nn.Parameter(layer) if isinstance(layer, torch.Tensor) else layer)

    def forward(self, *samples: torch.Tensor) -> Any:
        """The output of the function for samples."""
        return self.function(self, *samples)


def on(forward: Callable[..., Any], **layers: Callable[[], Any]) -> Callable[[], nn.Module]:
    """A maker of a network whose layers are made anew."""
    return lambda: Made(forward, **{name: make() for name, make in layers.items()})
