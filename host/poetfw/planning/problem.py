# SPDX-License-Identifier: Apache-2.0
"""Schedule problem of a graph on a board."""

from __future__ import annotations

from poetfw.boards import Board
from poetfw.common.transfer import TRAILER_BYTES
from poetfw.costs import CostTable, OpCost
from poetfw.ir import Graph, Op
from poetfw.memory import padded
from poetfw.ops import kind_of, streamed_kind
from poetfw.ops.nests import WeightSlices
from poetfw.schedule import Node, ScheduleProblem, Storage
from poetfw.training import in_place_input


def schedule_problem(
    graph: Graph,
    board: Board,
    costs: CostTable,
    ram_bytes: int | None,
    deadline_s: float | None = None,
) -> ScheduleProblem:
    """The schedule problem of a graph on a board.

    Args:
        graph: a training or evaluation step.
        board: board with the costs of paging, used if these were not measured.
        costs: costs of the ops, and of paging if measured.
        ram_bytes: RAM for tensors that are not persistent; None for enough to keep everything.
        deadline_s: upper bound on the step's time.
    """
    updated_by: dict[str, str] = {}
    for op in graph.ops:
        for name in op.updates:
            updated_by.setdefault(name, op.name)
    position = {op.name: index for index, op in enumerate(graph.ops)}
    updates = {
        op.name: sorted(
            {updated_by.get(name, op.name) for name in op.inputs} - {op.name},
            key=position.__getitem__,
        )
        for op in graph.ops
    }
    # Who reads several parameters runs before their first update: that has to stay the first.
    waits_for: dict[str, dict[str, None]] = {}
    for changed in updates.values():
        for later in changed[1:]:
            waits_for.setdefault(later, {})[changed[0]] = None
    storage = _storage(board, costs)
    nodes = []
    for op in graph.ops:
        own = costs.ops[op.name]
        moving = streaming_cost(op, graph, storage, own.time_s)
        output = None if op.output is None else graph.by_name[op.output]
        stored = output is not None and bool(output.tile)
        size = 0 if output is None or stored else padded(output.size_bytes)
        taken = in_place_input(graph, op)
        nodes.append(
            Node(
                name=op.name,
                inputs=(
                    *(
                        graph.producer[name].name
                        for name in graph.reads(op)
                        if name in graph.producer
                    ),
                    *waits_for.get(op.name, ()),
                ),
                time_s=own.time_s + moving.time_s,
                energy_j=own.energy_j + moving.energy_j,
                output_bytes=size,
                workspace_bytes=padded(kind_of(op).workspace_bytes(op, graph)),
                recompute=kind_of(op).recomputable and not stored,
                page=size > 0,
                backward=op.backward,
                recompute_before=updates[op.name][0] if updates[op.name] else None,
                in_place=graph.producer[taken].name if taken is not None else None,
            )
        )
    enough = sum(node.output_bytes + node.workspace_bytes for node in nodes)
    return ScheduleProblem(
        name=graph.name,
        ram_bytes=enough if ram_bytes is None else ram_bytes,
        deadline_s=deadline_s,
        storage=storage,
        nodes=tuple(nodes),
    )


def streaming_cost(op: Op, graph: Graph, storage: Storage | None, compute_s: float = 0.0) -> OpCost:
    """Cost of an op's transfers of streamed tensors; 0 for another op.

    Their time is that by which they lengthen the op. The core waits for them, except for slices of
    a weight that are loaded ahead.

    Args:
        op: the op.
        graph: its graph.
        storage: storage with the costs of transfers; None on a board without one.
        compute_s: seconds that its kernels take.
    """
    kind = streamed_kind(op)
    if kind is None or storage is None:
        return OpCost(0.0, 0.0)
    moved, weight = kind.traffic(op, graph), kind.loads(op, graph.by_name).weight
    both = (storage.page_in, moved.reads), (storage.page_out, moved.writes)
    requests = [(way, size, count) for way, sizes in both for size, count in sizes.items()]
    time_s = sum(count * transfer.time_s(size) for transfer, size, count in requests)
    if weight is not None and weight.loads_ahead:
        time_s -= _saved_s(weight, storage, compute_s)
    return OpCost(time_s, sum(count * transfer.cost_j(size) for transfer, size, count in requests))


def _saved_s(weight: WeightSlices, storage: Storage, compute_s: float) -> float:
    """Seconds that loading slices ahead saves, against a core that waits for each transfer.

    While the core computes on a slice, the one before is stored, and then the next one is loaded.
    """
    count, sizes = weight.count, weight.layout.column_request_bytes
    ways = (storage.page_in, *([storage.page_out] if weight.updated else []))
    waited_s, core_s, stored_s = 0.0, compute_s / count, []
    for way in ways:
        each = [way.moving(size) for size in sizes]
        share = len(weight.tensors) / count
        waited_s += len(weight.tensors) * sum(map(way.time_s, sizes))
        core_s += share * sum(busy.core_s for busy in each)
        stored_s.append(share * sum(busy.storage_s for busy in each))
    load_s, store_s = stored_s[0], sum(stored_s[1:])
    beside_s = (
        load_s
        + max(core_s, load_s)
        + (count - 2) * max(core_s, load_s + store_s)
        + max(core_s, store_s)
        + store_s
    )
    return compute_s + waited_s - beside_s


def _storage(board: Board, costs: CostTable) -> Storage | None:
    """Storage with measured costs of paging, or those of the board's file if not measured."""
    storage = board.storage
    if storage is None:
        return None
    return Storage(
        block_bytes=storage.block_bytes,
        page_in=costs.page_in or storage.page_in,
        page_out=costs.page_out or storage.page_out,
        overlap=storage.overlap,
        trailer_bytes=TRAILER_BYTES,
    )
