# SPDX-License-Identifier: Apache-2.0
"""Ops in pieces give the results of whole ops, and move what is said."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from poetfw.common.errors import ModelError
from poetfw.common.transfer import TRAILER_BYTES
from poetfw.firmware.nest_code import NestCode
from poetfw.ir import Graph, Op, Role, Tensor
from poetfw.ops import KINDS, PiecedOp, image_layout, join, kind_of, pieced
from poetfw.ops.base import Array, Kernel
from poetfw.ops.continued import ContinuedKind
from poetfw.ops.layouts import image_of
from poetfw.ops.nests import (
    AxisSpan,
    BufferTurns,
    ImagePart,
    KernelCall,
    Lookup,
    Loop,
    Move,
    Nest,
    OperandPlace,
    Pieces,
    StreamMove,
    TileTraffic,
    image_part,
    nest_moved,
    nest_traffic,
    results_of,
    sample_parts,
)
from poetfw.ops.streamed import StreamedKind
from poetfw.planning.pieces import REQUEST_BYTES, PieceSearch

CONV = {"stride": (1, 1), "padding": (1, 1, 1, 1), "groups": 1}
BY_2 = {**CONV, "stride": (2, 2)}
POINTWISE_BY_2 = {**BY_2, "padding": (0, 0, 0, 0)}
SGD = {"learning_rate": 0.1, "weight_decay": 0.01, "momentum": 0.9}
X, Y, W = (1, 4, 12, 6), (1, 6, 12, 6), (6, 4, 3, 3)
HALF = (1, 6, 6, 3)
NORM = {"eps": 1e-5}
POOLED = {
    **CONV,
    "weight_shape": W,
    "format": "float32",
    "activation": "relu",
    "pool": "max_pool2d",
    "pool.kernel": (2, 2),
    "pool.stride": (2, 2),
    "pool.padding": (0, 0, 0, 0),
}

CASES = {
    "conv2d": ("conv2d", (X, W, (6,)), Y, CONV, ()),
    "conv2d by 2": ("conv2d", (X, W), HALF, BY_2, ()),
    "1x1 by 2": ("conv2d", (X, (6, 4, 1, 1)), HALF, POINTWISE_BY_2, ()),
    "depthwise": ("conv2d", (X, (4, 1, 3, 3)), X, {**CONV, "groups": 4}, ()),
    "dX": ("conv2d_backward_input", (W, Y), X, {**CONV, "input_shape": X}, ()),
    "dX by 2": ("conv2d_backward_input", (W, HALF), X, {**BY_2, "input_shape": X}, ()),
    "dX 1x1 by 2": (
        "conv2d_backward_input",
        ((6, 4, 1, 1), HALF),
        X,
        {**POINTWISE_BY_2, "input_shape": X},
        (),
    ),
    "depthwise dX": (
        "conv2d_backward_input",
        ((4, 1, 3, 3), X),
        X,
        {**CONV, "groups": 4, "input_shape": X},
        (),
    ),
    "dW": ("conv2d_backward_weight", (X, Y), W, {**CONV, "weight_shape": W}, ()),
    "update": (
        "conv2d_backward_weight_sgd",
        (X, Y),
        None,
        {**CONV, **SGD, "weight_shape": W},
        (W, W),
    ),
    "depthwise update": (
        "conv2d_backward_weight_sgd",
        (X, X),
        None,
        {**CONV, **SGD, "groups": 4, "weight_shape": (4, 1, 3, 3)},
        ((4, 1, 3, 3), (4, 1, 3, 3)),
    ),
    "db": ("conv2d_backward_bias", (Y,), (6,), {}, ()),
    "statistics": ("batch_norm_statistics", (X,), (2, 4), {}, ()),
    "normalize": ("batch_norm_normalize", (X, (2, 4), (2, 4)), X, NORM, ()),
    "d affine": ("batch_norm_backward_affine", (X, (2, 4), X), (2, 4), NORM, ()),
    "d norm": ("batch_norm_backward_input", (X, (2, 4), (2, 4), (2, 4), X), X, NORM, ()),
    "relu": ("relu", (X,), X, {}, ()),
    "relu backward": ("relu_backward", (X, X), X, {}, ()),
    "add": ("add", (X, X), X, {}, ()),
    "max pool": (
        "max_pool2d",
        (X,),
        (1, 4, 6, 3),
        {"kernel": (2, 2), "stride": (2, 2), "padding": (0, 0, 0, 0)},
        (),
    ),
    "global average": ("global_avg_pool", (X,), (1, 4, 1, 1), {}, ()),
    "pooled": ("pooled_conv2d", (X, W, (6,)), HALF, POOLED, ()),
    "scaled channels": ("multiply", (X, (4, 1, 1)), X, {}, ()),
}
T, U = (8, 12), (8, 6)
HEADS, SCORES = (1, 3, 8, 4), (1, 3, 8, 8)
LAST = {**NORM, "groups": 1, "channels": 12, "inner": 1}
AS_HEADS = {"view": (1, 8, 3, 4), "axes": (0, 2, 1, 3), "shape": HEADS}
AS_TOKENS = {"view": HEADS, "axes": (0, 2, 1, 3), "shape": T}
VECTORS = {
    "linear": ("linear", (T, (6, 12), (6,)), U, {}, ()),
    "linear dX": ("linear_backward_input", ((6, 12), U), T, {}, ()),
    "linear dW": ("linear_backward_weight", (T, U), (6, 12), {}, ()),
    "linear update": ("linear_backward_weight_sgd", (T, U), None, SGD, ((6, 12), (6, 12))),
    "linear db": ("linear_backward_bias", (U,), (6,), {}, ()),
    "row statistics": ("layer_norm_statistics", (T,), (2, 8), LAST, ()),
    "row norm": ("layer_norm_normalize", (T, (2, 8), (2, 12)), T, LAST, ()),
    "row d affine": ("layer_norm_backward_affine", (T, (2, 8), T), (2, 12), LAST, ()),
    "row d norm": ("layer_norm_backward_input", (T, (2, 8), (2, 12), T), T, LAST, ()),
    "row d norm of a batch": (
        "layer_norm_backward_input",
        ((1, 8, 12), (2, 8), (2, 12), (1, 8, 12)),
        (1, 8, 12),
        LAST,
        (),
    ),
    "gelu": ("gelu", (T,), T, {}, ()),
    "positions": ("add_broadcast", ((1, 8, 12), T), (1, 8, 12), {}, ()),
    "bias": ("add_broadcast", (T, (1, 12)), T, {}, ()),
    "softmax of three axes": ("softmax", ((3, 8, 8),), (3, 8, 8), {}, ()),
    "softmax backward": ("softmax_backward", (SCORES, SCORES), SCORES, {}, ()),
    "scores": ("matmul", (HEADS, HEADS), SCORES, {"transpose_a": 0, "transpose_b": 1}, ()),
    "context": ("matmul", (SCORES, HEADS), HEADS, {"transpose_a": 0, "transpose_b": 0}, ()),
    "turned": ("matmul", (SCORES, HEADS), HEADS, {"transpose_a": 1, "transpose_b": 0}, ()),
    "both turned": (
        "matmul",
        (SCORES, (1, 3, 4, 8)),
        HEADS,
        {"transpose_a": 1, "transpose_b": 1},
        (),
    ),
    "heads": ("transpose", (T,), HEADS, AS_HEADS, ()),
    "tokens": ("transpose", (HEADS,), T, AS_TOKENS, ()),
    "sum": ("sum_to", (T,), (1, 12), {"shape": (1, 12)}, ()),  # runs as a whole
}
"""Ops on tensors of other shapes than images, and on matrices that are like images."""

CASES |= VECTORS


def stored(name: str, shape: tuple[int, ...], tile: tuple[int, int]) -> Tensor:
    """A stored tensor."""
    return Tensor(name, shape, tile=tile, image=image_of(shape))


def graph_of(case: str, tile: tuple[int, int], batch: int = 1) -> tuple[Op, dict[str, Tensor]]:
    """The op of a case, and its tensors, of which all images are stored."""
    kind, inputs, output, attributes, updates = CASES[case]

    def of_batch(shape: tuple[int, ...]) -> tuple[int, ...]:
        return (batch, *shape[1:]) if len(shape) == 4 and shape[0] == 1 else shape

    inputs = tuple(map(of_batch, inputs))
    output = of_batch(output) if output else None
    attributes = {
        name: of_batch(value) if name == "input_shape" else value
        for name, value in attributes.items()
    }
    tensors = {}
    for number, shape in enumerate((*inputs, *([output] if output else []), *updates)):
        name = f"t{number}"
        persistent = number >= len(inputs) + (output is not None)
        role = Role.PARAMETER if persistent else Role.ACTIVATION
        tensors[name] = Tensor(name, shape, role=role)
        is_image = len(shape) == 4 and shape[0] == batch and shape[2] > 1
        if (is_image or (case in VECTORS and math.prod(shape) > 12)) and not persistent:
            extents = shape[1:3] if len(shape) == 4 else shape[-2:]
            own = tuple(math.gcd(*pair) for pair in zip(tile, extents, strict=True))
            tensors[name] = replace(tensors[name], tile=own, image=image_of(shape))
    names = iter(tensors)
    op = Op(
        "op",
        kind,
        tuple(next(names) for _ in inputs),
        next(names) if output else None,
        attributes,
        tuple(names),
    )
    return op, tensors


class Machine:
    """Runs a nest with references of the ops for kernels, and lists its storage requests.

    Attributes:
        reads: bytes of each request that reads.
        writes: bytes of each request that writes.
    """

    def __init__(self, values: Mapping[str, Array], written: Sequence[str]) -> None:
        self.homes = {name: np.array(value) for name, value in values.items()}
        self.complete = {name: np.zeros(self.homes[name].shape, bool) for name in written}
        self.buffers: dict[int, Array] = {}
        self.shapes: Mapping[str, tuple[int, ...]] = {}
        self.reads: list[int] = []
        self.writes: list[int] = []

    def run(self, body: Sequence[object], at: Mapping[str, int]) -> None:
        for each in body:
            if isinstance(each, Loop):
                for index in range(each.first, each.end):
                    self.run(each.body, {**at, each.dim: index})
            elif isinstance(each, Move):
                where = self._where(each.part, at)
                requests = self.writes if each.stores else self.reads
                requests += _requests_for(each.tensor, where)
                home = self.homes[each.tensor.name]
                if each.home is not None:
                    home = self.buffers[each.home].reshape(each.tensor.shape)
                if each.stores and each.home is not None:
                    home[where] = self.buffers[each.buffer].reshape(home[where].shape)
                elif each.stores:
                    self._store(each.tensor.name, where, self.buffers[each.buffer])
                else:
                    self.buffers[each.buffer] = home[where].copy()
            elif isinstance(each, StreamMove):
                index = at[each.dim] if each.dim else 0
                slice_of = self._tiles(each, index)
                requests = self.writes if each.stores else self.reads
                if each.is_row:
                    requests += each.layout.tile_request_bytes[index :: each.layout.rows]
                else:
                    requests.append(each.layout.column_request_bytes[index])
                here = self._buffer(each.buffer, each.turns, at)
                if each.stores:
                    self._store(each.tensor, slice_of, self.buffers[here])
                elif each.turns is None or index == 0:
                    self.buffers[here] = self.homes[each.tensor][slice_of].copy()
                if each.turns is not None and not each.stores and index + 1 < each.layout.columns:
                    after = self._buffer(each.buffer, each.turns, {each.dim: index + 1})
                    slice_of = self._tiles(each, index + 1)
                    self.buffers[after] = self.homes[each.tensor][slice_of].copy()
            elif isinstance(each, Lookup):
                self._look_up(each, at)
            else:
                assert isinstance(each, KernelCall)
                self._call(each, at)

    def _look_up(self, lookup: Lookup, at: Mapping[str, int]) -> None:
        ids = self._operand(lookup.ids, at, (lookup.count,)).astype(int)
        table = self.homes[lookup.table]
        rows = np.array([table[i] if 0 <= i < len(table) else 0 * table[0] for i in ids])
        self.reads += [lookup.layout.request_bytes] * lookup.count
        if lookup.output.buffer is not None:
            self.buffers[lookup.output.buffer] = rows
            return
        begin = self._offset(lookup.output, at)
        for flat in (self.homes, self.complete):
            value = rows.ravel() if flat is self.homes else True
            flat[lookup.output.tensor].reshape(-1)[begin : begin + rows.size] = value

    def _tiles(self, move: StreamMove, index: int) -> tuple[slice, ...]:
        layout = move.layout
        if layout.tiles == 1:
            return (slice(None),)
        count = layout.tile_outputs if move.is_row else layout.tile_inputs
        part = slice(index * count, (index + 1) * count)
        by_outputs = move.is_row or layout.outputs == 1  # or the weight is one row
        return (part,) if by_outputs else (slice(None), part)

    def _where(self, part: Sequence[AxisSpan], at: Mapping[str, int]) -> tuple[slice, ...]:
        firsts = [s.first + (s.scale * at[s.dim] if s.dim else 0) for s in part]
        assert all(first >= 0 for first in firsts)
        return tuple(slice(f, f + s.count) for f, s in zip(firsts, part, strict=True))

    def _store(self, name: str, where: tuple[slice, ...], value: Array) -> None:
        assert not self.complete[name][where].any(), "an element is written twice"
        self.homes[name][where] = value
        self.complete[name][where] = True

    def _call(self, call: KernelCall, at: Mapping[str, int]) -> None:
        op, kind = call.op, kind_of(call.op)
        inputs = [self._operand(call.places[name], at, self.shapes[name]) for name in op.inputs]
        updates = [self._operand(call.places[name], at, self.shapes[name]) for name in op.updates]
        output, *rest = [*([op.output] if op.output else []), *op.updates]
        results = kind.results(op, inputs, updates)
        for name, value in zip((output, *rest), results, strict=True):
            place = call.places[name]
            if place.buffer is not None and not place.offsets:
                self.buffers[self._buffer(place.buffer, place.turns, at)] = value
            elif place.buffer is not None:
                begin = self._offset(place, at)
                whole = np.full_like(self.homes[place.tensor], np.nan)  # a result that is kept
                here = self._buffer(place.buffer, place.turns, at)
                buffer = self.buffers.setdefault(here, whole).reshape(-1)
                buffer[begin : begin + value.size] = value.flatten()
            else:
                home = self.homes[place.tensor].reshape(-1)
                begin = self._offset(place, at)
                home[begin : begin + value.size] = value.reshape(-1)
                done = self.complete[place.tensor].reshape(-1)
                before = done[begin : begin + value.size]
                assert before.all() if isinstance(kind, ContinuedKind) else not before.any()
                done[begin : begin + value.size] = True

    def _offset(self, place: OperandPlace, at: Mapping[str, int]) -> int:
        return sum((at[dim] if dim else 1) * elements for dim, elements in place.offsets)

    def _buffer(self, first: int, turns: BufferTurns | None, at: Mapping[str, int]) -> int:
        """The buffer that has its turn."""
        return first if turns is None else first + at[turns.dim] % 2 * turns.apart

    def _operand(self, place: OperandPlace, at: Mapping[str, int], shape: tuple[int, ...]) -> Array:
        begin = self._offset(place, at)
        if place.buffer is None:
            home = self.homes[place.tensor]
        else:
            home = self.buffers[self._buffer(place.buffer, place.turns, at)]
        flat = home.reshape(-1)
        return flat[begin : begin + math.prod(shape)].reshape(shape)


def _requests_for(tensor: Tensor, where: tuple[slice, ...]) -> list[int]:
    """Requests for the tiles in which a part of a tensor lies; none of one that is in RAM."""
    if not tensor.tile:
        return []
    _, rows, elements = tensor.image
    flat = np.arange(math.prod(tensor.shape)).reshape(tensor.shape)[where].ravel()
    channel, rest = np.divmod(flat + tensor.offset_bytes // 4, rows * elements)
    tile_channels, tile_rows = tensor.tile
    tiles = {*zip(channel // tile_channels, rest // elements // tile_rows, strict=True)}
    return [image_layout(tensor).request_bytes] * len(tiles)


def _assert_moves_what_is_said(machine: Machine, nest: Nest) -> None:
    assert nest_traffic(nest) == TileTraffic(Counter(machine.reads), Counter(machine.writes))
    requests = [*machine.reads, *machine.writes]
    assert nest_moved(nest) == (sum(requests), len(requests))


TILED = [(case, tile, 1) for case in CASES for tile in ((1, 2), (2, 4))]
TILED += [(case, (2, 4), 2) for case in CASES if case not in VECTORS]  # batches are of images


@pytest.mark.parametrize(("case", "tile", "batch"), TILED)
def test_all_pieces_of_an_op_give_the_whole(case: str, tile: tuple[int, int], batch: int) -> None:
    op, tensors = graph_of(case, tile, batch)
    rng = np.random.default_rng(3)
    values = {n: rng.normal(size=t.shape) for n, t in tensors.items()}
    for position in kind_of(op).positive:
        values[op.inputs[position]] = np.abs(values[op.inputs[position]])
    whole = kind_of(op).results(op, [values[n] for n in op.inputs], [values[n] for n in op.updates])
    written = [*([op.output] if op.output else []), *op.updates]
    search = PieceSearch()
    choices = search.choices(op, tensors)
    assert choices
    assert len({choice.workspace_bytes for choice in choices}) == len(choices)
    for choice in choices:
        candidate = pieced(op, choice.pieces)
        kind = kind_of(candidate)
        assert isinstance(kind, PiecedOp)
        nest = kind.nest_of(candidate, tensors)
        machine = Machine(values, written)
        machine.shapes = {t.name: t.shape for t in nest.graph.tensors}
        machine.run(nest.body, {})
        for name, value in zip(written, whole, strict=True):
            assert machine.complete[name].all()
            np.testing.assert_allclose(machine.homes[name], value, rtol=1e-12, atol=1e-13)
        _assert_moves_what_is_said(machine, nest)
        assert nest.workspace_bytes == choice.workspace_bytes
        stored = [name for name in written if tensors[name].tile]
        assert sum(machine.writes) == sum(image_layout(tensors[n]).stored_bytes for n in stored)
        assert nest.workspace_bytes >= max(
            (image_layout(t).request_bytes for t in tensors.values() if t.tile), default=0
        )


@pytest.mark.parametrize("case", ["conv2d", "conv2d by 2", "dX", "dX by 2"])
@pytest.mark.parametrize("rows", [1, 2, 3])
def test_rows_are_those_of_the_whole_computed_from_their_window(case: str, rows: int) -> None:
    kind, shapes, output, attributes, _ = CASES[case]
    rng, op = np.random.default_rng(4), Op("op", kind, ("a", "b"), "c", attributes)
    values = [rng.normal(size=shape) for shape in shapes[:2]]
    of_images = [len(shape) == 4 and shape[0] == 1 for shape in shapes].index(True)
    (whole,) = kind_of(op).results(op, values, [])
    piece = (*output[:2], rows, output[3])
    ends = Tensor("c", output), Tensor("c", piece)
    own = kind_of(op).piece_attributes(op, *ends)
    for first in range(0, output[2], rows):
        window = kind_of(op).row_window(op, shapes, first, rows)
        alone = replace(op, attributes={**attributes, **own, "padding": window.padding})
        seen = slice(window.first, window.first + window.count)
        read = [value[:, :, seen] if i == of_images else value for i, value in enumerate(values)]
        (found,) = kind_of(op).results(alone, read, [])
        np.testing.assert_allclose(found, whole[:, :, first : first + rows], rtol=1e-12)


def test_windows_of_a_stored_tensor_are_parts_of_its_image() -> None:
    """Queries, keys and values lie one behind the other: a layer reads one of them."""
    base = replace(stored("all", (3, 8, 12), (4, 6)), role=Role.ACTIVATION)
    values = np.random.default_rng(3).normal(size=(3, 8, 12))
    w = np.random.default_rng(4).normal(size=(6, 12))
    for number in range(3):
        window = replace(base, name="x", shape=T, base="all", offset_bytes=number * 8 * 12 * 4)
        tensors = {"all": base, "x": window, "y": stored("y", U, (4, 3)), "w": Tensor("w", w.shape)}
        op = Op("op", "linear", ("x", "w"), "y")
        for choice in PieceSearch().choices(op, tensors):
            candidate = pieced(op, choice.pieces)
            kind = KINDS[candidate.kind]
            assert isinstance(kind, PiecedOp)
            nest = kind.nest_of(candidate, tensors)
            machine = Machine({"x": values[number], "w": w, "y": np.zeros(U)}, ["y"])
            machine.shapes = {t.name: t.shape for t in nest.graph.tensors}
            machine.run(nest.body, {})
            np.testing.assert_allclose(machine.homes["y"], values[number] @ w.T)
            for move, part in stored_moves(nest.body):
                if move.tensor.name == "x":  # counted in channels of all three
                    assert dict(part.channels)[""] == number * 8
                    assert part.channel_count <= 8


def stored_moves(body: Sequence[object]) -> list[tuple[Move, ImagePart]]:
    """Moves of stored tensors within statements, with their parts of images."""
    found: list[tuple[Move, ImagePart]] = []
    for each in body:
        if isinstance(each, Loop):
            found += stored_moves(each.body)
        elif isinstance(each, Move) and each.tensor.tile:
            found.append((each, image_part(each.tensor, each.part)))
    return found


@pytest.mark.parametrize(
    ("shape", "part", "says"),
    [
        ((4, 6, 2), (AxisSpan(4), AxisSpan(6), AxisSpan(1, "d", 1)), "ranges of rows"),
        ((48,), (AxisSpan(24, "a", 24),), "does not lie along"),
    ],
)
def test_parts_that_are_not_ranges_of_an_image_are_refused(
    shape: tuple[int, ...], part: tuple[AxisSpan, ...], says: str
) -> None:
    seen = replace(stored("t", (4, 12), (2, 4)), shape=shape)
    with pytest.raises(ModelError, match=says):
        image_part(seen, part)


def test_the_traffic_falls_with_the_workspace() -> None:
    op, tensors = graph_of("conv2d", (1, 2))
    choices = PieceSearch().choices(op, tensors)
    costs = [choice.cost for choice in choices]
    assert len(choices) > 3
    assert costs == sorted(costs, reverse=True)
    x, y = (image_layout(tensors[name]).stored_bytes for name in ("t0", op.output))
    last = pieced(op, choices[-1].pieces)
    assert KINDS[last.kind].traffic(last, _graph(last, tensors)).read_bytes == x  # type: ignore[attr-defined]
    assert y > 0


def _graph(op: Op, tensors: Mapping[str, Tensor]) -> Graph:
    return Graph("g", tuple(tensors.values()), (op,), op.output or op.inputs[0])


def test_pieces_that_do_not_divide_a_result_are_refused() -> None:
    op, tensors = graph_of("conv2d", (1, 2))
    for cut, says in (((5,), "does not divide"), ((3,), "are not whole tiles")):
        candidate = pieced(op, Pieces("r", cut))
        with pytest.raises(ModelError, match=says):
            KINDS[candidate.kind].nest_of(candidate, tensors)  # type: ignore[attr-defined]


def test_a_layout_gives_back_what_it_stores() -> None:
    tensor = Tensor("t", (1, 6, 8, 5), tile=(2, 4), image=(6, 8, 5))
    layout = image_layout(tensor)
    values = np.arange(240, dtype="<f4").reshape(6, 8, 5)
    raw = b""
    for row in range(0, 8, 4):
        for channel in range(0, 6, 2):
            tile = values[channel : channel + 2, row : row + 4].tobytes()
            assert len(tile) == layout.tile_bytes <= layout.request_bytes - TRAILER_BYTES
            raw += tile.ljust(layout.request_bytes, b"\xff")
    assert len(raw) == layout.stored_bytes
    assert layout.payload(raw) == values.tobytes()


@pytest.mark.parametrize("attributes", [CONV, BY_2, POINTWISE_BY_2])
def test_no_pieces_have_less_traffic_than_the_bound(attributes: Mapping[str, object]) -> None:
    """A convolution with stride 2 may leave out rows of its input."""
    kernel = 1 if attributes is POINTWISE_BY_2 else 3
    w = Tensor("w", (6, 4, kernel, kernel), role=Role.PARAMETER)
    x, y = stored("x", X, (2, 1)), stored("y", Y if attributes is CONV else HALF, (2, 1))
    op = Op("op", "streamed_conv2d", ("x", "w"), "y", {**attributes, "tile": (6, 4)})
    search, tensors = PieceSearch(), {"x": x, "w": w, "y": y}
    excess, least = search.bound(op, tensors, 0)
    for choice in search.choices(op, tensors):
        assert choice.cost >= least
        assert choice.workspace_bytes >= excess


def streamed_backward() -> tuple[Op, dict[str, Tensor]]:
    """A streamed layer's backward op and its tensors, with all images stored."""
    w = Tensor("w", W, role=Role.PARAMETER)
    m = replace(w, name="m", role=Role.STATE)
    x, dx, dy = stored("x", X, (2, 4)), stored("dx", X, (2, 4)), stored("dy", Y, (2, 4))
    attributes = {**CONV, **SGD, "input_shape": X, "weight_shape": W, "tile": (3, 2)}
    kind = "streamed_conv2d_backward_sgd"
    op = Op("op", kind, ("w", "x", "dy"), "dx", attributes, ("w", "m"), backward=True)
    return op, {t.name: t for t in (w, m, x, dy, dx)}


