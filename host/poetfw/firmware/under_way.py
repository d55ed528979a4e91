# SPDX-License-Identifier: Apache-2.0
"""Waits of a step for transfers that run while the core computes.

A step waits as late as possible: before it reads a tensor that is being paged in, and before it
writes to bytes that a transfer still uses. `schedule/timeline.py` waits when a tensor that is being
paged out is freed, which is never later.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from poetfw.memory.plan import Allocation


@dataclass(frozen=True, slots=True)
class _Transfer:
    slot: str
    stay: Allocation
    arrives: bool

    def blocks(self, read: Iterable[Allocation], written: Iterable[Allocation]) -> bool:
        """True if reading and writing these ranges must wait for the transfer."""
        touched = [*written, *read] if self.arrives else written
        return any(
            stay.offset < self.stay.offset + self.stay.size_bytes
            and self.stay.offset < stay.offset + stay.size_bytes
            for stay in touched
        )


class UnderWay:
    """Transfers under way, tracked while statements are lowered in order."""

    def __init__(self) -> None:
        self._transfers: list[_Transfer] = []

    def begin(self, slot: str, stay: Allocation, *, arrives: bool) -> None:
        """Record the start of a transfer between a slot and a stay in RAM."""
        self._transfers.append(_Transfer(slot, stay, arrives))

    def waits(self, read: Iterable[Allocation], written: Iterable[Allocation]) -> tuple[str, ...]:
        """Calls before a statement that wait for transfers of the RAM that it reads or writes."""
        read, written = tuple(read), tuple(written)
        return self._end({t.slot: None for t in self._transfers if t.blocks(read, written)})

    def end(self) -> tuple[str, ...]:
        """Calls that wait for all remaining transfers."""
        return self._end({t.slot: None for t in self._transfers})

    def _end(self, slots: dict[str, None]) -> tuple[str, ...]:
        self._transfers = [t for t in self._transfers if t.slot not in slots]
        return tuple(f"POET_TRY(poet_page_wait({slot}));" for slot in slots)
