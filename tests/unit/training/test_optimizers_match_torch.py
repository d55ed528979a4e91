# SPDX-License-Identifier: Apache-2.0
"""Training with each optimizer, schedule and option against PyTorch's own, step by step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from poetfw.importers.digits import load_digits
from poetfw.ir import Role
from poetfw.models import build_model
from poetfw.ops import KINDS
from poetfw.optimizers import OPTIMIZERS, Adam, AdamW, Optimizer, RateSchedule
from poetfw.training import Program, Reference, Sgd, make_program, matching_parameters

torch = pytest.importorskip("torch", reason="needs PyTorch (the extra `torch`)")

SETTINGS: dict[str, tuple[Optimizer, str, dict[str, Any]]] = {
    "sgd": (Sgd(), "SGD", {"lr": 0.05, "momentum": 0.9}),
    "nesterov": (
        Sgd(0.02, 1e-3, momentum=0.8, nesterov=True),
        "SGD",
        {"lr": 0.02, "momentum": 0.8, "nesterov": True, "weight_decay": 1e-3},
    ),
    "adam": (OPTIMIZERS["adam"](), "Adam", {}),
    "adam with decay": (
        Adam(3e-3, 1e-2, betas=(0.7, 0.95), eps=1e-4),
        "Adam",
        {"lr": 3e-3, "weight_decay": 1e-2, "betas": (0.7, 0.95), "eps": 1e-4},
    ),
    "adamw": (OPTIMIZERS["adamw"](), "AdamW", {}),
    "rmsprop": (OPTIMIZERS["rmsprop"](), "RMSprop", {}),
    "rmsprop with momentum": (
        OPTIMIZERS["rmsprop"](1e-3, 1e-2, momentum=0.9, alpha=0.9),  # type: ignore[call-arg]
        "RMSprop",
        {"lr": 1e-3, "weight_decay": 1e-2, "momentum": 0.9, "alpha": 0.9},
    ),
    "adagrad": (OPTIMIZERS["adagrad"](), "Adagrad", {}),
    "adagrad with decay": (
        OPTIMIZERS["adagrad"](0.05, 1e-2),
        "Adagrad",
        {"lr": 0.05, "weight_decay": 1e-2},
    ),
}


class Theirs:
    """A model trained by PyTorch."""

    def __init__(self, name: str, weights: Any, graph: Any, groups: Any, **settings: Any) -> None:
        self.graph = graph
        self.values = {key: torch.tensor(np.asarray(weights[key], np.float64)) for key in weights}
        for tensor in graph.with_role(Role.PARAMETER):
            self.values[tensor.name].requires_grad_()
        listed = [{"params": [self.values[key] for key in names], **more} for names, more in groups]
        self.optimizer = getattr(torch.optim, name)(listed, **settings)

    def accumulate(self, x: Any, y: Any, share: float = 1.0) -> None:
        from unit.training.torch_model import torch_outputs

        outputs = torch_outputs(self.graph, self.values, x)
        (share * torch.nn.functional.cross_entropy(outputs, torch.tensor(y))).backward()

    def step(self) -> None:
        self.optimizer.step()
        self.optimizer.zero_grad()


def pair(optimizer: Optimizer, name: str, settings: dict[str, Any]) -> tuple[Program, Any, Theirs]:
    built = build_model("mlp", 8, 0)
    program = make_program(built.graph, built.loss, optimizer)
    names = [tensor.name for tensor in built.graph.with_role(Role.PARAMETER)]
    theirs = Theirs(name, built.weights, built.graph, [(names, {})], **settings)
    return program, built.weights, theirs


def batches(count: int, size: int = 8) -> Any:
    random = np.random.default_rng(0)
    for _ in range(count):
        yield random.normal(size=(size, 64)), random.integers(0, 10, size)


def assert_same_weights(ours: Reference, theirs: Theirs, tolerance: float) -> None:
    for name, value in theirs.values.items():
        expected = value.detach().numpy()
        error = np.abs(ours.persistent[name] - expected).max()
        assert error <= tolerance * np.abs(expected).max(), (name, error)


@pytest.mark.parametrize("case", SETTINGS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-10), (np.float32, 1e-5)])
def test_fifty_steps_agree_with_pytorch(case: str, dtype: Any, tolerance: float) -> None:
    program, weights, theirs = pair(*SETTINGS[case])
    ours = Reference(program, weights, dtype)
    for x, y in batches(50):
        ours.step(x, y)
        theirs.accumulate(x, y)
        theirs.step()
    assert_same_weights(ours, theirs, tolerance)


def test_every_optimizer_is_compared() -> None:
    assert {optimizer.kind for optimizer, _, _ in SETTINGS.values()} == set(OPTIMIZERS)


@pytest.mark.parametrize("name", ["sgd", "adam"])
def test_values_are_clipped_as_pytorch_clips_them(name: str) -> None:
    _, theirs_name, settings = SETTINGS[name]
    program, weights, theirs = pair(OPTIMIZERS[name](clip_value=0.02), theirs_name, settings)
    assert any(op.kind.startswith("linear_backward_weight_") for op in program.training.ops)
    ours, clipped = Reference(program, weights), False
    for x, y in batches(20):
        ours.step(x, y)
        theirs.accumulate(x, y)
        parameters = [value for value in theirs.values.values() if value.grad is not None]
        clipped |= any(bool((value.grad.abs() > 0.02).any()) for value in parameters)
        torch.nn.utils.clip_grad_value_(parameters, 0.02)
        theirs.step()
    assert clipped
    assert_same_weights(ours, theirs, 1e-10)


def test_weights_decay_but_for_those_that_are_told_not_to() -> None:
    built = build_model("mlp", 8, 0)
    spared = matching_parameters(built.graph, ("bias",))
    program = make_program(built.graph, built.loss, AdamW(weight_decay=0.5), undecayed=spared)
    names = {tensor.name for tensor in built.graph.with_role(Role.PARAMETER)}
    assert spared == {name for name in names if name.endswith(".bias")}
    groups = [
        (sorted(names - spared), {"weight_decay": 0.5}),
        (sorted(spared), {"weight_decay": 0}),
    ]
    theirs = Theirs("AdamW", built.weights, built.graph, groups)
    ours = Reference(program, built.weights)
    for x, y in batches(20):
        ours.step(x, y)
        theirs.accumulate(x, y)
        theirs.step()
    assert_same_weights(ours, theirs, 1e-10)


@pytest.mark.parametrize("name", ["nesterov", "adam with decay", "rmsprop"])
def test_micro_batches_train_as_their_batch_does(name: str) -> None:
    """Four at a time, of 8 samples each, against PyTorch in batches of 32."""
    optimizer, theirs_name, settings = SETTINGS[name]
    optimizer = replace(optimizer, micro_batches=4, schedule=RateSchedule("linear", 20))
    program, weights, theirs = pair(optimizer, theirs_name, settings)
    falling = torch.optim.lr_scheduler.LinearLR(theirs.optimizer, 1, 0, total_iters=20)
    ours = Reference(program, weights)
    for x, y in batches(10, 32):
        for part in range(0, 32, 8):
            before = {key: value.copy() for key, value in ours.persistent.items()}
            ours.step(x[part : part + 8], y[part : part + 8])
            moved = {key for key in weights if (before[key] != ours.persistent[key]).any()}
            assert moved == (set(weights) if part == 24 else set())
        theirs.accumulate(x, y)
        theirs.step()
        falling.step()
    assert_same_weights(ours, theirs, 1e-10)


SCHEDULERS = torch.optim.lr_scheduler


@pytest.mark.parametrize(
    ("text", "theirs"),
    [
        ("constant", lambda optimizer: SCHEDULERS.ConstantLR(optimizer, 1)),
        ("step:7:0.5", lambda optimizer: SCHEDULERS.StepLR(optimizer, 7, 0.5)),
        ("step:3", lambda optimizer: SCHEDULERS.StepLR(optimizer, 3)),
        ("linear:30", lambda optimizer: SCHEDULERS.LinearLR(optimizer, 1, 0, 30)),
        ("cosine:30", lambda optimizer: SCHEDULERS.CosineAnnealingLR(optimizer, 30)),
    ],
)
@pytest.mark.parametrize("warm_up", [0, 4])
def test_rates_are_those_of_pytorchs_schedules(text: str, theirs: Any, warm_up: int) -> None:
    rate = 0.3
    built = build_model("mlp", 1, 0)
    optimizer = Sgd(rate, schedule=RateSchedule.parse(text, warm_up), clip_value=1.0)
    program = make_program(built.graph, built.loss, optimizer)
    leaf = torch.optim.SGD([torch.zeros(1)], lr=rate)
    expected = theirs(leaf)
    if warm_up:
        rising = SCHEDULERS.LinearLR(leaf, 1 / warm_up, 1, warm_up - 1)
        expected = SCHEDULERS.SequentialLR(leaf, [rising, expected], [warm_up])
    paces = [op for op in program.training.ops if op.kind == "pace"]
    if text == "constant" and not warm_up:
        assert not paces
        return
    (pace,) = paces
    state = np.zeros(2, np.float32)
    for _ in range(30 + warm_up):
        found = KINDS["pace"].compute(pace, [], [state])
        assert found is not None
        assert found[0] == pytest.approx(leaf.param_groups[0]["lr"], rel=1e-5, abs=1e-7 * rate)
        leaf.step()
        expected.step()


@pytest.mark.parametrize("text", ["linear:5", "cosine:5"])
def test_behind_its_schedule_the_rate_stays_0(text: str) -> None:
    built = build_model("mlp", 1, 0)
    program = make_program(built.graph, built.loss, Sgd(schedule=RateSchedule.parse(text)))
    pace = next(op for op in program.training.ops if op.kind == "pace")
    for done in (5, 6, 11):
        found = KINDS["pace"].compute(pace, [], [np.float32([done, 0])])
        assert found is not None
        assert found[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["adam", "adamw", "rmsprop"])
def test_digits_are_learned_as_pytorch_learns_them(name: str) -> None:
    from unit.training.torch_model import torch_outputs

    _, theirs_name, settings = SETTINGS[name]
    program, weights, theirs = pair(OPTIMIZERS[name](), theirs_name, settings)
    x, y = load_digits(build_model("mlp", 8, 0))
    x, y = x.reshape(-1, 64).astype(np.float64), y.astype(np.int64)
    ours = Reference(program, weights, np.float32)
    for _ in range(4):
        for begin in range(0, 1432, 8):
            ours.step(x[begin : begin + 8], y[begin : begin + 8])
            theirs.accumulate(x[begin : begin + 8], y[begin : begin + 8])
            theirs.step()
    held_out = range(1432, 1792, 8)
    right = sum(ours.evaluate(x[b : b + 8], y[b : b + 8]) for b in held_out)
    outputs = torch_outputs(theirs.graph, theirs.values, x[1432:1792]).argmax(1).numpy()
    assert right / 360 > 0.85
    assert abs(right - (outputs == y[1432:1792]).sum()) <= 3
