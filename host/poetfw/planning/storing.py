# SPDX-License-Identifier: Apache-2.0
"""Choice of the tensors that are stored, and of the tiles of these and of streamed weights.

Tensors larger than a threshold are stored. For a few thresholds, and a few sizes of tiles, the best
pieces of each op are found by an exhaustive search; of the sizes with which all ops fit the budget,
that with the least traffic is a candidate.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from poetfw.common.errors import ModelError
from poetfw.firmware import BLOCK_BYTES
from poetfw.ir import Op, Tensor
from poetfw.memory import resident_bytes
from poetfw.ops import TileLayout
from poetfw.ops.streamed import forward_bytes
from poetfw.planning.pieces import PieceSearch, TilePolicy, channel_units
from poetfw.training import (
    Program,
    StreamableWeight,
    storable_tensors,
    store,
    stream,
    streamable_vectors,
    streamable_weights,
)

_THRESHOLDS = (2, 4, 8, 16)
"""Fractions of the room beside resident tensors above which tensors are stored: candidates."""

_TILES = (8, 16, 32, 64)
"""Fractions of the room that a tile may take: candidates."""

_ROWS = (8, 4, 2)
"""Largest numbers of rows of a tile: candidates."""

_SMALLEST_TILE = 496
_LARGEST_TILE = 16384
"""Bytes of a tile's payload."""

_HEIGHTS = 4
"""Number of heights of a weight's tile that are tried for each width."""


def stored_candidates(program: Program, budget_bytes: int) -> Iterator[Iterator[Program]]:
    """Programs that store tensors, by what they stream: nothing, weights and vectors, weights.

    Of each kind, those with more tensors in RAM come first. Where tensors are stored, RAM for their
    pieces saves more than vectors in RAM.

    Args:
        program: a program in which nothing is streamed or stored.
        budget_bytes: budget of the arena.
    """
    weights, vectors = streamable_weights(program), streamable_vectors(program)
    search = PieceSearch()
    choices: list[tuple[tuple[StreamableWeight, ...], tuple[str, ...]]] = [((), ())]
    if weights:
        choices += [(weights, loaded) for loaded in dict.fromkeys((vectors, ()))]
    for streamed, loaded in choices:
        yield _candidates(program, streamed, loaded, budget_bytes, search)


