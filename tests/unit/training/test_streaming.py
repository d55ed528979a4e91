# SPDX-License-Identifier: Apache-2.0
"""Streamed weights: which can be, the ops that load them, and where their tiles lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from poetfw.common.errors import InfeasibleError, ModelError
from poetfw.common.transfer import BLOCK_BYTES, TRAILER_BYTES
from poetfw.ir import Dtype, Role
from poetfw.memory.ordering import from_graph, order_ops
from poetfw.models.layers import Layers
from poetfw.ops import Array, TileLayout, check_shapes
from poetfw.planning.homes import (
    all_streamed,
    best_tile,
    traffic_over_floor,
    with_not_streamed,
)
from poetfw.training import (
    Program,
    Reference,
    Sgd,
    make_program,
    not_loadable,
    resident_form,
    stream,
    streamable_constants,
    streamable_vectors,
    streamable_weights,
)

BATCH, CLASSES = 3, 4


def network(
    optimizer: Sgd, frozen: frozenset[str] = frozenset()
) -> tuple[Program, dict[str, object]]:
    """Two convolutions, of which one is depthwise, batch norm and a linear layer."""
    layers = Layers("net", (BATCH, 2, 6, 6), seed=1)
    x = layers.conv("first", layers.input, 8, 3, padding=(1, 1, 1, 1))
    x = layers.relu("relu", layers.batch_norm("bn", x))
    x = layers.conv("depthwise", x, 8, 3, groups=8)
    x = layers.linear("logits", layers.flatten("flat", x), CLASSES)
    graph, weights = layers.build(x)
    return make_program(graph, "softmax_cross_entropy", optimizer, frozen), dict(weights)


def expect_trained_alike(programs: Sequence[Program], weights: Mapping[str, Array]) -> None:
    """Check that programs are whole, and that references train them to the same bits."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(BATCH, 2, 6, 6)).astype("f4")
    y = rng.integers(0, CLASSES, BATCH).astype("i4")
    trained = []
    for each in programs:
        check_shapes(each.training)
        check_shapes(each.evaluation)
        reference = Reference(each, weights, np.float32)
        losses = [reference.step(x, y) for _ in range(3)]
        trained.append((losses, {n: v.tobytes() for n, v in reference.persistent.items()}))
    assert all(found == trained[0] for found in trained)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("first", [(4, 1), (2,)])
def test_a_streamed_program_is_equivalent(momentum: float, first: tuple[int, ...]) -> None:
    program, weights = network(Sgd(0.05, momentum=momentum))
    chosen = streamable_weights(program)
    assert [each.weight.name for each in chosen] == ["logits.weight", "first.weight"]
    tiles = {"logits.weight": (2, 16), "first.weight": first}
    vectors = streamable_vectors(program)
    affected = ("bn.affine", "depthwise.weight", "logits.bias")
    trained = {*tiles, *affected}
    states = {f"{name}.momentum" for name in trained} if momentum else set()
    assert set(vectors) == {"bn.running", *trained, *states} - {
        name for tile in tiles for name in (tile, f"{tile}.momentum")
    }
    streamed = stream(program, tiles, vectors)
    assert set(streamed.streamed) == {*trained, *states, "bn.running"}
    assert {t.name for t in streamed.resident} == {
        t.name for t in program.persistent if t.name not in streamed.streamed
    }
    expect_trained_alike((program, streamed, resident_form(streamed)), weights)
    assert order_ops(from_graph(streamed.training)).order  # updates follow what reads the weight


@pytest.mark.parametrize("first", [(4,), (1,)])
def test_frozen_weights_are_streamed_only_where_flash_has_no_room(first: tuple[int, ...]) -> None:
    frozen = frozenset({"first.weight", "logits.weight", "logits.bias"})
    program, weights = network(Sgd(0.05, momentum=0.9), frozen)
    assert {each.weight.name for each in streamable_constants(program)} == frozen - {"logits.bias"}
    assert streamable_weights(program) == ()
    tiles = {"first.weight": first, "logits.weight": (2, 16)}
    beyond = replace(program, beyond_flash=frozenset(tiles))
    assert [each.weight.name for each in streamable_weights(beyond)] == [*reversed(tiles)]
    streamed = stream(beyond, tiles, streamable_vectors(program))
    kinds = {op.kind for op in streamed.training.ops if "tile" in op.attributes}
    assert kinds == {"streamed_conv2d", "streamed_linear", "streamed_linear_backward_input"}
    assert set(streamed.streamed_constants) == set(tiles)
    assert tiles.keys().isdisjoint(streamed.streamed)
    assert [tensor.name for tensor in streamed.in_flash] == ["logits.bias"]
    expect_trained_alike((program, streamed, resident_form(streamed)), weights)
    assert resident_form(streamed).streamed_constants == streamed.streamed_constants


def test_weights_whose_gradients_wait_for_a_norm_are_loaded_as_a_whole() -> None:
    program, _ = network(Sgd(0.05, clip_norm=1.0))
    assert streamable_weights(program) == ()
    assert {"logits.weight", "first.weight"} <= set(streamable_vectors(program))


