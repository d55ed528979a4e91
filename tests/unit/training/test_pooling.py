# SPDX-License-Identifier: Apache-2.0
"""Fusion of frozen convolutions with pooling: the same weights, PyTorch's, and what stays apart."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest

from poetfw.boards import load_board
from poetfw.costs import analytic_costs
from poetfw.importers.torch_export import import_torch
from poetfw.models import Model
from poetfw.planning import BuildSettings, choices, derive_program, plan_unscheduled
from poetfw.training import Program, Reference

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from unit.importers.beside_torch import train_beside  # noqa: E402

BATCH = 2
CHAINS = ("conv2d", "packed_conv2d", "max_pool2d", "avg_pool2d", "relu", "silu")


class Backbone(nn.Module):
    """Two chains that are frozen, adapters of low rank, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *(nn.Conv2d(2, 12, 3, padding=1, bias=False), nn.BatchNorm2d(12), nn.ReLU()),
            *(nn.MaxPool2d(3, 2, 1), nn.Conv2d(12, 192, 3, stride=(1, 2), groups=2), nn.SiLU()),
            *(nn.AvgPool2d(2, padding=1, count_include_pad=False), nn.Flatten()),
        )
        self.layer, self.head = nn.Linear(2880, 8), nn.Linear(8, 5)
        self.down, self.up = nn.Linear(2880, 2, bias=False), nn.Linear(2, 8, bias=False)

    def forward(self, x):
        h = self.body(x)
        return self.head((self.layer(h) + self.up(self.down(h))).tanh())


def adapted() -> Backbone:
    torch.manual_seed(0)
    net = Backbone().requires_grad_(False)
    net.body.eval()
    for part in (net.down, net.up):
        part.requires_grad_(True)
    return net


def imported(net: nn.Module, folder: Path) -> Model:
    path = folder / "net.pt2"
    torch.export.save(torch.export.export(net, (torch.zeros(2, 2, 20, 20),)), path)
    return import_torch(path, BATCH)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return imported(adapted(), tmp_path_factory.mktemp("pooling"))


def programs(model: Model, monkeypatch: pytest.MonkeyPatch, form: str | None) -> list[Program]:
    """The program with fusion, and without."""
    settings = BuildSettings("nrf52840", batch=BATCH, learning_rate=0.1, frozen_as=form)
    fused = derive_program(settings, model)
    monkeypatch.setattr(choices, "fuse_pooling", lambda program: program)
    return [fused, derive_program(settings, model)]


def batches(count: int):
    random = np.random.default_rng(1)
    for _ in range(count):
        x = random.normal(size=(BATCH, 2, 20, 20)).astype(np.float32)
        yield x, random.integers(0, 5, BATCH)


@pytest.mark.parametrize("form", [None, "float16", "int8"])
def test_weights_are_those_without_fusion_in_less_ram(
    model: Model, form: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    fused, apart = programs(model, monkeypatch, form)
    for graph in (fused.training, fused.evaluation):
        kinds = [op.kind for op in graph.ops]
        assert kinds.count("pooled_conv2d") == 2
        assert not set(CHAINS) & set(kinds)
    one, other = (Reference(p, {**model.weights, **p.made}) for p in (fused, apart))
    for x, y in batches(3):
        assert one.step(x, y) == other.step(x, y)
    for name, value in one.persistent.items():
        assert np.array_equal(value, other.persistent[name]), name

    board = load_board("nrf52840")
    peaks, energies = [], []
    for program in (fused, apart):
        plan = plan_unscheduled(program, board, analytic_costs)
        peaks.append(plan.memory.peak_bytes)
        energies.append(plan.training.energy_j)
    assert energies[0] == pytest.approx(energies[1], rel=1e-9)
    map_bytes = BATCH * 12 * 20 * 20 * 4
    assert peaks[0] < peaks[1] - map_bytes / 4


def test_a_fused_network_trains_as_in_pytorch(model: Model) -> None:
    program = derive_program(BuildSettings("linux", learning_rate=0.1, momentum=0.9), model)
    theirs = copy.deepcopy(adapted()).double()
    ours = Reference(program, {**model.weights, **program.made})
    train_beside(
        ours, theirs, 0.1, batches(10), lambda x, y: F.cross_entropy(theirs(x), y), rel=1e-5
    )


class Apart(nn.Module):
    """A convolution and pooling that stay apart, for the reason that the name says."""

    def __init__(self, why: str) -> None:
        super().__init__()
        self.why = why
        self.stem = nn.Conv2d(2, 2, 1)
        self.conv = nn.Conv2d(2, 1 if why == "one channel" else 16, 3, padding=1)
        self.head = nn.Linear(16 if why != "one channel" else 1, 5)
        self.requires_grad_(False)
        trained = {"trained": self.conv, "gradient behind": self.stem}.get(why, self.head)
        trained.requires_grad_(True)

    def forward(self, x):
        h = self.conv(self.stem(x))
        y = F.max_pool2d(h if self.why == "no activation" else h.relu(), 2)
        y = y.mean((2, 3)) + (h.mean((2, 3)) if self.why == "read twice" else 0)
        return self.head(y)


@pytest.mark.parametrize(
    ("why", "fused"),
    [
        ("no activation", 2),
        ("trained", 0),
        ("read twice", 0),
        ("one channel", 0),
        ("gradient behind", 1),
    ],
)
def test_chains_that_are_fused(why: str, fused: int, tmp_path: Path) -> None:
    """If a gradient needs the feature map, training does not fuse; evaluation still does."""
    model = imported(Apart(why), tmp_path)
    program = derive_program(BuildSettings("linux", batch=BATCH), model)
    kinds = [op.kind for graph in (program.training, program.evaluation) for op in graph.ops]
    assert kinds.count("pooled_conv2d") == fused
