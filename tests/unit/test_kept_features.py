# SPDX-License-Identifier: Apache-2.0
"""Choice of keeping a frozen part's output: where a plan can, what it saves, and why not."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from poetfw.boards import load_board
from poetfw.common.errors import ConfigError
from poetfw.costs import analytic_costs
from poetfw.importers import DataSet
from poetfw.models import Model, build_model
from poetfw.planning import BuildSettings, choose_features, plan_unscheduled
from poetfw.planning.budget import keep_in_flash
from poetfw.planning.choices import derive_program
from poetfw.planning.homes import all_streamed
from poetfw.planning.kept_features import Keepable, are_wanted, find_keepable
from poetfw.planning.plans import Plan
from poetfw.planning.problem import schedule_problem, streaming_cost
from poetfw.report import FeaturesReport
from poetfw.training import Program

BOARD = load_board("nrf52840")
Cuts = tuple[Keepable | None, Keepable | None]


@cache
def adapted(name: str, batch: int, last: str) -> tuple[Model, Program, Plan, Cuts]:
    """A built-in network with norms in evaluation mode, of which the last ops train."""
    model = build_model(name, batch, 0)
    ops = tuple(
        replace(op, attributes={**op.attributes, "frozen": 1}) if op.kind == "batch_norm" else op
        for op in model.graph.ops
    )
    model = replace(model, graph=replace(model.graph, ops=ops))
    settings = BuildSettings(BOARD.name, model=name, batch=batch, train=(last,))
    program = derive_program(settings, model)
    plan = plan_unscheduled(program, BOARD, analytic_costs)
    costs = analytic_costs(program.training, BOARD)
    cuts = find_keepable(program, plan.training.plan, BOARD, costs)
    return model, program, plan, cuts or (None, None)


def reported(
    name: str, batch: int, last: str, *, room: int | None = None, spare: int = 0, **chosen: object
) -> FeaturesReport:
    model, program, plan, (keepable, latest) = adapted(name, batch, last)
    settings = replace(BuildSettings(BOARD.name, model=name, batch=batch), **chosen)
    x = np.random.default_rng(0).normal(size=(2 * batch, *program.x.members[0].shape[1:]))
    data = DataSet("few", *(x.astype("f4"), np.zeros(2 * batch, "i4")) * 2)
    assert BOARD.storage is not None
    board = replace(BOARD, storage=replace(BOARD.storage, size_bytes=room))
    parts = (settings, board, model, data, program, plan.training, keepable, latest, 100_000, spare)
    found, kept = choose_features(*parts, wanted=are_wanted(settings, model, keepable))
    assert found is not None
    assert (kept is not None) == found.kept
    return found


def test_an_epoch_of_resnet8_s_last_layer() -> None:
    found = reported("resnet8", 1, "last:1")
    assert (found.kept, found.sample_bytes, found.break_even_epochs) == (True, 256, 2)
    assert found.kept_j <= 0.05 * found.calculated_j
    assert found.first_j > found.calculated_j


@pytest.mark.parametrize(
    ("name", "batch", "last"), [("ds-cnn", 1, "last:2"), ("digits-cnn", 32, "last:1")]
)
def test_what_takes_less_energy_to_calculate_is_calculated(
    name: str, batch: int, last: str
) -> None:
    found = reported(name, batch, last)
    assert not found.kept
    assert found.reason == "reading it takes more energy"
    assert found.kept_j > found.calculated_j
    assert found.break_even_epochs is None


def test_too_little_room_is_said_and_an_error_where_it_was_asked_for() -> None:
    found = reported("resnet8", 1, "last:1", room=100_000 + 2 * 512 - 1)
    assert not found.kept
    assert found.reason == "it takes 1,024 bytes, and the storage 'sd-spi' has 1,023 left"
    assert reported("resnet8", 1, "last:1", room=100_000 + 2 * 512).kept
    with pytest.raises(ConfigError, match=r"cannot be kept: it takes 1,024 bytes, and the stor"):
        reported("resnet8", 1, "last:1", room=100_000, keep_features="storage")


def test_no_step_misses_the_deadline() -> None:
    without = reported("resnet8", 1, "last:1")
    step_s = without.calculated_s / 2
    found = reported("resnet8", 1, "last:1", deadline_s=step_s)
    assert not found.kept
    assert found.reason.startswith("a step that writes it takes ")
    assert reported("resnet8", 1, "last:1", deadline_s=2 * step_s).kept
    with pytest.raises(
        ConfigError, match=r"a step that (reads|writes) it takes .* more than the deadline of"
    ):
        reported(
            "digits-cnn", 32, "last:1", keep_features="storage",
            deadline_s=reported("digits-cnn", 32, "last:1").calculated_s / 2,
        )  # fmt: skip


def test_a_ring_s_samples_have_records_too() -> None:
    without = reported("resnet8", 1, "last:1", keep_features="storage")
    found = reported("resnet8", 1, "last:1", ring=4, keep_features="storage")
    assert found.kept
    assert found.storage_bytes == without.storage_bytes + 4 * 512


@pytest.mark.parametrize(
    ("name", "batch", "last", "sample_bytes"),
    [("ds-cnn", 1, "last:2", 32_000), ("digits-cnn", 32, "last:1", 256)],
)
def test_features_are_kept_in_ram_where_they_fit(
    name: str, batch: int, last: str, sample_bytes: int
) -> None:
    """Of two batches of samples, each with a class of 4 bytes and a word of its version."""
    record = sample_bytes + 8
    room = 2 * batch * record + batch * 4 + 64
    found = reported(name, batch, last, spare=room)
    assert (found.kept, found.place, found.ram_bytes) == (True, "ram", room)
    assert found.kept_j < found.calculated_j
    assert not reported(name, batch, last, spare=room - 1).kept
    with pytest.raises(ConfigError, match=rf"takes {room:,} bytes of RAM, and {room - 1:,} are"):
        reported(name, batch, last, spare=room - 1, keep_features="ram")
    assert reported(name, batch, last, spare=room, keep_features="storage").place == "storage"
    assert not reported(name, batch, last, spare=room, keep_features="never").kept


def test_the_user_decides() -> None:
    assert not reported("resnet8", 1, "last:1", keep_features="never").kept
    assert reported("digits-cnn", 32, "last:1", keep_features="storage").kept


def test_nothing_precedes_what_trains() -> None:
    model, program, plan, (keepable, _) = adapted("mlp", 8, "*")
    assert keepable is None
    settings = BuildSettings(BOARD.name, model="mlp", keep_features="storage")
    data = DataSet("few", *(np.zeros((8, 64), "f4"), np.zeros(8, "i4")) * 2)
    with pytest.raises(ConfigError, match="has no features that can be kept: nothing"):
        choose_features(
            *(settings, BOARD, model, data, program, plan.training, None, None, 0, 0), wanted=False
        )


def test_transfers_of_streamed_weights_are_saved_with_the_features() -> None:
    _, program, *_ = adapted("resnet8", 1, "last:1")
    small = replace(BOARD, flash_bytes=200_000)
    streamed = all_streamed(keep_in_flash(program, small, ""), only_read=True)
    assert streamed.streamed_constants
    graph, costs = streamed.training, analytic_costs(streamed.training, BOARD)
    plan = plan_unscheduled(streamed, BOARD, analytic_costs).training.plan
    keepable, _ = find_keepable(streamed, plan, BOARD, costs) or (None, None)
    assert keepable is not None
    storage = schedule_problem(graph, BOARD, costs, None).storage
    moved_j = sum(streaming_cost(op, graph, storage).energy_j for op in graph.ops)
    computed_j = sum(cost.energy_j for cost in costs.ops.values())
    assert computed_j < moved_j < keepable.energy_j.calculating < moved_j + computed_j


def test_features_that_are_stored_are_not_kept() -> None:
    """A record is written from RAM."""
    _, program, plan, (keepable, _) = adapted("resnet8", 1, "last:1")
    assert keepable is not None
    graph, kept = program.training, keepable.features.tensor
    tensors = tuple(
        replace(each, tile=(1, 1), image=(1, each.elements, 1)) if each.name == kept else each
        for each in graph.tensors
    )
    stored = replace(program, training=replace(graph, tensors=tensors))
    found = find_keepable(stored, plan.training.plan, BOARD, analytic_costs(graph, BOARD))
    assert found is None or kept not in {each.features.tensor for each in found}
