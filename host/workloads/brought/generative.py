# SPDX-License-Identifier: Apache-2.0
"""Auto-encoders, flows and what else generates."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

from workloads.brought.networks import BATCH, brought, floats, ids, on

FLAT = floats(12)


@brought("variational autoencoder", FLAT)
class Variational(nn.Module):
    """Kingma and Welling, 2014: two terms, and noise."""

    def __init__(self) -> None:
        super().__init__()
        self.enc, self.mu, self.log = nn.Linear(12, 8), nn.Linear(8, 3), nn.Linear(8, 3)
        self.dec = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 12))

    def forward(self, x):
        """The loss, and the reconstruction."""
        h = F.relu(self.enc(x))
        mu, log = self.mu(h), self.log(h)
        seen = self.dec(mu + torch.randn_like(mu) * torch.exp(0.5 * log))
        kl = -0.5 * torch.sum(1 + log - mu.pow(2) - log.exp()) / x.shape[0]
        return F.mse_loss(seen, x) + 0.1 * kl, seen


@brought("denoising autoencoder", FLAT)
class Denoising(nn.Module):
    """Noise on what is read."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(12, 6), nn.Tanh(), nn.Linear(6, 12))

    def forward(self, x):
        """The loss, and the reconstruction."""
        seen = self.net(x + 0.1 * torch.randn(x.shape))
        return F.mse_loss(seen, x), seen


brought("sparse autoencoder", FLAT)(
    on(
        lambda m, x: (lambda h: (F.mse_loss(m.d(h), x) + 1e-2 * h.abs().mean(), m.d(h)))(
            F.relu(m.e(x))
        ),
        e=lambda: nn.Linear(12, 16),
        d=lambda: nn.Linear(16, 12),
    )
)
brought("tied autoencoder", FLAT)(
    on(
        lambda m, x: (F.mse_loss(torch.sigmoid(x @ m.w) @ m.w.T, x), torch.sigmoid(x @ m.w)),
        w=lambda: torch.randn(12, 5) * 0.2,
    )
)
brought("vector quantised", FLAT)(
    on(
        lambda m, x: _quantised(m, x),
        e=lambda: nn.Linear(12, 4),
        book=lambda: torch.randn(8, 4),
        d=lambda: nn.Linear(4, 12),
    )
)


def _quantised(m, x):
    z = m.e(x)
    near = torch.cdist(z, m.book).argmin(1)
    q = m.book[near]
    loss = F.mse_loss(q, z.detach()) + 0.25 * F.mse_loss(z, q.detach())
    seen = m.d(z + (q - z).detach())
    return F.mse_loss(seen, x) + loss, seen


brought("diffusion step", FLAT, floats(12), lambda: torch.rand(BATCH, 1))(
    on(
        lambda m, x, noise, t: F.mse_loss(
            m.net(torch.cat([x * torch.sqrt(1 - t) + noise * torch.sqrt(t), t], 1)), noise
        ),
        net=lambda: nn.Sequential(nn.Linear(13, 16), nn.SiLU(), nn.Linear(16, 12)),
    )
)
brought("mixture density", floats(2), floats())(
    on(
        lambda m, x, y: _mixture(m.net(x), y),
        net=lambda: nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 9)),
    )
)


def _mixture(out, y):
    weight, mean, log = out.chunk(3, 1)
    each = -0.5 * ((y[:, None] - mean) / log.exp()) ** 2 - log
    return -torch.logsumexp(F.log_softmax(weight, 1) + each, 1).mean()


brought("normalising flow", floats(4))(
    on(lambda m, x: _flow(m, x), s=lambda: nn.Linear(2, 2), t=lambda: nn.Linear(2, 2))
)


def _flow(m, x):
    a, b = x[:, :2], x[:, 2:]
    s = torch.tanh(m.s(a))
    z = torch.cat([a, b * torch.exp(s) + m.t(a)], 1)
    return (0.5 * z.pow(2).sum(1) - s.sum(1)).mean(), z


@brought("realnvp", floats(4))
class RealNVP(nn.Module):
    """Coupling layers and the log-likelihood of what they map to."""

    def __init__(self):
        super().__init__()
        self.s, self.t = (
            nn.ModuleList(
                nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(), nn.Linear(8, 2), last())
                for _ in range(2)
            )
            for last in (nn.Tanh, nn.Identity)
        )

    def forward(self, x):
        """The loss, and the mapped samples."""
        log_det = x.new_zeros(x.shape[0])
        for scale, shift in zip(self.s, self.t, strict=True):
            kept, moved = x.chunk(2, dim=1)
            s = scale(kept)
            moved = (moved - shift(kept)) * torch.exp(-s)
            log_det -= s.sum(dim=1)
            x = torch.cat([moved, kept], dim=1)
        log_prob = -0.5 * (x**2).sum(dim=1) - 2 * math.log(2 * math.pi)
        return -(log_prob + log_det).mean(), x


@brought("gumbel softmax", floats(6), ids(3))
class GumbelSoftmax(nn.Module):
    """A relaxed choice of four (Jang et al., 2017)."""

    def __init__(self):
        super().__init__()
        self.logits, self.out = nn.Linear(6, 4), nn.Linear(4, 3)

    def sample_gumbel(self, logits, eps=1e-10):
        """Gumbel noise of a shape."""
        u = torch.rand_like(logits)
        return -torch.log(-torch.log(u + eps) + eps)

    def forward(self, x, y, temperature=0.7):
        """The loss, and the logits."""
        logits = self.logits(x)
        choice = F.softmax((logits + self.sample_gumbel(logits)) / temperature, dim=-1)
        out = self.out(choice)
        return F.cross_entropy(out, y), out
