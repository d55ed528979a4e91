# SPDX-License-Identifier: Apache-2.0
"""Picture of the arena over the steps of a plan: the address, life and content of each buffer."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poetfw.firmware import BLOCK_BYTES, statement_numbers
from poetfw.ir import Role
from poetfw.memory import Allocation, MemoryPlan
from poetfw.report.drawing import (
    BLACK,
    COLOURS,
    VERMILLION,
    Holds,
    literal,
    new_figure,
    number_steps,
    short,
)
from poetfw.schedule import ExecutionPlan, StepKind
from poetfw.training import Program

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_RECTANGLES = 1000
"""Number of stays per panel drawn as rectangles, the largest; a grid sums up the others."""

MOST_LABELS = 80
"""Number of the largest stays that are labelled, where the label fits."""

_SMALLEST = (1 / 120, 1 / 250)
"""Smallest share of height and of width of a stay that is drawn on its own."""

_PAGED_OUT: Mapping[str, Any] = {"ls": "", "marker": "^", "mfc": "white", "mec": BLACK, "mew": 0.7}

_LIMITS: Mapping[str, Mapping[str, Any]] = {
    "board RAM": {"color": BLACK, "ls": "-", "lw": 1.4},
    "budget": {"color": VERMILLION, "ls": "--", "lw": 1.4},
}

_GRID = (300, 600)
_DISTANT = 4
"""A limit above this multiple of the drawn height is named, but not drawn."""


class Origin(StrEnum):
    """The way in which a tensor came into RAM."""

    COMPUTED = "computed"
    RECOMPUTED = "computed again"
    PAGED_IN = "paged in"


_HATCHES = {Origin.COMPUTED: None, Origin.RECOMPUTED: "////", Origin.PAGED_IN: "...."}


@dataclass(frozen=True, slots=True)
class Stay:
    """A rectangle of the picture: bytes of the arena that hold something for a while.

    Attributes:
        owner: the tensor's name; for a workspace the op's; empty for resident bytes, of which
            neighbours with the same kind of content are one stay.
        holds: kind of content.
        origin: how the content came into RAM.
        begin, end: life in steps, numbered as in the generated code: step k is
            [k - 0.5, k + 0.5). Where an op writes over its input, both stays meet in the middle of
            the op's step, so that no two overlap.
        page_outs: the steps in between that write it to storage.
        offset: its first byte in the arena.
        size_bytes: bytes it occupies.
    """

    owner: str
    holds: Holds
    origin: Origin
    begin: float
    end: float
    page_outs: tuple[int, ...]
    offset: int
    size_bytes: int

    @property
    def area(self) -> float:
        """Bytes times steps."""
        return self.size_bytes * (self.end - self.begin)


@dataclass(frozen=True)
class Arena:
    """One panel of a picture.

    Attributes:
        title: what stands above it.
        stays: everything in the arena; no two overlap.
        steps: number of steps.
    """

    title: str
    stays: tuple[Stay, ...]
    steps: int

    @staticmethod
    def of(title: str, program: Program, plan: ExecutionPlan, memory: MemoryPlan) -> Arena:
        """The arena during a training step."""
        numbers = statement_numbers(plan)
        steps = numbers[-1]
        stays = _meeting([*_training_stays(program, plan, memory, numbers)])
        return Arena(title, (*_resident_stays(program, memory, steps), *stays), steps)


def arena_picture(
    arenas: Sequence[Arena], budget_bytes: int, board_bytes: int, title: str
) -> Figure:
    """The arena over the steps, in panels side by side: every stay at its address.

    However many stays there are, at most `MOST_RECTANGLES` of a panel are drawn, the largest, and
    none that is too small to see; the others' bytes and steps are added up in a grid of cells.

    Args:
        arenas: what the panels show.
        budget_bytes: what the arena may occupy.
        board_bytes: all RAM of the board.
        title: what stands above them.
    """
    with new_figure(7.2 + 1.6 * len(arenas), 4.8) as figure:
        figure.suptitle(literal(title), fontsize=11, x=0.01, ha="left")
        panels = figure.subplots(1, len(arenas), sharey=True, squeeze=False)[0]
        height = max(stay.offset + stay.size_bytes for arena in arenas for stay in arena.stays)
        limits = {"board RAM": board_bytes, "budget": budget_bytes}
        near = [limit for limit in limits.values() if limit <= _DISTANT * height]
        top = 1.07 * max([height, *near])
        large = [_draw_arena(*panel, top) for panel in zip(panels, arenas, strict=True)]
        for axes in panels:
            axes.axhspan(board_bytes, max(top, board_bytes), color="#E8E8E8", lw=0, zorder=-1)
            for name, limit in limits.items():
                axes.axhline(limit, **_LIMITS[name], zorder=3)
            axes.set_ylim(0, top)
        _label_bytes(panels[0], top)
        figure.legend(
            handles=_legend(arenas, limits, top),
            loc="outside right upper",
            fontsize=8,
            frameon=False,
        )
        figure.draw_without_rendering()  # lays it out: only now is known which names fit
        for axes, stays in zip(panels, large, strict=True):
            for stay in [stay for stay in stays if stay.owner][:MOST_LABELS]:
                _write_name(axes, stay, limits.values())
    return figure


def by_size(arena: Arena, height_bytes: float) -> tuple[list[Stay], list[Stay]]:
    """The stays to be drawn one by one, the largest first, and the others."""
    height, width = _SMALLEST[0] * height_bytes, _SMALLEST[1] * arena.steps
    large: list[Stay] = []
    small: list[Stay] = []
    for stay in sorted(arena.stays, key=lambda stay: -stay.area):
        visible = stay.size_bytes >= height and stay.end - stay.begin >= width
        (large if visible and len(large) < MOST_RECTANGLES else small).append(stay)
    return large, small


def cover(
    stays: Iterable[Stay], steps: int, height_bytes: float, shape: tuple[int, int] = _GRID
) -> NDArray[np.float64]:
    """Shares of each cell of a grid that are covered, by what covers them.

    A kind's shares add up to the bytes times steps of its stays, in cells.

    Args:
        stays: what covers the cells.
        steps: what the columns span.
        height_bytes: what the rows span.
        shape: number of rows and columns.

    Returns:
        Shares of shape [kinds, rows, columns], kinds in the order of `Holds`.
    """
    rows, columns = shape
    shares = np.zeros((len(Holds), rows, columns))
    layers = dict(zip(Holds, shares, strict=True))
    for stay in stays:
        top = stay.offset + stay.size_bytes
        row, heights = _overlaps(stay.offset * rows / height_bytes, top * rows / height_bytes)
        begin, end = ((step - 0.5) * columns / steps for step in (stay.begin, stay.end))
        column, widths = _overlaps(begin, end)
        cells = layers[stay.holds][row : row + len(heights), column : column + len(widths)]
        cells += np.outer(heights, widths)[: cells.shape[0], : cells.shape[1]]
    return shares


def _overlaps(begin: float, end: float) -> tuple[int, NDArray[np.float64]]:
    """The first unit interval that [begin, end) meets, and how much of each it covers."""
    first = int(begin)
    edges = np.arange(first, math.ceil(end) + 1, dtype=float)
    return first, np.minimum(edges[1:], end) - np.maximum(edges[:-1], begin)


# What there is ----------------------------------------------------------------------------------


def _resident_stays(program: Program, memory: MemoryPlan, steps: int) -> Iterator[Stay]:
    """Stays of resident bytes: one for neighbours with the same kind of content."""
    tensors = {tensor.name: tensor for tensor in program.persistent}
    kept = set(program.optimizer_states)

    def holds(allocation: Allocation) -> Holds:
        if tensors[allocation.owner].role is Role.PARAMETER:
            return Holds.PARAMETER
        return Holds.OPTIMIZER if allocation.owner in kept else Holds.OTHER

    blocks = [(holds(a), a.offset, a.size_bytes) for a in memory.persistent]
    blocks.append((Holds.OTHER, memory.page_buffer_offset, BLOCK_BYTES))
    for kind, group in groupby(sorted(blocks, key=lambda b: b[1]), key=lambda b: b[0]):
        side_by_side = list(group)
        offset, size = side_by_side[0][1], sum(block[2] for block in side_by_side)
        yield Stay("", kind, Origin.COMPUTED, 0.5, steps + 0.5, (), offset, size)


def _training_stays(
    program: Program, plan: ExecutionPlan, memory: MemoryPlan, numbers: Sequence[int]
) -> Iterator[Stay]:
    roles = {
        Role.INPUT: Holds.BATCH,
        Role.LABEL: Holds.BATCH,
        Role.ACTIVATION: Holds.ACTIVATION,
        Role.GRADIENT: Holds.GRADIENT,
    }
    graph = program.training
    origins: dict[int, Origin] = {}
    page_outs: defaultdict[str, list[int]] = defaultdict(list)
    computed: set[str] = set()
    for index, (kind, node, *_) in enumerate(plan):
        if kind is StepKind.COMPUTE:
            origins[index] = Origin.RECOMPUTED if node in computed else Origin.COMPUTED
            computed.add(node)
        elif kind is StepKind.PAGE_IN:
            origins[index] = Origin.PAGED_IN
        elif kind is StepKind.PAGE_OUT:
            page_outs[node].append(index)
    for a in memory.training:
        written = () if a.workspace else page_outs[graph.producer[a.owner].name]
        yield Stay(
            owner=a.owner,
            holds=Holds.WORKSPACE if a.workspace else roles[graph.by_name[a.owner].role],
            origin=origins[a.lower],
            begin=numbers[a.lower] - 0.5,
            end=numbers[a.upper - 1] + 0.5,
            page_outs=tuple(numbers[i] for i in written if a.lower <= i < a.upper),
            offset=a.offset,
            size_bytes=a.size_bytes,
        )


def _meeting(stays: Sequence[Stay]) -> list[Stay]:
    """The same stays, where an op writes over its input cut in the middle of the op's step.

    Both are at the same address in that step, and only an op's input and output ever are.
    """
    written = {(stay.offset, stay.begin) for stay in stays}
    taken = {
        (stay.offset, stay.end - 1)
        for stay in stays
        if stay.end - stay.begin > 1 and (stay.offset, stay.end - 1) in written
    }
    return [
        replace(
            stay,
            begin=stay.begin + 0.5 * ((stay.offset, stay.begin) in taken),
            end=stay.end
            - 0.5 * (stay.end - stay.begin > 1 and (stay.offset, stay.end - 1) in taken),
        )
        for stay in stays
    ]


# Drawing ----------------------------------------------------------------------------------------


def _draw_arena(axes: Axes, arena: Arena, top: float) -> list[Stay]:
    """Draw an arena's stays; return those that have rectangles of their own, the largest first."""
    large, small = by_size(arena, top)
    _draw_rectangles(axes, large)
    _draw_grid(axes, small, arena.steps, top)
    number_steps(axes, arena.steps)
    axes.set_title(literal(arena.title), fontsize=9, loc="left")
    return large


