# SPDX-License-Identifier: Apache-2.0
"""Frozen convolutions with pooling, and evaluation, in less RAM than their feature maps take."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from system.commands import needs_twin, succeed

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from workloads.compact_transformer import CompactTransformer, with_adapters  # noqa: E402


def exported(net: nn.Module, folder: Path, *shape: int) -> str:
    file = folder / "net.pt2"
    torch.export.save(torch.export.export(net, (torch.zeros(2, *shape),)), file)
    return str(file)


class Residual(nn.Module):
    """Two convolutions that their input is added to, a pooled one, and a head that trains."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 16, 3, padding=1)
        self.one, self.two = (nn.Conv2d(16, 16, 3, padding=1) for _ in range(2))
        self.last = nn.Sequential(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.head = nn.Linear(32, 5)
        self.requires_grad_(False)
        self.head.requires_grad_(True)

    def forward(self, x):
        h = self.stem(x)
        return self.head(self.last(self.two(self.one(h).relu()) + h).mean((2, 3)))


@pytest.mark.parametrize(
    "board", ["linux", pytest.param("nrf52840", marks=(pytest.mark.slow, needs_twin))]
)
def test_evaluation_recomputes_where_the_budget_asks_for_it(board: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = exported(Residual(), tmp_path, 1, 12, 12)
    tensor_bytes = 16 * 12 * 12 * 4
    arguments = ("--board", board, "--model", model, "--batch", "1", "--frozen-as", "int8",
                 "--data", "synthetic")  # fmt: skip
    built = succeed("build", *arguments, "--ram", str(3 * tensor_bytes), cwd=tmp_path)
    assert built["checkpoint_all_peak_bytes"] > 3 * tensor_bytes
    folder = tmp_path / "build" / board
    graph, plan = (json.loads((folder / f"{n}.json").read_text()) for n in ("graph", "plan"))
    for step in ("training", "evaluation"):
        kinds = [op["kind"] for op in graph[step]["ops"]]
        assert kinds.count("pooled_conv2d") == 1
        computed = [each["node"] for each in plan[step] if each["step"] == "compute"]
        assert len(computed) > len(kinds)
    run = succeed("run", "--steps", "2", "--verify", cwd=tmp_path)
    assert run["verify"]["ok"]


@pytest.mark.slow
@needs_twin
@pytest.mark.parametrize("form", ["float16", "int8"])
def test_cct_2_learns_by_adapters_in_256_kb(form: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = exported(with_adapters(CompactTransformer()), tmp_path, 3, 32, 32)
    arguments = ("--board", "nrf52840", "--model", model, "--batch", "1", "--momentum", "0",
                 "--data", "synthetic", "--work-limit", "4")  # fmt: skip
    built = succeed("build", *arguments, "--frozen-as", form, cwd=tmp_path)
    assert built["peak_bytes"] < 64 * 32 * 32 * 4  # the first convolution's feature map
    assert built["schedule"]["overhead"] <= 1.5
    assert built["trained_weights"] == 2 * 2 * 2 * 4 * 128
    run = succeed("run", "--steps", "2", "--verify", cwd=tmp_path)
    assert run["verify"]["ok"]
