# SPDX-License-Identifier: Apache-2.0
"""Batch sizes in what a network calculates: trained right if left open, or else refused.

Expressions calculate with `n = x.size(0)`, which a file of an example has as a number.
"""

from __future__ import annotations

import copy
import json
import math
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from poetfw.common.errors import ModelError
from poetfw.importers.torch_export import import_torch
from poetfw.importers.torch_export.open_sizes import evaluate
from poetfw.training import Reference, Sgd, make_program

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

OPEN = torch.export.Dim.DYNAMIC
Loss = Callable[[int, Any, Any, Any], Any]


class Network(nn.Module):
    """A linear layer and a bias, whose loss knows the batch size n."""

    def __init__(self, loss: Loss) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.bias = nn.Parameter(torch.full((1, 3), 0.3))
        self.loss = loss

    def forward(self, x, y):
        p = self.layer(x)
        return self.loss(x.size(0), p, y, self), p


def distance(p, y):
    return (p - y).square().mean()


def simclr(n, p, y, net):
    z = F.normalize(torch.cat([p, y]), dim=1)
    apart = (z @ z.T / 0.5).masked_fill(torch.eye(2 * n, dtype=torch.bool), -1e9)
    return F.cross_entropy(apart, torch.cat([torch.arange(n) + n, torch.arange(n)]))


def barlow_twins(n, p, y, net):
    a, b = ((each - each.mean(0)) / (each.std(0) + 0.1) for each in (p, y))
    return (a.T @ b / n - torch.eye(3)).square().sum()


def all_pairs(n, p, y, net):
    return (p[None].expand(n, -1, -1) - y[:, None].expand(-1, n, -1)).square().mean()


LEAKING: dict[str, Loss] = {
    "sum / n": lambda n, p, y, net: (p - y).square().sum() / n,
    "summed loss / n": lambda n, p, y, net: F.mse_loss(p, y, reduction="sum") / n,
    "mean * n": lambda n, p, y, net: distance(p, y) * n,
    "mean * (1 / n)": lambda n, p, y, net: distance(p, y) * (1 / n),
    "rows / n": lambda n, p, y, net: ((p - y) / n).square().mean(),
    "root of n": lambda n, p, y, net: distance(p, y) * n**0.5,
    "penalty / n": lambda n, p, y, net: distance(p, y) + net.layer.weight.square().sum() / n,
    "penalty by elements": lambda n, p, y, net: (
        distance(p, y) + net.layer.weight.square().sum() / p.numel()
    ),
    "places": lambda n, p, y, net: ((torch.arange(n)[:, None] / n) * (p - y)).square().mean(),
    "mean of places": lambda n, p, y, net: distance(p, y) * torch.arange(n).float().mean(),
    "ones": lambda n, p, y, net: distance(p, y) * torch.ones(n, 3).sum(),
    "unit matrix": lambda n, p, y, net: distance(p, y) * torch.eye(n).sum(),
    "mask of pairs": lambda n, p, y, net: ((p @ y.T) * (1 - torch.eye(n))).mean(),
    "triangle": lambda n, p, y, net: (torch.triu(torch.ones(n, n), 1) * (p @ y.T)).mean(),
    "simclr": simclr,
    "barlow twins": barlow_twins,
    "all pairs": all_pairs,
    "pairs by place": lambda n, p, y, net: F.cross_entropy(p @ y.T, torch.arange(n)),
    "n beside numbers": lambda n, p, y, net: (p - y + n).square().mean(),
    "the last row": lambda n, p, y, net: (p[n - 1] - y[n - 1]).square().mean(),
    "variance": lambda n, p, y, net: ((p - p.mean(0)).square().sum(0) / (n - 1) - y).abs().mean(),
    "n in a tensor": lambda n, p, y, net: distance(p, y) * torch.tensor(float(n)),
    "slope": lambda n, p, y, net: (F.leaky_relu(p, 1 / n) - y).square().mean(),
}
SAME: dict[str, Loss] = {
    "view": lambda n, p, y, net: (p.view(n, -1) - y).square().mean(),
    "one row": lambda n, p, y, net: (p.view(n * 3) - y.view(n * 3)).square().mean(),
    "expand": lambda n, p, y, net: (p - net.bias.expand(n, 3) * y).square().mean(),
    "repeat": lambda n, p, y, net: (p - net.bias.repeat(n, 1) * y).square().mean(),
    "zeros": lambda n, p, y, net: (
        (torch.cat([p, torch.zeros(n, 3)], 1)).square().mean() + distance(p, y)
    ),
}
"""Those that a file of any batch size has right."""