def _draw_rectangles(axes: Axes, stays: Sequence[Stay]) -> None:
    from matplotlib.collections import PolyCollection

    for origin, hatch in _HATCHES.items():
        chosen = [stay for stay in stays if stay.origin is origin]
        corners = [
            [(s.begin, low), (s.end, low), (s.end, high), (s.begin, high)]
            for s in chosen
            for low, high in [(s.offset, s.offset + s.size_bytes)]
        ]
        colours = [COLOURS[stay.holds] for stay in chosen]
        widths = [0.3 if stay.owner else 0.0 for stay in chosen]
        axes.add_collection(
            PolyCollection(
                corners, facecolors=colours, edgecolors=BLACK, linewidths=widths, hatch=hatch
            ),
            autolim=False,
        )
    written = [(step, s.offset + s.size_bytes) for s in stays for step in s.page_outs]
    axes.plot([x for x, _ in written], [y for _, y in written], **_PAGED_OUT, ms=5, zorder=4)


def _draw_grid(axes: Axes, stays: Sequence[Stay], steps: int, top: float) -> None:
    """Draw many small stays as an image: each cell has the colours of what covers it, mixed."""
    from matplotlib.colors import to_rgb

    if not stays:
        return
    shares = cover(stays, steps, top)
    covered = shares.sum(axis=0)
    mixed = np.einsum("krc,kx->rcx", shares, [to_rgb(COLOURS[kind]) for kind in Holds])
    mixed /= np.maximum(covered, 1e-12)[..., None]
    image = np.dstack([mixed, np.minimum(covered, 1)]).clip(0, 1)
    extent = (0.5, steps + 0.5, 0, top)
    axes.imshow(image, origin="lower", extent=extent, aspect="auto", interpolation="nearest")


