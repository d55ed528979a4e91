# SPDX-License-Identifier: Apache-2.0
"""Bands: rows of results that one block computes, one or several at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from poetfw.kernels.convolution import Axis, Met
from poetfw.kernels.strips import Strips, coverings


@dataclass(frozen=True, slots=True)
class BandRun:
    """Rows of results, or tiles of some, that meet the same rows of the kernel."""

    source: int  # row that is met first
    kernel: int  # row that is met first
    result: int
    count: int
    met: int
    skipped: int = 0
    ends_early: bool = False


@dataclass(frozen=True, slots=True)
class Band:
    """Rows of results that one block computes.

    Attributes:
        rows: of the source that a row, or a tile, of results meets at most; 0 for none.
        height: rows of results at a time.
        lines: what a block of several rows of results meets, see `Stencil`.
        kernel_step: rows of the kernel from one that is met to the next.
        source_step: rows of the source from one that is met to the next.
        source_advance: rows of the source from a row, or a tile, of results to the next.
        result_advance: rows of results from one, or a tile, to the next.
        ends_early: rows of the source that a run may leave out at the end.
    """

    rows: int
    runs: tuple[BandRun, ...]
    height: int = 1
    lines: tuple[tuple[tuple[int, int], ...], ...] = ()
    kernel_step: int = 1
    source_step: int = 0
    source_advance: int = 0
    result_advance: int = 1
    ends_early: int = 0


@lru_cache(maxsize=256)
def _low_bands(axis: Axis) -> tuple[Band, ...]:
    """Bands of one row of results at a time, those of a phase together."""
    found = []
    for phase in range(min(axis.phases, axis.results)):
        met_by_run: list[tuple[int, int, Met]] = []
        for at in range(phase, axis.results, axis.phases):
            met = axis.inside(at)
            if met_by_run:
                first, count, begun = met_by_run[-1]
                moved = tuple((tap, place + count * axis.source_step) for tap, place in begun)
                if met == moved:
                    met_by_run[-1] = (first, count + 1, begun)
                    continue
            met_by_run.append((at, 1, met))
        empty = tuple(BandRun(0, 0, at, count, 0) for at, count, met in met_by_run if not met)
        if empty:
            found.append(Band(0, empty, result_advance=axis.phases))
        runs = [one for one in met_by_run if one[2]]
        if not runs:
            continue
        full = max((met for *_, met in runs), key=len)
        most = len(full)
        steps = (full[1][0] - full[0][0], full[1][1] - full[0][1]) if most > 1 else (1, 0)
        found.append(
            Band(
                most,
                tuple(
                    BandRun(met[0][1], met[0][0], at, count, len(met), most - len(met))
                    for at, count, met in runs
                ),
                kernel_step=steps[0],
                source_step=steps[1],
                source_advance=axis.source_step,
                result_advance=axis.phases,
            )
        )
    return tuple(found)


def _high_band(axis: Axis, strips: Strips) -> Band | None:
    """A band of tiles of several rows, which are strips of the axis of rows."""
    height, length = len(strips.columns), strips.length
    order = range(length - 1, -1, -1) if axis.transposed else range(length)
    lines = tuple(
        tuple(
            (row, tap) for row, met in enumerate(strips.columns) for tap, at in met if at == place
        )
        for place in order
    )
    before, behind = strips.left, strips.right
    if axis.transposed:
        before, behind = behind, before
    begun = {row for line in lines[: length - behind] for row, _ in line}
    if len(begun) < height or before + behind >= length:
        return None
    tiles = list(zip(strips.starts, strips.bases, strict=True))
    runs: list[BandRun] = []
    for i, (start, base) in enumerate(tiles):
        is_last = i == len(tiles) - 1
        padded = (i == 0 and strips.left > 0, is_last and strips.right > 0)
        if axis.transposed:
            padded = padded[1], padded[0]
        skipped, early = before if padded[0] else 0, padded[1]
        one = BandRun(base + order[skipped], 0, start, 1, length, skipped, early)
        if runs and (runs[-1].skipped, runs[-1].ends_early) == (skipped, early):
            before_it = runs[-1]
            if start == before_it.result + before_it.count * height:
                runs[-1] = replace(before_it, count=before_it.count + 1)
                continue
        runs.append(one)
    return Band(
        length,
        tuple(runs),
        height,
        lines,
        1,
        -1 if axis.transposed else 1,
        tiles[1][1] - tiles[0][1] if len(tiles) > 1 else 0,
        height,
        behind,
    )


@lru_cache(maxsize=256)
def bands_of(axis: Axis, height: int) -> tuple[Band, ...]:
    """Bands that cover all rows, of so many rows of results at a time; none where they do not."""
    if height == 1:
        return _low_bands(axis)
    for parts in coverings(axis, height):
        bands = [_high_band(axis, one) if one.length else None for one in parts]
        if all(bands):
            return tuple(band for band in bands if band)
    return ()
