# SPDX-License-Identifier: Apache-2.0
"""Operators that are arithmetic of others, each within a network, against PyTorch."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from poetfw.importers.torch_export import import_torch
from poetfw.training import Reference, Sgd, make_program

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from unit.importers.beside_torch import train_beside  # noqa: E402

BATCH, STEPS = 4, 10


class Around(nn.Module):
    """A layer, a function of its numbers [N, 2, 4, 4], and a layer."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.function = function
        self.before = nn.Linear(6, 32)
        outputs = math.prod(self.inner(torch.zeros(1, 6)).shape[1:])
        self.after = nn.Linear(outputs, 3)

    def inner(self, x):
        return self.function(self.before(x).view(-1, 2, 4, 4))

    def forward(self, x):
        return self.after(self.inner(x).flatten(1))


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "where": lambda x: torch.where(x > 0, x, x.exp() - 1),
    "where of two": lambda x: torch.where(x[:, :1] < x[:, 1:], x[:, :1] * 2, x[:, 1:]),
    "where of a number": lambda x: torch.where(x.abs() >= 0.3, x, 0.0),
    "safe logarithm": lambda x: torch.where(x > 0.1, (x.clamp(min=0.1)).log(), x),
    "masks joined": lambda x: x * ((x > -0.5) & ~(x > 0.5)) + ((x < -1) | (x == 7)).float(),
    "masked": lambda x: x.masked_fill(x < 0, 0.5),
    "maximum": lambda x: torch.maximum(x[:, :1], x[:, 1:]),
    "minimum": lambda x: torch.minimum(x, x.flip(2) * 0.5),
    "equal numbers": lambda x: torch.maximum(x, x.detach()) + 3 * torch.minimum(x, x.detach()),
    "max of a constant": lambda x: torch.maximum(x, torch.zeros(())),
    "clamp by tensors": lambda x: torch.clamp(x, x.flip(3) - 0.1, x.flip(3) + 0.1),
    "sign": lambda x: x * x.sign(),
    "threshold": lambda x: F.threshold(x, 0.1, -0.2),
    "hardshrink": lambda x: F.hardshrink(x, 0.2),
    "softshrink": lambda x: F.softshrink(x, 0.2),
    "tanhshrink": F.tanhshrink,
    "softsign": F.softsign,
    "glu": lambda x: F.glu(x, 1),
    "extremes": lambda x: x.amax((2, 3)) - torch.amin(x, (2, 3)),
    "convolution of a sequence": lambda x: F.conv1d(
        x.flatten(2), torch.ones(3, 2, 3), stride=2, padding=1
    ),
    "average of whole windows": lambda x: F.avg_pool2d(x, 3, 2),
    "sine": lambda x: torch.sin(10 * x),
    "cosine": lambda x: torch.cos(10 * x),
    "logarithms": lambda x: torch.log1p(x.abs()) + torch.log2(1 + x**2) + torch.log10(2 + x**2),
    "exponentials": lambda x: (
        torch.expm1(0.1 * x) + torch.exp2(0.1 * x) + torch.cosh(0.1 * x) - torch.sinh(0.2 * x)
    ),
    "logit": lambda x: torch.logit(x.sigmoid(), eps=1e-4),
    "powers": lambda x: (0.3 * x) ** 5 + x.abs() ** 1.5 + (1 + x**2) ** -3 + 2.0 ** (0.1 * x),
    "power of itself": lambda x: (1 + x.abs()) ** (0.1 * x),
    "log-sum-exp": lambda x: torch.logsumexp(x, (2, 3)),
    "log-add-exp": lambda x: torch.logaddexp(x[:, 0], x[:, 1]),
    "cumulative sum": lambda x: x.cumsum(2),
    "cumulative sum of channels": lambda x: torch.cumsum(x, 1),
    "deviation": lambda x: x / x.std((2, 3), keepdim=True),
    "biased variance": lambda x: x.var(3, unbiased=False),
    "all of a sample": lambda x: x * x.flatten(1).std(1).view(-1, 1, 1, 1),
    "gather": lambda x: torch.gather(x, 3, torch.tensor([2, 0, 3]).expand(x.shape[0], 2, 4, 3)),
    "index_select": lambda x: torch.index_select(x, 2, torch.tensor([3, 1, 1])),
    "index list": lambda x: x[:, :, [2, 0]],
    "index by a constant mask": lambda x: x[:, :, torch.tensor([True, False, True, True])],
    "one-hot of the sign": lambda x: F.one_hot((x[:, 0] > 0).long(), 2) * x[:, 1, :, :, None],
    "nearest, smaller": lambda x: F.interpolate(x, size=3),
    "nearest, by 1.5": lambda x: F.interpolate(x, scale_factor=1.5),
    "nearest, exact": lambda x: F.interpolate(x, size=(3, 7), mode="nearest-exact"),
    "bicubic": lambda x: F.interpolate(x, size=(7, 3), mode="bicubic"),
    "bicubic, corners": lambda x: F.interpolate(x, size=6, mode="bicubic", align_corners=True),
    "lerp": lambda x: torch.lerp(x[:, 0], x[:, 1], 0.3),
    "addcmul": lambda x: torch.addcmul(x[:, 0], x[:, 0], x[:, 1], value=0.3),
    "addcdiv": lambda x: torch.addcdiv(x[:, 0], x[:, 0], 1 + x[:, 1] ** 2, value=0.3),
    "baddbmm": lambda x: torch.baddbmm(x[:, 0], x[:, 0], x[:, 1]),
    "cosine similarity": lambda x: F.cosine_similarity(x[:, 0], x[:, 1], dim=2),
    "distance": lambda x: F.pairwise_distance(x[:, 0], x[:, 1]),
    "norm of order 3": lambda x: torch.linalg.vector_norm(x, 3, (2, 3)),
    "straight through": lambda x: x + (x.sign() - x).detach(),
    "whole parts": lambda x: x + (2 * x).long() * 0.5,
    "types": lambda x: x.to(torch.float32).type_as(x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_operator_trains_as_in_pytorch(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = Around(FUNCTIONS[name]).train()
    path = tmp_path / "net.pt2"
    torch.export.save(torch.export.export(net, (torch.zeros(BATCH, 6),)), path)
    model = import_torch(path, BATCH, "mse")
    program = make_program(model.graph, model.loss, Sgd(learning_rate=0.01, momentum=0.9))
    ours = Reference(program, model.weights)
    theirs = copy.deepcopy(net)
    random = np.random.default_rng(1)
    samples = (
        (
            random.normal(size=(BATCH, 6)).astype(np.float32),
            random.normal(size=(BATCH, 3)).astype(np.float32),
        )
        for _ in range(STEPS)
    )
    train_beside(
        ours, theirs, 0.01, samples, lambda x, y: F.mse_loss(theirs(x), y), rel=1e-4, abs=1e-6
    )
    after = theirs.state_dict()
    for entry in model.state_dict:
        value = entry.of(ours.persistent[entry.tensor])
        np.testing.assert_allclose(value, after[entry.name].numpy(), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0])
def test_noise_of_any_probability_is_drawn(p: float, tmp_path: Path) -> None:
    path = tmp_path / "net.pt2"
    net = Around(lambda x: x * torch.bernoulli(torch.zeros_like(x), p)).train()
    torch.export.save(torch.export.export(net, (torch.zeros(BATCH, 6),)), path)
    assert "uniform" in [op.kind for op in import_torch(path, BATCH, "mse").graph.ops]
