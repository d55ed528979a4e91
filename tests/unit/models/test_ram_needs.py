# SPDX-License-Identifier: Apache-2.0
"""What `poetfw models` says a model takes, against what a build says of the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from poetfw.boards import list_boards, load_board
from poetfw.cli.listing import models
from poetfw.common.errors import InfeasibleError
from poetfw.common.limits import Deadline, Work
from poetfw.costs import analytic_costs
from poetfw.firmware import BLOCK_BYTES
from poetfw.memory import ONLY, resident_bytes
from poetfw.models import Model, build_model
from poetfw.models.layers import Layers
from poetfw.pipeline import plan_build
from poetfw.planning import (
    BuildSettings,
    derive_program,
    load_model,
    load_training_problem,
    plan_evaluation,
    plan_unscheduled,
    plan_within,
    ram_needs,
    report_build,
    unbuilt,
)
from poetfw.planning.decision import Searching, decide
from poetfw.training import Sgd


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


def test_a_board_that_does_not_hold_the_weights_streams_them():
    large = load_board("linux")
    small = replace(large, name="small", ram_bytes=large.ram_bytes - large.unreserved_bytes + 24000)
    needs = ram_needs(build_model("mlp", 4), [large, small])
    assert needs.streamed == {"small"}
    smallest = needs.smallest_bytes["small"]
    assert smallest is not None
    assert smallest <= small.unreserved_bytes == 24000 < (needs.smallest_bytes["linux"] or 0)
    settings = BuildSettings("small", "mlp", batch=4, ram_bytes=smallest)
    searching = Searching(Deadline(60), lambda stage: None)
    built = decide(settings, {ONLY: small}, build_model("mlp", 4), searching)
    assert built.budgets[ONLY] == (smallest, smallest)
    assert built.plan.memory.arena_bytes <= smallest


def test_the_table_names_boards_on_which_the_smallest_budget_is_another(capsys) -> None:
    """By its defaults the MKR1000 keeps no momentum."""
    models.main(["mlp"], standalone_mode=False)
    (row,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("│ mlp"))
    needs = ram_needs(build_model("mlp", 32), [load_board("nrf52840"), load_board("mkr1000")])
    sizes = [f"{size:,} B" for size in needs.smallest_bytes.values()]
    assert f"{sizes[0]}; {sizes[1]} on mkr1000" in row


def test_a_build_s_peak_is_the_highest_byte_of_its_arena_gaps_included(tmp_path) -> None:
    build = plan_build(
        BuildSettings("linux", "mlp", batch=4, ram_bytes=200_000, scheduler="checkpoint-all"),
        lambda _: None,
    )
    memory = build.plan.memory
    gap = replace(memory, arena_bytes=memory.arena_bytes + 1024)
    image = replace(build.image, plan=replace(build.plan, memories={ONLY: gap}))
    report = report_build(replace(build, images={ONLY: image}), tmp_path)
    assert report.peak_bytes == memory.arena_bytes + 1024
    assert report.live_bytes == memory.peak_bytes


def skipping(batch: int = 1) -> Model:
    """Convolutions whose sums keep two feature maps, which can be computed again for less RAM."""
    net = Layers("skipping", (batch, 1, 12, 12), 0)
    maps = [net.conv("first", net.input, 16, (3, 3), padding=(1, 1, 1, 1))]
    for name in ("second", "third", "fourth"):
        maps.append(net.conv(name, maps[-1], 16, (3, 3), padding=(1, 1, 1, 1)))
    sums = net.add("sums", net.add("sum", maps[3], maps[0]), maps[1])
    x = net.flatten("flatten", net.op("global_avg_pool", "pool", (sums,)))
    optimizer = Sgd(learning_rate=0.02, momentum=0.0)
    return Model(*net.build(net.linear("logits", x, 5)), "softmax_cross_entropy", "", optimizer, 1)


def test_evaluation_counts_as_a_build_schedules_it(monkeypatch: pytest.MonkeyPatch) -> None:
    board, model = load_board("nrf52840"), skipping()
    settings = BuildSettings("nrf52840", "skipping", batch=1, momentum=0.0)
    program = derive_program(settings, model)
    smallest = ram_needs(model, [board]).smallest_bytes["nrf52840"]
    assert smallest is not None
    resident = resident_bytes(program.persistent, BLOCK_BYTES)
    once = plan_evaluation(program, board, analytic_costs).peak_bytes
    assert smallest < resident + once

    searching = Searching(Deadline(60), lambda stage: None)
    built = decide(replace(settings, ram_bytes=smallest), {ONLY: board}, model, searching)
    assert built.budgets[ONLY] == (smallest, smallest)
    assert built.plan.memory.arena_bytes <= smallest

    monkeypatch.setattr(unbuilt, "load_model", lambda settings: model)
    training = load_training_problem(settings)
    assert training.within(smallest)
    with pytest.raises(InfeasibleError) as caught:
        training.within(training.evaluation_bytes - 1)
    assert caught.value.minimum_budget_bytes == smallest
