# SPDX-License-Identifier: Apache-2.0
"""Strips that cover the results along an axis, and the padding that each meets."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from poetfw.kernels.convolution import Axis, Met

MOST_PARTS = 8
"""Blocks beside each other in a row."""


class Strips(NamedTuple):
    """Strips of equal columns that one block computes.

    Attributes:
        starts: the first result of each.
        bases: the first source position of each.
        columns: what each result of any of them meets; none where all are 0.
        length: of the segment.
        left: padding of the first.
        right: padding of the last.
    """

    starts: tuple[int, ...]
    bases: tuple[int, ...]
    columns: tuple[Met, ...]
    length: int
    left: int = 0
    right: int = 0


@lru_cache(maxsize=64)
def _met(axis: Axis, padded: bool) -> tuple[Met, ...]:
    """Taps and source positions that each result along an axis meets."""
    return tuple(map(axis.met if padded else axis.inside, range(axis.results)))


def _strip(axis: Axis, start: int, width: int, *, padded: bool) -> Strips:
    met = _met(axis, padded)[start : start + width]
    places = [at for one in met for _, at in one]
    base, length = (min(places), max(places) - min(places) + 1) if places else (0, 0)
    columns = tuple(tuple((tap, at - base) for tap, at in one) for one in met)
    outside = [i for i in range(length) if not 0 <= base + i < axis.sources]
    left = sum(base + i < 0 for i in outside)
    return Strips((start,), (base,), columns, length, left, len(outside) - left)


@lru_cache(maxsize=4096)
def _cover(axis: Axis, width: int, start: int, end: int, overlap: bool) -> Strips | None:
    """Strips from start to end, the last of which may overlap; None where they are unlike."""
    starts = [*range(start, end - width + 1, width)]
    if not starts or (width % axis.phases and len(starts) > 1):
        return None
    if starts[-1] + width != end:
        if not overlap or (end - width) % axis.phases != start % axis.phases:
            return None
        starts.append(end - width)
    if len(starts) == 1:
        return _strip(axis, start, width, padded=False)
    strips = [_strip(axis, at, width, padded=True) for at in starts]
    first, last = strips[0], strips[-1]
    left, right = first.left, last.right
    expected = [(0, 0)] * len(strips)
    expected[0], expected[-1] = (left, 0), (0, right)
    if (
        [(one.left, one.right) for one in strips] != expected
        or any(one.columns != first.columns for one in strips)
        or not first.length
        or left + right >= first.length
    ):
        return None
    bases = tuple(one.bases[0] for one in strips)
    return Strips(tuple(starts), bases, first.columns, first.length, left, right)


@lru_cache(maxsize=4096)
def _apart(axis: Axis, width: int, begin: int, end: int) -> tuple[Strips, ...]:
    """Strips from begin to end that meet no padding, and blocks of their own beside them."""
    middle, last = None, end
    while middle is None and last >= begin + width and end - last < axis.phases:
        middle = _cover(axis, width, begin, last, True)
        last -= 1
    sides = ((0, begin), (last + 1, axis.results)) if middle else ((0, axis.results),)
    found = [
        _strip(axis, at, min(width, behind - at), padded=False)
        for first, behind in sides
        for at in range(first, behind, width)
    ]
    if len(found) >= MOST_PARTS or (middle and middle.left + middle.right):
        return ()
    return (middle, *found) if middle else tuple(found)


def _parted(axis: Axis, width: int) -> Iterator[tuple[Strips, ...]]:
    """Columns that meet padding in blocks of their own: those alone, or whole strips with them."""
    clear = [one == inside for one, inside in zip(_met(axis, True), _met(axis, False), strict=True)]
    begin = clear.index(True) if any(clear) else axis.results
    end = clear.index(False, begin) if False in clear[begin:] else axis.results
    yield from filter(None, (_apart(axis, width, begin, end),))
    if width % axis.phases == axis.results % axis.phases == 0 and begin < width < axis.results:
        yield from filter(None, (_apart(axis, width, width, axis.results - width),))


def coverings(axis: Axis, width: int) -> Iterator[tuple[Strips, ...]]:
    """Ways to cover a row by strips of so many columns."""
    results = axis.results
    for overlap in (False, True):
        if (whole := _cover(axis, width, 0, results, overlap)) is not None:
            yield (whole,)
            if whole.left + whole.right:
                yield from _parted(axis, width)
            return
    cut = results // width * width
    if 0 < cut < results:
        parts = _cover(axis, width, 0, cut, False), _cover(axis, results - cut, cut, results, False)
        if parts[0] is not None and parts[1] is not None:
            yield parts[0], parts[1]
    yield from _parted(axis, width)
