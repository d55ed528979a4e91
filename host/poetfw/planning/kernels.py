# SPDX-License-Identifier: Apache-2.0
"""Choice among the kernels of an op, which all compute the same bits.

The default is the kernel for the op's shape. Another kernel is chosen if its energy is lower by at
least `TIE` and both costs are measured, or by more than the cost model's median error if one of the
costs is modelled. The analytic model assigns all kernels of an op the same cost.
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
"""Relative difference of energy below which another kernel is not worth its flash memory."""


class ChosenBy(StrEnum):
    """Evidence for the choice of an op's kernel."""

    SHAPE = "shape"
    MODELLED = "modelled"
    MEASURED = "measured"


@dataclass(frozen=True)
class Chosen:
    """A program with a kernel chosen for each op.

    Attributes:
        program: the program.
        by: evidence by graph name and op name; ops with a single kernel are left out.
    """

    program: Program
    by: Mapping[str, Mapping[str, ChosenBy]]


def choose_kernels(program: Program, board: Board, costs: CostProvider) -> Chosen:
    """Choose a kernel for each op of the training and evaluation step.

    Args:
        program: program with the default kernel of each op.
        board: target board.
        costs: provider of the costs of each op and kernel.
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
    """Choose a kernel for each op of a graph; returns the graph, and the evidence by op name.

    No chosen kernel takes more workspace than the default one.
    """
    ops, by = _choose(graph, {op.name: _variants(op, graph)[0] for op in graph.ops}, board, costs)
    return with_ops(graph, ops), by


def faster_with_workspace(
    graph: Graph, board: Board, costs: CostProvider
) -> tuple[Mapping[str, Op], Mapping[str, ChosenBy]]:
    """Ops with a faster kernel of more workspace, by name.

    The second mapping is the evidence for each op that has kernels with more workspace, whether or
    not one of them is faster.
    """
    variants = {op.name: [op, *_variants(op, graph)[1]] for op in graph.ops}
    ops, by = _choose(graph, variants, board, costs)
    return {name: op for name, op in ops.items() if op != variants[name][0]}, by


def _variants(op: Op, graph: Graph) -> tuple[list[Op], list[Op]]:
    """Variants of an op, one per kernel: those of at most the default's workspace, and the rest."""
    first, *others = in_variants(op, graph)
    lean, with_more = [first], list[Op]()
    for way in others:
        bytes_of = kind_of(op).workspace_bytes
        (with_more if bytes_of(way, graph) > bytes_of(first, graph) else lean).append(way)
    return lean, with_more


def _choose(
    graph: Graph, variants: Mapping[str, Sequence[Op]], board: Board, costs: CostProvider
) -> tuple[dict[str, Op], dict[str, ChosenBy]]:
    """Choose a kernel for each op that has several, with the evidence for it."""
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
    """The graph with ops replaced by those given by op name."""
    return replace(graph, ops=tuple(ops.get(op.name, op) for op in graph.ops))


def _choice(costs: Sequence[OpCost]) -> tuple[int, ChosenBy]:
    """Index of the preferred cost, 0 by default, and the evidence for it."""
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
    """True if `one` has less energy by more than the margin, and at most the same time."""
    return one.energy_j < (1 - margin) * other.energy_j and one.time_s <= other.time_s
