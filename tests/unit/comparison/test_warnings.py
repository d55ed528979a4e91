# SPDX-License-Identifier: Apache-2.0
"""What is to be said of a model is said by the commands that compare schedulers, too."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner

from poetfw.cli.main import cli
from poetfw.comparisons import sweep
from poetfw.importers.torch_export import import_torch

torch = pytest.importorskip("torch")

QUICK = ("--batch", "2", "--fractions", "1", "--schedulers", "checkpoint-all")


@pytest.fixture
def network(tmp_path: Path) -> Path:
    """A file with dropout in evaluation mode."""
    nn = torch.nn
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 4), nn.Dropout()).eval()
    program = torch.export.export(net, (torch.zeros(2, 1, 4, 4),))
    torch.export.save(program, tmp_path / "net.pt2")
    return tmp_path / "net.pt2"


def test_compare_warns(network: Path) -> None:
    warnings = list(import_torch(network, 2).warnings)
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
    warnings = list(import_torch(network, 2).warnings)
    assert warnings
    grid = ("--boards", "linux,nrf52840", "--models", f"mlp,{network}")
    command = ("sweep", *grid, *QUICK, "--out", str(tmp_path / "sweep.jsonl"))
    table = CliRunner().invoke(cli, command)
    assert table.exit_code == 0, table.output
    said = [table.stderr.count(f"warning: {network}: {warning}\n") for warning in warnings]
    assert said == [1] * len(warnings)
    document = CliRunner().invoke(cli, [*command, "--json"])
    assert json.loads(document.stdout)["warnings"] == {str(network): warnings}
