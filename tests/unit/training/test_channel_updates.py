# SPDX-License-Identifier: Apache-2.0
"""Weights of which only the first input channels are trained: what changes, and what is kept."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from poetfw.common.errors import ConfigError, ModelError
from poetfw.ir import Role
from poetfw.models import build_model
from poetfw.optimizers import OPTIMIZERS
from poetfw.planning import BuildSettings, derive_program, load_schedule_problem
from poetfw.schedule import solve
from poetfw.training import Program, Reference, Selection, make_program, select

PARTS = ("conv2.weight@1/4", "conv3.weight@0.3", "logits.weight@1/2", "bn?.affine")


def program_of(*train: str, model: str = "digits-cnn", batch: int = 4, **more: Any) -> Program:
    settings = BuildSettings("linux", model, batch=batch, train=train, **more)
    return derive_program(settings, build_model(model, batch, 0))


def test_a_share_is_rounded_up_and_the_most_holds() -> None:
    graph = build_model("digits-cnn", 4, 0).graph
    chosen = select(graph, ("conv3.weight@0.3", "conv2.weight@1/8", "conv2.weight@0.25", "bias"))
    assert chosen.channels == {"conv3.weight": 3, "conv2.weight": 2}
    assert chosen.parameters == {"conv3.weight", "conv2.weight", "logits.bias"}
    whole = Selection(frozenset({"conv2.weight"}))
    assert select(graph, ("conv2.weight@1/2", "conv2*")) == whole
    assert select(graph, ("conv2*", "conv2.weight@1/2")) == whole
    assert select(graph, ("conv2.weight@1",)).channels == {}


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("conv2.weight@0", "above 0, and 1 at most"),
        ("conv2.weight@3/2", "above 0, and 1 at most"),
        ("bn1.affine@1/2", "'bn1.affine' can only be trained as a whole"),
        ("conv9@1/2", "no parameter of model 'digits-cnn' is called 'conv9'"),
        ("conv2.weight@1/0", "is called 'conv2.weight@1/0'"),
        ("conv2.weight@", "is called 'conv2.weight@'"),
        ("last:8", "has 7 ops with parameters"),
        ("missing.json", "cannot be read"),
    ],
)
def test_what_cannot_be_trained_is_refused(pattern: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        select(build_model("digits-cnn", 4, 0).graph, (pattern,))


def test_a_file_says_the_same(tmp_path: Path) -> None:
    graph = build_model("digits-cnn", 4, 0).graph
    chosen = select(graph, PARTS)
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(chosen.to_json(graph)))
    assert select(graph, (str(file),)) == chosen
    assert select(graph, (str(file), "conv2.weight")).parameters == chosen.parameters


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema_version": 2}, "schema_version"),
        ({"train": [{"parameter": "conv2.weight", "channels": 0, "of": 8}]}, "channels"),
        ({"train": [{"parameter": "conv2.weight", "chanels": 1}]}, "chanels"),
        ({"train": []}, "names no parameter"),
        ({"train": [{"parameter": "conv9.weight"}]}, "no parameter 'conv9.weight'"),
        ({"train": [{"parameter": "conv2.weight", "channels": 2, "of": 9}]}, "9 input channels"),
        ({"train": [{"parameter": "conv2.weight", "channels": 9, "of": 8}]}, "of which 9"),
        ({"train": [{"parameter": "conv2.weight", "channels": 2}]}, "'channels' without 'of' for"),
        ({"train": [{"parameter": "conv2.weight", "of": 8}]}, "'of' without 'channels' for"),
        ({"train": [{"parameter": "bn1.affine", "channels": 1, "of": 2}]}, "'bn1.affine'"),
    ],
)
def test_a_malformed_file_is_refused(
    tmp_path: Path, change: Mapping[str, Any], message: str
) -> None:
    graph = build_model("digits-cnn", 4, 0).graph
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({**select(graph, PARTS).to_json(graph), **change}))
    with pytest.raises(ConfigError, match=message):
        select(graph, (str(file),))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty$"),
        ("\n", "is empty$"),
        ("{", "does not say what is trained: at the top level: not JSON"),
        ("[]", "trained: at the top level: an object was expected"),
    ],
)
def test_a_file_of_no_plan_is_refused(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "plan.json"
    file.write_text(content)
    with pytest.raises(ConfigError, match=message):
        select(build_model("mlp", 4, 0).graph, (str(file),))


def test_weights_that_have_no_input_channels_are_refused() -> None:
    model = build_model("ds-cnn", 1, 0)
    depthwise = next(op for op in model.graph.ops if op.attributes.get("groups", 1) != 1)
    with pytest.raises(ModelError, match="cannot be trained"):
        make_program(model.graph, model.loss, model.optimizer, channels={depthwise.inputs[1]: 1})


@pytest.mark.parametrize("optimizer", sorted(OPTIMIZERS))
def test_updates_are_pytorchs_of_the_trained_part(optimizer: str) -> None:
    torch = pytest.importorskip("torch", reason="needs PyTorch (the extra `torch`)")
    from unit.training.torch_model import torch_outputs

    model = build_model("digits-cnn", 4, 0)
    chosen = select(model.graph, PARTS)
    program = program_of(*PARTS, optimizer=optimizer, weight_decay=0.01)
    ours = Reference(program, model.weights)
    values = {name: torch.tensor(np.float64(value)) for name, value in model.weights.items()}
    trained, rest = {}, {}
    for name in sorted(chosen.parameters):
        count = chosen.channels.get(name, values[name].shape[-1])
        axis = 1 if name in chosen.channels else values[name].ndim - 1
        rest[name] = axis, values[name].narrow(axis, count, values[name].shape[axis] - count)
        trained[name] = values[name].narrow(axis, 0, count).clone().requires_grad_()
    name = {"sgd": "SGD", "rmsprop": "RMSprop", "adamw": "AdamW"}.get(optimizer, optimizer.title())
    settings = {"lr": 0.02, "momentum": 0.9} if optimizer == "sgd" else {}
    theirs = getattr(torch.optim, name)(list(trained.values()), weight_decay=0.01, **settings)
    random = np.random.default_rng(0)
    for _ in range(5):
        x, y = random.normal(size=(4, 1, 8, 8)), random.integers(0, 10, 4)
        ours.step(x, y)
        joined = {n: torch.cat((trained[n], rest[n][1]), rest[n][0]) for n in trained}
        outputs = torch_outputs(model.graph, {**values, **joined}, x)
        theirs.zero_grad()
        torch.nn.functional.cross_entropy(outputs, torch.tensor(y)).backward()
        for n, value in trained.items():
            assert np.allclose(ours.gradients[n], value.grad.numpy(), rtol=1e-8, atol=1e-12)
        theirs.step()
    for n, value in trained.items():
        joined_now = torch.cat((value, rest[n][1]), rest[n][0]).detach().numpy()
        assert np.allclose(ours.persistent[n], joined_now, rtol=1e-8, atol=1e-10), n
    for tensor in model.graph.with_role(Role.PARAMETER):
        if tensor.name not in chosen.parameters:
            assert (ours.persistent[tensor.name] == model.weights[tensor.name]).all()


def test_only_the_trained_channels_are_kept() -> None:
    """Of pool2's output, 2 of 8 channels; of momentum, as many; the rest is freed."""
    program = program_of("conv3.weight@1/4")
    graph = program.training
    assert graph.by_name["conv3.weight.momentum"].shape == (16, 2, 3, 3)
    assert graph.by_name[program.parameter_gradients["conv3.weight"]].shape == (16, 2, 3, 3)
    readers = [op for op in graph.ops if op.backward and "pool2" in op.inputs]
    assert not readers
    (taken,) = (op for op in graph.consumers["pool2"] if op.kind == "slice")
    assert graph.by_name[str(taken.output)].shape == (4, 2, 4, 4)
    assert not taken.backward


