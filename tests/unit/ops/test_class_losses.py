# SPDX-License-Identifier: Apache-2.0
"""Class weights, smoothed labels and a label to ignore: against PyTorch, loss and gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, assume, given
from hypothesis import strategies as st

from budgets import examples
from poetfw.cli.main import cli
from poetfw.common.errors import ModelError
from poetfw.ir import Dtype, Op, Tensor
from poetfw.models import build_model
from poetfw.models.model import Model
from poetfw.ops import KINDS
from poetfw.ops.class_losses import ClassOptions
from poetfw.training import Reference, Sgd, make_program
from unit.ops.conftest import EagerTape

torch = pytest.importorskip("torch", reason="needs PyTorch (the extra `torch`)")
F = torch.nn.functional


def ran(dtype: Any, kind: str, x: Any, labels: Any, options: ClassOptions) -> tuple[Any, Any]:
    """The loss and the gradient of x."""
    tape = EagerTape(dtype)
    names = [tape.leaf("x", x), tape.leaf("labels", labels)]
    tape.leaf("loss", np.full(1, np.nan), state=True)
    tape.emit(kind, "loss", names, options.attributes(x.shape[1]), updates=("loss",))
    tape.backward()
    return tape.values["loss"][0], tape.gradient("x")


def theirs(loss: Any, x: Any, labels: Any, **settings: Any) -> tuple[float, Any]:
    leaf = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    value = loss(leaf, torch.tensor(labels), **settings)
    value.backward()
    return value.item(), leaf.grad.numpy()


@examples(150, suppress_health_check=list(HealthCheck))
@given(
    st.integers(1, 7),
    st.integers(2, 9),
    st.sampled_from([0.0, 0.05, 0.4, 1.0]),
    st.sampled_from([None, -100, 0, 1]),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_options_mean_what_they_mean_in_pytorch(
    batch: int, classes: int, smoothing: float, ignored: int | None, weighted: bool, seed: int
) -> None:
    random = np.random.default_rng(seed)
    x = 3 * random.standard_normal((batch, classes))
    labels = random.integers(0, classes, batch)
    if ignored == -100:
        labels[random.random(batch) < 0.4] = ignored
    weights = random.choice([0.0, 0.2, 1.0, 7.0], classes) if weighted else np.ones(classes)
    counted = labels[labels != ignored] if ignored is not None else labels
    assume(weights[counted].sum() > 0)  # PyTorch gives NaN, or an infinite loss
    given = tuple(map(float, weights)) if weighted else ()
    shared = {
        "weight": torch.tensor(weights) if weighted else None,
        "ignore_index": -5 if ignored is None else ignored,
    }
    cases = (
        ("weighted_cross_entropy", smoothing, x, F.cross_entropy, {"label_smoothing": smoothing}),
        ("nll", 0.0, x - np.log(np.exp(x).sum(1, keepdims=True)), F.nll_loss, {}),
    )
    for kind, smooth, values, loss, more in cases:
        expected, gradient = theirs(loss, values, labels, **shared, **more)
        options = ClassOptions(given, smooth, ignored)
        for dtype, tolerance in ((np.float64, 1e-12), (np.float32, 1e-5)):
            ours, own = ran(dtype, kind, values, labels, options)
            np.testing.assert_allclose(ours, expected, rtol=tolerance, atol=tolerance)
            np.testing.assert_allclose(own, gradient, atol=tolerance / 10, rtol=tolerance)


@pytest.mark.parametrize("kind", ["weighted_cross_entropy", "nll"])
def test_a_batch_in_which_nothing_counts_trains_nothing(kind: str) -> None:
    x, labels = np.random.default_rng(0).standard_normal((3, 4)), np.array([2, -1, 4])
    loss, gradient = ran(np.float64, kind, x, labels, ClassOptions(ignore_index=2))
    assert loss == 0
    np.testing.assert_array_equal(gradient, np.zeros_like(x))


def test_the_likelihood_reads_nothing_but_the_labels_class() -> None:
    x = np.array([[-np.inf, np.log(0.25), -np.inf]])
    loss, gradient = ran(np.float64, "nll", x, np.array([1]), ClassOptions())
    assert loss == -np.log(0.25)
    np.testing.assert_array_equal(gradient, [[0, -1, 0]])


def test_fifty_steps_agree_with_pytorch() -> None:
    """Micro-batches, too: a mean over the weights in each, and the mean of these."""
    from unit.training.torch_model import torch_outputs

    options = ClassOptions(tuple(0.5 + n for n in range(10)), 0.1, 3)
    built = build_model("mlp", 4, 0)
    sgd = Sgd(0.05, momentum=0.9, micro_batches=2)
    ours = Reference(
        make_program(built.graph, built.loss, sgd, options=options), built.weights, np.float64
    )
    values = {key: torch.tensor(np.asarray(w, np.float64)) for key, w in built.weights.items()}
    leaves = [value.requires_grad_() for value in values.values()]
    optimizer = torch.optim.SGD(leaves, lr=0.05, momentum=0.9)
    random, weight = np.random.default_rng(0), torch.tensor(options.class_weights).double()
    for step in range(100):
        x, y = random.normal(size=(4, 64)), random.integers(0, 10, 4)
        loss = F.cross_entropy(
            torch_outputs(built.graph, values, x),
            torch.tensor(y),
            weight,
            ignore_index=3,
            label_smoothing=0.1,
        )
        assert ours.step(x, y) == pytest.approx(loss.item(), rel=1e-10)
        (loss / 2).backward()
        if step % 2:
            optimizer.step()
            optimizer.zero_grad()
    for name, value in values.items():
        np.testing.assert_allclose(ours.persistent[name], value.detach(), rtol=0, atol=1e-10)


def test_without_options_it_is_the_mean_over_samples() -> None:
    built = build_model("mlp", 4, 0)
    alike = make_program(built.graph, built.loss, Sgd())
    assert alike == make_program(built.graph, built.loss, Sgd(), options=ClassOptions())
    assert "softmax_cross_entropy" in {op.kind for op in alike.training.ops}


@pytest.mark.parametrize(
    ("loss", "options", "message"),
    [
        ("softmax_cross_entropy", ClassOptions((1.0, 2.0)), "2 class weights for 10 classes"),
        ("softmax_cross_entropy", ClassOptions((-1.0,) * 10), "must be 0, or from 1e-06"),
        ("softmax_cross_entropy", ClassOptions((1e-40,) * 10), "must be 0, or from 1e-06"),
        ("softmax_cross_entropy", ClassOptions((1e38,) * 10), "from 1e-06 to 1e.06"),
        ("softmax_cross_entropy", ClassOptions((float("nan"),) * 10), "must be 0, or from 1e-06"),
        ("softmax_cross_entropy", ClassOptions((0.0,) * 10), "nothing would be trained"),
        ("nll", ClassOptions(label_smoothing=1.5), "nll has no label smoothing"),
        ("softmax_cross_entropy", ClassOptions(label_smoothing=1.5), r"1\.5, not within \[0, 1\]"),
        ("softmax_cross_entropy", ClassOptions(ignore_index=2**31), "beyond 32 bits"),
        ("softmax_cross_entropy", ClassOptions(ignore_index=-(2**31) - 1), "beyond 32 bits"),
        ("mse", ClassOptions(ignore_index=1), "the loss mse has neither"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    loss: str, options: ClassOptions, message: str
) -> None:
    built = build_model("mlp", 4, 0)
    with pytest.raises(ModelError, match=message):
        Model(built.graph, built.weights, loss, "", loss_options=options)


def test_the_least_label_can_be_ignored() -> None:
    ClassOptions(ignore_index=-(2**31)).expect_fitting(10)


@pytest.mark.parametrize("weights", ["\u0661,2", "1_0,2", "1,,2", ""])
def test_weights_are_numbers_in_ascii(weights: str) -> None:
    command = ["plan-update", "--board", "linux", "--ram", "99999", "--class-weights", weights]
    result = CliRunner().invoke(cli, command)
    assert result.exit_code == 2
    assert "is not numbers with commas between" in result.output


def test_an_op_needs_a_weight_for_each_class() -> None:
    tensors = (Tensor("x", (2, 3)), Tensor("y", (2,), Dtype.I32))
    op = Op("loss", "nll", ("x", "y"), None, ClassOptions((1.0, 2.0)).attributes(2))
    with pytest.raises(ModelError, match="'class_weights' to be 3 numbers"):
        KINDS["nll"].infer(op, tensors)
