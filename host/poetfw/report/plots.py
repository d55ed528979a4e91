# SPDX-License-Identifier: Apache-2.0
"""Plots of many schedules: lines in panels side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from poetfw.report.drawing import STYLES, literal, new_figure, render, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

_PANELS_ACROSS = 3
_LINEAR_BELOW_PERCENT = 1.0
_INCHES_PER_ROW = 0.15


@dataclass(frozen=True)
class Line:
    """The results of a scheduler.

    Attributes:
        scheduler: a key of `poetfw.schedule.SCHEDULERS`; decides how the line looks.
        points: (x, y) from left to right.
        without_plan: every x for which it has no plan, from left to right.
        label: what the line is called; empty for the scheduler's name.
    """

    scheduler: str
    points: tuple[tuple[float, float], ...]
    without_plan: tuple[float, ...] = ()
    label: str = ""

    @property
    def name(self) -> str:
        """The name of the line."""
        return self.label or self.scheduler


@dataclass(frozen=True)
class Panel:
    """One plot: its title and its lines; y in percent."""

    title: str
    lines: tuple[Line, ...]


def draw_panels(panels: Sequence[Panel], x_label: str, y_label: str, kind: str) -> bytes:
    """Panels as one picture, the bytes of an `svg` or `png` file."""
    description = f"{y_label} over {x_label}: {'; '.join(panel.title for panel in panels)}"
    return render(panels_figure(panels, x_label, y_label), kind, description)


def panels_figure(panels: Sequence[Panel], x_label: str, y_label: str) -> Figure:
    """Panels as one figure.

    A scheduler has its colour, marker and dashes in each, whichever others there are. Methods lie
    orders of magnitude apart, so y is logarithmic, but linear near 0, where the best of them are.
    Below the plots, every scheduler has a row, with a cross wherever it has no plan.
    """
    across = min(_PANELS_ACROSS, max(1, len(panels)))
    down = -(-max(1, len(panels)) // across)
    failing = _in_order(line for panel in panels for line in panel.lines if line.without_plan)
    below = len(failing) * _INCHES_PER_ROW
    with new_figure(5.2 * across + 1.8, (4.0 + below + 0.4 * bool(failing)) * down) as figure:
        blocks = figure.subfigures(down, across, squeeze=False).flat
        for block, panel in zip(blocks, panels, strict=False):
            if failing:
                axes, crosses = block.subplots(2, 1, sharex=True, height_ratios=(3.2, below))
                _draw_crosses(crosses, panel, failing)
            else:
                axes = crosses = block.subplots()
            _draw_lines(axes, panel)
            axes.set_title(literal(short(panel.title, 60)), fontsize=9)
            axes.set_ylabel(y_label)
            crosses.set_xlabel(x_label)
        figure.legend(
            handles=_legend(panels),
            loc="outside right upper",
            fontsize=8,
            frameon=False,
            handlelength=3,
        )
    return figure


def _draw_lines(axes: Axes, panel: Panel) -> None:
    from matplotlib.ticker import FuncFormatter

    for line in panel.lines:
        x, y = [x for x, _ in line.points], [y for _, y in line.points]
        axes.plot(x, y, **_look(line))
    axes.set_yscale("symlog", linthresh=_LINEAR_BELOW_PERCENT)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:,g}"))
    axes.grid(alpha=0.3)


def _draw_crosses(axes: Axes, panel: Panel, failing: Sequence[str]) -> None:
    for line in panel.lines:
        if line.without_plan:
            rows = [failing.index(line.name)] * len(line.without_plan)
            axes.plot(line.without_plan, rows, "x", color=STYLES[line.scheduler].colour, ms=5)
    axes.set_yticks(range(len(failing)), failing, fontsize=7)
    axes.set_ylim(len(failing) - 0.4, -0.6)
    axes.set_title("x: no plan", fontsize=8, loc="left", pad=3)
    axes.grid(alpha=0.3, axis="x")


def _legend(panels: Sequence[Panel]) -> list[Line2D]:
    from matplotlib.lines import Line2D

    lines = {line.name: line for panel in panels for line in panel.lines if line.points}
    return [Line2D([], [], **_look(lines[name]), label=name) for name in _in_order(lines.values())]


def _look(line: Line) -> dict[str, Any]:
    style = STYLES[line.scheduler]
    return {
        "color": style.colour,
        "marker": style.marker,
        "ls": style.dashes,
        "ms": 4.5,
        "lw": 1.3,
    }


def _in_order(lines: Iterable[Line]) -> list[str]:
    """The names of lines, each once, as their schedulers are listed."""
    order = list(STYLES)
    ordered = sorted(lines, key=lambda line: order.index(line.scheduler))
    return list(dict.fromkeys(line.name for line in ordered))
