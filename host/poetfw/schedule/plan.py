# SPDX-License-Identifier: Apache-2.0
"""Lowering of each stage's productions to a linear execution plan (POET, Algorithm 2)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from poetfw.schedule.indexed import Indexed
from poetfw.schedule.problem import ExecutionPlan, Step, StepKind

Production = tuple[int, StepKind, bool]
"""A step that brings a tensor into RAM: (node, COMPUTE or PAGE_IN, true for the node's first
computation)."""


@dataclass(frozen=True, slots=True)
class StageEvents:
    """Recomputes and page-ins of each stage, as pairs (stage, node) with node < stage.

    Attributes:
        recomputes: the stage recomputes the node.
        page_ins: the stage pages in the node's tensor.
    """

    recomputes: frozenset[tuple[int, int]] = frozenset()
    page_ins: frozenset[tuple[int, int]] = frozenset()


def lower(graph: Indexed, stages: StageEvents) -> ExecutionPlan:
    """The plan that executes the stages with the least RAM.

    Stage t runs its productions (recomputes and page-ins) in topological order, then computes node
    t. A tensor that any stage pages in is paged out once, right after its first computation. Each
    tensor is freed after its last use before the next production. Unused productions are left out.
    """
    made = [
        (t, i, StepKind.COMPUTE) for t, i in {(t, t) for t in range(graph.n)} | stages.recomputes
    ] + [(t, i, StepKind.PAGE_IN) for t, i in stages.page_ins]
    return plan_of(graph, [(i, kind, i == t) for t, i, kind in sorted(made)])


def plan_of(graph: Indexed, made: Iterable[Production]) -> ExecutionPlan:
    """Complete a list of productions with the page-outs and frees that it implies.

    Args:
        graph: the problem.
        made: productions in execution order; unused ones are left out.
    """
    wanted: set[int] = set()
    paged_in: set[int] = set()
    reverse: list[tuple[StepKind, int]] = []
    for i, kind, first in reversed(list(made)):
        used = i in wanted
        if not (used or first):
            continue
        wanted.discard(i)
        if kind is StepKind.PAGE_IN:
            paged_in.add(i)
            reverse.append((kind, i))
            continue
        last_reads = [u for u in graph.inputs[i] if u not in wanted]
        taken = graph.in_place[i] if graph.in_place[i] in last_reads else None
        reverse += [(StepKind.FREE, u) for u in reversed(last_reads) if u != taken]
        wanted.update(last_reads)
        if not used and graph.size[i]:
            reverse.append((StepKind.FREE, i))
        if first and i in paged_in:
            reverse.append((StepKind.PAGE_OUT, i))
        if taken is not None:
            reverse.append((StepKind.FREE, taken))  # right after the op: marks it as in place
        reverse.append((kind, i))
    nodes = graph.problem.nodes
    return tuple(Step(kind, nodes[i].name) for kind, i in reversed(reverse))
