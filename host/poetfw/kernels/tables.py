# SPDX-License-Identifier: Apache-2.0
"""Constants that blocks read: the structs of tiles.h, and where assembly finds their members."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

WORD = 4
"""Bytes of a member of any struct here, and of an element of a tensor."""
FARTHEST = 255
"""Elements to a float that VLDR reaches."""
CUT, ENDS_EARLY = 0x10000000, 0x40000000
"""Flags V and Z: a run leaves out rows of the kernel or source at the beginning or end."""
RUN_NEXT, RUN_FLAGS = 12, 24
"""Bytes to the members `rows` and `flags` of struct poet_tile_run."""
RETURN, BIAS = "[sp, #16]", "[sp, #36]"
"""Places on the stack of the driver, tiles_asm.S; the 16 bytes before are a block's own."""


class TileRun(NamedTuple):
    """Rows that meet the same rows of the kernel; struct poet_tile_run.

    Attributes:
        source_at: elements to the first row's source.
        weight_at: elements to the first weight that is met; dW: to the first row of dy.
        result_at: elements to the first result.
        rows: number of rows.
        source_next: elements from behind a channel's last row to the next channel; dW: sample.
        weight_next: elements from behind a channel's weights to the next channel's; dW: sample.
        skipped: rows of the block's kernel, or of its source, that are not met at the beginning.
        ends_early: true where rows of the source at the end are not met.
    """

    source_at: int
    weight_at: int
    result_at: int
    rows: int
    source_next: int = 0
    weight_next: int = 0
    skipped: int = 0
    ends_early: bool = False

    def text(self) -> str:
        """An initializer in C."""
        flags = (CUT if self.skipped else 0) | (ENDS_EARLY if self.ends_early else 0) | self.skipped
        first = (self.source_at, self.weight_at, self.result_at)
        words = (
            *(WORD * n for n in first),
            self.rows,
            WORD * self.source_next,
            WORD * self.weight_next,
        )
        return f"{{{', '.join(map(str, words))}, {flags:#x}u}}"


@dataclass(frozen=True, slots=True)
class TileLoop:
    """A loop around a block; struct poet_tile_loop.

    Attributes:
        count: iterations.
        advance: units from one to the next.
        last: units to the last one, which may overlap the one before.
        source, weight, result, bias: elements a unit.
    """

    count: int
    advance: int = 1
    last: int = 1
    source: int = 0
    weight: int = 0
    result: int = 0
    bias: int = 0

    @classmethod
    def of_blocks(
        cls,
        units: int,
        block: int,
        *,
        source: int = 0,
        weight: int = 0,
        result: int = 0,
        bias: int = 0,
    ) -> TileLoop:
        """A loop of blocks of so many units, of which the last ends where the units do."""
        count = -(-units // block)
        last = units - (count - 1) * block if count > 1 else block
        return cls(count, block, last, source, weight, result, bias)

    def text(self) -> str:
        """An initializer in C."""
        steps = (self.source, self.weight, self.result, self.bias)
        words = (self.count, self.advance, self.last, *(WORD * n for n in steps))
        return f"{{{', '.join(map(str, words))}}}"


def parts_of(units: int, block: int) -> list[tuple[int, int, int]]:
    """Blocks that cover units without overlap: first unit, number of blocks, and units of each."""
    count, rest = divmod(units, block)
    return [(0, count, block), (units - rest, 1, rest)][: 1 + (rest > 0)][count == 0 :]


class TilePut(NamedTuple):
    """Results of a call that a gradient's sink takes; struct poet_tile_put.

    Attributes:
        first: element of the gradient that the first result of the first call is.
        rows: rows of results.
        elements: adjacent ones in a row.
        step: elements of the gradient from a row to the next.
    """

    first: int
    rows: int
    elements: int
    step: int

    @property
    def joined(self) -> TilePut:
        """The same results as one row where rows are adjacent."""
        if self.elements != self.step:
            return self
        return TilePut(self.first, 1, self.rows * self.elements, 0)

    def text(self) -> str:
        """An initializer in C, as the element behind an entry's loops."""
        return f"{{{self.rows}, {self.elements}, {self.step}, {self.first}, 0, 0, 0}}"


class StencilWords(NamedTuple):
    """Constants of a stencil block; struct poet_stencil. Steps count elements."""

    row_step: int = 0
    strips: int = 0
    channels: int = 0
    weight_other: int = 0
    result_other: int = 0
    source_strip: int = 0
    result_strip: int = 0
    source_last: int = 0
    result_last: int = 0
    source_row: int = 0
    result_row: int = 0


class DotWords(NamedTuple):
    """Constants of a block of sums along rows; struct poet_dots. Steps count elements."""

    samples: int = 0
    groups: int = 0
    source_other: int = 0
    weight_other: int = 0
    source_row: int = 0
    put_source: int = 0
    put_weight: int = 0
    last_groups: int = 0


Words = StencilWords | DotWords
COUNTS = frozenset(("strips", "channels", "samples", "groups", "last_groups"))
MOST_PUT = 48
"""Results that a sink takes at a time: SUMS of tiles.c."""
HEADER_WORDS = 4
"""Words of struct poet_tiles before the block's own."""


def place_of(kind: type[StencilWords] | type[DotWords], field: str) -> str:
    """Address of a block's own constant, with the table's entry in r0."""
    return f"[r0, #{WORD * (HEADER_WORDS + kind._fields.index(field))}]"


def initializer(words: Words) -> str:
    """Constants of a block in C: counts, and steps in bytes."""
    values = (
        (name, value * (1 if name in COUNTS else WORD)) for name, value in words._asdict().items()
    )
    return f"{{{', '.join(f'.{name} = {value}' for name, value in values if value)}}}"
