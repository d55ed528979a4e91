# SPDX-License-Identifier: Apache-2.0
"""Sets of buffers of equal total size, where one set can take the other's addresses at a moment.

Two small sets of buffers rarely have the same total size by accident. The doubt about a block is
the expected number of accidental pairs among sets up to its size, in bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, combinations, islice
from math import comb, gcd, log2

from poetfw.memory.pq_tree import indices

_LARGEST_SETS = 1 << 16
"""Most sets of buffers compared with as many others, and most blocks found."""

_SPREAD = 5
"""Width of the range of sums of a few sizes, in mean sizes."""

_SETS_PER_BLOCK = 10
"""Sets of buffers examined in the time of one block."""


@dataclass(frozen=True, slots=True)
class Block:
    """Buffers that may replace each other. Sets of buffers are bit masks.

    Attributes:
        doubt: bits; positive where such blocks are likely by accident, else negative.
        ends: buffers that end.
        begins: buffers that begin, of the same total size.
    """

    doubt: float
    ends: int
    begins: int


@dataclass(frozen=True, slots=True)
class Blocks:
    """Candidate blocks.

    Attributes:
        row: blocks by increasing doubt.
        complete: True if there are no others.
        work: number of sets of buffers examined.
    """

    row: Sequence[Block]
    complete: bool
    work: int


def find_blocks(ending: int, beginning: int, sizes: Sequence[int]) -> Blocks:
    """Find possible blocks of a moment, except the one with all of its buffers.

    Args:
        ending: mask of the buffers that end.
        beginning: mask of the buffers that begin, of the same total size.
        sizes: of each buffer, in bytes.
    """
    ends, begins = indices(ending), indices(beginning)
    if len(ends) == 1 or len(begins) == 1:
        return Blocks((), True, 0)
    items = ends + begins
    everything = (1 << len(items)) - 1
    # A code holds the set's mask in its low bits and ending less beginning bytes above.
    codes = [(sizes[i] << len(items)) + (1 << at) for at, i in enumerate(ends)]
    codes += [(-sizes[i] << len(items)) + (1 << at) for at, i in enumerate(begins, len(ends))]
    halves = codes[::2], codes[1::2]
    if 1 << len(halves[0]) > _LARGEST_SETS:
        # Not all sets can be compared; small ones are more useful.
        halves = codes[: len(ends)], codes[len(ends) :]
    left, right = (_smallest_sums(half) for half in halves)
    complete = len(left) * len(right) == 1 << len(items)
    by_bytes: dict[int, list[int]] = {}
    for code in left:
        by_bytes.setdefault(code >> len(items), []).append(code & everything)
    balanced = (
        code & everything | others
        for code in right
        for others in by_bytes.get(-(code >> len(items)), ())
    )
    found = list(islice(balanced, _LARGEST_SETS))
    complete &= len(found) < _LARGEST_SETS

    unit = gcd(*(sizes[i] for i in items))
    spread = _SPREAD * sum(sizes[i] for i in items) / (len(items) * unit)
    ends_up_to, begins_up_to = _subsets_up_to(len(ends)), _subsets_up_to(len(begins))
    row = []
    for together in found:
        if together in (0, everything):
            continue
        mask = sum(1 << items[at] for at in indices(together))
        block = mask & ending, mask & beginning
        accidents = ends_up_to[block[0].bit_count()] * begins_up_to[block[1].bit_count()]
        row.append(Block(log2(accidents / spread), *block))
    row.sort(key=lambda block: (block.doubt, block.ends, block.begins))
    return Blocks(row, complete, len(left) + len(right) + _SETS_PER_BLOCK * len(row))


def _smallest_sums(codes: Sequence[int]) -> list[int]:
    """Sums of subsets of some codes, smallest subsets first, at most `_LARGEST_SETS`."""
    subsets = chain.from_iterable(combinations(codes, k) for k in range(len(codes) + 1))
    return [sum(subset) for subset in islice(subsets, _LARGEST_SETS)]


def _subsets_up_to(count: int) -> list[int]:
    """Number of subsets of at most k of some items, by k."""
    return list(accumulate(comb(count, k) for k in range(count + 1)))
