# SPDX-License-Identifier: Apache-2.0
"""Choice of an op's tiles, and their table in C."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from poetfw.kernels.assembler import Cost, TooManyRegistersError
from poetfw.kernels.convolution import ConvolutionPass, Pass
from poetfw.kernels.dot import Dot
from poetfw.kernels.dots import dot_candidates
from poetfw.kernels.entries import BEGIN, MOST_RUNS, Empty, Estimate, Tiles
from poetfw.kernels.held import Held
from poetfw.kernels.products import Product
from poetfw.kernels.stencil import Stencil
from poetfw.kernels.stencils import product_stencils, stencil_candidates
from poetfw.kernels.tables import TileLoop, TilePut, TileRun

PRICE = 12000
"""Bytes of code that may double the cycles: 120 bytes more have to save one percent."""
COUNTED = 10
"""Candidates whose instructions are counted, those of the least estimates."""

InnerBlock = Stencil | Dot | Held
Task = ConvolutionPass | Product
"""A pass of a convolution, or a product of matrices, that tiles compute."""


@dataclass(frozen=True)
class TiledPass:
    """Tiles of a pass of a layer, or of a product of matrices.

    Attributes:
        entries: of its table, in the order in which they run.
    """

    entries: tuple[Tiles, ...]

    @cached_property
    def blocks(self) -> tuple[InnerBlock, ...]:
        """Distinct inner blocks, in the order of their first call."""
        return tuple(
            dict.fromkeys(one.block for one in self.entries if not isinstance(one.block, Empty))
        )

    @cached_property
    def cost(self) -> Cost:
        """Instructions and cycles of a run of all entries, the driver's too."""
        return sum((one.cost() for one in self.entries), BEGIN)

    @property
    def cycles(self) -> int:
        """Estimated cycles of a run."""
        return self.cost.cycles

    @property
    def instructions(self) -> int:
        """Instructions of a run."""
        return self.cost.instructions

    @property
    def calls(self) -> int:
        """Calls of blocks."""
        return sum(one.calls for one in self.entries)

    @property
    def puts(self) -> int:
        """Rows of results that a sink takes."""
        return sum(one.calls * one.put.rows for one in self.entries if one.put is not None)

    @property
    def results(self) -> int:
        """Results that a sink takes."""
        return sum(
            one.calls * one.put.rows * one.put.elements
            for one in self.entries
            if one.put is not None
        )

    @property
    def size_bytes(self) -> int:
        """Bytes of all blocks."""
        return sum(block.size_bytes for block in self.blocks)

    @property
    def table_bytes(self) -> int:
        """Bytes of constants."""
        rows = (*self._distinct("runs"), *self._distinct("rows_of_put"))
        return 60 * len(self.entries) + 28 * sum(map(len, rows))

    def table(self, name: str) -> str:
        """The table in C, with the runs and loops that it points to."""
        runs = {rows: f"{name}_runs_{i}" for i, rows in enumerate(self._distinct("runs"))}
        distinct = enumerate(self._distinct("rows_of_put"))
        loops = {rows: f"{name}_loops_{i}" for i, rows in distinct}
        entries = (
            one.text(
                runs[one.runs],
                loops.get(one.rows_of_put, ""),
                more=one is not self.entries[-1],
            )
            for one in self.entries
        )
        return "".join(
            f"static const struct {kind} {array}[] = {{\n    {text},\n}};\n"
            for kind, array, text in (
                *(("poet_tile_run", runs[rows], _initializers(rows)) for rows in runs),
                *(("poet_tile_loop", loops[rows], _initializers(rows)) for rows in loops),
                ("poet_tiles", name, ",\n    ".join(entries)),
            )
        )

    def _distinct(self, rows: str) -> list[tuple[TileRun | TileLoop | TilePut, ...]]:
        """Distinct runs or loops that are not empty."""
        return [
            found for found in dict.fromkeys(getattr(one, rows) for one in self.entries) if found
        ]


def _initializers(rows: Sequence[TileRun | TileLoop | TilePut]) -> str:
    return ",\n    ".join(row.text() for row in rows)


@lru_cache(maxsize=256)
def estimates(task: Task) -> tuple[Estimate, ...]:
    """Tiles that fit in registers, whatever they take."""
    if isinstance(task, Product):
        return (*product_stencils(task), *dot_candidates(task))
    if task.which is Pass.BACKWARD_WEIGHT:
        return tuple(dot_candidates(task))
    return tuple(stencil_candidates(task))


def counted(found: Iterable[Estimate], most: int) -> Iterator[TiledPass]:
    """The first so many tiles whose code fits, with their instructions counted."""
    for estimate in found:
        one = TiledPass(estimate.entries)
        if any(len(entry.runs) > MOST_RUNS for entry in one.entries):
            continue
        try:
            one.cost  # noqa: B018 - writes the code, which may be too long
        except TooManyRegistersError:
            continue
        yield one
        most -= 1
        if not most:
            return


@lru_cache(maxsize=1024)
def tiling(task: Task) -> TiledPass | None:
    """Tiles of least estimated cycles, with a price of flash; None where no tile fits."""

    def price(one: Estimate | TiledPass) -> float:
        return one.cycles * (1 + one.size_bytes / PRICE)

    ranked = heapq.nsmallest(4 * COUNTED, estimates(task), key=price)
    return min(counted(ranked, COUNTED), key=price, default=None)
