# SPDX-License-Identifier: Apache-2.0
"""Sounds and time series."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from workloads.brought.networks import brought, floats, ids, on, trained

WAVE, SERIES = floats(1, 64), floats(12, 4)

trained(
    "wave classifier",
    lambda: nn.Sequential(
        nn.Conv1d(1, 4, 8, 4),
        nn.BatchNorm1d(4),
        nn.ReLU(),
        nn.MaxPool1d(2),
        nn.Flatten(),
        nn.Linear(28, 5),
    ),
    WAVE,
    ids(5),
)
trained(
    "temporal convolutions",
    lambda: nn.Sequential(
        nn.Conv1d(4, 6, 3, dilation=2, padding=2),
        nn.ReLU(),
        nn.Conv1d(6, 6, 3, padding=1),
        nn.AdaptiveAvgPool1d(1),
        nn.Flatten(),
        nn.Linear(6, 3),
    ),
    floats(4, 12),
    ids(3),
)
brought("lstm classifier", SERIES, ids(3))(
    on(
        lambda m, x, y: F.cross_entropy(m.out(m.r(x)[0][:, -1]), y),
        r=lambda: nn.LSTM(4, 6, batch_first=True),
        out=lambda: nn.Linear(6, 3),
    )
)
brought("gru forecaster", SERIES, floats(1))(
    on(
        lambda m, x, y: F.mse_loss(m.out(m.r(x)[1][-1]), y),
        r=lambda: nn.GRU(4, 6, 2, batch_first=True),
        out=lambda: nn.Linear(6, 1),
    )
)
brought("bidirectional tagger", ids(20, 6), ids(4, 6))(
    on(
        lambda m, x, y: F.cross_entropy(m.out(m.r(m.e(x))[0]).transpose(1, 2), y),
        e=lambda: nn.Embedding(20, 6),
        r=lambda: nn.LSTM(6, 5, batch_first=True, bidirectional=True),
        out=lambda: nn.Linear(10, 4),
    )
)
brought("quantiles", SERIES, floats(1))(
    on(
        lambda m, x, y: _pinball(m.out(m.r(x)[1][0]), y),
        r=lambda: nn.GRU(4, 6, batch_first=True),
        out=lambda: nn.Linear(6, 3),
    )
)


def _pinball(p, y):
    q = torch.tensor([0.1, 0.5, 0.9])
    e = y - p
    return torch.maximum(q * e, (q - 1) * e).mean()


brought("cumulative", SERIES, floats(12, 4))(
    on(lambda m, x, y: F.mse_loss(torch.cumsum(m.out(x), dim=1), y), out=lambda: nn.Linear(4, 4))
)
brought("standardised series", SERIES, ids(3))(
    on(
        lambda m, x, y: F.cross_entropy(
            m.out(
                ((x - x.mean(1, keepdim=True)) / (x.std(1, keepdim=True) + 1e-5) @ m.w).flatten(1)
            ),
            y,
        ),
        w=lambda: torch.randn(4, 3) * 0.4,
        out=lambda: nn.Linear(36, 3),
    )
)
brought("statistics pooling", floats(4, 12), ids(3))(
    on(
        lambda m, x, y: F.cross_entropy(
            m.out(torch.cat([F.relu(m.c(x)).mean(2), F.relu(m.c(x)).std(2)], 1)), y
        ),
        c=lambda: nn.Conv1d(4, 6, 3),
        out=lambda: nn.Linear(12, 3),
    )
)
brought("decomposition linear", floats(16, 2), floats(4, 2))(
    on(
        lambda m, x, y: F.mse_loss(_decomposed(m, x), y),
        a=lambda: nn.Linear(16, 4),
        b=lambda: nn.Linear(16, 4),
    )
)


def _decomposed(m, x):
    """DLinear: a moving average and what it leaves."""
    t = x.transpose(1, 2)
    trend = F.avg_pool1d(F.pad(t, (2, 2), mode="replicate"), 5, 1)
    return (m.a(t - trend) + m.b(trend)).transpose(1, 2)


brought("log-mel features", floats(64), ids(3))(
    on(
        lambda m, x, y: F.cross_entropy(
            m.out(torch.log1p(torch.relu(x.unfold(1, 16, 8) @ m.basis).square()).mean(1)), y
        ),
        basis=lambda: torch.randn(16, 6) * 0.3,
        out=lambda: nn.Linear(6, 3),
    )
)
brought("gated convolutions", floats(2, 16), floats(2, 16))(
    on(
        lambda m, x, y: F.mse_loss(
            m.out(torch.tanh(m.a(F.pad(x, (2, 0)))) * torch.sigmoid(m.b(F.pad(x, (2, 0))))), y
        ),
        a=lambda: nn.Conv1d(2, 4, 3),
        b=lambda: nn.Conv1d(2, 4, 3),
        out=lambda: nn.Conv1d(4, 2, 1),
    )
)
brought("recurrent by hand", SERIES, ids(3))(
    on(
        lambda m, x, y: F.cross_entropy(m.out(_rolled(m, x)), y),
        cell=lambda: nn.GRUCell(4, 6),
        out=lambda: nn.Linear(6, 3),
    )
)


def _rolled(m, x):
    h = torch.zeros(x.shape[0], 6)
    for t in range(x.shape[1]):
        h = m.cell(x[:, t], h)
    return h


brought("leaky integrators", SERIES, ids(3))(
    on(
        lambda m, x, y: F.cross_entropy(m.out(_leaky(m, x)), y),
        w=lambda: nn.Linear(4, 6),
        leak=lambda: torch.zeros(6),
        out=lambda: nn.Linear(6, 3),
    )
)


def _leaky(m, x):
    h, share = torch.zeros(x.shape[0], 6), torch.sigmoid(m.leak)
    for step in x.unbind(1):
        h = torch.lerp(h, torch.tanh(m.w(step)), share)
    return h


brought("fourier features", floats(2), floats(1))(
    on(
        lambda m, x, y: F.mse_loss(
            m.net(torch.cat([torch.sin(x @ m.f), torch.cos(x @ m.f)], -1)), y
        ),
        f=lambda: torch.randn(2, 6),
        net=lambda: nn.Sequential(nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 1)),
    )
)
brought("siren", floats(2), floats(1))(
    on(
        lambda m, x, y: F.mse_loss(m.b(torch.sin(3 * m.a(x))), y),
        a=lambda: nn.Linear(2, 8),
        b=lambda: nn.Linear(8, 1),
    )
)