def test_streamed_moves_are_of_whole_columns() -> None:
    """A backward op loads each column of the weight and its state once, and stores it once."""
    op, tensors = streamed_backward()
    for choice in PieceSearch().choices(op, tensors):
        candidate = pieced(op, choice.pieces)
        *kept, loop = KINDS[candidate.kind].nest_of(candidate, tensors).body  # type: ignore[attr-defined]
        assert [move.tensor.name for move in kept] == ["dy"] * len(choice.pieces.kept)
        assert (loop.dim, loop.end) == ("i", 2)
        moves = [each for each in loop.body if isinstance(each, StreamMove)]
        assert [(move.tensor, move.stores) for move in moves] == [
            ("w", False),
            ("m", False),
            ("m", True),
            ("w", True),
        ]


LAYERS = {
    "linear": ((4,), (6,), (6, 4), {}),
    "conv2d": (X[1:], Y[1:], W, CONV),
}
"""Shapes of a sample of the input, of the output, and of the weight."""


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("tile", [(3, 2), (6, 2), (2, 4), (6, 4), (2,), (6,)])
@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("family", LAYERS)
@pytest.mark.parametrize("ahead", [0, 1])
def test_a_streamed_layer_gives_the_whole(
    family: str, tile: tuple[int, ...], batch: int, gradient: bool, ahead: int
) -> None:
    x_shape, y_shape, w_shape, attributes = LAYERS[family]
    shapes = {"x": (batch, *x_shape), "y": (batch, *y_shape), "w": w_shape, "b": (6,)}
    tensors = {name: Tensor(name, shape) for name, shape in shapes.items()}
    tensors["w"] = replace(tensors["w"], role=Role.PARAMETER)
    tensors |= {"m": replace(tensors["w"], name="m"), "dx": replace(tensors["x"], name="dx")}
    forward = {**attributes, "tile": tile, "loaded": (2,), "ahead": ahead}
    backward = {**attributes, **SGD, "tile": tile, "ahead": ahead}
    if attributes:
        backward |= {"input_shape": shapes["x"], "weight_shape": w_shape}
    dx = "dx" if gradient else None
    kind = f"streamed_{family}_backward_sgd"
    ops = [
        Op("forward", f"streamed_{family}", ("x", "w", "b"), "y", forward),
        Op("backward", kind, ("w", "x", "y"), dx, backward, ("w", "m"), backward=True),
    ]
    if dx is not None:
        frozen = {name: value for name, value in backward.items() if name not in SGD}
        kind = f"streamed_{family}_backward_input"
        ops.append(Op("back", kind, ("w", "y"), dx, frozen, backward=True))
    for op in ops:
        rng = np.random.default_rng(3)
        values = {name: rng.normal(size=tensor.shape) for name, tensor in tensors.items()}
        streamed = KINDS[op.kind]
        assert isinstance(streamed, StreamedKind)
        nest = streamed.nest_of(op, tensors)
        assert nest_moved(nest) == streamed.loads(op, tensors).moved
        written = [*([op.output] if op.output else []), *op.updates]
        machine = Machine(values, written)
        machine.shapes = {t.name: t.shape for t in nest.graph.tensors}
        machine.run(nest.body, {})
        _assert_moves_what_is_said(machine, nest)
        for plain in streamed.plain(op):
            results = kind_of(plain).results(
                plain, [values[n] for n in plain.inputs], [values[n] for n in plain.updates]
            )
            names = [*([plain.output] if plain.output else []), *plain.updates]
            for name, value in zip(names, results, strict=True):
                assert machine.complete[name].all()
                np.testing.assert_allclose(machine.homes[name], value, rtol=1e-12, atol=1e-13)


