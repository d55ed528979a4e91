# SPDX-License-Identifier: Apache-2.0
"""What a build that fits badly says of more RAM."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from poetfw.common.limits import Deadline
from poetfw.pipeline import plan_build
from poetfw.planning import BuildSettings, saved_by_more_ram
from system.commands import poetfw

MLP = BuildSettings("nrf52840", "mlp", batch=8, ram_bytes=58_000, work_limit=0.3)


def test_more_ram_saves_at_least_half_of_the_overhead() -> None:
    build = plan_build(MLP, lambda _: None)
    least_j = build.checkpoint_all.training.energy_j
    assert build.plan.training.energy_j > 1.1 * least_j
    more, curve = saved_by_more_ram(build, MLP, Deadline())
    assert more is not None
    assert more.energy_j <= (build.plan.training.energy_j + least_j) / 2
    assert more.saved == pytest.approx(1 - more.energy_j / build.plan.training.energy_j)
    larger = BuildSettings(
        "nrf52840", "mlp", batch=8, ram_bytes=MLP.ram_bytes + more.size_bytes, work_limit=0.3
    )
    again = plan_build(larger, lambda _: None)
    assert again.plan.training.energy_j <= more.energy_j * (1 + 1e-9)
    budgets = [point.budget_bytes for point in curve]
    assert budgets[0] == MLP.ram_bytes
    assert budgets[-1] == build.checkpoint_all.memory.arena_bytes
    assert budgets == sorted(set(budgets))
    energies = [point.energy_j for point in curve]
    assert energies == sorted(energies, reverse=True)
    assert energies[0] == build.plan.training.energy_j
    assert energies[-1] == pytest.approx(least_j)
    assert more.energy_j in energies


def test_a_build_that_fits_says_nothing_of_more_ram() -> None:
    settings = BuildSettings(
        "nrf52840", "mlp", batch=8, ram_bytes=200_000, scheduler="checkpoint-all"
    )
    saves = saved_by_more_ram(plan_build(settings, lambda _: None), settings, Deadline())
    assert saves.more_ram is None
    assert [point.budget_bytes for point in saves.ram_curve] == [200_000]


def test_table_and_report_of_a_build_say_what_more_ram_would_save(tmp_path: Path) -> None:
    options = ("--board", "nrf52840", "--model", "mlp", "--batch", "8", "--ram", "58000")
    command = ("build", *options, "--work-limit", "0.3", "--generate-only")
    shown = poetfw(*command, cwd=tmp_path).stdout
    written = json.loads((tmp_path / "build/nrf52840/build.json").read_text())["more_ram"]
    (row,) = re.findall(r"│ more RAM +│ (.+?) +│", shown)
    assert row == f"{written['size_bytes']:,} B more would save {written['saved']:.1%}"
    assert written["saved"] > 0.01
    assert poetfw(*command, "--json", cwd=tmp_path).json["more_ram"] == written