def test_channels_of_what_stays_anyway_are_taken_late() -> None:
    """relu1's output stays for its own gradient, so that no copy of it is kept beside it."""
    program = program_of("conv2.weight@1/4", "conv1.weight")
    (taken,) = (op for op in program.training.ops if op.kind == "slice")
    assert taken.inputs == ("relu1",)
    assert taken.backward


@pytest.mark.parametrize("weight", ["conv2.weight", "conv3.weight", "logits.weight"])
def test_the_peak_grows_with_the_channels(weight: str) -> None:
    def peak(*train: str) -> int:
        problem = load_schedule_problem(BuildSettings("linux", "digits-cnn", batch=16, train=train))
        program = program_of(*train, batch=16)
        states = sum(program.training.by_name[name].size_bytes for name in program.optimizer_states)
        return solve(problem, "checkpoint-all").peak_bytes + states

    peaks = [peak(f"{weight}@1/4"), peak(f"{weight}@1/2"), peak(weight)]
    assert peaks == sorted(peaks)
    assert peaks[0] < peaks[2]


def test_a_part_and_gradients_that_are_clipped_or_added_up() -> None:
    for more in ({"clip_norm": 0.1}, {"clip_value": 0.01}, {"batch": 4, "micro_batch": 2}):
        batch = 2 if "micro_batch" in more else 4
        settings = BuildSettings("linux", "digits-cnn", **{"batch": 4, "train": PARTS, **more})  # type: ignore[arg-type]
        model = build_model("digits-cnn", batch, 0)
        ours = Reference(derive_program(settings, model), model.weights)
        random = np.random.default_rng(0)
        for _ in range(2):
            ours.step(random.normal(size=(batch, 1, 8, 8)), random.integers(0, 10, batch))
        changed = ours.persistent["conv3.weight"] != model.weights["conv3.weight"]
        assert changed[:, :3].any(axis=(0, 2, 3)).all()
        assert not changed[:, 3:].any()