def test_an_op_ends_when_the_slices_that_it_stores_have_arrived() -> None:
    """Buffers of its workspace are others' afterwards."""
    tensors = {name: Tensor(name, (1, 4)) for name in ("x", "dx")}
    tensors |= {"y": Tensor("y", (1, 6))}
    tensors |= {name: Tensor(name, (6, 4), role=Role.PARAMETER) for name in ("w", "m")}
    attributes = {**SGD, "tile": (6, 2), "ahead": 1}
    kind = "streamed_linear_backward_sgd"
    op = Op("op", kind, ("w", "x", "y"), "dx", attributes, ("w", "m"), backward=True)
    nest = KINDS[op.kind].nest_of(op, tensors)  # type: ignore[attr-defined]
    code = NestCode(nest, str, str, str, "W", lambda *each: [], "").statement()
    words = " ".join(code.split())
    first, second = "(float *)W + 0u + i % 2u * 260u", "(float *)W + 0u + (i + 1u) % 2u * 260u"
    assert f"poet_stream_ahead(w, i, {first}, {second})" in words
    assert f"poet_stream_put_begin(w, i, {first})" in words
    assert words.endswith("POET_TRY(poet_storage_wait());")


STORED_LAYERS = {
    "linear": (T, U, (6, 12), {}, (2, 1)),
    "linear in runs": ((8, 64), U, (6, 64), {}, (2, 1)),
    "conv2d": (X, Y, W, CONV, (1, 4)),
    "conv2d of two": ((2, *X[1:]), (2, *Y[1:]), W, CONV, (1, 4)),
}
"""Shapes of input, output and weight, attributes, and tiles of input and output."""


