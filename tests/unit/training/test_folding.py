# SPDX-License-Identifier: Apache-2.0
"""Folding of frozen batch norms and padding: against PyTorch, and against what is not folded."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest

from poetfw.importers.torch_export import import_torch
from poetfw.ir import Graph, Role
from poetfw.models import Model
from poetfw.models.bert import BertSize, bert
from poetfw.planning import BuildSettings, derive_program
from poetfw.training import Reference, Sgd, fold, make_program

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from unit.importers.beside_torch import train_beside  # noqa: E402

BATCH = 3


class Backbone(nn.Module):
    """A trained stem, frozen layers with batch norms behind and in front of them, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(2, 4, 1)
        self.first = nn.Conv2d(4, 6, 3, stride=2, bias=False)
        self.norm1 = nn.BatchNorm2d(6)
        self.wise = nn.Conv2d(6, 6, (3, 2), stride=2, groups=6)
        self.norm2 = nn.BatchNorm2d(6)
        self.norm3 = nn.BatchNorm2d(6, affine=False)
        self.pairs = nn.Conv2d(6, 4, 1, groups=2)
        self.body = nn.Sequential(nn.Linear(4, 7), nn.BatchNorm1d(7), nn.ReLU())
        self.norm4 = nn.BatchNorm1d(7)
        self.last = nn.Linear(7, 6, bias=False)
        self.head = nn.Linear(6, 5)

    def forward(self, x):
        h = self.norm1(self.first(F.pad(self.stem(x), (0, 1, 2, 1)))).relu()
        h = self.norm2(self.wise(F.pad(h, (1, 0, 1, 1)))).relu()
        h = self.pairs(self.norm3(h)).mean((2, 3))
        return self.head(self.last(self.norm4(self.body(h))).tanh())


def adapted(*trained: str) -> Backbone:
    torch.manual_seed(0)
    net = Backbone()
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d | nn.BatchNorm1d):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2.0)
            if module.affine:
                nn.init.uniform_(module.weight, 0.5, 1.5)
                nn.init.normal_(module.bias)
            module.eval()
    for name, parameter in net.named_parameters():
        parameter.requires_grad_(name.startswith(trained))
    return net


def imported(net: nn.Module, folder: Path, *shape: int) -> Model:
    path = folder / "net.pt2"
    torch.export.save(torch.export.export(net, (torch.zeros(2, *shape),)), path)
    return import_torch(path, BATCH)


def kinds(graph: Graph) -> list[str]:
    return [op.kind for op in graph.ops]


def test_a_folded_network_trains_as_in_pytorch(tmp_path: Path) -> None:
    net = adapted("stem", "head")
    model = imported(net, tmp_path, 2, 9, 8)
    assert kinds(model.graph).count("batch_norm") == 5
    assert kinds(model.graph).count("put_strided") == 4
    settings = BuildSettings("linux", batch=BATCH, learning_rate=0.1, momentum=0.9)
    program = derive_program(settings, model)
    for graph in (program.training, program.evaluation):
        assert not {"batch_norm", "put_strided"} & set(kinds(graph))
    assert "batch_norm_backward_frozen" not in kinds(program.training)
    ours = Reference(program, model.weights)
    theirs = copy.deepcopy(net).double()
    random = np.random.default_rng(1)
    samples = [
        (random.normal(size=(BATCH, 2, 9, 8)).astype(np.float32), random.integers(0, 5, BATCH))
        for _ in range(10)
    ]
    train_beside(ours, theirs, 0.1, samples, lambda x, y: F.cross_entropy(theirs(x), y), rel=2e-6)
    after = theirs.state_dict()
    for entry in model.state_dict:
        if entry.name.startswith(("stem", "head")):
            value = entry.of(ours.persistent[entry.tensor])
            np.testing.assert_allclose(value, after[entry.name].numpy(), rtol=1e-5, atol=1e-6)
    held = {tensor.name for tensor in program.constants}
    assert held == set(program.made)
    assert not held & set(model.weights)


@pytest.mark.parametrize("trained", ["first", "norm1", "wise", "pairs", "norm4", "last", "body"])
def test_nothing_that_trains_is_folded(trained: str, tmp_path: Path) -> None:
    model = imported(adapted(trained), tmp_path, 2, 9, 8)
    graph, made = fold(model.graph, model.weights, model.frozen)
    kept = {tensor.name for tensor in graph.tensors}
    updated = {t.name for t in model.graph.with_role(Role.PARAMETER)} - set(model.frozen)
    assert updated <= kept
    whole, _ = fold(model.graph, model.weights, [*model.frozen, *updated])
    assert len(graph.ops) > len(whole.ops)
    programs = [
        make_program(each, model.loss, Sgd(), model.frozen) for each in (graph, model.graph)
    ]
    x = np.random.default_rng(0).normal(size=(BATCH, 2, 9, 8))
    y = np.arange(BATCH, dtype=np.int32)
    folded, plain = (Reference(p, {**model.weights, **made}) for p in programs)
    for _ in range(3):
        assert folded.step(x, y) == pytest.approx(plain.step(x, y), rel=1e-6)


def test_what_is_read_twice_answers_or_moves_stays(tmp_path: Path) -> None:
    class Kept(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = nn.Conv2d(2, 2, 3, padding=1), nn.BatchNorm2d(2)
            self.moves = nn.BatchNorm2d(2)
            self.padded = nn.Conv2d(2, 2, 3, padding=1)
            self.head = nn.Linear(2, 5)

        def forward(self, x):
            h = self.conv(x)
            h = h + self.norm(h)  # the convolution's output is read beside the batch norm
            h = self.padded(self.norm(h))  # zeros around it are not what the norm makes of zeros
            h = self.moves(h)  # takes the batch's statistics
            return self.head(self.padded(F.pad(h, (3, 3, 3, 3))).mean((2, 3)))

    net = Kept()
    net.norm.eval()
    for part in (net.conv, net.norm, net.moves, net.padded):
        part.requires_grad_(False)
    model = imported(net, tmp_path, 2, 4, 4)
    graph, made = fold(model.graph, model.weights, model.frozen)
    assert graph == model.graph
    assert not made


@pytest.mark.parametrize("frozen", [False, True])
def test_of_a_frozen_table_only_the_slice_that_is_read_is_left(frozen: bool) -> None:
    model = bert("net", BertSize(1, 8, 2, sequence=4, vocabulary=9, positions=16), BATCH, 0)
    tables = {f"embeddings.{name}.weight" for name in ("position", "segment")}
    graph, made = fold(model.graph, model.weights, tables if frozen else ())
    program = make_program(graph, model.loss, Sgd(learning_rate=0.1), tables if frozen else ())
    before = {tensor.name for tensor in model.graph.tensors}
    assert tables.issubset(before)
    if not frozen:
        assert (graph, dict(made)) == (model.graph, {})
        return
    assert made.keys() == {"embeddings.position", "embeddings.segment"}
    assert {tensor.name for tensor in program.constants} == made.keys()
    whole = make_program(model.graph, model.loss, Sgd(learning_rate=0.1), tables)
    ids = np.arange(4 * BATCH, dtype="i4").reshape(BATCH, 4) % 9
    y = np.zeros(BATCH, "i4")
    losses = []
    for each, weights in ((program, {**model.weights, **made}), (whole, model.weights)):
        reference = Reference(each, weights, np.float32)
        losses.append([reference.step(ids, y) for _ in range(3)])
    assert losses[0] == losses[1]
