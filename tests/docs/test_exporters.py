# SPDX-License-Identifier: Apache-2.0
"""What docs/your-model.md says of PyTorch's exporters, by exporting with each."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from docs.pages import read
from poetfw.importers.onnx import import_onnx
from poetfw.models import build_model
from system.commands import poetfw, succeed

torch = pytest.importorskip("torch", reason="needs PyTorch (the extra `torch`)")
pytest.importorskip("onnxscript", reason="needs onnxscript (the extra `torch`)")

FATES = ("folded", "kept", "left out")
ROWS = re.findall(
    r"^\| (none|`[^`]+`) \| (.+) \| (.+) \| (.+) \|$", read("docs/your-model.md"), re.M
)
TABLE = {row[0].strip("`"): row[1:] for row in ROWS if row[1] in FATES}


def export(path: Path, arguments: str, *, training: bool, drop: float = 0.5, bias: bool = True):
    nn = torch.nn
    net = nn.Sequential(
        *(nn.Conv2d(1, 4, 3, bias=bias), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(drop)),
        *(nn.Flatten(), nn.Linear(144, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)),
    ).train(training)
    return save(net, path, arguments)


def save(net: Any, path: Path, arguments: str) -> Path:
    given = {} if arguments == "none" else eval(f"dict({arguments})", vars(torch.onnx))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(net, (torch.zeros(2, 1, 8, 8),), path, verbose=False, **given)
    return path


def fates(path: Path) -> tuple[str, str, str]:
    """Of the two batch norms and dropout, read off the order of nodes in the file."""
    kinds = [node.op_type for node in onnx.load(path).graph.node]
    layers = [kind for kind in kinds if kind in ("Conv", "Gemm", "BatchNormalization")]
    behind_conv, behind_linear = (layers[layers.index(kind) + 1] for kind in ("Conv", "Gemm"))
    return (
        "kept" if behind_conv == "BatchNormalization" else "folded",
        "kept" if behind_linear == "BatchNormalization" else "folded",
        "kept" if "Dropout" in kinds else "left out",
    )


def test_the_page_tells_of_both_exporters():
    assert Counter("dynamo=False" in arguments for arguments in TABLE) == {True: 4, False: 3}


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(arguments, marks=() if "dynamo=False" in arguments else pytest.mark.slow)
        for arguments in TABLE
    ],
)
def test_an_exporter_does_what_the_page_says(tmp_path: Path, arguments: str):
    path = export(tmp_path / "net.onnx", arguments, training=True)
    assert fates(path) == TABLE[arguments]
    kinds = [op.kind for op in import_onnx(path, 4).graph.ops]
    assert ("dropout" in kinds) == (TABLE[arguments][2] == "kept")

    path = export(tmp_path / "net.onnx", arguments, training=False)
    last = arguments == [*TABLE][-1]
    assert fates(path) == (*TABLE[arguments][:2], "kept" if last else "left out")

    path = export(tmp_path / "net.onnx", arguments, training=True, drop=0.0)
    model = import_onnx(path, 4)
    folded = TABLE[arguments][:2].count("folded")
    assert model.layers == {"batch_norm": 2 - folded, "conv2d": 1, "linear": 2}
    layers = {0: [], 1: ["into 1 layer,"], 2: ["into 2 layers,"]}[folded]
    assert [part for w in model.warnings for part in re.findall(r"into \d layers?,", w)] == layers

    path = export(tmp_path / "net.onnx", arguments, training=True, drop=0.0, bias=False)
    said = "".join(import_onnx(path, 4).warnings)
    assert ("has folded batch norm into" in said) == (folded > 0)
    assert ("the model has no dropout" in said) == (
        "dynamo=False" in arguments and TABLE[arguments][2] == "left out"
    )


def test_a_build_shows_layers_and_warns(tmp_path: Path):
    export(tmp_path / "net.onnx", "none", training=True, drop=0.0)
    random = np.random.default_rng(0)
    x = random.standard_normal((40, 1, 8, 8)).astype(np.float32)
    np.savez(tmp_path / "samples.npz", x=x, y=random.integers(0, 3, 40))
    build = ("build", "--board", "linux", "--model", "net.onnx", "--data", "samples.npz")
    settings = ("--batch", "4", "--ram", "1000000", "--generate-only")
    frozen = ("--freeze", "0.bias,8.*")
    report = succeed(*build, *settings, *frozen, cwd=tmp_path)
    assert report["layers"] == {"batch_norm": 0, "conv2d": 1, "linear": 2}
    assert report["frozen"] == ["0.bias", "8.weight", "8.bias"]
    (warning,) = report["warnings"]
    assert warning.startswith("PyTorch's exporter has folded batch norm into 2 layers, ")
    shown = poetfw(*build, *settings, *frozen, cwd=tmp_path)
    assert f"warning: {warning}\n" in shown.stderr
    layers = "1 convolution, 0 batch norms, 2 linear; frozen: 0.bias, 8.weight, 8.bias"
    assert re.search(rf"│ layers +│ {layers} ", shown.stdout)
    schedule = ("schedule", *build[1:5], "--scheduler", "checkpoint-all", "--ram-fraction", "1")
    assert f"warning: {warning}\n" in poetfw(*schedule, cwd=tmp_path).stderr


def plain_net() -> Any:
    nn = torch.nn
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))


def test_convolutions_without_batch_norm_are_warned_of_where_pytorch_wrote_them(tmp_path: Path):
    path = save(plain_net(), tmp_path / "net.onnx", "dynamo=False, training=TrainingMode.TRAINING")
    convolutions, dropout = import_onnx(path, 4).warnings
    assert "has convolutions, but no batch norm. If the network has some" in convolutions
    assert "has no dropout. If the network has some" in dropout
    proto = onnx.load(path)
    proto.producer_name = "somebody"
    onnx.save(proto, path)
    assert import_onnx(path, 4).warnings == ()


def test_a_network_without_convolutions_is_not_warned_of(tmp_path: Path):
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 3))
    assert import_onnx(save(net, tmp_path / "net.onnx", "none"), 4).warnings == ()


def test_built_in_models_say_their_layers():
    assert build_model("digits-cnn", 4, 0).layers == {"batch_norm": 3, "conv2d": 3, "linear": 1}
    assert build_model("lenet5", 4, 0).layers == {"batch_norm": 0, "conv2d": 2, "linear": 3}
    assert build_model("mlp", 4, 0).layers.keys() == {"linear"}
