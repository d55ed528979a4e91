# SPDX-License-Identifier: Apache-2.0
"""Lower bounds on the height of every placement."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from heapq import heappop, heappush

from poetfw.memory.problem import Buffer

_MOST_SCANS = 64
"""Most scans of all buffers, and of all alignments, in the search for aligned buffers."""


def lower_bound(buffers: Sequence[Buffer]) -> int:
    """Lower bound on the height of every placement: the largest of three bounds.

    1. The largest sum of sizes live at one moment.
    2. For each alignment a, over the live buffers whose alignment is a multiple of a: all their
       offsets are multiples of a, so each but the topmost occupies its size rounded up to one.
       The largest alignments come first, within the time of 64 scans of the buffers: enough for
       up to 64 alignments, or for thousands of similar size.
    3. The end of each fixed buffer.

    Returns:
        The bound in bytes; 0 without buffers.
    """
    bound = max((b.offset + b.size for b in buffers if b.offset is not None), default=0)
    bound = max(bound, _peak([(b.lower, b.upper, b.size) for b in buffers]))
    by_alignment: dict[int, list[Buffer]] = {}
    for b in buffers:
        if b.alignment > 1 and b.size:
            by_alignment.setdefault(b.alignment, []).append(b)
    largest = max(by_alignment, default=0)
    work = _MOST_SCANS * (len(buffers) + len(by_alignment))
    for alignment in sorted(by_alignment, reverse=True):
        if work <= 0:
            break
        multiples: Collection[int] = by_alignment
        if largest // alignment < len(by_alignment):
            multiples = range(alignment, largest + 1, alignment)
        aligned = [b for m in multiples if m % alignment == 0 for b in by_alignment.get(m, ())]
        work -= len(multiples) + len(aligned)
        if any(b.size % alignment for b in aligned):
            bound = max(bound, _aligned_peak(aligned, alignment))
    return bound


def _peak(intervals: Sequence[tuple[int, int, int]]) -> int:
    """Largest sum of sizes over intervals (lower, upper, size) that share a moment."""
    events = [(lower, size) for lower, _, size in intervals]
    events += [(upper, -size) for _, upper, size in intervals]
    events.sort()  # at equal times, ends (negative sizes) come before begins
    live = peak = 0
    for _, change in events:
        live += change
        peak = max(peak, live)
    return peak


def _aligned_peak(buffers: Sequence[Buffer], alignment: int) -> int:
    """Second bound for one alignment that divides every buffer's own."""
    peak = live = 0
    ends: list[tuple[int, int]] = []
    paddings: list[tuple[int, int]] = []
    for b in sorted(buffers, key=lambda b: b.lower):
        padding = -b.size % alignment
        while ends and ends[0][0] <= b.lower:
            live -= heappop(ends)[1]
        live += b.size + padding
        heappush(ends, (b.upper, b.size + padding))
        heappush(paddings, (-padding, b.upper))
        while paddings[0][1] <= b.lower:
            heappop(paddings)
        peak = max(peak, live + paddings[0][0])
    return peak
