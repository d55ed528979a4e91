# SPDX-License-Identifier: Apache-2.0
"""From a graph on a board to the problem that schedulers solve."""

from __future__ import annotations

from collections.abc import Callable

from poetfw.boards import Board, load_board
from poetfw.costs import CostProvider, CostTable, analytic_costs
from poetfw.devices import check_twins
from poetfw.firmware import BLOCK_BYTES
from poetfw.ir import Graph
from poetfw.limits import Deadline
from poetfw.memory import padded, resident_bytes
from poetfw.ops import kind_of
from poetfw.planning.choices import derive_program, load_model
from poetfw.planning.kernels import choose_in
from poetfw.planning.settings import BuildSettings
from poetfw.schedule import Node, ScheduleProblem, Storage
from poetfw.training import in_place_input
from poetfw.transfer import TRAILER_BYTES


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
        board: says what paging costs where that was not measured.
        costs: what each op costs, and what was measured of paging.
        ram_bytes: what its tensors may occupy together, beside persistent ones; None for enough
            to keep everything.
        deadline_s: upper bound on the step's time.
    """
    updated_by: dict[str, str] = {}
    for op in graph.ops:
        for name in op.updates:
            updated_by.setdefault(name, op.name)
    position = {op.name: index for index, op in enumerate(graph.ops)}
    updates = {
        op.name: sorted(
            {updated_by[name] for name in op.inputs if name in updated_by}, key=position.__getitem__
        )
        for op in graph.ops
    }
    # Who reads several parameters runs before their first update: that has to stay the first.
    waits_for: dict[str, dict[str, None]] = {}
    for changed in updates.values():
        for later in changed[1:]:
            waits_for.setdefault(later, {})[changed[0]] = None
    nodes = []
    for op in graph.ops:
        size = padded(graph.by_name[op.output].size_bytes) if op.output is not None else 0
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
                time_s=costs.ops[op.name].time_s,
                energy_j=costs.ops[op.name].energy_j,
                output_bytes=size,
                workspace_bytes=padded(kind_of(op).workspace_bytes(op, graph)),
                recompute=kind_of(op).recomputable,
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
        storage=_storage(board, costs),
        nodes=tuple(nodes),
    )


def load_schedule_problem(
    settings: BuildSettings,
    warn: Callable[[str], None] = lambda text: None,
    costs: CostProvider = analytic_costs,
    deadline: Deadline | None = None,
    noted: Callable[[CostTable], None] = lambda table: None,
) -> ScheduleProblem:
    """The schedule problem of a model on a board, with all the RAM that the board has for tensors.

    Nothing is compiled: static data is not known, and not counted. `warn` is called with each of
    the model's warnings, and `noted` with what the ops cost.
    """
    board = load_board(settings.board)
    check_twins(board)
    model = load_model(settings)
    for warning in model.warnings:
        warn(warning)
    program = derive_program(settings, model, deadline)
    taken = board.reserved_ram_bytes + board.stack_bytes
    resident = resident_bytes(program.persistent, BLOCK_BYTES)
    available = max(0, board.ram_bytes - taken - resident)
    training, _ = choose_in(program.training, board, costs)
    table = costs(training, board)
    noted(table)
    return schedule_problem(training, board, table, available, settings.deadline_s)


def _storage(board: Board, costs: CostTable) -> Storage | None:
    """What paging costs: as measured, else as the board's file has it."""
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
