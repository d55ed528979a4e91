# SPDX-License-Identifier: Apache-2.0
"""Builds that store activations in a smaller form: what they report, and the weights they train."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from system.commands import succeed

LENET = ("--model", "lenet5", "--batch", "4", "--data", "synthetic", "--ram", "64M")
BUILD = ("build", "--board", "linux", *LENET)


def trained(folder: Path, *options: str) -> tuple[Any, Any, bytes]:
    folder.mkdir()
    built = succeed(*BUILD, *options, cwd=folder)
    run = succeed("run", "--steps", "2", "--verify", cwd=folder)
    assert run["verify"]["ok"]
    assert run["verify"]["ops"]["checked"] == run["computed"]
    file = folder / "trained.npz"
    exported = succeed("export-weights", "--as", "npz", "-o", str(file), cwd=folder)
    assert (exported["schema_version"], exported["format"]) == (1, "npz")
    return built["stored_as"], run["loss"], file.read_bytes()


@pytest.fixture(scope="module")
def floats(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any, bytes]:
    return trained(tmp_path_factory.mktemp("floats") / "build")


def test_exact_forms_train_the_same_weights(floats: Any, tmp_path: Path) -> None:
    stored, losses, weights = trained(tmp_path / "exact", "--store-as", "exact")
    assert floats[0] is None
    assert stored["form"] == "exact"
    assert stored["after_bytes"] < stored["before_bytes"]
    assert stored["gradient_error"] == 0
    assert (losses, weights) == floats[1:]


def test_halves_change_the_gradients_and_not_the_first_loss(floats: Any, tmp_path: Path) -> None:
    stored, losses, weights = trained(tmp_path / "halves", "--store-as", "float16")
    assert stored["after_bytes"] < stored["before_bytes"]
    assert 0 < stored["gradient_error"] < 1e-3
    assert losses[0] == floats[1][0]
    assert weights != floats[2]


def test_a_build_says_what_the_form_saves_beside_floats(floats: Any, tmp_path: Path) -> None:
    batch, ram = ("--batch", "8", "--generate-only"), ("--ram", "840000")
    stored = succeed(*BUILD, *batch, *ram, "--store-as", "exact", cwd=tmp_path)
    beside = stored["stored_as"]["floats"]
    kept = succeed(*BUILD, *batch, cwd=tmp_path)
    assert beside["peak_bytes"] == kept["checkpoint_all_peak_bytes"]
    assert beside["peak_bytes"] > stored["checkpoint_all_peak_bytes"]
    assert beside["energy_j"] == pytest.approx(kept["schedule"]["energy_j"])
    within = succeed(*BUILD, *batch, *ram, cwd=tmp_path)
    assert within["schedule"]["recomputes"] + within["schedule"]["page_ins"] > 0
    assert beside["in_budget_j"] == pytest.approx(within["schedule"]["energy_j"], rel=0.05)
    assert stored["stored_as"]["everything_j"] <= stored["schedule"]["energy_j"] * (1 + 1e-9)
