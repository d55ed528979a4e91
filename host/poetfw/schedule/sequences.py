# SPDX-License-Identifier: Apache-2.0
"""Local search over plans as sequences of events.

An *event* brings a tensor into RAM: it computes a node or pages its tensor in. The events determine
the plan: a reader uses the latest event of its input, and a tensor is freed after the last reader
of its event. So removing an event keeps the tensor of the event before it for longer, and inserting
one between two readers frees the tensor in between. Two kinds of moves suffice: remove an event
where RAM suffices to keep the tensor, and, where RAM overflows, evict an idle tensor and bring it
back for its next reader.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from poetfw.common.limits import Work
from poetfw.schedule.coefficients import Costs
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.plan import plan_of
from poetfw.schedule.problem import ExecutionPlan, StepKind

if TYPE_CHECKING:
    from poetfw.schedule.found import Incumbent

_EVENT_WORK = 1.6e-7  # work units per event of a sequence that is evaluated
_TRIAL_WORK = 2e-5  # work units per event whose removal is tried
_VISIT_WORK = 4e-7  # work units per tensor visited to find the cost of an eviction
_LONGEST = 8  # events per node in a sequence, at most
_CHAIN = 400  # events that bring one tensor back, at most
_PASSES = 2  # passes over all events to thin a trace, at most
_DROPS = 60  # evictions at most, to make a perturbed trace fit
_TAKE_OUT = 0.7  # share of perturbations that remove events; the others insert
_WARMTH = 0.02  # initial annealing temperature, as a share of the overhead

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


class Workload:
    """Arrays of a problem for the evaluation of sequences.

    Event i computes node i; event n + i pages its tensor in.

    Args:
        graph: the problem.
    """

    def __init__(self, graph: Indexed) -> None:
        nodes, costs = graph.problem.nodes, Costs.energy(graph)
        position = {node.name: i for i, node in enumerate(nodes)}
        self.graph = graph
        self.n = graph.n
        self.compute_j = [float(x) for x in costs.compute]
        pageable = graph.pageable
        self.page_in_j = [
            float(x) if may else math.inf for x, may in zip(costs.page_in, pageable, strict=True)
        ]
        self.page_out_j = [
            float(x) if may else math.inf for x, may in zip(costs.page_out, pageable, strict=True)
        ]
        self.recomputable = [node.recompute and node.output_bytes > 0 for node in nodes]
        self.closes = [position.get(node.recompute_before or "", self.n) for node in nodes]
        self.until: list[int] = []
        for i in range(self.n):
            own = self.closes[i] if self.recomputable[i] else -1
            self.until.append(min([own, *(self.until[u] for u in graph.inputs[i])]))
        self.size: Integers = np.array(graph.size, dtype=np.int64)
        self.workspace: Integers = np.array(graph.workspace, dtype=np.int64)
        self.in_place: Integers = np.array(
            [-1 if i is None else i for i in graph.in_place], dtype=np.int64
        )
        self.read_counts: Integers = np.array([len(x) for x in graph.inputs], dtype=np.int64)
        self.read_starts: Integers = np.cumsum(self.read_counts) - self.read_counts
        self.reads: Integers = np.array([u for x in graph.inputs for u in x], dtype=np.int64)
        self.event_j: Floats = np.array([*self.compute_j, *self.page_in_j])
        self.out_j: Floats = np.array(self.page_out_j)
        can: Floats = np.where(self.recomputable, self.compute_j, math.inf)
        self.least_j: Floats = np.minimum(can, self.page_in_j)
        self.ram_bytes = graph.problem.ram_bytes

    def plan(self, events: Sequence[int]) -> ExecutionPlan:
        """The plan with these events and the page-outs and frees that they imply."""
        computed: set[int] = set()
        made = []
        for event in events:
            i = event % self.n
            kind = StepKind.COMPUTE if event < self.n else StepKind.PAGE_IN
            made.append((i, kind, event == i and i not in computed))
            computed.add(i)
        return plan_of(self.graph, made)

    def events(self, plan: ExecutionPlan) -> list[int]:
        """The events of a plan."""
        position = {node.name: i for i, node in enumerate(self.graph.problem.nodes)}
        begins = {StepKind.COMPUTE: 0, StepKind.PAGE_IN: self.n}
        return [begins[kind] + position[name] for kind, name, *_ in plan if kind in begins]


@dataclass(frozen=True)
class EventTrace:
    """A sequence of events with the lifetimes of its tensors.

    Attributes:
        workload: the problem.
        events: the events.
        nodes: per event, the node whose tensor it brings into RAM.
        by_node: positions of the events, sorted by node, then by position.
        first: per event, true if it is the first of its node.
        readers: per read of an input, the position of the reading event, ascending.
        sources: per read of an input, the position of the event that brought the input into RAM.
        last: per event, the position of its last reader; its own position without readers.
        during_bytes: per event, the bytes live while it runs.
        energy_j: joules of all events and the page-outs that they imply.
    """

    workload: Workload
    events: Integers
    nodes: Integers
    by_node: Integers
    first: NDArray[np.bool_]
    readers: Integers
    sources: Integers
    last: Integers
    during_bytes: Integers
    energy_j: float

    @staticmethod
    def of(workload: Workload, events: Sequence[int] | Integers, work: Work) -> EventTrace:
        """Evaluate a sequence; every input must have an event before each of its readers."""
        made: Integers = np.asarray(events, dtype=np.int64)
        length = len(made)
        work.spend(length * _EVENT_WORK)
        n = workload.n
        paged = made >= n
        nodes = np.where(paged, made - n, made)
        places = np.arange(length)
        counts = np.where(paged, 0, workload.read_counts[nodes])
        readers = np.repeat(places, counts)
        offsets = np.arange(len(readers)) - np.repeat(np.cumsum(counts) - counts, counts)
        inputs = workload.reads[np.repeat(workload.read_starts[nodes], counts) + offsets]
        order = np.argsort(nodes, kind="stable")
        in_order = nodes[order]
        keys = in_order * length + order
        sources = order[np.searchsorted(keys, inputs * length + readers) - 1]
        last = places.copy()
        last[sources] = readers  # ascending, so the last one stays
        first = np.zeros(length, dtype=np.bool_)
        first[order[:1]] = True
        first[order[1:]] = in_order[1:] != in_order[:-1]
        size = workload.size[nodes]
        freed = np.bincount(last, weights=size, minlength=length).astype(np.int64)
        during = np.cumsum(size) - (np.cumsum(freed) - freed)
        during += np.where(paged, 0, workload.workspace[nodes])
        taken = (workload.in_place[nodes[readers]] == inputs) & (last[sources] == readers)
        during[readers[taken]] -= size[sources[taken]]
        energy_j = float(workload.event_j[made].sum())
        if paged.any():
            energy_j += float(workload.out_j[np.unique(nodes[paged])].sum())
        return EventTrace(
            workload, made, nodes, order, first, readers, sources, last, during, energy_j
        )

    @property
    def peak_bytes(self) -> int:
        """Most bytes live at once."""
        return int(self.during_bytes.max(initial=0))

    @property
    def fits(self) -> bool:
        """True if the peak is within the budget."""
        return self.peak_bytes <= self.workload.ram_bytes

    @cached_property
    def again(self) -> Integers:
        """Positions of the events that are not their node's first, ascending."""
        return np.flatnonzero(~self.first)

    @cached_property
    def idle_from(self) -> Integers:
        """Per event, the position after the last reader of its node's event before; 0 without."""
        before = np.zeros(len(self.events), dtype=np.int64)
        before[self.by_node[1:]] = self.last[self.by_node[:-1]] + 1
        before[self.first] = 0
        return before

    @cached_property
    def stored(self) -> frozenset[int]:
        """Nodes whose tensors are paged in."""
        n = self.workload.n
        return frozenset((self.events[self.events >= n] - n).tolist())

    @cached_property
    def _places(self) -> tuple[list[int], list[int], list[int]]:
        """Keys (node · length + position) ascending, their positions, and last readers."""
        keys = self.nodes[self.by_node] * len(self.events) + self.by_node
        return keys.tolist(), self.by_node.tolist(), self.last.tolist()

    def is_held(self, node: int, position: int) -> bool:
        """True if a tensor is in RAM before an event and read then or later."""
        keys, places, last = self._places
        at = bisect_left(keys, node * len(self.events) + position)
        return last[places[at - 1]] >= position

    def first_of(self, node: int) -> int:
        """Position of a node's first event."""
        keys, places, _ = self._places
        return places[bisect_left(keys, node * len(self.events))]

    @cached_property
    def _reads(self) -> tuple[list[int], list[int], list[int]]:
        """Per event, the number of its reads and the offset of its sources; all sources."""
        length = len(self.events)
        begins = np.searchsorted(self.readers, np.arange(length + 1))
        counts = np.bincount(self.sources, minlength=length)
        return counts.tolist(), begins.tolist(), self.sources.tolist()

    @cached_property
    def _read_by(self) -> tuple[list[int], list[int]]:
        """All readers, sorted by the event that they read; per event, the offset of its own."""
        order = np.argsort(self.sources, kind="stable")
        begins = np.searchsorted(self.sources[order], np.arange(len(self.events) + 1))
        return self.readers[order].tolist(), begins.tolist()

    def unneeded(self, positions: Sequence[int]) -> set[int]:
        """These events, and all non-first events that lose their last reader with them."""
        counts, begins, sources = self._reads
        less: dict[int, int] = {}
        gone, stack = set(positions), list(positions)
        while stack:
            position = stack.pop()
            for source in sources[begins[position] : begins[position + 1]]:
                less[source] = less.get(source, 0) + 1
                if less[source] == counts[source] and not self.first[source]:
                    if source not in gone:
                        gone.add(source)
                        stack.append(source)
        return gone

    def idle_bytes(self, place: int, gone: set[int]) -> int:
        """Most bytes in RAM while an event's tensor is idle before it, without some events.

        Args:
            place: position of the event.
            gone: positions of this event and those that `unneeded` adds, which are left out.
        """
        size, in_place = self.workload.graph.size, self.workload.graph.in_place
        begin, last = int(self.idle_from[place]), self._places[2]
        if begin >= place:
            return 0
        _, begins, sources = self._reads
        read_by, offsets = self._read_by
        during = self.during_bytes[begin:place] + size[self.nodes[place]]
        for k in gone:
            if k != place:
                during[max(0, k - begin) : max(0, last[k] - begin)] -= size[self.nodes[k]]
            for source in set(sources[begins[k] : begins[k + 1]]):
                if last[source] != k or source in gone:
                    continue
                at = offsets[source + 1] - 1
                while at >= offsets[source] and read_by[at] in gone:
                    at -= 1
                reader = read_by[at] if at >= offsets[source] else source
                node = int(self.nodes[source])
                begun = reader if in_place[self.nodes[reader]] == node else reader + 1
                during[max(0, begun - begin) : max(0, k - begin)] -= size[node]
        during[[k - begin for k in gone if begin <= k < place]] = 0
        return int(during.max())

    def changed_since(self, other: EventTrace) -> tuple[int, int]:
        """Begin and end of the events that differ from another trace's, or in bytes live."""
        ends = []
        for way in (1, -1):
            length = min(len(self.events), len(other.events))
            mine, theirs = (
                (x.events[::way][:length], x.during_bytes[::way][:length]) for x in (self, other)
            )
            differs = (mine[0] != theirs[0]) | (mine[1] != theirs[1])
            ends.append(int(differs.argmax()) if differs.any() else length)
        return ends[0], len(self.events) - ends[1]

    def without(self, positions: Sequence[int], work: Work) -> EventTrace:
        """A trace without these events and those that `unneeded` adds."""
        kept = np.ones(len(self.events), dtype=np.bool_)
        kept[list(self.unneeded(positions))] = False
        return EventTrace.of(self.workload, self.events[kept], work)

    def pruned(self, work: Work) -> EventTrace:
        """A trace without unread events, first ones excepted."""
        unread = np.bincount(self.sources, minlength=len(self.events)) == 0
        positions = np.flatnonzero(unread & ~self.first).tolist()
        return self.without(positions, work) if positions else self


