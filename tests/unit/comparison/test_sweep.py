# SPDX-License-Identifier: Apache-2.0
"""The grid, its results file, and the plots, without solving anything dear."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from made import answer
from poetfw.common.errors import (
    BoardError,
    ConfigError,
    ModelError,
    OutputError,
    ProblemError,
    ToolError,
)
from poetfw.comparisons import sweep
from poetfw.comparisons.comparison import Task, Trial
from poetfw.comparisons.sweep import (
    Grid,
    Results,
    SweepPoint,
    dask_cluster,
    draw_plots,
    finished,
    run_point,
    run_sweep,
)
from poetfw.report import Line, Panel

GRID = Grid(
    boards=("nrf52840",),
    models=("mlp",),
    deadline_factors=(None, 1.5),
    fractions=(0.7, 0.9),
    schedulers=("dtr", "tflms", "poet-remat-off", "poet"),
    batch=4,
    model_as="device",
    solver="HIGHS",
    work_limit=1.0,
    time_limit_s=600.0,
)
POINTS = GRID.points()


def test_an_exception_ends_the_processes_at_once() -> None:
    began_s = 0.0

    def fail() -> None:
        nonlocal began_s
        with sweep.local_processes(1) as executor:
            working = executor.submit(time.sleep, 30)
            while not working.running():
                time.sleep(0.01)
            began_s = time.monotonic()
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert time.monotonic() - began_s < 15


def cells_of(point: SweepPoint) -> tuple[Trial, ...]:
    task = point.task
    cell = Trial(
        *(task.board, task.model, task.batch, task.model_as, point.deadline_factor, None),
        *(point.ram_fraction, int(1000 * point.ram_fraction), "dtr", "optimal"),
    )
    figures = {"energy_j": 2.0 - point.ram_fraction, "overhead": 1.0 - point.ram_fraction}
    return tuple(
        replace(cell, scheduler=name, answer=answer(scheduler=name, peak_bytes=600, **figures))
        for name in ("dtr", "poet")
    )


def run(results: Results, grid: Grid = GRID) -> list[SweepPoint]:
    with ThreadPoolExecutor(1) as executor:
        return list(run_sweep(grid, results, executor))


@pytest.fixture
def instant(monkeypatch: pytest.MonkeyPatch) -> list[SweepPoint]:
    """Points have their results at once; those that were asked for."""
    asked: list[SweepPoint] = []

    def answer(point: SweepPoint, *_: Any) -> tuple[Trial, ...]:
        asked.append(point)
        return cells_of(point)

    monkeypatch.setattr(sweep, "run_point", answer)
    return asked


def test_the_grid_is_a_product_without_doubles() -> None:
    grid = replace(GRID, boards=("rpi4", "tx2", "rpi4"))
    points = grid.points()
    assert len(points) == len(set(points)) == 2 * 1 * 2 * 2
    assert points[0] == SweepPoint(Task("rpi4", "mlp", 4), None, 0.7)


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"boards": ("rpi4", "nowhere")}, BoardError),
        ({"models": ("mlp", "nothing")}, ModelError),
        ({"models": ("mlp", "caf\udce9.onnx")}, ConfigError),
        ({"schedulers": ("poet", "magic")}, ConfigError),
    ],
)
def test_what_does_not_exist_is_refused_first(
    changed: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        replace(GRID, **changed).check()


def test_a_sweep_goes_on_where_it_was(tmp_path: Path, instant: list[SweepPoint]) -> None:
    file = tmp_path / "sweep.jsonl"
    first = Results(file, GRID)
    first.add(POINTS[1], cells_of(POINTS[1]))
    assert run(Results(file, GRID)) == instant == [POINTS[0], POINTS[2], POINTS[3]]
    again = Results(file, GRID)
    assert run(again) == []
    assert again.cells == {point: cells_of(point) for point in POINTS}


def test_a_line_that_was_cut_off_is_computed_again(
    tmp_path: Path, instant: list[SweepPoint]
) -> None:
    file = tmp_path / "sweep.jsonl"
    run(Results(file, GRID))
    whole = file.read_bytes()
    last = whole.rindex(b"\n", 0, -1) + 1
    for length in (last + 1, (last + len(whole)) // 2, len(whole) - 1):
        file.write_bytes(whole[:length])
        assert run(Results(file, GRID)) == [POINTS[3]]
        assert file.read_bytes() == whole


def test_of_two_results_of_a_point_the_later_counts(tmp_path: Path) -> None:
    results = Results(tmp_path / "sweep.jsonl", GRID)
    later = cells_of(POINTS[0])[:1]
    for cells in (cells_of(POINTS[0]), later):  # as two processes may record it
        results.add(POINTS[0], cells)
    assert Results(tmp_path / "sweep.jsonl", GRID).cells == {POINTS[0]: later}


def test_a_header_that_was_cut_off_is_written_again(tmp_path: Path) -> None:
    file = tmp_path / "sweep.jsonl"
    Results(file, GRID)
    whole = file.read_bytes()
    for length in (0, 1, len(whole) - 1):
        file.write_bytes(whole[:length])
        Results(file, GRID)
        assert file.read_bytes() == whole


@pytest.mark.parametrize("content", [b"my diary", b"my diary\n", b"{}\n", b"\n", b"\xff\n"])
def test_another_file_is_refused_and_left_alone(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "sweep.jsonl"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match="something else than this sweep"):
        Results(file, GRID)
    assert file.read_bytes() == content


@pytest.mark.parametrize(
    "changed", [{"batch": 8}, {"fractions": (0.7,)}, {"work_limit": 2.0}, {"models": ("lenet5",)}]
)
def test_another_sweeps_file_is_refused(changed: dict[str, Any], tmp_path: Path) -> None:
    Results(tmp_path / "sweep.jsonl", GRID)
    with pytest.raises(ConfigError, match="something else than this sweep"):
        Results(tmp_path / "sweep.jsonl", replace(GRID, **changed))


@pytest.mark.parametrize("line", ["", "{}", "[1, 2]", '{"point": {}, "cells": []}', "\x00"])
def test_a_malformed_line_is_named(line: str, tmp_path: Path, instant: list[SweepPoint]) -> None:
    file = tmp_path / "sweep.jsonl"
    run(Results(file, GRID))
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines[:2], line, *lines[2:], ""]))
    with pytest.raises(ProblemError, match=r"sweep\.jsonl, line 3: this is not a result"):
        Results(file, GRID)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="cannot be used"):
        Results(tmp_path, GRID)


def test_what_is_finished_comes_in_the_grids_order_and_settled(tmp_path: Path) -> None:
    results = Results(tmp_path / "sweep.jsonl", GRID)
    for point in (POINTS[1], POINTS[0]):
        results.add(point, cells_of(point))
    found = finished(GRID, results)
    assert [cell.ram_fraction for cell in found] == [0.7, 0.7, 0.9, 0.9]
    # 600 bytes fit in either budget, so the better plan serves both.
    assert {cell.answer and cell.answer.energy_j for cell in found} == {2.0 - 0.9}


def test_a_point_is_solved(tmp_path: Path) -> None:
    cells = run_point(POINTS[1], GRID)
    assert [cell.scheduler for cell in cells] == list(GRID.schedulers)
    assert {cell.deadline_factor for cell in cells} == {None}
    results = Results(tmp_path / "sweep.jsonl", GRID)
    results.add(POINTS[1], cells)
    assert Results(tmp_path / "sweep.jsonl", GRID).cells == {POINTS[1]: cells}
    for line in (tmp_path / "sweep.jsonl").read_text().splitlines():
        json.loads(line)


def test_plots_are_of_what_there_is() -> None:
    cells = [cell for point in POINTS for cell in cells_of(point)]
    assert set(draw_plots(cells, "svg")) == {"energy.svg", "capuchin.svg"}
    more = replace(GRID, deadline_factors=(1.2, 1.5)).points()
    cells = [cell for point in more for cell in cells_of(point)]
    pictures = draw_plots(cells, "png")
    assert set(pictures) == {"energy.png", "ablation.png", "capuchin.png"}
    assert all(picture.startswith(b"\x89PNG") for picture in pictures.values())
    assert draw_plots([], "svg") == {}


def test_an_ablation_says_which_deadlines_are_not_met(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Panel] = []
    monkeypatch.setattr(sweep, "draw_panels", lambda panels, *_: drawn.extend(panels) or b"")
    more = replace(GRID, deadline_factors=(1.2, 1.5), fractions=(0.9,)).points()
    cells = [cell for point in more for cell in cells_of(point) if cell.scheduler == "poet"]
    missed = replace(cells[0], scheduler="poet-remat-off", answer=None)
    draw_plots([*cells, missed], "svg")
    (ablation,) = (panel for panel in drawn if panel.title.endswith("90% RAM"))
    assert ablation.lines == (
        Line("poet-remat-off", (), (1.2,), "paging only"),
        Line("poet", ((1.2, 100 * (1 - 0.9)), (1.5, 100 * (1 - 0.9))), (), "both"),
    )


def test_energy_is_drawn_at_the_loosest_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Panel] = []

    def draw(panels: Sequence[Panel], *_: Any) -> bytes:
        drawn.extend(panels)
        return b""

    monkeypatch.setattr(sweep, "draw_panels", draw)
    cell = cells_of(POINTS[0])[0]
    assert cell.answer is not None
    answers = {True: replace(cell.answer, overhead=0.0), False: replace(cell.answer, overhead=9.0)}
    for factors, shown in (((1.2, None, 2.0), None), ((1.2, 2.0), 2.0)):
        drawn.clear()
        draw_plots(
            [replace(cell, deadline_factor=f, answer=answers[f == shown]) for f in factors],
            "svg",
        )
        assert [line.points for panel in drawn[:1] for line in panel.lines] == [((0.7, 0.0),)]


def test_without_dask_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ToolError, match="needs Dask") as caught, dask_cluster("tcp://x:1"):
        pass
    assert caught.value.try_next == ("pip install 'poetfw[sweep]'",)


def test_on_a_dask_cluster(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="needs dask[distributed]")
    grid = replace(GRID, fractions=(0.9,), deadline_factors=(None,))
    cluster = distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
    )
    with cluster, dask_cluster(cluster.scheduler_address) as executor:
        results = Results(tmp_path / "sweep.jsonl", grid)
        assert list(run_sweep(grid, results, executor)) == list(grid.points())
    (cells,) = results.cells.values()
    assert all(cell.answer is not None or cell.reason for cell in cells)
