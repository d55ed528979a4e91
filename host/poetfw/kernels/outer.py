# SPDX-License-Identifier: Apache-2.0
"""Inner block whose results are one product each: 1x1 kernels of one channel.

    for groups of P numbers that are streamed:
        Q x P results = streamed * held

Q weights are held in registers, each of which has its row of results.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from poetfw.kernels.assembler import FLOATS, Assembler
from poetfw.kernels.comments import nested, source_text
from poetfw.kernels.inner_block import LARGEST_BYTES, GroupedBlock
from poetfw.kernels.tables import BIAS, StencilWords, place_of

ROWS = [f"r{number}" for number in range(3, 11)]
"""Registers that point to rows of results."""


@dataclass(frozen=True)
class Outer(GroupedBlock):
    """Description of a block of single products.

    Attributes:
        held: Q.
        streamed: P.
        tail: numbers behind the groups.
        adjacent: weights are adjacent.
        bias: each weight has one.
        loops: there are several groups.
    """

    held: int
    streamed: int
    tail: int = 0
    adjacent: bool = True
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
            and self.held <= len(ROWS)
            and self.products <= LARGEST_BYTES // 16
        )

    @property
    def estimate(self) -> tuple[int, int]:
        """Cycles of a group, and of a call besides, roughly."""
        return self.streamed + 5 + 3 * self.products + self.held, 20 + 3 * self.held

    def _emit(self, code: Assembler) -> None:
        code.part("run")
        if self.adjacent:
            code.load_floats("r2", self.streamed, self.held)
        else:
            code.load("r11", place_of(StencilWords, "weight_other"))
            for q in range(self.held):
                code.load_floats("r2", self.streamed + q, 1)
                code.emit("add r2, r2, r11")
        if self.bias:  # a product may be -0, and its sum with 0 is not
            code.load("r11", BIAS)
            code.load_floats("r11", self.added, self.held)
            code.zero([self.total], "r11")
            for q in range(self.held):
                code.add(self.added + q, self.total)
        else:
            code.zero([self.added], "r11")
        if self.held > 1:
            code.load("r11", place_of(StencilWords, "result_other"))
            for before, row in pairwise(ROWS[: self.held]):
                code.emit(f"add {row}, {before}, r11")
        self._emit_groups(code)

    def _emit_group(self, code: Assembler, count: int) -> None:
        code.load_floats("r1", 0, count, advance=True)
        places = [(self.total + q * count, q) for q in range(self.held)]
        for first, q in places:
            for p in range(count):
                code.multiply(first + p, p, self.streamed + q)
        for first, q in places:
            for p in range(count):
                code.add(first + p, self.added + (q if self.bias else 0))
        for (first, _), row in zip(places, ROWS, strict=False):
            code.store_floats(row, first, count, advance=True)

    def text(self) -> str:
        """The function in assembly, for a file that includes assembly.h."""
        registers = {
            f"s0-s{self.streamed - 1}": "numbers that are streamed",
            f"s{self.streamed}-s{self.added - 1}": "weights",
            f"s{self.added}": "biases" if self.bias else "0",
            f"s{self.total}-s31": "results",
            "r0": "constants",
            "r1": "source",
            "r2": "weights",
            f"r3-r{2 + self.held}": "rows of results",
            "r12": "groups to come" if self.loops else "",
        }
        loops = [
            f"for (p = 0; p < streamed; p++)  {self.streamed} at a time + {self.tail}",
            f"for (q = 0; q < {self.held}; q++)",
            "result[q][p] = streamed[p] * held[q]",
        ]
        return source_text(self.name, nested(loops), registers, self.code)
