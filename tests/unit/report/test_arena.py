# SPDX-License-Identifier: Apache-2.0
"""The picture of the arena: what it shows, and that it stays small and legible."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from matplotlib import rc_context
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from pictures import PICTURES
from poetfw.boards import load_board
from poetfw.costs import analytic_costs
from poetfw.firmware import BLOCK_BYTES, statement_numbers
from poetfw.ir import Role
from poetfw.memory import Allocation, padded, resident_bytes
from poetfw.pipeline import plan_build
from poetfw.planning import (
    Build,
    BuildSettings,
    derive_program,
    load_model,
    plan_unscheduled,
    schedule_problem,
)
from poetfw.report import draw_pictures
from poetfw.report.arena import (
    MOST_LABELS,
    MOST_RECTANGLES,
    Arena,
    Origin,
    Stay,
    arena_picture,
    by_size,
    cover,
)
from poetfw.report.drawing import COLOURS, Holds, render
from poetfw.report.pictures import Timeline, schedule_picture
from poetfw.schedule import StepKind, simulate
from unit.report.overlap import overlapping

GOLDEN = Path(__file__).parents[2] / "golden"


@cache
def paged() -> Build:
    """The build of the golden project that pages."""
    settings = BuildSettings(
        board="nrf52840", batch=4, ram_bytes=48_000, scheduler="poet-remat-off"
    )
    return plan_build(settings, lambda _: None)


@cache
def recomputed() -> Build:
    settings = BuildSettings(board="nrf52840", batch=4, ram_bytes=52_000, scheduler="dtr")
    return plan_build(settings, lambda _: None)


def arena_of(build: Build) -> Arena:
    return Arena.of("title", build.program, build.plan.training.plan, build.plan.memory)


def moving(arena: Arena) -> list[Stay]:
    return [stay for stay in arena.stays if stay.owner]


def test_steps_are_those_of_the_generated_code() -> None:
    code = (GOLDEN / "digits-cnn-paged/lib/poetfw/generated/train_step.c").read_text()
    rows = re.findall(r"^ \* +([\d,]+) +([\d,]+)  T\w+ +(\S.*?)  +(\d[\d, -]*)$", code, re.M)
    written = {
        (int(offset.replace(",", "")), int(size.replace(",", "")), name, steps)
        for offset, size, name, all_steps in rows
        for steps in all_steps.split(", ")
    }
    assert len(written) > 35
    arena = arena_of(paged())
    assert arena.steps == 58
    assert {
        (s.offset, s.size_bytes, s.owner, f"{math.ceil(s.begin)}-{math.floor(s.end)}")
        for s in moving(arena)
    } == written
    page_outs = re.findall(r"^ +POET_STATEMENT\((\d+)u\); /\* page out (\S+),", code, re.M)
    assert sorted((int(step), name) for step, name in page_outs) == sorted(
        (step, s.owner) for s in moving(arena) for step in s.page_outs
    )
    page_ins = re.findall(r"^ +POET_STATEMENT\((\d+)u\); /\* page in (\S+) ", code, re.M)
    assert sorted((int(step), name) for step, name in page_ins) == sorted(
        (s.begin + 0.5, s.owner) for s in moving(arena) if s.origin is Origin.PAGED_IN
    )


@pytest.mark.parametrize("build", [paged, recomputed])
def test_bytes_over_the_steps_are_the_simulators(build: Any) -> None:
    built = build()
    program, plan = built.program, built.plan.training.plan
    problem = schedule_problem(program.training, built.image.board, built.costs, None)
    during = [
        size
        for size, step in zip(simulate(problem, plan).during_bytes, plan, strict=True)
        if step.kind is not StepKind.FREE
    ]
    arena = arena_of(built)
    never_free = [stay for stay in arena.stays if not stay.owner]
    resident = resident_bytes(program.persistent, BLOCK_BYTES)
    assert sum(stay.size_bytes for stay in never_free) == resident
    assert [
        sum(s.size_bytes for s in moving(arena) if s.begin < step + 0.01 < s.end)
        for step in range(1, arena.steps + 1)
    ] == during


@pytest.mark.parametrize("build", [paged, recomputed])
def test_no_two_stays_overlap(build: Any) -> None:
    for a, b in combinations(arena_of(build()).stays, 2):
        apart_in_time = a.end <= b.begin or b.end <= a.begin
        apart = a.offset + a.size_bytes <= b.offset or b.offset + b.size_bytes <= a.offset
        assert apart_in_time or apart, (a, b)


def test_what_bytes_hold_and_where_they_came_from() -> None:
    built = recomputed()
    program, memory = built.program, built.plan.memory
    arena = arena_of(built)

    def total(kind: Holds) -> int:
        return sum(stay.size_bytes for stay in arena.stays if stay.holds is kind)

    parameters = program.training.with_role(Role.PARAMETER)
    trained = sum(padded(tensor.size_bytes) for tensor in parameters)
    assert total(Holds.PARAMETER) == total(Holds.OPTIMIZER) == trained
    persistent = sum(a.size_bytes for a in memory.persistent)
    assert total(Holds.OTHER) == persistent + BLOCK_BYTES - 2 * trained
    held = {stay.owner: stay.holds for stay in moving(arena)}
    assert (held["x"], held["load y"]) == (Holds.BATCH, Holds.BATCH)
    assert (held["conv1"], held["conv2.backward_input"]) == (Holds.ACTIVATION, Holds.GRADIENT)
    again = [stay.owner for stay in arena.stays if stay.origin is Origin.RECOMPUTED]
    assert len(again) == built.plan.training.recomputes > 0
    assert not any(stay.page_outs for stay in arena.stays)


def test_a_workspace_has_a_colour_of_its_own() -> None:
    built = paged()
    plan = built.plan.training.plan
    index = next(i for i, step in enumerate(plan) if step.node == "conv2")
    extra = Allocation("conv2", True, index, index + 1, 46_000, 64)
    memory = replace(built.plan.memory, training=(*built.plan.memory.training, extra))
    stay = Arena.of("", built.program, plan, memory).stays[-1]
    number = statement_numbers(plan)[index]
    assert (stay.holds, stay.begin, stay.end) == (Holds.WORKSPACE, number - 0.5, number + 0.5)
    assert len(set(COLOURS.values())) == len(COLOURS) == len(Holds)


# Drawing ----------------------------------------------------------------------------------------


def many(count: int, steps: int, longest: int) -> Arena:
    """As many stays, side by side in rows of the same size."""
    choose = random.Random(0)
    stays = []
    begin, row = 0.5, 0
    for number in range(count):
        end = min(begin + choose.randint(1, longest), steps + 0.5)
        kind, origin = choose.choice(list(Holds)), choose.choice(list(Origin))
        stays.append(Stay(f"t{number}", kind, origin, begin, end, (), 1000 * row, 1000))
        begin = end
        if end == steps + 0.5:
            begin, row = 0.5, row + 1
    return Arena("many", tuple(stays), steps)


@pytest.mark.parametrize("shape", [(7, 11), (300, 600)])
def test_bytes_times_steps_are_kept_when_stays_are_added_up(shape: tuple[int, int]) -> None:
    arena = many(500, 2_000, 200)
    height = 1.07 * max(stay.offset + stay.size_bytes for stay in arena.stays)
    shares = cover(arena.stays, arena.steps, height, shape)
    cell = height * arena.steps / (shape[0] * shape[1])
    for kind, layer in zip(Holds, shares, strict=True):
        area = sum(stay.area for stay in arena.stays if stay.holds is kind)
        assert layer.sum() * cell == pytest.approx(area, rel=1e-9)
    assert shares.sum(axis=0).max() <= 1 + 1e-9


def test_every_stay_is_drawn_once_large_or_small() -> None:
    arena = many(5_000, 20_000, 2_000)
    for height in (1e4, 1e5, 1e6):
        large, small = by_size(arena, height)
        assert len(large) <= MOST_RECTANGLES
        assert sorted([*large, *small], key=id) == sorted(arena.stays, key=id)
    large, small = by_size(arena, 1e4)
    assert len(large) == MOST_RECTANGLES
    assert min(stay.area for stay in large) >= max(s.area for s in small if s.end - s.begin > 80)


def test_what_is_drawn_is_bounded_whatever_there_is() -> None:
    figure = arena_picture([many(5_000, 20_000, 800)], 90_000, 100_000, "title")
    (axes,) = figure.axes
    assert sum(len(c.get_paths()) for c in axes.collections) == MOST_RECTANGLES
    assert len(axes.texts) <= MOST_LABELS
    assert [image.get_array().shape for image in axes.images] == [(300, 600, 4)]
    assert len(axes.lines) <= 3
    width, height = figure.canvas.get_width_height()
    assert width * height < 2_000_000


def test_colours_hatches_and_limits_are_drawn_and_explained() -> None:
    built = paged()
    figure = arena_picture([arena_of(built)], 48_000, 49_000, "title")
    (axes,) = figure.axes
    shapes = [c for c in axes.collections if isinstance(c, PolyCollection) and c.get_paths()]
    assert [c.get_hatch() for c in shapes] == [None, "...."]
    assert sum(len(c.get_paths()) for c in shapes) > 20
    limits = [line.get_ydata()[0] for line in axes.lines if len(line.get_xdata()) == 2]
    assert limits == [49_000, 48_000]
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == [
        *("board RAM\n49,000 B", "budget\n48,000 B"),
        *(kind.value for kind in reversed(Holds) if kind is not Holds.WORKSPACE),
        *("paged in", "paged out"),
    ]
    assert axes.get_ylabel() == "address in the arena (KiB)"
    ticks = [tick for tick in axes.get_yticks() if tick <= 48 * 1024]
    assert all(tick % 1024 == 0 for tick in ticks)


def test_a_limit_far_away_is_named_but_not_shown() -> None:
    arena = arena_of(paged())
    figure = arena_picture([arena], 48_000, 2**30, "title")
    assert figure.axes[0].get_ylim()[1] < 60_000
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts[:2] == ["board RAM (above)\n1,073,741,824 B", "budget\n48,000 B"]


def test_both_limits_may_be_far_away() -> None:
    stay = many(1, 1, 1).stays[0]
    (axes,) = arena_picture([Arena("", (stay,), 1)], 2**40, 2**40, "title").axes
    assert axes.get_ylim()[1] < 2 * (stay.offset + stay.size_bytes)


# All pictures of a model ------------------------------------------------------------------------


def pictures_of(model: str, batch: int) -> Iterator[Figure]:
    board = load_board("nrf52840")
    settings = BuildSettings(board="nrf52840", model=model, batch=batch)
    program = derive_program(settings, load_model(settings))
    plan = plan_unscheduled(program, board, analytic_costs)
    arena = Arena.of("one", program, plan.training.plan, plan.memory)
    size = plan.memory.arena_bytes
    yield schedule_picture(Timeline.of(plan.training.plan), model)
    yield arena_picture([arena], size - 999, size + 1000, model)
    yield arena_picture([arena, replace(arena, title="two")], size // 2, size, model)


@pytest.mark.parametrize(("model", "batch"), [("digits-cnn", 32), ("resnet18", 1)])
def test_no_two_texts_overlap_and_none_is_cut_off(model: str, batch: int) -> None:
    for figure in pictures_of(model, batch):
        assert overlapping(figure) == []


def test_pictures_are_the_same_bytes_whatever_settings_matplotlib_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(PICTURES, "1")
    built = paged.__wrapped__()  # drawn
    training, memory = built.plan.training, built.plan.memory
    with rc_context({"font.size": 30, "axes.grid": True, "savefig.dpi": 30}):
        pictures = draw_pictures(built.program, training, memory, 48_000, built.image.board)
    assert sorted(pictures) == ["memory.png", "memory.svg", "schedule.png", "schedule.svg"]
    assert all(pictures[name] == built.project.files[name] for name in pictures)
    assert b"Matplotlib v" not in pictures["memory.svg"]


def test_names_are_shown_as_they_stand() -> None:
    stay = Stay("$a_b$ <&>\n" + 40 * "x", Holds.ACTIVATION, Origin.COMPUTED, 0.5, 9.5, (), 0, 900)
    figure = arena_picture([Arena("$x$", (stay,), 9)], 1000, 1100, "$\\frac$")
    (text,) = figure.axes[0].texts
    assert text.get_text() == r"\$a_b\$ <&>·" + 21 * "x" + "…"
    assert b"$a_b$ &lt;&amp;&gt;" in render(figure, "svg", "a <b>")


def test_only_the_largest_stays_are_named() -> None:
    arena = many(200, 200, 40)
    figure = arena_picture([arena], 20_000, 21_000, "title")
    named = [text.get_text() for text in figure.axes[0].texts]
    assert 0.5 * MOST_LABELS < len(named) <= MOST_LABELS
    largest = sorted(arena.stays, key=lambda stay: -stay.area)[:MOST_LABELS]
    assert set(named) <= {stay.owner for stay in largest}


def test_a_name_stands_beside_a_limit_not_on_it() -> None:
    stay = Stay("name", Holds.ACTIVATION, Origin.COMPUTED, 0.5, 9.5, (), 0, 1000)
    (axes,) = arena_picture([Arena("", (stay,), 9)], 490, 510, "title").axes
    (text,) = axes.texts
    low, high = text.get_window_extent().transformed(axes.transData.inverted()).intervaly
    assert high < 490 or low > 510