@pytest.mark.parametrize(
    "case", [*product(STORED_LAYERS, [(3, 2), (6, 2), (6, 4), (3,), (2,), (1,)])], ids=str
)
def test_all_pieces_of_a_streamed_layer_give_the_whole(case: tuple[str, tuple[int, ...]]) -> None:
    """Sums over the channels of a slice of the weight go on from slice to slice."""
    layer, tile = case
    family = layer.partition(" ")[0]
    x_shape, y_shape, w_shape, attributes, own = STORED_LAYERS[layer]
    if layer == "linear in runs":
        tile = tuple(16 * each if at else each for at, each in enumerate(tile))
    w, b = Tensor("w", w_shape, role=Role.PARAMETER), Tensor("b", (6,), role=Role.PARAMETER)
    x, dx = (stored(name, x_shape, own) for name in ("x", "dx"))
    y, m = stored("y", y_shape, own), replace(w, name="m", role=Role.STATE)
    tensors = {t.name: t for t in (x, w, b, y, m, dx)}
    rng = np.random.default_rng(3)
    values = {name: rng.normal(size=tensor.shape) for name, tensor in tensors.items()}
    given = {**attributes, "tile": tile}
    shapes = {"input_shape": x_shape, "weight_shape": w_shape} if attributes else {}
    kind = f"streamed_{family}_backward_sgd"
    ops = [
        Op("forward", f"streamed_{family}", ("x", "w", "b"), "y", given),
        Op("backward", kind, ("w", "x", "y"), "dx", {**given, **SGD, **shapes}, ("w", "m")),
    ]
    continued = set()
    for op in ops:
        for choice in PieceSearch(continues=True).choices(op, tensors):
            candidate = pieced(op, choice.pieces)
            pieced_kind = KINDS[candidate.kind]
            assert isinstance(pieced_kind, PiecedOp)
            nest = pieced_kind.nest_of(candidate, tensors)
            written = [op.output or "", *op.updates]
            machine = Machine(values, written)
            machine.shapes = {t.name: t.shape for t in nest.graph.tensors}
            machine.run(nest.body, {})
            _assert_moves_what_is_said(machine, nest)
            size_bytes, requests = nest_moved(nest)
            assert choice.cost == size_bytes + REQUEST_BYTES * requests
            assert nest.workspace_bytes == choice.workspace_bytes
            if any(isinstance(kind_of(each), ContinuedKind) for each in nest.graph.ops):
                continued.add(op.name)
            for plain in pieced_kind.plain(candidate):
                results = kind_of(plain).results(
                    plain, [values[n] for n in plain.inputs], [values[n] for n in plain.updates]
                )
                for name, value in zip(results_of(plain), results, strict=True):
                    assert machine.complete[name].all()
                    np.testing.assert_allclose(machine.homes[name], value, rtol=1e-12, atol=1e-13)
    by_columns = layer != "linear" and len(tile) == 2 and tile[1] < w_shape[1]
    assert ("forward" in continued) == by_columns
    assert ("backward" in continued) == (len(tile) == 1 or layer != "linear in runs")


