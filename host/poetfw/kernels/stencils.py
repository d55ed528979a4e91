# SPDX-License-Identifier: Apache-2.0
"""Tiles of results that are neighbours: forward, dX, and products of matrices.

How strips cover a row of results, and which blocks compute them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import NamedTuple

from poetfw.kernels.bands import Band, bands_of
from poetfw.kernels.convolution import Axis, Convolution, ConvolutionPass, Pass
from poetfw.kernels.entries import Empty, Estimate, Tiles
from poetfw.kernels.held import MOST_CHANNELS, Held
from poetfw.kernels.products import Product
from poetfw.kernels.stencil import Stencil
from poetfw.kernels.strips import Strips, coverings
from poetfw.kernels.tables import (
    FARTHEST,
    MOST_PUT,
    StencilWords,
    TileLoop,
    TilePut,
    TileRun,
    parts_of,
)

WIDEST = 17
"""Columns of a strip."""
HIGHEST = 6
"""Rows of results at a time."""
MOST_UNROLLED = 10
"""Channels of a kernel of one tap at a time."""


@dataclass(frozen=True, slots=True)
class _Operands:
    """Elements between channels, groups and samples of a pass, and what is summed and results."""

    channels: int
    outputs: int
    source_channel: int
    weight_channel: int
    weight_output: int
    result_output: int
    kernel_rows: int
    loops: tuple[TileLoop, ...]  # groups and samples
    bias: bool = False
    result_column: int = 1
    run: int = 0
    continued: bool = False


def _operands(task: ConvolutionPass) -> _Operands:
    of, taps = task.of, task.of.kernel[0] * task.of.kernel[1]
    x = of.group_inputs, of.in_height * of.in_width, taps
    y = of.group_outputs, of.out_height * of.out_width, of.group_inputs * taps
    bias = of.bias and task.which is Pass.FORWARD
    source, result = (x, y) if task.which is Pass.FORWARD else (y, x)
    sources, results = source[0] * source[1], result[0] * result[1]
    return _Operands(
        channels=source[0],
        outputs=result[0],
        source_channel=source[1],
        weight_channel=source[2],
        weight_output=result[2],
        result_output=result[1],
        kernel_rows=of.kernel[0],
        loops=(
            TileLoop(of.groups, 1, 1, sources, y[0] * y[2], results, bias * result[0]),
            TileLoop(of.batch, 1, 1, of.groups * sources, 0, of.groups * results),
        ),
        bias=bias,
        continued=task.continued,
    )


def _operands_of_product(of: Product) -> _Operands:
    left, right, result = of.steps
    return _Operands(
        channels=of.inner,
        outputs=of.rows,
        source_channel=of.right[0],
        weight_channel=of.left[1],
        weight_output=of.left[0],
        result_output=of.result[0],
        kernel_rows=1,
        loops=(TileLoop(of.batch, 1, 1, right, left, result),),
        result_column=of.result[1],
        run=of.run if of.run < of.inner or of.continued else 0,
        continued=of.continued,
    )


class _Choice(NamedTuple):
    """Free parameters of a tile."""

    strips: tuple[Strips, ...]
    outputs: int
    chunk: int
    unrolled: int = 1
    resident: bool = False
    height: int = 1


@lru_cache(maxsize=64)
def _loops(operands: _Operands, outputs: int) -> tuple[TileLoop, ...]:
    blocks = TileLoop.of_blocks(
        operands.outputs,
        outputs,
        weight=operands.weight_output,
        result=operands.result_output,
        bias=int(operands.bias),
    )
    return tuple(loop for loop in (blocks, *operands.loops) if loop.count > 1)


def _empty(
    operands: _Operands, columns: Axis, band: Band, strips: Strips | None
) -> Iterator[Tiles]:
    """Results of a band that nothing meets, in the columns of some strips or in all."""
    width = columns.results if strips is None else len(strips.columns)
    column = 0 if strips is None else strips.starts[0]
    step = 1 if band.lines else band.result_advance
    words = StencilWords(
        strips=width, channels=int(operands.bias), result_row=step * columns.results
    )
    for one in band.runs:
        count = one.count * band.height if band.lines else one.count
        run = TileRun(0, 0, one.result * columns.results + column, count)
        yield Tiles(Empty(), (run,), _loops(operands, 1), words)


def _tiles(operands: _Operands, rows: Axis, columns: Axis, choice: _Choice) -> list[Tiles] | None:
    """Entries of a choice; None where it does not fit."""
    found: list[Tiles] = []
    for band in bands_of(rows, choice.height):
        for strips in choice.strips if band.rows else (None,):
            if strips is None or not strips.length:
                if operands.continued and operands.bias:
                    return None
                if not operands.continued:
                    found.extend(_empty(operands, columns, band, strips))
                continue
            one = _tile(operands, columns, choice, band, strips)
            if one is None:
                return None
            found.append(one)
    return found or None


def _tile(
    operands: _Operands, columns: Axis, choice: _Choice, band: Band, strips: Strips
) -> Tiles | None:
    """The entry of a block; None where it does not fit."""
    one_tap = columns.taps == 1 and operands.kernel_rows == 1
    adjacent = one_tap and operands.weight_output == 1 and operands.weight_channel != 1
    single = operands.channels == 1 and all(strips.columns) and not operands.continued
    if (choice.resident or choice.height > 1) and not single:
        return None
    starts, bases, width = strips.starts, strips.bases, len(strips.columns)
    several = len(starts) > 1
    overlap = several and starts[-1] - starts[-2] != width
    if operands.continued and (overlap or operands.outputs % choice.outputs):
        return None  # results that are computed twice are continued once
    loops = _loops(operands, choice.outputs)
    inner = loops[0] if loops else None
    planes = (
        single
        and choice.outputs == 1
        and inner is not None
        and inner.advance == inner.last == 1
        and not (operands.bias and inner.bias != 1)
    )
    step = operands.result_column
    if step * (width - 1) > FARTHEST:
        return None
    block = Stencil(
        rows=band.rows,
        columns=strips.columns,
        length=strips.length,
        outputs=choice.outputs,
        taps=columns.taps,
        gap=(band.kernel_step - 1) * columns.taps,
        adjacent=adjacent,
        unrolled=choice.unrolled,
        chunk=choice.chunk,
        cut=any(run.skipped for run in band.runs),
        single=single,
        bias=operands.bias,
        overlap=overlap,
        resident=choice.resident,
        lines=band.lines,
        ends_early=band.ends_early if any(run.ends_early for run in band.runs) else 0,
        whole_rows=not several,
        one_row=not planes and all(run.count == 1 for run in band.runs),
        planes=planes,
        targets=tuple(range(0, width * step, step)) if step > 1 else (),
        run=operands.run,
        continued=operands.continued,
    )
    if not block.fits:
        return None
    row_step = band.source_step * columns.sources
    words = StencilWords(
        row_step=row_step,
        strips=len(starts),
        channels=operands.channels if operands.run else operands.channels // choice.unrolled,
        weight_other=operands.weight_output if choice.outputs > 1 else 0,
        result_other=operands.result_output if choice.outputs > 1 else columns.results,
        source_strip=bases[1] - bases[0] if several else 0,
        result_strip=width * step if several else 0,
        source_last=bases[-1] - bases[-2] if overlap else 0,
        result_last=(starts[-1] - starts[-2]) * step if overlap else 0,
        source_row=band.source_advance * columns.sources,
        result_row=band.result_advance * columns.results - (starts[-1] - starts[0]),
    )
    if planes and inner is not None:
        words = words._replace(channels=inner.count, weight_other=inner.weight)
        loops = loops[1:]
    runs = []
    for run in band.runs:
        source_next = operands.source_channel - (run.met - 1) * row_step
        weight_next = _weight_next(operands, block, run.met)
        if planes and inner is not None:
            source_next = inner.source - run.count * words.source_row
            weight_next = inner.result - run.count * band.result_advance * columns.results
        runs.append(
            TileRun(
                run.source * columns.sources + bases[0],
                run.kernel * columns.taps,
                run.result * columns.results + starts[0] * step,
                run.count,
                source_next,
                weight_next,
                run.skipped,
                run.ends_early,
            )
        )
    return Tiles(block, tuple(runs), loops, words)


def _weight_next(operands: _Operands, block: Stencil, rows: int) -> int:
    if block.adjacent:
        return operands.weight_channel
    if block.unrolled > 1:
        return 0
    return operands.weight_channel - rows * (block.taps + block.gap)


def _estimate(entries: list[Tiles]) -> Estimate:
    cycles, size = 0.0, 0.0
    for entry in entries:
        block, words = entry.block, entry.words
        if isinstance(block, Held) and isinstance(words, StencilWords):
            group, call = block.estimate
            cycles += entry.calls * (90 + call + words.strips * group) + entry.put_cycles
            size += 80 + 4 * group
        elif isinstance(block, Stencil) and isinstance(words, StencilWords):
            channel, strip = block.estimate
            channels = 1 if block.single else words.channels / (block.unrolled if block.run else 1)
            planes = entry.calls * (words.channels if block.planes else 1)
            for run in entry.runs:
                met = (block.rows - run.skipped - block.ends_early * run.ends_early) / block.rows
                strips = run.rows * words.strips
                cycles += planes * (20 * run.rows + strips * (strip + channels * met * channel))
                cycles += 90 * entry.calls
            cycles += entry.put_cycles
            size += 250 + 3 * channel + strip * 2
        elif isinstance(words, StencilWords):
            for run in entry.runs:
                cycles += entry.calls * (110 + run.rows * (40 + 1.3 * words.strips))
    return Estimate(cycles, size, tuple(entries))


def _choices(operands: _Operands, rows: Axis, columns: Axis) -> Iterator[_Choice]:
    one_tap = rows.taps * columns.taps == 1
    single = operands.channels == 1
    most = 28 if (one_tap or single) and not operands.run else 14
    unrolls = _unrolls(operands) if one_tap else [1]
    taps = columns.taps
    chunks = sorted({1 if one_tap else taps, -(-taps // 2), 1}, reverse=True)
    heights: list[int] = []
    if single and not one_tap:
        heights = [n for n in range(2, min(HIGHEST, rows.results) + 1) if bands_of(rows, n)]
    for width in range(1, min(columns.results, WIDEST) + 1):
        covers = [
            parts
            for parts in coverings(columns, width)
            if not any(strips.left + strips.right for strips in parts)
        ]
        for outputs in range(1, min(operands.outputs, 8, most // width) + 1):
            for strips, unrolled, chunk in product(covers, unrolls, chunks):
                yield _Choice(strips, outputs, chunk, unrolled)
        for strips, height, resident in product(covers, heights, (False, True)):
            if height * width <= 28:
                yield _Choice(strips, 1, taps, 1, resident, height)


def _unrolls(operands: _Operands) -> list[int]:
    """Channels at a time of a kernel of one tap."""
    if operands.weight_channel != 1 and operands.weight_output != 1:
        return [1]
    counts = range(1, MOST_UNROLLED + 1)
    return [n for n in counts if operands.channels % n == operands.run % n == 0]


def _strided_pointwise(of: Convolution, which: Pass, operands: _Operands) -> Iterator[list[Tiles]]:
    """Tiles of 1x1, stride > 1, no padding: of positions that are met, by row or several rows.

    Results of dX that nothing meets are cleared first.
    """
    apart = (of.stride[0] * of.in_width, of.stride[1])
    adjacent = (of.out_width, 1)
    source, target = (apart, adjacent) if which is Pass.FORWARD else (adjacent, apart)
    cleared = StencilWords(strips=of.batch * of.in_channels * of.in_height * of.in_width)
    clear = (
        []
        if which is Pass.FORWARD or operands.continued
        else [Tiles(Empty(), (TileRun(0, 0, 0, 1),), (), cleared)]
    )
    height, width = of.out_height, of.out_width
    tiles = [(1, columns) for columns in range(1, min(width, WIDEST) + 1)]
    tiles += [(rows, width) for rows in range(2, min(height, WIDEST // width) + 1)]
    unrolls = [n for n in range(1, MOST_UNROLLED + 1) if operands.channels % n == 0]
    for (rows, columns), outputs, unrolled in product(
        tiles, range(1, min(operands.outputs, 8) + 1), unrolls
    ):
        places = [
            tuple(
                row * step[0] + column * step[1] for row in range(rows) for column in range(columns)
            )
            for step in (source, target)
        ]
        if places[0][-1] > FARTHEST or places[1][-1] > FARTHEST:
            continue
        count = rows * columns
        sources, targets = ((() if one == tuple(range(count)) else one) for one in places)
        starts = [*range(0, width - columns + 1, columns)]
        overlap = starts[-1] + columns != width
        last = width - columns - starts[-1]
        travel = width - columns
        if operands.continued and (overlap or height % rows or operands.outputs % outputs):
            continue
        block = Stencil(
            rows=1,
            columns=tuple(((0, i),) for i in range(count)),
            length=count,
            outputs=outputs,
            adjacent=operands.weight_output == 1 and operands.weight_channel != 1,
            unrolled=unrolled,
            single=operands.channels == 1 and not operands.continued,
            bias=operands.bias,
            overlap=overlap,
            whole_rows=columns == width,
            one_row=height <= rows,
            sources=sources,
            targets=targets,
            continued=operands.continued,
        )
        if not block.fits or (block.single and unrolled > 1):
            continue
        words = StencilWords(
            strips=len(starts) + overlap,
            channels=operands.channels // unrolled,
            weight_other=operands.weight_output if outputs > 1 else 0,
            result_other=operands.result_output,
            source_strip=columns * source[1],
            result_strip=columns * target[1],
            source_last=last * source[1],
            result_last=last * target[1],
            source_row=rows * source[0],
            result_row=rows * target[0] - travel * target[1],
        )
        runs = [(0, height // rows)] + ([(height - rows, 1)] if height % rows else [])
        weight_next = operands.weight_channel if block.adjacent or unrolled == 1 else 0
        if unrolled == 1 and not block.adjacent:
            weight_next = operands.weight_channel - 1
        yield [
            *clear,
            Tiles(
                block,
                tuple(
                    TileRun(
                        first * source[0],
                        0,
                        first * target[0],
                        many,
                        operands.source_channel,
                        weight_next,
                    )
                    for first, many in runs
                ),
                _loops(operands, outputs),
                words,
            ),
        ]


def _held(
    operands: _Operands,
    places: Sequence[int],
    loops: Sequence[TileLoop],
    streamed: int,
    part: int,
) -> Tiles | None:
    """The entry of a block that holds the source at some places; None where it does not fit."""
    groups, tail = divmod(operands.outputs, streamed)
    count = len(places)
    apart = tuple(places) != tuple(range(count))
    block = Held(
        operands.channels,
        count,
        streamed,
        part,
        tail,
        tuple(places) if apart else (),
        operands.result_output == count,
        operands.bias,
        groups > 1,
    )
    if not block.fits or not groups:
        return None
    words = StencilWords(
        row_step=operands.source_channel if operands.channels > 1 else 0,
        strips=groups,
        result_other=operands.result_output - count,
    )
    several = tuple(loop for loop in (*loops, *operands.loops) if loop.count > 1)
    return Tiles(block, (TileRun(0, 0, 0, 1),), several, words)


def _helds(
    operands: _Operands, row: tuple[int, int, int], column: tuple[int, int, int]
) -> Iterator[Tiles]:
    """Entries of blocks that hold the source of all channels, of some columns or rows at a time.

    Args:
        operands: what is summed.
        row: rows of results, and elements of the source and the results from one to the next.
        column: likewise.
    """
    rows_are_adjacent = operands.weight_output == operands.channels and (
        operands.channels == 1 or operands.weight_channel == 1
    )
    if operands.continued or operands.run or not rows_are_adjacent:
        return
    if operands.channels > MOST_CHANNELS or column[2] != 1:
        return
    (height, source_row, result_row), (width, source_step, _) = row, column
    tiles = [(1, n) for n in range(1, min(width, WIDEST) + 1)]
    tiles += [(n, width) for n in range(2, min(height, WIDEST // width) + 1)]
    for rows, columns in tiles:
        places = [i * source_row + j * source_step for i in range(rows) for j in range(columns)]
        if places[-1] > FARTHEST:
            continue
        loops = (
            TileLoop.of_blocks(width, columns, source=source_step, result=1),
            TileLoop.of_blocks(height, rows, source=source_row, result=result_row),
        )
        count = len(places)
        for streamed, part in product(range(1, 9), dict.fromkeys((count, -(-count // 2)))):
            one = _held(operands, places, loops, streamed, part)
            if one is not None:
                yield one


def _applied(of: Product, operands: _Operands) -> Iterator[list[Tiles]]:
    """Tiles of results that go to a sink, and so do not overlap: some rows of some columns each."""
    widths = range(1, min(of.columns, WIDEST) + 1)
    heights = range(1, min(of.rows, 8) + 1)
    (band,) = bands_of(Axis(1, 1, 1), 1)
    for width, outputs, unrolled in product(widths, heights, _unrolls(operands)):
        most = min(of.columns, MOST_PUT // outputs)
        for chunk in {
            *range(width, most + 1, width),
            *([of.columns] if most == of.columns else ()),
        }:

            def tile(own: _Operands, columns: int) -> Tiles | None:
                axis = Axis(columns, columns, 1)
                (strips,) = next(coverings(axis, min(width, columns)))  # noqa: B023
                choice = _Choice((), own.outputs, 1, unrolled)  # noqa: B023
                return _tile(own, axis, choice, band, strips)

            yield from filter(None, (_chunks(of, operands, outputs, chunk, tile),))
    if operands.channels == 1 and operands.weight_output == 1 and of.columns <= WIDEST:
        for outputs, streamed in product(range(1, of.rows + 1), range(1, WIDEST + 1)):
            if outputs * of.columns > MOST_PUT:
                break

            def rows(own: _Operands, columns: int) -> Tiles | None:
                count = min(streamed, own.outputs)  # noqa: B023
                return _held(own, range(columns), (), count, columns)

            yield from filter(None, (_chunks(of, operands, outputs, of.columns, rows),))


def _chunks(
    of: Product,
    operands: _Operands,
    outputs: int,
    chunk: int,
    tile: Callable[[_Operands, int], Tiles | None],
) -> list[Tiles] | None:
    """Entries for all blocks of rows and columns, the last ones smaller; None if one is unfit."""
    found = []
    for (row, row_count, rows), (column, column_count, columns) in product(
        parts_of(of.rows, outputs), parts_of(of.columns, chunk)
    ):
        one = tile(replace(operands, outputs=rows, result_output=columns, loops=()), columns)
        if one is None:
            return None
        (run,) = one.runs
        starts = column, row * of.left[0]
        run = run._replace(source_at=run.source_at + starts[0], weight_at=starts[1])
        both = (
            TileLoop(row_count, rows, rows, weight=of.left[0], bias=of.result[0]),
            TileLoop(column_count, columns, columns, source=1, bias=1),
        )
        loops = tuple(loop for loop in both if loop.count > 1)
        put = TilePut(row * of.result[0] + column, rows, columns, of.result[0]).joined
        found.append(replace(one, runs=(run,), loops=loops, put=put))
    return found


def product_stencils(of: Product) -> Iterator[Estimate]:
    """Tiles of a product of matrices that fit in registers."""
    if of.right[1] != 1 or of.bias:
        return
    operands = _operands_of_product(of)
    rows, columns = Axis(1, 1, 1), Axis(of.columns, of.columns, 1)
    if of.applied:
        if of.batch == 1:
            yield from map(_estimate, _applied(of, operands))
        return
    row, column = (1, 0, 0), (of.columns, 1, of.result[1])
    yield from (_estimate([one]) for one in _helds(operands, row, column))
    for choice in _choices(operands, rows, columns):
        entries = _tiles(operands, rows, columns, choice)
        if entries is not None:
            yield _estimate(entries)


def stencil_candidates(task: ConvolutionPass) -> Iterator[Estimate]:
    """Tiles that fit in registers."""
    of, which = task.of, task.which
    rows, columns = of.axes(transposed=which is Pass.BACKWARD_INPUT, merged=True)
    operands = _operands(task)
    if of.kernel == (1, 1) and not any(of.padding) and (of.is_pointwise or which is Pass.FORWARD):
        (row_step, column_step), width = of.stride, of.in_width
        row = rows.results, row_step * width, of.out_width
        column = columns.results, column_step, 1
        yield from (_estimate([one]) for one in _helds(operands, row, column))
    for choice in _choices(operands, rows, columns):
        entries = _tiles(operands, rows, columns, choice)
        if entries is not None:
            yield _estimate(entries)
    if of.kernel == (1, 1) and of.stride != (1, 1) and not any(of.padding):
        for strided in _strided_pointwise(of, which, operands):
            yield _estimate(strided)
