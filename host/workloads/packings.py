# SPDX-License-Identifier: Apache-2.0
"""Hard placement instances with a known perfect answer, and how many of them are solved.

An instance is cut from a full rectangle of time x address, so that its pieces fill every byte at
every moment: any placement at the lower bound is as tight as the arena.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from poetfw.common.limits import Deadline, Work
from poetfw.memory import Buffer, lower_bound, place, validate_placement


@dataclass(frozen=True, slots=True)
class Piece:
    """A rectangle of time [lower, upper) x address [bottom, top)."""

    lower: int
    upper: int
    bottom: int
    top: int

    @property
    def area(self) -> int:
        """Byte-moments."""
        return (self.upper - self.lower) * (self.top - self.bottom)


def cut_rectangle(
    count: int, duration: int, height: int, seed: int, pinwheels: float = 0.3
) -> list[Buffer]:
    """Cut a rectangle of time x address into buffers that fill it without a gap.

    A piece is chosen by its area and cut in two at a random place (a guillotine cut, in time or
    in address), or into five that turn around a middle one (a pinwheel, which no guillotine cuts).

    Args:
        count: buffers to end with; the last pinwheel may add up to three more.
        duration: width of the rectangle in units of time.
        height: bytes, live at every moment; at least `count`.
        seed: of the cuts and of the order of the buffers.
        pinwheels: share of pinwheels among the cuts, 0 to 1.
    """
    rng = random.Random(seed)
    pieces = [Piece(0, duration, 0, height)]
    while len(pieces) < count:
        at = rng.choices(range(len(pieces)), weights=[piece.area for piece in pieces])[0]
        piece = pieces[at]
        wide, tall = piece.upper - piece.lower, piece.top - piece.bottom
        if wide >= 3 and tall >= 3 and rng.random() < pinwheels:
            pieces[at : at + 1] = _pinwheel(piece, rng)
        elif wide >= 2 and (tall < 2 or rng.random() < 0.5):
            time = rng.randrange(piece.lower + 1, piece.upper)
            pieces[at : at + 1] = [
                Piece(piece.lower, time, piece.bottom, piece.top),
                Piece(time, piece.upper, piece.bottom, piece.top),
            ]
        elif tall >= 2:
            address = rng.randrange(piece.bottom + 1, piece.top)
            pieces[at : at + 1] = [
                Piece(piece.lower, piece.upper, piece.bottom, address),
                Piece(piece.lower, piece.upper, address, piece.top),
            ]
    rng.shuffle(pieces)
    return [Buffer(f"b{i}", p.lower, p.upper, p.top - p.bottom) for i, p in enumerate(pieces)]


def _pinwheel(piece: Piece, rng: random.Random) -> list[Piece]:
    t1, t2 = sorted(rng.sample(range(piece.lower + 1, piece.upper), 2))
    a1, a2 = sorted(rng.sample(range(piece.bottom + 1, piece.top), 2))
    return [
        Piece(t1, t2, a1, a2),
        Piece(piece.lower, t2, piece.bottom, a1),
        Piece(t2, piece.upper, piece.bottom, a2),
        Piece(t1, piece.upper, a2, piece.top),
        Piece(piece.lower, t1, a1, piece.top),
    ]


@dataclass(frozen=True, slots=True)
class Instance:
    """A problem to solve.

    Attributes:
        kind: what it has in common with others, for the summary.
        name: what tells it from those.
        buffers: what to place.
    """

    kind: str
    name: str
    buffers: Sequence[Buffer]


@dataclass(frozen=True, slots=True)
class Packing:
    """Solution of one instance.

    Attributes:
        kind: of the instance.
        instance: its name.
        buffers: how many it has.
        height_bytes: of our placement.
        lower_bound_bytes: no placement is lower; for a cut rectangle, its height.
        time_s: seconds it took.
    """

    kind: str
    instance: str
    buffers: int
    height_bytes: int
    lower_bound_bytes: int
    time_s: float

    @property
    def perfect(self) -> bool:
        """True for a placement as low as the bound."""
        return self.height_bytes == self.lower_bound_bytes


def solve(instance: Instance, work_limit: float) -> Packing:
    """Place the buffers of one instance.

    Raises:
        PlanError: the placement is not valid.
    """
    buffers = instance.buffers
    deadline = Deadline()
    placement = place(buffers, work=Work(work_limit, deadline))
    seconds = deadline.elapsed_s
    validate_placement(buffers, placement)
    return Packing(
        instance.kind,
        instance.name,
        len(buffers),
        placement.height_bytes,
        lower_bound(buffers),
        seconds,
    )


def cut_rectangles(
    counts: Sequence[int], durations: Sequence[int], height: int, seeds: Iterable[int]
) -> list[Instance]:
    """Instances of every combination."""
    chosen = tuple(seeds)
    return [
        Instance(f"{n} buffers, {d:,} moments", f"seed {seed}", cut_rectangle(n, d, height, seed))
        for n in counts
        for d in durations
        for seed in chosen
    ]
