# SPDX-License-Identifier: Apache-2.0
"""Choice of the tiles of a network's ops together, which share blocks."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from poetfw.kernels.entries import AnyBlock, Empty, Estimate
from poetfw.kernels.tilings import InnerBlock, Task, TiledPass, counted, estimates

COUNTED = 16
"""Candidates of an op whose instructions are counted."""
OWN = 4
"""Of these, those of the least estimates if no other op had their code."""
ROUNDS = 8
SHARE_PER_KB = 0.02
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
    ops: Sequence[tuple[Task, int]], share_per_kb: float = SHARE_PER_KB
) -> list[TiledPass | None]:
    """Tiles of ops and how often each runs: fewest cycles, with a price of flash.

    Each op begins with its own best tiles. Then, in turns, an op takes those that cost least beside
    the others' blocks, and a block is given up where its users cost less without it.

    Args:
        ops: passes or products, and runs of each in a step.
        share_per_kb: part of all cycles that 1,000 bytes of flash may save at most.

    Returns:
        For each op its tiles, None where none fit.
    """
    runs: Counter[Task] = Counter()
    for task, times in ops:
        runs[task] += times
    found = {task: every for task in runs if (every := estimates(task))}
    least = sum(min(one.cycles for one in every) * runs[key] for key, every in found.items())
    byte = share_per_kb * least / 1000
    offers = _offers(found, runs, byte)
    chosen = {key: min(offers[key], key=lambda one: one.total(byte)) for key in offers}
    _offer_shared(offers, found, chosen, runs, byte)
    for _ in range(ROUNDS):
        before = dict(chosen)
        _settle(chosen, offers, byte)
        _drop(chosen, offers, byte)
        if chosen == before:
            break
    return [chosen[task].tiles if task in chosen else None for task, _ in ops]


def _offers(
    found: dict[Task, tuple[Estimate, ...]], runs: Counter[Task], byte: float
) -> dict[Task, list[_Candidate]]:
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
        own = heapq.nsmallest(
            OWN, every, key=lambda one: one.cycles * runs[key] + byte * one.size_bytes
        )
        ranked = [*own, *(every[i] for i in cheapest)]
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
        candidates = [_candidate(tiles, runs[key], byte) for tiles in counted(interned, COUNTED)]
        if candidates:
            offers[key] = candidates
    return offers


def _offer_shared(
    offers: dict[Task, list[_Candidate]],
    found: dict[Task, tuple[Estimate, ...]],
    chosen: dict[Task, _Candidate],
    runs: Counter[Task],
    byte: float,
) -> None:
    """Offer each op the fastest tiles of chosen blocks, and of those that are not its own."""
    every = {block for one in chosen.values() for block in one.sizes}
    for task, own in offers.items():
        for there in (every, every - chosen[task].sizes.keys()):
            shared = [
                one
                for one in found[task]
                if all(type(e.block) is Empty or e.block in there for e in one.entries)
            ]
            fastest = sorted(shared, key=lambda one: one.cycles)[:1]
            own += [_candidate(one, runs[task], byte) for one in counted(fastest, 1)]


def _candidate(tiles: TiledPass, runs: int, byte: float) -> _Candidate:
    sizes = {block: block.size_bytes for block in tiles.blocks}
    return _Candidate(tiles, tiles.cycles * runs + byte * tiles.table_bytes, sizes)


def _settle(
    chosen: dict[Task, _Candidate], offers: dict[Task, list[_Candidate]], byte: float
) -> None:
    """Have each op take what costs least beside the others' blocks."""
    users = Counter(block for one in chosen.values() for block in one.sizes)
    for key, candidates in offers.items():
        users.subtract(chosen[key].sizes.keys())
        others = {block for block, count in users.items() if count > 0}
        chosen[key] = min(candidates, key=lambda one: one.total(byte, others))
        users.update(chosen[key].sizes.keys())


def _drop(
    chosen: dict[Task, _Candidate], offers: dict[Task, list[_Candidate]], byte: float
) -> None:
    """Give up blocks where their users cost less without."""
    for block in dict.fromkeys(block for one in chosen.values() for block in one.sizes):
        users = [key for key, one in chosen.items() if block in one.sizes]
        left = {b for one in chosen.values() for b in one.sizes} - {block}
        others = {b for key, one in chosen.items() if key not in users for b in one.sizes}
        trial: dict[Task, _Candidate] = {}
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
