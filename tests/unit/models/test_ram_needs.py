# SPDX-License-Identifier: Apache-2.0
"""What `poetfw models` says a model takes, against what a build says of the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from poetfw.boards import list_boards, load_board
from poetfw.costs import analytic_costs
from poetfw.errors import InfeasibleError
from poetfw.limits import Deadline, Work
from poetfw.models import build_model
from poetfw.planning import (
    BuildSettings,
    derive_program,
    load_model,
    plan_unscheduled,
    plan_within,
    ram_needs,
)


@pytest.mark.parametrize("name", ["mlp", "squeeze-excite", "transformer-tiny"])
def test_the_smallest_ram_is_what_a_build_refuses_less_than(name: str):
    board = load_board("nrf52840")
    settings = BuildSettings("nrf52840", name, batch=4)
    program = derive_program(settings, load_model(settings))
    unlimited = plan_unscheduled(program, board, analytic_costs)
    needs = ram_needs(build_model(name, 4), [board])
    assert needs.peak_bytes == unlimited.memory.peak_bytes
    smallest = needs.smallest_bytes["nrf52840"]
    assert smallest is not None
    with pytest.raises(InfeasibleError) as caught:
        plan_within(
            program,
            board,
            analytic_costs,
            smallest - 1,
            settings,
            unlimited.evaluation,
            Work(1.0, Deadline(60)),
        )
    assert caught.value.minimum_budget_bytes == smallest


def test_each_board_is_named_and_one_without_storage_is_not_guessed():
    boards = [*list_boards(), replace(load_board("linux"), name="bare", storage=None)]
    needs = ram_needs(build_model("mlp", 4), boards)
    assert list(needs.smallest_bytes) == [board.name for board in boards]
    without = [name for name, size in needs.smallest_bytes.items() if size is None]
    assert without == ["bare"]
