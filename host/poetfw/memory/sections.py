# SPDX-License-Identifier: Apache-2.0
"""Sections of time: maximal sets of buffers live at the same moment."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from poetfw.memory.problem import Buffer


def find_sections(buffers: Sequence[Buffer]) -> tuple[list[int], list[int], int]:
    """Number the maximal sets of simultaneously live buffers, in the order of time.

    The buffers live at any moment are a subset of such a set (a section), so two buffers overlap in
    time exactly if they share a section: placement needs no finer clock.

    Returns:
        For each buffer, the sections [first, last) that it is live in, as two lists, and the number
        of sections.
    """
    events = [(b.lower, 1, i) for i, b in enumerate(buffers)]
    events += [(b.upper, 0, i) for i, b in enumerate(buffers)]
    events.sort()
    first = [0] * len(buffers)
    last = [0] * len(buffers)
    section = 0
    grew = False
    for _, begins, i in events:
        if begins:
            first[i] = section
            grew = True
        else:
            section += grew
            grew = False
            last[i] = section
    return first, last, section


def split_components(buffers: Sequence[Buffer]) -> list[list[Buffer]]:
    """Split buffers at moments that no lifetime crosses: each component is placed on its own."""
    parts: list[list[Buffer]] = []
    end = 0
    for b in sorted(buffers, key=lambda b: b.lower):
        if not parts or b.lower >= end:
            parts.append([])
            end = b.upper
        parts[-1].append(b)
        end = max(end, b.upper)
    return parts


def live_bytes(first: np.ndarray, last: np.ndarray, size: np.ndarray, count: int) -> np.ndarray:
    """Live bytes in each of `count` sections, of buffers live in the sections [first, last)."""
    change = np.zeros(count + 1, dtype=np.int64)
    np.add.at(change, first, size)
    np.subtract.at(change, last, size)
    return np.cumsum(change)[:count]
