# SPDX-License-Identifier: Apache-2.0
"""Tiles of stored tensors and streamed weights: the best of all, found within the time limit."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import chain, count, product

import pytest

from poetfw.boards import load_board
from poetfw.common.limits import Deadline
from poetfw.costs import analytic_costs
from poetfw.ir import Op, Tensor
from poetfw.memory import resident_bytes
from poetfw.models.layers import Layers
from poetfw.ops import KINDS, PiecedOp, kind_of, run_ops
from poetfw.ops.continued import ContinuedKind
from poetfw.ops.nests import sample_parts
from poetfw.optimizers import Sgd
from poetfw.planning import BuildSettings, plan_evaluation, schedule_problem
from poetfw.planning.choices import derive_program, load_model
from poetfw.planning.pieces import PieceSearch, TilePolicy, channel_units, held_bytes
from poetfw.planning.storing import _larger, _Storing, held_at_once, stored_candidates
from poetfw.schedule import StepKind, simulate
from poetfw.training import (
    Program,
    make_prediction,
    make_program,
    store,
    stored_tensors,
    stream,
    streamable_vectors,
    streamable_weights,
)

POLICY = TilePolicy(512, 4)


@pytest.fixture(scope="module")
def program() -> Program:
    settings = BuildSettings("linux", "digits-cnn", batch=1)
    return derive_program(settings, load_model(settings))


def storing(program: Program, budget_bytes: int, deadline: Deadline) -> _Storing:
    """A search that stores all it can, and streams all weights."""
    weights = streamable_weights(program)
    base = stream(program, {e.weight.name: (1, 1) if e.back else (1,) for e in weights})
    room = budget_bytes - resident_bytes(base.resident, 512)
    chosen = _larger(base, 0)
    return _Storing(program, base, weights, (), chosen, room, PieceSearch(), deadline)


@pytest.mark.parametrize("budget_bytes", [5000, 9000, 20000])
def test_no_tile_of_a_weight_is_better(program: Program, budget_bytes: int) -> None:
    search = storing(program, budget_bytes, Deadline())
    for weight in search.weights:
        shape = weight.weight.shape[: 2 if weight.back else 1]
        found = {}
        for tile in product(*([n for n in range(1, e + 1) if e % n == 0] for e in shape)):
            costs = [
                search.search.weigh(*case, search.room)
                for case in search.cases(weight, tile, POLICY)
            ]
            found[tile] = max(excess for excess, _ in costs), sum(cost for _, cost in costs)
        tile = search.weight_tile(weight, POLICY)
        assert found[tile] == min(found.values())
        assert len(set(found.values())) > 3


@pytest.mark.parametrize(("model", "samples"), [("digits-cnn", 1), ("mlp", 4)])
def test_a_prediction_has_the_pieces_of_the_evaluation(model: str, samples: int) -> None:
    """Pieces of vectors of four samples would not be those of one: the batch stays four."""
    settings = BuildSettings("linux", model, batch=4)
    program, search = derive_program(settings, load_model(settings)), PieceSearch()
    units = channel_units(program.training, program.evaluation)
    stored = store(
        program,
        _larger(program, 0),
        lambda tensor: POLICY.tile_of(tensor, units.get(tensor.name, 0)),
        lambda op, tensors, waiting: search.choose(op, tensors, 0),
    )
    graph = make_prediction(stored)
    assert graph.by_name[graph.output].shape[0] == samples
    assert any(tensor.tile for tensor in graph.tensors)
    for op in graph.ops:
        kind = kind_of(op)
        if isinstance(kind, PiecedOp):
            assert kind.nest(op, graph).body


def test_the_search_for_tiles_ends_with_the_time(program: Program) -> None:
    found = []
    for limit in (0, 40, 10**9):
        ticks = count()
        deadline = Deadline(limit, partial(next, ticks))
        storing = stored_candidates(program, 5000, deadline, continues=True)
        candidates = list(chain.from_iterable(storing))
        assert deadline.decided == (limit < 10**9)
        assert next(ticks) <= limit + 100
        assert all(stored_tensors(each) for each in candidates)
        found.append(len(candidates))
    assert 0 == found[0] < found[1] < found[2]


def test_sums_are_continued_only_where_products_and_sums_are_rounded_apart(
    program: Program,
) -> None:
    for continues in (False, True):
        candidates = stored_candidates(program, 9000, Deadline(), continues=continues)
        graphs = [each.training for each in chain.from_iterable(candidates)]
        called = {op.kind for graph in graphs for op, _ in run_ops(graph)}
        assert bool(called & {"continued_conv2d", "continued_linear"}) == continues
    kinds = [KINDS[kind] for kind in called]
    assert sum(isinstance(kind, ContinuedKind) for kind in kinds) > 1


@pytest.mark.parametrize("budget_bytes", [5000, 9000, 16000])
def test_tiles_of_each_tensor_move_no_more_than_those_of_a_rule(
    program: Program, budget_bytes: int
) -> None:
    search = storing(program, budget_bytes, Deadline())

    def weigh(stored: Program) -> tuple[bool, int]:
        exceeding, cost = search.search.assess(stored.training, search.room)
        evaluated = search.search.assess(stored.evaluation, search.room, search.waiting)
        return bool(exceeding or evaluated[0]), cost

    best = search.best()
    assert best is not None
    ruled = [
        weigh(search.in_tiles(TilePolicy(size, rows)))
        for size in (512, 1024, 2048, 4096)
        for rows in (2, 4, 8)
    ]
    assert weigh(best) <= min(ruled)
    for tensor in stored_tensors(best):
        assert all(e % t == 0 for e, t in zip(tensor.image, tensor.tile, strict=False))


def test_only_tensors_of_an_op_with_too_little_room_get_smaller_tiles() -> None:
    policy = TilePolicy(4096, 8).halved(["a"], 1500).halved(["a", "b"], 1500)
    a, b, c = (Tensor(name, (1, 64, 32, 32)) for name in "abc")
    tiles = [policy.tile_of(tensor) for tensor in (a, b, c)]
    assert [channels * rows * 32 * 4 for channels, rows in tiles] == [1024, 2048, 4096]
    assert policy.smaller == {"a": 1500, "b": 2048}
    assert policy.halved([], 1500) == policy.halved(["a"], 1500) == policy


def test_what_is_stored_is_not_held(program: Program) -> None:
    everything = _larger(program, 0)
    assert held_at_once(program, everything) < held_at_once(program)


def test_a_batch_is_stored_where_no_op_can_run_beside_it() -> None:
    layers = Layers("large", (1, 3, 32, 32), seed=1)
    x = layers.relu("relu1", layers.conv("conv1", layers.input, 4, 3, stride=2))
    x = layers.relu("relu2", layers.conv("conv2", x, 8, 3, stride=2))
    graph, _ = layers.build(layers.linear("logits", layers.flatten("flat", x), 3))
    program = make_program(graph, "softmax_cross_entropy", Sgd(0.05))
    batch = program.x.members[0]
    for budget_bytes, is_stored in ((32_000, False), (batch.size_bytes, True)):
        storing = stored_candidates(program, budget_bytes, Deadline(), continues=True)
        candidates = list(chain.from_iterable(storing))
        assert any(stored_tensors(each) for each in candidates)
        assert all(bool(each.x.members[0].tile) == is_stored for each in candidates)
    training = candidates[-1].training
    load = training.producer[batch.name]
    kind = kind_of(load)
    assert isinstance(kind, PiecedOp)
    end = 0
    for first, size in sorted(sample_parts(kind.nest(load, training).body, {})):
        assert first == end
        end += size
    assert 0 < size < end == batch.size_bytes


def test_an_evaluation_has_room_for_what_waits_during_each_op() -> None:
    settings = BuildSettings("nrf52840", "resnet8", batch=1)
    whole = derive_program(settings, load_model(settings))
    weights, vectors = streamable_weights(whole), streamable_vectors(whole)
    base = stream(whole, {e.weight.name: (1, 1) if e.back else (1,) for e in weights}, vectors)
    room = 131_072 - resident_bytes(base.resident, 512)
    chosen = _larger(base, 32_768)  # the shortcut of a block waits in RAM
    search = _Storing(whole, base, weights, vectors, chosen, room, PieceSearch(), Deadline())
    found = search.best()
    assert found is not None
    evaluation = plan_evaluation(found, load_board("nrf52840"), analytic_costs)
    assert evaluation.peak_bytes <= room


def test_pieces_are_chosen_beside_what_waits_in_an_evaluation() -> None:
    settings, board = BuildSettings("nrf52840", "resnet8", batch=1), load_board("nrf52840")
    whole = derive_program(settings, load_model(settings))
    given: list[tuple[str, int]] = []

    def choose(op: Op, tensors: Mapping[str, Tensor], waiting: int) -> Op:
        given.append((op.name, waiting))
        return PieceSearch().choose(op, tensors, 10**6)

    chosen = _larger(whole, 32_768)
    stored = store(whole, chosen, lambda tensor: POLICY.tile_of(tensor, tensor.shape[1]), choose)
    graph = stored.evaluation
    plan = plan_evaluation(stored, board, analytic_costs).plan
    problem = schedule_problem(graph, board, analytic_costs(graph, board), None)
    live = {
        step.node: during
        for step, during in zip(plan, simulate(problem, plan).during_bytes, strict=True)
        if step.kind is StepKind.COMPUTE
    }
    pieces = [op for op in graph.ops if isinstance(kind_of(op), PiecedOp)]
    expected = [
        live[op.name] - held_bytes(op, graph.by_name) - kind_of(op).workspace_bytes(op, graph)
        for op in pieces
    ]
    assert given[-len(pieces) :] == [
        (op.name, size) for op, size in zip(pieces, expected, strict=True)
    ]
    assert any(expected)
    assert not any(waiting for _, waiting in given[: -len(pieces)])
