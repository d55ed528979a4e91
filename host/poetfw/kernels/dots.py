# SPDX-License-Identifier: Apache-2.0
"""Tiles of dW: sums along rows of x and dy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

from poetfw.kernels.convolution import Axis, Convolution
from poetfw.kernels.dot import Dot
from poetfw.kernels.entries import Empty, Estimate, Tiles
from poetfw.kernels.tables import DotWords, StencilWords, TileLoop, TileRun

WIDEST = 16
"""Columns of a group."""


@dataclass(frozen=True, slots=True)
class _Division:
    """A row in a head, groups and a tail, and what of it is behind the source."""

    group: int
    groups: int
    head: int
    tail: int
    right: int
    tail_right: int
    whole: bool


def _divisions(columns: Axis, group: int) -> Iterator[_Division]:
    """Divisions of a row by groups of so many columns."""

    def over(result: int) -> int:
        last = result * columns.stride + (columns.taps - 1) * columns.dilation - columns.padding
        return max(0, last - (columns.sources - 1))

    heads = {0, -(-columns.padding // columns.stride)}
    for head in sorted(heads):
        if head and (head >= columns.results or over(head - 1)):
            continue
        groups, tail = divmod(columns.results - head, group)
        if not groups:
            continue
        if not head and groups == 1 and not tail:
            yield _Division(group, 1, 0, 0, over(group - 1), 0, True)
            continue
        if not tail:
            yield _Division(group, groups, head, 0, over(columns.results - 1), 0, False)
        while groups > 1 and over(head + groups * group - 1):
            groups, tail = groups - 1, tail + group
        if tail and not over(head + groups * group - 1):
            yield _Division(group, groups, head, tail, 0, over(columns.results - 1), False)


def _runs(of: Convolution, rows: Axis) -> list[tuple[int, int, int, int]]:
    """Rows of the kernel that meet x: the row, first rows of x and of dy, and how many."""
    found = []
    for tap in range(rows.taps):
        met = [
            (at, result)
            for result in range(rows.results)
            for one, at in rows.inside(result)
            if one == tap
        ]
        if met:
            found.append((tap, *met[0], len(met)))
    return found


def dot_candidates(of: Convolution) -> Iterator[Estimate]:
    """Tiles of dW that fit in registers."""
    rows, columns = of.axes()
    x_plane, y_plane = of.in_height * of.in_width, of.out_height * of.out_width
    taps = of.kernel[0] * of.kernel[1]
    inputs, outputs = of.group_inputs, of.group_outputs
    met = _runs(of, rows)
    one_row = of.batch == 1 and all(count == 1 for _, _, _, count in met)
    x_sample, y_sample = of.in_channels * x_plane, of.out_channels * y_plane
    x_row = of.stride[0] * of.in_width
    groups_loop = TileLoop(
        of.groups, 1, 1, inputs * x_plane, outputs * y_plane, outputs * inputs * taps
    )
    total_rows = of.batch * sum(count for *_, count in met)
    zeros: list[Tiles] = []
    if len(met) < of.kernel[0]:
        all_weights = StencilWords(strips=of.out_channels * inputs * taps)
        zeros = [Tiles(Empty(), (TileRun(0, 0, 0, 1),), (), all_weights)]
    if not met:
        return
    for group in range(1, min(columns.results, WIDEST) + 1):
        for division in _divisions(columns, group):
            for a, b, held in product(
                range(1, (1 if columns.taps > 1 else min(inputs, 6)) + 1),
                range(1, min(outputs, 7) + 1),
                (False, True),
            ):
                block = Dot(
                    a,
                    b,
                    columns.taps,
                    group,
                    columns.stride,
                    columns.dilation,
                    columns.padding,
                    division.right,
                    division.head,
                    division.tail,
                    division.tail_right,
                    division.whole,
                    held,
                    one_row,
                )
                if (held and one_row) or not block.fits:
                    continue
                source_row = x_row - block.travel(division.groups)
                if not source_row:
                    block = replace(block, steps=False)
                words = DotWords(
                    samples=of.batch,
                    groups=division.groups,
                    source_other=x_plane,
                    weight_other=y_plane,
                    source_row=source_row,
                    put_source=taps,
                    put_weight=inputs * taps,
                    sources=a,
                    weights=b,
                    taps=columns.taps,
                )
                runs = tuple(
                    TileRun(
                        x_first * of.in_width,
                        y_first * of.out_width,
                        tap * columns.taps,
                        count,
                        x_sample - count * x_row,
                        y_sample - count * of.out_width,
                    )
                    for tap, x_first, y_first, count in met
                )
                loops = (
                    TileLoop.of_blocks(outputs, b, weight=y_plane, result=inputs * taps),
                    TileLoop.of_blocks(inputs, a, source=x_plane, result=taps),
                    groups_loop,
                )
                entry = Tiles(block, runs, tuple(one for one in loops if one.count > 1), words)
                each, row, call = block.estimate
                cycles = entry.calls * (
                    len(met) * (call + 45) + total_rows * (row + each * division.groups)
                )
                columns_of = group + division.head + division.tail
                size = 300 + 8 * block.sums * columns_of + 14 * block.sums
                yield Estimate(cycles, size, (*zeros, entry))
