# SPDX-License-Identifier: Apache-2.0
"""Words."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

from workloads.brought.networks import BATCH, bits, brought, ids, on

WORDS = ids(20, 6)

brought("bag of words", WORDS, ids(3))(
    on(
        lambda m, x, y: F.cross_entropy(m.out(m.e(x)), y),
        e=lambda: nn.EmbeddingBag(20, 6, mode="mean"),
        out=lambda: nn.Linear(6, 3),
    )
)
brought("bag of words, summed", WORDS, ids(3))(
    on(
        lambda m, x, y: F.cross_entropy(m.out(m.e(x)), y),
        e=lambda: nn.EmbeddingBag(20, 6, mode="sum"),
        out=lambda: nn.Linear(6, 3),
    )
)
brought("mean of embeddings with padding", WORDS, ids(3))(
    on(
        lambda m, x, y: F.cross_entropy(m.out(_masked_mean(m.e(x), x != 0)), y),
        e=lambda: nn.Embedding(20, 6, padding_idx=0),
        out=lambda: nn.Linear(6, 3),
    )
)


def _masked_mean(h, keep):
    keep = keep.unsqueeze(-1).float()
    return (h * keep).sum(1) / keep.sum(1).clamp(min=1)


@brought("encoder with padding", WORDS, ids(3))
class Padded(nn.Module):
    """PyTorch's encoder with a mask of the words that are padding."""

    def __init__(self) -> None:
        super().__init__()
        self.e = nn.Embedding(20, 8, padding_idx=0)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)
        self.out = nn.Linear(8, 3)

    def forward(self, x, y):
        """The loss, and the prediction."""
        x = torch.cat([torch.ones_like(x[:, :1]), x[:, 1:]], 1)
        p = self.out(self.layer(self.e(x), src_key_padding_mask=x == 0)[:, 0])
        return F.cross_entropy(p, y), p


@brought("encoder with a mask of its own", WORDS, lambda: torch.rand(BATCH, 6) > 0.7, ids(3))
class MaskGiven(nn.Module):
    """Attention by hand, and a mask as an input."""

    def __init__(self) -> None:
        super().__init__()
        self.e, self.qkv, self.out = nn.Embedding(20, 8), nn.Linear(8, 24), nn.Linear(8, 3)

    def forward(self, words, mask, y):
        """The loss, and the prediction."""
        q, k, v = self.qkv(self.e(words)).chunk(3, -1)
        w = (q @ k.transpose(1, 2) / math.sqrt(8)).masked_fill(mask[:, None], -1e9)
        p = self.out((w.softmax(-1) @ v).mean(1))
        return F.cross_entropy(p, y), p


@brought("language model", WORDS)
class LanguageModel(nn.Module):
    """GPT: predicts each next word of its input."""

    def __init__(self) -> None:
        super().__init__()
        self.e, self.p = nn.Embedding(20, 8), nn.Embedding(6, 8)
        self.n, self.qkv, self.o = nn.LayerNorm(8), nn.Linear(8, 24), nn.Linear(8, 8)
        self.ff = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))

    def forward(self, x):
        """The loss, and the prediction."""
        h = self.e(x) + self.p(torch.arange(x.shape[1]))
        parts = self.qkv(self.n(h)).reshape(x.shape[0], 6, 3, 2, 4).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(*parts.unbind(0), is_causal=True)
        h = h + self.o(a.transpose(1, 2).flatten(2))
        p = (h + self.ff(h)) @ self.e.weight.T
        return F.cross_entropy(p[:, :-1].reshape(-1, 20), x[:, 1:].reshape(-1)), p


