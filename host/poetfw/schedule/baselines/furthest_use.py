# SPDX-License-Identifier: Apache-2.0
"""Belady's rule, applied to tensors: page out the one whose next use is furthest away."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from poetfw.schedule.indexed import Indexed
from poetfw.schedule.plan import StageEvents, lower
from poetfw.schedule.problem import ExecutionPlan


def furthest_use(graph: Indexed) -> ExecutionPlan | None:
    """Compute each node once; page out the tensor with the furthest next use when RAM runs short.

    Only pageable tensors that the current node does not need are evicted, the furthest next use
    first (L. A. Belady, "A study of replacement algorithms", 1966), the larger tensor in a tie. If
    every tensor is pageable, it finds a plan within any budget that holds the largest working set.

    Returns:
        The plan, or None if the tensors that cannot be paged leave too little RAM.
    """
    budget, n, size = graph.problem.ram_bytes, graph.n, graph.size
    uses = [_Uses(consumers, n) for consumers in graph.consumers]
    held: set[int] = set()
    live = 0
    page_ins: set[tuple[int, int]] = set()
    queue: list[tuple[int, int, int]] = []  # eviction candidates, the furthest next use first
    for t in range(n):
        inputs, taken = graph.inputs[t], graph.in_place[t]
        missing = [i for i in inputs if i not in held]
        page_ins.update((t, i) for i in missing)
        held.update(missing)
        live += sum(size[i] for i in missing)
        for i in inputs:
            uses[i].pass_by(t)
        needed = live + size[t] + graph.workspace[t]
        if taken is not None:
            if uses[taken].next == n:
                needed -= size[taken]
            elif graph.pageable[taken]:
                heapq.heappush(queue, (-uses[taken].next, -size[taken], taken))
        while needed > budget:
            if not queue:
                return None
            use, _, i = heapq.heappop(queue)
            if i in held and uses[i].next == -use:  # else the entry is outdated
                held.remove(i)
                live -= size[i]
                needed -= size[i]
        if size[t]:
            held.add(t)
            live += size[t]
        for i in (*inputs, t):
            if i in held and uses[i].next == n:
                held.remove(i)
                live -= size[i]
            elif i in held and graph.pageable[i]:
                heapq.heappush(queue, (-uses[i].next, -size[i], i))
    return lower(graph, StageEvents(page_ins=frozenset(page_ins)))


class _Uses:
    """Stages that read a tensor, in order.

    Attributes:
        next: the next stage that reads it; the number of stages if none does.
    """

    def __init__(self, stages: Sequence[int], none: int) -> None:
        self._left = [none, *reversed(stages)]
        self.next = self._left[-1]

    def pass_by(self, stage: int) -> None:
        """Skip the uses up to and including this stage."""
        while self.next <= stage:
            self._left.pop()
            self.next = self._left[-1]