@pytest.mark.parametrize("shape", [(5,), (2, 5), (1, 2, 5)])
@pytest.mark.parametrize("in_storage", [False, True])
def test_rows_of_a_table_are_looked_up(shape: tuple[int, ...], in_storage: bool) -> None:
    """Numbers beyond the table give zeros, and are transfers, too."""
    ids, table = Tensor("ids", shape), Tensor("table", (7, 3), role=Role.CONSTANT)
    tile = (1, 1 if len(shape) == 3 else 3)  # of four axes, rows are the third
    y = stored("y", (*shape, 3), tile) if in_storage else Tensor("y", (*shape, 3))
    tensors = {tensor.name: tensor for tensor in (ids, table, y)}
    values = {name: np.arange(t.elements, dtype=float) for name, t in tensors.items()}
    values["ids"] = np.resize([3.0, 6, 7, -1, 0], shape)
    values = {name: value.reshape(tensors[name].shape) for name, value in values.items()}
    op = Op("op", "streamed_embedding", ("ids", "table"), "y")
    if in_storage:
        op = PieceSearch().choose(op, tensors, 1 << 20)
    kind = KINDS[op.kind]
    assert isinstance(kind, StreamedKind)
    nest = kind.nest_of(op, tensors)
    machine = Machine(values, ["y"])
    machine.run(nest.body, {})
    (plain,) = kind.plain(op)
    given = [values["ids"].astype(int), values["table"]]
    (whole,) = kind_of(plain).results(plain, given, [])
    assert machine.complete["y"].all()
    assert (machine.homes["y"] == whole).all()
    assert machine.reads.count(512) == ids.elements
    _assert_moves_what_is_said(machine, nest)


