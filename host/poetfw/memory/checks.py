# SPDX-License-Identifier: Apache-2.0
"""Checks of a placement problem before the search."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from poetfw.common.errors import ProblemError
from poetfw.memory.problem import Buffer

LARGEST_BYTES = 2**40
"""Largest size, alignment and fixed offset accepted, in bytes."""

LARGEST_TIME = 2**60
"""Largest magnitude of a time accepted."""


def check_buffer(buffer: Buffer) -> None:
    """Refuse a buffer that no placement can satisfy.

    Raises:
        ProblemError: Its interval is empty or negative, or one of its figures is out of range.
    """
    name = f"buffer {buffer.id!r}"
    if buffer.upper == buffer.lower:
        raise ProblemError(
            f"{name}: the interval [{buffer.lower}, {buffer.upper}) is empty; upper must be "
            f"greater than lower"
        )
    if buffer.upper < buffer.lower:
        raise ProblemError(
            f"{name}: the interval [{buffer.lower}, {buffer.upper}) is negative; upper must be "
            f"greater than lower"
        )
    if max(abs(buffer.lower), abs(buffer.upper)) > LARGEST_TIME:
        raise ProblemError(f"{name}: a time beyond 2^60 is not supported")
    if not 0 <= buffer.size <= LARGEST_BYTES:
        raise ProblemError(f"{name}: the size must be 0 to 2^40 bytes, not {buffer.size}")
    if not 1 <= buffer.alignment <= LARGEST_BYTES:
        raise ProblemError(f"{name}: the alignment must be 1 to 2^40 bytes, not {buffer.alignment}")
    if buffer.offset is None:
        return
    if not 0 <= buffer.offset <= LARGEST_BYTES:
        raise ProblemError(f"{name}: the fixed offset must be 0 to 2^40, not {buffer.offset}")
    if buffer.offset % buffer.alignment:
        raise ProblemError(
            f"{name}: the fixed offset {buffer.offset} is not a multiple of the alignment "
            f"{buffer.alignment}"
        )


def check_buffers(buffers: Sequence[Buffer]) -> None:
    """Refuse a malformed placement problem.

    Raises:
        ProblemError: An id occurs twice, a buffer is malformed, or two fixed buffers overlap.
    """
    seen: set[str] = set()
    for buffer in buffers:
        if buffer.id in seen:
            raise ProblemError(f"buffer {buffer.id!r} occurs twice; ids must be unique")
        seen.add(buffer.id)
        check_buffer(buffer)
    clash = find_fixed_clash(buffers)
    if clash is not None:
        a, b = (buffers[i] for i in clash)
        raise ProblemError(
            f"the fixed buffers {a.id!r} (time [{a.lower}, {a.upper}), bytes {_extent(a)}) and "
            f"{b.id!r} (time [{b.lower}, {b.upper}), bytes {_extent(b)}) overlap"
        )


def find_fixed_clash(buffers: Sequence[Buffer]) -> tuple[int, int] | None:
    """Indices of two fixed buffers that overlap in time and address, or None."""
    events: list[tuple[int, bool, int, int]] = []
    for i, b in enumerate(buffers):
        if b.offset is not None and b.size:
            events += [(b.lower, True, b.offset, i), (b.upper, False, b.offset, i)]
    events.sort()
    live: list[tuple[int, int]] = []
    for _, begins, offset, i in events:
        at = bisect_left(live, (offset, i))
        if not begins:
            del live[at]
            continue
        if at < len(live) and live[at][0] < offset + buffers[i].size:
            return min(i, live[at][1]), max(i, live[at][1])
        if at and live[at - 1][0] + buffers[live[at - 1][1]].size > offset:
            return min(i, live[at - 1][1]), max(i, live[at - 1][1])
        live.insert(at, (offset, i))
    return None


def _extent(buffer: Buffer) -> str:
    offset = buffer.offset or 0
    return f"[{offset}, {offset + buffer.size})"
