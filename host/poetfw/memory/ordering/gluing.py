# SPDX-License-Identifier: Apache-2.0
"""Control edges that preserve the lowest peak and leave fewer orders to search.

Two rules glue a sequence of ops v directly to another one, both by an exchange argument:

- v directly *before* its only successor c, if v never leaves fewer live bytes than before it: until
  c runs, nothing reads v's outputs.
- v directly *after* its only predecessor p, if v never leaves more live bytes than before it.

In both cases, moving v must not raise the peak while v itself runs. The bytes that v frees depend
on the ops before it, so each figure has a lower and an upper bound. Until v has run, no other op
can overwrite v's inputs; this costs no more than v would have added at that moment, since v's lower
bound counts its inputs as freed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from poetfw.memory.ordering.bounds import Matrix, ancestors
from poetfw.memory.ordering.indexed import IndexedOps, predecessor_lists


class _Effect(NamedTuple):
    """Bounds on the bytes that a sequence of ops adds to those live before it.

    Attributes:
        least_peak, most_peak: bounds while it runs.
        least_net, most_net: bounds after it.
    """

    least_peak: int
    most_peak: int
    least_net: int
    most_net: int


@dataclass(frozen=True)
class Glued:
    """Glued sequences of ops and their precedences.

    Attributes:
        sequences: each op once, in topological order of the sequences.
        edges: per sequence, its direct predecessors.
        before: matrix [i, j], True if op j must run before op i.
    """

    sequences: tuple[tuple[int, ...], ...]
    edges: tuple[tuple[int, ...], ...]
    before: Matrix


def glue(problem: IndexedOps) -> Glued:
    """Fix precedences that do not raise the lowest peak."""
    gluing = _Gluing(problem)
    gluing.run()
    return gluing.result()


class _Gluing:
    """State of gluing: sequences of ops and their precedences.

    Attributes:
        before: matrix [i, j], True if op j must run before op i.
    """

    def __init__(self, problem: IndexedOps) -> None:
        n = problem.n
        self._problem = problem
        self.before = ancestors(problem)
        self._original = self.before.copy()
        self._sequence = {i: [i] for i in range(n)}
        self._predecessors: dict[int, set[int]] = {}
        self._successors: dict[int, set[int]] = {i: set() for i in range(n)}
        for i, edges in enumerate(predecessor_lists(problem)):
            self._predecessors[i] = {
                j for j in edges if not any(self.before[other, j] for other in edges)
            }
            for j in self._predecessors[i]:
                self._successors[j].add(i)
        self._reads: list[list[int]] = [[] for _ in range(n)]
        for at, value in enumerate(problem.values):
            for i in value.readers:
                self._reads[i].append(at)
        self._effects: dict[int, _Effect] = {}

    def run(self) -> None:
        """Apply both rules until neither applies. A sequence is identified by its first op."""
        todo = sorted(self._sequence)
        while todo:
            v = todo.pop()
            if v not in self._sequence:
                continue
            joined = self._before_successor(v)
            if joined is None:
                joined = self._after_predecessor(v)
            if joined is not None:
                near = {joined} | self._predecessors[joined] | self._successors[joined]
                todo += sorted(near)

    def result(self) -> Glued:
        """Sequences that the rules have joined so far."""
        earlier = self.before.sum(axis=1)
        order = sorted(self._sequence, key=lambda a: (int(earlier[a]), a))
        number = {a: at for at, a in enumerate(order)}
        return Glued(
            sequences=tuple(tuple(self._sequence[a]) for a in order),
            edges=tuple(tuple(sorted(number[p] for p in self._predecessors[a])) for a in order),
            before=self.before,
        )

    def _before_successor(self, v: int) -> int | None:
        if len(self._successors[v]) != 1:
            return None
        (c,) = self._successors[v]
        effect, other = self._effect(v), self._effect(c)
        if effect.least_net < 0 or effect.most_peak - effect.least_net > other.least_peak:
            return None
        others = self._predecessors[c] - {v}
        for p in others:
            last = self._sequence[p][-1]
            for i in self._sequence[v]:
                self.before[i] |= self.before[last]
                self.before[i, last] = True
        return self._join(v, c)

    def _after_predecessor(self, v: int) -> int | None:
        if len(self._predecessors[v]) != 1:
            return None
        (p,) = self._predecessors[v]
        effect, other = self._effect(v), self._effect(p)
        if effect.most_net > 0 or other.most_net + effect.most_peak > other.least_peak:
            return None
        later = self.before[:, self._sequence[p][-1]].copy()
        later[self._sequence[v]] = False
        for i in self._sequence[v]:
            self.before[later, i] = True
        return self._join(p, v)

    def _join(self, first: int, second: int) -> int:
        """Join two sequences."""
        for a in (first, second):
            self._effects.pop(a, None)
        predecessors = (self._predecessors[first] | self._predecessors.pop(second)) - {first}
        successors = (self._successors.pop(second) | self._successors[first]) - {second}
        self._sequence[first] += self._sequence.pop(second)
        for p in predecessors | self._predecessors[first]:
            self._successors[p] -= {first, second}
        for s in successors | self._successors[first]:
            if s != second:
                self._predecessors[s] -= {first, second}
        first_op = {q: self._sequence[q][0] for q in predecessors | successors}
        last_op = {q: self._sequence[q][-1] for q in predecessors | successors}
        self._predecessors[first] = {
            p
            for p in predecessors
            if not any(self.before[first_op[q], last_op[p]] for q in predecessors)
        }
        self._successors[first] = {
            s
            for s in successors
            if not any(self.before[first_op[s], last_op[q]] for q in successors)
        }
        for p in self._predecessors[first]:
            self._successors[p].add(first)
        for s in self._successors[first]:
            self._predecessors[s].add(first)
        return first

    def _effect(self, a: int) -> _Effect:
        if a not in self._effects:
            self._effects[a] = self._calculate(self._sequence[a])
        return self._effects[a]

    def _calculate(self, sequence: list[int]) -> _Effect:
        values = self._problem.values
        done: set[int] = set()
        least = most = least_peak = most_peak = 0
        for i in sequence:
            done.add(i)
            least_grows = most_grows = self._problem.grows[i]
            least_frees = most_frees = 0
            taken_bytes, taken = self._problem.shares[i] or (0, None)
            for at in self._reads[i]:
                others = [r for r in values[at].readers if r not in done]
                if not any(self._original[r, i] for r in others):
                    most_frees += values[at].size
                    least_grows -= taken_bytes if at == taken else 0
                if all(self._original[i, r] for r in others):
                    least_frees += values[at].size
                    most_grows -= taken_bytes if at == taken else 0
            least_peak = max(least_peak, least + least_grows)
            most_peak = max(most_peak, most + most_grows)
            least += self._problem.keeps[i] - most_frees
            most += self._problem.keeps[i] - least_frees
        return _Effect(least_peak, most_peak, least, most)
