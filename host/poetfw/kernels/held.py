# SPDX-License-Identifier: Apache-2.0
"""Inner block for sums of a few channels: 1x1 kernels behind few channels, dW of one sample.

    C x P numbers of the source are held
    for groups of S rows of C weights, which are streamed:
        S x P results = sum over C of source * weight

The source is loaded once for all results, wherever its numbers lie.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from poetfw.kernels.assembler import FLOATS, Assembler, Cost, Term
from poetfw.kernels.comments import nested, source_text
from poetfw.kernels.inner_block import LARGEST_BYTES, InnerBlock
from poetfw.kernels.stencil_shape import MOST_PRODUCTS
from poetfw.kernels.tables import BIAS, StencilWords, TileRun, place_of

MOST_CHANNELS = 4


@dataclass(frozen=True)
class Held(InnerBlock):
    """Description of a block of sums whose source is held.

    Attributes:
        channels: C.
        positions: P.
        streamed: S.
        part: positions whose results are in registers at a time.
        tail: rows of weights behind the groups.
        sources: elements to each position; none where they are adjacent.
        joined: results of a row of weights follow those of the row before.
        bias: each row of weights has one.
        loops: there are several groups.
    """

    channels: int
    positions: int
    streamed: int
    part: int
    tail: int = 0
    sources: tuple[int, ...] = ()
    joined: bool = False
    bias: bool = False
    loops: bool = True

    @cached_property
    def name(self) -> str:
        """Identifier of the function."""
        digest = zlib.crc32(repr(self).encode())
        return f"poet_tile_held_{self.channels}x{self.positions}x{self.streamed}_{digest:08x}"

    @property
    def _rows(self) -> int:
        """Rows of weights at a time."""
        return self.streamed if self.part == self.positions else 1

    @property
    def _weight(self) -> int:
        return self.channels * self.positions

    @property
    def _zero(self) -> int:
        return self._weight + self.streamed * self.channels

    @property
    def _total(self) -> int:
        return FLOATS - self._rows * self.part

    @property
    def _spare(self) -> range:
        """Registers of products under way."""
        return range(self._zero + 1 + self.bias * self.streamed, self._total)[:MOST_PRODUCTS]

    @property
    def fits(self) -> bool:
        """True where registers suffice."""
        first = self._zero + 1 + self.bias * self.streamed
        return (
            first + (self.channels > 1) <= self._total
            and self.streamed * self._weight <= LARGEST_BYTES // 8
        )

    @property
    def estimate(self) -> tuple[int, int]:
        """Cycles of a group, and of a call besides, roughly."""
        loads = 1 + self.streamed * (self.channels + 2 * self.bias)
        stores = self.streamed * (self.positions + 1 + (not self.joined))
        group = loads + 2 * self.streamed * self._weight + stores + 4
        return group, 15 + self._weight * (2 if self.sources else 1) + 2 * self.channels

    def _emit(self, code: Assembler) -> None:
        code.part("run")
        if self.channels > 1:
            code.load("r6", place_of(StencilWords, "row_step"))
        for channel in range(self.channels):
            if channel:
                code.emit("add r1, r1, r6")
            if self.sources:
                code.access_each("vldr", "r1", channel * self.positions, self.sources)
            else:
                code.load_floats("r1", channel * self.positions, self.positions)
        code.zero([self._zero], "r11")
        if self.bias:
            code.load("r11", BIAS)
        if not self.joined:
            code.load("r5", place_of(StencilWords, "result_other"))
        if self.loops:
            code.load("r12", place_of(StencilWords, "strips"))
        code.part("group")
        code.label(1)
        self._emit_group(code, self.streamed)
        if self.loops:
            code.emit("subs.w r12, r12, #1")
            code.emit("bne.w 1b")
        code.part("return")
        if self.tail:
            self._emit_group(code, self.tail)
        code.emit("bx lr", 3)

    def _emit_group(self, code: Assembler, count: int) -> None:
        """Rows of weights with all positions."""
        code.load_floats("r2", self._weight, count * self.channels, advance=True)
        if self.bias:  # a sum of products may be -0, and its sum with 0 is not
            code.load_floats("r11", self._zero + 1, count, advance=True)
            for row in range(count):
                code.add(self._zero + 1 + row, self._zero)
        for row in range(0, count, self._rows):
            rows = range(row, min(row + self._rows, count))
            for first in range(0, self.positions, self.part):
                self._emit_part(code, rows, range(self.positions)[first : first + self.part])

    def _emit_part(self, code: Assembler, rows: range, positions: range) -> None:
        """Some results, which are stored."""
        pairs = [(row, at) for row in rows for at in positions]
        terms = [
            Term(self._total + i, channel * self.positions + at, weight + channel, channel == 0)
            for channel in range(self.channels)
            for i, (row, at) in enumerate(pairs)
            for weight in (self._weight + row * self.channels,)
        ]
        code.products(terms, self._spare)
        for i, (row, _) in enumerate(pairs):
            code.add(self._total + i, self._zero + (1 + row if self.bias else 0))
        count = len(positions)
        if self.joined:
            code.store_floats("r3", self._total, len(pairs), advance=True)
            return
        for i in range(len(rows)):
            code.store_floats("r3", self._total + i * count, count, advance=True)
            if positions.stop == self.positions:
                code.emit("add r3, r3, r5")

    def cost(self, runs: Sequence[TileRun], words: StencilWords) -> Cost:
        """Instructions and cycles of all runs of a call."""
        times = {"run": 1, "group": words.strips, "return": 1}
        return self.code.total(times, words.strips - 1) * len(runs)

    def text(self) -> str:
        """The function in assembly, for a file that includes assembly.h."""
        registers = {
            f"s0-s{self._weight - 1}": "source",
            f"s{self._weight}-s{self._zero - 1}": "weights",
            f"s{self._zero}": "0, and biases" if self.bias else "0",
            f"s{self._total}-s31": "results",
            "r0": "constants",
            "r1": "source",
            "r2": "weights",
            "r3": "results",
            "r5": "" if self.joined else "to the next row of results",
            "r12": "groups to come" if self.loops else "",
        }
        loops = [
            f"for (q = 0; q < rows; q++)  {self.streamed} at a time + {self.tail}",
            f"for (p = 0; p < {self.positions}; p++)",
            f"for (c = 0; c < {self.channels}; c++)",
            "result[q][p] += source[c][p] * weight[q][c]",
        ]
        return source_text(self.name, nested(loops), registers, self.code)
