# SPDX-License-Identifier: Apache-2.0
"""The tiles that a program's convolutions run, on a core that runs them."""

from __future__ import annotations

from collections import Counter

from poetfw.boards import Board
from poetfw.ops.base import TileTable
from poetfw.ops.tile_tables import TileChoice, no_tiles, tables_of, tiles_together
from poetfw.training import Program, make_prediction

_RUNS = (100, 10, 1)
"""Weights of a run of the training step, of evaluation and of prediction."""


def program_tiles(program: Program, board: Board) -> TileChoice:
    """Tiles that are chosen for all passes of a program together, as they share code."""
    if not board.toolchain.runs_tiles:
        return no_tiles
    runs: Counter[TileTable] = Counter()
    graphs = (program.training, program.evaluation, make_prediction(program))
    for graph, weight in zip(graphs, _RUNS, strict=True):
        for table, times in tables_of(graph).items():
            runs[table] += weight * times
    return tiles_together(runs)
