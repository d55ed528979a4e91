# SPDX-License-Identifier: Apache-2.0
"""Placement of buffers in their preferred banks, as far as it does not raise the height.

A microcontroller's RAM often has several banks: a DMA engine and the processor can access
different banks without waiting for each other, one bank may be faster, or banks power down
individually.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from poetfw.common.errors import ProblemError
from poetfw.common.limits import Work
from poetfw.memory.checks import LARGEST_BYTES
from poetfw.memory.placement import WORK_LIMIT, place
from poetfw.memory.problem import Buffer, Placement, PlacementInterrupted, PlacementStatus

_LARGEST_WISHES = 1_000
"""Most buffers that are fixed in their banks; the largest come first."""

_TRIALS = 100
"""Most placements to try."""

_TRIAL_WORK = 0.5
"""Work units of one trial."""

_SHARE = 0.25
"""Share of the work that is reserved for trials if a buffer prefers a bank."""


class _Side(Enum):
    """End from which a bank is filled."""

    OUTER = "what crosses the edges of banks finds room in the middle of the arena"
    LOWER = "from below"
    UPPER = "from above"


@dataclass(frozen=True, slots=True)
class Bank:
    """Named range of bytes [lower, upper) of the arena."""

    name: str
    lower: int
    upper: int


@dataclass(frozen=True, slots=True)
class BankUse:
    """Number and bytes of the buffers that prefer a bank, and of those that lie in it.

    Attributes:
        bank: the bank.
        buffers: number of buffers that prefer the bank and lie in it.
        of_buffers: number of buffers that prefer it.
        size_bytes: bytes of the buffers that prefer the bank and lie in it.
        of_bytes: bytes of the buffers that prefer it.
    """

    bank: Bank
    buffers: int
    of_buffers: int
    size_bytes: int
    of_bytes: int


def check_banks(banks: Sequence[Bank]) -> None:
    """Refuse malformed banks.

    Raises:
        ProblemError: A name is empty or occurs twice, or a range is empty or beyond 2^40.
    """
    names = [bank.name for bank in banks]
    for bank in banks:
        if not bank.name:
            raise ProblemError("a bank has no name")
        if names.count(bank.name) > 1:
            raise ProblemError(f"the bank {bank.name!r} occurs twice; names must be unique")
        if not 0 <= bank.lower < bank.upper <= LARGEST_BYTES:
            raise ProblemError(
                f"the bank {bank.name!r} has the bytes [{bank.lower}, {bank.upper}); expected "
                f"0 <= lower < upper <= 2^40"
            )


def bank_uses(
    buffers: Sequence[Buffer], banks: Sequence[Bank], offsets: Mapping[str, int]
) -> list[BankUse]:
    """Use of each bank by the buffers that prefer it."""
    uses = []
    for bank in banks:
        prefer = [b for b in buffers if b.bank == bank.name]
        inside = [
            b
            for b in prefer
            if b.id in offsets and bank.lower <= offsets[b.id] <= bank.upper - b.size
        ]
        size_bytes, of_bytes = (sum(b.size for b in some) for some in (inside, prefer))
        uses.append(BankUse(bank, len(inside), len(prefer), size_bytes, of_bytes))
    return uses


def place_in_banks(
    buffers: Sequence[Buffer],
    banks: Sequence[Bank],
    capacity: int | None = None,
    work: Work | None = None,
) -> Placement:
    """Place buffers like `place`, with as many bytes as possible in their preferred banks.

    Buffers are fixed in their banks all at once, and in halves where that fails. The result is not
    proven to be the best.

    Args:
        buffers: the buffers; `Buffer.bank` is the name of one of the banks or None.
        banks: may overlap each other and extend beyond the arena.
        capacity: bytes of the arena, or None for as low as possible.
        work: work limit; None for the default.

    Returns:
        A validated placement like that of `place`, no higher than that or than the capacity.

    Raises:
        ProblemError: The problem is malformed, or a buffer prefers a bank that does not exist.
        PlacementInterrupted: The user interrupted the search after it found a placement.
    """
    work = work or Work(WORK_LIMIT)
    check_banks(banks)
    by_name = {bank.name: bank for bank in banks}
    for b in buffers:
        if b.bank is not None and b.bank not in by_name:
            raise ProblemError(f"buffer {b.id!r} prefers the bank {b.bank!r}, which does not exist")
    wishes = [b for b in buffers if b.bank is not None and b.offset is None and b.size]
    wishes.sort(key=_by_size)
    best = place(buffers, capacity, work.part(work.left * (1 - _SHARE if wishes else 1)))
    if not best.offsets:
        return best

    def bytes_met(placement: Placement) -> int:
        return sum(use.size_bytes for use in bank_uses(buffers, banks, placement.offsets))

    limit = best.height_bytes if capacity is None else capacity
    try:
        for answer in _trials(buffers, wishes, by_name, limit, work):
            best = max(best, _freed(answer, best.lower_bound_bytes), key=bytes_met)
    except KeyboardInterrupt:
        raise PlacementInterrupted(best) from None
    return best


def _trials(
    buffers: Sequence[Buffer],
    wishes: Sequence[Buffer],
    banks: Mapping[str, Bank],
    limit: int,
    work: Work,
) -> Iterator[Placement]:
    """Placements within a limit in bytes, each with more buffers fixed in their banks."""
    fixed = {b.id: b for b in buffers if b.offset is not None}
    groups = deque([wishes[:_LARGEST_WISHES]])
    trials = 0
    while groups and trials < _TRIALS:
        group = groups.popleft()
        for side in _Side:
            pinned = _pin(group, fixed.values(), banks, limit, side)
            if not work.is_left():
                return
            if not pinned:
                continue
            trial = fixed | pinned
            trials += 1
            answer = place([trial.get(b.id, b) for b in buffers], limit, work.part(_TRIAL_WORK))
            if answer.offsets:
                yield answer
                fixed = trial
                groups.append([b for b in group if b.id not in pinned])
                break
        else:
            half = len(group) // 2
            groups.extend(part for part in (group[:half], group[half:]) if half)


def _by_size(buffer: Buffer) -> tuple[int, int, int, int, str]:
    life = buffer.upper - buffer.lower
    return -buffer.size * life, -buffer.size, buffer.lower, buffer.alignment, buffer.id


def _freed(placement: Placement, bound: int) -> Placement:
    """Placement for the original buffers, from one in which some were fixed in their banks."""
    optimal = placement.height_bytes == bound
    status = PlacementStatus.OPTIMAL if optimal else PlacementStatus.FEASIBLE
    return replace(placement, status=status, lower_bound_bytes=bound)


def _pin(
    group: Sequence[Buffer],
    fixed: Iterable[Buffer],
    banks: Mapping[str, Bank],
    limit: int,
    side: _Side,
) -> dict[str, Buffer]:
    """Fix each buffer at the first free place of its bank, from one side, if there is one."""
    placed = list(fixed)
    pinned: dict[str, Buffer] = {}
    for b in group:
        assert b.bank is not None
        lower, upper = banks[b.bank].lower, min(banks[b.bank].upper, limit)
        taken = [
            (a.offset, a.offset + a.size)
            for a in placed
            if a.offset is not None and a.overlaps_in_time(b)
        ]
        from_above = lower + upper > limit if side is _Side.OUTER else side is _Side.UPPER
        if from_above:
            edges = sorted([upper, *(start for start, _ in taken)], reverse=True)
            offsets = [(edge - b.size) // b.alignment * b.alignment for edge in edges]
        else:
            edges = sorted([lower, *(end for _, end in taken)])
            offsets = [-(-edge // b.alignment) * b.alignment for edge in edges]
        for offset in offsets:
            end = offset + b.size
            if lower <= offset and end <= upper and all(end <= s or e <= offset for s, e in taken):
                pinned[b.id] = replace(b, offset=offset)
                placed.append(pinned[b.id])
                break
    return pinned
