# SPDX-License-Identifier: Apache-2.0
"""One network, seed and batch on every board, and on every emulator of each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from poetfw.boards import load_board
from system.commands import needs_aarch64, needs_twin, succeed

pytestmark = [pytest.mark.emulator, pytest.mark.slow, needs_twin, needs_aarch64]

BOARDS = ("linux", "mkr1000", "nrf52840", "rpi4", "tx2")
TWINS = [(name, twin.name) for name in BOARDS for twin in load_board(name).twins]
NETWORK = ("--model", "net.onnx", "--data", "data.npz", "--batch", "4", "--momentum", "0")
STEPS = ("--steps", "5")


def write_network(folder: Path) -> None:
    """Grouped convolutions and batch norm for 12 x 12 pixels: what trains in 32 KB if it pages."""
    random = np.random.default_rng(5)
    shapes = {"conv1": (4, 1, 3, 3), "conv2": (8, 2, 3, 3), "dense": (3, 72)}
    values = {name: random.normal(0, 0.4, shape) for name, shape in shapes.items()}
    values |= {
        "bias1": np.full(4, 0.1),
        "bias": np.zeros(3),
        "low": np.array(0),
        "high": np.array(6),
    }
    for norm, channels in (("norm1", 4), ("norm2", 8)):
        values |= {f"{norm}.{i}": np.full(channels, i % 2 == 0) for i in range(4)}

    def norm(name: str, x: str, y: str) -> onnx.NodeProto:
        inputs = [x, *(f"{name}.{i}" for i in (0, 1, 3, 2))]
        outputs = [y, f"{name}.mean", f"{name}.variance"]
        return helper.make_node("BatchNormalization", inputs, outputs, training_mode=1)

    same = {"pads": [1, 1, 1, 1]}
    nodes = [
        helper.make_node("Conv", ["x", "conv1", "bias1"], ["a"], **same),
        norm("norm1", "a", "b"),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("Conv", ["c", "conv2"], ["d"], group=2, strides=[2, 2], **same),
        norm("norm2", "d", "e"),
        helper.make_node("Clip", ["e", "low", "high"], ["f"]),
        helper.make_node("AveragePool", ["f"], ["g"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["g"], ["h"]),
        helper.make_node("Gemm", ["h", "dense", "bias"], ["y"], transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "grouped",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 1, 12, 12])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 3])],
        [numpy_helper.from_array(value.astype(np.float32), k) for k, value in values.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    onnx.save(model, str(folder / "net.onnx"))
    y = random.integers(0, 3, 60)
    slope = np.linspace(-1, 1, 12) * (y[:, None, None, None] - 1)
    x = random.normal(0, 0.5, (60, 1, 12, 12)) + slope
    np.savez(folder / "data.npz", x=x.astype(np.float32), y=y)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("boards")
    write_network(folder)
    return folder


class Runs:
    """Builds of the boards, and what five steps on their twins come to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.builds: dict[str, Any] = {}
        self.runs: dict[tuple[str, str], Any] = {}
        self.images: dict[tuple[str, str], bytes] = {}

    def build(self, board: str) -> Any:
        if board not in self.builds:
            self.builds[board] = succeed("build", "--board", board, *NETWORK, cwd=self.folder)
        return self.builds[board]

    def run(self, board: str, twin: str) -> Any:
        if (board, twin) not in self.runs:
            image = self.folder / self.build(board)["out_dir"] / "storage.img"
            arguments = ("run", "--board", board, "--emulator", twin, *STEPS, "--verify")
            self.runs[board, twin] = succeed(*arguments, cwd=self.folder)
            trained = image.parent / "run/storage.img"
            self.images[board, twin] = trained.read_bytes()[: image.stat().st_size]
        return self.runs[board, twin]


@pytest.fixture(scope="module")
def all_runs(folder: Path) -> Runs:
    return Runs(folder)


@pytest.mark.parametrize(("board", "twin"), TWINS)
def test_every_twin_of_every_board_trains_alike(all_runs: Runs, board: str, twin: str) -> None:
    losses = all_runs.run("linux", "native")["loss"]
    assert len(set(losses)) == 5
    run = all_runs.run(board, twin)
    assert run["emulator"] == twin
    assert run["loss"] == pytest.approx(losses, rel=1e-5, abs=0)
    assert run["verify"]["ok"]
    assert run["verify"]["bit_identical_to_unscheduled"] is True
    assert run["high_water_bytes"] == all_runs.build(board)["peak_bytes"]
    stack = load_board(board).stack_bytes
    assert 0 < (run["stack_high_water_bytes"] or 1) <= stack


@pytest.mark.parametrize("board", ["mkr1000", "nrf52840"])
def test_a_boards_twins_leave_the_same_bits(all_runs: Runs, board: str) -> None:
    """QEMU's machine, and the model of the chip that boots the program that is flashed."""
    for twin in ("qemu", "unicorn"):
        all_runs.run(board, twin)
    assert all_runs.images[board, "qemu"] == all_runs.images[board, "unicorn"]
    one, other = (all_runs.runs[board, twin] for twin in ("qemu", "unicorn"))
    for figure in ("loss", "accuracy", "storage_bytes_read", "storage_bytes_written"):
        assert one[figure] == other[figure]
    untrained = all_runs.folder / all_runs.build(board)["out_dir"] / "storage.img"
    assert untrained.read_bytes() != all_runs.images[board, "qemu"]


def test_another_schedule_changes_no_bit(all_runs: Runs, tmp_path: Path) -> None:
    """It pages what the first computes again or keeps, through the driver of the board."""
    write_network(tmp_path)
    first = all_runs.build("mkr1000")
    limits = ("--scheduler", "poet-remat-off", "--ram", str(first["peak_bytes"] - 4096))
    build = succeed("build", "--board", "mkr1000", *NETWORK, *limits, cwd=tmp_path)
    assert build["schedule"]["page_ins"] > first["schedule"]["page_ins"]
    arguments = ("--board", "mkr1000", "--emulator", "unicorn", *STEPS)
    paged = succeed("run", *arguments, cwd=tmp_path)
    assert paged["loss"] == all_runs.run("mkr1000", "unicorn")["loss"]
    assert paged["high_water_bytes"] == build["peak_bytes"]
    assert (
        paged["storage_bytes_written"] > all_runs.run("mkr1000", "unicorn")["storage_bytes_written"]
    )
