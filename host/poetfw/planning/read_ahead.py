# SPDX-License-Identifier: Apache-2.0
"""Weights whose slices are loaded ahead: while an op computes on one, the next one arrives.

An op then has buffers for two slices. So that it needs no more RAM, its slices become smaller, and
as each takes requests of its own, its transfers take somewhat more energy. It saves time: that of
computing, or of transfers, whichever is shorter. Ops on stored tensors transfer these in between,
and load nothing ahead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from poetfw.boards import Board
from poetfw.costs import CostProvider
from poetfw.ir import Graph, Op
from poetfw.memory import padded
from poetfw.ops import PiecedOp, kind_of, streamed_kind
from poetfw.planning.problem import schedule_problem, streaming_cost
from poetfw.schedule import ExecutionPlan, ScheduleProblem, StepKind, Storage, simulate
from poetfw.training import Program

MOST_ENERGY = 1.02
"""Energy of a layer's transfers, as a multiple of that without, that saved time may take."""


class _Use(NamedTuple):
    """An op that loads slices of a weight, its graph, and the seconds that its kernels take."""

    op: Op
    graph: Graph
    compute_s: float

    @property
    def workspace_bytes(self) -> int:
        """RAM that its workspace takes."""
        return padded(kind_of(self.op).workspace_bytes(self.op, self.graph))

    def in_tiles(self, tile: tuple[int, ...]) -> _Use:
        """The same, in slices of other tiles that are loaded ahead."""
        attributes = {**self.op.attributes, "tile": tile, "ahead": 1}
        return self._replace(op=replace(self.op, attributes=attributes))


def read_ahead(
    program: Program, board: Board, costs: CostProvider, spare_bytes: Mapping[str, int]
) -> Program:
    """The program in which slices of weights are loaded ahead, where that pays.

    It pays if the product of a layer's energy and time falls, and the energy hardly rises.

    Args:
        program: a program with streamed weights.
        board: a board whose transfers overlap with computing.
        costs: provider of op costs.
        spare_bytes: bytes by which the workspace of an op may grow, by its name; 0 for others.
    """
    table = costs(program.training, board)
    storage = schedule_problem(program.training, board, table, None).storage
    assert storage is not None
    uses: dict[str, list[_Use]] = {}
    for graph in (program.training, program.evaluation):
        for op in graph.ops:
            kind = streamed_kind(op)
            weight = None if kind is None else kind.loads(op, graph.by_name).weight
            if weight is not None:
                compute_s = table.ops[op.name].time_s if graph is program.training else 0.0
                uses.setdefault(weight.tensors[0], []).append(_Use(op, graph, compute_s))
    changed: dict[Op, Op] = {}
    for each in uses.values():
        if any(isinstance(kind_of(use.op), PiecedOp) for use in each):
            continue
        count = sum(use.graph is program.training for use in each)
        energy_j, product = _energy_and_product(each[:count], storage)
        best, limit_j = (product, each), MOST_ENERGY * energy_j
        for tile in _smaller(each[0].op.integers("tile")):
            ahead = [use.in_tiles(tile) for use in each]
            if all(
                new.workspace_bytes <= old.workspace_bytes + spare_bytes.get(new.op.name, 0)
                for new, old in zip(ahead, each, strict=True)
            ):
                energy_j, product = _energy_and_product(ahead[:count], storage)
                if energy_j <= limit_j:
                    best = min(best, (product, ahead), key=lambda found: found[0])
        changed |= {old.op: new.op for old, new in zip(each, best[1], strict=True)}

    def with_changed(graph: Graph) -> Graph:
        return replace(graph, ops=tuple(changed.get(op, op) for op in graph.ops))

    return replace(
        program,
        training=with_changed(program.training),
        evaluation=with_changed(program.evaluation),
    )


def spare_at(problem: ScheduleProblem, plan: ExecutionPlan) -> dict[str, int]:
    """Bytes that are free whenever a plan computes an op, by its name."""
    spare: dict[str, int] = {}
    for step, used in zip(plan, simulate(problem, plan).during_bytes, strict=True):
        if step.kind is StepKind.COMPUTE:
            left = problem.ram_bytes - used
            spare[step.node] = min(left, spare.get(step.node, left))
    return spare


def _smaller(tile: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Tiles with fewer channels along the last axis."""
    *others, last = tile
    yield from ((*others, each) for each in range(1, last) if last % each == 0)


def _energy_and_product(uses: Sequence[_Use], storage: Storage) -> tuple[float, float]:
    """Energy of the transfers of some ops in joules, and its product with the time of the ops."""
    costs = [streaming_cost(use.op, use.graph, storage, use.compute_s) for use in uses]
    energy_j = sum(cost.energy_j for cost in costs)
    computed_s = sum(use.compute_s for use in uses)
    return energy_j, energy_j * (computed_s + sum(cost.time_s for cost in costs))
