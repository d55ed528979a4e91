# SPDX-License-Identifier: Apache-2.0
"""Losses, layers and whatever else people write."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from workloads.brought.networks import BATCH, Made, bits, brought, floats, ids, on, trained

EIGHT = floats(8)

trained(
    "focal",
    lambda: nn.Linear(8, 4),
    EIGHT,
    ids(4),
    lambda p, y: (
        (1 - p.softmax(1).gather(1, y[:, None])[:, 0]) ** 2
        * F.cross_entropy(p, y, reduction="none")
    ).mean(),
)
trained(
    "multi-label",
    lambda: nn.Linear(8, 4),
    EIGHT,
    bits(4),
    nn.BCEWithLogitsLoss(pos_weight=torch.tensor([1.0, 2.0, 3.0, 0.5])),
)
trained(
    "gaussian likelihood",
    lambda: nn.Linear(8, 2),
    EIGHT,
    floats(),
    lambda p, y: (F.softplus(p[:, 1]).log() + (p[:, 0] - y) ** 2 / F.softplus(p[:, 1])).mean(),
)
trained(
    "poisson",
    lambda: nn.Linear(8, 1),
    EIGHT,
    lambda: torch.randint(0, 5, (BATCH, 1)).float(),
    nn.PoissonNLLLoss(),
)
trained(
    "ordinal",
    lambda: nn.Linear(8, 3),
    EIGHT,
    ids(4),
    lambda p, y: F.binary_cross_entropy_with_logits(p, (y[:, None] > torch.arange(3)).float()),
)
trained("elastic net", lambda: nn.Linear(8, 1), EIGHT, floats(1), F.huber_loss)
trained("hinge", lambda: nn.Linear(8, 4), EIGHT, ids(4), nn.MultiMarginLoss())
trained(
    "log-cosh",
    lambda: nn.Linear(8, 1),
    EIGHT,
    floats(1),
    lambda p, y: torch.log(torch.cosh(p - y)).mean(),
)
trained(
    "maxout",
    lambda: Made(
        lambda m, x: m.out(m.a(x).view(-1, 4, 3).max(-1).values),
        a=nn.Linear(8, 12),
        out=nn.Linear(4, 3),
    ),
    EIGHT,
    ids(3),
)
trained(
    "mixture of experts",
    lambda: Made(
        lambda m, x: torch.einsum("be,bi,eio->bo", m.g(x).softmax(-1), x, m.w),
        g=nn.Linear(8, 3),
        w=torch.randn(3, 8, 4) * 0.3,
    ),
    EIGHT,
    ids(4),
)
trained(
    "bilinear layer",
    lambda: Made(lambda m, x: m.b(x[:, :4], x[:, 4:]), b=nn.Bilinear(4, 4, 3)),
    EIGHT,
    ids(3),
)
trained(
    "low rank",
    lambda: Made(
        lambda m, x: x @ (m.w.detach() + m.a @ m.b),
        w=torch.randn(8, 4),
        a=torch.randn(8, 2) * 0.3,
        b=torch.zeros(2, 4) + 0.1,
    ),
    EIGHT,
    ids(4),
)
trained(
    "highway",
    lambda: Made(
        lambda m, x: m.out(torch.where(x > 0, m.a(x), x)), a=nn.Linear(8, 8), out=nn.Linear(8, 3)
    ),
    EIGHT,
    ids(3),
)
trained(
    "graph convolution",
    lambda: Made(
        lambda m, x: m.out(F.relu(torch.matmul(m.adjacency.softmax(-1), m.a(x))).sum(1)),
        adjacency=torch.randn(5, 5),
        a=nn.Linear(3, 6),
        out=nn.Linear(6, 3),
    ),
    floats(5, 3),
    ids(3),
)
trained(
    "point cloud",
    lambda: Made(
        lambda m, x: m.out(m.a(x).transpose(1, 2).amax(-1)),
        a=nn.Sequential(nn.Linear(3, 8), nn.GELU(), nn.Linear(8, 8)),
        out=nn.Linear(8, 3),
    ),
    floats(6, 3),
    ids(3),
)
trained(
    "deep sets",
    lambda: Made(
        lambda m, x: m.out(torch.logsumexp(m.a(x), 1)), a=nn.Linear(3, 6), out=nn.Linear(6, 3)
    ),
    floats(6, 3),
    ids(3),
)
trained(
    "q-learning",
    lambda: nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3)),
    EIGHT,
    floats(3),
    nn.SmoothL1Loss(),
)
trained(
    "activations",
    lambda: nn.Sequential(
        nn.Linear(8, 8),
        nn.Hardswish(),
        nn.Linear(8, 8),
        nn.PReLU(),
        nn.Linear(8, 8),
        nn.Softsign(),
        nn.Linear(8, 8),
        nn.CELU(),
        nn.Linear(8, 3),
    ),
    EIGHT,
    ids(3),
)
trained(
    "shrinkage",
    lambda: nn.Sequential(
        nn.Linear(8, 8),
        nn.Hardshrink(0.1),
        nn.Linear(8, 8),
        nn.Softshrink(0.1),
        nn.Linear(8, 8),
        nn.Threshold(0.0, 0.1),
        nn.Tanhshrink(),
        nn.Linear(8, 3),
    ),
    EIGHT,
    ids(3),
)


def _entropy(logits):
    logs = F.log_softmax(logits, -1)
    return -(logs.exp() * logs).sum(-1)


brought("actor and critic", EIGHT, ids(3), floats(), floats())(
    on(
        lambda m, state, action, gain, value: (
            -(F.log_softmax(m.p(state), -1).gather(1, action.unsqueeze(1)).squeeze(1) * gain).mean()
            + 0.5 * F.mse_loss(m.v(state).squeeze(-1), value)
            - 0.01 * _entropy(m.p(state)).mean(),
            m.p(state),
            m.v(state),
        ),
        p=lambda: nn.Linear(8, 3),
        v=lambda: nn.Linear(8, 1),
    )
)


@brought("experts by topk", floats(5), ids(3))
class SparseExperts(nn.Module):
    """Of four experts, the two of the largest gates (Shazeer et al., 2017)."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(5, 4, bias=False)
        self.experts = nn.ModuleList(nn.Linear(5, 3) for _ in range(4))

    def forward(self, x, y):
        """The loss, and the logits."""
        logits = self.gate(x)
        top, indices = logits.topk(2, dim=-1)
        gates = torch.zeros_like(logits).scatter(1, indices, F.softmax(top, dim=-1))
        each = torch.stack([expert(x) for expert in self.experts], dim=1)
        out = (gates.unsqueeze(-1) * each).sum(dim=1)
        return F.cross_entropy(out, y), out


