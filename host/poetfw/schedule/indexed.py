# SPDX-License-Identifier: Apache-2.0
"""A schedule problem with nodes as integers, the form that plans and programs use."""

from __future__ import annotations

from dataclasses import dataclass

from poetfw.schedule.problem import ScheduleProblem


@dataclass(frozen=True)
class Indexed:
    """A problem whose nodes are numbered 0 … n - 1 in its order.

    `inputs` omits nodes without output bytes: they have no tensor, and the order alone makes them
    run first.

    Attributes:
        problem: the problem itself.
        n: number of nodes and of stages: stage t computes node t for the first time.
        inputs: per node, the nodes whose tensors it reads, ascending.
        consumers: per node, the nodes that read its tensor, ascending.
        size: per node, the bytes of its tensor.
        workspace: per node, the bytes of its workspace.
        pageable: per node, true if its tensor can be paged.
        last_recompute: per node, the last stage in which recomputing it is allowed and can help;
            the node's own number if it never is.
        last_use: per node, the last stage that can read its tensor.
        in_place: per node, the input whose RAM its tensor may take over, or None.
    """

    problem: ScheduleProblem
    n: int
    inputs: tuple[tuple[int, ...], ...]
    consumers: tuple[tuple[int, ...], ...]
    size: tuple[int, ...]
    workspace: tuple[int, ...]
    pageable: tuple[bool, ...]
    last_recompute: tuple[int, ...]
    last_use: tuple[int, ...]
    in_place: tuple[int | None, ...]

    @staticmethod
    def of(problem: ScheduleProblem) -> Indexed:
        """Index a valid problem."""
        nodes = problem.nodes
        n = len(nodes)
        position = {node.name: i for i, node in enumerate(nodes)}
        inputs = tuple(
            tuple(sorted({position[u] for u in node.inputs if nodes[position[u]].output_bytes}))
            for node in nodes
        )
        consumers: list[list[int]] = [[] for _ in nodes]
        for i in range(n):
            for u in inputs[i]:
                consumers[u].append(i)
        last_use = list(range(n))
        last_recompute = list(range(n))
        for i in reversed(range(n)):
            # A consumer j reads tensor i in stage j, and wherever j may be recomputed.
            last_use[i] = max([i, *(last_recompute[j] for j in consumers[i])])
            if nodes[i].recompute:
                before = nodes[i].recompute_before
                limit = n if before is None else position[before]
                last_recompute[i] = min(last_use[i], limit)
        return Indexed(
            problem=problem,
            n=n,
            inputs=inputs,
            consumers=tuple(map(tuple, consumers)),
            size=tuple(node.output_bytes for node in nodes),
            workspace=tuple(node.workspace_bytes for node in nodes),
            pageable=tuple(
                problem.storage is not None and node.page and node.output_bytes > 0
                for node in nodes
            ),
            last_recompute=tuple(last_recompute),
            last_use=tuple(last_use),
            in_place=tuple(
                position[node.in_place]
                if node.in_place is not None
                and nodes[position[node.in_place]].output_bytes == node.output_bytes > 0
                else None
                for node in nodes
            ),
        )

    @property
    def is_rigid(self) -> bool:
        """True if no tensor can be recomputed or paged: plans differ only in their order."""
        again = any(last > i for i, last in enumerate(self.last_recompute))
        return not again and not any(self.pageable)

    def working_set(self, i: int) -> int:
        """Bytes that must be live while node i runs: its inputs, output and workspace."""
        inputs = sum(self.size[u] for u in self.inputs[i])
        output = self.size[i] if self.in_place[i] is None else 0
        return inputs + output + self.workspace[i]
