# SPDX-License-Identifier: Apache-2.0
"""Greedy recompute on demand with lookahead: one pass over the nodes gives a plan for any graph.

The nodes run in order. An input that is not in RAM is recomputed, after its own missing inputs, or
paged in, whichever takes less energy. When RAM runs out, the tensor with the least score is
evicted:

    score = joules ** a / (bytes ** b * distance ** c) * key

`joules` is the energy to bring the tensor back: to recompute it with all missing inputs, or to page
it. `distance` is the number of nodes until it is read next: by a reader's first computation, or by
the recomputation of an evicted tensor that is itself read next. So an input of an evicted tensor
stays about as long as it is useful. Belady's rule is a = b = 0, c = 1. The heuristic h_DTR
(Kirisame et al., "Dynamic Tensor Rematerialization", ICLR 2021) is a = b = c = 1 with the time
*since* the last use as distance, because DTR does not know the future.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from poetfw.common.limits import Work
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.sequences import EventTrace, Floats, Moves, Workload

if TYPE_CHECKING:
    from poetfw.schedule.found import Incumbent

_STEP_WORK = 5e-6  # work units per event, in problems of up to
_STEP_NODES = 1_000  # nodes; beyond, in proportion to the nodes
_LONGEST = 6  # events per node, at most
_PINS = 20  # tensors pinned at most, because evicting them loses them
_PARTS = 4  # parts of a run, each with its own keys
_RUNS = 64
_NEAR = 1.15  # times the best energy; traces above are not thinned
_EXPONENTS = (0.5, 0.7, 1.0, 1.3), (0.5, 1.0, 1.5), (0.0, 0.3, 0.6, 1.0, 1.5)
_SPREAD = 0.15  # standard deviation of a key's logarithm


class _Lost(Exception):
    """An evicted tensor is needed but can be neither recomputed nor paged in."""

    def __init__(self, node: int) -> None:
        super().__init__(node)
        self.node = node


class _Stuck(Exception):
    """RAM ran out with no tensor left to evict, or the run has too many events."""


@dataclass(frozen=True)
class Rule:
    """Eviction rule: parameters of the score defined in this module.

    Attributes:
        joules, bytes, distance: exponents a, b and c.
        keys: factors, [parts of the run, nodes].
    """

    joules: float
    bytes: float
    distance: float
    keys: Floats

    @staticmethod
    def drawn(rng: random.Random, n: int) -> Rule:
        """A rule for n nodes, drawn at random."""
        joules, size, distance = (
            exponents[int(rng.random() * len(exponents))] for exponents in _EXPONENTS
        )
        draws = [[rng.gauss(0.0, _SPREAD) for _ in range(n)] for _ in range(_PARTS)]
        return Rule(joules, size, distance, np.exp(np.array(draws)))


class _Run:
    """State of one greedy pass over the nodes by a rule, with some tensors pinned in RAM."""

    def __init__(self, workload: Workload, rule: Rule, pinned: frozenset[int]) -> None:
        n = workload.n
        self.workload, self.graph, self.rule, self.pinned = workload, workload.graph, rule, pinned
        self.events: list[int] = []
        self.t = 0
        self.live = 0
        self.held = [False] * n
        self.done = [False] * n
        self.stored = [False] * n
        self.locks = [0] * n
        self.next_read = [n] * n
        self.finished: list[int] = []
        self.joules: Floats = np.full(n, math.inf)
        size = np.maximum(workload.size, 1).astype(np.float64)
        self.factor = rule.keys / size**rule.bytes
        self.candidates: Floats = np.full(n, math.inf)  # 1 for tensors that may be evicted
        self.limit = _LONGEST * n

    def go(self, work: Work) -> list[int]:
        """Run all nodes and return the events."""
        step = _STEP_WORK * max(1.0, self.workload.n / _STEP_NODES)
        for t in range(self.workload.n):
            self.t, begun = t, len(self.events)
            self.bring(t)
            work.spend((len(self.events) - begun) * step)
        return self.events

    def bring(self, goal: int) -> None:
        """Compute a node after its missing inputs; an input stays locked until its reader ran."""
        workload = self.workload
        frames = [(goal, self.by_need(goal))]
        while frames:
            i, missing = frames[-1]
            if not missing:
                self.compute(i)
                frames.pop()
                continue
            u = missing[-1]
            if self.held[u]:
                self.lock(u, 1)
                missing.pop()
                continue
            joules, until = self.cost(u)
            if self.stored[u] and (until < self.t or joules >= workload.page_in_j[u]):
                self.make_room(self.graph.size[u])
                self.put(u, workload.n + u)
            elif until < self.t:
                raise _Lost(u)
            else:
                frames.append((u, self.by_need(u)))

    def by_need(self, i: int) -> list[int]:
        """A node's inputs, in ascending order of the cost to bring them into RAM."""
        inputs = self.graph.inputs[i]
        if all(self.held[u] for u in inputs):
            return list(inputs)
        return sorted(inputs, key=lambda u: 0.0 if self.held[u] else self.cost(u)[0])

    def lock(self, u: int, by: int) -> None:
        self.locks[u] += by
        free = self.held[u] and not self.locks[u] and u not in self.pinned
        self.candidates[u] = 1.0 if free else math.inf

    def cost(self, i: int) -> tuple[float, int]:
        """Joules to recompute a tensor, and the last stage in which that is possible.

        Missing inputs that are in storage are paged in.
        """
        workload, held, inputs = self.workload, self.held, self.graph.inputs
        joules, until, seen, stack = 0.0, workload.n, {i}, [i]
        while stack:
            j = stack.pop()
            if self.stored[j] and j != i:
                joules += workload.page_in_j[j]
                continue
            if not workload.recomputable[j]:
                return math.inf, -1
            joules += workload.compute_j[j]
            until = min(until, workload.closes[j])
            for u in inputs[j]:
                if not held[u] and u not in seen:
                    seen.add(u)
                    stack.append(u)
        return joules, until

    def dearness(self, i: int) -> float:
        """Joules to bring a tensor back for its next reader."""
        workload = self.workload
        page_j = workload.page_in_j[i] + (0.0 if self.stored[i] else workload.page_out_j[i])
        if workload.until[i] < self.next_read[i]:
            return page_j
        return min(self.cost(i)[0], page_j)

    def update(self, i: int) -> None:
        """Update the next read of a tensor; if the tensor is evicted, those of its inputs too."""
        stack = [i]
        while stack:
            v = stack.pop()
            read = self.workload.n
            for c in self.graph.consumers[v]:
                if not self.done[c]:
                    read = min(read, c)
                    break
                if not self.held[c] and self.next_read[c] < read:
                    read = self.next_read[c]
            if read != self.next_read[v]:
                self.next_read[v] = read
                if not self.held[v]:
                    stack.extend(self.graph.inputs[v])
                elif read == self.workload.n:
                    self.finished.append(v)

    def put(self, i: int, event: int) -> None:
        """Bring a tensor into RAM by an event."""
        self.events.append(event)
        if len(self.events) > self.limit:
            raise _Stuck
        self.held[i] = True
        self.live += self.graph.size[i]
        self.lock(i, 0)
        self.joules[i] = -1.0  # unknown
        for u in self.graph.inputs[i]:
            self.update(u)
        for c in self.graph.consumers[i]:
            if self.held[c]:
                self.joules[c] = -1.0

    def remove(self, i: int) -> None:
        """Remove a tensor from RAM."""
        self.held[i] = False
        self.live -= self.graph.size[i]
        self.lock(i, 0)
        if self.next_read[i] < self.workload.n:
            for u in self.graph.inputs[i]:
                self.update(u)

    def compute(self, i: int) -> None:
        """Run a node whose inputs are in RAM and locked."""
        graph, first = self.graph, not self.done[i]
        taken = graph.in_place[i]
        if taken is not None and (
            self.locks[taken] > 1 or not self.held[taken] or self.is_read_after(taken, i)
        ):
            taken = None
        self.make_room((0 if taken is not None else graph.size[i]) + graph.workspace[i])
        self.done[i] = True
        for u in graph.inputs[i]:
            self.lock(u, -1)
        if taken is not None:
            self.remove(taken)
        if first and graph.size[i]:
            self.next_read[i] = -1
        if graph.size[i]:
            self.put(i, i)
            self.update(i)
        else:
            self.events.append(i)
            for u in graph.inputs[i]:
                self.update(u)

    def is_read_after(self, u: int, i: int) -> bool:
        """True if tensor u is read again after node i, its current reader."""
        for c in self.graph.consumers[u]:
            if c == i:
                continue
            if c >= self.t and not self.done[c]:
                return True
            if self.done[c] and not self.held[c] and self.next_read[c] < self.workload.n:
                return True
        return False

    def make_room(self, needed: int) -> None:
        """Evict tensors until `needed` bytes are free."""
        room = self.workload.ram_bytes - needed
        finished, self.finished = self.finished, []
        for i in finished:
            if self.held[i] and self.next_read[i] == self.workload.n:
                if self.locks[i]:
                    self.finished.append(i)
                else:
                    self.remove(i)
        if self.live <= room:
            return
        rule = self.rule
        part = self.t * _PARTS // self.workload.n
        weight = self.factor[part] * self.candidates
        if rule.distance:
            reads = np.array(self.next_read, dtype=np.float64)
            weight = weight / np.maximum(reads - self.t, 1.0) ** rule.distance
        while self.live > room:
            open_ = np.flatnonzero(np.isfinite(weight))
            if not len(open_):
                raise _Stuck
            for i in open_[self.joules[open_] < 0].tolist():
                self.joules[i] = self.dearness(i)
            score = weight[open_] * self.joules[open_] ** rule.joules
            i = int(open_[score.argmin()])
            if not math.isfinite(score.min()):
                raise _Stuck
            now_j = self.dearness(i)
            if now_j != self.joules[i]:
                self.joules[i] = now_j
                continue
            if self.workload.until[i] < self.next_read[i] or now_j < self.cost(i)[0]:
                self.stored[i] = True
            weight[i] = math.inf
            self.remove(i)