@brought("hard examples", floats(6), ids(4))
class HardExamples(nn.Module):
    """The mean of the largest losses of a batch; labels smoothed by scatter."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 4)

    def forward(self, x, y):
        """The loss, and the logits."""
        out = self.fc(x)
        target = torch.full_like(out, 0.1 / 3)
        target.scatter_(1, y.unsqueeze(1), 0.9)
        losses = torch.sum(-target * F.log_softmax(out, dim=1), dim=1)
        worst, _ = torch.sort(losses, descending=True)
        return worst[:2].mean(), out


@brought("hardest negatives", floats(6), floats(6))
class HardestNegatives(nn.Module):
    """Descriptors against the nearest that does not match (Mishchuk et al., 2017)."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 4)

    def forward(self, anchor, positive):
        """The loss, and the anchors' descriptors."""
        a, p = F.normalize(self.fc(anchor)), F.normalize(self.fc(positive))
        distances = torch.cdist(a, p)
        without = distances + torch.eye(distances.size(1)) * 10
        nearest = torch.min(without, 1)[0]
        return torch.clamp(1.0 + torch.diag(distances) - nearest, min=0.0).mean(), a


@brought("sparsemax", floats(6), ids(4))
class Sparsemax(nn.Module):
    """Features projected onto the simplex (Martins and Astudillo, 2016)."""

    def __init__(self):
        super().__init__()
        self.fc, self.out = nn.Linear(6, 5), nn.Linear(5, 4)

    def forward(self, x, y):
        """The loss, and the logits."""
        z = self.fc(x)
        zs = torch.sort(z, dim=1, descending=True)[0]
        ranks = torch.arange(1, 6, dtype=z.dtype).view(1, -1)
        is_gt = torch.gt(1 + ranks * zs, torch.cumsum(zs, 1)).type(z.type())
        k = torch.max(is_gt * ranks, 1, keepdim=True)[0]
        taus = (torch.sum(is_gt * zs, 1, keepdim=True) - 1) / k
        out = self.out(torch.max(torch.zeros_like(z), z - taus))
        return F.cross_entropy(out, y), out


@brought("dynamic graph", floats(6, 3), ids(3))
class EdgeConvolution(nn.Module):
    """Edge features to the nearest points (Wang et al., 2019)."""

    def __init__(self):
        super().__init__()
        self.edge, self.out = nn.Linear(6, 5), nn.Linear(5, 3)

    def forward(self, x, y):
        """The loss, and the logits."""
        inner = -2 * torch.matmul(x, x.transpose(2, 1))
        xx = torch.sum(x**2, dim=2, keepdim=True)
        idx = (-xx - inner - xx.transpose(2, 1)).topk(k=3, dim=-1)[1]
        wide = x.unsqueeze(1).expand(-1, 6, -1, -1)
        near = torch.gather(wide, 2, idx.unsqueeze(-1).expand(-1, -1, -1, 3))
        centre = x.unsqueeze(2).expand_as(near)
        h = F.relu(self.edge(torch.cat((near - centre, centre), dim=3))).max(dim=2)[0]
        out = self.out(h.max(dim=1)[0])
        return F.cross_entropy(out, y), out
