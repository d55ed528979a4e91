# SPDX-License-Identifier: Apache-2.0
"""Program of one or more moments of a plan, whose optimum is a lower bound of all plans.

A *moment* is the first computation of a node. Moments of a chain of nodes, each of which depends on
the one before, come in this order in every plan, whatever its order of other nodes. Between two
moments, and after the last one, a plan may recompute and page in tensors that were computed before.
So there is a program of `having` per *interval*, from a moment to the next:

- A tensor that is in RAM at a moment was held all the time since the moment before, or recomputed
  or paged in since, or computed for the first time.
- A node that is first computed between two moments in every plan reads its inputs there. If the
  interval is not known, a tensor is held at the first possible moment, or produced later.
- At a moment, RAM has the tensors held there beside those that the node reads and writes. While a
  node runs between two moments, RAM has those that are held over the whole interval beside it.

An interval is a period of `cuts.lineage`: a tensor of `known_reads` is in RAM at its end, or at
some time in it. The limits of RAM are knapsacks of `cuts.rounding`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from poetfw.schedule.cuts.cut import Residency, table
from poetfw.schedule.cuts.rounding import Item, Knapsack
from poetfw.schedule.having import Having
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.milp import IntegerProgram
from poetfw.schedule.sequences import Workload


@dataclass(frozen=True)
class Moments:
    """The program of a chain of moments, and what cuts need to know of it.

    Attributes:
        program: minimises the joules of recomputing and paging.
        graph: the problem.
        residency: columns with one period per interval.
        knapsacks: the limits of RAM.
    """

    program: IntegerProgram
    graph: Indexed
    residency: Residency
    knapsacks: tuple[Knapsack, ...]


class Precedence:
    """Order of first computations that holds in every plan.

    Attributes:
        workload: the problem.
        before: per node, nodes that must be computed first: its inputs, and for an update the nodes
            that read the old value.
        after: the same edges, reversed.
    """

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        nodes = workload.graph.problem.nodes
        position = {node.name: i for i, node in enumerate(nodes)}
        self.before: list[list[int]] = [[position[u] for u in node.inputs] for node in nodes]
        for i, update in enumerate(workload.closes):
            if update < workload.n:
                self.before[update].append(i)
        self.after: list[list[int]] = [[] for _ in nodes]
        for i, before in enumerate(self.before):
            for u in before:
                self.after[u].append(i)

    def heaviest_chain(self, weights: Sequence[float]) -> list[int]:
        """Nodes of positive weight on the path of the largest total weight, in order."""
        total, previous = [0.0] * self.workload.n, [-1] * self.workload.n
        for i, before in enumerate(self.before):
            for u in before:
                if total[u] > total[i]:
                    total[i], previous[i] = total[u], u
            total[i] += weights[i]
        chain, i = [], max(range(self.workload.n), key=lambda i: total[i])
        while i >= 0:
            chain.append(i)
            i = previous[i]
        return [i for i in reversed(chain) if weights[i] > 0]

    def moments(self, chain: Sequence[int]) -> Moments:
        """The program of the moments at which these nodes are first computed."""
        built = _Chain(self, chain)
        return Moments(built.program, built.graph, built.residency, tuple(built.knapsacks))


def _reached(start: int, edges: Sequence[Sequence[int]]) -> set[int]:
    """Nodes reachable from `start` along the edges, `start` itself excluded."""
    reached: set[int] = set()
    stack = [start]
    while stack:
        for i in edges[stack.pop()]:
            if i not in reached:
                reached.add(i)
                stack.append(i)
    return reached


class _Chain:
    """Builds the program of a chain of moments.

    Attributes:
        program: the program.
        ends: per node, the first moment at or after its first computation; the number of moments
            if all are before.
        begins: per node, the last moment before its first computation; -1 if all are after.
        intervals: columns of the interval from each moment on.
        page_out: columns of page-outs by node.
        reads: tensors as `_reads` has them.
        knapsacks: the limits of RAM.
    """

    def __init__(self, precedence: Precedence, chain: Sequence[int]) -> None:
        self.workload, self.graph = precedence.workload, precedence.workload.graph
        self.chain, n = chain, self.graph.n
        self.before = [_reached(w, precedence.before) for w in chain]
        self.ends, self.begins = [len(chain)] * n, [-1] * n
        for j in reversed(range(len(chain))):
            for u in (chain[j], *self.before[j]):
                self.ends[u] = j
        for j, w in enumerate(chain):
            for d in _reached(w, precedence.after):
                self.begins[d] = j
        self.program = IntegerProgram()
        self.intervals: list[Having] = []
        self.page_out: dict[int, int] = {}
        self.knapsacks: list[Knapsack] = []
        self.reads = list(dict.fromkeys(self._reads()))
        for j in reversed(range(len(chain))):
            self._add_interval(j)
        for u, begin, end in self.reads:
            produced = [x for j in range(begin, end) for x in self.intervals[j].produced(u, -1.0)]
            self.program.at_most([(self.intervals[begin].kept[u], -1.0), *produced], -1.0)
        self._share_page_outs()
        for j in range(len(chain)):
            self._limit(j)

    def _reads(self) -> Iterator[tuple[int, int, int]]:
        """Tensors that are in RAM at a moment, or produced between it and an interval's end.

        Yields (tensor, index of the moment, index of the moment at the end).
        """
        places = {w: j for j, w in enumerate(self.chain)}
        for d, inputs in enumerate(self.graph.inputs):
            begin, end = self.begins[d], self.ends[d]
            if d in places:
                begin = end = places[d]
            for u in inputs if begin >= 0 else ():
                known = self.ends[u] < begin if d in places else self.ends[u] <= begin
                if known and u != self.chain[begin]:
                    yield u, begin, end

    @property
    def residency(self) -> Residency:
        """Columns of the program, with one period per interval."""
        periods, n = len(self.chain), self.graph.n
        made = tuple(end - 1 for end in self.ends)
        page_out = {(max(0, made[i]), i): x for i, x in self.page_out.items()}
        kept, again, paged = (
            table({(j, i): x for j, of in enumerate(kinds) for i, x in of.items()}, periods, n)
            for kinds in zip(*((x.kept, x.again, x.paged) for x in self.intervals), strict=True)
        )
        known: list[set[int]] = [set() for _ in self.chain]
        for u, begin, end in self.reads:
            if end <= begin + 1 and end:
                known[end - 1].add(u)
        reads = tuple(tuple(sorted(of_period)) for of_period in known)
        out = table(page_out, periods, n)
        return Residency(self.graph, made, kept, again, paged, out, known_reads=reads)

    def _add_interval(self, j: int) -> None:
        """Add the columns and rows of the interval that begins at moment j, before the later ones.

        They are linked to those of the next interval.
        """
        later = self.intervals[0] if self.intervals else None
        wanted = {u for u, begin, end in self.reads if begin == j or begin < j < end}
        if later is not None:
            wanted |= {u for u in later.tensors if self.ends[u] <= j}
        closed = {self.chain[j], *self.before[j]}
        having = Having.of(
            self.graph,
            (),
            lambda i: self.workload.recomputable[i] and self.workload.closes[i] not in closed,
            wanted,
            self.program,
        )
        self.intervals.insert(0, having)
        if later is None:
            return
        for u in having.tensors:
            if u in later.kept:
                held = having.held[u] = self.program.binary()
                self.program.at_most([(held, 1.0), (having.kept[u], -1.0)], 0.0)
                produced = having.produced(u, -1.0)
                self.program.at_most([(later.kept[u], 1.0), (held, -1.0), *produced], 0.0)

    def _share_page_outs(self) -> None:
        """A tensor that is paged in several times is paged out once."""
        out_j = self.workload.page_out_j
        for i in {i for having in self.intervals for i in having.paged}:
            columns = [having.paged[i] for having in self.intervals if i in having.paged]
            self.page_out[i] = columns[0]
            if len(columns) > 1:
                out = self.page_out[i] = self.program.binary(out_j[i])
                for x in columns:
                    self.program.costs[x] -= out_j[i]
                    self.program.at_most([(x, 1.0), (out, -1.0)], 0.0)

    def _limit(self, j: int) -> None:
        """Limit RAM at moment j, and while a node runs between it and the next one."""
        graph, having, w = self.graph, self.intervals[j], self.chain[j]
        self._fit(j, Knapsack(self._beside(having.kept, w), graph.working_set(w)))
        for v, again in having.again.items():
            held, during = self._beside(having.held, v), graph.working_set(v)
            if sum(item.size for item in held) + during > graph.problem.ram_bytes:
                again_item = Item(during, 0.0, ((again, 1.0),))
                self._fit(j, Knapsack((*held, again_item), 0, recompute=again))

    def _fit(self, j: int, knapsack: Knapsack) -> None:
        """Require that the items of a knapsack fit in RAM."""
        self.knapsacks.append(knapsack)
        sized = [(x, item.size * a) for item in knapsack.items for x, a in item.terms]
        most = self.graph.problem.ram_bytes - knapsack.reserved
        self.intervals[j].limit(sized, most)

    def _beside(self, columns: dict[int, int], node: int) -> tuple[Item, ...]:
        """Tensors that `node` neither reads nor writes."""
        size, inputs = self.graph.size, self.graph.inputs[node]
        beside = ((i, x) for i, x in columns.items() if i != node and i not in inputs)
        return tuple(Item(size[i], 0.0, ((x, 1.0),)) for i, x in beside)
