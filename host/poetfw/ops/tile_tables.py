# SPDX-License-Identifier: Apache-2.0
"""The tables of tiles that kernels name, and the choice of each by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache

from poetfw.ir import Graph
from poetfw.kernels import TiledPass, tiling, tilings
from poetfw.ops.base import Kernel, TileTable, kind_of, parts_of

TileChoice = Callable[[TileTable], TiledPass | None]
"""The tiles that a pass runs; None where it runs the plain loop."""


def no_tiles(table: TileTable) -> TiledPass | None:
    """Choice for a core that runs no tiles."""
    return None


def own_tiles(table: TileTable) -> TiledPass | None:
    """The best tiles of a pass by itself."""
    return tiling(table.of)


def tiles_together(runs: Mapping[TileTable, int]) -> TileChoice:
    """Tiles of least cycles for passes that share code; of any other pass, the best by itself.

    Args:
        runs: how often each pass runs.
    """
    chosen = _together(tuple(runs.items()))
    return lambda table: chosen[table] if table in chosen else own_tiles(table)


@lru_cache(maxsize=8)
def _together(runs: tuple[tuple[TileTable, int], ...]) -> Mapping[TileTable, TiledPass | None]:
    chosen = tilings(tuple((table.of, count) for table, count in runs))
    return {table: tiles for (table, _), tiles in zip(runs, chosen, strict=True)}


def table_of(kernel: Kernel) -> TileTable | None:
    """The table that a kernel's constants name; None for a kernel without tiles."""
    return next((value for _, value in kernel.fields if isinstance(value, TileTable)), None)


def tables_of(graph: Graph) -> Counter[TileTable]:
    """Tables of a graph's passes, and the number of runs of each, those of slices included."""
    runs: Counter[TileTable] = Counter()
    for op in graph.ops:
        for part, where, times in parts_of(op, graph):
            table = table_of(kind_of(part).kernel(part, where))
            if table is not None:
                runs[table] += times
    return runs