def test_an_input_that_each_column_needs_may_be_loaded_once_and_kept() -> None:
    op, tensors = streamed_backward()
    rng = np.random.default_rng(3)
    values = {name: rng.normal(size=tensor.shape) for name, tensor in tensors.items()}
    back, update = KINDS[op.kind].plain(op)  # type: ignore[attr-defined]
    (dx,) = kind_of(back).results(back, [values[n] for n in back.inputs], [])
    w, m = kind_of(update).results(update, [values["x"], values["dy"]], [values["w"], values["m"]])
    found: dict[bool, set[int]] = {False: set(), True: set()}
    for choice in PieceSearch().choices(op, tensors):
        candidate = pieced(op, choice.pieces)
        kind = KINDS[candidate.kind]
        assert isinstance(kind, PiecedOp)
        nest = kind.nest_of(candidate, tensors)
        machine = Machine(values, ["w", "m", "dx"])
        machine.shapes = {t.name: t.shape for t in nest.graph.tensors}
        machine.run(nest.body, {})
        for name, whole in (("dx", dx), ("w", w), ("m", m)):
            assert machine.complete[name].all()
            np.testing.assert_allclose(machine.homes[name], whole, rtol=1e-12, atol=1e-13)
        _assert_moves_what_is_said(machine, nest)
        assert nest.workspace_bytes == choice.workspace_bytes
        size_bytes, requests = nest_moved(nest)
        assert choice.cost == size_bytes + REQUEST_BYTES * requests
        found[bool(choice.pieces.kept)].add(sum(machine.reads))
    dy, x = (image_layout(tensors[name]).stored_bytes for name in ("dy", "x"))
    columns = sum(
        sum(layout.column_request_bytes)
        for layout in kind.layouts(candidate, _graph(candidate, tensors)).values()
    )
    assert min(found[True]) == columns + x + dy
    assert min(found[False]) >= columns + x + 2 * dy


