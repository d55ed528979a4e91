# SPDX-License-Identifier: Apache-2.0
"""What a build tells while it searches."""

from __future__ import annotations

from poetfw.pipeline import plan_build
from poetfw.planning import BuildSettings
from poetfw.schedule import SearchProgress


def test_a_build_tells_of_each_better_plan_and_bound() -> None:
    told: list[SearchProgress] = []
    settings = BuildSettings(board="linux", batch=4, ram_bytes=48_000)
    build = plan_build(settings, progress=lambda text: None, tell=told.append)
    training = build.plan.training
    assert told[-1].energy_j == training.energy_j
    assert told[-1].bound_j == training.bound_j
    energies = [progress.energy_j for progress in told]
    assert energies == sorted(energies, reverse=True)
    assert len({progress.phase for progress in told}) > 1
