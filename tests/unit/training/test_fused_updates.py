# SPDX-License-Identifier: Apache-2.0
"""Gradients that are applied without being stored: where, in which order, and to which bits."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from poetfw.ir import Graph, Op, Role
from poetfw.models import GraphBuilder, build_model
from poetfw.planning import BuildSettings, derive_program, load_model, load_schedule_problem
from poetfw.schedule import minimum_budget, simulate, solve
from poetfw.training import Program, Reference, Sgd, make_program, matching_parameters

IMAGE_MODELS = [("mlp", 1), ("lenet5", 1), ("digits-cnn", 2), ("resnet8", 1)]


def program_of(model: str, batch: int, *frozen: str, fuse: bool = True) -> Program:
    built = build_model(model, batch, 0)
    names = matching_parameters(built.graph, frozen)
    sgd = Sgd(learning_rate=0.05, momentum=0.9, weight_decay=1e-3)
    return make_program(built.graph, built.loss, sgd, names, fuse_updates=fuse)


def fused(program: Program) -> dict[str, Op]:
    """The ops that apply a gradient as they calculate it, by parameter."""
    return {op.updates[0]: op for op in program.training.ops if op.kind.endswith("_sgd")}


@pytest.mark.parametrize("batch", [1, 4, 32])
def test_a_gradient_is_stored_unless_it_outweighs_what_would_wait(batch: int) -> None:
    program = program_of("digits-cnn", batch)
    applied = fused(program)
    for op in program_of("digits-cnn", batch, fuse=False).training.ops:
        if op.kind in ("conv2d_backward_weight", "linear_backward_weight"):
            weight = op.name.replace(".backward_weight", ".weight")
            first = weight == "conv1.weight"
            tensors = program.training.by_name
            larger = tensors[weight].size_bytes > tensors[op.inputs[0]].size_bytes
            assert (weight in applied) == (first or larger), weight
    assert ("conv3.weight" in applied) == (batch == 1 or batch == 4)


@pytest.mark.parametrize(("model", "batch"), IMAGE_MODELS)
def test_a_fused_update_follows_what_reads_the_old_weight(model: str, batch: int) -> None:
    program = program_of(model, batch)
    position = {op.name: at for at, op in enumerate(program.training.ops)}
    applied = fused(program)
    assert len(applied) > 1
    graph = program.training
    made = {tensor.name for tensor in graph.tensors if not tensor.role.persistent}
    assert made == {op.output for op in graph.ops if op.output is not None}
    for weight, op in applied.items():
        readers = [reader.name for reader in program.training.consumers[weight]]
        assert readers
        assert all(position[reader] < position[op.name] for reader in readers)


def test_nothing_that_reads_the_old_weight_is_computed_after_its_update() -> None:
    problem = load_schedule_problem(BuildSettings("linux", "resnet8", batch=1))
    before = {node.name: node.recompute_before for node in problem.nodes}
    position = {node.name: at for at, node in enumerate(problem.nodes)}
    update = position["stack3.b.conv.weight.update"]
    for name in ("stack3.b.conv", "stack3.b.conv.backward_input"):
        assert position[name] < position[str(before[name])] <= update
    everything = solve(replace(problem, ram_bytes=2**20), "checkpoint-all").peak_bytes
    schedule = solve(replace(problem, ram_bytes=everything * 4 // 5), "dtr")
    order = [(step.kind, step.node) for step in schedule.plan]
    assert schedule.recomputes > 0
    assert simulate(problem, schedule.plan).peak_bytes <= everything * 4 // 5
    for name, limit in before.items():
        if limit is not None:
            last = max(at for at, step in enumerate(order) if step == ("compute", name))
            assert last < order.index(("compute", limit)), name


@pytest.mark.parametrize("precision", [np.float32, np.float64])
@pytest.mark.parametrize(("model", "batch"), IMAGE_MODELS)
def test_weights_get_the_same_bits(model: str, batch: int, precision: type[np.floating]) -> None:
    weights = build_model(model, batch, 0).weights
    programs = [program_of(model, batch, fuse=fuse) for fuse in (True, False)]
    assert fused(programs[0])
    assert not fused(programs[1])
    one, other = (Reference(program, weights, precision) for program in programs)
    random = np.random.default_rng(0)
    for _ in range(3):
        x = random.normal(size=programs[0].x.members[0].shape)
        y = random.integers(0, 10, batch)
        assert one.step(x, y) == other.step(x, y)
    assert one.persistent.keys() == other.persistent.keys()
    for name, value in one.persistent.items():
        np.testing.assert_array_equal(value, other.persistent[name], err_msg=name)


def test_every_trained_parameter_has_a_momentum_either_way() -> None:
    one, other = (program_of("resnet8", 1, fuse=fuse) for fuse in (True, False))
    assert dict(one.parameter_states) == dict(other.parameter_states)
    trained = {tensor.name for tensor in one.training.with_role(Role.PARAMETER)}
    assert one.parameter_states == {name: (f"{name}.momentum",) for name in trained}
    assert one.parameter_gradients.keys() == trained - fused(one).keys()


def test_nothing_waits_where_no_gradient_goes_further_down() -> None:
    """conv3's gradient is as large as its input here, and the layers below are frozen."""
    below = ("conv[12]*", "bn[12]*")
    assert "conv3.weight" not in fused(program_of("digits-cnn", 32))
    assert "conv3.weight" in fused(program_of("digits-cnn", 32, *below))