def test_a_given_sample_is_loaded_in_parts_and_the_others_are_zeros() -> None:
    """A prediction has one sample, in a batch of three if the network fixes the batch size."""
    load = Op("load", "load_x", (), "x", {"shape": (3, 2, 4, 5)})
    x = replace(stored("x", (3, 2, 4, 5), (1, 2)), role=Role.INPUT)
    candidate = pieced(load, Pieces("cr", (1, 2)))
    nest = KINDS[candidate.kind].nest_of(candidate, {"x": x})  # type: ignore[attr-defined]
    assert [*sample_parts(nest.body, {})] == [(at, 40) for at in (0, 40, 80, 120)]

    def arguments(op: Op, kernel: Kernel, place: Callable[[str], str]) -> list[str]:
        tensor, *numbers = kernel.arguments
        assert isinstance(tensor, str)
        return [place(tensor), *map(str, numbers)]

    code = NestCode(nest, str, str, str, "W", arguments, "given").statement()
    words = " ".join(code.split())
    assert "memcpy((float *)W + 0u, given + 0 + c * 80u + r * 40u, 40);" in words
    assert "memset((uint8_t *)((float *)W + 0u) + 40, 0, 2 * 40);" in words
    put = (
        "poet_stored_put(x, c + range * 2u, 1u, r * 2u, 2u, (float *)W + 0u + range * 10u, "
        "(float *)W + "
    )
    assert put in words


def chain(
    *ops: tuple[str, tuple[str, ...], str | None, dict[str, object], tuple[str, ...]],
) -> Op:
    """Joined ops; others read the output `y`."""
    made = [
        Op(f"op{k}", kind, inputs, output, attributes, updates)  # type: ignore[arg-type]
        for k, (kind, inputs, output, attributes, updates) in enumerate(ops)
    ]
    joined = join(made, ["y"])
    assert joined is not None
    return joined


