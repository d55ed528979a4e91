# SPDX-License-Identifier: Apache-2.0
"""A network exported from PyTorch builds, runs and verifies like a built-in one."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from system.commands import needs_twin, succeed

torch = pytest.importorskip("torch", reason="needs PyTorch (the extra `torch`)")


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with net.onnx, a small residual CNN, and data.npz for it."""
    from torch import nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
            self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
            self.pointwise = nn.Conv2d(8, 8, 1)
            self.pool = nn.MaxPool2d(2)
            self.head = nn.Linear(8 * 5 * 5, 4)

        def forward(self, x):  # type: ignore[no-untyped-def]
            x = self.stem(x)
            x = torch.relu(x + self.pointwise(self.depthwise(x)))
            return self.head(torch.flatten(self.pool(x), 1))

    folder = tmp_path_factory.mktemp("onnx")
    torch.manual_seed(0)
    example = torch.zeros(2, 3, 10, 10)
    torch.onnx.export(
        Net(),
        (example,),
        folder / "net.onnx",
        training=torch.onnx.TrainingMode.TRAINING,
        do_constant_folding=False,
        opset_version=17,
        dynamo=False,
    )
    random = np.random.default_rng(0)
    labels = random.integers(0, 4, 200)
    x = random.normal(0, 0.5, (200, 3, 10, 10)) + labels[:, None, None, None] - 1.5
    np.savez(folder / "data.npz", x=x.astype(np.float32), y=labels)
    return folder


ON_THE_TWIN = (pytest.mark.emulator, pytest.mark.slow, needs_twin)


@pytest.mark.parametrize("board", ["linux", pytest.param("nrf52840", marks=ON_THE_TWIN)])
def test_exported_network_trains(exported: Path, board: str) -> None:
    arguments = ("--model", "net.onnx", "--data", "data.npz", "--batch", "16")
    build = succeed("build", "--board", board, *arguments, "--ram", "170000", cwd=exported)
    assert build["checkpoint_all_peak_bytes"] > build["budget_bytes"]
    run = succeed("run", "--board", board, "--steps", "10", "--verify", cwd=exported)
    assert run["verify"]["ok"] is True
    assert run["verify"]["bit_identical_to_unscheduled"] is True
    trained = succeed("run", "--board", board, "--epochs", "3", cwd=exported)
    assert trained["accuracy"] >= 0.90


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with gated.onnx, where halves of the channels go two ways, and data.npz for it."""
    from torch import nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Conv2d(2, 8, 3, padding=1)
            self.head = nn.Linear(4 * 6 * 6, 3)

        def forward(self, x):  # type: ignore[no-untyped-def]
            low, high = self.stem(x).split(4, dim=1)
            return self.head(torch.flatten(torch.relu(low) + high, 1))

    folder = tmp_path_factory.mktemp("gated")
    torch.manual_seed(0)
    torch.onnx.export(
        Net(),
        (torch.zeros(2, 2, 6, 6),),
        folder / "gated.onnx",
        training=torch.onnx.TrainingMode.TRAINING,
        do_constant_folding=False,
        opset_version=17,
        dynamo=False,
    )
    random = np.random.default_rng(0)
    x, y = random.normal(size=(40, 2, 6, 6)).astype(np.float32), random.integers(0, 3, 40)
    np.savez(folder / "data.npz", x=x, y=y)
    return folder


@pytest.mark.parametrize(
    ("board", "batch", "windows"),
    [
        ("linux", 1, 2),
        pytest.param("nrf52840", 1, 2, marks=ON_THE_TWIN),
        pytest.param("nrf52840", 4, 0, marks=ON_THE_TWIN),
    ],
)
def test_slices_are_windows_where_they_lie_in_one_piece(
    gated: Path, board: str, batch: int, windows: int
) -> None:
    arguments = ("--board", board, "--model", "gated.onnx", "--data", "data.npz")
    arguments += ("--batch", str(batch), "--out", f"{board}{batch}")
    out = arguments[-2:]
    everything = succeed("build", *arguments, "--generate-only", cwd=gated)
    ram = str((everything["minimum_budget_bytes"] + everything["peak_bytes"]) // 2)
    succeed("build", *arguments, "--ram", ram, cwd=gated)
    step = (gated / out[-1] / "lib/poetfw/generated/train_step.c").read_text()
    assert len(re.findall(r"\(in T\d{4}\)", step)) == windows
    assert ("poet_slice_f32" in step) == (windows == 0)
    run = succeed("run", "--board", board, "--steps", "10", "--verify", *out, cwd=gated)
    assert run["verify"]["max_rel_error_loss"] <= 1e-5
    assert run["verify"]["max_rel_error_weights"] <= 1e-5
    assert run["verify"]["bit_identical_to_unscheduled"] is True