class Moves:
    """Moves from trace to trace; randomised, with a fixed seed.

    Args:
        workload: the problem.
        work: limit of the search.
        seed: seed of the random numbers.
    """

    def __init__(self, workload: Workload, work: Work, seed: int = 0) -> None:
        self.workload = workload
        self.work = work
        self.rng = random.Random(seed)

    def thinned(self, known: EventTrace, since: EventTrace | None = None) -> EventTrace:
        """Remove events where RAM suffices to keep the tensor; roughly the most costly first.

        Args:
            known: a trace that fits in RAM.
            since: a thinned trace that `known` was made from: only events whose tensors are idle
                while something differs are tried; None to try all.
        """
        workload = self.workload
        known = known.pruned(self.work)
        for _ in range(_PASSES):
            again, tried = known.again, known
            if since is not None:
                begin, end = known.changed_since(since)
                again = again[(known.idle_from[again] < end) & (again >= begin)]
            joules = workload.event_j[known.events[again]]
            factors = np.array([0.5 + self.rng.random() for _ in range(len(again))])
            positions = np.arange(len(known.events))
            for position in again[np.argsort(-joules * factors, kind="stable")].tolist():
                if not self.work.is_left():
                    return known
                place = int(np.searchsorted(positions, position))
                if place == len(positions) or positions[place] != position:
                    continue  # removed together with another event
                self.work.spend(_TRIAL_WORK)
                gone = known.unneeded([place])
                if known.idle_bytes(place, gone) > workload.ram_bytes:
                    continue
                kept = np.ones(len(positions), dtype=np.bool_)
                kept[list(gone)] = False
                other = EventTrace.of(workload, known.events[kept], self.work)
                if other.fits and other.energy_j < known.energy_j:
                    known, positions = other, positions[kept]
            if known is tried:
                break
            since = tried
        return known

    def dropped(
        self, known: EventTrace, place: int, exponent: float, noise: float
    ) -> EventTrace | None:
        """Evict a tensor that is idle during an event, and bring it back for its next reader.

        Evicts the tensor with the least joules / bytes ** exponent, times a random factor.

        Args:
            known: a trace.
            place: position of the event.
            exponent: weight of the bytes.
            noise: standard deviation of the factor's logarithm.

        Returns:
            The new trace; None if no idle tensor can be brought back.
        """
        workload, rng = self.workload, self.rng
        over = (known.sources < place) & (known.readers > place)
        next_reader = np.full(place, -1)
        next_reader[known.sources[over][::-1]] = known.readers[over][::-1]
        next_reader[known.sources[known.readers == place]] = -1
        sources = np.flatnonzero(next_reader >= 0)
        nodes = known.nodes[sources]
        weights = workload.size[nodes] ** exponent
        if noise:
            weights *= np.exp([noise * rng.gauss(0.0, 1.0) for _ in range(len(nodes))])
        least = workload.least_j[nodes] / weights
        order = np.argsort(least, kind="stable")
        best: tuple[float, list[int], int] | None = None
        at_most = math.inf
        for score, node, weight, reader in zip(
            *(x[order].tolist() for x in (least, nodes, weights, next_reader[sources])), strict=True
        ):
            if score >= at_most:
                break  # so are all that follow
            again = self._again(known, node, reader, at_most * weight)
            if again is not None and again[0] < at_most * weight:
                at_most = again[0] / weight
                best = at_most, again[1], reader
        if best is None:
            return None
        _, chain, reader = best
        events = np.concatenate((known.events[:reader], chain, known.events[reader:]))
        return EventTrace.of(self.workload, events, self.work)

    def _again(
        self, known: EventTrace, node: int, reader: int, at_most: float
    ) -> tuple[float, list[int]] | None:
        """Joules and events that bring a tensor back for a reader; None if not below `at_most`."""
        workload, n, inputs = self.workload, self.workload.n, self.workload.graph.inputs
        page_j = workload.page_in_j[node]
        page_j += 0.0 if node in known.stored else workload.page_out_j[node]
        limit_j = min(at_most, page_j)
        chain: list[int] = []
        joules, seen, stack = 0.0, {node}, [node]
        while stack:
            i = stack.pop()
            if i < 0:
                chain.append(~i)
                continue
            joules += workload.compute_j[i]
            closes = workload.closes[i]
            if (
                joules >= limit_j
                or not workload.recomputable[i]
                or (closes < n and known.first_of(closes) < reader)
                or len(seen) > _CHAIN
            ):
                chain, joules = [n + node], page_j
                break
            stack.append(~i)
            for u in inputs[i]:
                if u not in seen and not known.is_held(u, reader):
                    seen.add(u)
                    stack.append(u)
        self.work.spend(_VISIT_WORK * len(seen))
        return (joules, chain) if joules < at_most else None

    def fitted(
        self, known: EventTrace, exponent: float, noise: float, drops: int
    ) -> EventTrace | None:
        """Evict tensors until the trace fits in RAM; None if `drops` evictions do not suffice."""
        longest = _LONGEST * self.workload.n
        for _ in range(drops):
            if known.fits:
                return known
            if not self.work.is_left() or len(known.events) > longest:
                return None
            over = known.during_bytes > self.workload.ram_bytes
            place = int(known.during_bytes.argmax() if self.rng.random() < 0.5 else over.argmax())
            other = self.dropped(known, place, exponent, noise)
            if other is None:
                return None
            known = other
        return known if known.fits else None

    def shaken(self, known: EventTrace) -> EventTrace | None:
        """Perturb a trace: remove random events even if RAM overflows, or evict random tensors."""
        draw = self.rng.random
        length = len(known.events)
        if draw() < _TAKE_OUT:
            width = 5 + int(draw() * max(2, length // 4))
            begin = int(draw() * length)
            share = 1.0 if draw() < 0.5 else 0.3
            within = [k for k in known.again.tolist() if begin <= k < begin + width]
            taken = [k for k in within if draw() < share]
            return known.without(taken, self.work) if taken else None
        other = known
        for _ in range(1 + int(draw() * 4)):
            dropped = self.dropped(other, int(draw() * len(other.events)), draw(), 1.5)
            other = dropped or other
        return other

    def improved(self, known: EventTrace) -> Iterator[EventTrace]:
        """Yield ever better traces that fit, until the work is spent (simulated annealing).

        Each step perturbs the current trace, makes it fit and thins it. The result becomes current
        if it is better, or worse by at most a random amount that decreases with the work left.
        """
        once_j = math.fsum(self.workload.compute_j)
        units = self.work.left
        current = best = known
        while self.work.is_left():
            self.work.spend(_EVENT_WORK * len(current.events))
            shaken = self.shaken(current)
            if shaken is None:
                continue
            noise = 0.3 if self.rng.random() < 0.5 else 1.0
            fitted = self.fitted(shaken, 0.3 + self.rng.random(), noise, _DROPS)
            if fitted is None:
                continue
            other = self.thinned(fitted, current)
            warmth_j = _WARMTH * (best.energy_j - once_j) * max(0.0, self.work.left / units)
            if other.energy_j <= current.energy_j + warmth_j * self.rng.expovariate(1.0):
                current = other
            if other.energy_j < best.energy_j:
                best = other
                yield best


def search_sequences(best: Incumbent, work: Work, gap: float = 0.0) -> None:
    """Offer the incumbent's plan thinned, and plans found by `Moves.improved` from that.

    Args:
        best: the incumbent, with a plan.
        work: limit of the search.
        gap: share of the energy; the search ends where no plan takes less by more.
    """
    assert best.found.plan is not None
    workload = Workload(Indexed.of(best.problem))
    moves = Moves(workload, work)
    known = EventTrace.of(workload, workload.events(best.found.plan), work)
    start = moves.thinned(known)
    for trace in chain((start,), moves.improved(start)):
        best.offer(workload.plan(trace.events.tolist()))
        if best.is_best_of_all(gap):
            return