def exported(loss: Loss, batch: int, path: Path, **options: Any) -> nn.Module:
    torch.manual_seed(1)
    net = Network(loss).train()
    example = (torch.randn(batch, 4), torch.randn(batch, 3))
    torch.export.save(torch.export.export(copy.deepcopy(net), example, **options), path)
    return net


def trains_as_in_torch(net: nn.Module, path: Path, batch: int) -> None:
    """Train three steps here and in PyTorch, and compare the weights."""
    model = import_torch(path, batch)
    program = make_program(
        model.graph, model.loss, Sgd(learning_rate=0.1, momentum=0.0), heads=model.heads
    )
    ours = Reference(program, model.weights)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        x, y = torch.randn(batch, 4), torch.randn(batch, 3)
        ours.step(x.numpy(), y.numpy())
        optimizer.zero_grad()
        net(x, y)[0].backward()
        optimizer.step()
    for entry in model.state_dict:
        np.testing.assert_allclose(
            entry.of(ours.persistent[entry.tensor]),
            net.state_dict()[entry.name].numpy(),
            rtol=1e-4,
            atol=1e-5,
        )


@pytest.mark.parametrize("batch", [3, 6])
@pytest.mark.parametrize("name", [name for name in LEAKING | SAME if name != "n in a tensor"])
def test_a_batch_left_open_trains_as_in_pytorch(name: str, batch: int, tmp_path: Path) -> None:
    path = tmp_path / "net.pt2"
    net = exported((LEAKING | SAME)[name], 4, path, dynamic_shapes=[{0: OPEN}] * 2)
    trains_as_in_torch(net, path, batch)


@pytest.mark.parametrize(("example", "batch"), [(2, 4), (1, 4), (4, 2), (3, 6)])
@pytest.mark.parametrize("name", LEAKING)
def test_the_example_s_batch_is_in_no_other_training(
    name: str, example: int, batch: int, tmp_path: Path
) -> None:
    path = tmp_path / "net.pt2"
    exported(LEAKING[name], example, path)
    with pytest.raises(ModelError) as caught:
        import_torch(path, batch)
    if example == 2 and "example's" in caught.value.message:
        assert (
            "export it with the batch that is trained with, 4, or leave it open: "
            "dynamic_shapes=[{0: torch.export.Dim.DYNAMIC}] * 2" in caught.value.message
        )


@pytest.mark.parametrize("example", [1, 2, 4])
@pytest.mark.parametrize("name", SAME)
def test_shapes_follow_any_batch(name: str, example: int, tmp_path: Path) -> None:
    path = tmp_path / "net.pt2"
    net = exported(SAME[name], example, path)
    trains_as_in_torch(net, path, 6)


