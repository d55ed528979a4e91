# SPDX-License-Identifier: Apache-2.0
"""Joined ops of a step: they move less, and train to the same bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from poetfw.common.limits import Deadline
from poetfw.ir import Graph, Op, Role, Tensor
from poetfw.models.layers import Layers
from poetfw.ops import Array, check_shapes
from poetfw.optimizers import Sgd
from poetfw.planning.joining import Joining
from poetfw.planning.pieces import PieceSearch, TilePolicy
from poetfw.planning.storing import _larger
from poetfw.training import (
    Program,
    Reference,
    make_program,
    resident_form,
    store,
    streamed_ops,
    with_windows,
)

SAME = (1, 1, 1, 1)
POLICY = TilePolicy(512, 4)
ROOM = 12_000


def block(**optimizer: float) -> tuple[Program, Mapping[str, Array]]:
    """A residual block, with its initial weights."""
    layers = Layers("block", (1, 3, 16, 16), seed=1)
    x = layers.relu(
        "relu1", layers.batch_norm("bn1", layers.conv("conv1", layers.input, 8, 3, padding=SAME))
    )
    y = layers.batch_norm("bn2", layers.conv("conv2", x, 8, 3, padding=SAME, bias=True))
    x = layers.relu("relu2", layers.add("add", y, x))
    x = layers.flatten("flat", layers.pool("global_avg_pool", "pool", x, 16))
    graph, weights = layers.build(layers.linear("logits", x, 3))
    program = make_program(graph, "softmax_cross_entropy", Sgd(0.05, momentum=0.9, **optimizer))
    return program, weights


def stored_forms(program: Program, room_bytes: int = ROOM) -> tuple[Program, Program]:
    """The program with all stored that can be, without joined ops and with them."""
    chosen, search = _larger(program, 0), PieceSearch()
    tiles = {
        tensor.name: POLICY.tile_of(tensor)
        for graph in (program.training, program.evaluation)
        for tensor in graph.tensors
        if tensor.name in chosen
    }
    graph = with_windows(program.training, chosen)
    joining = Joining(graph, tiles, search, room_bytes)
    one, other = (
        store(
            replace(program, training=each),
            chosen,
            lambda tensor: tiles[tensor.name],
            lambda op, tensors, waiting: search.choose(op, tensors, room_bytes),
        )
        for each in (graph, joining.run(Deadline()))
    )
    return one, other


def groups(program: Program) -> set[tuple[str, ...]]:
    return {tuple(part.name for part in op.joined) for op in program.training.ops if op.joined}


def moved_bytes(program: Program) -> int:
    traffic = [kind.traffic(op, program.training) for op, kind in streamed_ops(program.training)]
    return sum(each.read_bytes + each.written_bytes for each in traffic)


def trained(program: Program, weights: Mapping[str, Array]) -> Mapping[str, Array]:
    """Persistent tensors after three steps of the reference."""
    reference = Reference(program, weights)
    rng = np.random.default_rng(0)
    for label in (0, 2, 1):
        reference.step(rng.normal(size=program.x.members[0].shape), np.array([label]))
    return reference.persistent


def test_a_step_moves_less_and_trains_to_the_same_bits() -> None:
    program, weights = block()
    single, joined = stored_forms(program)
    assert groups(joined) == {
        ("bn1", "relu1"),
        ("bn2", "add", "relu2"),
        ("pool.backward", "relu2.backward"),
        (
            "bn2.backward_affine",
            "bn2.backward_input",
            "bn2.affine.update",
            "conv2.backward_bias",
            "conv2.bias.update",
        ),
        ("conv2.backward_weight", "conv2.weight.update"),
        (
            "relu1.gradient",
            "relu1.backward",
            "bn1.backward_affine",
            "bn1.backward_input",
            "bn1.affine.update",
        ),
    }
    assert moved_bytes(joined) < 0.75 * moved_bytes(single)
    check_shapes(joined.training)
    names = {tensor.name for tensor in joined.training.tensors}
    assert names.isdisjoint(("bn1", "bn2", "add", "relu1.backward", "bn1.backward_affine"))
    expected = trained(program, weights)
    for other in (joined, resident_form(joined)):
        found = trained(other, weights)
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], value)
    assert joined.parameter_states == program.parameter_states


def test_no_op_that_others_wait_for_is_joined_with_what_waits_for_them() -> None:
    """Updates by a clipped gradient wait for the norm of all gradients."""
    program, weights = block(clip_norm=0.5)
    _, joined = stored_forms(program)
    assert groups(joined)
    assert not any("update" in part for group in groups(joined) for part in group)
    expected, found = trained(program, weights), trained(joined, weights)
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value)


def joined_groups(tensors: Sequence[Tensor], *ops: Op) -> set[tuple[str, ...]]:
    """Names of the ops that are joined where all images are stored."""
    graph = Graph("g", tuple(tensors), ops, "y")
    tiles = {t.name: (2, 2) for t in tensors if len(t.shape) == 4 and not t.role.persistent}
    found = Joining(graph, tiles, PieceSearch(), ROOM).run(Deadline())
    return {tuple(part.name for part in op.joined) for op in found.ops if op.joined}


IMAGE = (1, 4, 8, 8)
X, T, Y = (Tensor(name, IMAGE) for name in "xty")


def test_ops_are_not_joined_over_one_that_needs_the_first_and_is_needed_by_the_last() -> None:
    w, db, p = Tensor("w", (4,), role=Role.PARAMETER), Tensor("db", (4,)), Tensor("p", (1,))
    for paced in (True, False):
        rate = {"paced": 1} if paced else {"learning_rate": 0.1}
        settings = {**rate, "momentum": 0.0, "weight_decay": 0.0}
        ops = (
            Op("t", "scale", ("x",), "t", {"factor": 2.0}),
            Op("y", "relu", ("t",), "y"),
            Op("p", "sum_to", ("y",), "p", {"shape": (1,)}),
            Op("db", "conv2d_backward_bias", ("t",), "db"),
            Op("w", "sgd", ("db", "p") if paced else ("db",), None, settings, ("w",)),
        )
        expected = set() if paced else {("t", "y", "db", "w")}
        assert joined_groups((X, T, Y, db, p, w), *ops) == expected


def test_what_a_frozen_part_gives_is_not_joined_with_what_is_trained() -> None:
    for role in (Role.PARAMETER, Role.CONSTANT):
        shift = Tensor("b", (4, 1, 1), role=role)
        a, b = Op("a", "relu", ("x",), "t"), Op("b", "add_broadcast", ("t", "b"), "y")
        x = replace(X, role=Role.CONSTANT)  # as a batch, which is not trained
        assert bool(joined_groups((x, T, Y, shift), a, b)) == (role is Role.CONSTANT)


def test_a_joined_op_survives_its_file() -> None:
    program, _ = block()
    graph = stored_forms(program)[1].training
    assert Graph.from_json(graph.to_json()) == graph
