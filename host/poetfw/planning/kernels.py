# SPDX-License-Identifier: Apache-2.0
"""By which of its kernels each op runs, where it has several of the same bits.

The kernel for an op's shape is left for another one only where that takes less by what is known of
both: by at least `TIE` where both were measured, and where a model says so of one of them, by more
than a model that is used may be wrong in the median. The analytic model knows no kernels apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from poetfw.boards import Board
from poetfw.costs import CostProvider, OpCost, Source
from poetfw.costs.fitted import LARGEST_ERROR
from poetfw.ir import Graph, Op
from poetfw.ops import in_variants
from poetfw.training import Program

TIE = 0.01
"""Kernels whose energy differs by less, relative, are alike: another function takes flash."""


class ChosenBy(StrEnum):
    """What decided by which kernel an op runs."""

    SHAPE = "shape"
    MODELLED = "modelled"
    MEASURED = "measured"


@dataclass(frozen=True)
class Chosen:
    """A program whose ops run by chosen kernels.

    Attributes:
        program: the program.
        by: what decided, by the graph's name and then the op's; ops with one kernel are left out.
    """

    program: Program
    by: Mapping[str, Mapping[str, ChosenBy]]


def choose_kernels(program: Program, board: Board, costs: CostProvider) -> Chosen:
    """The program with a kernel chosen for each op of its training and its evaluation step.

    Args:
        program: whose ops run by the kernels for their shapes.
        board: where they run.
        costs: says what each op costs there, by whichever kernel.
    """
    training, by_training = choose_in(program.training, board, costs)
    evaluation, by_evaluation = choose_in(program.evaluation, board, costs)
    return Chosen(
        replace(program, training=training, evaluation=evaluation),
        {training.name: by_training, evaluation.name: by_evaluation},
    )


def choose_in(
    graph: Graph, board: Board, costs: CostProvider
) -> tuple[Graph, Mapping[str, ChosenBy]]:
    """The graph with a kernel chosen for each of its ops, and what decided, by the op's name."""
    several = {op.name: ways for op in graph.ops if len(ways := in_variants(op, graph)) > 1}
    if not several:
        return graph, {}
    tables = []
    for way in range(max(map(len, several.values()))):
        this_way = {name: ways[way] for name, ways in several.items() if way < len(ways)}
        tables.append(costs(with_ops(graph, this_way), board))
    ops: dict[str, Op] = {}
    chosen_by: dict[str, ChosenBy] = {}
    for name, ways in several.items():
        best, chosen_by[name] = _choice([table.ops[name] for table in tables[: len(ways)]])
        ops[name] = ways[best]
    return with_ops(graph, ops), chosen_by


def with_ops(graph: Graph, ops: Mapping[str, Op]) -> Graph:
    """The graph with others in place of some of its ops, by their names."""
    return replace(graph, ops=tuple(ops.get(op.name, op) for op in graph.ops))


def _choice(costs: Sequence[OpCost]) -> tuple[int, ChosenBy]:
    """Which of one op's costs to take, the first of which is that for its shape; what decided."""
    best, chosen_by = 0, ChosenBy.SHAPE
    for at, cost in enumerate(costs[1:], 1):
        known = {costs[best].source, cost.source}
        if known == {Source.MEASURED}:
            margin, by = TIE, ChosenBy.MEASURED
        elif known <= {Source.MEASURED, Source.FITTED}:
            margin, by = LARGEST_ERROR, ChosenBy.MODELLED
        else:
            continue
        if _is_less(cost, costs[best], margin):
            best, chosen_by = at, by
        elif by is ChosenBy.MEASURED or _is_less(costs[best], cost, margin):
            chosen_by = by
    return best, chosen_by


def _is_less(one: OpCost, other: OpCost, margin: float) -> bool:
    """Whether it takes less energy, by more than a margin, and no more time."""
    return one.energy_j < (1 - margin) * other.energy_j and one.time_s <= other.time_s
