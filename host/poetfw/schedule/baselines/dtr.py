# SPDX-License-Identifier: Apache-2.0
"""Dynamic tensor rematerialization: evict when RAM runs out, recompute on the next read.

M. Kirisame et al., "Dynamic Tensor Rematerialization", ICLR 2021: the greedy algorithm of section 2
with the heuristic h_DTR, which evicts the tensor t with the least

    (c(t) + Σ_{e ∈ e*(t)} c(e)) / (m(t) · s(t))

with c the compute time, m the bytes, s the time since the last access, and e*(t) the evicted
neighbourhood: the evicted tensors needed to recompute t, and those that need t. A tensor without
further reads is evicted at once (the paper's "eager eviction").

Like DTR, this looks at no future op, with one exception for in-place updates, which the paper does
not have: before an op that makes evicted tensors impossible to recompute, those still needed are
recomputed, and no tensor is evicted that would be lost.
"""

from __future__ import annotations

from poetfw.common.errors import UnsuitableError
from poetfw.common.limits import Deadline
from poetfw.schedule.baselines.passes import require
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.plan import plan_of
from poetfw.schedule.problem import ExecutionPlan, ScheduleProblem, StepKind

_THRASHING = 50
"""Computations per node after which the run counts as thrashing."""


def dtr(problem: ScheduleProblem, deadline: Deadline) -> ExecutionPlan:
    """Plan of a run of the nodes in order within the budget.

    Raises:
        UnsuitableError: RAM ran out with nothing left to evict, the run thrashes, or the deadline
            of the problem is missed.
        OutOfTime: the deadline has passed.
    """
    graph = Indexed.of(problem)
    runtime = _Runtime(graph)
    for t in deadline.during(range(graph.n)):
        runtime.run(t)
    plan = plan_of(graph, ((i, StepKind.COMPUTE, first) for i, first in runtime.computations))
    return require(graph, plan, "dtr")


