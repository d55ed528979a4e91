# SPDX-License-Identifier: Apache-2.0
"""BERT for sequence classification: Devlin, Chang, Lee, Toutanova, NAACL 2019, section 3.

The network of the authors' release and of Hugging Face's `BertForSequenceClassification` with the
same parameters (query, key and value are separate linear layers). Left out are dropout, as if with
probability 0; the attention mask, since all sequences are full; and the segment input: all tokens
belong to the first segment. GELU is the exact one.

Between attention blocks, hidden states are a matrix with one row per token of the batch, as linear
layers take it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from poetfw.common.errors import ModelError
from poetfw.ir import Dtype
from poetfw.models.attention import self_attention
from poetfw.models.layers import Layers
from poetfw.models.model import Model
from poetfw.models.weights import normal
from poetfw.training import Sgd

_EPS = 1e-12
_INITIAL_STD = 0.02


@dataclass(frozen=True, slots=True)
class BertSize:
    """Dimensions of a BERT.

    Attributes:
        layers: number of attention blocks.
        hidden: size of each token's state.
        heads: number of attention heads; divides `hidden`.
        sequence: tokens per sequence, at most `positions`.
        vocabulary: number of different tokens.
        positions: rows of the position embedding table.
        segments: rows of the segment embedding table, of which the first is used.
        classes: number of classes.

    Raises:
        ModelError: The heads do not divide `hidden`, or the sequence is longer than `positions`.
    """

    layers: int
    hidden: int
    heads: int
    sequence: int = 128
    vocabulary: int = 30_522
    positions: int = 512
    segments: int = 2
    classes: int = 2

    def __post_init__(self) -> None:
        if self.hidden % self.heads:
            raise ModelError(f"{self.heads} heads cannot share out a hidden size of {self.hidden}")
        if self.sequence > self.positions:
            raise ModelError(
                f"a sequence of {self.sequence} tokens is longer than the {self.positions} "
                "positions that are embedded"
            )


BERT_BASE = BertSize(layers=12, hidden=768, heads=12)
BERT_MINI = BertSize(layers=4, hidden=256, heads=4)
"""Turc, Chang, Lee, Toutanova, 2019: one of the compact models of BERT's authors."""


def bert(name: str, size: BertSize, batch: int, seed: int) -> Model:
    """Build a BERT; its input is token ids i32 [batch, sequence]."""
    builder = _Bert(name, size, batch, seed)
    return Model(
        *builder.layers.build(builder.logits()),
        loss="softmax_cross_entropy",
        description=f"BERT, {size.layers} layers of {size.hidden}, sequences of {size.sequence}",
        optimizer=Sgd(learning_rate=0.01, momentum=0.9),
    )


class _Bert:
    """A BERT under construction."""

    def __init__(self, name: str, size: BertSize, batch: int, seed: int) -> None:
        self.layers = Layers(
            name,
            (batch, size.sequence),
            seed,
            dtype=Dtype.I32,
            weight=partial(normal, std=_INITIAL_STD),
        )
        self._size = size
        self._batch = batch
        self._tokens = batch * size.sequence

    def logits(self) -> str:
        """Append the whole network; returns its output, [batch, classes]."""
        x = self._embeddings()
        for index in range(1, self._size.layers + 1):
            x = self._feed_forward(f"layer{index}.output", self._attention(f"layer{index}", x))
        return self.layers.linear("logits", self._pooler(x), self._size.classes)

    def _embeddings(self) -> str:
        """The sum of token, segment and position embeddings, normalised: [tokens, hidden]."""
        layers, size = self.layers, self._size
        table = layers.weight("embeddings.token.weight", (size.vocabulary, size.hidden))
        x = layers.op("embedding", "embeddings.token", (layers.input, table))
        for name, entries, used in (
            ("embeddings.segment", size.segments, 1),
            ("embeddings.position", size.positions, size.sequence),
        ):
            table = layers.weight(f"{name}.weight", (entries, size.hidden))
            rows = layers.part(name, table, 0, 0, used)
            x = layers.op("add_broadcast", f"{name}.add", (x, rows))
        x = layers.layer_norm("embeddings.norm", x, eps=_EPS)
        return layers.op("reshape", "embeddings", (x,), {"shape": (self._tokens, size.hidden)})

    def _attention(self, name: str, x: str) -> str:
        """Self-attention and a linear layer, added to x and normalised."""
        size = self._size
        context = self_attention(self.layers, name, x, self._batch, size.heads)
        y = self.layers.linear(f"{name}.attention", context, size.hidden)
        return self._add_and_normalize(f"{name}.attention", x, y)

    def _feed_forward(self, name: str, x: str) -> str:
        """Two linear layers with GELU between them, added to x and normalised."""
        y = self.layers.linear(f"{name}.expand", x, 4 * self._size.hidden)
        y = self.layers.op("gelu", f"{name}.gelu", (y,))
        return self._add_and_normalize(
            name, x, self.layers.linear(f"{name}.contract", y, self._size.hidden)
        )

    def _pooler(self, x: str) -> str:
        """State of each sequence's first token, [CLS], after a linear layer and tanh."""
        layers, size = self.layers, self._size
        x = layers.op(
            "reshape", "pooler.tokens", (x,), {"shape": (self._batch, size.sequence * size.hidden)}
        )
        x = layers.part("pooler.first", x, 1, 0, size.hidden)
        return layers.op("tanh", "pooler.tanh", (layers.linear("pooler", x, size.hidden),))

    def _add_and_normalize(self, name: str, x: str, y: str) -> str:
        total = self.layers.add(f"{name}.add", x, y)
        return self.layers.layer_norm(f"{name}.norm", total, eps=_EPS)
