# SPDX-License-Identifier: Apache-2.0
"""Sequences of ops as single search steps, with their effect on the live bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from poetfw.memory.ordering.gluing import Glued
from poetfw.memory.ordering.indexed import IndexedOps, mask_of


class BlockPart(NamedTuple):
    """Run of ops in a block, up to one that may free a tensor that other blocks read too.

    Attributes:
        peak: most bytes that they add to those live before them.
        net: bytes that they add in the end.
        frees: pairs (bytes, mask of blocks): bytes freed by the last op if these blocks have run.
        readers: mask of the blocks that read the tensor that the last op may overwrite.
        apart: peak if one of these blocks has not run.
    """

    peak: int
    net: int
    frees: tuple[tuple[int, int], ...]
    readers: int
    apart: int


@dataclass(frozen=True)
class OrderingBlocks:
    """Ordering problem whose nodes 0 … n - 1 are sequences of ops, in a legal order.

    Attributes:
        n: number of blocks.
        ops: ops of each block, in order.
        parts: effect of each block on the live bytes.
        predecessors: per block, mask of its direct predecessors.
        successors: per block, its direct successors.
    """

    n: int
    ops: tuple[tuple[int, ...], ...]
    parts: tuple[tuple[BlockPart, ...], ...]
    predecessors: tuple[int, ...]
    successors: tuple[tuple[int, ...], ...]

    @staticmethod
    def of(problem: IndexedOps, glued: Glued) -> OrderingBlocks:
        """Contract the glued sequences."""
        block = {i: at for at, sequence in enumerate(glued.sequences) for i in sequence}
        reads: list[list[int]] = [[] for _ in range(problem.n)]
        for at, value in enumerate(problem.values):
            for i in value.readers:
                reads[i].append(at)
        successors: list[list[int]] = [[] for _ in glued.sequences]
        for a, edges in enumerate(glued.edges):
            for b in edges:
                successors[b].append(a)
        return OrderingBlocks(
            n=len(glued.sequences),
            ops=glued.sequences,
            parts=tuple(_parts(problem, sequence, block, reads) for sequence in glued.sequences),
            predecessors=tuple(map(mask_of, glued.edges)),
            successors=tuple(map(tuple, successors)),
        )

    def expand(self, order: tuple[int, ...]) -> tuple[int, ...]:
        """Ops of an order of the blocks."""
        return tuple(i for a in order for i in self.ops[a])


def _parts(
    problem: IndexedOps, sequence: tuple[int, ...], block: dict[int, int], reads: list[list[int]]
) -> tuple[BlockPart, ...]:
    parts = []
    done: set[int] = set()
    peak = net = 0
    for i in sequence:
        done.add(i)
        before = peak
        peak = apart = max(before, net + problem.grows[i])
        readers = 0
        frees: dict[int, int] = {}
        for at in reads[i]:
            left = [r for r in problem.values[at].readers if r not in done]
            others = {block[r] for r in problem.values[at].readers} - {block[i]}
            if any(block[r] == block[i] for r in left):
                continue
            mask = mask_of(others)
            frees[mask] = frees.get(mask, 0) + problem.values[at].size
            share = problem.shares[i]
            if share is not None and share[1] == at:
                peak = max(before, net + problem.grows[i] - share[0])
                readers = mask
        net += problem.keeps[i] - frees.pop(0, 0)
        if frees:
            freed = tuple((size, mask) for mask, size in frees.items())
            parts.append(BlockPart(peak, net, freed, readers, apart))
            peak = net = 0
    parts.append(BlockPart(peak, net, (), 0, peak))
    return tuple(parts)
