# SPDX-License-Identifier: Apache-2.0
"""What to train within a budget: the program against enumeration, and plans against builds."""

from __future__ import annotations

import itertools
import json
import math
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from poetfw.boards import load_board
from poetfw.cli.main import cli
from poetfw.common.errors import ConfigError, InfeasibleError
from poetfw.common.limits import Deadline, Work
from poetfw.costs import analytic_costs
from poetfw.importers import load_data
from poetfw.ir import Role
from poetfw.memory import padded
from poetfw.models import build_model
from poetfw.planning import (
    BuildSettings,
    Updates,
    calibration_batches,
    derive_program,
    load_model,
    plan_unscheduled,
    schedule_problem,
    update_plan,
)
from poetfw.planning.update_plan import limits_of, selection_of
from poetfw.planning.update_program import Choice, Needs, UpdateProgram
from poetfw.schedule import solve
from poetfw.settings import UpdateBudget
from poetfw.training import select
from workloads.rotated_digits import outcomes

BOARD = load_board("linux")


def updates_of(model: str, **more: Any) -> Updates:
    settings = BuildSettings("linux", model, **more)
    return Updates(settings, load_model(settings), BOARD, analytic_costs)


def program_of(updates: Updates, choices: Sequence[Choice]) -> UpdateProgram:
    whole = updates.program(updates.everything(), fuse=False)
    return UpdateProgram(
        whole,
        peak_bytes(whole.evaluation),
        choices,
        lambda choice: updates.program(selection_of([choice]), fuse=False),
        lambda graph: analytic_costs(graph, BOARD),
    )


def peak_bytes(graph: Any) -> int:
    problem = schedule_problem(graph, BOARD, analytic_costs(graph, BOARD), None)
    return solve(problem, "checkpoint-all").peak_bytes


def actual(updates: Updates, choices: Sequence[Choice]) -> Needs:
    """What choices take together, of their own training graph, as the scheduler replays it."""
    program = updates.program(selection_of(choices), fuse=False)
    graph = program.training
    problem = schedule_problem(graph, BOARD, analytic_costs(graph, BOARD), None)
    schedule = solve(problem, "checkpoint-all")
    statistics = {tensor.name for tensor in updates._model.graph.with_role(Role.STATE)}
    beside = sum(padded(t.size_bytes) for t in program.persistent if t.name not in statistics)
    peak = max(schedule.peak_bytes, peak_bytes(program.evaluation))
    return Needs(peak + beside, schedule.energy_j)


def combinations(choices: Sequence[Choice]) -> Iterator[list[int]]:
    """All sets of choices with at most one of each parameter, but the empty one."""
    groups: dict[str, list[int | None]] = {}
    for at, choice in enumerate(choices):
        groups.setdefault(choice.parameter, [None]).append(at)
    for taken in itertools.product(*groups.values()):
        if found := [at for at in taken if at is not None]:
            yield found


def assert_best(updates: Updates, choices: Sequence[Choice], shares: Sequence[float]) -> None:
    """That the program's answers are the best of all, of what their training graphs take."""
    program = program_of(updates, choices)
    known = {
        tuple(taken): actual(updates, [choices[at] for at in taken])
        for taken in combinations(choices)
    }
    for taken, needs in known.items():
        assert program.needs(taken).size_bytes == needs.size_bytes, taken
        assert program.needs(taken).energy_j == pytest.approx(needs.energy_j, rel=1e-12)
    scores = np.random.default_rng(1).random(len(choices)).tolist()
    most = Needs(
        max(needs.size_bytes for needs in known.values()),
        max(needs.energy_j for needs in known.values()),
    )
    for bytes_share, energy_share in itertools.product((*shares, math.inf), repeat=2):
        limits = Needs(bytes_share * most.size_bytes, energy_share * most.energy_j)
        chosen, _ = program.solve(scores, limits, Work())
        fitting = [
            sum(scores[at] for at in taken)
            for taken, needs in known.items()
            if needs.within(limits)
        ]
        score = sum(scores[choices.index(choice)] for choice in chosen)
        assert score == pytest.approx(max(fitting, default=0.0)), (bytes_share, energy_share)
        if chosen:
            assert actual(updates, chosen).within(limits)


def test_the_program_finds_what_enumeration_finds() -> None:
    updates = updates_of("mlp", batch=16)
    choices = [
        Choice("hidden1.weight", 16),
        Choice("hidden1.weight"),
        Choice("hidden2.weight"),
        Choice("logits.weight", 8),
    ]
    assert_best(updates, choices, (0.45, 0.7))