def run_on_demand(workload: Workload, rule: Rule, work: Work) -> EventTrace | None:
    """The trace of a run by a rule; None if RAM runs out with no tensor left to evict.

    If an evicted tensor turns out to be needed but lost, the run is repeated with it pinned.
    """
    pinned: frozenset[int] = frozenset()
    while len(pinned) <= _PINS and work.is_left():
        try:
            events = _Run(workload, rule, pinned).go(work)
        except _Lost as lost:
            if lost.node in pinned:
                return None
            pinned |= {lost.node}
        except _Stuck:
            return None
        else:
            return EventTrace.of(workload, events, work).pruned(work)
    return None


def search_on_demand(best: Incumbent, work: Work) -> None:
    """Offer plans of runs by random rules, thinned by `Moves.thinned`.

    Args:
        best: the incumbent.
        work: limit of the search.
    """
    workload = Workload(Indexed.of(best.problem))
    moves = Moves(workload, work)
    known_j = math.inf
    for _ in range(_RUNS):
        if not work.is_left():
            return
        trace = run_on_demand(workload, Rule.drawn(moves.rng, workload.n), work)
        if trace is None or trace.energy_j >= _NEAR * known_j:
            continue
        trace = moves.thinned(trace)
        if trace.energy_j < known_j:
            known_j = trace.energy_j
            best.offer(workload.plan(trace.events.tolist()))
