# SPDX-License-Identifier: Apache-2.0
"""Plan writer: a method says what to compute, drop and page; the other steps follow."""

from __future__ import annotations

from collections.abc import Callable

from poetfw.schedule.indexed import Indexed
from poetfw.schedule.plan import plan_of
from poetfw.schedule.problem import ExecutionPlan, StepKind


class _Lost(Exception):
    """A tensor that cannot be recomputed was dropped."""

    def __init__(self, tensor: int) -> None:
        super().__init__(tensor)
        self.tensor = tensor


class Emitter:
    """Turns a method's decisions into productions.

    A tensor is held from its production until it is dropped or paged. An input that is not held
    is paged in, or recomputed with all its own missing inputs. The actual free of a tensor follows
    from its last use before its next production, so a method only says which tensors it evicts.
    """

    def __init__(self, graph: Indexed, pinned: frozenset[int] = frozenset()) -> None:
        self.graph = graph
        self.events: list[tuple[int, StepKind, bool]] = []
        self._pinned = pinned
        self._held: set[int] = set()
        self._paged: set[int] = set()
        self._computed: set[str] = set()

    def compute(self, i: int) -> None:
        """Compute node i for the first time."""
        for u in self.graph.inputs[i]:
            self.ensure(u)
        self._produce(i, StepKind.COMPUTE, first=True)
        self._computed.add(self.graph.problem.nodes[i].name)

    def computed(self, i: int) -> bool:
        """True if node i has been computed."""
        return self.graph.problem.nodes[i].name in self._computed

    def ensure(self, i: int) -> None:
        """Bring tensor i into RAM."""
        stack = [i]
        while stack:
            j = stack[-1]
            if j in self._held:
                stack.pop()
            elif j in self._paged:
                self._produce(j, StepKind.PAGE_IN)
            elif not self._recomputable(j):
                raise _Lost(j)
            elif missing := [u for u in self.graph.inputs[j] if u not in self._held]:
                stack.extend(reversed(missing))
            else:
                self._produce(j, StepKind.COMPUTE)

    def drop(self, i: int) -> None:
        """Evict tensor i; the next read recomputes it, if possible."""
        if i not in self._pinned and (self.graph.problem.nodes[i].recompute or i in self._paged):
            self._held.discard(i)

    def page(self, i: int) -> None:
        """Evict tensor i; the next read pages it in, if it is pageable."""
        if i not in self._pinned and self.graph.pageable[i]:
            self._paged.add(i)
        self.drop(i)

    def _produce(self, i: int, kind: StepKind, *, first: bool = False) -> None:
        self.events.append((i, kind, first))
        if self.graph.size[i]:
            self._held.add(i)

    def _recomputable(self, i: int) -> bool:
        node = self.graph.problem.nodes[i]
        return node.recompute and node.recompute_before not in self._computed


def emit(graph: Indexed, script: Callable[[Emitter], None]) -> ExecutionPlan:
    """Build the plan of a script, which makes its decisions by calling an `Emitter`.

    A dropped tensor that cannot be recomputed, because an update precludes it, is kept instead: the
    script runs again with that tensor pinned.
    """
    pinned: frozenset[int] = frozenset()
    while True:
        emitter = Emitter(graph, pinned)
        try:
            script(emitter)
        except _Lost as lost:
            pinned |= {lost.tensor}
        else:
            return plan_of(graph, emitter.events)
