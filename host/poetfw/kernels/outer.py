# SPDX-License-Identifier: Apache-2.0
"""Inner block whose results are one product each: 1x1 kernels of one channel, dW of one sample.

    for groups of P numbers that are streamed:
        Q x P results = streamed * held

Q numbers are held in registers. Each has its row of results, or, transposed, the results of each
number that is streamed are adjacent.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from poetfw.kernels.assembler import FLOATS, Assembler, Cost
from poetfw.kernels.comments import nested, source_text
from poetfw.kernels.inner_block import LARGEST_BYTES, InnerBlock
from poetfw.kernels.tables import BIAS, StencilWords, TileRun, place_of

ROWS = [f"r{number}" for number in range(3, 11)]
"""Registers that point to rows of results."""


@dataclass(frozen=True)
class Outer(InnerBlock):
    """Description of a block of single products.

    Attributes:
        held: Q.
        streamed: P.
        tail: numbers behind the groups.
        adjacent: numbers that are held are adjacent.
        transposed: results are [streamed][held] without gaps, source is held and weights streamed;
            else each weight is held, and has a row of results.
        bias: each number that is held has one.
        loops: there are several groups.
    """

    held: int
    streamed: int
    tail: int = 0
    adjacent: bool = True
    transposed: bool = False
    bias: bool = False
    loops: bool = True

    @cached_property
    def name(self) -> str:
        """Identifier of the function."""
        digest = zlib.crc32(repr(self).encode())
        return f"poet_tile_products_{self.held}x{self.streamed}_{digest:08x}"

    @property
    def products(self) -> int:
        """Q x P."""
        return self.held * self.streamed

    @property
    def added(self) -> int:
        """First register of what is added: zero, or biases."""
        return self.streamed + self.held

    @property
    def total(self) -> int:
        """First register of results."""
        return FLOATS - self.products

    @property
    def fits(self) -> bool:
        """True where registers suffice."""
        return (
            self.added + (self.held if self.bias else 1) <= self.total
            and (self.transposed or self.held <= len(ROWS))
            and not (self.transposed and self.bias)
            and self.products <= LARGEST_BYTES // 16
        )

    @property
    def estimate(self) -> tuple[int, int]:
        """Cycles of a group, and of a call besides, roughly."""
        rows = 1 if self.transposed else self.held
        return self.streamed + 1 + 3 * self.products + rows + 4, 20 + 3 * self.held

    def _emit(self, code: Assembler) -> None:
        code.part("run")
        held, streamed = ("r1", "r2") if self.transposed else ("r2", "r1")
        if self.adjacent:
            code.load_floats(held, self.streamed, self.held)
        else:
            code.load("r11", place_of(StencilWords, "weight_other"))
            for q in range(self.held):
                code.load_floats(held, self.streamed + q, 1)
                code.emit(f"add {held}, {held}, r11")
        if self.bias:  # a product may be -0, and its sum with 0 is not
            code.load("r11", BIAS)
            code.load_floats("r11", self.added, self.held)
            code.zero([self.total], "r11")
            for q in range(self.held):
                code.add(self.added + q, self.total)
        else:
            code.zero([self.added], "r11")
        if self.held > 1 and not self.transposed:
            code.load("r11", place_of(StencilWords, "result_other"))
            for before, row in pairwise(ROWS[: self.held]):
                code.emit(f"add {row}, {before}, r11")
        if self.loops:
            code.load("r12", place_of(StencilWords, "strips"))
        code.part("group")
        code.label(1)
        self._emit_group(code, streamed, self.streamed)
        if self.loops:
            code.emit("subs.w r12, r12, #1")
            code.emit("bne.w 1b")
        code.part("return")
        if self.tail:
            self._emit_group(code, streamed, self.tail)
        code.emit("bx lr", 3)

    def _emit_group(self, code: Assembler, pointer: str, count: int) -> None:
        code.load_floats(pointer, 0, count, advance=True)
        pairs = [(q, p) for q in range(self.held) for p in range(count)]
        places = [
            self.total + (p * self.held + q if self.transposed else q * count + p) for q, p in pairs
        ]
        for (q, p), to in zip(pairs, places, strict=True):
            code.multiply(to, p, self.streamed + q)
        for (q, _), to in zip(pairs, places, strict=True):
            code.add(to, self.added + (q if self.bias else 0))
        if self.transposed:
            code.store_floats("r3", self.total, len(pairs), advance=True)
            return
        for q, row in enumerate(ROWS[: self.held]):
            code.store_floats(row, self.total + q * count, count, advance=True)

    def cost(self, runs: Sequence[TileRun], words: StencilWords) -> Cost:
        """Instructions and cycles of all runs of a call."""
        times = {"run": 1, "group": words.strips, "return": 1}
        return self.code.total(times, words.strips - 1) * len(runs)

    def text(self) -> str:
        """The function in assembly, for a file that includes assembly.h."""
        rows = 0 if self.transposed else self.held
        registers = {
            f"s0-s{self.streamed - 1}": "numbers that are streamed",
            f"s{self.streamed}-s{self.added - 1}": "numbers that are held",
            f"s{self.added}": "biases" if self.bias else "0",
            f"s{self.total}-s31": "results",
            "r0": "constants",
            "r1": "source",
            "r2": "weights",
            "r3": "results" if self.transposed else "",
            f"r3-r{2 + rows}": "rows of results" if rows else "",
            "r12": "groups to come" if self.loops else "",
        }
        loops = [
            f"for (p = 0; p < streamed; p++)  {self.streamed} at a time + {self.tail}",
            f"for (q = 0; q < {self.held}; q++)",
            f"result[{'p][q' if self.transposed else 'q][p'}] = streamed[p] * held[q]",
        ]
        return source_text(self.name, nested(loops), registers, self.code)
