# SPDX-License-Identifier: Apache-2.0
"""Networks of graphs, tags, rays, poses and policies, and of what moves from step to step."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

from workloads.brought.networks import BATCH, bits, brought, floats, ids


@brought("llama block", ids(13, 6), ids(13, 6))
class LlamaBlock(nn.Module):
    """Grouped-query attention with rotary positions, RMS norm and SwiGLU."""

    def __init__(self):
        super().__init__()
        self.embed, self.out = nn.Embedding(13, 16), nn.Linear(16, 13, bias=False)
        self.norm1, self.norm2 = nn.Parameter(torch.ones(16)), nn.Parameter(torch.ones(16))
        self.wq, self.wo = nn.Linear(16, 16, bias=False), nn.Linear(16, 16, bias=False)
        self.wk, self.wv = nn.Linear(16, 8, bias=False), nn.Linear(16, 8, bias=False)
        self.w1, self.w3 = nn.Linear(16, 24, bias=False), nn.Linear(16, 24, bias=False)
        self.w2 = nn.Linear(24, 16, bias=False)
        freqs = torch.outer(torch.arange(6.0), 1.0 / 10000 ** (torch.arange(0, 4, 2).float() / 4))
        self.register_buffer("cos", freqs.cos(), persistent=False)
        self.register_buffer("sin", freqs.sin(), persistent=False)

    def rotate(self, x):
        """Pairs of x, turned by their position's angle."""
        a, b = x[..., ::2], x[..., 1::2]
        cos, sin = self.cos[None, :, None], self.sin[None, :, None]
        return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(3)

    def forward(self, tokens, y):
        """The loss, and the logits."""
        x = self.embed(tokens)
        b, n, _ = x.shape
        h = self.norm1 * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5))
        q = self.rotate(self.wq(h).view(b, n, 4, 4)).transpose(1, 2)
        k = self.rotate(self.wk(h).view(b, n, 2, 4)).repeat_interleave(2, dim=2).transpose(1, 2)
        v = self.wv(h).view(b, n, 2, 4).repeat_interleave(2, dim=2).transpose(1, 2)
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.wo(o.transpose(1, 2).reshape(b, n, -1))
        h = self.norm2 * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5))
        logits = self.out(x + self.w2(F.silu(self.w1(h)) * self.w3(h)))
        return F.cross_entropy(logits.flatten(0, 1), y.flatten()), logits