def test_tiles_that_do_not_divide_a_weight_are_refused() -> None:
    program, _ = network(Sgd(0.05))
    with pytest.raises(ModelError, match=r"tiles of 3x1 channels do not divide"):
        check_shapes(stream(program, {"first.weight": (3, 1)}).training)
    with pytest.raises(ModelError, match=r"tiles of 3 channels do not divide"):
        check_shapes(stream(program, {"first.weight": (3,)}).training)


@pytest.mark.parametrize("tile", [(6, 10), (2, 10), (6, 5), (3, 2), (1, 1), (2,)])
def test_a_layout_gives_back_what_it_stores(tile: tuple[int, int]) -> None:
    shape = (6, 10, 3, 3)
    layout = TileLayout.of(shape, tile)
    values = np.arange(540, dtype="f4")
    tiles = layout.split(values)
    assert tiles.shape == (layout.tiles, layout.tile_bytes // 4)
    assert (layout.join(tiles) == values).all()
    weight = values.reshape(shape)
    for number, payload in enumerate(tiles):
        column, row = divmod(number, layout.rows)
        if len(tile) == 1:
            row, column = column, 0
        outputs, inputs = tile if len(tile) == 2 else (*tile, 10)
        part = weight[row * outputs :, column * inputs :][:outputs, :inputs]
        assert (payload == part.reshape(-1)).all()


@pytest.mark.parametrize("tile", [(8, 16), (8, 4), (2, 4), (4, 1), (1, 16), (8, 8)])
@pytest.mark.parametrize("positions", [(3, 3), (4, 4), (1, 31)])
def test_requests_are_the_blocks_that_tiles_lie_in(
    tile: tuple[int, int], positions: tuple[int, int]
) -> None:
    """Compared with a storage of single bytes, marked with the block that each is in."""
    layout = TileLayout.of((8, 16, *positions), tile)
    block = 0
    columns, tiles = [], []
    for column in range(layout.columns):
        end = layout.column_bytes + (TRAILER_BYTES if column == layout.columns - 1 else 0)
        blocks = [block + at // BLOCK_BYTES for at in range(end)]
        for row in range(layout.rows):
            touched = set(blocks[row * layout.tile_bytes :][: layout.tile_bytes])
            if column == layout.columns - 1 and row == layout.rows - 1:
                touched |= set(blocks[layout.column_bytes :])
            tiles.append(len(touched) * BLOCK_BYTES)
        columns.append(len(set(blocks)) * BLOCK_BYTES)
        block = blocks[-1] + 1
    assert layout.column_request_bytes == tuple(columns)
    assert layout.tile_request_bytes == tuple(tiles)
    assert layout.stored_bytes == block * BLOCK_BYTES


def test_the_best_tile_has_least_traffic_within_the_limits() -> None:
    program, _ = network(Sgd(0.05, momentum=0.9))
    logits = streamable_weights(program)[0]
    whole = logits.weight.shape[:2]
    assert best_tile(logits, 1 << 20, 1 << 20) == whole
    smaller = best_tile(logits, 4096, 1 << 20)
    assert smaller != whole
    smallest = best_tile(logits, 0, 0)
    assert np.prod(smallest) < np.prod(smaller) < np.prod(whole)


def tokens() -> tuple[Program, dict[str, object]]:
    """An embedding of 50 ids, and a linear layer."""
    layers = Layers("tokens", (BATCH, 6), seed=1, dtype=Dtype.I32)
    x = layers.op("embedding", "table", (layers.input, layers.weight("table.weight", (50, 8))))
    graph, weights = layers.build(layers.linear("logits", layers.flatten("flat", x), CLASSES))
    return make_program(graph, "softmax_cross_entropy", Sgd(0.05)), dict(weights)


def test_weights_that_an_op_cannot_load_stay_in_ram_and_are_named() -> None:
    program, _ = tokens()
    streamed = all_streamed(program)
    blocking = not_loadable(streamed)
    assert {name: op.name for name, op in blocking.items()} == {"table.weight": "table"}
    assert {t.name for t in streamed.resident if t.role is Role.PARAMETER} == {"table.weight"}
    refused = InfeasibleError("too small", "try", minimum_budget_bytes=7)
    told = with_not_streamed(refused, streamed)
    assert told.message == (
        "too small. 1 weights cannot be streamed from storage, the largest is 'table.weight' "
        "(1,600 bytes): op 'table' (embedding) loads none"
    )
    assert (told.try_next, told.minimum_budget_bytes) == (("try",), 7)
    everything = all_streamed(network(Sgd(0.05))[0])
    assert with_not_streamed(refused, everything) is refused


def test_traffic_is_compared_with_each_tensor_once() -> None:
    """Forward a weight is read, backward weight and momentum are read and written: 5 of its size.

    `logits.weight` has 4 x 128 floats, 2,048 bytes, and `first.weight` 576 bytes.
    """
    program, _ = network(Sgd(0.05, momentum=0.9))
    whole = stream(program, {"logits.weight": (4, 128), "first.weight": (8,)})
    assert traffic_over_floor(whole) == 5 * (2560 + 1024) / (5 * (2048 + 576))
    in_tiles = stream(program, {"logits.weight": (2, 64), "first.weight": (8,)})
    forward = 2 * 2 * 512 + 512  # the last of four tiles is followed by the trailer's block
    assert traffic_over_floor(in_tiles) == (forward + 4 * 2560 + 5 * 1024) / (5 * (2048 + 576))
