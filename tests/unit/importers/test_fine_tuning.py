# SPDX-License-Identifier: Apache-2.0
"""Pretrained networks whose backbone is in evaluation mode, frozen or not, against PyTorch."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from poetfw.common.errors import ModelError
from poetfw.importers.torch_export import import_torch
from poetfw.ops import Array
from poetfw.training import Reference, Sgd, make_program

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from unit.importers.beside_torch import train_beside  # noqa: E402

BATCH, STEPS = 4, 10


class Pretrained(nn.Module):
    """A backbone of convolutions and batch norms, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *(nn.Conv2d(1, 6, 3, bias=False), nn.BatchNorm2d(6), nn.ReLU()),
            *(nn.Conv2d(6, 8, 3, stride=2), nn.BatchNorm2d(8), nn.ReLU()),
            *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.BatchNorm1d(8, affine=False)),
        )
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        return self.head(self.body(x))


def pretrained(*, frozen: bool) -> Pretrained:
    torch.manual_seed(0)
    net = Pretrained()
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d | nn.BatchNorm1d):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2.0)
            if module.affine:
                nn.init.uniform_(module.weight, 0.5, 1.5)
                nn.init.normal_(module.bias)
    net.train()
    net.body.eval()
    net.body.requires_grad_(not frozen)
    return net


def batches(*shape: int) -> Iterator[tuple[Array, Array]]:
    """Features and classes of STEPS batches."""
    random = np.random.default_rng(1)
    for _ in range(STEPS):
        x = random.normal(size=(BATCH, *shape)).astype(np.float32)
        yield x, random.integers(0, 5, BATCH)


@pytest.mark.parametrize("frozen", [True, False], ids=["frozen", "trained"])
def test_a_backbone_in_evaluation_mode_trains_as_in_pytorch(frozen: bool, tmp_path: Path) -> None:
    net = pretrained(frozen=frozen)
    path = tmp_path / "net.pt2"
    torch.export.save(torch.export.export(net, (torch.zeros(2, 1, 9, 9),)), path)
    model = import_torch(path, BATCH)
    program = make_program(
        model.graph, model.loss, Sgd(learning_rate=0.1, momentum=0.9), model.frozen
    )
    ours = Reference(program, model.weights)
    theirs = copy.deepcopy(net).double()
    train_beside(
        ours, theirs, 0.1, batches(1, 9, 9), lambda x, y: F.cross_entropy(theirs(x), y), rel=1e-6
    )
    before, after = net.state_dict(), theirs.state_dict()
    for entry in model.state_dict:
        value = entry.of(ours.persistent[entry.tensor])
        np.testing.assert_allclose(value, after[entry.name].numpy(), rtol=1e-5, atol=1e-7)
        if frozen and not entry.name.startswith("head"):
            assert np.array_equal(value, before[entry.name].numpy())
    constants = {tensor.name for tensor in program.constants}
    statistics = [name for name in constants if "running" in name]
    assert len(statistics) == 3
    assert (constants >= set(model.frozen)) is True
    kinds = {op.kind for op in program.training.ops}
    assert ("batch_norm_backward_frozen" in kinds) is not frozen
    assert "batch_norm_statistics" not in kinds


class Parts(nn.Module):
    """A network of which parts do not train, in one of the ways that people write that."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way
        self.body = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 8))
        self.head = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 5))

    def features(self, x):
        h = self.body(x)
        return h * h.sigmoid()

    @torch.no_grad()
    def without_gradients(self, x):
        return self.features(x), self.body[0](x).relu_()

    def forward(self, x):
        if self.way == "no_grad":
            with torch.no_grad():
                h = self.features(x)
                with torch.enable_grad():
                    h = self.body[3](h) + h
            return self.head(h)
        if self.way == "decorated, two results":
            h, g = self.without_gradients(x)
            return self.head(h) + self.head(g)
        if self.way == "detached":
            return self.head(self.features(x).detach())
        if self.way == "detached behind a ReLU":
            return self.head(self.features(x).relu().detach().flatten(1))
        h = self.features(x)  # straight through: rounded forward, as if it were not backward
        return self.head(h + (h.relu() - h).detach())


@pytest.mark.parametrize(
    "way",
    [
        *("no_grad", "decorated, two results", "detached", "detached behind a ReLU"),
        "straight through",
    ],
)
def test_parts_without_gradients_train_as_in_pytorch(way: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = Parts(way).train()
    path = tmp_path / "net.pt2"
    torch.export.save(torch.export.export(net, (torch.zeros(2, 6),)), path)
    model = import_torch(path, BATCH)
    program = make_program(
        model.graph, model.loss, Sgd(learning_rate=0.1, momentum=0.9), model.frozen
    )
    ours = Reference(program, model.weights)
    theirs = copy.deepcopy(net).double()
    train_beside(
        ours, theirs, 0.1, batches(6), lambda x, y: F.cross_entropy(theirs(x), y), rel=1e-6
    )
    before, after = net.state_dict(), theirs.state_dict()
    body = {entry.tensor for entry in model.state_dict if entry.name.startswith("body")}
    moved = {name for op in program.training.ops for name in op.updates} & body
    trained = {"no_grad": ["body.3.weight", "body.3.bias"], "straight through": sorted(body)}
    assert {name for name in moved if "running" not in name} == set(trained.get(way, ())) - {
        "body.1.running_mean+body.1.running_var"
    }
    for entry in model.state_dict:
        value = entry.of(ours.persistent[entry.tensor])
        np.testing.assert_allclose(value, after[entry.name].numpy(), rtol=1e-5, atol=1e-7)
        if entry.tensor in body - moved:
            assert np.array_equal(value, before[entry.name].numpy()), entry.name
    assert ("tanh_backward" in {op.kind for op in program.training.ops}) is (
        way == "straight through"
    )


def test_a_loss_that_reaches_nothing_trained_is_refused(tmp_path: Path) -> None:
    class Cut(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(6, 5)

        def forward(self, x):
            return self.layer(x).detach()

    path = tmp_path / "net.pt2"
    torch.export.save(torch.export.export(Cut(), (torch.zeros(2, 6),)), path)
    model = import_torch(path, BATCH)
    with pytest.raises(ModelError, match="depends on nothing that is trained"):
        make_program(model.graph, model.loss, Sgd())


def test_values_of_constants_are_part_of_a_program_s_identity() -> None:
    from poetfw.models import build_model

    model = build_model("mlp", 2, 0)
    program = make_program(model.graph, model.loss, Sgd(), ["hidden1.weight"])
    first = program.with_values(model.weights)
    changed = {name: np.array(value) for name, value in model.weights.items()}
    changed["hidden1.weight"][0, 0] += 1
    assert first.fingerprint
    assert first.with_values(changed).fingerprint != first.fingerprint
    changed["logits.weight"][0, 0] += 1
    changed["hidden1.weight"][0, 0] = model.weights["hidden1.weight"][0, 0]
    assert first.with_values(changed) == first
    assert type(program).from_json(first.to_json()) == first
