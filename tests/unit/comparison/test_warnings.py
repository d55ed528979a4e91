# SPDX-License-Identifier: Apache-2.0
"""What is to be said of a model is said by the commands that compare schedulers, too."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

from poetfw.cli.main import cli
from poetfw.comparisons import sweep
from poetfw.importers.onnx import import_onnx

QUICK = ("--batch", "2", "--fractions", "1", "--schedulers", "checkpoint-all")


@pytest.fixture
def network(tmp_path: Path) -> Path:
    """A file whose batch norm is in evaluation mode."""
    norm = ("scale", "bias", "mean", "variance")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("BatchNormalization", ["c", *norm], ["n"]),
        helper.make_node("Flatten", ["n"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 1, 4, 4))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 8))],
        [
            numpy_helper.from_array(np.ones((2, 1, 3, 3), np.float32), "w"),
            *(numpy_helper.from_array(np.ones(2, np.float32), name) for name in norm),
        ],
    )
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opset)
    onnx.save(model, tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


def test_compare_warns(network: Path) -> None:
    warnings = list(import_onnx(network, 2).warnings)
    assert warnings
    command = ("compare", "--board", "linux", "--model", str(network), *QUICK)
    table = CliRunner().invoke(cli, command)
    assert table.exit_code == 0, table.output
    assert "least energy of a step" in table.stdout
    assert all(f"warning: {warning}\n" in table.stderr for warning in warnings)
    document = CliRunner().invoke(cli, [*command, "--json"])
    assert json.loads(document.stdout)["warnings"] == warnings
    silent = CliRunner().invoke(cli, ["compare", "--board", "linux", *QUICK, "--json"])
    assert json.loads(silent.stdout)["warnings"] == []
    assert "warning" not in silent.stderr


def test_sweep_warns_once_of_each_model(
    network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "local_processes", ThreadPoolExecutor)
    warnings = list(import_onnx(network, 2).warnings)
    assert warnings
    grid = ("--boards", "linux,nrf52840", "--models", f"mlp,{network}")
    command = ("sweep", *grid, *QUICK, "--out", str(tmp_path / "sweep.jsonl"))
    table = CliRunner().invoke(cli, command)
    assert table.exit_code == 0, table.output
    said = [table.stderr.count(f"warning: {network}: {warning}\n") for warning in warnings]
    assert said == [1] * len(warnings)
    document = CliRunner().invoke(cli, [*command, "--json"])
    assert json.loads(document.stdout)["warnings"] == {str(network): warnings}
