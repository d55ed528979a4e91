# SPDX-License-Identifier: Apache-2.0
"""The frozen part: what is the same in every epoch, and whether a sample's row is its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from poetfw.ir import Graph
from poetfw.models.layers import Layers
from poetfw.training import Program, Sgd, frozen_part, is_of_one_sample, make_program

BATCH = 4


def network(*, norm_is_frozen: bool) -> tuple[Graph, dict[str, np.ndarray]]:
    """Convolution, batch norm, ReLU, dropout, linear."""
    layers = Layers("net", (BATCH, 1, 4, 4), seed=1)
    x = layers.conv("conv", layers.input, 3, 3, padding=(1, 1, 1, 1))
    x = layers.relu("relu", layers.batch_norm("bn", x))
    x = layers.linear("logits", layers.flatten("flat", x), 2)
    graph, weights = layers.build(x)
    ops = tuple(
        replace(op, attributes={**op.attributes, "frozen": 1})
        if op.kind == "batch_norm" and norm_is_frozen
        else op
        for op in graph.ops
    )
    return replace(graph, ops=ops), dict(weights)


def program(*, norm_is_frozen: bool) -> tuple[Program, dict[str, np.ndarray]]:
    graph, weights = network(norm_is_frozen=norm_is_frozen)
    frozen = {t.name for t in graph.persistent if not t.name.startswith("logits")}
    return make_program(graph, "softmax_cross_entropy", Sgd(0.1), frozen), weights


def batch() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(BATCH, 1, 4, 4)).astype("f4"), np.zeros(BATCH, "i4")


def test_it_ends_where_something_trains() -> None:
    made, _ = program(norm_is_frozen=True)
    found = frozen_part(made.training)
    assert {op.kind for op in made.training.ops if op.name in found} == {
        *("load_x", "conv2d", "batch_norm", "relu", "reshape"),
    }


def test_nothing_is_frozen_where_everything_trains() -> None:
    graph, _ = network(norm_is_frozen=True)
    made = make_program(graph, "softmax_cross_entropy", Sgd(0.1))
    assert frozen_part(made.training) == {"load x"}


def test_targets_and_what_draws_or_moves_statistics_are_none_of_it() -> None:
    made, _ = program(norm_is_frozen=False)
    kinds = {op.kind for op in made.training.ops if op.name in frozen_part(made.training)}
    assert kinds.isdisjoint({"load_y", "batch_norm_update_running", "sgd"})


def test_batch_statistics_mix_samples() -> None:
    made, weights = program(norm_is_frozen=False)
    assert is_of_one_sample(made, weights, "conv", *batch())
    assert not is_of_one_sample(made, weights, "relu", *batch())


def test_running_statistics_do_not() -> None:
    made, weights = program(norm_is_frozen=True)
    assert is_of_one_sample(made, weights, "relu", *batch())
