# SPDX-License-Identifier: Apache-2.0
"""Metric learning, and several inputs and results."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from workloads.brought.networks import BATCH, bits, brought, floats, ids, on

GREY, WORDS = floats(1, 8, 8), ids(20, 6)

EMBED = {"net": lambda: nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))}
EIGHT = floats(8)

brought("siamese, contrastive", EIGHT, EIGHT, bits())(
    on(
        lambda m, a, b, same: (
            lambda d: (same * d.pow(2) + (1 - same) * F.relu(1 - d).pow(2)).mean()
        )(F.pairwise_distance(m.net(a), m.net(b))),
        **EMBED,
    )
)
brought("triplet", EIGHT, EIGHT, EIGHT)(
    on(lambda m, a, p, n: (F.triplet_margin_loss(m.net(a), m.net(p), m.net(n)), m.net(a)), **EMBED)
)
brought("cosine embedding", EIGHT, EIGHT, lambda: torch.randint(0, 2, (BATCH,)).float() * 2 - 1)(
    on(lambda m, a, b, y: F.cosine_embedding_loss(m.net(a), m.net(b), y), **EMBED)
)
brought("info nce", EIGHT, EIGHT)(
    on(
        lambda m, a, b: (
            F.cross_entropy(
                F.normalize(m.net(a)) @ F.normalize(m.net(b)).T / 0.1, torch.arange(a.shape[0])
            ),
            m.net(a),
        ),
        **EMBED,
    )
)
brought("barlow twins", EIGHT, EIGHT)(
    on(lambda m, a, b: (_twins(m.net(a), m.net(b)), m.net(a)), **EMBED)
)


def _twins(a, b):
    a, b = ((z - z.mean(0)) / (z.std(0) + 1e-5) for z in (a, b))
    c = a.T @ b / a.shape[0]
    on_diagonal = (torch.diagonal(c) - 1).pow(2).sum()
    return on_diagonal + 0.01 * (c.pow(2).sum() - torch.diagonal(c).pow(2).sum())


brought("simsiam", EIGHT, EIGHT)(
    on(
        lambda m, a, b: (
            -F.cosine_similarity(m.h(m.net(a)), m.net(b).detach(), dim=-1).mean(),
            m.net(a),
        ),
        h=lambda: nn.Linear(4, 4),
        **EMBED,
    )
)
brought("arc margin", EIGHT, ids(5))(
    on(
        lambda m, x, y: F.cross_entropy(
            8 * (F.normalize(m.net(x)) @ F.normalize(m.w).T - 0.2 * F.one_hot(y, 5).float()), y
        ),
        w=lambda: torch.randn(5, 4),
        **EMBED,
    )
)
brought("prototypes", EIGHT, ids(5))(
    on(
        lambda m, x, y: F.cross_entropy(-torch.cdist(m.net(x), m.p), y),
        p=lambda: torch.randn(5, 4),
        **EMBED,
    )
)
brought("distillation", EIGHT, floats(5), ids(5))(
    on(
        lambda m, x, teacher, y: (
            0.5 * F.cross_entropy(m.net(x), y)
            + 2
            * F.kl_div(
                F.log_softmax(m.net(x) / 2, 1), F.softmax(teacher / 2, 1), reduction="batchmean"
            )
        ),
        net=lambda: nn.Linear(8, 5),
    )
)
brought("wide and deep", ids(10), ids(7), floats(3), bits())(
    on(
        lambda m, user, item, numbers, y: F.binary_cross_entropy_with_logits(
            (m.u(user) * m.i(item)).sum(1)
            + m.d(torch.cat([m.u(user), m.i(item), numbers], 1)).squeeze(1),
            y,
        ),
        u=lambda: nn.Embedding(10, 4),
        i=lambda: nn.Embedding(7, 4),
        d=lambda: nn.Sequential(nn.Linear(11, 8), nn.ReLU(), nn.Linear(8, 1)),
    )
)
brought("factorisation machine", EIGHT, floats())(
    on(
        lambda m, x, y: F.mse_loss(
            0.5 * ((x @ m.v).square() - x.square() @ m.v.square()).sum(1) + (x @ m.w).squeeze(1), y
        ),
        v=lambda: torch.randn(8, 3) * 0.2,
        w=lambda: torch.randn(8, 1) * 0.2,
    )
)
brought("two modalities", GREY, WORDS, ids(3), floats(2))(
    on(
        lambda m, image, words, kind, where: (
            lambda h: (F.cross_entropy(m.a(h), kind) + F.mse_loss(m.b(h), where), m.a(h), m.b(h))
        )(torch.cat([F.relu(m.c(image)).mean((2, 3)), m.e(words).mean(1)], 1)),
        c=lambda: nn.Conv2d(1, 4, 3),
        e=lambda: nn.Embedding(20, 4),
        a=lambda: nn.Linear(8, 3),
        b=lambda: nn.Linear(8, 2),
    )
)
brought("uncertainty weighting", EIGHT, ids(3), floats(1))(
    on(
        lambda m, x, y, z: (
            torch.exp(-m.s[0]) * F.cross_entropy(m.a(x), y)
            + torch.exp(-m.s[1]) * F.mse_loss(m.b(x), z)
            + m.s.sum(),
            m.a(x),
            m.b(x),
        ),
        s=lambda: torch.zeros(2),
        a=lambda: nn.Linear(8, 3),
        b=lambda: nn.Linear(8, 1),
    )
)