def _write_name(axes: Axes, stay: Stay, limits: Iterable[int]) -> None:
    """Write a stay's name into its rectangle, upright if need be and beside limits, if it fits."""
    bottom, top = stay.offset, stay.offset + stay.size_bytes
    cuts = sorted({bottom, top, *(limit for limit in limits if bottom < limit < top)})
    bottom, top = max(pairwise(cuts), key=lambda part: part[1] - part[0])
    low, high = axes.transData.transform([(stay.begin, bottom), (stay.end, top)])
    width, height = high - low
    if min(width, height) < 8:
        return
    ground = {"facecolor": COLOURS[stay.holds], "edgecolor": "none", "pad": 0.6}
    text = axes.text(
        (stay.begin + stay.end) / 2,
        (bottom + top) / 2,
        literal(short(stay.owner)),
        ha="center",
        va="center",
        fontsize=6.5,
        color="white" if stay.holds is Holds.PARAMETER else BLACK,
        bbox=None if _HATCHES[stay.origin] is None else ground,
    )
    text.set_in_layout(False)
    for rotation in (0, 90) if height > width else (0,):
        text.set_rotation(rotation)
        box = text.get_window_extent()
        if box.width + 4 <= width and box.height + 2 <= height:
            return
    text.remove()


def _label_bytes(axes: Axes, top: float) -> None:
    """Number the bytes in KiB, MiB or GiB, by powers of two."""
    from matplotlib.ticker import FuncFormatter, MultipleLocator

    prefix, unit = next(
        (pair for pair in (("Ki", 2**10), ("Mi", 2**20)) if top < 10 * 2**10 * pair[1]),
        ("Gi", 2**30),
    )
    axes.yaxis.set_major_locator(MultipleLocator(2.0 ** math.ceil(math.log2(top / 9))))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda size, _: f"{size / unit:,g}"))
    axes.set_ylabel(f"address in the arena ({prefix}B)")


def _legend(arenas: Sequence[Arena], limits: dict[str, int], top: float) -> list[Artist]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    stays = [stay for arena in arenas for stay in arena.stays]
    held = {stay.holds for stay in stays}
    origins = {stay.origin for stay in stays}
    lines: list[Artist] = []
    for name, limit in limits.items():
        where = "" if limit <= top else " (above)"
        lines.append(Line2D([], [], **_LIMITS[name], label=f"{name}{where}\n{limit:,} B"))
    lines += [
        Patch(facecolor=colour, edgecolor=BLACK, lw=0.3, label=kind.value)
        for kind, colour in reversed(tuple(COLOURS.items()))
        if kind in held
    ]
    lines += [
        Patch(facecolor="white", edgecolor=BLACK, lw=0.3, hatch=hatch, label=origin.value)
        for origin, hatch in _HATCHES.items()
        if hatch and origin in origins
    ]
    if any(stay.page_outs for stay in stays):
        lines.append(Line2D([], [], **_PAGED_OUT, label="paged out"))
    return lines
