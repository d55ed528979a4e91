# SPDX-License-Identifier: Apache-2.0
"""Kernels that take workspace run where RAM has room for it, to the same weights."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from poetfw.boards import Board
from poetfw.common.errors import InfeasibleError
from poetfw.costs import CostProvider, CostTable, Source, analytic_costs
from poetfw.firmware import BLOCK_BYTES, RunRequest, set_request, write_project
from poetfw.ir import Graph
from poetfw.memory import resident_bytes
from poetfw.models import zoo
from poetfw.models.layers import Layers
from poetfw.models.model import Model
from poetfw.ops import VARIANT
from poetfw.pipeline import plan_build
from poetfw.planning import (
    Build,
    BuildSettings,
    ChosenBy,
    Plan,
    budget,
    load_kernel_choices,
    solve_variants,
    workspace,
)
from poetfw.planning.kernels import faster_with_workspace
from poetfw.planning.problem import schedule_problem
from poetfw.schedule import simulate
from poetfw.tools import build_environments, run_firmware
from poetfw.training import Program

BY_1 = {"depthwise", "depthwise.backward_input"}
FUNCTIONS = {f"poet_conv2d_depthwise_by_1_{part}_f32" for part in ("forward", "backward_input")}
PLENTY = 200_000


def network(batch: int, seed: int, first: int = 0) -> Model:
    """Depthwise, of stride 2, on the digits; what comes after takes more RAM than its workspace.

    The layer before has one kernel, or two with a padding of 1.
    """
    net = Layers("depthwise", (batch, 1, 8, 8), seed)
    x = net.relu("relu1", net.conv("conv1", net.input, 4, 3, padding=(first,) * 4, bias=True))
    x = net.conv("depthwise", x, 4, 3, stride=2, padding=(2, 2, 1, 1), groups=4, bias=True)
    logits = net.linear("logits", net.flatten("flatten", net.relu("relu2", x)), 10)
    return Model(*net.build(logits), loss="softmax_cross_entropy", description="", epochs=1)


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    models = {**zoo.MODELS, "depthwise": zoo.Entry(4, network)}
    monkeypatch.setattr(zoo, "MODELS", models)


def costs(graph: Graph, board: Board) -> CostTable:
    """As if each kernel had been measured: those with workspace take half of what others do."""
    table = analytic_costs(graph, board)
    ops = {}
    for op in graph.ops:
        factor = 0.5 if op.attributes.get(VARIANT) == "by_1" else 1.0
        cost = table.ops[op.name]
        time_s, energy_j = factor * cost.time_s, factor * cost.energy_j
        ops[op.name] = replace(cost, time_s=time_s, energy_j=energy_j, source=Source.MEASURED)
    return replace(table, ops=ops)


def backward_dear(graph: Graph, board: Board) -> CostTable:
    """As if the gradient took twice that, by either kernel."""
    table = costs(graph, board)
    ops = {
        name: replace(cost, energy_j=2 * cost.energy_j)
        for name, cost in table.ops.items()
        if name == "depthwise.backward_input"
    }
    return replace(table, ops={**table.ops, **ops})


def plan(
    ram_bytes: int,
    costs_of: CostProvider = costs,
    scheduler: str = "poet",
    deadline_s: float | None = None,
) -> Build:
    settings = BuildSettings(
        board="linux",
        model="depthwise",
        batch=4,
        ram_bytes=ram_bytes,
        scheduler=scheduler,
        deadline_s=deadline_s,
    )
    return plan_build(settings, progress=lambda text: None, costs=costs_of)


def taken(build: Build) -> set[str]:
    """Ops of the training step that run with a workspace."""
    return {stay.owner for stay in build.plan.memory.training if stay.workspace}


def losses(build: Build, folder: Path) -> tuple[float, ...]:
    write_project(build.project, folder)
    elf = build_environments(folder, ["linux"])["linux"]
    set_request(folder / "storage.img", RunRequest(steps=3, capture=False))
    log = run_firmware([str(elf.resolve())], folder, timeout_s=60, steps=3, evaluations=90)
    return log.losses


def test_where_there_is_room(tmp_path: Path) -> None:
    without, build = plan(PLENTY, analytic_costs), plan(PLENTY)
    assert (taken(without), taken(build)) == (set(), BY_1)
    plain, faster = without.plan.training, build.plan.training
    saved = sum(without.costs.ops[name].energy_j for name in BY_1) / 2
    assert faster.energy_j == pytest.approx(plain.energy_j - saved)
    assert faster.energy_j == pytest.approx(sum(c.energy_j for c in build.costs.ops.values()))
    assert (faster.status, faster.gap) == ("optimal", 0)
    steps = json.loads(build.project.files["plan.json"])["training"]
    functions = {step["node"]: step["function"] for step in steps if step["step"] == "compute"}
    assert {functions[name] for name in BY_1} == FUNCTIONS
    assert {build.kernels_by[name] for name in BY_1} == {ChosenBy.MEASURED}
    assert b"by_1" not in build.project.files["lib/poetfw/generated/evaluate_step.c"]
    assert losses(build, tmp_path / "by_1") == losses(without, tmp_path / "plain")


def test_where_some_of_it_is_missing() -> None:
    """One of them is at the peak of the plan that keeps everything: the other has room."""
    without = plan(PLENTY, analytic_costs)
    ram_bytes = without.plan.memory.arena_bytes
    other_first = plan(ram_bytes, backward_dear, "checkpoint-all")
    assert taken(other_first) == {"depthwise"}, "the other saves more, and is tried first"
    build = plan(ram_bytes, scheduler="checkpoint-all")
    assert taken(build) == {"depthwise"}
    assert build.plan.memory.arena_bytes <= ram_bytes
    saved = without.costs.ops["depthwise"].energy_j / 2
    schedule = build.plan.training
    assert schedule.energy_j == pytest.approx(without.plan.training.energy_j - saved)
    least_j = plan(PLENTY).plan.training.energy_j
    assert (schedule.status, schedule.bound_covers) == ("feasible", "all plans")
    assert schedule.bound_j == pytest.approx(least_j)
    assert schedule.gap == pytest.approx(1 - least_j / schedule.energy_j)
    assert schedule.overhead == pytest.approx(schedule.energy_j / least_j - 1)
    assert schedule.overhead_gap == pytest.approx(1)
    limits = schedule_problem(build.program.training, build.image.board, build.costs, None)
    again = simulate(limits, schedule.plan)
    assert (again.energy_j, again.peak_bytes) == (schedule.energy_j, schedule.peak_bytes)


def test_what_cannot_be_placed_goes_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """That of the op that saves least, as if both workspaces left too large gaps."""
    place = workspace.place_plan

    def apart(program: Program, *settings: Any) -> Plan:
        plan = place(program, *settings)
        both = BY_1 <= {op.name for op in program.training.ops if op.attributes.get(VARIANT)}
        memory = replace(plan.memory, arena_bytes=plan.memory.arena_bytes + both * PLENTY)
        return replace(plan, memories={plan.step.here: memory})

    monkeypatch.setattr(workspace, "place_plan", apart)
    monkeypatch.setattr(budget, "place_plan", apart)
    assert taken(plan(PLENTY, backward_dear)) == {"depthwise.backward_input"}


def test_a_schedule_pays_for_room_that_is_worth_it() -> None:
    """Were all other ops for nothing, computing one again would be cheap for the workspace."""

    def dear(graph: Graph, board: Board) -> CostTable:
        table = costs(graph, board)
        took = analytic_costs(graph, board).ops
        cheap = {
            name: replace(
                cost,
                energy_j=cost.energy_j * (1 if name in BY_1 else 1e-3),
                time_s=took[name].time_s,
            )
            for name, cost in table.ops.items()
        }
        return replace(table, ops=cheap)

    ram_bytes = plan(PLENTY, analytic_costs).plan.memory.arena_bytes
    build = plan(ram_bytes, dear)
    assert taken(build) == BY_1
    assert build.plan.training.recomputes + build.plan.training.page_ins > 0
    assert build.plan.memory.arena_bytes <= ram_bytes
    deadline_s = 0.9999 * build.plan.training.time_s
    in_time = plan(ram_bytes, dear, deadline_s=deadline_s).plan.training
    assert in_time.time_s <= deadline_s
    assert in_time.energy_j > build.plan.training.energy_j


def test_what_is_not_known_of_both_takes_no_workspace() -> None:
    def of_shapes(graph: Graph, board: Board) -> CostTable:
        table = costs(graph, board)
        ops = {
            op.name: replace(table.ops[op.name], source=Source.ANALYTIC)
            for op in graph.ops
            if op.attributes.get(VARIANT) is not None
        }
        return replace(table, ops={**table.ops, **ops})

    build = plan(PLENTY, of_shapes)
    assert taken(build) == set()
    assert {build.kernels_by[name] for name in BY_1} == {ChosenBy.SHAPE}
    faster, decided = faster_with_workspace(build.program.training, build.image.board, of_shapes)
    assert (faster, set(decided)) == ({}, BY_1)


def test_what_decided_is_said_of_the_kernel_that_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    padded = zoo.Entry(4, partial(network, first=1))
    monkeypatch.setattr(zoo, "MODELS", {**zoo.MODELS, "depthwise": padded})

    def but_general(graph: Graph, board: Board) -> CostTable:
        table = costs(graph, board)
        ops = {
            op.name: replace(table.ops[op.name], source=Source.ANALYTIC)
            for op in graph.ops
            if op.attributes.get(VARIANT) == "general"
        }
        return replace(table, ops={**table.ops, **ops})

    build = plan(PLENTY, but_general)
    assert taken(build) == BY_1
    by = build.kernels_by
    assert {name for name in by if by[name] is ChosenBy.MEASURED} == BY_1
    assert set(by.values()) == {ChosenBy.MEASURED, ChosenBy.SHAPE}
    known, _ = load_kernel_choices(BuildSettings("linux", "depthwise", batch=4), costs=but_general)
    assert known.chosen_by(()) == dict.fromkeys(by, ChosenBy.SHAPE), "no room for any"


@pytest.mark.parametrize("scheduler", ["checkpoint-all", "dtr", "poet"])
@pytest.mark.parametrize("deadline_s", [None, 1e-4])
def test_a_schedule_without_a_build_is_the_same(scheduler: str, deadline_s: float | None) -> None:
    """With the RAM that the build's plan takes, whether all, one or none has room there."""
    without = plan(PLENTY, analytic_costs)
    settings = BuildSettings("linux", "depthwise", batch=4, deadline_s=deadline_s)
    known, variants = load_kernel_choices(settings, costs=backward_dear)
    resident = resident_bytes(without.program.persistent, BLOCK_BYTES)
    counts = set()
    for ram_bytes in (
        without.plan.memory.arena_bytes - 600,
        without.plan.memory.arena_bytes,
        PLENTY,
    ):
        limited = variants.mapped(partial(replace, ram_bytes=ram_bytes - resident))
        try:
            build = plan(ram_bytes, backward_dear, scheduler, deadline_s)
        except InfeasibleError:
            with pytest.raises(InfeasibleError):
                solve_variants(limited, scheduler)
            continue
        found, planned = solve_variants(limited, scheduler), build.plan.training
        assert set(found.faster) == taken(build)
        assert found.energy_j == planned.energy_j
        assert (found.status, found.gap) == (planned.status, planned.gap)
        assert known.chosen_by(found.faster) == build.kernels_by
        assert known.table_with(found.faster) == build.costs
        counts.add(len(found.faster))
    assert max(counts) == 2


@pytest.mark.parametrize("more", [0, 200, 400, 800, 1600, 2048])
def test_never_more_energy_than_without(more: int) -> None:
    smallest = plan(PLENTY, analytic_costs).image.minimum_budget_bytes
    without, build = plan(smallest + more, analytic_costs), plan(smallest + more)
    assert build.plan.training.energy_j <= without.plan.training.energy_j
    assert build.plan.memory.arena_bytes <= smallest + more
