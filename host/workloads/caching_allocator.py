# SPDX-License-Identifier: Apache-2.0
"""A model of PyTorch's caching allocator for CUDA (c10/cuda/CUDACachingAllocator.cpp).

Requests are rounded up to 512 bytes. Up to 1 MiB they come from segments of 2 MiB, below 10 MiB
from segments of 20 MiB, beyond from segments of their own, a multiple of 2 MiB. The smallest free
block that fits is taken and split where enough is left. Segments are kept for ever.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass

from poetfw.memory.ordering import OrderingProblem, lifetimes

_ROUND = 512
_SMALL = 2**20
_SMALL_SEGMENT = 2 * 2**20
_MEDIUM = 10 * 2**20
_LARGE_SEGMENT = 20 * 2**20
_LARGE_ROUND = 2 * 2**20


def _round_up(size: int, unit: int) -> int:
    return -(-size // unit) * unit


@dataclass(eq=False, slots=True)
class _Block:
    address: int
    size: int
    small: bool
    before: _Block | None = None
    after: _Block | None = None
    free: bool = False


class CachingAllocator:
    """The allocator's state.

    Attributes:
        reserved_bytes: bytes of all segments.
    """

    def __init__(self) -> None:
        self.reserved_bytes = 0
        # (size, address, block): best fit is the first that is large enough.
        self._free: dict[bool, list[tuple[int, int, _Block]]] = {True: [], False: []}

    def allocate(self, size_bytes: int) -> _Block:
        """A block for a request of some bytes."""
        size = max(_ROUND, _round_up(size_bytes, _ROUND))
        small = size <= _SMALL
        free = self._free[small]
        at = bisect_left(free, (size, 0))
        block = free.pop(at)[2] if at < len(free) else self._segment(size, small)
        block.free = False
        left = block.size - size
        if left >= _ROUND if small else left > _SMALL:
            rest = _Block(block.address + size, left, small, block, block.after, True)
            if block.after is not None:
                block.after.before = rest
            block.after, block.size = rest, size
            insort(free, (rest.size, rest.address, rest))
        return block

    def release(self, block: _Block) -> None:
        """Give a block back; free neighbours in one segment become one."""
        free = self._free[block.small]
        for neighbour in (block.before, block.after):
            if neighbour is None or not neighbour.free:
                continue
            del free[bisect_left(free, (neighbour.size, neighbour.address))]
            low, high = (neighbour, block) if neighbour is block.before else (block, neighbour)
            low.size += high.size
            low.after = high.after
            if high.after is not None:
                high.after.before = low
            block = low
        block.free = True
        insort(free, (block.size, block.address, block))

    def _segment(self, size: int, small: bool) -> _Block:
        if small:
            segment = _SMALL_SEGMENT
        elif size < _MEDIUM:
            segment = _LARGE_SEGMENT
        else:
            segment = _round_up(size, _LARGE_ROUND)
        block = _Block(self.reserved_bytes, segment, small)
        self.reserved_bytes += segment
        return block


def reserved_bytes(problem: OrderingProblem, resident: Sequence[int], steps: int = 3) -> int:
    """Bytes the allocator reserves for training steps in the problem's own order.

    Args:
        problem: one step.
        resident: bytes of each tensor that is there before the first step and stays.
        steps: steps to run; the cache settles in the first few.
    """
    allocator = CachingAllocator()
    for size in resident:
        allocator.allocate(size)
    begins: list[list[str]] = [[] for _ in range(len(problem.ops) + 1)]
    ends: list[list[str]] = [[] for _ in range(len(problem.ops) + 1)]
    for life in lifetimes(problem):
        begins[life.lower].append(life.tensor)
        ends[life.upper].append(life.tensor)
    for _ in range(steps):
        live: dict[str, _Block] = {}
        for at in range(len(problem.ops) + 1):
            for tensor in ends[at]:
                allocator.release(live.pop(tensor))
            for tensor in begins[at]:
                live[tensor] = allocator.allocate(problem.sizes[tensor])
    return allocator.reserved_bytes
