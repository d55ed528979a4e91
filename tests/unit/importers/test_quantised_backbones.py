# SPDX-License-Identifier: Apache-2.0
"""Backbones with quantised weights, and norms of weights that only evaluation mode has."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest

from poetfw.common.errors import ModelError
from poetfw.importers.torch_export import import_torch
from poetfw.ops.packed import pack
from poetfw.training import Reference, Sgd, make_program, pack_constants

torch = pytest.importorskip("torch")
pytest.importorskip("torch.ao.quantization.fx._decomposed")  # defines the operators
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from unit.importers.beside_torch import train_beside  # noqa: E402

BATCH, RATE = 4, 0.1


class Quantised(nn.Module):
    """A linear layer with int8 weights and scales, as convert_pt2e writes it, and a head."""

    def __init__(self, scale: float = 0.01, *, activations: bool = False) -> None:
        super().__init__()
        torch.manual_seed(2)
        weights = torch.randint(-127, 128, (8, 6), dtype=torch.int8)
        weights[:, 0] = 127
        self.register_buffer("weight", weights)
        self.register_buffer("scale", torch.linspace(0.005, scale, 8))
        self.register_buffer("zero", torch.zeros(8, dtype=torch.int64))
        self.head, self.activations = nn.Linear(8, 3), activations

    def forward(self, x):
        ops = torch.ops.quantized_decomposed
        if self.activations:
            x = ops.quantize_per_tensor(x, 0.02, 0, -128, 127, torch.int8)
            x = ops.dequantize_per_tensor(x, 0.02, 0, -128, 127, torch.int8)
        weight = ops.dequantize_per_channel(
            self.weight, self.scale, self.zero, 0, -127, 127, torch.int8
        )
        return self.head(F.linear(x, weight).relu())


def saved(net: nn.Module, path: Path) -> Path:
    torch.export.save(torch.export.export(copy.deepcopy(net), (torch.zeros(BATCH, 6),)), path)
    return path


def batches():
    random = np.random.default_rng(1)
    for _ in range(10):
        x = random.normal(size=(BATCH, 6)).astype(np.float32)
        yield x, random.integers(0, 3, BATCH)


def test_weights_by_channel_are_frozen_and_pack_to_their_own_bytes(tmp_path: Path) -> None:
    net = Quantised()
    model = import_torch(saved(net, tmp_path / "net.pt2"), BATCH)
    assert model.frozen == ("weight",)
    program = make_program(
        model.graph, model.loss, Sgd(learning_rate=RATE, momentum=0.9), model.frozen
    )
    words, scales = pack("weight", model.weights["weight"], "int8")
    assert np.array_equal(words.view(np.int8)[:, :6], net.weight.numpy())
    np.testing.assert_allclose(scales, net.scale.numpy(), rtol=1e-6)
    ours = Reference(
        pack_constants(program, model.weights, list(model.weights), "int8"), model.weights
    )
    train_beside(ours, net, RATE, batches(), lambda x, y: F.cross_entropy(net(x), y), rel=1e-4)


@pytest.mark.parametrize("scale", [0.0, float("nan"), -1.0])
def test_a_scale_that_is_no_positive_number_is_named(scale: float, tmp_path: Path) -> None:
    net = Quantised()
    net.scale[5] = scale
    with pytest.raises(ModelError, match=f"the scale of its output channel 5 is {scale:g}, but"):
        import_torch(saved(net, tmp_path / "net.pt2"), BATCH)


def test_quantised_activations_are_refused_with_what_to_export(tmp_path: Path) -> None:
    path = saved(Quantised(activations=True), tmp_path / "net.pt2")
    with pytest.raises(ModelError, match="before convert_pt2e, and build with --frozen-as int8"):
        import_torch(path, BATCH)


def test_spectral_norm_trains_in_evaluation_mode(tmp_path: Path) -> None:
    torch.manual_seed(0)
    last = nn.utils.parametrizations.spectral_norm(nn.Linear(8, 3))
    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), last).train()
    last.parametrizations.weight.eval()
    model = import_torch(saved(net, tmp_path / "net.pt2"), BATCH)
    sgd = Sgd(learning_rate=RATE, momentum=0.9)
    ours = Reference(make_program(model.graph, model.loss, sgd, model.frozen), model.weights)
    train_beside(ours, net, RATE, batches(), lambda x, y: F.cross_entropy(net(x), y), rel=1e-4)
