# SPDX-License-Identifier: Apache-2.0
"""Shared by all pictures: colours, plain text, and reproducible files."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from poetfw.schedule import SCHEDULERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLACK = "#000000"
ORANGE = "#E69F00"
SKY = "#56B4E9"
GREEN = "#009E73"
YELLOW = "#F0E442"
BLUE = "#0072B2"
VERMILLION = "#D55E00"
PURPLE = "#CC79A7"
"""Okabe and Ito, Color Universal Design (2008): eight colours that all people tell apart."""
GREY = "#BBBBBB"


class Holds(StrEnum):
    """Kinds of content of the arena, with their names in a legend."""

    PARAMETER = "parameters"
    OPTIMIZER = "optimizer state"
    OTHER = "statistics, loss, page buffer"
    BATCH = "batch"
    ACTIVATION = "activations"
    GRADIENT = "gradients"
    WORKSPACE = "workspace"


COLOURS: Mapping[Holds, str] = {
    Holds.PARAMETER: BLUE,
    Holds.OPTIMIZER: SKY,
    Holds.OTHER: GREY,
    Holds.BATCH: YELLOW,
    Holds.ACTIVATION: GREEN,
    Holds.GRADIENT: ORANGE,
    Holds.WORKSPACE: PURPLE,
}


@dataclass(frozen=True, slots=True)
class LineStyle:
    """Style of a scheduler's line: colour, marker and dashes as matplotlib names them."""

    colour: str
    marker: str
    dashes: str


def _styles() -> Mapping[str, LineStyle]:
    colours = (BLACK, VERMILLION, BLUE, GREEN, PURPLE, ORANGE, SKY)
    markers = "osv^D<>pPXhdH*"
    dashes = ("-", "--", ":", "-.")
    return {
        name: LineStyle(
            colours[i % len(colours)], markers[i % len(markers)], dashes[i // len(colours)]
        )
        for i, name in enumerate(SCHEDULERS)
    }


STYLES: Mapping[str, LineStyle] = _styles()
"""Line styles of all schedulers, in every plot; seven colours are too few without dashes."""


@contextmanager
def new_figure(width: float, height: float) -> Iterator[Figure]:
    """A figure of a size in inches, with matplotlib's defaults instead of the user's settings."""
    import matplotlib.style
    from matplotlib.figure import Figure

    with matplotlib.style.context("default"):
        yield Figure(figsize=(width, height), dpi=120, layout="constrained")


def render(figure: Figure, kind: str, description: str) -> bytes:
    """A figure as the bytes of a file, reproducible with the same matplotlib.

    Args:
        figure: what to render.
        kind: `svg` or `png`.
        description: alternative text for people who cannot see the picture.
    """
    import matplotlib as mpl
    import matplotlib.style

    absent = ("Date", "Creator") if kind == "svg" else ("Software",)
    buffer = io.BytesIO()
    with (
        matplotlib.style.context("default"),
        mpl.rc_context({"svg.hashsalt": "poetfw", "svg.fonttype": "none"}),
        warnings.catch_warnings(),
    ):
        # A name may hold letters the font lacks; they show as boxes, and nobody can help it.
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        metadata = {**dict.fromkeys(absent), "Description": plain(description)}
        figure.savefig(buffer, format=kind, metadata=metadata)
    return buffer.getvalue()


def number_steps(axes: Axes, steps: int) -> None:
    """Let x run over steps 1 to `steps`, each one wide, with its number in its middle."""
    from matplotlib.ticker import MaxNLocator

    axes.set_xlim(0.5, steps + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("step, as numbered in train_step.c")


def short(name: str, limit: int = 32) -> str:
    """A name of at most `limit` letters."""
    return name if len(name) <= limit else name[: limit - 1] + "…"


def plain(text: str) -> str:
    """Text without control characters."""
    return "".join(c if c.isprintable() else "·" for c in text)


def literal(text: str) -> str:
    """Plain text, escaped so that matplotlib does not parse it as a formula."""
    return plain(text).replace("$", r"\$")
