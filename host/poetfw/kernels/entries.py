# SPDX-License-Identifier: Apache-2.0
"""Entries of a table of tiles: a block, its constants, and the loops of the driver around it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from poetfw.kernels.assembler import TAKEN, Cost
from poetfw.kernels.dot import Dot
from poetfw.kernels.stencil import Stencil
from poetfw.kernels.tables import (
    DotWords,
    StencilWords,
    TileLoop,
    TileRun,
    Words,
    initializer,
)

# Costs of tiles_asm.S, of which `LOOPING` and `CALLING` are those of entries with loops.
BEGIN = Cost(13, 71)
ENTRY, LOOPING, LOOP = Cost(11, 23), Cost(2, 3), Cost(4, 7)
CALL, CALLING, RUN = Cost(4, 6), Cost(4, 9), Cost(16, 28)
ADVANCE, EXHAUSTED = Cost(16, 28), Cost(14, 25)
JUMP = Cost(0, TAKEN)
DRIVER_STACK_BYTES = 184


@dataclass(frozen=True)
class Empty:
    """The driver's own block for results that nothing meets."""

    name: str = "poet_tile_empty"
    size_bytes: int = 0
    stack_bytes: int = 0

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


AnyBlock = Stencil | Dot | Empty


@dataclass(frozen=True)
class Tiles:
    """One entry: the calls of a block.

    Attributes:
        loops: from the innermost to the outermost; those of one iteration are left out.
    """

    block: AnyBlock
    runs: tuple[TileRun, ...]
    loops: tuple[TileLoop, ...]
    words: Words

    @property
    def calls(self) -> int:
        """Calls of the block, each of all runs."""
        return math.prod(loop.count for loop in self.loops)

    def cost(self) -> Cost:
        """Instructions and cycles, those of the driver's loops too."""
        own = self.block.cost(self.runs, self.words)  # type: ignore[arg-type]
        each = own + CALL + RUN * len(self.runs) - JUMP
        if not self.loops:
            return ENTRY + each + JUMP * 2
        total = ENTRY + LOOPING + LOOP * len(self.loops) - JUMP * 2
        total += (each + CALLING) * self.calls
        outer = self.calls
        for loop in self.loops:
            outer //= loop.count
            total += ADVANCE * (outer * (loop.count - 1)) + EXHAUSTED * outer
        return total

    def text(self, runs: str, loops: str, *, more: bool) -> str:
        """An initializer in C, with the names of the runs and of the loops."""
        kind = "dots" if isinstance(self.words, DotWords) else "stencil"
        counts = f"{len(self.runs)}, {len(self.loops)}, {int(more)}"
        return (
            f"{{{self.block.name}, {runs}, {loops or 'NULL'}, {counts},\n"
            f"     {{.{kind} = {initializer(self.words)}}}}}"
        )


@dataclass(frozen=True, slots=True)
class Estimate:
    """Entries of a pass, and cycles and bytes of code before instructions are counted."""

    cycles: float
    size_bytes: float
    entries: tuple[Tiles, ...]
