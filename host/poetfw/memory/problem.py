# SPDX-License-Identifier: Apache-2.0
"""The placement problem and its answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Buffer:
    """Bytes that must stay at one place during [lower, upper).

    Attributes:
        id: unique in its problem.
        lower: first time at which it is live.
        upper: first time at which it is not live any more.
        size: bytes it occupies.
        alignment: its offset must be a multiple of this.
        offset: where it must be placed, or None for anywhere.
        bank: the name of the bank it should lie in, if that costs no height, or None.
    """

    id: str
    lower: int
    upper: int
    size: int
    alignment: int = 1
    offset: int | None = None
    bank: str | None = None

    def overlaps_in_time(self, other: Buffer) -> bool:
        """True if both are live at some moment."""
        return self.lower < other.upper and other.lower < self.upper


class PlacementStatus(StrEnum):
    """The status of a placement."""

    OPTIMAL = "optimal"
    """Proven: no placement is lower."""
    FEASIBLE = "feasible"
    """It is valid; a lower one may exist."""
    INTERRUPTED = "interrupted"
    """It is valid; the user did not wait for a lower one."""
    INFEASIBLE = "infeasible"
    """Proven: the buffers cannot be placed within the capacity."""
    NOT_FOUND = "not_found"
    """None within the capacity was found in the time given."""


@dataclass(frozen=True, slots=True)
class Placement:
    """An offset for every buffer.

    Attributes:
        status: what is known about it.
        offsets: offset in bytes by buffer id; empty where there is none.
        height_bytes: largest offset + size.
        lower_bound_bytes: no placement can be lower, as proven by `lower_bound`, by an exhausted
            search or by the integer program.
    """

    status: PlacementStatus
    offsets: dict[str, int]
    height_bytes: int
    lower_bound_bytes: int


class PlacementInterrupted(KeyboardInterrupt):
    """The user interrupted a search for addresses.

    Attributes:
        placement: the best known until then, with status INTERRUPTED.
    """

    def __init__(self, placement: Placement) -> None:
        super().__init__()
        self.placement = replace(placement, status=PlacementStatus.INTERRUPTED)
