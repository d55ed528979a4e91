# SPDX-License-Identifier: Apache-2.0
"""Networks whose activations exceed the RAM train with these in storage, to the same bits."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from poetfw import open as open_firmware
from poetfw.boards import Board
from poetfw.common.resources import boards_dir
from poetfw.firmware import LIBRARY
from poetfw.runs import verification
from poetfw.runs.execution import BuiltProject
from poetfw.runs.verification import with_reference_ram
from system.commands import needs_twin, poetfw, succeed
from system.test_linux import trained_slots

LINUX = ("--board", "linux", "--model", "digits-cnn", "--data", "synthetic", "--batch", "1")
RUN = ("run", "--board", "linux", "--steps", "4")
OPTIMIZERS = ("--optimizer sgd --momentum 0.9", "--optimizer adam --schedule cosine:4")


def trained(folder: Path, name: str) -> dict[str, bytes]:
    """Bytes of the trained weights of a run, by name."""
    succeed("export-weights", "--board", "linux", "-o", name, cwd=folder)
    with np.load(folder / name) as weights:
        return {key: weights[key].tobytes() for key in weights}


def options_of(optimizer: str) -> tuple[str, ...]:
    return (*LINUX, *optimizer.split(), "--checkpoint-every", "2")


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Callable[[tuple[str, ...], int], Any]:
    """Makes builds within small budgets, each once: folder and report."""

    @cache
    def build(options: tuple[str, ...], budget_bytes: int) -> tuple[Path, Any]:
        folder = tmp_path_factory.mktemp("stored")
        return folder, succeed("build", *options, "--ram", str(budget_bytes), cwd=folder)

    return build


@pytest.fixture(scope="module", params=OPTIMIZERS)
def plenty(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[tuple[str, ...], Any, dict[str, bytes]]:
    """Options of a build; its run and its weights with all tensors in RAM."""
    folder = tmp_path_factory.mktemp("plenty")
    options = options_of(request.param)
    build = succeed("build", *options, "--ram", "64M", cwd=folder)
    assert build["streaming"] is None
    run = succeed(*RUN, cwd=folder)
    return options, run, trained(folder, "weights.npz")


@pytest.mark.parametrize("budget_bytes", [7000, 5000])
def test_stored_tensors_train_to_the_bits_of_tensors_in_ram(
    stored: Callable[[tuple[str, ...], int], Any],
    plenty: tuple[tuple[str, ...], Any, dict[str, bytes]],
    budget_bytes: int,
) -> None:
    options, in_ram, weights = plenty
    folder, build = stored(options, budget_bytes)
    storing = build["streaming"]
    assert build["peak_bytes"] <= budget_bytes == build["budget_bytes"]
    assert storing["stored_bytes"] > 0
    assert len(storing["stored"]) == len(set(storing["stored"]))
    run = succeed(*RUN, "--verify", cwd=folder)
    assert run["verify"]["ok"], run["verify"]["missed"]
    assert run["verify"]["bit_identical_to_unscheduled"]
    assert run["high_water_bytes"] <= build["peak_bytes"]
    (memory,) = run["memories"].values()
    assert memory["step_traffic"] == memory["planned_traffic"]
    assert (run["loss"], run["accuracy"]) == (in_ram["loss"], in_ram["accuracy"])
    assert trained(folder, "weights.npz") == weights

    slots = trained_slots(folder)
    succeed("run", "--board", "linux", "--steps", "3", cwd=folder)
    resumed = succeed(*RUN, "--resume", cwd=folder)
    assert (resumed["resumed_from"], resumed["loss"]) == (3, run["loss"][3:])
    assert trained_slots(folder) == slots


def test_an_encoder_as_pytorch_exports_it_trains_beyond_the_ram(tmp_path: Path) -> None:
    """Its attention has reshapes, slices and transposes on stored vectors and matrices."""
    torch = pytest.importorskip("torch")

    class Network(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.embed = torch.nn.Linear(8, 16)
            self.layer = torch.nn.TransformerEncoderLayer(
                16, 2, 32, 0.0, "gelu", batch_first=True, norm_first=True
            )
            self.head = torch.nn.Linear(16, 3)

        def forward(self, x: Any) -> Any:
            return self.head(self.layer(self.embed(x)).mean(1))

    torch.manual_seed(0)
    exported = torch.export.export(Network().train(), (torch.randn(1, 16, 8),))
    torch.export.save(exported, tmp_path / "encoder.pt2")
    options = ("--board", "linux", "--model", "encoder.pt2", "--batch", "1", "--data", "synthetic")
    runs = []
    for budget in ("64M", "6K"):
        limits = ("--ram", budget, "--work-limit", "0.5")
        build = succeed("build", *options, *limits, cwd=tmp_path, timeout_s=300)
        verify = ("--verify",) if budget == "6K" else ()
        run = succeed("run", "--board", "linux", "--steps", "3", *verify, cwd=tmp_path)
        runs.append((run["loss"], run["accuracy"], trained(tmp_path, "weights.npz")))
    assert build["streaming"]["stored"]
    assert run["verify"]["ok"], run["verify"]["missed"]
    (memory,) = run["memories"].values()
    assert memory["step_traffic"] == memory["planned_traffic"]
    assert runs[0] == runs[1]


def test_what_fits_is_not_stored(tmp_path: Path) -> None:
    succeed("build", *LINUX, "--ram", "64M", "--generate-only", cwd=tmp_path)
    slots = json.loads((tmp_path / "build/linux/slots.json").read_text())["slots"]
    assert all("image" not in slot for slot in slots)


def test_a_budget_below_the_smallest_pieces_of_a_batch_is_said(tmp_path: Path) -> None:
    options = (*LINUX[:-1], "2", "--ram", "2800", "--generate-only", "--json")
    refused = poetfw("build", *options, cwd=tmp_path)
    assert refused.code == 5
    assert "too small" in refused.json["error"]["message"]


def test_a_network_larger_than_the_storage_is_said(tmp_path: Path) -> None:
    text = (boards_dir() / "linux.toml").read_text()
    size = '[storage]\nsize_bytes = { value = 100_000, source = "chosen" }'
    board = tmp_path / "small.toml"
    board.write_text(text.replace("[storage]", size))
    refused = poetfw("build", "--board", board, *LINUX[2:], "--ram", "64M", "--json", cwd=tmp_path)
    assert refused.code == 1
    assert "and the storage 'file' holds 100,000" in refused.json["error"]["message"]
    assert not list(tmp_path.glob("build/*/storage.img"))


def test_the_smallest_budget_that_is_named_is_exact(tmp_path: Path) -> None:
    command = ("build", *LINUX, "--generate-only", "--json", "--ram")
    refused = poetfw(*command, "2000", cwd=tmp_path)
    assert refused.code == 5
    assert "Op '" in refused.json["error"]["message"]
    smallest = refused.json["error"]["minimum_budget_bytes"]
    below = poetfw(*command, str(smallest - 1), cwd=tmp_path)
    assert below.code == 5
    assert below.json["error"]["minimum_budget_bytes"] == smallest
    assert succeed(*command[:-2], "--ram", str(smallest), cwd=tmp_path)["peak_bytes"] <= smallest


def test_a_network_beyond_the_reference_is_streamed_there_too(
    stored: Callable[[tuple[str, ...], int], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def little(project: BuiltProject) -> tuple[Board, str]:
        board, environment = with_reference_ram(project)
        return replace(board, ram_bytes=board.stack_bytes + 20_000), environment

    folder = stored(options_of(OPTIMIZERS[0]), 7000)[0] / "build/linux"
    monkeypatch.setattr(verification, "with_reference_ram", little)
    run = open_firmware(folder).run(steps=2, verify=True, skip_evaluation=True).figures
    assert run.verify is not None
    assert run.verify.bit_identical_to_unscheduled
    assert (run.accuracy, run.evaluations) == (None, ())
    header = folder / "run/unscheduled" / LIBRARY / "generated/plan.h"
    assert "#define POET_STORED_TENSORS" in header.read_text()


@pytest.mark.slow
@needs_twin
def test_resnet18_trains_in_256_kb(tmp_path: Path) -> None:
    options = ("--board", "nrf52840", "--model", "resnet18", "--batch", "1")
    build = succeed("build", *options, cwd=tmp_path, timeout_s=3600)
    run = succeed(
        *("run", "--board", "nrf52840", "--steps", "1", "--verify", "--skip-evaluation"),
        cwd=tmp_path,
        timeout_s=3600,
    )
    assert run["verify"]["ok"], run["verify"]["missed"]
    assert run["high_water_bytes"] <= build["peak_bytes"] <= 256 * 1024
    (memory,) = run["memories"].values()
    assert memory["step_traffic"] == memory["planned_traffic"]


@pytest.mark.slow
@needs_twin
@pytest.mark.parametrize(
    ("model", "batch", "ram"),
    [("resnet8", 1, 27000), ("resnet8", 4, 250000), ("ds-cnn", 1, 27000), ("mobilenet", 1, 60000)],
)
def test_networks_of_mlperf_tiny_train_in_small_arenas(
    tmp_path: Path, model: str, batch: int, ram: int
) -> None:
    options = ("--model", model, "--batch", str(batch), "--data", "synthetic", "--ram", str(ram))
    build = succeed("build", "--board", "nrf52840", *options, cwd=tmp_path, timeout_s=2400)
    run = succeed(
        *("run", "--board", "nrf52840", "--steps", "2", "--verify", "--skip-evaluation"),
        cwd=tmp_path,
        timeout_s=4800,
    )
    assert build["peak_bytes"] <= ram
    assert build["streaming"]["stored_bytes"] > 0
    assert run["verify"]["ok"], run["verify"]["missed"]
