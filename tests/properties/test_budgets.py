# SPDX-License-Identifier: Apache-2.0
"""A budget means the same to `models`, `compare`, `schedule` and `build`: bytes of the arena."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from poetfw.boards import Board, list_boards, load_board
from poetfw.common.errors import InfeasibleError
from poetfw.common.limits import Work
from poetfw.comparisons.comparison import Comparison, Task, Trial
from poetfw.costs import analytic_costs
from poetfw.firmware import BLOCK_BYTES
from poetfw.memory import resident_bytes
from poetfw.models import MODELS, build_model
from poetfw.planning import (
    BuildSettings,
    Plan,
    budget,
    derive_program,
    load_model,
    plan_evaluation,
    plan_within,
    ram_needs,
)
from poetfw.planning.homes import program_within
from poetfw.schedule import SolveOptions, Status

BOARDS = list_boards()
QUICK = {("nrf52840", "digits-cnn"), ("mkr1000", "mlp")}
EVERY = [
    pytest.param(
        board,
        model,
        id=f"{board.name}-{model}",
        marks=[] if (board.name, model) in QUICK else [pytest.mark.slow],
    )
    for board, model in itertools.product(BOARDS, MODELS)
]
FRACTIONS = (0.35, 0.6, 0.85, 1.0)
BATCH = 4
GAP = SolveOptions().gap


@dataclass(frozen=True)
class Building:
    """What a build knows before it has a budget."""

    board: Board
    model: str
    scheduler: str = "poet"

    def within(
        self, budget_bytes: int, work: float = 0.5, homes_bytes: int | None = None
    ) -> tuple[Plan, int]:
        """The plan of a build in this budget, and the smallest budget that it names.

        Weights are streamed that do not fit it, or `homes_bytes`.
        """
        board = self.board
        settings = BuildSettings(board.name, self.model, batch=BATCH, scheduler=self.scheduler).on(
            board
        )
        program = program_within(
            _program(settings), board, analytic_costs, homes_bytes or budget_bytes, settings
        )
        evaluation = plan_evaluation(program, board, analytic_costs)
        return plan_within(
            program, board, analytic_costs, budget_bytes, settings, evaluation, Work(work)
        )


@cache
def _program(settings: BuildSettings):  # type: ignore[no-untyped-def]
    return derive_program(settings, load_model(settings))


def cells_of(
    board: Board, model: str, schedulers: Sequence[str], work: float = 0.5
) -> tuple[Comparison, list[Trial]]:
    comparison = Comparison.of(Task(board.name, model, BATCH))
    return comparison, list(comparison.cells(FRACTIONS, schedulers, SolveOptions(), work))


@pytest.mark.parametrize(("board", "model"), EVERY)
def test_a_build_has_the_smallest_budget_of_models_and_nothing_less(
    board: Board, model: str
) -> None:
    smallest = ram_needs(build_model(model, BATCH), [board]).smallest_bytes[board.name]
    assert smallest is not None
    plan, minimum = Building(board, model).within(smallest, work=0.1)
    assert minimum == smallest
    assert plan.memory.arena_bytes <= smallest
    with pytest.raises(InfeasibleError) as caught:
        Building(board, model).within(smallest - 1, homes_bytes=smallest)
    assert caught.value.minimum_budget_bytes == smallest


@pytest.mark.parametrize(("board", "model"), EVERY)
def test_keeping_everything_and_published_methods_take_the_energy_of_a_build(
    board: Board, model: str
) -> None:
    comparison, cells = cells_of(board, model, ("checkpoint-all", "swap-on-demand"))
    assert cells[-1].ram_bytes == comparison.everything.peak_bytes
    assert cells[-1].answer is not None
    for cell in cells:
        building = Building(board, model, cell.scheduler)
        if cell.answer is None:
            with pytest.raises(InfeasibleError):
                building.within(cell.ram_bytes, homes_bytes=board.unreserved_bytes)
            continue
        plan, _ = building.within(cell.ram_bytes, homes_bytes=board.unreserved_bytes)
        assert plan.training.energy_j == cell.answer.energy_j
        assert plan.memory.peak_bytes >= cell.answer.peak_bytes - 8
        assert cell.answer.peak_bytes <= cell.ram_bytes


@pytest.mark.parametrize(
    ("board", "model"),
    [
        case
        for case in EVERY
        if case.values[1] in ("digits-cnn", "mlp", "squeeze-excite")
        and case.values[0] in BOARDS[1:3]
    ],
)
def test_poet_takes_the_energy_of_a_build(board: Board, model: str) -> None:
    _, cells = cells_of(board, model, ("poet",), work=4.0)
    for cell in cells:
        if cell.answer is None:
            with pytest.raises(InfeasibleError):
                Building(board, model).within(cell.ram_bytes, 4.0, board.unreserved_bytes)
            continue
        plan, _ = Building(board, model).within(cell.ram_bytes, 4.0, board.unreserved_bytes)
        built, compared = plan.training, cell.answer
        if built.status is compared.status is Status.OPTIMAL:
            assert built.energy_j == pytest.approx(compared.energy_j, rel=2 * GAP)
        for one, other in ((built, compared), (compared, built)):  # where its work ended a search
            assert one.bound_j is not None
            assert other.energy_j >= one.bound_j * (1 - 1e-6) or one.bound_covers != "all plans"


@pytest.mark.parametrize(
    ("chosen", "advice"),
    [
        ({"batch": 8}, ("smaller --batch", "--momentum 0", "train fewer layers")),
        ({"batch": 1}, ("--momentum 0", "train fewer layers")),
        ({"batch": 8, "momentum": 0.0}, ("smaller --batch", "train fewer layers")),
        ({"batch": 1, "momentum": 0.0, "train": ("last:1",)}, ()),
    ],
)
def test_advice_about_ram_is_what_can_help(
    chosen: dict[str, object], advice: tuple[str, ...]
) -> None:
    board = load_board("nrf52840")
    settings = BuildSettings("nrf52840", "lenet5", **chosen).on(board)
    program = _program(settings)
    evaluation = plan_evaluation(program, board, analytic_costs)
    budget = resident_bytes(program.persistent, BLOCK_BYTES) + 100
    with pytest.raises(InfeasibleError) as caught:
        plan_within(program, board, analytic_costs, budget, settings, evaluation, Work(0.5))
    given = "\n".join(caught.value.try_next)
    for words in ("smaller --batch", "--momentum 0", "train fewer layers"):
        assert (words in given) == (words in advice)


@pytest.mark.parametrize("model", ["lenet5", "transformer-tiny"])
def test_where_the_best_schedule_has_no_placement_the_smallest_budget_has_a_plan(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, board = budget.place_within, load_board("nrf52840")

    def without_place(*given: Any, **how: Any) -> Plan:
        if given[3] == "poet":
            raise InfeasibleError("its buffers leave a gap")
        return place(*given, **how)

    monkeypatch.setattr(budget, "place_within", without_place)
    smallest = ram_needs(build_model(model, BATCH), [board]).smallest_bytes[board.name]
    assert smallest is not None
    plan, _ = Building(board, model).within(smallest)
    assert plan.memory.arena_bytes <= smallest
    assert plan.training.scheduler == "swap-on-demand"
