"""Plots of many schedules: lines in panels side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle

from poetfw.report.pictures import own_style, render

_MARKERS = "os^vD<>pPX*hd"
_PANELS_ACROSS = 3
_LINEAR_BELOW_PERCENT = 1.0


@dataclass(frozen=True)
class Line:
    """One line of a plot: its name, and its points (x, y) from left to right."""

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Panel:
    """One plot: what stands above it, and its lines. y is in percent."""

    title: str
    lines: tuple[Line, ...]


@own_style()
def draw_panels(panels: Sequence[Panel], x_label: str, y_label: str, kind: str) -> bytes:
    """Panels as one picture, the bytes of an `svg` or `png` file.

    The same name has the same colour and marker in each. Methods lie orders of magnitude apart,
    so y is logarithmic, but linear near 0, where the best of them are.
    """
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    across = min(_PANELS_ACROSS, max(1, len(panels)))
    down = -(-max(1, len(panels)) // across)
    figure = Figure(figsize=(4.6 * across + 1.8, 3.6 * down), layout="constrained")
    names = list(dict.fromkeys(line.name for panel in panels for line in panel.lines))
    colours = cycle(colormaps["tab20"](range(20)))
    styles = dict(zip(names, zip(colours, cycle(_MARKERS), strict=False), strict=False))
    drawn = {}
    for number, panel in enumerate(panels, start=1):
        axes = figure.add_subplot(down, across, number)
        for line in panel.lines:
            colour, marker = styles[line.name]
            x, y = [point[0] for point in line.points], [point[1] for point in line.points]
            (drawn[line.name],) = axes.plot(x, y, color=colour, marker=marker, ms=4, lw=1.2)
        axes.set_yscale("symlog", linthresh=_LINEAR_BELOW_PERCENT)
        axes.set_ylim(bottom=0)
        axes.set_title(panel.title.replace("$", r"\$"), fontsize=9)
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        axes.grid(alpha=0.3)
    if drawn:
        handles = [drawn[name] for name in names]
        figure.legend(handles, names, loc="outside right center", fontsize=7)
    return render(figure, kind)
