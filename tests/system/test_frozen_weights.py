# SPDX-License-Identifier: Apache-2.0
"""Weights that are not trained lie in flash: what is built, run, verified and written of them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from poetfw.boards import load_board
from poetfw.firmware import BLOCK_BYTES, places
from poetfw.importers.weight_files import npz_bytes, read_weights
from poetfw.models import build_model
from poetfw.planning import BuildSettings, training_problem_of
from poetfw.planning.read_ahead import MOST_ENERGY
from poetfw.report import read_stages
from system.commands import needs_twin, poetfw, succeed

SETTINGS = ("--board", "nrf52840", "--model", "digits-cnn", "--train", "last:1", "--batch", "8")
MODEL = build_model("digits-cnn", 8, 0)
FROZEN = [name for name in MODEL.weights if "running" not in name and "logits" not in name]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("frozen")
    report = succeed("build", *SETTINGS, "--ram", "64K", cwd=folder)
    assert report["frozen_bytes"] == sum(MODEL.weights[name].nbytes for name in FROZEN)
    assert report["flash_bytes"] > report["frozen_bytes"]
    return folder


@needs_twin
def test_a_run_verifies_and_leaves_frozen_weights_as_they_were(built: Path) -> None:
    run = succeed("run", "--steps", "3", "--verify", cwd=built)
    assert run["verify"]["ok"]
    assert run["step_traffic"] == run["planned_traffic"]
    file = built / "trained.safetensors"
    succeed("export-weights", "--as", "safetensors", "-o", str(file), cwd=built)
    trained = read_weights(file, list(MODEL.weights))
    for name in FROZEN:
        assert np.array_equal(trained[name], MODEL.weights[name]), name
    assert not np.array_equal(trained["logits.weight"], MODEL.weights["logits.weight"])


@needs_twin
def test_other_frozen_weights_than_the_firmware_s_are_refused(built: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(built, tmp_path / "copy")
    file = folder / "build/nrf52840/constants.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    result = poetfw("run", "--steps", "1", cwd=folder)
    assert result.code == 1
    assert "constants.safetensors holds other values than the firmware" in result.stderr


def test_weights_that_the_flash_cannot_hold_are_named(tmp_path: Path) -> None:
    result = poetfw("build", "--board", "nrf52840", "--model", "resnet18", "--batch", "1",
                    "--train", "last:1", "--weights-in-flash", cwd=tmp_path)  # fmt: skip
    assert result.code == 5
    assert "bytes of flash, of which nrf52840 has 1,048,576; the largest are" in result.stderr
    assert "cannot be streamed from storage: --weights-in-flash starts without" in result.stderr
    assert not list(tmp_path.iterdir())


@needs_twin
def test_frozen_weights_beyond_the_flash_are_streamed(tmp_path: Path) -> None:
    """A damaged one stops the training."""
    text = load_board("nrf52840").path.read_text()
    (tmp_path / "small.toml").write_text(text.replace("value = 1_048_576", "value = 131_072"))
    options = ("--model", "resnet8", "--train", "last:2", "--batch", "1", "--data", "synthetic")
    built = succeed("build", "--board", "small.toml", *options, cwd=tmp_path)
    streaming, folder = built["streaming"], tmp_path / "build/nrf52840"
    board = load_board(str(tmp_path / "small.toml"))
    settings = BuildSettings(
        board.name, "resnet8", batch=1, train=("last:2",), ram_bytes=built["budget_bytes"]
    )
    problem = training_problem_of(settings.on(board), board, build_model("resnet8", 1, 0)).problem
    each_once = sum(node.energy_j for node in problem.nodes)
    assert each_once <= built["schedule"]["energy_j"] <= MOST_ENERGY * each_once  # slices are ahead
    assert built["flash_bytes"] <= 131_072 < built["frozen_bytes"] + streaming["constant_bytes"]
    run = ("run", "--board", "small.toml", "--steps", "2", "--skip-evaluation")
    found = succeed(*run, "--verify", cwd=tmp_path)
    assert found["verify"]["ok"], found["verify"]["missed"]
    assert found["step_traffic"] == found["planned_traffic"]
    slots = read_stages(folder, None).slots
    (first, *_) = [slot for slot in slots if slot.purpose == "constant"]
    content = bytearray((folder / "storage.img").read_bytes())
    begin = places(folder / "storage.img", slots).slots_block + first.first_block
    content[begin * BLOCK_BYTES] ^= 1
    (folder / "storage.img").write_bytes(content)
    result = poetfw(*run, cwd=tmp_path)
    assert result.code == 4
    assert "a slot's payload is not what its trailer says was written" in result.stderr


@needs_twin
@pytest.mark.parametrize(
    "form", [*(pytest.param(form, marks=pytest.mark.slow) for form in (None, "float16")), "int8"]
)
def test_folded_weights_are_exported_as_the_author_has_them(
    form: str | None, tmp_path: Path
) -> None:
    torch = pytest.importorskip("torch")
    nn = torch.nn
    torch.manual_seed(0)
    body = nn.Sequential(nn.Conv2d(1, 4, 3, stride=2), nn.BatchNorm2d(4), nn.ReLU())
    net = nn.Sequential(nn.ZeroPad2d((0, 1, 0, 1)), body, nn.Flatten(), nn.Linear(64, 10))
    body[1].running_mean.normal_()
    body[1].running_var.uniform_(0.5, 2.0)
    net.train()
    body.eval()
    body.requires_grad_(False)
    file = tmp_path / "net.pt2"
    torch.export.save(torch.export.export(net, (torch.zeros(2, 1, 8, 8),)), file)
    options = [] if form is None else ["--frozen-as", form]
    report = succeed("build", "--board", "nrf52840", "--model", str(file), "--batch", "4", "--ram",
                     "64K", *options, cwd=tmp_path)  # fmt: skip
    weights, channels = 9, 4  # of a channel, which begins with a word
    held = channels * {None: 4 * weights, "float16": 20, "int8": 12 + 4}[form]
    assert report["frozen_bytes"] == held + 4 * channels  # and the bias
    assert (report["frozen_as"] is None) is (form is None)
    if form is not None:
        assert report["frozen_as"]["format"] == form
        assert abs(report["frozen_as"]["before"] - report["frozen_as"]["after"]) < 0.02
    graph = json.loads((tmp_path / "build/nrf52840/graph.json").read_text())
    kinds = [op["kind"] for op in graph["training"]["ops"]]
    assert not {"batch_norm", "put_strided"} & set(kinds)
    run = succeed("run", "--steps", "3", "--verify", cwd=tmp_path)
    assert run["verify"]["ok"]
    succeed("export-weights", "--as", "safetensors", "-o", "trained.safetensors", cwd=tmp_path)
    before = {name: value.numpy() for name, value in net.state_dict().items()}
    names = [name for name in before if "num_batches" not in name]
    after = read_weights(tmp_path / "trained.safetensors", names)
    for name in names:
        assert np.array_equal(before[name], after[name]) is not name.startswith("3."), name


@pytest.mark.parametrize(
    ("form", "value", "said"),
    [
        ("int8", 0.0, "output channel 3 of 8 has the int8 scale 0"),
        ("float16", 7e4, "hold 70000, and float16 ends at 65504"),
    ],
)
def test_weights_that_a_format_cannot_hold_are_named(
    form: str, value: float, said: str, tmp_path: Path
) -> None:
    weights = {name: np.array(values) for name, values in MODEL.weights.items()}
    name = next(n for n in FROZEN if n.endswith("weight") and len(weights[n]) == 8)
    weights[name][3] = value
    (tmp_path / "start.npz").write_bytes(npz_bytes(weights))
    result = poetfw("build", *SETTINGS, "--weights", "start.npz", "--frozen-as", form, cwd=tmp_path)
    assert result.code == 1
    assert f"frozen weights {name!r}" in result.stderr
    assert said in " ".join(result.stderr.split())
