# SPDX-License-Identifier: Apache-2.0
"""NNTrainer's published cases: never more RAM than its authors calculate; what an LSTM shares."""

from __future__ import annotations

import numpy as np
import pytest

from poetfw.firmware import BLOCK_BYTES
from poetfw.memory import resident_bytes
from poetfw.training import Reference, Sgd, make_program
from workloads.nntrainer import MIDDLE_FROZEN_EXPECTED, TABLE_4, lstm, measure, training_program


@pytest.mark.parametrize("case", TABLE_4)
def test_training_takes_at_most_what_the_paper_calculates(case: str) -> None:
    row = measure(case)
    assert row.arena_bytes == row.peak_bytes <= row.theoretical_kib * 1024


@pytest.mark.parametrize(
    ("case", "parts_kib"),
    [
        ("Conv2D", (37_632, 9_408, 9_408, 9_408)),
        ("Conv-AC-FL", (37_632, 9_408, 9_408, 9_408)),
        ("FC-FC-FC", (46_136, 6_272, 32_768, 16_384, 800, 800, 32_768)),
    ],
)
def test_the_layers_are_those_of_the_paper(case: str, parts_kib: tuple[int, ...]) -> None:
    """Its figures are sums of tensors of these networks, so their sizes are right."""
    assert sum(parts_kib) == TABLE_4[case].theoretical_kib
    training = training_program(TABLE_4[case].graph()).training
    sizes = {tensor.size_bytes // 1024 for tensor in training.tensors}
    parameters = sum(tensor.size_bytes for tensor in training.persistent) // 1024
    assert set(parts_kib) <= sizes | {parameters}


def test_freezing_the_middle_saves_its_gradients_and_nothing_else() -> None:
    """Both peaks are at the middle layer: the tensors that NNTrainer's lifetimes have there."""
    trained, frozen = (measure("FC-FC-FC", patterns).peak_bytes for patterns in ((), ("fc2*",)))
    program = training_program(TABLE_4["FC-FC-FC"].graph())
    always = resident_bytes(program.persistent, BLOCK_BYTES)
    x, y1, dy2, dy1, dw, db = (
        program.training.by_name[name].size_bytes
        for name in (
            "x",
            "fc1",
            "fc3.backward_input",
            "fc2.backward_input",
            "fc2.backward_weight",
            "fc2.backward_bias",
        )
    )
    assert trained == always + x + y1 + dy2 + dw + db
    assert frozen == always + x + dy2 + dy1
    assert trained - frozen == dw + db == (2048 * 4096 + 2048) * 4
    assert f"{(dw + db) / trained:.1%}" == f"{MIDDLE_FROZEN_EXPECTED}%"


def test_no_tensors_make_what_the_paper_expects_to_be_saved_in_mib() -> None:
    """Not if every weight's gradient and every activation's is there, each a buffer of its own."""
    training = make_program(
        TABLE_4["FC-FC-FC"].graph(), "mse", Sgd(momentum=0.0), fuse_updates=False
    ).training
    sums = {0}
    for tensor in training.tensors:
        sums |= {known + tensor.size_bytes for known in sums}
    sums_mib = {round(total / 2**20, 1) for total in sums}
    assert {12.3, 24.5, 32.0} <= sums_mib
    assert MIDDLE_FROZEN_EXPECTED not in sums_mib


def test_unrolled_steps_share_their_weights() -> None:
    one, many = (training_program(lstm(4, 6, 3, steps)) for steps in (1, 5))
    assert one.persistent == many.persistent
    updated = [name for op in many.training.ops for name in op.updates]
    assert len(updated) == len(set(updated)) == 1 + 12


def test_an_unrolled_lstm_matches_torch() -> None:
    torch = pytest.importorskip("torch", reason="needs PyTorch (the extra `torch`)")
    batch, features, units, steps = 4, 6, 3, 5
    random = np.random.default_rng(0)
    layer = torch.nn.LSTM(features, units, batch_first=True, dtype=torch.float64)
    weights = {name: random.normal(size=(batch, units)) for name in ("h0", "c0")}
    pieces = {"w": layer.weight_ih_l0, "u": layer.weight_hh_l0, "b": layer.bias_ih_l0}
    torch.nn.init.zeros_(layer.bias_hh_l0)
    order = "ifgo"  # PyTorch's
    for name, stacked in pieces.items():
        for gate, values in zip(order, stacked.detach().chunk(4), strict=True):
            weights[f"{gate}.{name}"] = values.numpy()
    x, y = random.normal(size=(batch, steps, features)), random.normal(size=(batch, units))

    state = [torch.tensor(weights[name])[None] for name in ("h0", "c0")]
    hidden, _ = layer(torch.tensor(x), tuple(state))
    expected = torch.nn.functional.mse_loss(hidden[:, -1], torch.tensor(y))
    expected.backward()
    program = training_program(lstm(batch, features, units, steps))
    reference = Reference(program, weights)
    assert reference.step(x.reshape(batch, -1), y) == pytest.approx(expected.item(), rel=1e-9)
    learning_rate = 0.05
    for name, stacked in pieces.items():
        for gate, gradient in zip(order, stacked.grad.chunk(4), strict=True):
            moved = weights[f"{gate}.{name}"] - reference.persistent[f"{gate}.{name}"]
            assert moved == pytest.approx(learning_rate * gradient.numpy(), rel=1e-6, abs=1e-12)
