# SPDX-License-Identifier: Apache-2.0
"""Clipping by the global norm: what waits for what, and what it does to the gradients."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from poetfw.ir import Role
from poetfw.models import build_model
from poetfw.planning import BuildSettings, load_schedule_problem
from poetfw.schedule import simulate, solve
from poetfw.training import Program, Reference, Sgd, make_program


def program_of(clip_norm: float | None, model: str = "mlp", momentum: float = 0.0) -> Program:
    built = build_model(model, 4, 0)
    sgd = Sgd(learning_rate=1.0, momentum=momentum, clip_norm=clip_norm)
    return make_program(built.graph, built.loss, sgd)


def steps_of(program: Program, count: int = 1) -> list[dict[str, np.ndarray]]:
    """The parameters' changes in each step."""
    built = build_model("mlp", 4, 0)
    reference = Reference(program, built.weights)
    random = np.random.default_rng(0)
    changes = []
    for _ in range(count):
        before = {name: value.copy() for name, value in reference.persistent.items()}
        reference.step(random.normal(size=program.x.members[0].shape), random.integers(0, 10, 4))
        changes.append(
            {
                tensor.name: reference.persistent[tensor.name] - before[tensor.name]
                for tensor in built.graph.with_role(Role.PARAMETER)
            }
        )
    return changes


def norm(tensors: dict[str, np.ndarray]) -> float:
    return float(np.sqrt(sum(np.square(value).sum() for value in tensors.values())))


def test_every_update_waits_for_every_gradient() -> None:
    training = program_of(0.5, "digits-cnn").training
    (factor,) = (i for i, op in enumerate(training.ops) if op.kind == "clip_factor")
    kinds = [op.kind for op in training.ops]
    parameters = len(training.with_role(Role.PARAMETER))
    assert kinds[:factor].count("square_sum") == parameters
    assert kinds[factor + 1 :] == ["sgd"] * parameters
    assert all(op.inputs[1] == training.ops[factor].output for op in training.ops[factor + 1 :])


def test_the_sum_of_squares_has_one_order() -> None:
    sums = [op for op in program_of(0.5).training.ops if op.kind == "square_sum"]
    assert len(sums[0].inputs) == 1
    assert [op.inputs[1] for op in sums[1:]] == [op.output for op in sums[:-1]]


def test_a_long_gradient_is_scaled_to_the_norm() -> None:
    (free,) = steps_of(program_of(None))
    assert norm(free) > 0.01
    (clipped,) = steps_of(program_of(0.01))
    assert norm(clipped) == pytest.approx(0.01 / (1 + 1e-6 / norm(free)), rel=1e-9)
    for name, change in clipped.items():
        assert change * norm(free) == pytest.approx(free[name] * norm(clipped))


def test_a_short_gradient_is_left_as_it_is() -> None:
    for free, clipped in zip(
        steps_of(program_of(None), 3), steps_of(program_of(1e6), 3), strict=True
    ):
        assert all((clipped[name] == change).all() for name, change in free.items())


def test_the_sum_starts_anew_in_every_step() -> None:
    for change in steps_of(program_of(0.01), 3):
        assert norm(change) == pytest.approx(0.01, rel=1e-3)


def test_a_fused_update_is_taken_apart() -> None:
    """An embedding's gradient must be stored, because its update waits."""
    kinds = [op.kind for op in program_of(0.5, "bert-mini").training.ops]
    assert "embedding_backward" in kinds
    assert "embedding_backward_sgd" not in kinds


@pytest.mark.parametrize("scheduler", ["checkpoint-all", "poet-remat-off", "poet"])
def test_schedules_keep_or_page_the_gradients(scheduler: str) -> None:
    """Whatever the budget leaves room for, the simulator finds each update's gradient in RAM."""
    settings = BuildSettings("linux", "mlp", clip_norm=0.5)
    problem = load_schedule_problem(settings)
    everything = solve(problem, "checkpoint-all")
    if scheduler != "checkpoint-all":
        problem = replace(problem, ram_bytes=everything.peak_bytes * 9 // 10)
    schedule = solve(problem, scheduler)
    assert simulate(problem, schedule.plan).peak_bytes == schedule.peak_bytes <= problem.ram_bytes
