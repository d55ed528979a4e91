# SPDX-License-Identifier: Apache-2.0
"""What dropout leaves out: as much as asked for, nothing that others leave out, always the same."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from poetfw.ir import Role
from poetfw.models import GraphBuilder
from poetfw.ops import kind_of
from poetfw.ops.dropout import drawn
from poetfw.training import Sgd, make_prediction, make_program
from poetfw.training.reference import Reference

COUNT = 1 << 16


def network(share: float = 0.5, batch: int = 4):
    random = np.random.default_rng(1)
    builder = GraphBuilder("net", "x", (batch, 6))
    weight = builder.parameter("w", random.normal(size=(5, 6)).astype(np.float32))
    step = builder.state("step", np.zeros(1, np.float32))
    y = builder.op("linear", "linear", (builder.input, weight))
    attributes = {"share": share, "seed": 0, "run": 1}
    y = builder.op("dropout", "dropout", (y, step), attributes)
    return builder.build(builder.op("tanh", "tanh", (y,)))


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize(("seed", "step"), [(0, 0), (0, 1), (5, 2**24 - 1)])
def test_as_much_is_left_out_as_asked_for(share: float, seed: int, step: int) -> None:
    """Within 4 standard deviations of a binomial distribution."""
    left_out = (drawn(seed, step, COUNT) < share * 2**24).mean()
    assert abs(left_out - share) < 4 * np.sqrt(share * (1 - share) / COUNT)


def test_numbers_are_spread_evenly() -> None:
    """Chi squared of 256 boxes: 255 on average, with a standard deviation of 23."""
    boxes = np.bincount(drawn(3, 9, COUNT) >> 16, minlength=256)
    chi_squared = ((boxes - COUNT / 256) ** 2 / (COUNT / 256)).sum()
    assert 255 - 4 * 23 < chi_squared < 255 + 4 * 23


def test_places_steps_and_ops_draw_independently() -> None:
    """Correlations within 4 standard deviations; neighbours in place, step and op among them."""
    rows = [drawn(seed, step, COUNT) for seed, step in itertools.product(range(4), range(4))]
    rows += [np.roll(rows[0], shift) for shift in (1, 2, 64)]
    correlations = np.corrcoef(np.array(rows, float))[~np.eye(len(rows), dtype=bool)]
    assert np.abs(correlations).max() < 4 / np.sqrt(COUNT)


def test_no_two_steps_leave_out_the_same() -> None:
    masks = {(drawn(0, step, 64) < 2**23).tobytes() for step in range(2000)}
    assert len(masks) == 2000


def test_a_step_counts_itself_and_evaluation_drops_nothing() -> None:
    graph, weights = network()
    program = make_program(graph, "mse", Sgd())
    kinds = [op.kind for op in program.training.ops]
    assert kinds.count("dropout_training") == 2  # forward, and the same of the gradient
    assert kinds[-1] == "count_step"
    assert "dropout_training" not in [op.kind for op in program.evaluation.ops]
    assert [op.kind for op in make_prediction(program).ops if "drop" in op.kind] == []
    ours = Reference(program, weights)
    x, y = np.ones((4, 6), np.float32), np.zeros((4, 5), np.float32)
    for step in range(3):
        assert ours.persistent["step"] == step
        ours.step(x, y)


def test_a_share_of_nothing_drops_nothing() -> None:
    graph, _ = network(share=0.0)
    (op,) = (op for op in make_program(graph, "mse", Sgd()).training.ops if op.name == "dropout")
    x = np.random.default_rng(0).normal(size=(4, 5))
    np.testing.assert_array_equal(kind_of(op).compute(op, [x, np.zeros(1)], []), x)


def test_all_of_a_run_stay_or_go_together() -> None:
    graph, _ = network()
    (op,) = (op for op in graph.ops if op.kind == "dropout")
    program = make_program(graph, "mse", Sgd())
    training = next(op for op in program.training.ops if op.kind == "dropout_training")
    assert {t.role for t in program.training.tensors if t.name == op.inputs[1]} == {Role.STATE}
    attributes = {**training.attributes, "run": 10}
    wide = type(training)("d", training.kind, training.inputs, "y", attributes)
    y = kind_of(wide).compute(wide, [np.ones((40, 10)), np.zeros(1)], [])
    assert set(y.sum(1)) == {0.0, 20.0}
