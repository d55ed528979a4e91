# SPDX-License-Identifier: Apache-2.0
"""Greedy placement: each buffer in turn at the lowest address free for its whole lifetime."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from poetfw.memory.problem import Buffer
from poetfw.memory.sections import find_sections, live_bytes


class Greedy:
    """Places buffers greedily, in any order.

    A buffer is compared with all placed ones in a few vector operations, so tens of thousands take
    seconds.

    Args:
        buffers: buffers of size > 0.
    """

    def __init__(self, buffers: Sequence[Buffer]) -> None:
        first, last, self._count = find_sections(buffers)
        self._first = np.array(first, dtype=np.int32)
        self._last = np.array(last, dtype=np.int32)
        self._size = np.array([b.size for b in buffers], dtype=np.int64)
        self._align = [b.alignment for b in buffers]
        self._fixed = {i: b.offset for i, b in enumerate(buffers) if b.offset is not None}

    def orders(self) -> Iterator[list[int]]:
        """Orders worth trying, as indices of the free buffers, the best on average first."""
        length = (self._last - self._first).astype(np.float64)
        size = self._size.astype(np.float64)
        contention = self._contention()
        keys: list[tuple[np.ndarray, ...]] = [
            (-length, -size),
            (-size, -length * size),
            (-size * length, -size),
            (-contention, -size * length),
            (self._first.astype(np.float64), -length),
            (-length, -contention),
        ]
        for primary, secondary in keys:
            order = np.lexsort((secondary, primary))
            yield [i for i in order.tolist() if i not in self._fixed]

    def run(self, order: Sequence[int], give_up: Callable[[int], bool]) -> list[int] | None:
        """Place the fixed buffers, then the others in the given order.

        Args:
            order: indices of the free buffers.
            give_up: called with the height after each buffer; True stops.

        Returns:
            The offset in bytes of every buffer, or None if stopped.
        """
        total = len(self._size)
        offsets = [0] * total
        begins = np.empty(total, dtype=np.int32)
        ends = np.empty(total, dtype=np.int32)
        bottoms = np.empty(total, dtype=np.int64)
        tops = np.empty(total, dtype=np.int64)
        height = 0
        for count, i in enumerate([*self._fixed, *order]):
            first, last, size = self._first[i], self._last[i], int(self._size[i])
            if i in self._fixed:
                offset = self._fixed[i]
            else:
                near = (begins[:count] < last) & (ends[:count] > first)
                offset = _lowest_gap(
                    bottoms[:count][near], tops[:count][near], size, self._align[i]
                )
            offsets[i] = offset
            begins[count], ends[count] = first, last
            bottoms[count], tops[count] = offset, offset + size
            height = max(height, offset + size)
            if give_up(height):
                return None
        return offsets

    def _contention(self) -> np.ndarray:
        """For each buffer, the most live bytes during its lifetime."""
        live = live_bytes(self._first, self._last, self._size, self._count).astype(np.float64)
        # Sparse table: the maximum of any run of sections is that of two overlapping powers of two.
        table = [live]
        while 2 << (len(table) - 1) <= self._count:
            half = 1 << (len(table) - 1)
            table.append(np.maximum(table[-1][:-half], table[-1][half:]))
        level = np.floor(np.log2(self._last - self._first)).astype(np.int64)
        peak = np.empty(len(self._size))
        for k, row in enumerate(table):
            at = np.flatnonzero(level == k)
            peak[at] = np.maximum(row[self._first[at]], row[self._last[at] - (1 << k)])
        return peak


def _lowest_gap(bottoms: np.ndarray, tops: np.ndarray, size: int, alignment: int) -> int:
    """Lowest aligned address with `size` free bytes between the given extents."""
    if not len(bottoms):
        return 0
    order = np.argsort(bottoms)
    floors = np.empty(len(order) + 1, dtype=np.int64)
    floors[0] = 0
    np.maximum.accumulate(tops[order], out=floors[1:])
    if alignment > 1:
        floors = -(-floors // alignment) * alignment
    fits = floors[:-1] + size <= bottoms[order]
    return int(floors[fits.argmax() if fits.any() else -1])
