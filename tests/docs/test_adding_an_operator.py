# SPDX-License-Identifier: Apache-2.0
"""docs/adding-an-operator.md word by word: its files, in a copy of the tree, make an operator."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from docs.pages import REPOSITORY, block_behind
from system.commands import poetfw, succeed

PAGE = "docs/adding-an-operator.md"
FILES = (
    "host/poetfw/ops/softsign.py",
    "firmware_templates/kernels/softsign.h",
    "firmware_templates/kernels/softsign.c",
)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A folder with net.onnx, a perceptron with Softsign, and data.npz for it."""
    random = np.random.default_rng(0)
    weights = {
        "w1": random.standard_normal((6, 8)).astype(np.float32),
        "b1": np.zeros(8, np.float32),
        "w2": random.standard_normal((8, 3)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Gemm", ["x", "w1", "b1"], ["a"]),
        helper.make_node("Softsign", ["a"], ["b"]),
        helper.make_node("Gemm", ["b", "w2"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]),
        tmp_path / "net.onnx",
    )
    labels = random.integers(0, 3, 80)
    x = random.standard_normal((80, 6)).astype(np.float32) + labels[:, None]
    np.savez(tmp_path / "data.npz", x=x.astype(np.float32), y=labels)
    return tmp_path


def test_the_files_on_the_page_are_an_operator(model: Path) -> None:
    build = ("build", "--board", "linux", "--model", "net.onnx", "--data", "data.npz")
    settings = ("--batch", "8", "--ram", "100000")
    without = poetfw(*build, *settings, cwd=model)
    assert without.code == 1
    assert "(Softsign): poetfw has no such operator" in without.stderr

    tree = model / "tree"
    for part in ("host/poetfw", "firmware_templates", "boards"):
        shutil.copytree(
            REPOSITORY / part, tree / part, ignore=shutil.ignore_patterns("__pycache__")
        )
    shutil.copy(REPOSITORY / "platformio.ini", tree)
    for file in FILES:
        (tree / file).write_text(block_behind(PAGE, f"`{file}`"))

    packages = {"PYTHONPATH": str(tree / "host")}
    succeed(*build, *settings, cwd=model, **packages)
    step = (model / "build/linux/lib/poetfw/generated/train_step.c").read_text()
    assert step.count("poet_softsign_forward_f32(") == 1
    assert step.count("poet_softsign_backward_f32(") == 1
    run = succeed("run", "--board", "linux", "--steps", "5", "--verify", cwd=model, **packages)
    assert run["loss"][-1] < run["loss"][0]
    assert run["verify"]["max_rel_error_loss"] <= 1e-5
    assert run["verify"]["max_rel_error_gradients"] <= 1e-5
    assert run["verify"]["max_rel_error_weights"] <= 1e-5
    assert run["verify"]["bit_identical_to_unscheduled"] is True
