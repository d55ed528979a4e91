# SPDX-License-Identifier: Apache-2.0
"""Base class of inner blocks: instructions are written when they are first needed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property

from poetfw.kernels.assembler import Assembler, Cost, TooManyRegistersError
from poetfw.kernels.tables import StencilWords, TileRun, place_of

LARGEST_BYTES = 2600
"""Bytes of a block: a core's cache of instructions is small, and a table must be in reach."""


class InnerBlock(ABC):
    """An inner block. A subclass describes it, and writes its instructions."""

    @property
    @abstractmethod
    def fits(self) -> bool:
        """True where registers suffice, and the description is one of a block."""

    @property
    def is_padded(self) -> bool:
        """True where zeros of padding are multiplied."""
        return False

    @abstractmethod
    def _emit(self, code: Assembler) -> None:
        """Append all instructions."""

    @cached_property
    def code(self) -> Assembler:
        """Instructions.

        Raises:
            TooManyRegistersError: the block does not fit.
        """
        if not self.fits:
            raise TooManyRegistersError
        code = Assembler()
        self._emit(code)
        if code.size_bytes > LARGEST_BYTES:
            raise TooManyRegistersError
        return code

    @property
    def size_bytes(self) -> int:
        """Bytes of code."""
        return self.code.size_bytes


class GroupedBlock(InnerBlock):
    """A block with one loop, whose iterations the constant `strips` counts.

    Attributes:
        streamed: of what is gone through, in an iteration.
        tail: of it, behind the loop.
        loops: there are several iterations.
    """

    streamed: int
    tail: int
    loops: bool

    @abstractmethod
    def _emit_group(self, code: Assembler, count: int) -> None:
        """Append an iteration."""

    def _emit_groups(self, code: Assembler) -> None:
        """Append the loop, what is behind it, and the return."""
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

    @property
    @abstractmethod
    def estimate(self) -> tuple[int, int]:
        """Cycles of an iteration, and of a call besides, roughly."""

    def cost(self, runs: Sequence[TileRun], words: StencilWords) -> Cost:
        """Instructions and cycles of all runs of a call."""
        times = {"run": 1, "group": words.strips, "return": 1}
        return self.code.total(times, words.strips - 1) * len(runs)
