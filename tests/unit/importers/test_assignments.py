# SPDX-License-Identifier: Apache-2.0
"""Assignments to parts of tensors, and positions of extremes, against PyTorch."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from poetfw.common.errors import ModelError
from poetfw.importers.torch_export import import_torch
from poetfw.training import Reference, Sgd, make_program

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import pt2  # noqa: E402
from unit.importers.beside_torch import train_beside  # noqa: E402

BATCH, WIDTH = 4, 6


class Around(nn.Module):
    """A function between two layers."""

    def __init__(self, function: Callable) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.function = function
        self.first, self.last = nn.Linear(3, WIDTH), nn.Linear(WIDTH, 3)

    def forward(self, x):
        return self.last(self.function(self.first(x), x))


def imported(function: Callable, path: Path, batch: int = BATCH):
    net = Around(function).train()
    torch.export.save(torch.export.export(copy.deepcopy(net), (torch.zeros(BATCH, 3),)), path)
    return net, import_torch(path, batch)


def shifted(h, x):
    y = torch.zeros_like(h)
    y[:, 1:] = h[:, :-1]
    y[:, 0] = 2.0
    y[:, 3] += 1
    return y


def every_second(h, x):
    y = h * 2
    y[:, ::2] = x
    return y


def nested(h, x):
    y = (h * 1.5).view(BATCH, 2, 3)
    y[:, 1, 1:] = x[:, :2]
    y[:, 0].mul_(3)
    return y.view(BATCH, WIDTH)


def read_between(h, x):
    y = h.clone()
    seen = y[:, :3]
    before = seen * 2
    y[:, 1] = x[:, 0]
    return torch.cat([before, seen], 1) + y


def filled(h, x):
    y = torch.zeros(BATCH, WIDTH)
    y[:] = h
    y.copy_(y * 2)
    y[:, 2:4].fill_(0.5)
    return y


def listed(h, x):
    y = h + 1
    y[:, [5, 0, 2]] = x
    y[y < 0] = 0
    return y


def scattered(h, x):
    y = torch.slice_scatter(h, x[:, :2], 1, 1, 3)
    return torch.select_scatter(y, x[:, 0], 1, -1)


def of_constants(h, x):
    mask = torch.ones(WIDTH, WIDTH)
    mask[1:, 0] = 0.0
    mask[2] = 0.25
    mask[:, 3].fill_(2.0)
    return h @ mask


def transposed(h, x):
    y = h.clone()
    y.transpose(0, 1)[2] = x[:, 1]
    y.unsqueeze(1)[:, 0, 4] = x[:, 2]
    return y


def largest(h, x):
    table = torch.arange(WIDTH * WIDTH).reshape(WIDTH, WIDTH) / 10
    near = (h[:, None] - table).pow(2).sum(2).argmin(1)
    return h * table[near] + h.argmax(1, keepdim=True)


FUNCTIONS = [
    *(shifted, every_second, nested, read_between, filled, listed, scattered, of_constants),
    *(transposed, largest),
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda each: each.__name__)
def test_what_is_assigned_trains_as_in_pytorch(function: Callable, tmp_path: Path) -> None:
    net, model = imported(function, tmp_path / "net.pt2")
    sgd = Sgd(learning_rate=0.1, momentum=0.9)
    ours = Reference(make_program(model.graph, model.loss, sgd, model.frozen), model.weights)
    random = np.random.default_rng(1)
    samples = [
        (random.normal(size=(BATCH, 3)).astype(np.float32), random.integers(0, 3, BATCH))
        for _ in range(10)
    ]
    train_beside(ours, net, 0.1, samples, lambda x, y: F.cross_entropy(net(x), y), rel=1e-4)


def test_a_malformed_assignment_is_refused(tmp_path: Path) -> None:
    """The file does not say which shape the view has."""
    twice = {"other": {"as_int": 2}}
    nodes = [
        pt2.node("exp.default", "h", self=pt2.tensor("x")),
        pt2.node("select.int", "v", self=pt2.tensor("h"), dim={"as_int": 1}, index={"as_int": 0}),
        pt2.node("mul_.Tensor", "c", self=pt2.tensor("v"), **twice),
        pt2.node("relu.default", "y", self=pt2.tensor("h")),
    ]
    for shapes in ({"h": (2, 6), "y": (2, 6)}, {"h": (2, 6), "v": (2, 6), "y": (2, 6)}):
        members = pt2.files(nodes, shapes, {}, "y")
        with pytest.raises(ModelError, match=r"'h'|'v'"):
            import_torch(pt2.write(tmp_path / "net.pt2", members), 2)


def test_another_batch_trains_where_no_sample_is_assigned_alone(tmp_path: Path) -> None:
    _, model = imported(shifted, tmp_path / "net.pt2", 2 * BATCH)
    assert model.input.shape == (2 * BATCH, 3)


def of_a_sample(h, x):
    y = h * 2
    y[1] = 0.0
    return y


def through_a_reshape(h, x):
    y = h * 2
    y.reshape(-1)[3:5] = 0.0
    return y


def into_a_buffer(h, x):
    into_a_buffer.kept[0] = 1.0
    return h + into_a_buffer.kept


into_a_buffer.kept = torch.zeros(WIDTH)


@pytest.mark.parametrize(
    ("function", "batch", "said"),
    [
        (of_a_sample, 2 * BATCH, "assigns to some samples of a batch, which has another size"),
        (through_a_reshape, BATCH, "has changed in place since"),
        (into_a_buffer, BATCH, "has changed in place since|changes a parameter or a buffer"),
    ],
    ids=["sample", "reshape", "buffer"],
)
def test_what_cannot_be_assigned_is_refused(
    function: Callable, batch: int, said: str, tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match=said):
        imported(function, tmp_path / "net.pt2", batch)
