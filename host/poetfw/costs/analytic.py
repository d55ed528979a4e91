# SPDX-License-Identifier: Apache-2.0
"""Analytic cost model: seconds and joules from an op's work and a board's figures.

If the kernels of a core were counted, operators have prices:

    compute_s = (fixed + mac * macs + byte * bytes_moved) / clock_hz

For other operators, the model is a roofline (Williams, Waterman, Patterson, CACM 2009): the time of
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
from poetfw.costs.table import CostTable, OpCost, sum_of
from poetfw.ir import Graph, Op
from poetfw.ops import OpWork, kind_of


def analytic_costs(graph: Graph, board: Board) -> CostTable:
    """Costs of all ops of a graph on a board, calculated from their work.

    Raises:
        ModelError: An op is of a kind that poetfw does not know.
    """
    return CostTable(board.name, {op.name: _cost(op, graph, board) for op in graph.ops})


def _cost(op: Op, graph: Graph, board: Board) -> OpCost:
    kind = kind_of(op)
    parts = kind.parts(op, graph)
    if parts is not None:
        return sum_of([_cost(part, parts, board) for part in parts.ops])
    inputs = [graph.by_name[name] for name in op.inputs]
    output = None if op.output is None else graph.by_name[op.output]
    return cost_of(kind.work(op, inputs, output), board, kind.priced_as)


def cost_of(work: OpWork, board: Board, kind: str | None = None) -> OpCost:
    """Cost of an amount of work on a board.

    Args:
        work: the amount of work.
        board: the board.
        kind: operator whose prices are used; None for the roofline.
    """
    price = None if kind is None else board.compute.prices.get(kind)
    if price is None:
        compute_s = max(
            work.macs / board.compute.macs_per_s,
            work.bytes_moved / board.compute.ram_bandwidth_bytes_per_s,
        )
    else:
        cycles = price.fixed + price.mac * work.macs + price.byte * work.bytes_moved
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
