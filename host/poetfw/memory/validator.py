# SPDX-License-Identifier: Apache-2.0
"""Two validators of a placement, independent of the allocator and of each other.

`validate_placement` compares every pair of buffers and is the reference. `validate_by_sweep` sweeps
over time and compares a new buffer only with its neighbours in address: for problems with too many
pairs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from poetfw.common.errors import PlanError
from poetfw.memory.problem import Buffer, Placement

_LARGEST = 2**62
"""Largest time, size and offset; larger ones would overflow the 64-bit sums below."""


def validate_placement(
    buffers: Sequence[Buffer], placement: Placement, capacity: int | None = None
) -> None:
    """Refuse an illegal placement by comparing every pair of buffers: O(n^2).

    Args:
        buffers: the buffers of the problem.
        placement: an offset in bytes for each of them.
        capacity: bytes of the arena, or None for the placement's height.

    Raises:
        PlanError: A buffer has no offset, or a negative, misaligned or wrong one; two buffers
            overlap in both time and address; the height is not the largest offset + size, is below
            the lower bound or exceeds the capacity. The message names the buffers and figures.
    """
    _validate_each(buffers, placement, capacity)
    lower = np.array([b.lower for b in buffers], dtype=np.int64)
    upper = np.array([b.upper for b in buffers], dtype=np.int64)
    start = np.array([placement.offsets[b.id] for b in buffers], dtype=np.int64)
    end = start + np.array([b.size for b in buffers], dtype=np.int64)
    empty = start == end
    for i in range(len(buffers)):
        if empty[i]:
            continue
        later = slice(i + 1, None)
        clash = (lower[i] < upper[later]) & (lower[later] < upper[i])
        clash &= (start[i] < end[later]) & (start[later] < end[i]) & ~empty[later]
        if clash.any():
            raise _clash(buffers[i], buffers[i + 1 + int(clash.argmax())], placement)


def validate_by_sweep(
    buffers: Sequence[Buffer], placement: Placement, capacity: int | None = None
) -> None:
    """Refuse what `validate_placement` refuses, in O(n log n) plus insertions in a sorted list.

    Args:
        buffers: the buffers of the problem.
        placement: an offset in bytes for each of them.
        capacity: bytes of the arena, or None for the placement's height.

    Raises:
        PlanError: See `validate_placement`; of several clashes it may name another one.
    """
    _validate_each(buffers, placement, capacity)
    events: list[tuple[int, bool, int]] = []
    for i, buffer in enumerate(buffers):
        if buffer.size:
            events += [(buffer.lower, True, i), (buffer.upper, False, i)]
    events.sort()  # at equal times, ends come before begins
    live: list[tuple[int, int]] = []
    for _, begins, i in events:
        start = placement.offsets[buffers[i].id]
        at = bisect_left(live, (start, i))
        if not begins:
            del live[at]
            continue
        # Live buffers are disjoint so far, so only the neighbours can overlap with this one.
        for _, j in live[max(at - 1, 0) : at + 1]:
            other = placement.offsets[buffers[j].id]
            if start < other + buffers[j].size and other < start + buffers[i].size:
                raise _clash(buffers[min(i, j)], buffers[max(i, j)], placement)
        live.insert(at, (start, i))


def _validate_each(buffers: Sequence[Buffer], placement: Placement, capacity: int | None) -> None:
    """Check everything that does not compare two buffers."""
    height = 0
    for b in buffers:
        if b.id not in placement.offsets:
            raise PlanError(f"buffer {b.id!r} has no offset")
        offset = placement.offsets[b.id]
        if offset < 0:
            raise PlanError(f"buffer {b.id!r} is placed at the negative offset {offset}")
        if max(offset + b.size, abs(b.lower), abs(b.upper)) > _LARGEST:
            raise PlanError(f"buffer {b.id!r} has a time or an end beyond 2^62")
        if offset % b.alignment:
            raise PlanError(
                f"buffer {b.id!r} is placed at {offset}, not a multiple of its alignment "
                f"{b.alignment}"
            )
        if b.offset is not None and offset != b.offset:
            raise PlanError(
                f"buffer {b.id!r} is placed at {offset}, but its offset is fixed at {b.offset}"
            )
        height = max(height, offset + b.size)
    if len(placement.offsets) > len(buffers):
        unknown = sorted(placement.offsets.keys() - {b.id for b in buffers})
        raise PlanError(f"the placement has an offset for the unknown buffer {unknown[0]!r}")
    if placement.height_bytes != height:
        raise PlanError(
            f"the placement says its height is {placement.height_bytes} bytes, but the highest "
            f"buffer ends at {height}"
        )
    if placement.lower_bound_bytes > height:
        raise PlanError(
            f"the placement is {height} bytes high, less than its lower bound "
            f"{placement.lower_bound_bytes}"
        )
    if capacity is not None and height > capacity:
        raise PlanError(f"the placement is {height} bytes high, more than the capacity {capacity}")


def _clash(a: Buffer, b: Buffer, placement: Placement) -> PlanError:
    def where(buffer: Buffer) -> str:
        offset = placement.offsets[buffer.id]
        return (
            f"{buffer.id!r} (time [{buffer.lower}, {buffer.upper}), "
            f"bytes [{offset}, {offset + buffer.size}))"
        )

    return PlanError(f"buffers {where(a)} and {where(b)} overlap in time and address")
