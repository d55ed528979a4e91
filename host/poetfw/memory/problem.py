# SPDX-License-Identifier: Apache-2.0
"""Placement problem and its answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Buffer:
    """Bytes that must stay at one address during [lower, upper).

    Attributes:
        id: unique in its problem.
        lower: first time at which it is live.
        upper: first time at which it is not live any more.
        size: bytes.
        alignment: divisor of its offset, in bytes.
        offset: fixed offset in bytes, or None for any.
        bank: name of its preferred bank, used if that does not raise the height; None without one.
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
    """Status of a placement."""

    OPTIMAL = "optimal"
    """Proven: no placement is lower."""
    FEASIBLE = "feasible"
    """Valid; a lower placement may exist."""
    INTERRUPTED = "interrupted"
    """Valid; the user interrupted the search for a lower one."""
    INFEASIBLE = "infeasible"
    """Proven: the buffers cannot be placed within the capacity."""
    NOT_FOUND = "not_found"
    """No placement within the capacity was found within the limits."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Offset of every buffer.

    Attributes:
        status: proof status.
        offsets: bytes by buffer id; empty without a placement.
        height_bytes: largest offset + size.
        lower_bound_bytes: lower bound on the height, proven by `lower_bound`, by an exhausted
            search or by the integer program.
    """

    status: PlacementStatus
    offsets: dict[str, int]
    height_bytes: int
    lower_bound_bytes: int


class PlacementInterrupted(KeyboardInterrupt):
    """Interrupt of a placement search by the user.

    Attributes:
        placement: the incumbent, with status INTERRUPTED.
    """

    def __init__(self, placement: Placement) -> None:
        super().__init__()
        self.placement = replace(placement, status=PlacementStatus.INTERRUPTED)
