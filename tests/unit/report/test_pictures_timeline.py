# SPDX-License-Identifier: Apache-2.0
"""The picture of the schedule: when ops run, and their outputs are in RAM."""

from __future__ import annotations

import pytest

from poetfw.report.pictures import MOST_CELLS, STATES, Timeline, schedule_picture
from poetfw.schedule import ExecutionPlan, Step, StepKind
from unit.report.overlap import overlapping

PLAN: ExecutionPlan = tuple(
    Step(StepKind(kind), node)
    for kind, node in (
        ("compute", "a"),
        ("page_out", "a"),
        ("compute", "b"),
        ("free", "a"),
        ("compute", "update"),
        ("free", "b"),
        ("page_in", "a"),
        ("compute", "b"),
        ("compute", "c"),
        ("free", "b"),
        ("free", "a"),
        ("free", "c"),
    )
)


def test_cells_show_what_each_step_of_the_code_does() -> None:
    timeline = Timeline.of(PLAN)
    assert timeline.ops == ("a", "b", "update", "c")
    assert timeline.steps == 7
    letters = dict(enumerate(".=coi2"))
    drawn = ["".join(letters[cell] for cell in row) for row in timeline.cells().tolist()]
    assert list(STATES) == ["in RAM", "computed", "paged out", "paged in", "computed again"]
    assert drawn == [
        "co=.i==",
        "..c=.2=",
        "...c...",
        "......c",
    ]


def test_neighbours_share_a_cell_where_there_are_too_many() -> None:
    cells = Timeline.of(PLAN).cells(most=(2, 3))
    codes = {state: code for code, state in enumerate(STATES, start=1)}
    assert cells.tolist() == [
        [codes["paged out"], codes["paged in"], codes["computed again"]],
        [0, codes["computed"], codes["computed"]],
    ]


def test_the_picture_is_bounded_whatever_there_is() -> None:
    names = [f"some operation of a large network, number {i}" for i in range(5_000)]
    plan = [Step(StepKind.COMPUTE, name) for name in names]
    plan += [Step(StepKind.COMPUTE, name) for name in names] * 3
    timeline = Timeline.of(tuple(plan))
    assert timeline.cells().shape == MOST_CELLS
    figure = schedule_picture(timeline, "a large network")
    (axes,) = figure.axes
    assert axes.images[0].get_array().shape == MOST_CELLS
    assert len(axes.get_yticks()) < 80
    assert axes.get_ylabel().startswith("op (every ")
    assert overlapping(figure) == []
    width, height = figure.canvas.get_width_height()
    assert width * height < 2_000_000


@pytest.mark.parametrize("count", [1, 2, 18, 19, 64, 66])
def test_names_never_overlap(count: int) -> None:
    plan = [Step(StepKind.COMPUTE, f"op {i}") for i in range(count)]
    figure = schedule_picture(Timeline.of(tuple(plan)), "a network")
    assert overlapping(figure) == []


def test_the_legend_says_what_there_is() -> None:
    figure = schedule_picture(Timeline.of(PLAN[:1]), "one op")
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["computed"]
