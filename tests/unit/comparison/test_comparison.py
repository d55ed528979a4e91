# SPDX-License-Identifier: Apache-2.0
"""Side by side: POET is never worse than another method, and more RAM is never worse."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from made import answer as made_answer
from poetfw.common.errors import ConfigError
from poetfw.comparisons import comparison as module
from poetfw.comparisons.comparison import (
    COMPARED,
    Comparison,
    Task,
    Trial,
    energy_lines,
    settle,
    to_csv,
)
from poetfw.schedule import (
    BoundCovers,
    Interrupted,
    PlanFigures,
    SolveOptions,
    Status,
    simulate,
    solve,
)
from workloads.published import PaperTask

QUICK = SolveOptions()
CASES = [
    (Task("nrf52840", "digits-cnn", 8), None),
    (Task("nrf52840", "digits-cnn", 8, "poet"), 1.2),
    (Task("rpi4", "lenet5", 4), 1.5),
]


@pytest.fixture(scope="module", params=CASES, ids=lambda case: f"{case[0].model}-{case[1]}")
def settled(request: pytest.FixtureRequest) -> tuple[Comparison, tuple[Trial, ...]]:
    task, deadline_factor = request.param
    comparison = Comparison.of(task, deadline_factor)
    cells = comparison.cells((0.9, 0.45, 0.7), COMPARED, QUICK, 0.2)
    return comparison, settle(list(cells))


def test_every_cell_is_there_once(settled: tuple[Comparison, tuple[Trial, ...]]) -> None:
    _, cells = settled
    found = [(cell.ram_fraction, cell.scheduler) for cell in cells]
    assert sorted(found) == sorted((f, s) for f in (0.45, 0.7, 0.9) for s in COMPARED)
    assert [cell.ram_fraction for cell in cells] == sorted(cell.ram_fraction for cell in cells)


def test_a_cell_has_a_plan_or_a_reason(settled: tuple[Comparison, tuple[Trial, ...]]) -> None:
    for cell in settled[1]:
        without = cell.status in (Status.INFEASIBLE, "unsuitable")
        assert without == (cell.answer is None) == bool(cell.reason), cell


def test_poet_is_never_worse(settled: tuple[Comparison, tuple[Trial, ...]]) -> None:
    _, cells = settled
    poet = {cell.ram_fraction: cell for cell in cells if cell.scheduler == "poet"}
    compared = 0
    for cell in cells:
        if cell.answer is not None:
            ours = poet[cell.ram_fraction].answer
            assert ours is not None
            assert ours.energy_j <= cell.answer.energy_j, cell.scheduler
            compared += cell.scheduler != "poet"
    assert compared >= 6


def test_limits_hold(settled: tuple[Comparison, tuple[Trial, ...]]) -> None:
    comparison, cells = settled
    for cell in cells:
        answer = cell.answer
        if answer is None:
            continue
        energy_j = comparison.everything.energy_j
        assert cell.overhead == pytest.approx(answer.energy_j / energy_j - 1)
        assert answer.peak_bytes <= cell.ram_bytes
        assert cell.deadline_s is None or answer.time_s <= cell.deadline_s * (1 + 1e-9)
        assert answer.gap is None or answer.gap >= 0


def test_more_ram_never_takes_more_energy(settled: tuple[Comparison, tuple[Trial, ...]]) -> None:
    for name in COMPARED:
        row = [cell for cell in settled[1] if cell.scheduler == name]
        for less, more in pairwise(row):
            if less.answer is not None:
                assert more.answer is not None, name
                assert more.answer.energy_j <= less.answer.energy_j, name
                assert more.answer.peak_bytes >= less.answer.peak_bytes, name


@pytest.mark.parametrize(("board", "overlap"), [("rpi4", True), ("tx2", True), ("linux", False)])
def test_transfers_overlap_as_the_board_says(board: str, overlap: bool) -> None:
    storage = Task(board, "mlp").load().problem.storage
    assert storage is not None
    assert storage.overlap is overlap


def test_proactive_swapping_waits_less_than_on_demand() -> None:
    comparison = Comparison.of(Task("rpi4", "resnet8", 4))
    cells = comparison.cells((1.0,), ("swap-on-demand", "swap-proactive"), QUICK, 0.5)
    on_demand, proactive = (cell.answer for cell in cells)
    assert on_demand is not None
    assert proactive is not None
    assert comparison.everything.time_s <= proactive.time_s < on_demand.time_s


def test_figures_are_the_simulators() -> None:
    comparison = Comparison.of(Task("nrf52840", "digits-cnn", 4))
    (cell,) = comparison.cells((0.8,), ("dtr",), QUICK, 0.5)
    resident_bytes = comparison.training.problem.resident_bytes
    problem = replace(comparison.training.problem, ram_bytes=cell.ram_bytes - resident_bytes)
    simulation = simulate(problem, solve(problem, "dtr").plan)
    assert resident_bytes > 0
    assert cell.answer is not None
    assert PlanFigures.of(cell.answer) == PlanFigures.of(simulation).beside(resident_bytes)


# settle, on cells made up ------------------------------------------------------------------------


def made(
    scheduler: str, fraction: float, energy_j: float | None, peak: int = 0, **proven: Any
) -> Trial:
    task = ("b", "m", 1, "device")
    ram_bytes = int(100 * fraction)
    cell = Trial(*task, None, None, fraction, ram_bytes, scheduler, "infeasible", "why")
    if energy_j is None:
        return cell
    figures = {"energy_j": energy_j, "overhead": energy_j - 1, "peak_bytes": peak}
    found = made_answer(scheduler=scheduler, **{**figures, **proven})
    return replace(cell, status=found.status, reason="", answer=found)


def energy(cell: Trial) -> float | None:
    return None if cell.answer is None else cell.answer.energy_j


def energies(cells: Sequence[Trial]) -> list[float | None]:
    return [energy(cell) for cell in settle(cells)]


def test_a_plan_serves_larger_budgets() -> None:
    assert energies([made("dtr", 0.5, 2.0, 50), made("dtr", 0.7, 3.0, 70)]) == [2.0, 2.0]


def test_a_plan_serves_smaller_budgets_that_it_fits_in() -> None:
    assert energies([made("dtr", 0.5, 4.0, 50), made("dtr", 0.7, 3.0, 45)]) == [3.0, 3.0]
    assert energies([made("dtr", 0.5, 4.0, 50), made("dtr", 0.7, 3.0, 51)]) == [4.0, 3.0]


def test_of_equal_plans_the_lower_peak_serves() -> None:
    first, second = settle([made("dtr", 0.5, 2.0, 40), made("dtr", 0.7, 2.0, 60)])
    assert [cell.answer and cell.answer.peak_bytes for cell in (first, second)] == [40, 40]


def test_without_a_plan_that_fits_there_is_none() -> None:
    cell = settle([made("dtr", 0.5, None), made("dtr", 0.7, 3.0, 60)])[0]
    assert (cell.answer, cell.status, cell.reason) == (None, "infeasible", "why")


def test_a_cell_without_a_plan_gets_one() -> None:
    cell = settle([made("dtr", 0.5, 3.0, 50), made("dtr", 0.7, None)])[1]
    assert (energy(cell), cell.status, cell.reason) == (3.0, Status.FEASIBLE, "")


def test_what_is_proven_stays_a_cells_own() -> None:
    proven = {"bound_j": 1.5, "bound_covers": BoundCovers.STAGES}
    cell = settle([made("dtr", 0.5, 3.0, 50), made("poet", 0.7, 4.0, 70, **proven)])[1]
    assert cell.answer is not None
    assert (cell.answer.energy_j, cell.answer.bound_j, cell.answer.gap) == (3.0, 1.5, 0.5)
    assert cell.answer.bound_covers is BoundCovers.STAGES
    assert (cell.overhead, cell.answer.overhead_gap) == (2.0, 0.75)
    assert cell.answer.scheduler == "poet"


def test_what_is_proven_about_a_plan_does_not_go_along() -> None:
    cells = [made("dtr", 0.5, 2.0, 50, bound_j=1.9), made("poet", 0.5, 4.0, 50, bound_j=1.0)]
    served = settle(cells)[1].answer
    assert served is not None
    assert (served.energy_j, served.bound_j, served.gap) == (2.0, 1.0, 0.5)


def test_poet_takes_what_others_found_and_others_take_nothing_of_its() -> None:
    cells = [made("dtr", 0.5, 2.0, 50), made("poet", 0.5, 3.0, 50), made("griewank", 0.5, 4.0, 50)]
    assert energies(cells) == [2.0, 2.0, 4.0]
    pages = made("capuchin", 0.5, 1.0, 50, page_outs=1, recomputes=1)
    assert energies([pages, made("poet", 0.5, 3.0, 50)]) == [1.0, 1.0]


def test_variants_of_poet_take_what_they_could_have_found() -> None:
    pages = made("capuchin", 0.5, 1.0, 50, page_outs=1)
    repeats = made("dtr", 0.5, 2.0, 50, recomputes=1)
    rest = [made(f"poet-{name}-off", 0.5, 9.0, 50) for name in ("paging", "remat")]
    assert energies([pages, repeats, *rest]) == [1.0, 2.0, 2.0, 1.0]


def test_nothing_serves_another_board_or_deadline() -> None:
    cheap = made("dtr", 0.5, 1.0, 10)
    for other in ({"board": "c"}, {"model": "n"}, {"batch": 2}, {"deadline_factor": 1.0}):
        assert energies([cheap, replace(made("dtr", 0.5, 2.0, 10), **other)]) == [1.0, 2.0]


# Interrupted, refused, written -------------------------------------------------------------------


def test_interrupted_it_gives_the_cell_it_has_first(monkeypatch: pytest.MonkeyPatch) -> None:
    comparison = Comparison.of(Task("nrf52840", "mlp", 4))
    done = solve(replace(comparison.training.problem, ram_bytes=10**9), "checkpoint-all")

    def interrupt(*_: Any) -> None:
        raise Interrupted(replace(done, status=Status.INTERRUPTED))

    monkeypatch.setattr(module, "solve", interrupt)
    cells: Iterator[Trial] = comparison.cells((0.8,), ("poet",), QUICK, 0.5)
    assert next(cells).status == "interrupted"
    with pytest.raises(KeyboardInterrupt):
        next(cells)


def test_the_papers_weights_stay_in_ram() -> None:
    streamed, resident = (task("mkr1000", "lenet5").load().problem for task in (Task, PaperTask))
    assert streamed.resident_bytes < 32_768 < resident.resident_bytes
    assert streamed.nodes != resident.nodes


def test_unknown_schedulers_are_refused_at_once() -> None:
    comparison = Comparison.of(Task("nrf52840", "mlp", 4))
    with pytest.raises(ConfigError, match="no scheduler 'magic'"):
        next(comparison.cells((0.8,), ("dtr", "magic"), QUICK, 0.5))


def test_cells_as_csv() -> None:
    cells = [replace(made("dtr", 0.5, 2.0, 50), model="caf\udce9.onnx")]  # in Latin-1
    rows = list(csv.DictReader(io.StringIO(to_csv(cells).decode())))
    assert rows[0]["model"] == r"caf\udce9.onnx"
    assert rows[0]["scheduler"] == "dtr"
    assert rows[0]["energy_j"] == "2.0"
    assert rows[0]["bound_j"] == ""


def test_lines_say_where_there_is_no_plan() -> None:
    cells = [made("dtr", 0.7, 1.25, 50), made("dtr", 0.5, 1.5, 50), made("poet", 0.5, None)]
    dtr, poet = energy_lines([*cells, made("dtr", 0.2, None)])
    assert (dtr.scheduler, poet.scheduler) == ("dtr", "poet")
    assert dtr.points == ((0.5, 50.0), (0.7, 25.0))
    assert dtr.without_plan == (0.2,)
    assert (poet.points, poet.without_plan) == ((), (0.5,))