class Spelled(nn.Module):
    """Numbers that the author wrote, equal to the example's batch size."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.half, self.gain = 2, 0.5, nn.Parameter(torch.ones(3))
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))
        self.slope, self.head = nn.LeakyReLU(0.5), nn.Linear(4, 3)

    def forward(self, x, y):
        for layer in self.layers:
            x = 2 * self.slope(layer(x)) - 1 + x / 2
        p = self.head(x.view(-1, 2, 2).flatten(1)) * 0.5
        p = self.scale * p + self.half * p.tanh()
        return 1 - torch.exp(-((p - y) ** 2)).mean(), p


class Both(Spelled):
    """A number that the author wrote, beside the same one from the batch."""

    def forward(self, x, y):
        n = x.size(0)
        p = self.head(x)
        return (2 * (p - y)).square().mean() * n, p


class Gained(Spelled):
    """A parameter that the line multiplies by, beside a number from the batch."""

    def forward(self, x, y):
        n = x.size(0)
        p = self.gain * self.head(x) / n
        return (p - y).square().mean(), p


@pytest.mark.parametrize("example", [1, 2])
def test_numbers_in_the_author_s_lines_are_the_author_s(example: int, tmp_path: Path) -> None:
    torch.manual_seed(1)
    net, path = Spelled().train(), tmp_path / "net.pt2"
    samples = (torch.randn(example, 4), torch.randn(example, 3))
    torch.export.save(torch.export.export(copy.deepcopy(net), samples), path)
    trains_as_in_torch(net, path, 4)


@pytest.mark.parametrize("net", [Both, Gained])
def test_a_number_that_a_line_s_text_does_not_explain_is_refused(
    net: type[nn.Module], tmp_path: Path
) -> None:
    path = tmp_path / "net.pt2"
    samples = (torch.randn(2, 4), torch.randn(2, 3))
    torch.export.save(torch.export.export(net(), samples), path)
    with pytest.raises(ModelError, match="its number 2 may come from the example's batch size, 2"):
        import_torch(path, 4)


def test_a_region_without_gradients_has_open_sizes_too(tmp_path: Path) -> None:
    def centred(n, p, y, net):
        with torch.no_grad():
            centre = p.sum(0) / n
        return (p - centre - y / n).square().mean()

    path = tmp_path / "net.pt2"
    net = exported(centred, 4, path, dynamic_shapes=[{0: OPEN}] * 2)
    trains_as_in_torch(net, path, 6)


def test_other_open_axes_are_those_of_the_example(tmp_path: Path) -> None:
    class Rows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, x):
            return self.layer(x).sum(1) / x.size(1)

    path = tmp_path / "net.pt2"
    auto = torch.export.Dim.AUTO
    program = torch.export.export(
        Rows(), (torch.randn(4, 5, 4),), dynamic_shapes=({0: auto, 1: auto},)
    )
    torch.export.save(program, path)
    assert import_torch(path, 7, "mse").graph.tensors[0].shape == (7, 5, 4)


@pytest.mark.parametrize(
    ("loss", "dims", "batch", "reason"),
    [
        (lambda n, p, y, net: distance(p, y), torch.export.Dim("n", max=8), 16, "'s[0-9]+ ≤ 8'"),
        (lambda n, p, y, net: distance(p, y), torch.export.Dim("n", min=4), 3, "'s[0-9]+ ≥ 4'"),
        (lambda n, p, y, net: distance(p, y) * math.sqrt(n), torch.export.Dim.AUTO, 8, "== 4"),
        (
            lambda n, p, y, net: distance(p[: n // 2], y[: n // 2]),
            OPEN,
            2,
            "does not hold for a batch of 2",
        ),
        (lambda n, p, y, net: distance(p, y), 2 * torch.export.Dim("half"), 3, "not 3"),
    ],
    ids=["at most", "at least", "not open after all", "another path", "multiples"],
)
def test_a_batch_that_the_program_does_not_hold_for_is_refused(
    loss: Loss, dims: Any, batch: int, reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "net.pt2"
    exported(loss, 4, path, dynamic_shapes=({0: dims}, {0: dims}))
    import_torch(path, 4)
    with pytest.raises(ModelError, match=reason) as caught:
        import_torch(path, batch)
    assert f"export it with an example of {batch} samples" in caught.value.try_next[0]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Symbol('s0', positive=True, integer=True)", 6),
        ("Add(Mul(Integer(2), Symbol('s0')), Integer(-1))", 11),
        ("FloorDiv(Symbol('s0'), Integer(4))", 1),
        ("FloatPow(ToFloat(Symbol('s0')), Float('0.5', precision=53))", 6**0.5),
        ("Symbol('u0')", None),
        ("Pow(Integer(9), Pow(Integer(9), Integer(9)))", None),
        ("__import__('os').system('true')", None),
        ("().__class__", None),
        ("1" + " " * 999, 1),
        ("1" + " " * 1000, None),
        ("(" * 400 + "1" + ")" * 400, None),
        ("-" * 999 + "1", None),
        ("Integer(1)" + "+Integer(1)" * 10_000, None),
        ("FloorDiv(Integer(1), Integer(0))", None),
    ],
)
def test_expressions_are_evaluated_and_nothing_else(text: str, value: float | None) -> None:
    found = evaluate(text, {"s0": 6})
    assert found == (pytest.approx(value) if value is not None else None)


@pytest.mark.parametrize("sizes", [5, [5], [{"as_expr": 5}], [{"as_expr": {"expr_str": 5}}], None])
def test_malformed_open_sizes_are_refused(sizes: Any, tmp_path: Path) -> None:
    path = tmp_path / "net.pt2"
    exported(lambda n, p, y, net: distance(p, y), 4, path, dynamic_shapes=[{0: OPEN}] * 2)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    (model,) = (name for name in members if name.endswith("models/model.json"))
    document = json.loads(members[model])
    document["graph_module"]["graph"]["tensor_values"]["x"]["sizes"] = sizes
    members[model] = json.dumps(document).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with pytest.raises(ModelError):
        import_torch(path, 4)
