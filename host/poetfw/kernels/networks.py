# SPDX-License-Identifier: Apache-2.0
"""Choice of the tiles of a network's ops together, which share blocks."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from poetfw.kernels.convolution import Convolution, Pass
from poetfw.kernels.entries import AnyBlock, Estimate
from poetfw.kernels.tilings import InnerBlock, TiledPass, counted, estimates

COUNTED = 16
"""Candidates of an op whose instructions are counted."""
ROUNDS = 8
SHARE_PER_KB = 0.01
"""Part of a network's cycles that saves as much as a thousand bytes of flash."""


@dataclass(frozen=True)
class _Candidate:
    """Tiles of an op.

    Attributes:
        price: cycles of all its runs, and the price of its table.
        sizes: bytes of each block.
    """

    tiles: TiledPass
    price: float
    sizes: dict[InnerBlock, int]

    def total(self, byte: float, there: Iterable[InnerBlock] = ()) -> float:
        """Price with those blocks that are not there already."""
        return self.price + byte * sum(n for block, n in self.sizes.items() if block not in there)


def tilings(
    ops: Sequence[tuple[Convolution, Pass, int]], share_per_kb: float = SHARE_PER_KB
) -> list[TiledPass | None]:
    """Tiles of ops and how often each runs: fewest cycles, with a price of flash.

    Each op begins with its own best tiles. Then, in turns, an op takes those that cost least beside
    the others' blocks, and a block is given up where its users cost less without it.

    Args:
        ops: passes, and runs of each in a step.
        share_per_kb: part of all cycles that 1,000 bytes of flash may save at most.

    Returns:
        For each op its tiles, None where none fit.
    """
    distinct = dict.fromkeys((of, which) for of, which, _ in ops)
    runs: Counter[tuple[Convolution, Pass]] = Counter()
    for of, which, times in ops:
        runs[of, which] += times
    found = {key: list(estimates(*key)) for key in distinct}
    found = {key: every for key, every in found.items() if every}
    least = sum(min(one.cycles for one in every) * runs[key] for key, every in found.items())
    byte = share_per_kb * least / 1000
    offers = _offers(found, runs, byte)
    chosen = {key: min(offers[key], key=lambda one: one.total(byte)) for key in offers}
    for _ in range(ROUNDS):
        before = dict(chosen)
        _settle(chosen, offers, byte)
        _drop(chosen, offers, byte)
        if chosen == before:
            break
    return [chosen[of, which].tiles if (of, which) in chosen else None for of, which, _ in ops]


_Key = tuple[Convolution, Pass]


def _offers(
    found: dict[_Key, list[Estimate]], runs: Counter[_Key], byte: float
) -> dict[_Key, list[_Candidate]]:
    """Candidates of each op: those that are cheap where blocks are shared by all that could."""
    users: Counter[AnyBlock] = Counter()
    for every in found.values():
        users.update({entry.block for one in every for entry in one.entries})
    known: dict[AnyBlock, AnyBlock] = {}
    offers = {}
    for key, every in found.items():
        prices = {}
        for i, one in enumerate(every):
            most = max(users[entry.block] for entry in one.entries)
            prices[i] = one.cycles * runs[key] + byte * one.size_bytes / most
        cheapest = heapq.nsmallest(2 * COUNTED, prices, key=prices.__getitem__)
        own = min(every, key=lambda one: one.cycles * runs[key] + byte * one.size_bytes)
        ranked = [own, *(every[i] for i in cheapest)]
        interned = (
            Estimate(
                one.cycles,
                one.size_bytes,
                tuple(
                    replace(entry, block=known.setdefault(entry.block, entry.block))
                    for entry in one.entries
                ),
            )
            for one in ranked
        )
        candidates = [
            _Candidate(
                tiles,
                tiles.cycles * runs[key] + byte * tiles.table_bytes,
                {block: block.size_bytes for block in tiles.blocks},
            )
            for tiles in counted(interned, COUNTED)
        ]
        if candidates:
            offers[key] = candidates
    return offers


def _settle(
    chosen: dict[_Key, _Candidate], offers: dict[_Key, list[_Candidate]], byte: float
) -> None:
    """Have each op take what costs least beside the others' blocks."""
    users = Counter(block for one in chosen.values() for block in one.sizes)
    for key, candidates in offers.items():
        users.subtract(chosen[key].sizes.keys())
        others = {block for block, count in users.items() if count > 0}
        chosen[key] = min(candidates, key=lambda one: one.total(byte, others))
        users.update(chosen[key].sizes.keys())


def _drop(
    chosen: dict[_Key, _Candidate], offers: dict[_Key, list[_Candidate]], byte: float
) -> None:
    """Give up blocks where their users cost less without."""
    for block in dict.fromkeys(block for one in chosen.values() for block in one.sizes):
        users = [key for key, one in chosen.items() if block in one.sizes]
        left = {b for one in chosen.values() for b in one.sizes} - {block}
        others = {b for key, one in chosen.items() if key not in users for b in one.sizes}
        trial: dict[_Key, _Candidate] = {}
        for key in users:
            without = [one for one in offers[key] if block not in one.sizes]
            if not without:
                break
            trial[key] = min(without, key=lambda one: one.total(byte, left))
        else:
            before = _price([chosen[key] for key in users], others, byte)
            if users and _price(list(trial.values()), others, byte) < before:
                chosen.update(trial)


def _price(several: Sequence[_Candidate], there: set[InnerBlock], byte: float) -> float:
    """Price of some ops beside the blocks of the others."""
    sizes = {block: size for one in several for block, size in one.sizes.items()}
    return sum(one.price for one in several) + byte * sum(
        size for block, size in sizes.items() if block not in there
    )
