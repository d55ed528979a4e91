# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from poetfw.common.errors import ConfigError, ModelError
from poetfw.ir import Graph, Op, Role, Tensor
from poetfw.models import build_model
from poetfw.training import Program, Reference, Sgd, make_program, matching_parameters


def tiny(names: Sequence[str] = ("x", "w", "y")) -> Graph:
    x, w, y = names
    return Graph(
        "tiny",
        (
            Tensor(x, (2, 3), role=Role.INPUT),
            Tensor(w, (4, 3), role=Role.PARAMETER),
            Tensor(y, (2, 4)),
        ),
        (Op(y, "linear", (x, w), y),),
        y,
    )


def position(program: Program, kind: str, name: str = "") -> int:
    (index,) = (
        i
        for i, op in enumerate(program.training.ops)
        if op.kind == kind and op.name.startswith(name)
    )
    return index


@pytest.mark.parametrize("model", ["digits-cnn", "mlp", "resnet8", "lenet5"])
def test_no_op_reads_a_parameter_after_its_update(model: str) -> None:
    built = build_model(model, 2, 0)
    program = make_program(built.graph, built.loss, built.optimizer)
    updated: set[str] = set()
    for op in program.training.ops:
        assert not updated & set(op.inputs), op.name
        updated |= set(op.updates)
    trained = {tensor.name for tensor in built.graph.with_role(Role.PARAMETER)}
    assert trained <= updated


def test_gradients_are_applied_as_soon_as_they_are_complete() -> None:
    built = build_model("digits-cnn", 2, 0)
    program = make_program(built.graph, built.loss, built.optimizer)
    last_update = position(program, "conv2d_backward_weight_sgd", "conv3.weight")
    assert last_update < position(program, "conv2d_backward_weight", "conv2.")


def test_running_statistics_are_updated_by_an_op_that_never_runs_twice() -> None:
    from poetfw.ops import kind_of

    built = build_model("digits-cnn", 2, 0)
    program = make_program(built.graph, built.loss, built.optimizer)
    for op in program.training.ops:
        if op.updates:
            assert not kind_of(op).recomputable, op.name


def test_a_join_sums_its_gradients() -> None:
    built = build_model("resnet8", 2, 0)
    program = make_program(built.graph, built.loss, built.optimizer)
    joins = [op for op in program.training.ops if op.backward and op.kind == "add"]
    assert len(joins) == 3


@pytest.mark.parametrize(
    "names", [("load x", "loss", "load y"), ("loss.backward", "metric", "add")]
)
def test_a_model_may_use_our_names(names: tuple[str, str, str]) -> None:
    program = make_program(tiny(names), "softmax_cross_entropy", Sgd())
    assert len({tensor.name for tensor in program.training.tensors}) == len(
        program.training.tensors
    )


def test_without_momentum_no_state_is_kept() -> None:
    program = make_program(tiny(), "mse", Sgd(momentum=0))
    assert [t.name for t in program.training.with_role(Role.STATE)] == [program.loss.name]


def test_json_round_trip() -> None:
    built = build_model("digits-cnn", 2, 0)
    program = make_program(built.graph, built.loss, built.optimizer)
    assert Program.from_json(program.to_json()) == program


def test_nothing_to_train_is_refused() -> None:
    graph = Graph(
        "relu",
        (Tensor("x", (2, 3), role=Role.INPUT), Tensor("y", (2, 3))),
        (Op("y", "relu", ("x",), "y"),),
        "y",
    )
    with pytest.raises(ModelError, match="no parameters to train: its loss depends on none") as e:
        make_program(graph, "mse", Sgd())
    assert "of what the network predicts" in e.value.try_next[0]


@pytest.mark.parametrize(
    "settings",
    [
        {"learning_rate": 0.0},
        {"learning_rate": float("nan")},
        {"learning_rate": 1e-60},
        {"learning_rate": 1e39},
        {"momentum": -0.1},
        {"momentum": 1.0},
        {"weight_decay": -1},
        {"weight_decay": float("inf")},
        {"clip_norm": 0.0},
        {"clip_norm": -1.0},
        {"clip_norm": float("inf")},
        {"clip_norm": float("nan")},
        {"clip_norm": 1e-60},
    ],
)
def test_optimizer_settings_out_of_range_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ConfigError):
        Sgd(**settings)


@pytest.mark.parametrize(
    ("model", "clip_norm", "freeze"),
    [
        ("digits-cnn", None, ()),
        ("resnet8", None, ()),
        ("lenet5", None, ()),
        ("mlp", None, ()),
        ("digits-cnn", 0.5, ()),
        ("mlp", 2.0, ()),
        ("digits-cnn", None, ("conv1*", "bn1*", "bn2*")),
        ("lenet5", 1.0, ("c3*",)),
    ],
)
def test_ten_steps_agree_with_pytorch(
    model: str, clip_norm: float | None, freeze: tuple[str, ...]
) -> None:
    torch = pytest.importorskip("torch", reason="needs PyTorch (the extra `torch`)")
    from unit.training.torch_model import torch_step

    built = build_model(model, 8, 0)
    sgd = Sgd(learning_rate=0.01, momentum=0.9, weight_decay=1e-3, clip_norm=clip_norm)
    frozen = matching_parameters(built.graph, freeze)
    program = make_program(built.graph, built.loss, sgd, frozen)
    reference = Reference(program, built.weights)
    theirs = {
        name: torch.tensor(np.asarray(value, np.float64)) for name, value in built.weights.items()
    }
    momenta: dict[str, object] = {}
    unstored = {op.updates[0] for op in program.training.ops if op.kind.endswith("_sgd")}
    random = np.random.default_rng(0)
    for _ in range(10):
        x = random.normal(size=program.x.members[0].shape)
        y = random.integers(0, 10, program.batch)
        ours = reference.step(x, y)
        loss, gradients = torch_step(built.graph, theirs, momenta, sgd, x, y, frozen)
        assert reference.gradients.keys() == gradients.keys() - unstored
        assert ours == pytest.approx(loss, rel=1e-5)
        for name, gradient in reference.gradients.items():
            scale = max(np.abs(gradients[name]).max(), 1e-6)
            assert np.abs(gradient - gradients[name]).max() <= 1e-5 * scale, name
    assert program.parameter_states.keys() == momenta.keys()
    theirs |= {program.parameter_states[name][0]: value for name, value in momenta.items()}
    for name, value in theirs.items():
        ours_value = reference.persistent[name]
        scale = max(np.abs(ours_value).max(), 1e-6)
        assert np.abs(ours_value - value.detach().numpy()).max() <= 1e-5 * scale, name