def test_a_frozen_weight_is_not_updated() -> None:
    applied = fused(program_of("digits-cnn", 1, "conv3*"))
    assert "conv2.weight" in applied
    assert "conv3.weight" not in applied


def weights_from(*parts: str) -> Graph:
    """y = x wᵀ with w = p, or p + q; `parts` are the parameters that w is made from."""
    builder = GraphBuilder("shared", "x", (1, 3))
    names = [builder.parameter(part, np.ones((4, 3), np.float32)) for part in parts]
    weight = names[0] if len(names) == 1 else builder.op("add", "w", names)
    graph, _ = builder.build(builder.op("linear", "y", (builder.input, weight)))
    return graph


def test_a_gradient_of_two_parameters_is_stored() -> None:
    sgd = Sgd(learning_rate=0.5, momentum=0.0)
    alone = make_program(weights_from("p"), "mse", sgd)
    assert fused(alone).keys() == {"p"}
    shared = make_program(weights_from("p", "q"), "mse", sgd)
    assert not fused(shared)
    assert len(set(shared.parameter_gradients.values())) == 1
    reference = Reference(shared, {name: np.ones((4, 3)) for name in "pq"})
    reference.step(np.ones((1, 3)), np.zeros((1, 4)))
    np.testing.assert_array_equal(reference.persistent["p"], reference.persistent["q"])
    assert (reference.persistent["p"] < 1).all()


def test_a_gradient_that_is_added_to_another_is_stored() -> None:
    """The gradient of p + q is q's alone, but p's is the sum of it and of another."""
    builder = GraphBuilder("added", "x", (1, 3))
    p, q = (builder.parameter(name, np.ones((3, 3), np.float32)) for name in "pq")
    hidden = builder.op("linear", "hidden", (builder.input, builder.op("add", "w", (p, q))))
    graph, _ = builder.build(builder.op("linear", "y", (hidden, p)))
    program = make_program(graph, "mse", Sgd())
    assert not fused(program)
    assert program.parameter_gradients.keys() == {"p", "q"}


def test_a_weight_that_is_used_twice_is_updated_once() -> None:
    builder = GraphBuilder("twice", "x", (1, 3))
    weight = builder.parameter("w", np.ones((3, 3), np.float32))
    hidden = builder.op("linear", "hidden", (builder.input, weight))
    graph, _ = builder.build(builder.op("linear", "y", (hidden, weight)))
    program = make_program(graph, "mse", Sgd())
    kinds = Counter(op.kind for op in program.training.ops)
    assert (kinds["linear_backward_weight"], kinds["sgd"]) == (2, 1)
    assert not fused(program)


@pytest.mark.parametrize(("model", "share"), [("vgg16", 0.1), ("resnet18", 0.1), ("resnet8", 1.0)])
def test_the_smallest_budget_no_longer_holds_a_weight_gradient(model: str, share: float) -> None:
    """Against the largest gradient of a weight, below which no budget could be before."""
    problem = load_schedule_problem(BuildSettings("linux", model, batch=1))
    apart = program_of(model, 1, fuse=False).training
    largest = max(
        apart.by_name[str(op.output)].size_bytes
        for op in apart.ops
        if op.kind == "conv2d_backward_weight"
    )
    assert minimum_budget(problem).bytes < share * largest


@pytest.mark.parametrize("model", ["lenet5", "resnet8"])
def test_of_several_parameters_that_an_op_reads_one_is_always_updated_first(model: str) -> None:
    """So whatever runs before that update runs before all of them, in any order."""
    settings = BuildSettings("linux", model, batch=1)
    graph = derive_program(settings, load_model(settings)).training
    nodes = {node.name: node for node in load_schedule_problem(settings).nodes}
    updated_by = {name: op.name for op in graph.ops for name in op.updates}
    later = 0
    for op in graph.ops:
        for update in (updated_by[name] for name in op.inputs if name in updated_by):
            first = nodes[op.name].recompute_before
            assert update == first or first in nodes[update].inputs
            later += update != first
    assert later > 3