@pytest.mark.slow
@pytest.mark.parametrize("batch", [2, 16])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_so_it_does_with_convolutions(batch: int, optimizer: str) -> None:
    """Among the channels of an input that stays for other gradients, and of one that does not."""
    updates = updates_of("digits-cnn", batch=batch, optimizer=optimizer)
    choices = [c for c in updates.choices() if c.channels in (2, 4, None) and "1.a" not in str(c)]
    assert_best(updates, choices, (0.3, 0.5, 0.7, 0.9))


def test_estimates_are_exact_where_channels_stay_for_other_gradients() -> None:
    updates = updates_of("digits-cnn", batch=8)
    choices = updates.choices()
    program, random = program_of(updates, choices), np.random.default_rng(0)
    groups = {
        c.parameter: [at for at, o in enumerate(choices) if o.parameter == c.parameter]
        for c in choices
    }
    for _ in range(10):
        taken = [int(random.choice(group)) for group in groups.values() if random.random() < 0.6]
        needs = actual(updates, [choices[at] for at in taken])
        assert program.needs(taken).size_bytes == needs.size_bytes


def test_estimates_err_on_the_side_of_the_budget() -> None:
    """Also where paths join, and their gradients add up."""
    updates = updates_of("resnet8", batch=2)
    choices = updates.choices()
    program, random = program_of(updates, choices), np.random.default_rng(0)
    for _ in range(6):
        kept = [at for at, choice in enumerate(choices) if choice.channels is None]
        taken = [at for at in kept if random.random() < 0.5]
        needs = actual(updates, [choices[at] for at in taken])
        assert needs.size_bytes <= program.needs(taken).size_bytes <= 1.1 * needs.size_bytes


def planned(model: str, budget: UpdateBudget, **more: Any) -> Any:
    updates = updates_of(model, **more)
    data = load_data("digits", updates._model)
    batch = updates._model.batch
    return updates, updates.plan(budget, calibration_batches(data, batch, 2, 0), Work())


@pytest.mark.parametrize("share", [0.4, 0.6])
def test_what_was_planned_is_what_a_build_takes(share: float, tmp_path: Path) -> None:
    updates, plan = planned("mlp", UpdateBudget(bytes_share=share), batch=32)
    file = tmp_path / "plan.json"
    model = build_model("mlp", 32, 0)
    file.write_text(json.dumps(plan.selection.to_json(model.graph)))
    settings = BuildSettings("linux", "mlp", batch=32, train=(str(file),))
    program = derive_program(settings, model)
    built = plan_unscheduled(program, BOARD, analytic_costs)
    assert built.memory.peak_bytes - updates.kept_bytes == plan.needs.size_bytes
    assert built.training.energy_j == pytest.approx(plan.needs.energy_j)
    assert plan.needs.size_bytes <= share * plan.full.size_bytes
    assert program.parameter_states.keys() == plan.selection.parameters


def test_what_only_the_estimate_thinks_too_large_is_trained() -> None:
    """The lowest gradient need not be stored, which the estimate does not know."""
    _, plan = planned("mlp", UpdateBudget(bytes_share=0.5), batch=32)
    graph = build_model("mlp", 32, 0).graph
    assert plan.selection == select(graph, ("last:2", "hidden1.bias"))
    assert plan.needs.size_bytes <= 0.5 * plan.full.size_bytes < plan.estimate.size_bytes


def test_estimates_store_gradients_unless_they_outweigh_inputs() -> None:
    updates, plan = planned("mlp", UpdateBudget(bytes_share=0.5), batch=32)
    stored = program_of(updates, plan.choices)
    alone = dict(zip(plan.choices, plan.alone, strict=True))
    for parameter, fused in (("hidden1.weight", True), ("logits.weight", False)):
        choice = Choice(parameter)
        by_program = stored.needs([plan.choices.index(choice)])
        assert (alone[choice].size_bytes < by_program.size_bytes) == fused


def test_limits_are_kept_to_the_byte() -> None:
    updates = updates_of("mlp", batch=8)
    program = program_of(updates, [Choice("logits.weight", 8)])
    needs = program.needs([0])
    assert program.solve([1.0], needs, Work())[0] == program.choices
    less = Needs(needs.size_bytes - 1, needs.energy_j)
    assert program.solve([1.0], less, Work())[0] == ()


