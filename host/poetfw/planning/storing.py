# SPDX-License-Identifier: Apache-2.0
"""Choice of the tensors that are stored, and of the tiles of these and of streamed weights.

Tensors of some size or more are stored. For each such size, a few rules give them tiles, smaller
ones where an op does not fit, and an exhaustive search finds the best pieces of each op. Of the
rules with which all ops fit the budget, that with the least traffic is chosen. From there, tiles of
single tensors are changed while that saves traffic; the program found so is a candidate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import product

from poetfw.common.errors import ModelError
from poetfw.common.limits import Deadline, OutOfTime
from poetfw.firmware import BLOCK_BYTES
from poetfw.ir import Graph, Op, Role, Tensor
from poetfw.memory import resident_bytes
from poetfw.ops import kind_of
from poetfw.planning.joining import Joining
from poetfw.planning.pieces import (
    GivenTiles,
    PieceSearch,
    TensorTiles,
    Tile,
    TilePolicy,
    channel_units,
    operand_roots,
    unit_of,
)
from poetfw.planning.tile_descent import TileDescent
from poetfw.training import (
    Program,
    StreamableWeight,
    operands_in_storage,
    storable_tensors,
    store,
    stream,
    streamable_vectors,
    streamable_weights,
    waiting_bytes,
    with_windows,
)

_LARGEST_SHARE = 1 / 8
"""Share of the room that a tile may take."""

_ROWS = (8, 4, 2)
"""Largest numbers of rows of a tile: candidates."""

_FREED_SHARE = 1 / 32
"""Share of the room that a lower threshold must free to be tried."""

_ROUNDS = 3
"""Most rounds of better tiles of stored tensors, and of weights."""

_SMALLEST_TILE = 496
_LARGEST_TILE = 16384
"""Bytes of a tile's payload."""


def stored_candidates(
    program: Program, budget_bytes: int, deadline: Deadline, *, continues: bool
) -> Iterator[Iterator[Program]]:
    """Programs that store tensors, by what they stream: nothing, weights and vectors, weights.

    Of each kind, those with more tensors in RAM come first. Where tensors are stored, RAM for their
    pieces saves more than vectors in RAM.

    Args:
        program: a program in which nothing is streamed or stored.
        budget_bytes: budget of the arena.
        deadline: end of the search: there are no more candidates then.
        continues: True on a board whose sums may be continued (`poetfw.ops.continued`).
    """
    weights, vectors = streamable_weights(program), streamable_vectors(program)
    search = PieceSearch(continues=continues)
    choices = [(_frozen(weights), ()), (weights, vectors), (weights, ())]
    for streamed, loaded in dict.fromkeys(choices if weights else choices[:1]):
        yield _candidates(program, streamed, loaded, budget_bytes, search, deadline)


def least_candidates(
    program: Program, budget_bytes: int, deadline: Deadline, *, stores: bool, continues: bool
) -> list[tuple[int, Callable[[], Program]]]:
    """Programs in the smallest tiles, whose pieces have the least traffic that fits a budget.

    Where a budget holds no pieces of an op, they are those of least RAM. So if none of these
    programs fits, one of them takes the least RAM of all that stream all weights or none; and with
    that, one of them fits.

    Args:
        program: a program in which nothing is streamed or stored.
        budget_bytes: budget of the arena.
        deadline: end of the search.
        stores: True to store activations and gradients, too.
        continues: as for `stored_candidates`.

    Returns:
        Bytes that each program takes at least, the smallest first, and what makes the program; it
        raises `OutOfTime` where the time is over, and `ModelError` where there is no such program.
    """
    weights, vectors = streamable_weights(program), streamable_vectors(program)
    state = {tensor.name for tensor in program.persistent if tensor.role is Role.STATE}
    statistics = tuple(name for name in vectors if name in state)
    sizes = {0, *(tensor.size_bytes for tensor in storable_tensors(program.training))}
    homes = [(_frozen(weights), ()), *((weights, loaded) for loaded in ((), statistics, vectors))]
    search, found = PieceSearch(continues=continues), {}
    for streamed, loaded in dict.fromkeys(homes):
        ones = {each.weight.name: _ones(each) for each in streamed}
        base = stream(program, ones, loaded)
        resident = resident_bytes(base.resident, BLOCK_BYTES)
        room = max(0, budget_bytes - resident)
        for chosen in [_larger(base, size) for size in sorted(sizes)] if stores else [frozenset()]:
            storing = _Storing(program, base, streamed, loaded, chosen, room, search, deadline)
            bound = resident + held_at_once(base, chosen)
            found[streamed, loaded, chosen] = bound, partial(storing.in_tiles, TilePolicy(0, 1))
    return sorted(found.values(), key=lambda each: each[0])


