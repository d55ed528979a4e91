# SPDX-License-Identifier: Apache-2.0
"""Tiles of sums along rows: of dW, and of products of matrices whose rows are summed along."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

from poetfw.kernels.convolution import Axis, ConvolutionPass
from poetfw.kernels.dot import Dot
from poetfw.kernels.entries import Empty, Estimate, Tiles
from poetfw.kernels.products import Product
from poetfw.kernels.tables import (
    MOST_PUT,
    DotWords,
    StencilWords,
    TileLoop,
    TilePut,
    TileRun,
    parts_of,
)

WIDEST = 16
"""Columns of a group."""
LONGEST, MOST_CHUNKS = 32, 8
"""Columns of a whole row, and parts in which they are loaded."""
MOST_SOURCES, MOST_WEIGHTS = 7, 7
"""Rows of each at a time."""
MOST_TAPS = 8
"""Taps of a row of the kernel at a time."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows that are multiplied with each other, and where they and the sums lie, in elements.

    Attributes:
        columns: of a row.
        last: columns of the last row; 0 where it is as long as all.
        sources: rows whose sums with a row of weights are different results.
        weights: likewise.
        source: from a row of the source to that of the next result.
        weight: likewise.
        put_source: from a result to that of the next source.
        put_weight: likewise.
        runs: rows of the kernel: the row, first rows of source and weights, and how many.
        taps: results of a pair of a source and weights.
        width: taps in a row of the kernel.
        tap: the first of these that this is about.
        source_row: from a row to the next that is added.
        samples: that are added, too.
        source_sample: from a sample to the next.
        weight_sample: likewise.
        loops: of groups, or of pairs of matrices.
        results: all, for rows of the kernel that meet nothing.
        bias: each source has one.
        applied: results are put to a sink.
        continued: sums go on from results that are there.
    """

    columns: Axis
    sources: int
    weights: int
    source: int
    weight: int
    put_source: int
    put_weight: int
    runs: tuple[tuple[int, int, int, int], ...]
    source_row: int
    loops: tuple[TileLoop, ...]
    results: int
    taps: int = 1
    width: int = 1
    tap: int = 0
    kernel_rows: int = 1
    last: int = 0
    samples: int = 1
    source_sample: int = 0
    weight_sample: int = 0
    bias: bool = False
    applied: bool = False
    continued: bool = False

    @property
    def rows(self) -> int:
        """Rows that a call goes through."""
        return self.samples * sum(count for *_, count in self.runs)

    def parts(self) -> Iterator[_Rows]:
        """The same for some taps of each row of the kernel, where these are many."""
        axis = self.columns
        for first, count, taps in parts_of(axis.taps, -(-axis.taps // -(-axis.taps // MOST_TAPS))):
            for tap in range(first, first + count * taps, taps):
                ahead = max(0, tap * axis.dilation - axis.padding)
                padding = max(0, axis.padding - tap * axis.dilation)
                columns = replace(axis, taps=taps, padding=padding, sources=axis.sources - ahead)
                runs = tuple((row, at + ahead, to, count) for row, at, to, count in self.runs)
                yield replace(self, columns=columns, runs=runs, tap=tap)


def _runs(rows: Axis) -> Iterator[tuple[int, int, int, int]]:
    """Rows of the kernel that meet x: the row, first rows of x and of dy, and how many."""
    for tap in range(rows.taps):
        met = [
            (at, result)
            for result in range(rows.results)
            for one, at in rows.inside(result)
            if one == tap
        ]
        if met:
            yield (tap, *met[0], len(met))


def _of_gradient(task: ConvolutionPass) -> _Rows:
    of = task.of
    rows, columns = of.axes()
    x_plane, y_plane = of.in_height * of.in_width, of.out_height * of.out_width
    taps = of.kernel[0] * of.kernel[1]
    inputs, outputs = of.group_inputs, of.group_outputs
    groups = TileLoop(of.groups, 1, 1, inputs * x_plane, outputs * y_plane, outputs * inputs * taps)
    return _Rows(
        columns=columns,
        sources=inputs,
        weights=outputs,
        source=x_plane,
        weight=y_plane,
        put_source=taps,
        put_weight=inputs * taps,
        runs=tuple(
            (tap, at * of.in_width, result * of.out_width, count)
            for tap, at, result, count in _runs(rows)
        ),
        source_row=of.stride[0] * of.in_width,
        loops=(groups,),
        results=of.out_channels * inputs * taps,
        taps=taps,
        width=of.kernel[1],
        kernel_rows=of.kernel[0],
        samples=of.batch,
        source_sample=of.in_channels * x_plane,
        weight_sample=of.out_channels * y_plane,
        applied=task.applied,
    )


def _of_product(of: Product) -> _Rows:
    run = min(of.run or of.inner, of.inner)
    left, right, result = of.steps
    return _Rows(
        columns=Axis(run, run, 1),
        sources=of.columns,
        weights=of.rows,
        source=of.right[1],
        weight=of.left[0],
        put_source=of.result[1],
        put_weight=of.result[0],
        runs=((0, 0, 0, -(-of.inner // run)),),
        source_row=run,
        loops=(TileLoop(of.batch, 1, 1, right, left, result),),
        results=of.batch * result,
        last=of.inner % run,
        bias=of.bias,
        continued=of.continued,
    )


class _Division(NamedTuple):
    """A row in a head, groups and a tail, and what of it is behind the source."""

    group: int
    groups: int
    head: int = 0
    tail: int = 0
    right: int = 0
    whole: bool = False
    last_groups: int = 0
    chunk: int = 0


def _divisions(columns: Axis, group: int, last: int) -> Iterator[_Division]:
    """Divisions of a row by groups of so many columns."""
    if last:
        if columns.results % group == last % group == 0:
            yield _Division(group, columns.results // group, last_groups=last // group)
        return

    def over(result: int) -> int:
        last = result * columns.stride + (columns.taps - 1) * columns.dilation - columns.padding
        return max(0, last - (columns.sources - 1))

    if group == columns.results:
        right = over(group - 1)
        yield _Division(group, 1, right=right, whole=True)
        if columns.taps == 1:
            for chunk in {-(-group // parts) for parts in range(2, MOST_CHUNKS + 1)} - {group}:
                yield _Division(group, 1, right=right, whole=True, chunk=chunk)
        return
    head = -(-columns.padding // columns.stride)
    groups, tail = divmod(columns.results - head, group)
    if groups < 1 or (head and over(head - 1)):
        return
    while groups > 1 and over(head + groups * group - 1):
        groups, tail = groups - 1, tail + group
    if not over(head + groups * group - 1):
        yield _Division(group, groups, head, tail, over(columns.results - 1))


def dot_candidates(task: ConvolutionPass | Product) -> Iterator[Estimate]:
    """Tiles that fit in registers."""
    if isinstance(task, Product):
        if task.left[1] != 1 or task.right[0] != 1 or task.applied:
            return
        if task.continued and not task.run:
            return  # a block adds runs to what is there
        on = _of_product(task)
    else:
        on = _of_gradient(task)
    if not on.runs:
        return
    most = min(on.sources, MOST_SOURCES) if on.columns.taps == 1 else 1
    longest = {on.columns.results} if on.columns.results <= LONGEST else set()
    several = [[*on.parts()]] if on.columns.taps > MOST_TAPS else []
    groups = sorted({*range(1, min(on.columns.results, WIDEST) + 1)} | longest)
    for group, parts in product(groups, ([on], *several)):
        divisions = zip(*(_divisions(part.columns, group, on.last) for part in parts), strict=False)
        weights = range(1, min(on.weights, MOST_WEIGHTS) + 1)
        for division, a, b in product(divisions, range(1, most + 1), weights):
            every = zip(parts, division, strict=True)
            yield from _together([(*one, _entries(*one, a, b)) for one in every])
            if isinstance(task, Product) and division[0].whole and not on.continued:
                yield from _together([(on, division[0], _through(on, division[0], a, b))])


def _together(parts: Sequence[tuple[_Rows, _Division, list[Tiles] | None]]) -> Iterator[Estimate]:
    """Entries of all parts, if all fit."""
    every = [_estimate(on, division, entries) for on, division, entries in parts if entries]
    if len(every) == len(parts):
        yield Estimate(
            sum(one.cycles for one in every),
            sum(one.size_bytes for one in every),
            tuple(entry for one in every for entry in one.entries),
        )


def _block(on: _Rows, division: _Division, a: int, b: int) -> Dot | None:
    columns = on.columns
    block = Dot(
        a,
        b,
        columns.taps,
        division.group,
        columns.stride,
        columns.dilation,
        columns.padding,
        division.right,
        division.head,
        division.tail,
        division.whole,
        division.chunk,
        on.samples == 1 and all(count == 1 for *_, count in on.runs),
        short=division.last_groups < division.groups and on.last > 0,
        bias=on.bias,
        continued=on.continued,
    )
    if on.continued and (on.sources % a or on.weights % b):
        return None  # results that are computed twice are continued once
    if not block.fits:
        return None
    return replace(block, steps=on.source_row != block.travel(division.groups))


def _entries(on: _Rows, division: _Division, a: int, b: int) -> list[Tiles] | None:
    """Entries of a table: stored sums by blocks that may overlap, applied ones by blocks apart."""
    if not on.applied:
        block = _block(on, division, a, b)
        if block is None:
            return None
        loops = (
            TileLoop.of_blocks(on.weights, b, weight=on.weight, result=on.put_weight),
            TileLoop.of_blocks(
                on.sources, a, source=on.source, result=on.put_source, bias=int(on.bias)
            ),
            *on.loops,
        )
        found = []
        if len(on.runs) < on.kernel_rows and not on.tap:  # the others are 0
            words = StencilWords(strips=on.results)
            found = [Tiles(Empty(), (TileRun(0, 0, 0, 1),), (), words)]
        steps = on.put_source, on.put_weight
        runs = tuple(_run(on, row, row[0] * on.width + on.tap) for row in on.runs)
        return [*found, _entry(on, division, block, runs, loops, steps)]
    apart = len(on.runs) < on.kernel_rows or a * b * on.taps > MOST_PUT
    apart = apart or on.columns.taps < on.width
    if a * b * (on.columns.taps if apart else on.taps) > MOST_PUT:
        return None
    if apart and a > 1 and on.kernel_rows > 1:
        return None  # results of a row of the kernel are not adjacent
    every = []
    for (b_first, b_count, own_b), (a_first, a_count, own_a) in product(
        parts_of(on.weights, b), parts_of(on.sources, a)
    ):
        block = _block(on, division, own_a, own_b)
        if block is None:
            return None
        loops = (
            TileLoop(b_count, own_b, own_b, weight=on.weight, bias=on.put_weight),
            TileLoop(a_count, own_a, own_a, source=on.source, bias=on.put_source),
            *(replace(one, result=0, bias=one.result) for one in on.loops),
        )
        first = b_first * on.put_weight + a_first * on.put_source
        starts = a_first * on.source, b_first * on.weight
        if not apart:
            each = own_a * on.taps
            runs = tuple(_run(on, row, row[0] * on.columns.taps, starts) for row in on.runs)
            put = TilePut(first, own_b, each, on.put_weight).joined
            every.append(_entry(on, division, block, runs, loops, (on.taps, each), put))
            continue
        met = {row[0]: row for row in on.runs}
        taps = on.columns.taps
        for row in range(on.kernel_rows):
            put = TilePut(
                first + row * on.width + on.tap, own_b, own_a * taps, on.put_weight
            ).joined
            if row in met:
                run = _run(on, met[row], 0, starts)
                every.append(_entry(on, division, block, (run,), loops, (taps, own_a * taps), put))
            else:
                words = StencilWords(strips=own_a * own_b * taps)
                loops = tuple(one for one in loops if one.count > 1)
                every.append(Tiles(Empty(), (TileRun(0, 0, 0, 1),), loops, words, put))
    return every


def _through(on: _Rows, division: _Division, a: int, b: int) -> list[Tiles] | None:
    """Entries whose blocks go through sources that follow each other."""
    if on.rows > 1 or on.source != division.group or on.put_source != 1:
        return None
    loops = (TileLoop.of_blocks(on.weights, b, weight=on.weight, result=on.put_weight), *on.loops)
    found = []
    for first, count, own in parts_of(on.sources, a):
        block = _block(on, division, own, b)
        if block is None:
            return None
        if count > 1:
            block = replace(block, through=True)
        run = TileRun(first * on.source, 0, first, 1)
        if on.bias and first:
            return None
        found.append(
            _entry(replace(on, samples=count), division, block, (run,), loops, (1, on.put_weight))
        )
    return found


def _run(
    on: _Rows, row: tuple[int, int, int, int], result: int, starts: tuple[int, int] = (0, 0)
) -> TileRun:
    _, source, weight, count = row
    return TileRun(
        source + starts[0],
        weight + starts[1],
        result,
        count,
        on.source_sample - count * on.source_row,
        on.weight_sample - count * on.columns.results,
    )


def _entry(
    on: _Rows,
    division: _Division,
    block: Dot,
    runs: tuple[TileRun, ...],
    loops: tuple[TileLoop, ...],
    steps: tuple[int, int],
    put: TilePut | None = None,
) -> Tiles:
    words = DotWords(
        samples=on.samples,
        groups=division.groups,
        source_other=on.source,
        weight_other=on.weight,
        source_row=on.source_row - block.travel(division.groups),
        put_source=steps[0],
        put_weight=steps[1],
        last_groups=division.last_groups,
    )
    block = replace(block, adjacent=block.sources > 1 and steps[0] == block.taps)
    return Tiles(block, runs, tuple(one for one in loops if one.count > 1), words, put)


def _estimate(on: _Rows, division: _Division, entries: list[Tiles]) -> Estimate:
    cycles = size = 0.0
    for entry in entries:
        if isinstance(entry.block, Dot):
            each, row, call = entry.block.estimate
            rows = on.samples * sum(run.rows for run in entry.runs)
            own = len(entry.runs) * (call + 45) + rows * (row + each * division.groups)
            if entry.block.through and isinstance(entry.words, DotWords):
                own = call + 45 + entry.words.samples * (row + each + 12 + call // 2)
            cycles += entry.calls * own + entry.put_cycles
            columns = division.group + division.head + division.tail
            size += 300 + 8 * entry.block.sums * columns + 14 * entry.block.sums
    return Estimate(cycles, size, tuple(entries))
