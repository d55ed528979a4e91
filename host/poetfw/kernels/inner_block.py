# SPDX-License-Identifier: Apache-2.0
"""Base class of inner blocks: instructions are written when they are first needed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

from poetfw.kernels.assembler import Assembler, TooManyRegistersError

LARGEST_BYTES = 2600
"""Bytes of a block: a core's cache of instructions is small, and a table must be in reach."""


class InnerBlock(ABC):
    """An inner block. A subclass describes it, and writes its instructions."""

    @property
    @abstractmethod
    def fits(self) -> bool:
        """True where registers suffice, and the description is one of a block."""

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