def test_a_budget_may_be_of_the_arena_or_a_share() -> None:
    full = Needs(1000, 2.0)
    assert limits_of(UpdateBudget(arena_bytes=700), full, 100) == Needs(600, math.inf)
    assert limits_of(
        UpdateBudget(arena_bytes=700, bytes_share=0.5, energy_share=0.25), full, 0
    ) == Needs(500, 0.5)
    assert limits_of(UpdateBudget(size_bytes=7, energy_j=3.0), full, 0) == Needs(7, 3.0)
    assert limits_of(UpdateBudget(arena_bytes=99), full, 100) == Needs(1, math.inf)


def test_more_budget_is_never_worse() -> None:
    shares = (0.3, 0.6, 1.0)
    plans = [planned("mlp", UpdateBudget(bytes_share=share), batch=8)[1] for share in shares]
    scores = [plan.score for plan in plans]
    assert scores == sorted(scores)
    assert scores[0] < scores[-1]
    assert plans[-1].score == pytest.approx(plans[-1].full_score)


def test_gradient_energy_is_that_of_the_reference() -> None:
    """By hand for a linear layer: dw is the product of what came in and of the error."""
    updates = updates_of("mlp", batch=8)
    data = load_data("digits", updates._model)
    batches = list(calibration_batches(data, 8, 3, 0))
    choices = [Choice("logits.weight", 8), Choice("logits.weight"), Choice("logits.bias")]
    weights = updates._model.weights
    expected = np.zeros(3)
    for x, y in batches:
        hidden = x.astype(np.float64)
        for layer in ("hidden1", "hidden2"):
            hidden = hidden @ weights[f"{layer}.weight"].T + weights[f"{layer}.bias"]
            hidden = np.maximum(hidden, 0)
        logits = hidden @ weights["logits.weight"].T + weights["logits.bias"]
        error = np.exp(logits - logits.max(axis=1, keepdims=True))
        error = error / error.sum(axis=1, keepdims=True) - np.eye(10)[y]
        gradient = error.T @ hidden / 8
        bias = error.mean(axis=0)
        expected += [(gradient[:, :8] ** 2).sum(), (gradient**2).sum(), (bias**2).sum()]
    assert np.allclose(updates.gradient_energy(choices, batches), expected / 3, rtol=1e-4)


@pytest.mark.slow
def test_half_the_bytes_keep_what_is_gained_on_turned_digits() -> None:
    """At least 95% of what training everything gains, as a mean over seeds."""
    found = [row for seed in range(3) for row in outcomes("digits-cnn", 32, 90, 0.5, seed)]
    everything = [row for row in found if row.way == "everything"]
    plans = [row for row in found if row.way == "plan"]
    assert all(row.accuracy > 0.9 > 0.3 > row.before for row in everything)
    assert all(row.bytes_share <= 0.5 for row in plans)
    assert statistics.mean(row.gain_share for row in plans) >= 0.95


def test_calibration_batches_are_whole_and_differ() -> None:
    data = load_data("digits", build_model("mlp", 8, 0))
    batches = list(calibration_batches(data, 8, 4, 3))
    assert [x.shape for x, _ in batches] == [(8, 64)] * 4
    assert len({x.tobytes() for x, _ in batches}) == 4
    assert len(list(calibration_batches(data, len(data.x_train), 4, 3))) == 1


def test_nothing_fits() -> None:
    with pytest.raises(InfeasibleError, match="1,000 bytes are too few") as refusal:
        planned("mlp", UpdateBudget(size_bytes=1000), batch=8)
    least = refusal.value.minimum_budget_bytes
    assert least is not None
    _, plan = planned("mlp", UpdateBudget(size_bytes=least), batch=8)
    assert plan.needs.size_bytes <= least
    with pytest.raises(InfeasibleError, match="J are too few"):
        planned("mlp", UpdateBudget(energy_j=1e-9), batch=8)


def test_no_joules_are_too_few_for_the_solver() -> None:
    refusals = []
    for joules in (1e-320, 1e-30):
        with pytest.raises(InfeasibleError, match="too few: the s") as refusal:
            planned("mlp", UpdateBudget(energy_j=joules), batch=8)
        refusals.append(float(refusal.value.message.split()[-1]))
    _, plan = planned("mlp", UpdateBudget(energy_j=1.001 * refusals[0]), batch=8)
    assert refusals == pytest.approx([plan.needs.energy_j] * 2, rel=1e-3)