class _Runtime:
    """State of DTR's runtime system while the program runs."""

    def __init__(self, graph: Indexed) -> None:
        self.graph = graph
        self.nodes = graph.problem.nodes
        self.computations: list[tuple[int, bool]] = []
        self.held: set[int] = set()
        self.live_bytes = 0
        self.clock_s = 0.0
        self.accessed_s = [0.0] * graph.n
        self.unread = [len(consumers) for consumers in graph.consumers]
        self.done = [False] * graph.n
        self.locks = [0] * graph.n
        self.closed: set[str] = set()
        self.neighbours_s: dict[int, float] = {}

    def run(self, t: int) -> None:
        """Run node t for the first time."""
        self.close(self.nodes[t].name)
        self.have_inputs(t)
        self.compute(t, first=True)
        self.done[t] = True
        for u in self.graph.inputs[t]:
            self.unread[u] -= 1
        self.release()

    def close(self, name: str) -> None:
        """Recompute needed tensors that cannot be recomputed once the node of this name has run."""
        self.closed.add(name)
        if not any(node.recompute_before == name for node in self.nodes):
            return
        again = self.recoverable()
        for i in range(self.graph.n):
            evicted = self.done[i] and self.unread[i] and i not in self.held
            if evicted and self.graph.size[i] and not again[i]:
                self.materialise(i)

    def recoverable(self, gone: int | None = None) -> list[bool]:
        """Per node, True if its tensor could be recomputed after an eviction now.

        Args:
            gone: a resident tensor that is about to be evicted.
        """
        again: list[bool] = []
        for i, node in enumerate(self.nodes):
            again.append(
                node.recompute
                and node.recompute_before not in self.closed
                and all((u in self.held and u != gone) or again[u] for u in self.graph.inputs[i])
            )
        return again

    def have_inputs(self, i: int) -> None:
        """Lock node i's inputs and bring them into RAM."""
        for u in self.graph.inputs[i]:
            self.locks[u] += 1
        for u in self.graph.inputs[i]:
            self.materialise(u)

    def materialise(self, goal: int) -> None:
        """Recompute a tensor, after its evicted ancestors."""
        stack = [goal]
        entered: set[int] = set()
        while stack:
            i = stack[-1]
            if i in self.held:
                stack.pop()
                continue
            if i not in entered:
                entered.add(i)
                for u in self.graph.inputs[i]:
                    self.locks[u] += 1
            missing = [u for u in self.graph.inputs[i] if u not in self.held]
            if missing:
                stack.append(missing[0])
            else:
                self.compute(i, first=False)
                stack.pop()

    def compute(self, i: int, *, first: bool) -> None:
        """Run node i, whose inputs are in RAM and locked; unlock them."""
        if len(self.computations) >= _THRASHING * self.graph.n:
            raise UnsuitableError("dtr", f"it thrashes: {len(self.computations):,} computations")
        replaced = self.replaced(i, first=first)
        self.make_room(i, replaced)
        node = self.nodes[i]
        self.computations.append((i, first))
        self.clock_s += node.time_s
        for j in (i, *self.graph.inputs[i]):
            self.accessed_s[j] = self.clock_s
        for u in self.graph.inputs[i]:
            self.locks[u] -= 1
        if replaced is not None:
            self.evict(replaced)
        if self.graph.size[i]:
            self.held.add(i)
            self.live_bytes += self.graph.size[i]
            self.forget_neighbourhood(i)

    def replaced(self, i: int, *, first: bool) -> int | None:
        """Input that node i's output overwrites in place, if no other op reads it; else None."""
        u = self.graph.in_place[i]
        if u is None or self.unread[u] > first or self.locks[u] > 1:
            return None
        return u if self.recoverable()[u] or u not in self.wanted() else None

    def make_room(self, i: int, replaced: int | None) -> None:
        """Evict until node i fits; keep tensors that cannot be restored without `replaced`."""
        needed = (self.graph.size[i] if replaced is None else 0) + self.graph.workspace[i]
        while self.live_bytes + needed > self.graph.problem.ram_bytes:
            again = self.recoverable(replaced)
            candidates = [j for j in self.held if not self.locks[j] and again[j]]
            if not candidates:
                raise UnsuitableError(
                    "dtr",
                    f"at node {self.nodes[i].name!r} nothing is left to evict, with "
                    f"{self.live_bytes + needed + self.graph.problem.resident_bytes:,} bytes "
                    f"wanted of {self.graph.problem.budget_bytes:,}",
                )
            self.evict(min(candidates, key=lambda j: (self.score(j), j)))

    def evict(self, i: int) -> None:
        self.held.remove(i)
        self.live_bytes -= self.graph.size[i]
        self.forget_neighbourhood(i)

    def score(self, i: int) -> float:
        """h_DTR: cost of evicting tensor i, divided by its size and staleness."""
        stale_s = self.clock_s - self.accessed_s[i]
        if stale_s <= 0:
            return float("inf")
        if i not in self.neighbours_s:
            evicted = self.neighbourhood(i)
            self.neighbours_s[i] = sum(self.nodes[j].time_s for j in sorted(evicted))
        cost_s = self.nodes[i].time_s + self.neighbours_s[i]
        return cost_s / (self.graph.size[i] * stale_s)

    def neighbourhood(self, i: int) -> set[int]:
        """e*(i): evicted ancestors and descendants of i, connected through evicted tensors."""
        found: set[int] = set()
        for edges in (self.graph.inputs, self.graph.consumers):
            stack = [i]
            while stack:
                for j in edges[stack.pop()]:
                    if self.evicted(j) and j not in found:
                        found.add(j)
                        stack.append(j)
        return found

    def evicted(self, i: int) -> bool:
        return self.done[i] and bool(self.graph.size[i]) and i not in self.held

    def forget_neighbourhood(self, i: int) -> None:
        """Invalidate the scores of tensors whose neighbourhood contains tensor i."""
        for edges in (self.graph.inputs, self.graph.consumers):
            seen = {i}
            stack = [i]
            while stack:
                for j in edges[stack.pop()]:
                    if j in self.held:
                        self.neighbours_s.pop(j, None)
                    elif j not in seen and self.evicted(j):
                        seen.add(j)
                        stack.append(j)
        self.neighbours_s.pop(i, None)

    def release(self) -> None:
        """Evict tensors without further reads; keep those that others need and would be lost."""
        dead = [i for i in self.held if not self.unread[i]]
        if not dead:
            return
        wanted = self.wanted()
        for i in sorted(dead):
            if i not in wanted or self.recoverable()[i]:
                self.evict(i)

    def wanted(self) -> set[int]:
        """Evicted tensors that the program still reads, with the evicted ones they need."""
        wanted: set[int] = set()
        stack = [i for i in range(self.graph.n) if self.unread[i] and self.evicted(i)]
        while stack:
            for u in self.graph.inputs[stack.pop()]:
                if u not in wanted:
                    wanted.add(u)
                    if u not in self.held:
                        stack.append(u)
        return wanted
