# SPDX-License-Identifier: Apache-2.0
"""The choice among the kernels of an op, which all give the same bits.

An op runs by the kernel for its shape unless another one costs less: by at least `TIE` where both
costs are measured, and by more than the cost model's median error where one of them is modelled.
The analytic model has one cost for all kernels of an op.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from poetfw.boards import Board
from poetfw.costs import CostProvider, OpCost, Source
from poetfw.costs.fitted import LARGEST_ERROR
from poetfw.ir import Graph, Op
from poetfw.ops import in_variants, kind_of
from poetfw.training import Program

TIE = 0.01
"""Relative difference of energy below which another kernel is not worth its flash."""


class ChosenBy(StrEnum):
    """The evidence by which an op's kernel was chosen."""

    SHAPE = "shape"
    MODELLED = "modelled"
    MEASURED = "measured"


@dataclass(frozen=True)
class Chosen:
    """A program with a kernel chosen for each op.

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
    """The graph with a kernel chosen for each of its ops, and what decided, by the op's name.

    No chosen kernel takes more workspace than the kernel for the op's shape.
    """
    ops, by = _choose(graph, {op.name: _variants(op, graph)[0] for op in graph.ops}, board, costs)
    return with_ops(graph, ops), by


def faster_with_workspace(
    graph: Graph, board: Board, costs: CostProvider
) -> tuple[Mapping[str, Op], Mapping[str, ChosenBy]]:
    """The ops that cost less with a kernel of more workspace, by name, with that kernel.

    The second mapping has the evidence for each op that has such a kernel, chosen or not.
    """
    variants = {op.name: [op, *_variants(op, graph)[1]] for op in graph.ops}
    ops, by = _choose(graph, variants, board, costs)
    return {name: op for name, op in ops.items() if op != variants[name][0]}, by


def _variants(op: Op, graph: Graph) -> tuple[list[Op], list[Op]]:
    """An op with each of its kernels: those with the first one's workspace at most, and others."""
    first, *others = in_variants(op, graph)
    lean, with_more = [first], list[Op]()
    for way in others:
        bytes_of = kind_of(op).workspace_bytes
        (with_more if bytes_of(way, graph) > bytes_of(first, graph) else lean).append(way)
    return lean, with_more


def _choose(
    graph: Graph, variants: Mapping[str, Sequence[Op]], board: Board, costs: CostProvider
) -> tuple[dict[str, Op], dict[str, ChosenBy]]:
    """The kernel of each op that has several, and the evidence for it."""
    several = {name: each for name, each in variants.items() if len(each) > 1}
    tables = []
    for number in range(max(map(len, several.values()), default=0)):
        these = {name: each[number] for name, each in several.items() if number < len(each)}
        tables.append(costs(with_ops(graph, these), board))
    ops: dict[str, Op] = {}
    chosen_by: dict[str, ChosenBy] = {}
    for name, each in several.items():
        best, chosen_by[name] = _choice([table.ops[name] for table in tables[: len(each)]])
        ops[name] = each[best]
    return ops, chosen_by


def with_ops(graph: Graph, ops: Mapping[str, Op]) -> Graph:
    """The graph with some of its ops replaced, by their names."""
    return replace(graph, ops=tuple(ops.get(op.name, op) for op in graph.ops))


def _choice(costs: Sequence[OpCost]) -> tuple[int, ChosenBy]:
    """Index of the cost to prefer (by default the first), and the evidence for it."""
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
    """True if `one` takes less energy by more than the margin, and no more time."""
    return one.energy_j < (1 - margin) * other.energy_j and one.time_s <= other.time_s