def _candidates(
    program: Program,
    weights: tuple[StreamableWeight, ...],
    loaded: tuple[str, ...],
    budget_bytes: int,
    search: PieceSearch,
    deadline: Deadline,
) -> Iterator[Program]:
    """Programs with these weights and vectors streamed that store tensors over a threshold.

    A batch is stored only if no op could run beside it: storing it moves it once more. A threshold
    is left out if it frees little RAM that the one before, which moves less, does not: of the
    tensors that stay in RAM, what the step holds at once if it neither pages nor recomputes.
    """
    ones = {each.weight.name: _ones(each) for each in weights}
    base = stream(program, ones, loaded)
    room = budget_bytes - resident_bytes(base.resident, BLOCK_BYTES)
    sizes = {base.training.by_name[name].size_bytes for name in _larger(base, 0)}
    batch = {*base.x.names, *base.y.names}
    held_before = math.inf
    for least in sorted(sizes, reverse=True):
        larger = _larger(base, least - 1)
        chosen = larger - batch if held_at_once(base, larger - batch) <= room else larger
        if not chosen or held_at_once(base, chosen) > room:
            continue
        held = max(waiting_bytes(with_windows(base.training, chosen), chosen).values())
        if held <= held_before - _FREED_SHARE * room:
            held_before = held
            storing = _Storing(program, base, weights, loaded, chosen, room, search, deadline)
            found = storing.best()
            if found is not None:
                yield found


