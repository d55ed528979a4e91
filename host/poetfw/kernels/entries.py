# SPDX-License-Identifier: Apache-2.0
"""Entries of a table of tiles: a block, its constants, and the loops of the driver around it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from poetfw.kernels.assembler import TAKEN, Cost
from poetfw.kernels.dot import Dot
from poetfw.kernels.held import Held
from poetfw.kernels.stencil import Stencil
from poetfw.kernels.tables import (
    DotWords,
    StencilWords,
    TileLoop,
    TilePut,
    TileRun,
    Words,
    initializer,
)

# Costs of tiles_asm.S, of which `LOOPING` and `CALLING` are those of entries with loops.
BEGIN = Cost(10, 67)
ENTRY, LOOPING, LOOP = Cost(12, 24), Cost(2, 3), Cost(4, 7)
CALL, CALLING, RUN = Cost(4, 6), Cost(6, 11), Cost(16, 28)
PUT, PUT_ALONE = Cost(10, 17), Cost(1, -1)
ADVANCE, EXHAUSTED = Cost(16, 28), Cost(14, 25)
JUMP = Cost(0, TAKEN)
PUTS = 0x80
"""Flag beside the number of an entry's loops: a sink takes its results."""
MOST_RUNS = 0xFFFF
"""Runs of an entry, whose number has 16 bits."""
# A sink's own code, which a compiler writes: for an estimate.
PUT_CALL_CYCLES, PUT_ROW_CYCLES = 60, 70


@dataclass(frozen=True)
class Empty:
    """The driver's own block for results that nothing meets."""

    name: str = "poet_tile_empty"
    size_bytes: int = 0

    def cost(self, runs: Sequence[TileRun], words: StencilWords) -> Cost:
        """Instructions and cycles of all runs of a call."""
        total = Cost()
        bursts, singles = divmod(words.strips, 16)
        row = Cost(8 + 3 * bursts + 3 * singles, 9 + 21 * bursts + 6 * singles)
        for run in runs:
            total += row * run.rows + Cost(23, 30)
            if words.channels:
                total += Cost(3, 3)
        return total


AnyBlock = Stencil | Dot | Held | Empty


@dataclass(frozen=True)
class Tiles:
    """One entry: the calls of a block.

    Attributes:
        loops: from the innermost to the outermost; those of one iteration are left out.
        put: what a sink takes of each call; None where results are stored.
    """

    block: AnyBlock
    runs: tuple[TileRun, ...]
    loops: tuple[TileLoop, ...]
    words: Words
    put: TilePut | None = None

    @property
    def rows_of_put(self) -> tuple[TileLoop | TilePut, ...]:
        """Loops, and behind them what a sink takes."""
        return self.loops if self.put is None else (*self.loops, self.put)

    @property
    def put_cycles(self) -> int:
        """Estimated cycles of what a sink does besides its steps."""
        rows = 0 if self.put is None else self.put.rows
        return self.calls * (PUT_CALL_CYCLES * (rows > 0) + PUT_ROW_CYCLES * rows)

    @property
    def calls(self) -> int:
        """Calls of the block, each of all runs."""
        return math.prod(loop.count for loop in self.loops)

    def cost(self) -> Cost:
        """Instructions and cycles, those of the driver's loops too."""
        own = self.block.cost(self.runs, self.words)  # type: ignore[arg-type]
        each = own + CALL + RUN * len(self.runs) - JUMP + (PUT if self.put is not None else Cost())
        if not self.loops:
            return ENTRY + each + JUMP * 2 + (PUT_ALONE if self.put is not None else Cost())
        total = ENTRY + LOOPING + LOOP * len(self.loops) - JUMP * 2
        total += (each + CALLING) * self.calls
        outer = self.calls
        for loop in self.loops:
            outer //= loop.count
            total += ADVANCE * (outer * (loop.count - 1)) + EXHAUSTED * outer
        return total

    def text(self, runs: str, loops: str, *, more: bool) -> str:
        """An initializer in C.

        Args:
            runs: name of the runs.
            loops: name of the loops; empty without any.
            more: another entry follows.
        """
        kind = "dots" if isinstance(self.words, DotWords) else "stencil"
        count = len(self.loops) + (0 if self.put is None else PUTS)
        counts = f"{len(self.runs)}, {count}, {int(more)}"
        return (
            f"{{{self.block.name}, {runs}, {loops or 'NULL'}, {counts},\n"
            f"     {{.{kind} = {initializer(self.words)}}}}}"
        )


class Estimate(NamedTuple):
    """Entries of a pass, and cycles and bytes of code before instructions are counted."""

    cycles: float
    size_bytes: float
    entries: tuple[Tiles, ...]
