# SPDX-License-Identifier: Apache-2.0
"""Search for better tiles of stored tensors, one tensor at a time.

A rule gives tiles to all tensors, whatever their ops are. A tensor whose tiles are unlike those of
its neighbours is read again for each piece. So tiles of each tensor with a step more or less
channels or rows are tried, and those kept with which the ops that see it move least.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from poetfw.common.errors import ModelError
from poetfw.common.limits import Deadline
from poetfw.ir import Graph, Op
from poetfw.planning.pieces import PieceSearch, Tile, operand_roots, tiles_nearby
from poetfw.training import operands_in_storage

_ROUNDS = 4
"""Most rounds over all tensors."""


@dataclass(frozen=True)
class _Use:
    """An op that sees stored tensors.

    Attributes:
        graph: its graph.
        op: the op.
        room_bytes: limit of its workspace with its operands that are in RAM.
        counts: True if its traffic counts; otherwise it only has to fit.
        names: names of the tensors with tiles that it sees.
        known: excess and traffic that were found, by the tiles of these.
    """

    graph: Graph
    op: Op
    room_bytes: int
    counts: bool
    names: tuple[str, ...]
    known: dict[tuple[Tile, ...], tuple[float, int]] = field(default_factory=dict)


class TileDescent:
    """Descent over the tiles of stored tensors."""

    def __init__(
        self,
        search: PieceSearch,
        tiles: Mapping[str, Tile],
        units: Mapping[str, int],
        most_bytes: int,
    ) -> None:
        """Begin with some tiles.

        Args:
            search: the search for pieces.
            tiles: tiles of all stored tensors, by name.
            units: units of their channels, see `TilePolicy.tile_of`.
            most_bytes: largest payload of a tile.
        """
        self._search, self._tiles, self._units = search, dict(tiles), units
        self._most_bytes = most_bytes
        self._uses: dict[str, list[_Use]] = {name: [] for name in tiles}

    def add(
        self, graph: Graph, room_bytes: int, waiting: Mapping[str, int], *, counts: bool = True
    ) -> None:
        """Add the ops of a graph.

        Args:
            graph: ops, none of which sees a stored tensor in another shape.
            room_bytes: limit of an op's workspace with its operands that are in RAM.
            waiting: bytes that stay in RAM meanwhile, by op.
            counts: False if the ops only have to fit, and their traffic does not count.
        """
        for op in graph.ops:
            names = tuple(name for name in operand_roots(op, graph.by_name) if name in self._uses)
            use = _Use(graph, op, room_bytes - waiting.get(op.name, 0), counts, names)
            for name in names:
                self._uses[name].append(use)

    def run(self, deadline: Deadline) -> dict[str, Tile]:
        """Take better tiles as long as there are any; returns those of all tensors."""
        left = list(self._uses)
        for _ in range(_ROUNDS):
            changed = [name for name in left if self._improve(name, deadline)]
            seeing = {id(use) for name in changed for use in self._uses[name]}
            left = [
                name for name, uses in self._uses.items() if not seeing.isdisjoint(map(id, uses))
            ]
        return self._tiles

    def _improve(self, name: str, deadline: Deadline) -> bool:
        """Take the best tile nearby of a tensor, of equals the smallest; returns if it is new."""
        uses = self._uses[name]
        if not uses or deadline.has_passed():
            return False
        before = self._tiles[name]
        tensor = replace(uses[0].graph.by_name[name], tile=before)
        best = self._weigh(uses), before
        for tile in tiles_nearby(tensor, self._units.get(name, 0), self._most_bytes):
            self._tiles[name] = tile
            best = min(best, (self._weigh(uses), tile))
        self._tiles[name] = best[1]
        return best[1] != before

    def _weigh(self, uses: Sequence[_Use]) -> tuple[float, int]:
        """Bytes by which ops exceed their rooms at most, and the traffic of those that count."""
        most, traffic = 0.0, 0
        for use in uses:
            tiles = tuple(self._tiles[name] for name in use.names)
            if tiles not in use.known:
                use.known[tiles] = self._weigh_one(use)
            excess, cost = use.known[tiles]
            if excess == math.inf:
                return excess, 0
            most, traffic = max(most, excess), traffic + cost * use.counts
        return most, traffic

    def _weigh_one(self, use: _Use) -> tuple[float, int]:
        """Excess and traffic of one op; without limit where it cannot run in pieces."""
        tensors = operands_in_storage(
            use.op, use.graph.by_name, self._tiles, lambda root: self._tiles[root.name]
        )
        try:
            return self._search.weigh(use.op, tensors, use.room_bytes)
        except ModelError:
            return math.inf, 0
