# SPDX-License-Identifier: Apache-2.0
"""When training ends by itself, and what of it is kept and written down."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from poetfw.common.errors import ConfigError, DeviceError, OutputError
from poetfw.firmware import RunRequest
from poetfw.report import Evaluation, RunReport
from poetfw.runs import running
from poetfw.runs.execution import BuiltProject
from poetfw.runs.running import metrics_csv
from poetfw.settings import RunSettings
from poetfw.tools import RunLog


class Epochs:
    """A project of 10 samples in batches of 2, whose epochs come to given metrics."""

    def __init__(self, folder: Path, metrics: list[float], classifies: bool = True) -> None:
        report = SimpleNamespace(
            train_samples=11, batch=2, held_out_samples=10, classifies=classifies
        )
        machine = SimpleNamespace(machine=None)
        self.project = cast(
            BuiltProject,
            SimpleNamespace(
                folder=folder, report=report, evaluations=1, twin=machine, runnable=0, image=0
            ),
        )
        self.metrics = metrics
        self.asked: list[tuple[int, bool]] = []

    def execute(
        self, machine: Any, elf: Any, image: Any, folder: Path, request: RunRequest, *rest: Any,
        resume: bool, silence_s: float,
    ) -> RunLog:  # fmt: skip
        before = self.asked[-1][0] if self.asked else 0
        self.asked.append((request.steps, resume))
        folder.mkdir(exist_ok=True)
        (folder / "storage.img").write_text(f"after {request.steps}")
        losses = tuple(float(step) for step in range(before + 1, request.steps + 1))
        return RunLog(
            losses,
            (self.metrics[len(self.asked) - 1],),
            ticks=10,
            tick_unit="instructions",
            high_water_bytes=100 - len(self.asked),
            stack_high_water_bytes=len(self.asked),
            storage_bytes_read=1,
            storage_bytes_written=2,
            resumed_from=before,
        )


def train(
    monkeypatch: pytest.MonkeyPatch, epochs: Epochs, patience: int, steps: int
) -> tuple[RunLog, tuple[Evaluation, ...]]:
    monkeypatch.setattr(running, "execute", epochs.execute)
    settings = RunSettings(patience=patience)
    request = RunRequest(steps, 0)
    return running._train_by_epochs(epochs.project, request, settings, lambda event: None)


@pytest.mark.parametrize(
    ("metrics", "patience", "epochs", "kept"),
    [
        ([5, 6, 6, 5], 2, 4, 10),
        ([5, 6, 6, 7, 1, 1], 2, 6, 20),
        ([5, 4, 4, 4], 1, 2, 5),
        ([5, 6, 7, 8, 9, 9, 9], 9, 7, 25),
    ],
)
def test_it_ends_after_so_many_epochs_that_were_no_better(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    metrics: list[float],
    patience: int,
    epochs: int,
    kept: int,
):
    scripted = Epochs(tmp_path, metrics)
    log, evaluations = train(monkeypatch, scripted, patience, 33)
    ends = [5, 10, 15, 20, 25, 30, 33][:epochs]
    assert scripted.asked == [(end, end > 5) for end in ends]
    assert [each.step for each in evaluations] == ends
    assert [each.accuracy for each in evaluations] == [metric / 10 for metric in metrics[:epochs]]
    assert log.losses == tuple(range(1, ends[-1] + 1))
    assert log.metrics == (max(metrics[:epochs]),)
    assert (log.ticks, log.storage_bytes_read, log.storage_bytes_written) == (
        10 * epochs,
        epochs,
        2 * epochs,
    )
    assert (log.high_water_bytes, log.stack_high_water_bytes, log.resumed_from) == (99, epochs, 0)
    assert (tmp_path / "run" / "storage.img").read_text() == f"after {kept}"
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["storage.img"]


def test_a_smaller_error_is_better(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    epochs = Epochs(tmp_path, [0.5, 0.25, 0.25, 0.75], classifies=False)
    _, evaluations = train(monkeypatch, epochs, 2, 50)
    assert [each.held_out_loss for each in evaluations] == [0.5, 0.25, 0.25, 0.75]
    assert (tmp_path / "run" / "storage.img").read_text() == "after 10"


def test_more_correct_answers_than_samples_are_no_accuracy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with pytest.raises(DeviceError, match="11 correct answers of 10"):
        train(monkeypatch, Epochs(tmp_path, [11]), 1, 5)


def test_without_held_out_samples_there_is_nothing_to_wait_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    epochs = Epochs(tmp_path, [])
    epochs.project.evaluations = 0  # type: ignore[misc]
    with pytest.raises(ConfigError, match="--patience needs held-out samples"):
        train(monkeypatch, epochs, 1, 5)


def test_an_image_that_cannot_be_kept_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "run" / "best.img").mkdir(parents=True)
    with pytest.raises(OutputError, match=r"best\.img cannot be written"):
        train(monkeypatch, Epochs(tmp_path, [1]), 1, 5)


def report_of(**fields: object) -> RunReport:
    """As much of a report as metrics are written from."""
    report = SimpleNamespace(**fields)
    report.metric_name = RunReport.metric_name.fget(report)  # type: ignore[attr-defined]
    return cast(RunReport, report)


def test_metrics_are_a_line_for_each_step():
    report = report_of(
        loss=(0.5, 0.25, 0.1),
        resumed_from=4,
        accuracy=0.75,
        evaluations=(Evaluation(5, 0.5, None), Evaluation(7, 0.75, None)),
    )
    assert metrics_csv(report) == b"step,loss,accuracy\n5,0.5,0.5\n6,0.25,\n7,0.1,0.75\n"
    error = report_of(
        loss=(0.5,), resumed_from=0, accuracy=None, evaluations=(Evaluation(1, None, 0.125),)
    )
    assert metrics_csv(error) == b"step,loss,held_out_loss\n1,0.5,0.125\n"
