# SPDX-License-Identifier: Apache-2.0
"""Networks as people bring them: those that train do so as in PyTorch, the others are named."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from workloads.brought import NETWORKS
from workloads.brought.training import outcomes

REFUSED = {
    "by statistics, first": "its running statistics are read before it moves them",
    "penalty by statistics": "running statistics that a batch norm moves",
}
"""Those that are refused, with a part of the reason."""
FEW = (
    *("3-D with pooling", "bag of words", "mixture of experts", "patches", "channel shuffle"),
    *("variational autoencoder", "token by index list", "relative positions", "prototypes"),
    *("barlow twins", "bilinear layer", "encoder with padding", "two modalities", "arc margin"),
    *("norms of parameters", "l2, calculated first", "fedprox", "orthogonal weights"),
    *("by statistics, first", "penalty by statistics", "network slimming"),
    *("seq2seq with attention", "realnvp", "u-net, bilinear", "gru tagger"),
    *("experts by topk", "hard examples", "hardest negatives", "dynamic graph"),
    *("local response norm", "triplet", "denoising autoencoder", "spectral norm"),
    *("skip-gram", "overlapping patches, folded", "graph convolution, edges", "radiance field"),
    *("tags, conditional random field", "simclr", "quantised activations, straight through"),
)


def judge(networks: list[str]) -> None:
    for found in outcomes(networks):
        if found.network in REFUSED:
            assert REFUSED[found.network] in found.refused, found
        else:
            assert found.trains, found


def test_some_networks_train_as_in_torch() -> None:
    judge(list(FEW))


@pytest.mark.slow
def test_networks_train_as_in_torch() -> None:
    assert len(NETWORKS) - len(REFUSED) >= 150
    judge(list(NETWORKS))
