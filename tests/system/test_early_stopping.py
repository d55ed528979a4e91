# SPDX-License-Identifier: Apache-2.0
"""`poetfw run --patience` and `--metrics`."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from system.commands import ON_LINUX, poetfw, succeed
from system.test_linux import trained_slots

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network that overfits at once: it has 64 samples to train with, of noise."""
    import numpy as np

    folder = tmp_path_factory.mktemp("early")
    random = np.random.default_rng(0)
    x, y = random.standard_normal((104, 64)), np.arange(104) % 10
    np.savez(folder / "noise.npz", x=x[:64], y=y[:64], x_test=x[64:], y_test=y[64:])
    options = ("--data", "noise.npz", "--batch", "16", "--learning-rate", "0.05")
    succeed("build", *ON_LINUX, "--model", "mlp", *options, cwd=folder)
    return folder


def run(folder: Path, *arguments: str) -> Any:
    return succeed("run", "--board", "linux", *arguments, cwd=folder)


def test_training_ends_when_held_out_samples_get_no_better(built: Path) -> None:
    report = run(built, "--epochs", "30", "--patience", "3", "--metrics", "early.csv")
    accuracies = [each["accuracy"] for each in report["evaluations"]]
    best = accuracies.index(max(accuracies))
    assert len(accuracies) == best + 1 + 3 < 30
    assert [each["step"] for each in report["evaluations"]] == [
        4 * epoch for epoch in range(1, len(accuracies) + 1)
    ]
    assert (report["steps"], report["accuracy"]) == (4 * (best + 1), max(accuracies))
    weights = trained_slots(built)
    assert not (built / "build/linux/run/best.img").exists()

    whole = run(built, "--steps", str(report["steps"]))
    assert whole["loss"] == report["loss"][: report["steps"]]
    assert whole["accuracy"] == report["accuracy"]
    assert trained_slots(built) == weights


def test_the_metrics_are_a_line_for_each_step(built: Path) -> None:
    report = run(built, "--epochs", "3", "--patience", "9", "--metrics", "all.csv")
    with (built / "all.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["step"]) for row in rows] == list(range(1, 13))
    assert [float(row["loss"]) for row in rows] == report["loss"]
    evaluated = {int(row["step"]): float(row["accuracy"]) for row in rows if row["accuracy"]}
    assert evaluated == {each["step"]: each["accuracy"] for each in report["evaluations"]}
    assert list(evaluated) == [4, 8, 12]


def test_tensorboard_reads_the_same_metrics(built: Path) -> None:
    pytest.importorskip("tensorboardX", reason="needs the extra `tensorboard`")
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="needs tensorboard"
    )
    options = "--epochs 3 --patience 9 --tensorboard logs/first"
    report = run(built, *options.split())
    events = accumulator.EventAccumulator(str(built / "logs/first")).Reload()
    assert set(events.Tags()["scalars"]) == {"loss", "accuracy"}
    losses, accuracies = events.Scalars("loss"), events.Scalars("accuracy")
    assert [each.step for each in losses] == list(range(1, 13))
    assert [each.value for each in losses] == report["loss"]
    assert [(each.step, each.value) for each in accuracies] == [
        (each["step"], pytest.approx(each["accuracy"], rel=1e-7)) for each in report["evaluations"]
    ]


def test_a_folder_of_events_that_cannot_be_is_found_before_the_run(built: Path) -> None:
    (built / "file").write_text("")
    refused = poetfw("run", "--board", "linux", "--tensorboard", "file/logs", cwd=built)
    assert refused.code == 1
    assert "cannot write file/logs" in refused.stderr or "tensorboardX" in refused.stderr
    assert "training" not in refused.stderr


def test_what_does_not_go_together_is_refused(built: Path) -> None:
    for other in ("--verify", "--resume", "--on-board"):
        refused = poetfw("run", "--board", "linux", "--patience", "2", other, cwd=built)
        assert refused.code == 2
        assert "--patience does not go with" in refused.stderr
    refused = poetfw("run", "--board", "linux", "--metrics", "none/here.csv", cwd=built)
    assert refused.code == 1
    assert "cannot write none/here.csv" in refused.stderr