def test_no_share_is_too_small() -> None:
    for budget in (UpdateBudget(energy_share=1e-323), UpdateBudget(bytes_share=1e-323)):
        with pytest.raises(InfeasibleError, match="too few: the s"):
            planned("mlp", budget, batch=8)


def test_a_budget_may_be_larger_than_anything() -> None:
    _, plan = planned("mlp", UpdateBudget(10**18, 10**18, 1e15, 1e15, 1e15), batch=8)
    assert plan.needs == plan.full
    _, plan = planned("mlp", UpdateBudget(bytes_share=0.5, energy_j=1e15), batch=8)
    assert plan.needs.size_bytes <= 0.5 * plan.full.size_bytes


def plan_until(phase: str) -> Any:
    """A plan whose time passes when a phase begins."""
    now = [0.0]
    updates = updates_of("mlp", batch=8)
    data = load_data("digits", updates._model)

    def told(text: str) -> None:
        now[0] += 100.0 * text.startswith(phase)

    work = Work(deadline=Deadline(50.0, lambda: now[0]))
    batches = calibration_batches(data, 8, 4, 0)
    return updates.plan(UpdateBudget(bytes_share=0.7), batches, work, told)


def test_the_time_limit_ends_the_search_for_more() -> None:
    whole, no_trials, no_choice = map(plan_until, ("never", "trying", "choosing"))
    assert whole.rounds > no_trials.rounds >= no_choice.rounds == 1
    assert whole.score >= no_trials.score > no_choice.score


def test_the_time_limit_ends_calibration() -> None:
    updates = updates_of("mlp", batch=8)
    data, choices = load_data("digits", updates._model), updates.choices()
    batches = list(calibration_batches(data, 8, 3, 0))
    limited = updates.gradient_energy(choices, batches, Deadline(0.0))
    assert limited == updates.gradient_energy(choices, batches[:1])
    assert limited != updates.gradient_energy(choices, batches)


def test_the_time_limit_may_leave_nothing() -> None:
    with pytest.raises(
        InfeasibleError, match="time limit passed before the needs of the 15 choices"
    ) as refusal:
        plan_until("calculating")
    assert refusal.value.try_next[0].startswith("raise the time limit")


def test_the_work_of_measuring_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = planned("mlp", UpdateBudget(bytes_share=0.5), batch=32)[1]
    monkeypatch.setattr(update_plan, "_MEASURING_WORK", 1e-9)
    plan = planned("mlp", UpdateBudget(bytes_share=0.5), batch=32)[1]
    assert plan.rounds < whole.rounds
    assert plan.needs.size_bytes <= 0.5 * plan.full.size_bytes


def test_what_is_frozen_is_not_chosen() -> None:
    _, plan = planned("mlp", UpdateBudget(bytes_share=1), batch=8, freeze=("*.bias", "hidden2*"))
    assert plan.selection.parameters == {"hidden1.weight", "logits.weight"}
    with pytest.raises(ConfigError, match="are frozen"):
        updates_of("mlp", freeze=("*",))


def run(*arguments: str) -> Any:
    command = ["plan-update", "--board", "linux", "--model", "mlp", "--batch", "8"]
    return CliRunner().invoke(cli, [*command, *arguments])


def test_the_command_writes_what_train_takes(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    result = run("--bytes-fraction", "0.5", "--out", str(file), "--json")
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert answer["selection"] == json.loads(file.read_text())
    assert answer["needs"]["size_bytes"] <= 0.5 * answer["full"]["size_bytes"]
    chosen = [choice["parameter"] for choice in answer["choices"] if choice["chosen"]]
    assert chosen == [entry["parameter"] for entry in answer["selection"]["train"]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give either --budget-bytes, or --bytes-fraction, or --ram"),
        (("--ram", "9999", "--train", "bias"), "leave parameters out by --freeze"),
        (("--ram", "9999", "--out", "plan.toml"), "does not end in .json"),
        (("--bytes-fraction", "0"), "0.0 is not in the range x>0"),
        (("--bytes-fraction", "1e300"), "1e300 is more than"),
        (("--budget-bytes", "0"), "is not in the range x>=1"),
        (("--ram", "-1"), "is not"),
        (("--budget-joules", "nan"), "nan is not a finite number"),
        (("--joules-fraction", "-1e-30"), "is not in the range x>0"),
    ],
)
def test_usage(arguments: Sequence[str], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.output
