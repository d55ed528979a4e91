# SPDX-License-Identifier: Apache-2.0
"""Analytic cost model: seconds and joules from an op's work and a board's figures.

If the kernels of a core were counted, an op takes what its kernel's loops take (`features.py`):

    compute_s = sum(cycles[feature] * features[feature]) / clock_hz

For other ops, the model is a roofline (Williams, Waterman, Patterson, CACM 2009): the time of
an op is that of its arithmetic or of its RAM traffic, whichever is longer,

    compute_s = max(macs / macs_per_s, bytes_moved / ram_bandwidth_bytes_per_s)

In total,

    time_s    = compute_s + storage_s
    energy_j  = compute_s * active_w + storage_j

where storage_s and storage_j are the costs of one transfer of `storage_bytes`, rounded up to whole
blocks, and 0 for an op that reads no storage. As in POET (section 4, and its chip tables), the
energy of a transfer is that of the storage; the core's power counts while it computes.
"""

from __future__ import annotations

from poetfw.boards import Board
from poetfw.costs.features import features_of, loops_around
from poetfw.costs.measurement import Counter as Unit
from poetfw.costs.table import CostTable, OpCost, sum_of
from poetfw.ir import Graph, Op
from poetfw.ops import OpWork, kind_of
from poetfw.ops.base import parts_of
from poetfw.ops.tile_tables import TileChoice, no_tiles, tables_of, tiles_together


def analytic_costs(graph: Graph, board: Board, tiles: TileChoice | None = None) -> CostTable:
    """Costs of all ops of a graph on a board, calculated from their work.

    Args:
        graph: the ops.
        board: where they run.
        tiles: those that its passes run there; None for those chosen together.

    Raises:
        ModelError: An op is of a kind that poetfw does not know.
    """
    parts = {op.name: [*parts_of(op, graph)] for op in graph.ops}
    if tiles is None and any("tiles" in price for price in board.compute.cycles.values()):
        tiles = tiles_together(tables_of(graph))
    costs = {}
    for op in graph.ops:
        found = [
            cost for part in parts[op.name] for cost in _costs(*part, board, tiles or no_tiles)
        ]
        for loop, times in loops_around(op, graph):
            cycles = loop.cost(board.compute.cycles)
            found += (times if cycles else 0) * [cost_of(OpWork(0, 0), board, cycles)]
        costs[op.name] = sum_of(found)
    return CostTable(board.name, costs)


def _costs(op: Op, graph: Graph, times: int, board: Board, tiles: TileChoice) -> list[OpCost]:
    """Cost of each of so many runs."""
    cycles = None
    if board.compute.cycles:
        cycles = features_of(op, graph, tiles, Unit.CYCLES).cost(board.compute.cycles)
    inputs = [graph.by_name[name] for name in op.inputs]
    output = None if op.output is None else graph.by_name[op.output]
    return times * [cost_of(kind_of(op).work(op, inputs, output), board, cycles)]


def cost_of(work: OpWork, board: Board, cycles: float | None = None) -> OpCost:
    """Cost of an amount of work on a board.

    Args:
        work: the amount of work.
        board: the board.
        cycles: what the core takes for it; None for the roofline.
    """
    if cycles is None:
        compute_s = max(
            work.macs / board.compute.macs_per_s,
            work.bytes_moved / board.compute.ram_bandwidth_bytes_per_s,
        )
    else:
        compute_s = cycles / board.clock_hz
    storage_s = storage_j = 0.0
    if work.storage_bytes and board.storage is not None:
        blocks = -(-work.storage_bytes // board.storage.block_bytes)
        size_bytes = blocks * board.storage.block_bytes
        storage_s = board.storage.page_in.time_s(size_bytes)
        storage_j = board.storage.page_in.cost_j(size_bytes)
    return OpCost(
        time_s=compute_s + storage_s,
        energy_j=compute_s * board.power.active_w + storage_j,
    )
