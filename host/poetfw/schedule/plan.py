# SPDX-License-Identifier: Apache-2.0
"""Lowering of the productions of each stage to a linear execution plan (POET, Algorithm 2)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from poetfw.schedule.indexed import Indexed
from poetfw.schedule.problem import ExecutionPlan, ScheduleProblem, Step, StepKind

Production = tuple[int, StepKind, bool]
"""A step that brings a tensor into RAM: (node, COMPUTE or PAGE_IN, whether this is the node's first
computation)."""


@dataclass(frozen=True, slots=True)
class StageEvents:
    """Events between the first computations: pairs (stage, node), the node being earlier.

    Attributes:
        recomputes: which nodes each stage computes again.
        page_ins: which nodes' tensors each stage pages in.
    """

    recomputes: frozenset[tuple[int, int]] = frozenset()
    page_ins: frozenset[tuple[int, int]] = frozenset()


def lower(graph: Indexed, stages: StageEvents) -> ExecutionPlan:
    """The plan that executes the stages with the least RAM.

    Stage t makes its productions (recomputes and page-ins) in topological order, then computes
    node t. A tensor is paged out once, right after its first computation, if any stage pages it
    in, and is freed after the last use before it is produced again. Productions nobody uses are
    left out. So residency follows from the productions alone.
    """
    made = [
        (t, i, StepKind.COMPUTE) for t, i in {(t, t) for t in range(graph.n)} | stages.recomputes
    ] + [(t, i, StepKind.PAGE_IN) for t, i in stages.page_ins]
    return plan_of(graph, [(i, kind, i == t) for t, i, kind in sorted(made)])


def productions(problem: ScheduleProblem, plan: ExecutionPlan) -> tuple[Production, ...]:
    """The productions of a plan, in order."""
    position = {node.name: i for i, node in enumerate(problem.nodes)}
    computed: set[str] = set()
    made: list[Production] = []
    for kind, name, *_ in plan:
        if kind in (StepKind.COMPUTE, StepKind.PAGE_IN):
            first = kind is StepKind.COMPUTE and name not in computed
            made.append((position[name], kind, first))
            computed.add(name)
    return tuple(made)


def plan_of(graph: Indexed, made: Iterable[Production]) -> ExecutionPlan:
    """Complete a list of productions with the page-outs and frees it calls for.

    Args:
        graph: the problem.
        made: in order.
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
            reverse.append((StepKind.FREE, taken))  # right after the op, which takes it over
        reverse.append((kind, i))
    nodes = graph.problem.nodes
    return tuple(Step(kind, nodes[i].name) for kind, i in reversed(reverse))
