# SPDX-License-Identifier: Apache-2.0
"""Page out what is wanted latest: Belady's rule, applied to tensors."""

from __future__ import annotations

from poetfw.schedule.indexed import Indexed
from poetfw.schedule.plan import StageEvents, lower
from poetfw.schedule.problem import ExecutionPlan


def furthest_use(graph: Indexed) -> ExecutionPlan | None:
    """Compute each node once; when RAM runs short, page out the tensor whose next use is furthest.

    Of the tensors not wanted by the node at hand those that may be paged give way, the furthest
    next use first (L. A. Belady, "A study of replacement algorithms", 1966), the larger one in a
    tie. With every tensor pageable it finds a plan within any budget that holds the largest
    working set.

    Returns:
        The plan, or None if what may not be paged leaves too little RAM.
    """
    budget = graph.problem.ram_bytes
    held: set[int] = set()
    page_ins: set[tuple[int, int]] = set()
    for t in range(graph.n):
        inputs = graph.inputs[t]
        missing = [i for i in inputs if i not in held]
        page_ins.update((t, i) for i in missing)
        held.update(missing)
        needed = sum(graph.size[i] for i in held) + graph.size[t] + graph.workspace[t]
        taken = graph.in_place[t]
        if taken is not None and _next_use(graph, taken, t) == graph.n:
            needed -= graph.size[taken]
        candidates = [
            i
            for i in held
            if graph.pageable[i]
            and (i not in inputs or (i == taken and _next_use(graph, i, t) < graph.n))
        ]
        candidates.sort(key=lambda i: (-_next_use(graph, i, t), -graph.size[i], i))
        for i in candidates:
            if needed <= budget:
                break
            held.remove(i)
            needed -= graph.size[i]
        if needed > budget:
            return None
        if graph.size[t]:
            held.add(t)
        held = {i for i in held if _next_use(graph, i, t) < graph.n}
    return lower(graph, StageEvents(page_ins=frozenset(page_ins)))


def _next_use(graph: Indexed, i: int, t: int) -> int:
    """The first stage after t in which tensor i is read; n if there is none."""
    return next((j for j in graph.consumers[i] if j > t), graph.n)
