# SPDX-License-Identifier: Apache-2.0
"""Frozen parameters: which they are, and what a step no longer does and keeps for them."""

from __future__ import annotations

import numpy as np
import pytest

from poetfw.common.errors import ConfigError, ModelError
from poetfw.ir import Op, Role
from poetfw.models import Model, build_model
from poetfw.planning import BuildSettings, load_schedule_problem
from poetfw.schedule import minimum_budget
from poetfw.training import Program, Reference, Sgd, make_program, matching_parameters


def program_of(model: Model, *patterns: str, optimizer: Sgd | None = None) -> Program:
    frozen = matching_parameters(model.graph, patterns)
    return make_program(model.graph, model.loss, optimizer or model.optimizer, frozen)


def backward_ops(program: Program) -> list[Op]:
    return [op for op in program.training.ops if op.backward]


def test_patterns_match_names() -> None:
    graph = build_model("digits-cnn", 2, 0).graph
    assert matching_parameters(graph, ("conv1*", "bn?.affine")) == {
        "conv1.weight",
        "bn1.affine",
        "bn2.affine",
        "bn3.affine",
    }
    assert matching_parameters(graph, ()) == frozenset()


def test_groups_are_found_by_what_ops_do() -> None:
    cnn = build_model("digits-cnn", 2, 0).graph
    assert matching_parameters(cnn, ("norm",)) == {"bn1.affine", "bn2.affine", "bn3.affine"}
    assert matching_parameters(cnn, ("bias",)) == {"logits.bias"}
    assert matching_parameters(cnn, ("last:2",)) == {"logits.weight", "logits.bias", "bn3.affine"}
    everything = {tensor.name for tensor in cnn.with_role(Role.PARAMETER)}
    assert matching_parameters(cnn, ("last:7",)) == everything
    bert = build_model("bert-mini", 1, 0).graph
    found = matching_parameters(bert, ("bias",))
    assert found
    assert all(name.endswith(".bias") for name in found)
    assert all(name.endswith(".affine") for name in matching_parameters(bert, ("norm",)))


def test_a_parameter_may_have_the_name_of_a_group() -> None:
    from unit.training.test_program import tiny

    assert matching_parameters(tiny(("x", "norm", "y")), ("norm",)) == {"norm"}


def test_a_name_is_matched_as_it_stands() -> None:
    from unit.training.test_program import tiny

    assert matching_parameters(tiny(("x", "w[0]", "y")), ("w[0]",)) == {"w[0]"}


@pytest.mark.parametrize("pattern", ["nothing*", "", "CONV1*", "bn1.running"])
def test_a_pattern_that_matches_nothing_names_the_parameters(pattern: str) -> None:
    graph = build_model("digits-cnn", 2, 0).graph
    with pytest.raises(ConfigError, match="no parameter of model 'digits-cnn'") as refusal:
        matching_parameters(graph, ("conv1*", pattern))
    assert all(
        tensor.name in str(refusal.value.try_next) for tensor in graph.with_role(Role.PARAMETER)
    )


def test_everything_frozen_is_refused() -> None:
    with pytest.raises(ModelError, match="all parameters of model 'mlp' are frozen"):
        program_of(build_model("mlp", 2, 0), "*")


@pytest.mark.parametrize("model", ["mlp", "lenet5", "digits-cnn", "resnet8", "bert-mini"])
@pytest.mark.parametrize("half", [0, 1])
def test_nothing_is_computed_in_vain(model: str, half: int) -> None:
    """Every other parameter frozen: each backward op leads to an update, nothing updates others."""
    built = build_model(model, 2, 0)
    names = [tensor.name for tensor in built.graph.with_role(Role.PARAMETER)]
    frozen = set(names[half::2])
    training = make_program(built.graph, built.loss, built.optimizer, frozen).training
    updated = {name for op in training.ops for name in op.updates}
    assert not frozen & updated
    assert set(names) - frozen <= updated
    needed: set[str] = set()
    for op in reversed(training.ops):
        assert op.updates or op.output in needed or op.output == training.output, op.name
        needed |= set(op.inputs)
    assert {t.name for t in training.constants} >= frozen


def test_a_frozen_parameter_is_constant_and_has_neither_gradient_nor_momentum() -> None:
    program = program_of(build_model("mlp", 2, 0), "hidden2*")
    assert {op.kind for op in program.training.ops if op.name.startswith("hidden2")} == {
        "linear",
        "linear_backward_input",
    }
    names = {tensor.name for tensor in program.persistent}
    assert {t.name for t in program.constants} == {"hidden2.weight", "hidden2.bias"}
    assert names.isdisjoint({"hidden2.weight", "hidden2.bias"})
    assert "hidden1.weight.momentum" in names
    assert "hidden2.weight.momentum" not in names
    assert "hidden2.weight" not in program.parameter_gradients


def test_a_frozen_middle_layer_does_not_keep_its_input() -> None:
    program = program_of(build_model("lenet5", 2, 0), "f6*")
    assert {op.kind for op in program.training.consumers["c5.relu"]} == {"linear", "relu_backward"}


def test_below_the_first_trained_layer_nothing_is_propagated() -> None:
    program = program_of(build_model("digits-cnn", 2, 0), "conv[12]*", "bn[12]*")
    assert {op.name.split(".")[0] for op in backward_ops(program)} == {
        *("loss", "logits", "flatten", "pool3", "relu3", "bn3", "conv3")
    }
    assert "conv3.backward_input" not in {op.name for op in backward_ops(program)}
    assert all(not op.backward for op in program.training.consumers["conv1"])


def test_batch_norm_above_a_frozen_affine_passes_the_gradient_on() -> None:
    program = program_of(build_model("digits-cnn", 2, 0), "bn*")
    kinds = [op.kind for op in program.training.ops]
    assert kinds.count("batch_norm_backward_input") == 3
    assert kinds.count("batch_norm_update_running") == 3
    assert not any("affine" in name for op in program.training.ops for name in op.updates)


def test_frozen_parameters_keep_their_values() -> None:
    built = build_model("mlp", 4, 0)
    program = program_of(built, "hidden1.weight", "logits.bias")
    reference = Reference(program, built.weights)
    random = np.random.default_rng(0)
    for _ in range(3):
        reference.step(random.normal(size=program.x.members[0].shape), random.integers(0, 10, 4))
    for tensor in built.graph.with_role(Role.PARAMETER):
        same = bool((reference.persistent[tensor.name] == built.weights[tensor.name]).all())
        assert same == (tensor.name in ("hidden1.weight", "logits.bias")), tensor.name


def test_the_smallest_budget_falls() -> None:
    every = minimum_budget(load_schedule_problem(BuildSettings("linux", "mlp")))
    frozen = minimum_budget(load_schedule_problem(BuildSettings("linux", "mlp", freeze=("*1.*",))))
    assert frozen.bytes < every.bytes