PAIR = ("pair", "state")
LAYER = {**SGD, "tile": (6, 4)}
CHAINS = {
    "norm, add, ReLU": (
        chain(
            ("batch_norm_normalize", ("x", "s", "pair"), "n", NORM, ()),
            ("add", ("n", "z"), "a", {}, ()),
            ("relu", ("a",), "y", {}, ()),
        ),
        {"x": X, "z": X, "y": X},
        {"s": (2, 4), "pair": (2, 4)},
    ),
    "gradients of ReLU and norm, with the update": (
        chain(
            ("add", ("g", "h"), "dy", {}, ()),
            ("relu_backward", ("z", "dy"), "d", {}, ()),
            ("batch_norm_backward_affine", ("x", "s", "d"), "da", NORM, ()),
            ("batch_norm_backward_input", ("x", "s", "pair", "da", "d"), "y", NORM, ()),
            ("sgd", ("da",), None, SGD, PAIR),
        ),
        {"x": X, "g": X, "h": X, "z": X, "y": X},
        {"s": (2, 4), "pair": (2, 4), "state": (2, 4)},
    ),
    "an input, and a result, of which others need all": (
        chain(
            ("relu", ("x",), "a", {}, ()),
            ("add", ("a", "x"), "y", {}, ()),
            ("scale", ("y",), "b", {"factor": 0.5}, ()),
            ("conv2d_backward_bias", ("b",), "db", {}, ()),
            ("sgd", ("db",), None, SGD, PAIR),
        ),
        {"x": X, "y": X},
        {"pair": (4,), "state": (4,)},
    ),
    "only an update": (
        chain(
            ("relu_backward", ("z", "g"), "d", {}, ()),
            ("conv2d_backward_bias", ("d",), "db", {}, ()),
            ("sgd", ("db",), None, SGD, PAIR),
        ),
        {"g": X, "z": X},
        {"pair": (4,), "state": (4,)},
    ),
    "attention": (
        chain(
            ("transpose", ("t",), "q", AS_HEADS, ()),
            ("scale", ("q",), "r", {"factor": 0.5}, ()),
            ("matmul", ("r", "k"), "p", {"transpose_a": 0, "transpose_b": 1}, ()),
            ("softmax", ("p",), "y", {}, ()),
        ),
        {"t": T, "k": HEADS, "y": SCORES},
        {},
    ),
    "a streamed layer's gradients and an activation's": (
        chain(
            ("streamed_linear_backward_sgd", ("pair", "x", "dy"), "dx", LAYER, PAIR),
            ("gelu_backward", ("z", "dx"), "y", {}, ()),
        ),
        {"x": T, "z": T, "dy": U, "y": T},
        {"pair": (6, 12), "state": (6, 12)},
    ),
}
"""Joined ops, shapes of their stored tensors, and of others."""


def drawn_chain(name: str) -> tuple[Op, dict[str, Tensor], dict[str, Array]]:
    """A joined op, its tensors, and values of these."""
    op, in_storage, others = CHAINS[name]
    tensors = {}
    for n, shape in in_storage.items():
        extents = shape[1:3] if len(shape) == 4 else shape[-2:]
        channels, rows = (math.gcd(2, extent) for extent in extents)
        tensors[n] = stored(n, shape, (channels, rows))
    roles = {"pair": Role.PARAMETER, "state": Role.STATE}
    tensors |= {n: Tensor(n, s, role=roles.get(n, Role.ACTIVATION)) for n, s in others.items()}
    rng = np.random.default_rng(5)
    values = {n: rng.normal(size=t.shape) for n, t in tensors.items()}
    if "s" in values:
        values["s"] = np.abs(values["s"])
    return op, tensors, values


@pytest.mark.parametrize("name", CHAINS)
def test_all_pieces_of_joined_ops_give_the_whole(name: str) -> None:
    op, tensors, values = drawn_chain(name)
    known = {n: value.copy() for n, value in values.items()}
    for part in op.joined:  # one after the other
        updates = [known[n] for n in part.updates]
        result = kind_of(part).compute(part, [known[n] for n in part.inputs], updates)
        if part.output is not None:
            assert result is not None
            known[part.output] = result
    written = results_of(op)
    inputs, updates = ([values[n] for n in names] for names in (op.inputs, op.updates))
    for n, value in zip(written, kind_of(op).results(op, inputs, updates), strict=True):
        np.testing.assert_array_equal(value, known[n])
    cut = 0
    for choice in PieceSearch(continues=True).choices(op, tensors):
        candidate = pieced(op, choice.pieces)
        kind = kind_of(candidate)
        assert isinstance(kind, PiecedOp)
        nest = kind.nest_of(candidate, tensors)
        machine = Machine(values, written)
        machine.shapes = {t.name: t.shape for t in nest.graph.tensors}
        machine.run(nest.body, {})
        for n in written:
            assert machine.complete[n].all()
            np.testing.assert_allclose(machine.homes[n], known[n], rtol=1e-12, atol=1e-13)
        _assert_moves_what_is_said(machine, nest)
        assert nest.workspace_bytes == choice.workspace_bytes
        moved = {move.tensor.name for move, _ in stored_moves(nest.body)}
        assert moved == {n for n, tensor in tensors.items() if tensor.tile}, "none between them"
        cut += bool(choice.pieces.loops)
    assert cut, "no pieces"


@pytest.mark.parametrize("name", CHAINS)
def test_bounds_of_joined_ops_hold_in_float32(name: str) -> None:
    """And a factor of 1.001 is beyond them."""
    op, _, drawn = drawn_chain(name)
    values = {n: value.astype(np.float32) for n, value in drawn.items()}
    exact = {n: value.astype(np.float64) for n, value in values.items()}
    kind = kind_of(op)
    operands = (op.inputs, op.updates)
    bounds = kind.error_bounds(op, *([exact[n] for n in names] for names in operands))
    right = kind.results(op, *([exact[n] for n in names] for names in operands))
    found = kind.results(op, *([values[n] for n in names] for names in operands))
    for a, b, bound in zip(right, found, bounds, strict=True):
        assert b.dtype == np.float32
        assert (np.abs(a - b) <= bound).all()
        assert (np.abs(a * 1.001 - a) > bound).any()


def test_ops_with_two_outputs_are_not_joined() -> None:
    ops = [Op("a", "relu", ("x",), "y"), Op("b", "relu", ("y",), "z")]
    assert join(ops, ["z"]) is not None
    assert join(ops, ["y", "z"]) is None
