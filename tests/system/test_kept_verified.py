# SPDX-License-Identifier: Apache-2.0
"""Kept features on the command line: what is built, verified over epochs, and exported."""

from __future__ import annotations

from pathlib import Path

import pytest

from system.commands import poetfw, succeed

SETTINGS = ("--board", "linux", "--model", "mlp", "--train", "last:1", "--batch", "64")


@pytest.mark.slow
def test_epochs_that_read_features_are_verified_bit_by_bit(tmp_path: Path) -> None:
    report = succeed("build", *SETTINGS, "--keep-features", "storage", cwd=tmp_path)
    features = report["features"]
    assert features["kept"]
    assert features["storage_bytes"] == report["train_samples"] * 512
    run = succeed("run", "--steps", "50", "--verify", cwd=tmp_path)  # of 22 an epoch
    assert run["verify"]["ok"]
    assert run["verify"]["bit_identical_to_traced"], "the traced run calculates them in all epochs"


def test_where_everything_trains_no_features_can_be_kept(tmp_path: Path) -> None:
    settings = ("--board", "nrf52840", "--model", "mlp", "--keep-features", "storage")
    result = poetfw("build", *settings, cwd=tmp_path)
    assert result.code == 1
    assert "--keep-features storage: the training step has no features" in result.stderr
    assert not list(tmp_path.iterdir())
