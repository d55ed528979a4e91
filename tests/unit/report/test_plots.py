# SPDX-License-Identifier: Apache-2.0
"""Plots of many schedules: a scheduler looks the same in each, and what has no plan is marked."""

from __future__ import annotations

import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from poetfw.report import Line, Panel
from poetfw.report.drawing import STYLES
from poetfw.report.plots import panels_figure
from poetfw.schedule import SCHEDULERS
from unit.report.overlap import overlapping

FRACTIONS = tuple(f / 10 for f in range(2, 10))


def line(scheduler: str, label: str = "") -> Line:
    """A scheduler with a plan in the larger budgets."""
    first = 1 + list(SCHEDULERS).index(scheduler) % 6
    points = tuple((x, 3.0**first * (1 - x)) for x in FRACTIONS[first:])
    return Line(scheduler, points, FRACTIONS[:first], label)


def looks(figure: Figure) -> dict[str, tuple[str, str, str]]:
    """Colour, marker and dashes by name, as the legend shows them."""
    (legend,) = figure.legends
    return {
        text.get_text(): (to_hex(handle.get_color()), handle.get_marker(), handle.get_linestyle())
        for handle, text in zip(legend.get_lines(), legend.get_texts(), strict=True)
    }


def draw(*schedulers: str) -> Figure:
    return panels_figure([Panel("panel", tuple(map(line, schedulers)))], "x", "y (%)")


def test_a_scheduler_looks_the_same_whichever_others_there_are() -> None:
    everything = looks(draw(*SCHEDULERS))
    assert list(everything) == list(SCHEDULERS)
    assert len(set(everything.values())) == len(SCHEDULERS)
    for some in (("poet",), ("tflms", "poet", "dtr"), tuple(reversed(SCHEDULERS))):
        assert looks(draw(*some)) == {name: everything[name] for name in SCHEDULERS if name in some}
    labelled = panels_figure([Panel("", (line("poet", "both"),))], "x", "y (%)")
    assert looks(labelled) == {"both": everything["poet"]}


def test_lines_are_drawn_as_the_legend_says() -> None:
    figure = draw("dtr", "poet")
    drawn = {(to_hex(line.get_color()), line.get_marker()) for line in figure.axes[0].lines}
    assert drawn == {look[:2] for look in looks(figure).values()}


def test_a_cross_marks_where_a_scheduler_has_no_plan() -> None:
    failing = Line("checkpoint-all", (), FRACTIONS)
    panels = [
        Panel("one", (line("dtr"), failing)),
        Panel("two", (Line("poet", ((0.5, 1.0), (0.9, 0.5))),)),
    ]
    figure = panels_figure(panels, "x", "y (%)")
    one, crosses, two, no_crosses = figure.axes
    rows = [label.get_text() for label in crosses.get_yticklabels()]
    assert rows == ["checkpoint-all", "dtr"]
    marked = {
        (rows[int(y)], x) for mark in crosses.lines for x, y in mark.get_xydata() if y == int(y)
    }
    assert marked == {
        *(("checkpoint-all", x) for x in FRACTIONS),
        *(("dtr", x) for x in line("dtr").without_plan),
    }
    assert {mark.get_marker() for mark in crosses.lines} == {"x"}
    assert crosses.get_title("left") == "x: no plan"
    assert len(no_crosses.lines) == 0
    assert (one.get_title(), two.get_title()) == ("one", "two")
    assert list(looks(figure)) == ["poet", "dtr"]


def test_without_gaps_there_are_no_rows_of_crosses() -> None:
    panel = Panel("all", (Line("poet", ((0.5, 1.0), (0.9, 0.5))),))
    assert len(panels_figure([panel], "x", "y (%)").axes) == 1


@pytest.mark.parametrize("count", [1, 2, 4])
def test_no_two_texts_overlap_and_none_is_cut_off(count: int) -> None:
    lines = tuple(map(line, SCHEDULERS))
    title = "a model with quite a long name, from a file: net.onnx on nrf52840, batch 32"
    panels = [Panel(title, lines)] * count
    figure = panels_figure(panels, "budget / checkpoint-all peak", "energy overhead (%)")
    assert overlapping(figure) == []


def test_every_scheduler_has_a_look_of_its_own() -> None:
    assert list(STYLES) == list(SCHEDULERS)
    assert len(set(STYLES.values())) == len(STYLES)
