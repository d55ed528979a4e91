# SPDX-License-Identifier: Apache-2.0
"""Ordering problem as integers and bit masks, the form that the searches use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from poetfw.memory.ordering.problem import OrderingProblem


@dataclass(frozen=True, slots=True)
class Value:
    """Tensors of one op with the same readers, hence the same lifetime.

    Attributes:
        size: bytes of all of them together, more than 0.
        producer: the op that produces them.
        readers: the ops that read them, ascending; may be empty.
        mask: bit mask of the readers.
    """

    size: int
    producer: int
    readers: tuple[int, ...]
    mask: int


@dataclass(frozen=True)
class IndexedOps:
    """Ordering problem with ops numbered 0 … n - 1, in its order.

    Attributes:
        n: number of ops.
        values: all tensors with size > 0.
        inputs: per op, its inputs as (size, mask of all readers).
        grows: per op, bytes of outputs and workspace, live while it runs.
        keeps: per op, bytes of outputs with readers, live after it.
        shares: per op, (bytes of output that may overwrite a value, index of the value), if the op
            is the last reader of the value; None if nothing may be overwritten.
        predecessors: per op, mask of the ops that it reads from or must follow.
        successors: per op, the ops that read from it or must follow it, ascending.
    """

    n: int
    values: tuple[Value, ...]
    inputs: tuple[tuple[tuple[int, int], ...], ...]
    grows: tuple[int, ...]
    keeps: tuple[int, ...]
    shares: tuple[tuple[int, int] | None, ...]
    predecessors: tuple[int, ...]
    successors: tuple[tuple[int, ...], ...]

    @staticmethod
    def of(problem: OrderingProblem) -> IndexedOps:
        """Index a problem; tensors of size 0 become control edges."""
        number = {op.name: i for i, op in enumerate(problem.ops)}
        producer = {name: i for i, op in enumerate(problem.ops) for name in op.outputs}
        readers: dict[str, list[int]] = {name: [] for name in producer}
        before: list[set[int]] = []
        for i, op in enumerate(problem.ops):
            for name in dict.fromkeys(op.inputs):
                readers[name].append(i)
            before.append({producer[t] for t in op.inputs} | {number[name] for name in op.after})
        together: dict[tuple[int, tuple[int, ...]], int] = {}
        for name, i in producer.items():
            key = (i, tuple(readers[name]))
            together[key] = together.get(key, 0) + problem.sizes[name]
        values = tuple(
            Value(size, i, read_by, mask_of(read_by))
            for (i, read_by), size in together.items()
            if size
        )
        numbers = {(value.producer, value.readers): at for at, value in enumerate(values)}
        shares: list[tuple[int, int] | None] = []
        for op in problem.ops:
            taken = op.in_place
            if taken is None or not problem.sizes[taken]:
                shares.append(None)
            else:
                at = numbers[producer[taken], tuple(readers[taken])]
                shares.append((problem.sizes[taken], at))
        workspace = [op.workspace_bytes for op in problem.ops]
        return IndexedOps.from_values(values, workspace, before, shares)

    @staticmethod
    def from_values(
        values: tuple[Value, ...],
        workspace: Sequence[int],
        before: Sequence[set[int]],
        shares: Sequence[tuple[int, int] | None],
    ) -> IndexedOps:
        """Derive a problem from tensors, workspaces, control edges and in-place overwrites."""
        n = len(workspace)
        inputs: list[list[tuple[int, int]]] = [[] for _ in range(n)]
        grows = list(workspace)
        keeps = [0] * n
        for value in values:
            grows[value.producer] += value.size
            if value.readers:
                keeps[value.producer] += value.size
            for i in value.readers:
                inputs[i].append((value.size, value.mask))
        successors: list[list[int]] = [[] for _ in range(n)]
        for i, earlier in enumerate(before):
            for j in earlier:
                successors[j].append(i)
        return IndexedOps(
            n=n,
            values=values,
            inputs=tuple(map(tuple, inputs)),
            grows=tuple(grows),
            keeps=tuple(keeps),
            shares=tuple(shares),
            predecessors=tuple(map(mask_of, before)),
            successors=tuple(map(tuple, successors)),
        )

    def peak(self, order: Sequence[int]) -> int:
        """Most live bytes while any op runs, in a legal order."""
        left = (1 << self.n) - 1
        live = peak = 0
        for i in order:
            left &= ~(1 << i)
            during = live + self.grows[i]
            if (share := self.shares[i]) is not None and not self.values[share[1]].mask & left:
                during -= share[0]
            peak = max(peak, during)
            live += self.keeps[i] - sum(size for size, mask in self.inputs[i] if not mask & left)
        return peak


def mask_of(members: set[int] | tuple[int, ...]) -> int:
    """Bit mask of the members."""
    mask = 0
    for i in members:
        mask |= 1 << i
    return mask


def predecessor_lists(problem: IndexedOps) -> list[list[int]]:
    """Per op, the ops that it reads from or must follow."""
    lists: list[list[int]] = [[] for _ in range(problem.n)]
    for j, successors in enumerate(problem.successors):
        for i in successors:
            lists[i].append(j)
    return lists