@brought("heatmap, soft argmax", floats(1, 8, 8), floats(3, 2))
class Keypoints(nn.Module):
    """Coordinates as the mean place of a heatmap."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 3, 1))
        self.register_buffer("grid", torch.linspace(-1, 1, 8))

    def forward(self, x, y):
        """The loss, and the coordinates."""
        h = self.net(x)
        p = F.softmax(h.flatten(2) * 2.0, -1).view_as(h)
        xy = torch.stack([(p.sum(2) * self.grid).sum(-1), (p.sum(3) * self.grid).sum(-1)], -1)
        d = (xy - y).abs()
        return torch.where(d < 0.5, d**2, d - 0.25).mean(), xy


@brought("overlapping patches, folded", floats(2, 6, 6), floats(2, 6, 6))
class Folded(nn.Module):
    """Patches, mapped one by one and averaged where they overlap."""

    def __init__(self):
        super().__init__()
        self.map = nn.Linear(18, 18)

    def forward(self, x, y):
        """The loss, and the image."""
        patches = F.unfold(x, 3, padding=1).transpose(1, 2)
        out = F.fold(self.map(patches).transpose(1, 2), (6, 6), 3, padding=1) / 9
        return F.mse_loss(out, y), out


@brought(
    *("graph convolution, edges", floats(5, 4), lambda: torch.randint(0, 5, (BATCH, 2, 7))), ids(3)
)
class EdgeList(nn.Module):
    """Messages along a list of edges, added up at their targets."""

    def __init__(self):
        super().__init__()
        self.a, self.out = nn.Linear(4, 6), nn.Linear(6, 3)

    def forward(self, x, edges, y):
        """The loss, and the logits."""
        h = self.a(x)
        source, target = (edges[:, i].unsqueeze(-1).expand(-1, -1, 6) for i in (0, 1))
        total = torch.zeros_like(h).scatter_add(1, target, torch.gather(h, 1, source))
        ones = torch.ones(x.shape[0], 7)
        degree = torch.zeros(x.shape[0], 5).scatter_add_(1, edges[:, 1], ones).clamp(min=1)
        logits = self.out(F.relu(total / degree.unsqueeze(-1) + h).mean(1))
        return F.cross_entropy(logits, y), logits


@brought("tags, conditional random field", ids(9, 5), ids(3, 5))
class RandomField(nn.Module):
    """Likelihood of a tag sequence, by the forward algorithm."""

    def __init__(self):
        super().__init__()
        self.embed, self.out = nn.Embedding(9, 6), nn.Linear(6, 3)
        self.steps = nn.Parameter(torch.randn(3, 3) * 0.1)
        self.first, self.last = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(3))

    def forward(self, x, y):
        """The loss, and the scores of tags."""
        e, rows = self.out(self.embed(x)), torch.arange(x.shape[0])
        score = self.first[y[:, 0]] + e[rows, 0, y[:, 0]]
        alpha = self.first + e[:, 0]
        for i in range(1, 5):
            score = score + self.steps[y[:, i - 1], y[:, i]] + e[rows, i, y[:, i]]
            alpha = torch.logsumexp(alpha.unsqueeze(2) + self.steps + e[:, i].unsqueeze(1), 1)
        whole = torch.logsumexp(alpha + self.last, 1)
        return (whole - score - self.last[y[:, -1]]).mean(), e


@brought("simclr", floats(3, 6, 6), floats(3, 6, 6))
class SimClr(nn.Module):
    """Two views of each sample, each other's only positive."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            *(nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU()),
            *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 6)),
        )

    def forward(self, a, b):
        """The loss, and the first views' embeddings."""
        z = F.normalize(self.body(torch.cat([a, b])), dim=1)
        n = z.shape[0]
        logits = (z @ z.t() / 0.5).masked_fill(torch.eye(n, dtype=torch.bool), -1e9)
        other = (torch.arange(n) + n // 2) % n
        return F.cross_entropy(logits, other), z[: n // 2]


@brought("vicreg", floats(8), floats(8))
class VicReg(nn.Module):
    """Invariance, variance and covariance of two views' embeddings."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 6))

    def forward(self, a, b):
        """The loss, and the first views' embeddings."""
        x, y = self.net(a), self.net(b)
        loss = 25 * F.mse_loss(x, y)
        for z in (x, y):
            z = z - z.mean(0)
            loss = loss + 12.5 * F.relu(1 - torch.sqrt(z.var(0) + 1e-4)).mean()
            cov = z.T @ z / (len(z) - 1)
            loss = loss + (cov - torch.diag(torch.diag(cov))).pow(2).sum() / 6
        return loss, x


@brought("triplet, cosine distance", floats(6), floats(6), floats(6))
class CosineTriplet(nn.Module):
    """A triplet loss with a distance of its own, and nothing returned beside it."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))
        self.loss = nn.TripletMarginWithDistanceLoss(
            distance_function=lambda x, y: 1 - F.cosine_similarity(x, y), margin=0.5, swap=True
        )

    def forward(self, anchor, positive, negative):
        """The loss."""
        return self.loss(self.net(anchor), self.net(positive), self.net(negative))


@brought("radiance field", floats(5, 3), floats(3))
class RadianceField(nn.Module):
    """Colour along a ray, by the transmittance up to each sample (Mildenhall et al., 2020)."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(15, 16), nn.ReLU(), nn.Linear(16, 4))

    def forward(self, p, y):
        """The loss, and the colour."""
        waves = [f(2.0**k * p) for k in range(2) for f in (torch.sin, torch.cos)]
        out = self.net(torch.cat([p, *waves], -1))
        alpha = 1 - torch.exp(-F.relu(out[..., 3]) * 0.2)
        through = torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], -1)
        weights = alpha * torch.cumprod(through, -1)[:, :-1]
        colour = (weights[..., None] * torch.sigmoid(out[..., :3])).sum(1)
        return F.mse_loss(colour, y), colour


