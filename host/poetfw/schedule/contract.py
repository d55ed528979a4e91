# SPDX-License-Identifier: Apache-2.0
"""Contraction to a smaller problem, as a restriction or a relaxation of the original.

Two steps make a problem smaller. The *smallest tensors*, such as batch statistics and losses, take
a few bytes but as many variables as any other tensor: their paging and recomputes, or their sizes,
are left out. *Chains* are joined: if node j alone reads the tensor of node i (an activation after a
batch norm) and j's tensor is no larger, a plan can hold j's tensor instead of i's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto

from poetfw.schedule.indexed import Indexed
from poetfw.schedule.plan import Production, StageEvents, lower, plan_of
from poetfw.schedule.problem import ExecutionPlan, Node, ScheduleProblem, StepKind

SMALL_SHARE = 0.02
"""Share of the budget that the smallest tensors take together, at most."""


class Means(Enum):
    """Relation of a contracted problem to the original."""

    RESTRICTION = auto()
    """Every schedule of the contracted problem is one of the original: the smallest tensors stay in
    RAM from their first computation to their last use."""
    RELAXATION = auto()
    """The least energy of the contracted problem is a lower bound for the original: the smallest
    tensors take RAM only while they are read."""


@dataclass(frozen=True)
class Contraction:
    """A problem and its contracted form.

    Attributes:
        problem: the original problem.
        contracted: the smaller problem. A node stands for a chain of original nodes and has the
            name and the tensor of the chain's last node.
        chains: names of the chain's nodes in order, by the contracted node's name.
    """

    problem: ScheduleProblem
    contracted: ScheduleProblem
    chains: dict[str, tuple[str, ...]]

    @staticmethod
    def nothing(problem: ScheduleProblem) -> Contraction:
        """The identity contraction: the problem itself."""
        return Contraction(problem, problem, {node.name: (node.name,) for node in problem.nodes})

    def expand(self, plan: ExecutionPlan) -> ExecutionPlan:
        """Translate a plan of the contracted problem to the original."""
        position = {node.name: i for i, node in enumerate(self.problem.nodes)}
        computed: set[str] = set()
        made: list[Production] = []
        for step in plan:
            if step.kind is StepKind.COMPUTE:
                first = step.node not in computed
                computed.add(step.node)
                chain = self.chains[step.node]
                made += [(position[name], step.kind, first) for name in chain]
            elif step.kind is StepKind.PAGE_IN:
                made.append((position[step.node], step.kind, False))
        return plan_of(Indexed.of(self.problem), made)

    def contract(self, plan: ExecutionPlan) -> ExecutionPlan:
        """Convert a plan of the original to stages of the contracted problem; may be illegal."""
        graph = Indexed.of(self.contracted)
        position = {node.name: i for i, node in enumerate(self.contracted.nodes)}
        stage = 0
        computed: set[int] = set()
        recomputes: set[tuple[int, int]] = set()
        page_ins: set[tuple[int, int]] = set()
        for step in plan:
            i = position.get(step.node)
            if i is None:
                continue
            if step.kind is StepKind.COMPUTE and i not in computed:
                computed.add(i)
                while stage in computed:
                    stage += 1
            elif i < stage and graph.size[i]:
                if step.kind is StepKind.COMPUTE:
                    recomputes.add((stage, i))
                elif step.kind is StepKind.PAGE_IN:
                    page_ins.add((stage, i))
        return lower(graph, StageEvents(frozenset(recomputes), frozenset(page_ins)))


def contract(problem: ScheduleProblem, means: Means, small_share: float) -> Contraction:
    """Make a problem smaller.

    Args:
        problem: the original problem.
        means: relation of the result to the original.
        small_share: share of the budget that the smallest tensors may take together.
    """
    small = _smallest(problem, small_share)
    shrunk = _pin(problem, small) if means is Means.RESTRICTION else _leave_out(problem, small)
    return _Contractor(problem, shrunk, means, small).contract()


def _smallest(problem: ScheduleProblem, share: float) -> frozenset[str]:
    left_bytes = problem.ram_bytes * share
    small = set()
    for node in sorted(problem.nodes, key=lambda node: node.output_bytes):
        left_bytes -= node.output_bytes
        if left_bytes < 0:
            break
        small.add(node.name)
    return frozenset(small)


def _pin(problem: ScheduleProblem, small: frozenset[str]) -> ScheduleProblem:
    nodes = tuple(
        replace(node, recompute=False, page=False) if node.name in small else node
        for node in problem.nodes
    )
    return replace(problem, nodes=nodes)


def _leave_out(problem: ScheduleProblem, small: frozenset[str]) -> ScheduleProblem:
    size = {node.name: node.output_bytes for node in problem.nodes}
    nodes = []
    for node in problem.nodes:
        read = sum(size[u] for u in set(node.inputs) & small if u != node.in_place)
        nodes.append(
            replace(
                node,
                output_bytes=0 if node.name in small else node.output_bytes,
                workspace_bytes=node.workspace_bytes + read,
                # The input taken over has 0 bytes in the relaxation, so sizes would differ.
                in_place=None if node.in_place in small else node.in_place,
            )
        )
    return replace(problem, nodes=tuple(nodes))


class _Contractor:
    """Joins the nodes of a problem, one pair at a time."""

    def __init__(
        self,
        problem: ScheduleProblem,
        shrunk: ScheduleProblem,
        means: Means,
        small: frozenset[str],
    ) -> None:
        self.problem = problem
        self.shrunk = shrunk
        self.means = means
        self.small = small
        self.nodes = {node.name: node for node in shrunk.nodes}
        self.order = list(self.nodes)
        self.chains: dict[str, tuple[str, ...]] = {name: (name,) for name in self.nodes}
        self.limits = {node.recompute_before for node in shrunk.nodes}
        self.readers: dict[str, set[str]] = {name: set() for name in self.nodes}
        for node in shrunk.nodes:
            for u in node.inputs:
                self.readers[u].add(node.name)

    def contract(self) -> Contraction:
        for name in list(self.order):
            if name not in self.small and len(self.readers[name]) == 1:
                (reader,) = self.readers[name]
                self.join(self.nodes[name], self.nodes[reader])
        contracted = replace(self.shrunk, nodes=tuple(self.nodes[name] for name in self.order))
        return Contraction(self.problem, contracted, self.chains)

    def join(self, i: Node, j: Node) -> None:
        """Join i and the only reader j of its tensor if the relation `means` still holds."""
        if not self.may_hold_instead(i, j):
            return
        if self.runs_early(i, j):
            self.order.remove(j.name)
            self.order[self.order.index(i.name)] = j.name
        elif self.runs_late(i, j):
            self.order.remove(i.name)
        else:
            return
        inputs = i.inputs + tuple(u for u in j.inputs if u != i.name and u not in i.inputs)
        for u in i.inputs:
            self.readers[u] = self.readers[u] - {i.name} | {j.name}
        self.chains[j.name] = self.chains.pop(i.name) + self.chains[j.name]
        del self.nodes[i.name]
        self.nodes[j.name] = replace(
            j,
            inputs=inputs,
            time_s=i.time_s + j.time_s,
            energy_j=i.energy_j + j.energy_j,
            workspace_bytes=self.workspace_bytes(i, j),
            recompute=i.recompute and j.recompute,
            recompute_before=i.recompute_before,
            in_place=self.in_place(i, j),
        )

    def may_hold_instead(self, i: Node, j: Node) -> bool:
        """True if j's tensor can be held, recomputed and paged wherever i's can."""
        return (
            0 < j.output_bytes <= i.output_bytes
            and j.name not in self.small
            and not {i.name, j.name} & self.limits
            and i.backward == j.backward
            and (i.in_place is None or i.output_bytes == j.output_bytes)
            and (j.page or not i.page)
            and (j.recompute or not i.recompute)
            and (j.recompute_before is None or j.recompute_before == i.recompute_before)
        )

    def runs_early(self, i: Node, j: Node) -> bool:
        """True if j can run right after i: all its other inputs are small and computed before i."""
        before = self.order[: self.order.index(i.name) + 1]
        return set(j.inputs) - self.small == {i.name} and set(j.inputs) <= set(before)

    def runs_late(self, i: Node, j: Node) -> bool:
        """True if i can run right before j: i reads j's inputs, small tensors or its `in_place`."""
        taken = self.nodes.get(i.in_place or "")
        if taken is None or j.in_place != i.name or i.workspace_bytes > j.workspace_bytes:
            return False
        if not i.output_bytes == j.output_bytes == taken.output_bytes:
            return False
        if i.page and (not taken.page or self.means is Means.RELAXATION):
            return False  # a plan that pages i, before and after j, would have to page both tensors
        passed = self.order[self.order.index(i.name) : self.order.index(j.name)]
        return (
            set(i.inputs) - self.small <= {taken.name, *j.inputs}
            and i.recompute_before not in passed
        )

    def in_place(self, i: Node, j: Node) -> str | None:
        """The input of i that the tensor of the joined node may take over, or None."""
        return i.in_place if j.in_place == i.name or self.means is Means.RELAXATION else None

    def workspace_bytes(self, i: Node, j: Node) -> int:
        """Bytes that the joined node needs beside i's inputs and j's tensor."""
        during_i = i.workspace_bytes + i.output_bytes - j.output_bytes
        during_j = j.workspace_bytes + (0 if j.in_place == i.name else i.output_bytes)
        if self.means is Means.RELAXATION:  # the inputs of i may be freed before j runs
            read = sum(self.nodes[u].output_bytes for u in set(i.inputs))
            during_j += (j.output_bytes if i.in_place is not None else 0) - read
        return max(0, during_i, during_j)
