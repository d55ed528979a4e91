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
from poetfw.common.errors import ModelError
from poetfw.importers.onnx import import_onnx
from poetfw.models import build_model
from poetfw.training import TrainedNames
from system.commands import poetfw, succeed

torch = pytest.importorskip("torch", reason="needs PyTorch (the extra `torch`)")
pytest.importorskip("onnxscript", reason="needs onnxscript (the extra `torch`)")

FATES = ("folded", "fixed", "kept", "left out")
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
    nodes = onnx.load(path).graph.node
    layers = [node for node in nodes if node.op_type in ("Conv", "Gemm", "BatchNormalization")]
    kinds = [node.op_type for node in layers]
    behind_conv, behind_linear = (layers[kinds.index(kind) + 1] for kind in ("Conv", "Gemm"))
    dropped = any(node.op_type == "Dropout" for node in nodes)
    return (of_norm(behind_conv), of_norm(behind_linear), "kept" if dropped else "left out")


def of_norm(node: onnx.NodeProto) -> str:
    """What became of a batch norm, by the node behind the layer that it was behind."""
    if node.op_type != "BatchNormalization":
        return "folded"
    modes = [attribute.i for attribute in node.attribute if attribute.name == "training_mode"]
    return "kept" if modes == [1] else "fixed"


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
    *norms, dropout = TABLE[arguments]
    path = export(tmp_path / "net.onnx", arguments, training=True)
    assert fates(path) == TABLE[arguments]
    folded = norms.count("folded")
    if folded or ("fixed" in norms and "dynamo" not in arguments):
        what = f"folded batch norm into {folded} layer" if folded else "written 2 batch norms"
        with pytest.raises(ModelError, match=what) as caught:
            import_onnx(path, 4)
        assert "torch.export.export(net.train(), (example,))" in caught.value.try_next[0]
        assert "torch.export.save(program, 'net.pt2')" in caught.value.try_next[1]
    elif "fixed" in norms:
        with pytest.raises(ModelError, match="does not say whether the network trains so"):
            import_onnx(path, 4)
        assert import_onnx(path, 4, chosen=TrainedNames((), ("*.running_*",))).warnings == ()
    else:
        model = import_onnx(path, 4)
        kinds = {"batch_norm": 2, "conv2d": 1, "dropout": int(dropout == "kept")}
        assert model.layers == {"linear": 2} | {k: n for k, n in kinds.items() if n or k[0] == "b"}
        assert model.warnings == ()

    path = export(tmp_path / "net.onnx", arguments, training=False)
    last = arguments == [*TABLE][-1]
    if "PRESERVE" in arguments:
        norms = ["fixed", "fixed"]
    assert fates(path) == (*norms, "kept" if last else "left out")


def test_a_build_shows_layers_and_asks_for_what_the_file_does_not_say(tmp_path: Path):
    arguments = "dynamo=False, do_constant_folding=False"
    export(tmp_path / "net.onnx", arguments, training=True)
    random = np.random.default_rng(0)
    x = random.standard_normal((40, 1, 8, 8)).astype(np.float32)
    np.savez(tmp_path / "samples.npz", x=x, y=random.integers(0, 3, 40))
    build = ("build", "--board", "linux", "--model", "net.onnx", "--data", "samples.npz")
    settings = ("--batch", "4", "--ram", "1000000", "--generate-only")
    asked = poetfw(*build, *settings, cwd=tmp_path)
    assert asked.code != 0
    remedy = "--freeze '1.running_mean,6.running_mean' if the network trains so"
    assert remedy in " ".join(asked.stderr.split())
    frozen = ("--freeze", "0.bias,8.*,1.running_mean,6.running_mean")
    report = succeed(*build, *settings, *frozen, cwd=tmp_path)
    assert report["layers"] == {"batch_norm": 2, "conv2d": 1, "linear": 2}
    assert report["frozen"] == ["0.bias", "8.weight", "8.bias"]
    assert report["warnings"] == []
    shown = poetfw(*build, *settings, *frozen, "--verbose", cwd=tmp_path)
    layers = "1 convolution, 2 batch norms, 2 linear; frozen: 0.bias, 8.weight, 8.bias"
    assert re.search(rf"│ layers +│ {layers} ", shown.stdout)
    schedule = ("schedule", *build[1:5], "--scheduler", "checkpoint-all", "--ram-fraction", "1")
    assert poetfw(*schedule, cwd=tmp_path).code == 0  # trains nothing


def plain_net() -> Any:
    nn = torch.nn
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))


@pytest.mark.parametrize(
    "arguments",
    ["none", "optimize=False", "dynamo=False", "dynamo=False, training=TrainingMode.TRAINING"],
)
def test_what_a_network_does_not_have_is_not_warned_of(tmp_path: Path, arguments: str):
    assert import_onnx(save(plain_net(), tmp_path / "net.onnx", arguments), 4).warnings == ()


def test_a_network_without_convolutions_is_not_warned_of(tmp_path: Path):
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 3))
    assert import_onnx(save(net, tmp_path / "net.onnx", "none"), 4).warnings == ()


def test_built_in_models_say_their_layers():
    assert build_model("digits-cnn", 4, 0).layers == {"batch_norm": 3, "conv2d": 3, "linear": 1}
    assert build_model("lenet5", 4, 0).layers == {"batch_norm": 0, "conv2d": 2, "linear": 3}
    assert build_model("mlp", 4, 0).layers.keys() == {"linear"}