@brought("pose, learned weights", floats(1, 6, 6), floats(7))
class Pose(nn.Module):
    """Position and quaternion, weighted as Kendall and Cipolla (2017) do."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 7))
        self.sx, self.sq = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.tensor([-3.0]))

    def forward(self, x, y):
        """The loss, and the pose."""
        out = self.net(x)
        q = F.normalize(out[:, 3:], p=2, dim=1)
        wanted = y[:, 3:] / torch.linalg.norm(y[:, 3:], dim=1, keepdim=True)
        place = (out[:, :3] - y[:, :3]).abs().mean() * torch.exp(-self.sx) + self.sx
        turn = torch.norm(q - wanted, dim=1).mean() * torch.exp(-self.sq) + self.sq
        return (place + turn).squeeze(), out


@brought("depth, edge-aware", floats(3, 6, 6), floats(1, 6, 6))
class Depth(nn.Module):
    """Scale-invariant depth, smooth but for edges of the image."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 6, 3, padding=1), nn.ELU(), nn.Conv2d(6, 1, 3, padding=1), nn.Softplus()
        )

    def forward(self, x, y):
        """The loss, and the depth."""
        p = self.net(x) + 1e-3
        d = torch.log(p) - torch.log(y.abs() + 0.1)
        invariant = torch.sqrt((d**2).mean() - 0.85 * d.mean() ** 2)
        edges = torch.exp(-x.mean(1, keepdim=True).diff(dim=2).abs())
        return invariant + 0.1 * (p.diff(dim=2).abs() * edges).mean(), p


@brought("policy, clipped ratio", floats(6), ids(3), floats(), floats(), floats())
class ClippedPolicy(nn.Module):
    """Proximal policy optimisation with a categorical policy (Schulman et al., 2017)."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 16), nn.Tanh())
        self.actor, self.critic = nn.Linear(16, 3), nn.Linear(16, 1)

    def forward(self, state, action, before, advantage, gain):
        """The loss, and the logits of actions."""
        h = self.body(state)
        policy = torch.distributions.Categorical(logits=self.actor(h), validate_args=False)
        ratio = torch.exp(policy.log_prob(action) - 0.1 * before + 1)
        a = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        gained = torch.min(ratio * a, torch.clamp(ratio, 0.8, 1.2) * a).mean()
        value = F.mse_loss(self.critic(h).squeeze(-1), gain)
        return 0.5 * value - gained - 0.01 * policy.entropy().mean(), self.actor(h)


@brought("conditional vae, distributions", floats(8), ids(3))
class ConditionalVae(nn.Module):
    """A variational auto-encoder of classes, with torch.distributions."""

    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(11, 6), nn.Linear(6, 8)

    def forward(self, x, c):
        """The loss, and what is given back."""
        c = F.one_hot(c, num_classes=3).float()
        mean, log = self.encoder(torch.cat([x, c], 1)).chunk(2, 1)
        q = torch.distributions.Normal(mean, (log / 2).exp(), validate_args=False)
        prior = torch.distributions.Normal(
            torch.zeros_like(mean), torch.ones_like(mean), validate_args=False
        )
        y = self.decoder(torch.cat([q.rsample(), c], 1))
        kl = torch.distributions.kl_divergence(q, prior).sum(-1).mean()
        return F.mse_loss(y, x) + kl, y


@brought("quantised activations, straight through", floats(8), ids(3))
class Quantised(nn.Module):
    """Activations rounded to multiples of their largest in a moving average."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 3)
        self.register_buffer("largest", torch.ones(1))

    def forward(self, x, y):
        """The loss, and the logits."""
        h = F.relu(self.a(x))
        with torch.no_grad():
            self.largest.mul_(0.9).add_(h.max(), alpha=0.1)
        step = self.largest / 15
        h = h + ((h / step).round().clamp(0, 15) * step - h).detach()
        logits = self.b(h)
        return F.cross_entropy(logits, y), logits


@brought("periodic features", floats(6), bits())
class Periodic(nn.Module):
    """Features by their phase, and by the product of what is not dropped."""

    def __init__(self):
        super().__init__()
        self.scale, self.out = nn.Parameter(torch.rand(6) + 0.5), nn.Linear(13, 1)

    def forward(self, x, y):
        """The loss, and the logit."""
        phase = torch.remainder(x * self.scale, 1.0)
        z = torch.cat([phase, torch.cos(2 * math.pi * phase), phase.prod(1, keepdim=True)], 1)
        logit = self.out(z).squeeze(1)
        return F.binary_cross_entropy_with_logits(logit, y), logit