def held_at_once(program: Program, stored: Collection[str] = ()) -> int:
    """Bytes of the tensors of one op that are not stored, at most: no room can be smaller."""
    least = 0
    for each in (program.training, program.evaluation):
        graph = with_windows(each, stored)
        for op in graph.ops:
            apart = op.output is not None and not kind_of(op).in_place
            held = (*graph.reads(op), *([op.output or ""] if apart else []))
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
        deadline: end of the search.
        known: tiles of weights that were found, by what they depend on.
    """

    program: Program
    base: Program
    weights: tuple[StreamableWeight, ...]
    loaded: Collection[str]
    chosen: frozenset[str]
    room: int
    search: PieceSearch
    deadline: Deadline
    known: dict[object, tuple[int, ...]] = field(default_factory=dict)

    @cached_property
    def waiting(self) -> dict[str, int]:
        """Bytes that stay in RAM during each op of the evaluation, which pages nothing."""
        return waiting_bytes(with_windows(self.base.evaluation, self.chosen), self.chosen)

    @cached_property
    def windowed(self) -> Graph:
        """The training step in which nothing sees stored tensors in another shape."""
        return with_windows(self.base.training, self.chosen)

    @cached_property
    def plain(self) -> dict[str, Op]:
        """Its ops by name."""
        return {op.name: op for op in self.windowed.ops}

    def best(self) -> Program | None:
        """The program of least traffic that fits; else of those found, that of least RAM.

        If the time is over, it is the best one so far.
        """
        best: tuple[tuple[int, int], Program, dict[str, Tile]] | None = None
        power = 2 ** int(math.log2(self.room * _LARGEST_SHARE))
        for rows in _ROWS:
            policy = TilePolicy(min(_LARGEST_TILE, max(_SMALLEST_TILE, power)), rows)
            before = None
            while policy != before and not self.deadline.has_passed():
                before = policy
                try:
                    streamed, tiles = self._tiles_by(policy)
                    stored = self._stored(streamed, tiles)
                except (ModelError, OutOfTime):
                    policy = policy.halved(self.chosen, _SMALLEST_TILE)
                    continue
                large, cost = self.search.assess(stored.training, self.room)
                evaluated, _ = self.search.assess(stored.evaluation, self.room, self.waiting)
                excess = max((*large.values(), *evaluated.values()), default=0)
                if best is None or (excess, cost) < best[0]:
                    best = (excess, cost), streamed, tiles
                names = {
                    name
                    for graph, ops in ((stored.training, large), (stored.evaluation, evaluated))
                    for op in ops
                    for name in operand_roots(op, graph.by_name)
                }
                policy = policy.halved(names & self.chosen, _SMALLEST_TILE)
        if best is None:
            return None
        (excess, _), streamed, tiles = best
        return self._stored(*((streamed, tiles) if excess else self._better(streamed, tiles)))

    def _better(self, streamed: Program, tiles: dict[str, Tile]) -> tuple[Program, dict[str, Tile]]:
        """Tiles with which ops move less, of stored tensors and of weights in turn."""
        for _ in range(_ROUNDS):
            tiles = self._better_tiles(streamed, tiles)
            before = streamed
            with suppress(OutOfTime):
                streamed = self._streamed_by(GivenTiles(tiles))
            if streamed == before:
                break
        for _ in range(_ROUNDS):
            training = with_windows(streamed.training, self.chosen)
            joining = Joining(training, tiles, self.search, self.room)
            before, streamed = streamed, replace(streamed, training=joining.run(self.deadline))
            if len(streamed.training.ops) == len(before.training.ops):
                break
            tiles = self._better_tiles(streamed, tiles)
        return streamed, tiles

    def _better_tiles(self, streamed: Program, tiles: Mapping[str, Tile]) -> dict[str, Tile]:
        """Tiles with which ops move less than with those, which fit."""
        training, evaluation = (
            with_windows(graph, self.chosen) for graph in (streamed.training, streamed.evaluation)
        )
        units = channel_units(training, evaluation)
        descent = TileDescent(self.search, tiles, units, _LARGEST_TILE)
        descent.add(training, self.room, {})
        descent.add(evaluation, self.room, self.waiting, counts=False)
        return descent.run(self.deadline)

    def in_tiles(self, policy: TilePolicy) -> Program:
        """The program with tiles by a rule, in the pieces and tiles of weights that are best."""
        return self._stored(*self._tiles_by(policy))

    def _streamed_by(self, tiling: TensorTiles) -> Program:
        """The program with streamed weights in the best tiles for those of stored tensors."""
        weights = self.deadline.during(self.weights)
        tiles = {each.weight.name: self.weight_tile(each, tiling) for each in weights}
        return stream(self.program, tiles, self.loaded)

    def _tiles_by(self, policy: TilePolicy) -> tuple[Program, dict[str, Tile]]:
        """The program with streamed weights in the best tiles, and those of stored tensors."""
        streamed = self._streamed_by(policy)
        units = channel_units(streamed.training, streamed.evaluation)
        return streamed, {
            tensor.name: policy.tile_of(tensor, units.get(tensor.name, 0))
            for graph in (streamed.training, streamed.evaluation)
            for tensor in graph.tensors
            if tensor.name in self.chosen
        }

    def _stored(self, streamed: Program, tiles: Mapping[str, Tile]) -> Program:
        return store(
            streamed,
            self.chosen,
            lambda tensor: tiles[tensor.name],
            lambda op, tensors, waiting: self.search.choose(op, tensors, self.room - waiting),
        )

    def weight_tile(self, weight: StreamableWeight, tiling: TensorTiles) -> tuple[int, ...]:
        """The tile of a weight with which the ops of its layer have the least traffic.

        That of a layer that is alike is remembered.
        """
        layer = [self.plain[name] for name in weight.ops]
        seen = [(op.kind, *op.attributes.items(), *self._seen(op, tiling)) for op in layer]
        key = self.waiting.get(weight.forward, 0), tuple(seen)
        if key not in self.known:
            self.known[key] = self._weight_tile(weight, tiling)
        return self.known[key]

    def _seen(self, op: Op, tiling: TensorTiles) -> Iterator[tuple[object, ...]]:
        """Properties of an op's operands on which its pieces depend."""
        names = (*op.inputs, *op.updates, *([op.output] if op.output else ()))
        for name in names:
            tensor = self.windowed.by_name[name]
            root = self.windowed.by_name[tensor.base or name]
            stored = root.name in self.chosen
            tile = (root.shape, tiling.key(root), tensor.offset_bytes) if stored else ()
            yield names.index(name), tensor.shape, tensor.role, tile

    def _weight_tile(self, weight: StreamableWeight, tiling: TensorTiles) -> tuple[int, ...]:
        """The same; tiles are tried in the order of a bound, until no other one can be better."""
        candidates = []
        rooms = self.room - self.waiting.get(weight.forward, 0), self.room
        for tile in _weight_tiles(weight, self.search.continues):
            cases = self.cases(weight, tile, tiling)
            bounds = [
                self.search.bound(*case, room) for case, room in zip(cases, rooms, strict=False)
            ]
            candidates.append((bounds, tile, cases))
        best: tuple[tuple[int, int], tuple[int, ...]] | None = None
        for bounds, tile, cases in sorted(candidates, key=lambda each: (_both(each[0]), each[1])):
            known = list(bounds)
            with suppress(ModelError):
                for number, case in enumerate(cases):
                    if best is not None and (_both(known), tile) > best:
                        break
                    known[number] = self.search.weigh(*case, rooms[number])
                else:
                    found = _both(known), tile
                    best = found if best is None else min(best, found)
        if best is None:
            raise ModelError(f"no tiles of {weight.weight.name!r} fit stored tensors")
        return best[1]

    def cases(
        self, weight: StreamableWeight, tile: tuple[int, ...], tiling: TensorTiles
    ) -> list[tuple[Op, dict[str, Tensor]]]:
        """The ops of a layer with a tile of its weight, and their tensors."""
        layer = [self.plain[name] for name in weight.ops]
        tiled = [replace(op, attributes={**op.attributes, "tile": tile}) for op in layer]
        return [(op, self._tensors(op, tiling)) for op in tiled]

    def _tensors(self, op: Op, tiling: TensorTiles) -> dict[str, Tensor]:
        unit = unit_of(op)
        return operands_in_storage(
            op,
            self.windowed.by_name,
            self.chosen,
            lambda root: tiling.tile_of(root, unit if root.name == op.output else 0),
        )


def _both(ops: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Excess and traffic of two ops: the larger one, and their sum."""
    return max(excess for excess, _ in ops), sum(cost for _, cost in ops)


def _frozen(weights: Sequence[StreamableWeight]) -> tuple[StreamableWeight, ...]:
    """Those that are streamed in any case."""
    return tuple(each for each in weights if each.is_frozen)


def _ones(weight: StreamableWeight) -> tuple[int, ...]:
    """Tile of the fewest channels; slices of outputs where the input needs no gradient."""
    return (1,) if weight.back is None else (1, 1)


def _weight_tiles(weight: StreamableWeight, continues: bool) -> Iterator[tuple[int, ...]]:
    """Tiles of a weight: divisors of its output and input channels, or of the former alone.

    Those of output channels alone are slices with which a gradient of the input is continued.
    """
    outputs, inputs = map(_divisors, weight.weight.shape[:2])
    if weight.back is not None:
        yield from product(outputs, inputs)
    if weight.back is None or continues:
        yield from product(outputs)


def _divisors(extent: int) -> list[int]:
    return [each for each in range(1, extent + 1) if extent % each == 0]
