# SPDX-License-Identifier: Apache-2.0
"""Events for TensorBoard: what they need is missed before a run, and steps count on."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from poetfw.common.errors import ToolError
from poetfw.report.event_files import check_events_folder, write_events


def test_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(ToolError, match="tensorboardX, which is not installed") as refused:
        check_events_folder(tmp_path / "logs")
    assert refused.value.try_next == ("pip install 'poetfw[tensorboard]'",)
    assert not (tmp_path / "logs").exists()


def test_steps_of_a_resumed_run_count_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[tuple[str, float, int]] = []

    @contextmanager
    def writer(folder: str) -> Any:
        assert folder == str(tmp_path)
        yield SimpleNamespace(add_scalar=lambda *event: written.append(event))

    monkeypatch.setitem(sys.modules, "tensorboardX", SimpleNamespace(SummaryWriter=writer))
    evaluated = [SimpleNamespace(step=12, accuracy=0.5)]
    report: Any = SimpleNamespace(
        metric_name="accuracy", loss=[3.0, 2.0], resumed_from=10, evaluations=evaluated
    )
    write_events(tmp_path, report)
    assert written == [("loss", 3.0, 11), ("loss", 2.0, 12), ("accuracy", 0.5, 12)]
