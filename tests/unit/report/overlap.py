# SPDX-License-Identifier: Apache-2.0
"""Which texts of a figure lie over each other, or are cut off."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from matplotlib.figure import Figure
from matplotlib.text import Text


def overlapping(figure: Figure) -> list[str]:
    """The texts of a figure that meet another one or leave the figure, in pixels of its own."""
    figure.draw_without_rendering()
    beyond = set(_beyond_their_axis(figure))
    boxes = [
        (text.get_text(), text.get_window_extent())
        for text in figure.findobj(Text)
        if text.get_text() and text.get_visible() and text not in beyond
    ]
    assert len(boxes) > 5
    width, height = figure.canvas.get_width_height()
    outside = [
        f"{name!r} leaves the figure"
        for name, box in boxes
        if box.x0 < 0 or box.y0 < 0 or box.x1 > width or box.y1 > height
    ]
    return outside + [
        f"{a!r} meets {b!r}"
        for (a, first), (b, second) in combinations(boxes, 2)
        if first.x0 < second.x1
        and second.x0 < first.x1
        and first.y0 < second.y1
        and second.y0 < first.y1
    ]


def _beyond_their_axis(figure: Figure) -> Iterator[Text]:
    """Labels of ticks that matplotlib keeps, but does not draw."""
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                if not low <= tick.get_loc() <= high:
                    yield from (tick.label1, tick.label2)
