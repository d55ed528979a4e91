# SPDX-License-Identifier: Apache-2.0
"""Networks beyond the RAM train with weights streamed from storage, to the same bits."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from poetfw.cli.build import _streaming_rows
from poetfw.report import StreamingReport
from system.commands import interrupted, needs_twin, poetfw, succeed
from system.test_linux import trained_slots

LINUX = ("--board", "linux", "--model", "mlp")
TIGHT = ("--ram", "24K")
"""Less than the weights of `mlp` and their momenta take."""


def exported(folder: Path, name: str) -> dict[str, Any]:
    """The trained weights of a run."""
    succeed("export-weights", "--board", "linux", "-o", name, cwd=folder)
    with np.load(folder / name) as weights:
        return dict(weights)


@pytest.mark.parametrize(
    "optimizer",
    [
        "--optimizer sgd --momentum 0",
        "--optimizer sgd --momentum 0.9 --batch 8",
        "--optimizer adam --schedule cosine:4 --micro-batch 8",
    ],
)
def test_streamed_weights_train_to_the_bits_of_weights_in_ram(
    tmp_path: Path, optimizer: str
) -> None:
    options = (*LINUX, *optimizer.split(), "--data", "synthetic", "--checkpoint-every", "2")
    run = ("run", "--board", "linux", "--steps", "5")
    trained = []
    for budget in (("--ram", "64M"), TIGHT):
        build = succeed("build", *options, *budget, cwd=tmp_path)
        report = succeed(*run, *(("--verify",) if budget is TIGHT else ()), cwd=tmp_path)
        trained.append((report["loss"], exported(tmp_path, "weights.npz"), report["accuracy"]))
    streaming = build["streaming"]
    assert build["peak_bytes"] <= build["budget_bytes"] == 24 * 1024 < streaming["streamed_bytes"]
    assert report["verify"]["ok"], report["verify"]["missed"]
    assert report["verify"]["bit_identical_to_unscheduled"]
    assert report["high_water_bytes"] <= build["peak_bytes"]
    for planned, counted in (
        ("planned_requests", "storage_requests"),
        ("planned_bytes", "storage_bytes"),
    ):
        if planned in report:
            assert report[planned] == report[counted]
    (losses, weights, accuracy), (same_losses, same_weights, same_accuracy) = trained
    assert (losses, accuracy) == (same_losses, same_accuracy)
    assert weights.keys() == same_weights.keys()
    for name, value in weights.items():
        assert value.tobytes() == same_weights[name].tobytes(), name

    slots = trained_slots(tmp_path)
    succeed("run", "--board", "linux", "--steps", "3", cwd=tmp_path)
    resumed = succeed(*run, "--resume", cwd=tmp_path)
    assert (resumed["resumed_from"], resumed["loss"]) == (3, losses[3:])
    assert trained_slots(tmp_path) == slots


@pytest.mark.slow
def test_a_run_that_is_interrupted_within_a_step_resumes_to_the_same_bits(tmp_path: Path) -> None:
    succeed("build", *LINUX, *TIGHT, "--batch", "8", "--checkpoint-every", "1", cwd=tmp_path)
    run = ("run", "--board", "linux", "--steps", "300")
    whole = succeed(*run, cwd=tmp_path)
    weights = exported(tmp_path, "whole.npz")
    said = interrupted(*run, after="loss", cwd=tmp_path, delay_s=0.7)
    assert "interrupted" in said
    resumed = succeed(*run, "--resume", cwd=tmp_path)
    assert 0 < resumed["resumed_from"] < 300
    assert resumed["loss"] == whole["loss"][resumed["resumed_from"] :]
    assert all(v.tobytes() == weights[n].tobytes() for n, v in exported(tmp_path, "r.npz").items())


@pytest.mark.parametrize(("step_s", "says"), [(3.5, False), (3.7, True)])
def test_a_build_says_what_is_faster_where_an_epoch_takes_an_hour(
    step_s: float, says: bool
) -> None:
    streaming = StreamingReport(
        tensors=("w",),
        streamed_bytes=8,
        resident_bytes=8,
        requests=2,
        read_bytes=512,
        written_bytes=512,
        energy_j=0.1,
        time_s=0.1,
        epoch_steps=1000,
        rewrites=1.0,
    )
    rows = dict(_streaming_rows(streaming, 0, step_s))
    assert ("faster instead" in rows) == says
    assert "frozen weights" not in rows
    frozen = replace(streaming, tensors=(), streamed_bytes=0, constants=("c",), constant_bytes=4096)
    rows = dict(_streaming_rows(frozen, 1024, step_s))
    assert rows["frozen weights"] == "1,024 B in flash, 4,096 B streamed from storage"
    assert "faster instead" not in rows  # what could be frozen is


def test_what_fits_is_not_streamed(tmp_path: Path) -> None:
    build = succeed("build", *LINUX, "--ram", "64M", "--generate-only", cwd=tmp_path)
    assert build["streaming"] is None
    slots = json.loads((tmp_path / "build/linux/slots.json").read_text())["slots"]
    assert all("tiling" not in slot for slot in slots)


def test_a_schedule_streams_as_a_build_does(tmp_path: Path) -> None:
    options = (*LINUX, *TIGHT, "--batch", "8")
    build = succeed("build", *options, "--generate-only", cwd=tmp_path)
    schedule = succeed("schedule", *options, cwd=tmp_path)
    assert build["streaming"]["streamed_bytes"] > 0
    assert schedule["energy_j"] == build["schedule"]["energy_j"]
    assert schedule["peak_bytes"] == build["schedule"]["peak_bytes"] <= 24 * 1024


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ((*LINUX, "--ram", "1000"), "Op '"),
        ((*LINUX, *TIGHT, "--weights-in-flash"), "cannot be streamed from storage: --weights-in"),
        ((*LINUX, *TIGHT, "--clip-norm", "1"), "Op 'hidden1.weight.update' needs"),
        (("--board", "nrf52840:qspi", "--model", "mlp", *TIGHT), "erased by sectors"),
    ],
)
def test_what_cannot_be_streamed_is_said(
    tmp_path: Path, options: tuple[str, ...], says: str
) -> None:
    refused = poetfw("build", *options, "--generate-only", "--json", cwd=tmp_path)
    assert refused.code == 5
    assert says in refused.json["error"]["message"]


@pytest.mark.slow
@needs_twin
@pytest.mark.parametrize(
    ("board", "model", "batch"),
    [
        ("nrf52840", "resnet8", 1),
        ("nrf52840", "ds-cnn", 1),
        ("nrf52840", "autoencoder", 2),
        ("mkr1000", "autoencoder", 2),
    ],
)
def test_networks_of_mlperf_tiny_train_beyond_the_ram(
    tmp_path: Path, board: str, model: str, batch: int
) -> None:
    options = ("--model", model, "--batch", str(batch), "--data", "synthetic")
    build = succeed("build", "--board", board, *options, cwd=tmp_path, timeout_s=1200)
    run = succeed("run", "--board", board, "--steps", "2", "--verify", cwd=tmp_path, timeout_s=2400)
    assert build["streaming"]["streamed_bytes"] > 0
    assert run["verify"]["ok"], run["verify"]["missed"]
    if board == "nrf52840":  # whose core has prices in instructions
        assert run["planned_instructions"] == pytest.approx(run["step_instructions"], rel=0.03)
