# SPDX-License-Identifier: Apache-2.0
"""Description of a stencil block: its tile, its registers, and an estimate of its cycles."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from functools import cached_property

from poetfw.kernels.assembler import FLOATS
from poetfw.kernels.convolution import Met
from poetfw.kernels.inner_block import LARGEST_BYTES

MOST_PRODUCTS = 4
"""Registers of products under way: more hide no latency."""


@dataclass(frozen=True)
class StencilShape:
    """Description of a stencil block.

    Attributes:
        rows: of the kernel.
        columns: what each result of a strip meets: taps, and places in the segment of the source.
        length: of the segment.
        outputs: Q, result channels at a time.
        taps: weights in a row of the kernel.
        gap: weights between two rows that are met.
        adjacent: weights of the Q channels are adjacent; else those of a channel and its taps.
        unrolled: channels at a time, of kernels of one tap.
        chunk: weights loaded at a time.
        cut: some rows of results meet fewer rows of the kernel.
        single: the sum has one channel.
        bias: each result has one.
        overlap: the last strip computes some results again.
        resident: all weights stay in registers (where there are `lines`).
        lines: by row of the source, rows of results and the rows of the kernel that they meet it
            with; none where there is one row of results at a time (else single, Q = 1).
        ends_early: rows of the source that a run may leave out at the end, as padding.
        whole_rows: a row has one strip.
        planes: the block goes through feature maps too (single, Q = 1).
        sources: elements to each float of the segment; none where they are adjacent.
        targets: elements to each result of a strip; none where they are adjacent.
        one_row: a run has one row of results.
        run: channels whose products are summed before they are added to a total; 0 for one sum.
        continued: totals begin with what is in the results.
    """

    rows: int
    columns: tuple[Met, ...]
    length: int
    outputs: int = 1
    taps: int = 1
    gap: int = 0
    adjacent: bool = False
    unrolled: int = 1
    chunk: int = 1
    cut: bool = False
    single: bool = False
    bias: bool = False
    overlap: bool = False
    resident: bool = False
    lines: tuple[tuple[tuple[int, int], ...], ...] = ()
    ends_early: int = 0
    whole_rows: bool = False
    planes: bool = False
    sources: tuple[int, ...] = ()
    targets: tuple[int, ...] = ()
    run: int = 0
    one_row: bool = False
    continued: bool = field(default=False, repr=False)

    @property
    def height(self) -> int:
        """Rows of results at a time."""
        return 1 + max((row for line in self.lines for row, _ in line), default=0)

    @cached_property
    def met_by_line(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """By row of the source, pairs of a row of results and a row of the kernel."""
        return self.lines or tuple(((0, row),) for row in range(self.rows))

    @property
    def strip(self) -> int:
        """P, columns of results at a time."""
        return len(self.columns)

    @cached_property
    def name(self) -> str:
        """Identifier of the function."""
        digest = zlib.crc32(repr(self).encode())
        sizes = f"{self.rows}x{self.taps}_{self.outputs}x{self.strip}"
        return f"poet_tile_{sizes}_{digest:08x}" + "_continued" * self.continued

    @property
    def is_flat(self) -> bool:
        """True where a call computes one strip of one row."""
        return self.one_row and self.whole_rows

    @property
    def products(self) -> int:
        """Products of a channel."""
        return sum(map(len, self.met_by_line)) * self.outputs * sum(map(len, self.columns))

    @cached_property
    def two_levels(self) -> bool:
        """True where a channel has sums of its own, which are added to totals."""
        several = self.run > 0 or self.rows > 1 or any(len(met) > 1 for met in self.columns)
        return not self.single and several

    @cached_property
    def weight_registers(self) -> int:
        """Registers that hold weights."""
        if self.resident:
            return self.kernel_rows * self.taps
        if self.adjacent:
            return self.outputs
        return self.outputs * self.unrolled if self.taps == 1 else self.chunk

    @property
    def kernel_rows(self) -> int:
        """Rows of the kernel that some row of results meets."""
        return 1 + max(row for line in self.met_by_line for _, row in line)

    @property
    def result_rows(self) -> int:
        """Rows of results of all channels."""
        return self.outputs * self.height

    @property
    def results(self) -> int:
        """Results of a strip."""
        return self.result_rows * self.strip

    @cached_property
    def total(self) -> int:
        """First register of totals, which are the last ones."""
        return FLOATS - self.results

    @cached_property
    def sum(self) -> int:
        """First register of a channel's sums."""
        return self.total - self.results if self.two_levels else self.total

    @property
    def spare(self) -> int:
        """Registers for products under way; below 1 the block does not fit."""
        return min(self.sum - self.length - self.weight_registers, MOST_PRODUCTS)

    @property
    def _most_outputs(self) -> int:
        """Result channels whose weights have pointers: r2 on, up to a register in other use."""
        if self.adjacent:
            return 8
        return 3 if self.cut else 5 if self.rows == 1 and not self.run else 4

    @property
    def fits(self) -> bool:
        """True where registers suffice."""
        return (
            self.spare >= 1
            and self.outputs < self.total
            and self.outputs <= self._most_outputs
            and bool(self.lines) >= self.resident
            and not ((self.lines or self.planes) and (not self.single or self.outputs > 1))
            and self.products * self.unrolled <= LARGEST_BYTES // 8
        )

    @property
    def estimate(self) -> tuple[int, int]:
        """Cycles of a channel (of `unrolled`), and those of a strip besides, roughly."""
        loads = self.rows * (2 + self.length * (2 if self.sources else 1))
        if not self.resident:
            chunks = 1 if self.adjacent else -(-self.taps // self.chunk)
            met = sum(map(len, self.met_by_line))
            loads += met * self.outputs * (self.taps + chunks + bool(self.lines))
        stalls = self.products * 2 // self.spare if self.spare < 2 else 0
        sums = self.results if self.two_levels and not self.run else 0
        channel = self.unrolled * (loads + 2 * self.products + stalls + sums) + 4 + self.outputs
        strip = 2 * self.results + 5 * self.result_rows
        strip += (0 if self.one_row else 10) if self.whole_rows else 30
        return channel, strip