def _candidates(
    program: Program,
    weights: tuple[StreamableWeight, ...],
    loaded: tuple[str, ...],
    budget_bytes: int,
    search: PieceSearch,
) -> Iterator[Program]:
    """Programs with these weights and vectors streamed that store tensors over a threshold."""
    ones = {each.weight.name: _ones(each) for each in weights}
    base = stream(program, ones, loaded) if weights else program
    room = budget_bytes - resident_bytes(base.resident, BLOCK_BYTES)
    tried: set[frozenset[str]] = set()
    for part in _THRESHOLDS if _least_bytes(base) <= room else ():
        chosen = _larger(base, room // part)
        if chosen and chosen not in tried:
            tried.add(chosen)
            found = _Storing(program, base, weights, loaded, chosen, room, search).best()
            if found is not None:
                yield found


def _least_bytes(program: Program) -> int:
    """Bytes of the tensors of one op that cannot be stored, at most: no room is smaller."""
    stored = _larger(program, 0)
    least = 0
    for graph in (program.training, program.evaluation):
        for op in graph.ops:
            held = (*graph.reads(op), *([op.output] if op.output is not None else []))
            tensors = [graph.by_name[name] for name in held if name not in stored]
            least = max(least, sum(t.size_bytes for t in tensors if t.role.transient))
    return least


def _larger(program: Program, threshold_bytes: int) -> frozenset[str]:
    """Names of the tensors that are larger than a threshold, and can be stored in both graphs."""
    graphs = (program.training, program.evaluation)
    storable = [{tensor.name for tensor in storable_tensors(graph)} for graph in graphs]
    return frozenset(
        tensor.name
        for graph in graphs
        for tensor in graph.tensors
        if tensor.size_bytes > threshold_bytes
        and all(
            tensor.name in names
            for names, each in zip(storable, graphs, strict=True)
            if tensor.name in each.by_name
        )
    )


@dataclass(frozen=True)
class _Storing:
    """Search for the tiles of stored tensors and streamed weights.

    Attributes:
        program: the program without streamed weights.
        base: the program with streamed weights, in any tiles.
        weights: the streamed weights.
        loaded: names of the streamed statistics.
        chosen: names of the stored tensors.
        room: bytes beside resident tensors.
        search: the search for pieces.
    """

    program: Program
    base: Program
    weights: tuple[StreamableWeight, ...]
    loaded: Collection[str]
    chosen: frozenset[str]
    room: int
    search: PieceSearch

    def best(self) -> Program | None:
        """The program of least traffic that fits; else of those found, that of least RAM."""
        best: tuple[tuple[int, int], Program] | None = None
        for size_bytes in self._sizes():
            for rows in _ROWS:
                try:
                    stored = self._stored(TilePolicy(size_bytes, rows))
                except ModelError:
                    continue
                excess, cost = self.search.assess(stored.training, self.room)
                excess = max(excess, self.search.assess(stored.evaluation, self.room)[0])
                if best is None or (excess, cost) < best[0]:
                    best = (excess, cost), stored
            if best is not None and best[0][0] == 0:
                break  # smaller tiles have more traffic
        return None if best is None else best[1]

    def _sizes(self) -> list[int]:
        """Payloads of tiles that are tried, the largest first."""
        powers = (2 ** int(math.log2(self.room / part)) for part in _TILES)
        sizes = (min(_LARGEST_TILE, max(_SMALLEST_TILE, power)) for power in powers)
        return list(dict.fromkeys(sizes))

    def _stored(self, policy: TilePolicy) -> Program:
        tiles = {each.weight.name: self._weight_tile(each, policy) for each in self.weights}
        streamed = stream(self.program, tiles, self.loaded) if tiles else self.program
        units = channel_units(streamed.training, streamed.evaluation)
        return store(
            streamed,
            self.chosen,
            lambda tensor: policy.tile_of(tensor, units.get(tensor.name, tensor.shape[1])),
            lambda op, tensors: self.search.choose(op, tensors, self.room),
        )

    def _weight_tile(self, weight: StreamableWeight, policy: TilePolicy) -> tuple[int, ...]:
        """The tile of a weight with which the ops of its layer have the least traffic."""
        graph = self.base.training
        ops = {op.name: op for op in graph.ops}
        layer = [ops[weight.forward], ops[weight.back or weight.apply[0]]]
        found = []
        for tile in _weight_tiles(weight, self.room):
            excess = cost = 0
            for op in layer:
                tensors = self._tensors(op, tile, policy)
                tiled = replace(op, attributes={**op.attributes, "tile": tile})
                try:
                    more, moved = self.search.weigh(tiled, tensors, self.room)
                except ModelError:
                    break
                excess, cost = max(excess, more), cost + moved
            else:
                found.append(((excess, cost), tile))
        if not found:
            raise ModelError(f"no tiles of {weight.weight.name!r} fit stored tensors")
        return min(found)[1]

    def _tensors(self, op: Op, tile: tuple[int, ...], policy: TilePolicy) -> dict[str, Tensor]:
        names = dict.fromkeys((*op.inputs, *op.updates, *([op.output] if op.output else ())))
        tensors = {}
        for name in names:
            tensor = self.base.training.by_name[name]
            if name in self.chosen:
                unit = tensor.shape[1]
                if name == op.output:
                    unit = math.gcd(unit, tile[1] if op.updates else tile[0])
                tensor = replace(tensor, tile=policy.tile_of(tensor, unit))
            tensors[name] = tensor
            if tensor.base is not None:
                tensors[tensor.base] = self.base.training.by_name[tensor.base]
        return tensors


def _ones(weight: StreamableWeight) -> tuple[int, ...]:
    """Tile of the fewest channels; slices of outputs where the input needs no gradient."""
    return (1,) if weight.back is None else (1, 1)


def _weight_tiles(weight: StreamableWeight, room_bytes: int) -> Iterator[tuple[int, ...]]:
    """Tiles of a weight that are tried: columns and rows that fit a room, the largest of these."""
    shape = weight.weight.shape
    by_outputs = weight.back is None

    def fits(layout: TileLayout) -> bool:
        columns = len(weight.group) * max(layout.column_request_bytes)
        return max(columns, forward_bytes(layout, by_outputs)) <= room_bytes

    if by_outputs:
        tiles = [(outputs,) for outputs in _divisors(shape[0])]
        yield from (tile for tile in tiles if tile == (1,) or fits(TileLayout.of(shape, tile)))
        return
    for inputs in _divisors(shape[1]):
        heights = [
            outputs
            for outputs in _divisors(shape[0])
            if (outputs, inputs) == (1, 1) or fits(TileLayout.of(shape, (outputs, inputs)))
        ]
        yield from ((outputs, inputs) for outputs in heights[-_HEIGHTS:])


def _divisors(extent: int) -> list[int]:
    return [each for each in range(1, extent + 1) if extent % each == 0]