brought("skip-gram", ids(20), ids(20), ids(20, 4))(
    on(
        lambda m, word, near, far: (
            -(
                F.logsigmoid((m.a(word) * m.b(near)).sum(1))
                + F.logsigmoid(-torch.einsum("bd,bnd->bn", m.a(word), m.b(far))).sum(1)
            ).mean()
        ),
        a=lambda: nn.Embedding(20, 6),
        b=lambda: nn.Embedding(20, 6),
    )
)
brought("text convolutions", WORDS, ids(3))(
    on(
        lambda m, x, y: F.cross_entropy(m.out(F.relu(m.c(m.e(x).transpose(1, 2))).max(2)[0]), y),
        e=lambda: nn.Embedding(20, 6),
        c=lambda: nn.Conv1d(6, 8, 3),
        out=lambda: nn.Linear(8, 3),
    )
)
brought("question and answer", WORDS, ids(20, 4), bits())(
    on(
        lambda m, q, a, y: F.binary_cross_entropy_with_logits(
            (m.e(q).mean(1) @ m.w * m.e(a).mean(1)).sum(1), y
        ),
        e=lambda: nn.Embedding(20, 6),
        w=lambda: torch.randn(6, 6) * 0.3,
    )
)
brought("pointer", WORDS, ids(6))(
    on(
        lambda m, x, y: F.cross_entropy((m.r(m.e(x))[0] @ m.v).squeeze(-1), y),
        e=lambda: nn.Embedding(20, 6),
        r=lambda: nn.GRU(6, 6, batch_first=True),
        v=lambda: torch.randn(6, 1),
    )
)
brought("classes on the last axis", WORDS, ids(4, 6))(
    on(
        lambda m, x, y: F.nll_loss(F.log_softmax(m.out(m.e(x)), -1).permute(0, 2, 1), y),
        e=lambda: nn.Embedding(20, 6),
        out=lambda: nn.Linear(6, 4),
    )
)
brought("gathered token", WORDS, ids(6), ids(3))(
    on(
        lambda m, x, at, y: F.cross_entropy(
            m.out(m.e(x).gather(1, at[:, None, None].expand(-1, 1, 6)).squeeze(1)), y
        ),
        e=lambda: nn.Embedding(20, 6),
        out=lambda: nn.Linear(6, 3),
    )
)
brought("token by index list", WORDS, ids(6), ids(3))(
    on(
        lambda m, x, at, y: F.cross_entropy(m.out(m.e(x)[torch.arange(x.shape[0]), at]), y),
        e=lambda: nn.Embedding(20, 6),
        out=lambda: nn.Linear(6, 3),
    )
)
brought("rms norm and rotary", WORDS, ids(20, 6))(
    on(
        lambda m, x, y: F.cross_entropy(m.out(_rotated(m.n(m.e(x)) @ m.w)).transpose(1, 2), y),
        e=lambda: nn.Embedding(20, 8),
        n=lambda: nn.RMSNorm(8),
        w=lambda: torch.randn(8, 8) * 0.3,
        out=lambda: nn.Linear(8, 20),
    )
)


def _rotated(x):
    angle = torch.arange(6.0)[:, None] * 100 ** (-torch.arange(4) / 4)
    a, b = x.chunk(2, -1)
    return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)


brought("relative positions", WORDS, ids(3))(
    on(
        lambda m, x, y: F.cross_entropy(m.out(_relative(m, m.e(x)).mean(1)), y),
        e=lambda: nn.Embedding(20, 6),
        bias=lambda: torch.randn(11) * 0.1,
        out=lambda: nn.Linear(6, 3),
    )
)


def _relative(m, h):
    at = torch.arange(6)
    w = h @ h.transpose(1, 2) / 6**0.5 + m.bias[at[:, None] - at[None] + 5]
    return w.softmax(-1) @ h


class BahdanauAttention(nn.Module):
    """Additive attention, as PyTorch's tutorial of translation has it."""

    def __init__(self, hidden_size):
        super().__init__()
        self.Wa, self.Ua = nn.Linear(hidden_size, hidden_size), nn.Linear(hidden_size, hidden_size)
        self.Va = nn.Linear(hidden_size, 1)

    def forward(self, query, keys):
        """The context, and the weights."""
        scores = self.Va(torch.tanh(self.Wa(query) + self.Ua(keys))).squeeze(2).unsqueeze(1)
        weights = F.softmax(scores, dim=-1)
        return torch.bmm(weights, keys), weights


@brought("seq2seq with attention", ids(7, 5), ids(6, 4))
class Seq2Seq(nn.Module):
    """An encoder and a decoder that begins with a start token, by teacher forcing."""

    def __init__(self, hidden=6):
        super().__init__()
        self.encoder, self.gru = nn.Embedding(7, hidden), nn.GRU(hidden, hidden, batch_first=True)
        self.embedding, self.attention = nn.Embedding(6, hidden), BahdanauAttention(hidden)
        self.decoder = nn.GRU(2 * hidden, hidden, batch_first=True)
        self.out = nn.Linear(hidden, 6)

    def forward(self, x, target):
        """The loss, and each word's logits."""
        keys, hidden = self.gru(self.encoder(x))
        word = torch.empty(x.size(0), 1, dtype=torch.long).fill_(0)
        outputs = []
        for i in range(4):
            context, _ = self.attention(hidden.permute(1, 0, 2), keys)
            step = torch.cat((self.embedding(word), context), dim=2)
            output, hidden = self.decoder(step, hidden)
            outputs.append(self.out(output))
            word = target[:, i].unsqueeze(1)
        logits = torch.cat(outputs, dim=1)
        loss = F.nll_loss(F.log_softmax(logits, dim=-1).view(-1, 6), target.view(-1))
        return loss, logits
