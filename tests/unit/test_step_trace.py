# SPDX-License-Identifier: Apache-2.0
"""Statements of a step that is timed, and what a host is asked before a program goes there."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from poetfw.boards import load_board
from poetfw.common.errors import BoardError
from poetfw.firmware import write_project
from poetfw.firmware.step_ticks import timed_project
from poetfw.runs.remote import flash
from poetfw.runs.step_trace import _untimed
from poetfw.schedule import Step, StepKind
from unit.report.html_projects import tight


def test_a_computation_is_called_by_its_operator_and_a_transfer_by_its_kind() -> None:
    found = [_untimed(3, Step(kind, "a"), "relu") for kind in (StepKind.COMPUTE, StepKind.PAGE_OUT)]
    assert [step.operator for step in found] == ["relu", str(StepKind.PAGE_OUT)]


def test_a_timed_project_differs_in_what_times(tmp_path: Path) -> None:
    write_project(tight().project, tmp_path)
    before, timed = tight().project.files, timed_project(tmp_path, load_board("nrf52840")).files
    changed = {path for path in before.keys() & timed.keys() if before[path] != timed[path]}
    assert {"src/main.c", "lib/poetfw/runtime/statement.h"} <= changed
    assert before["lib/poetfw/generated/train_step.c"] == timed["lib/poetfw/generated/train_step.c"]


def test_a_host_is_not_given_the_program_of_a_bare_board() -> None:
    project: Any = SimpleNamespace(board=load_board("nrf52840"))
    host: Any = SimpleNamespace(name="pi")
    with pytest.raises(BoardError, match="'nrf52840' is not a program that a host could run"):
        flash(project, host, lambda text: None)


def test_a_host_is_sent_the_program_then_the_image(monkeypatch: pytest.MonkeyPatch) -> None:
    project: Any = SimpleNamespace(board=load_board("rpi4"), flashable="elf", image="image")
    told: list[tuple[Any, ...]] = []
    host: Any = SimpleNamespace(send=lambda file, *where: told.append((file, *where)))
    monkeypatch.setattr("poetfw.runs.remote._check_processor", lambda *_: None)
    flash(project, host, lambda done, total, text: told.append((done, total)))
    assert told == [
        (0, 2),
        ("elf", "poetfw/rpi4", "firmware.elf", 0o755),
        (1, 2),
        ("image", "poetfw/rpi4", "storage.img", 0o644),
        (2, 2),
    ]
