# SPDX-License-Identifier: Apache-2.0
"""What POET's paper leaves out of a problem, and what it keeps."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from poetfw.schedule import (
    Node,
    ScheduleProblem,
    as_published,
    checkpoint_all_schedule,
    simulate,
    solve,
)
from unit.schedule.schedule_problems import STORAGE, chain, plan


def _training_step() -> ScheduleProblem:
    """x -> y; their gradients; dw is read by the update alone, dy by two nodes."""
    return ScheduleProblem(
        "step",
        10_000,
        None,
        STORAGE,
        (
            Node("x", (), 1.0, 1.0, 100),
            Node("y", ("x",), 1.0, 1.0, 100, workspace_bytes=70, in_place="x"),
            Node("dy", ("y",), 1.0, 1.0, 100, backward=True),
            Node("dw", ("dy", "x"), 1.0, 1.0, 400, backward=True),
            Node("update", ("dw",), 1.0, 1.0, 0, recompute=False, page=False, backward=True),
            Node("dx", ("dy", "x"), 1.0, 1.0, 100, backward=True),
        ),
    )


def test_weight_gradients_take_no_ram_and_others_do() -> None:
    sizes = {node.name: node.output_bytes for node in as_published(_training_step()).nodes}
    assert sizes == {"x": 100, "y": 100, "dy": 100, "dw": 0, "update": 0, "dx": 100}


def test_what_nobody_reads_keeps_its_bytes() -> None:
    assert as_published(chain()).nodes[3].output_bytes == 0  # only `e`, a side effect, reads it
    alone = replace(chain(), nodes=chain().nodes[:4])
    assert as_published(alone).nodes[3].output_bytes == 100


def test_no_workspace_and_nothing_in_place() -> None:
    nodes = as_published(_training_step()).nodes
    assert {node.workspace_bytes for node in nodes} == {0}
    assert {node.in_place for node in nodes} == {None}


def test_costs_of_ops_and_energy_of_paging_stay() -> None:
    problem = as_published(chain())
    simulation = simulate(problem, plan("a -a b /a c /b +a d /a /c e"))
    assert simulation.compute_energy_j == 15.0
    # 100 bytes, not two blocks of 64, each way, and the energy of beginning.
    assert simulation.paging_energy_j == pytest.approx(0.25 + 0.1 + 0.5 + 0.2)


def test_paging_takes_no_time() -> None:
    problem = as_published(chain())
    assert simulate(problem, plan("a -a b /a c /b +a d /a /c e")).time_s == 15.0
    assert problem.storage is not None
    assert problem.storage.page_in_time_s(10**12) == 0.0


def test_a_deadline_bounds_computing_alone() -> None:
    tight = replace(as_published(chain(550)), deadline_s=15.0)
    schedule = solve(tight, "poet-remat-off")
    assert schedule.page_ins == 1
    assert schedule.time_s == 15.0
    assert math.isclose(schedule.energy_j, 15.0 + schedule.paging_energy_j)


def test_a_board_without_storage_stays_one() -> None:
    assert as_published(chain(storage=None)).storage is None


def test_training_takes_less_ram_under_it() -> None:
    problem = _training_step()
    published = checkpoint_all_schedule(as_published(problem))
    assert published.peak_bytes < checkpoint_all_schedule(problem).peak_bytes
    assert published.energy_j == 6.0
