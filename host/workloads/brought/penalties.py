# SPDX-License-Identifier: Apache-2.0
"""Losses that read parameters a second time, beside the layers that they belong to."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from workloads.brought.networks import brought, floats, ids

IMAGE = floats(1, 8, 8)


def body() -> nn.Sequential:
    """Layers of all kinds, so that parameters are held in all forms."""
    return nn.Sequential(
        *(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU()),
        *(nn.Conv2d(4, 4, 3, groups=2, dilation=2), nn.BatchNorm2d(4), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(64, 6), nn.LayerNorm(6), nn.PReLU(), nn.Linear(6, 5)),
    )


class Penalised(nn.Module):
    """Cross-entropy and a penalty, which is calculated before or behind the forward pass."""

    def __init__(self, penalty: Callable[[nn.Module], Tensor], first: bool = False) -> None:
        super().__init__()
        self.net, self.penalty, self.first = body(), penalty, first

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """The loss, and the logits."""
        before = self.penalty(self.net) if self.first else 0.0
        out = self.net(x)
        behind = 0.0 if self.first else self.penalty(self.net)
        return F.cross_entropy(out, y) + before + behind, out


def l2(net):
    """The squares of all parameters."""
    return 1e-3 * sum(p.pow(2.0).sum() for p in net.parameters())


def norms(net):
    """The norm of each parameter; biases of norms are zeros at first."""
    reg = torch.tensor(0.0)
    for param in net.parameters():
        reg = reg + torch.norm(param, 2)
    return 1e-3 * reg


def slimming(net):
    """The magnitudes of batch norms' scales (Liu et al., 2017)."""
    scales = [m.weight.abs().sum() for m in net.modules() if isinstance(m, nn.BatchNorm2d)]
    return 1e-2 * sum(scales)


def orthogonal(net):
    """Products of weights' rows, less the identity."""
    loss = torch.zeros(1)
    for name, param in net.named_parameters():
        if "bias" not in name and param.dim() > 1:
            flat = param.view(param.shape[0], -1)
            sym = torch.mm(flat, torch.t(flat)) - torch.eye(flat.shape[0])
            loss = loss + 1e-4 * sym.abs().sum()
    return loss.squeeze()


def by_statistics(net):
    """Scales relative to the deviations that batch norms keep."""
    norms = [m for m in net.modules() if isinstance(m, nn.BatchNorm2d)]
    return 1e-3 * sum((m.weight / (m.running_var + m.eps).sqrt()).abs().sum() for m in norms)


brought("penalty by statistics", IMAGE, ids(5))(lambda: Penalised(by_statistics))
brought("by statistics, first", IMAGE, ids(5))(lambda: Penalised(by_statistics, first=True))
brought("l2 of all parameters", IMAGE, ids(5))(lambda: Penalised(l2))
brought("l2, calculated first", IMAGE, ids(5))(lambda: Penalised(l2, first=True))
brought("norms of parameters", IMAGE, ids(5))(lambda: Penalised(norms))
brought("network slimming", IMAGE, ids(5))(lambda: Penalised(slimming))
brought("orthogonal weights", IMAGE, ids(5))(lambda: Penalised(orthogonal))


@brought("fedprox", IMAGE, ids(5))
class FedProx(nn.Module):
    """The distance from the global model (Li et al., 2020)."""

    def __init__(self):
        super().__init__()
        self.net, self.global_net = body(), body().requires_grad_(False)
        self.global_net.load_state_dict(self.net.state_dict())
        for p in self.global_net.parameters():
            p.add_(0.01)

    def forward(self, x, y):
        """The loss, and the logits."""
        out, proximal = self.net(x), 0.0
        for w, w_t in zip(self.net.parameters(), self.global_net.parameters(), strict=True):
            proximal += (w - w_t).norm(2)
        return F.cross_entropy(out, y) + 0.05 * proximal, out
