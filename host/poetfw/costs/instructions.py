# SPDX-License-Identifier: Apache-2.0
"""Instructions of a training step, by the prices of a core.

Kernels have prices of the features by which `features.py` tells how often their loops run; loads
have prices of a sample and a byte, transfers of a call and a byte. The first load of a step checks
the part of the samples that it does not load, too. All were counted on the core's emulator, with
poetfw's compiler and flags, so they are instructions and not cycles.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from poetfw.boards import Board
from poetfw.costs.features import Featured, case_tiles, features_of, loops_around
from poetfw.ir import Graph
from poetfw.ops.base import parts_of
from poetfw.ops.tile_tables import TileChoice


def planned_instructions(
    graph: Graph,
    computed: Iterable[str],
    moved: Iterable[tuple[str, int]],
    board: Board,
    tiles: TileChoice | None = None,
) -> float | None:
    """Instructions of one training step.

    Args:
        graph: the training step.
        computed: names of ops in the order of the plan, each as often as it computes it.
        moved: transfers of the plan, each `page_in` or `page_out` and its bytes.
        board: where it runs, on one thread.
        tiles: those that its passes run there; None for the best of each by itself.

    Returns:
        None if the core has no prices for an op or a transfer.
    """
    prices, times = board.compute.instructions, Counter(computed)
    found: list[tuple[Featured, int]] = []
    loads: dict[str, Mapping[str, float]] = {}
    tiles = tiles or case_tiles(board)
    for op in graph.ops:
        for part, where, runs in parts_of(op, graph):
            known = features_of(part, where, tiles)
            if "samples" in known.features:
                loads[op.name] = known.features
            if op.name in times:
                found.append((known, runs * times[op.name]))
        found += [
            (loop, runs * times[op.name])
            for loop, runs in loops_around(op, graph)
            if loop.function in prices
        ]
    first = next((name for name in times if name in loads), None)
    found += [
        (Featured("check", "", features), 1)
        for name, features in loads.items()
        if first not in (None, name)
    ]
    found += [
        (Featured(kind, "", {"fixed": 1.0, "bytes": size}), count)
        for (kind, size), count in Counter(moved).items()
    ]
    total = 0.0
    for known, count in found:
        each = known.cost(prices)
        if each is None:
            return None
        total += count * each
    return total
