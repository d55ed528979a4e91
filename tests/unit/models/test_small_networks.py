# SPDX-License-Identifier: Apache-2.0
"""The small built-in networks, against PyTorch modules that were written apart from them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from poetfw.importers import load_data
from poetfw.ir import Role
from poetfw.models import Model, build_model
from poetfw.training import Reference, make_program

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional


def norm(channels: int) -> Any:
    return nn.BatchNorm2d(channels, eps=1e-3)


class SamePad(nn.Module):
    """TensorFlow's padding "SAME" as its documentation defines it."""

    def __init__(self, kernel: tuple[int, int], stride: int) -> None:
        super().__init__()
        self.kernel, self.stride = kernel, stride

    def forward(self, x: Any) -> Any:
        edges: list[int] = []
        for size, kernel in zip(x.shape[:1:-1], self.kernel[::-1], strict=True):
            rest = size % self.stride or self.stride
            total = max(kernel - rest, 0)
            edges += [total // 2, total - total // 2]
        return F.pad(x, edges)


def conv(inputs: int, outputs: int, kernel: Any = (3, 3), stride: int = 1, groups: int = 1) -> Any:
    pad = SamePad(kernel, stride)
    return nn.Sequential(pad, nn.Conv2d(inputs, outputs, kernel, stride, groups=groups))


def separable(inputs: int, outputs: int, stride: int = 1) -> list[Any]:
    return [
        *(conv(inputs, inputs, stride=stride, groups=inputs), norm(inputs), nn.ReLU()),
        *(conv(inputs, outputs, (1, 1)), norm(outputs), nn.ReLU()),
    ]


class Block8(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.a, self.a_norm = conv(inputs, outputs, stride=stride), norm(outputs)
        self.b, self.b_norm = conv(outputs, outputs), norm(outputs)
        self.shortcut = conv(inputs, outputs, (1, 1), stride) if stride > 1 else nn.Identity()

    def forward(self, x: Any) -> Any:
        y = self.b_norm(self.b(F.relu(self.a_norm(self.a(x)))))
        return F.relu(y + self.shortcut(x))


def resnet8() -> Any:
    blocks = Block8(16, 16, 1), Block8(16, 32, 2), Block8(32, 64, 2)
    stem = conv(3, 16), norm(16), nn.ReLU()
    return nn.Sequential(*stem, *blocks, nn.AvgPool2d(8), nn.Flatten(), nn.Linear(64, 10))


def ds_cnn() -> Any:
    body = [layer for _ in range(4) for layer in separable(64, 64)]
    stem = conv(1, 64, (10, 4), 2), norm(64), nn.ReLU()
    return nn.Sequential(*stem, *body, nn.AvgPool2d((24, 5)), nn.Flatten(), nn.Linear(64, 12))


def mobilenet() -> Any:
    strides = (1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1)
    outputs = (16, 32, 32, 64, 64, 128, 128, 128, 128, 128, 128, 256, 256)
    body: list[Any] = [conv(3, 8, stride=2), norm(8), nn.ReLU()]
    for inputs, channels, stride in zip((8, *outputs), outputs, strides, strict=False):
        body += separable(inputs, channels, stride)
    return nn.Sequential(*body, nn.AvgPool2d(3), nn.Flatten(), nn.Linear(256, 2))


def autoencoder() -> Any:
    widths = (640, 128, 128, 128, 128, 8, 128, 128, 128, 128)
    layers: list[Any] = []
    for inputs, outputs in pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.BatchNorm1d(outputs, eps=1e-3), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(128, 640))


class Excite(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.reduce = nn.Linear(channels, channels // 4)
        self.expand = nn.Linear(channels // 4, channels)

    def forward(self, x: Any) -> Any:
        scales = torch.sigmoid(self.expand(F.relu(self.reduce(x.mean((2, 3))))))
        return x * scales[:, :, None, None]


def squeeze_excite() -> Any:
    layers: list[Any] = []
    for inputs, outputs in ((1, 16), (16, 32)):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs)]
        layers += [Excite(outputs), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(128, 10))


class Recurrent(nn.Module):
    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer, self.head = layer(8, 32, batch_first=True), nn.Linear(32, 10)

    def forward(self, x: Any) -> Any:
        return self.head(self.layer(x)[0][:, -1])


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(32)
        self.query, self.key, self.value, self.out = (nn.Linear(32, 32) for _ in range(4))
        self.norm2, self.wide, self.narrow = nn.LayerNorm(32), nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x: Any) -> Any:
        y = self.norm1(x)
        heads = (
            f(y).unflatten(2, (4, 8)).transpose(1, 2) for f in (self.query, self.key, self.value)
        )
        y = F.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2)
        x = x + self.out(y)
        return x + self.narrow(F.gelu(self.wide(self.norm2(x))))


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.positions = nn.Linear(8, 32), nn.Parameter(torch.zeros(8, 32))
        self.blocks, self.head = nn.Sequential(Attention(), Attention()), nn.Linear(32, 10)

    def forward(self, x: Any) -> Any:
        return self.head(self.blocks(self.embed(x) + self.positions).mean(1))


NETWORKS: dict[str, Callable[[], Any]] = {
    "resnet8": resnet8,
    "ds-cnn": ds_cnn,
    "mobilenet": mobilenet,
    "autoencoder": autoencoder,
    "squeeze-excite": squeeze_excite,
    "lstm": lambda: Recurrent(nn.LSTM),
    "gru": lambda: Recurrent(nn.GRU),
    "transformer-tiny": Transformer,
}


def shapes_in_order(network: Any) -> list[tuple[str, Any]]:
    """Parameters module by module; a module's own come before those of the modules in it."""
    named = dict(network.named_parameters())
    if isinstance(network, Transformer):  # positions are added after the embedding
        first = ["embed.weight", "embed.bias", "positions"]
        named = {name: named[name] for name in (*first, *(n for n in named if n not in first))}
    return list(named.items())


def copy_weights(model: Model, network: Any) -> dict[str, list[tuple[str, int | None]]]:
    """Give a network the model's weights; returns which of its parameters each tensor is."""
    left = shapes_in_order(network)
    found: dict[str, list[tuple[str, int | None]]] = {}
    with torch.no_grad():
        for tensor in model.graph.with_role(Role.PARAMETER):
            values = torch.tensor(model.weights[tensor.name], dtype=torch.float64)
            rows = (0, 1) if tensor.name.endswith(".affine") else (None,)
            found[tensor.name] = []
            for row in rows:
                name, parameter = left.pop(0)
                parameter.copy_(values if row is None else values[row])
                found[tensor.name].append((name, row))
    assert not left
    return found


def network_of(name: str, model: Model) -> tuple[Any, dict[str, list[tuple[str, int | None]]]]:
    network = NETWORKS[name]().double()
    return network, copy_weights(model, network)


def check_training(name: str, batch: int, steps: int) -> None:
    """Losses and weights of some steps of training, in float64, against PyTorch's."""
    model = build_model(name, batch)
    data = load_data("synthetic", model)
    network, found = network_of(name, model)
    optimizer = torch.optim.SGD(
        network.parameters(), model.optimizer.learning_rate, model.optimizer.momentum
    )
    reference = Reference(make_program(model.graph, model.loss, model.optimizer), model.weights)
    for step in range(steps):
        batch_of = slice(step * batch, (step + 1) * batch)
        x, y = data.x_train[batch_of], data.y_train[batch_of]
        optimizer.zero_grad()
        answers = network(torch.tensor(x, dtype=torch.float64))
        if model.loss == "mse":
            loss = F.mse_loss(answers, torch.tensor(y, dtype=torch.float64))
        else:
            loss = F.cross_entropy(answers, torch.tensor(y, dtype=torch.int64))
        loss.backward()
        optimizer.step()
        assert reference.step(x, y) == pytest.approx(loss.item(), rel=1e-5), step
    named = dict(network.named_parameters())
    for tensor, parts in found.items():
        for parameter, row in parts:
            wanted = named[parameter].detach().numpy()
            actual = (
                reference.persistent[tensor] if row is None else reference.persistent[tensor][row]
            )
            assert np.abs(actual - wanted).max() <= 1e-5 * max(np.abs(wanted).max(), 1e-3), (
                parameter
            )


QUICK = ("ds-cnn", "autoencoder", "squeeze-excite", "lstm", "gru", "transformer-tiny")


@pytest.mark.parametrize("name", QUICK)
def test_a_small_network_trains_as_pytorch_trains_it(name: str):
    check_training(name, 4, 2)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(NETWORKS))
def test_a_network_trains_as_pytorch_trains_it(name: str):
    check_training(name, 8, 10)


@pytest.mark.parametrize(
    ("name", "trained", "all_numbers", "macs"),
    [
        ("resnet8", 78_186, 78_666, 12_501_632),
        ("ds-cnn", 23_756, 24_908, 2_656_768),
        ("mobilenet", 216_322, 221_794, 7_489_664),
        ("autoencoder", 267_928, 269_992, 264_192),
    ],
)
def test_mlperf_tinys_networks_are_as_published(
    name: str, trained: int, all_numbers: int, macs: int
):
    """Trainable and all parameters that Keras counts (`model.summary()`) in MLPerf Tiny's sources.

    Multiply-accumulates are those of convolutions and dense layers, of one sample: 12.5, 2.66, 7.49
    and 0.264 million.
    """
    model = build_model(name, batch=2)
    assert model.parameter_count == trained
    assert sum(tensor.elements for tensor in model.graph.persistent) == all_numbers
    assert model.macs == macs


@pytest.mark.parametrize("name", list(NETWORKS))
def test_parameters_and_macs_are_pytorchs(name: str):
    """Counted by hooks on PyTorch's layers, attention and recurrent layers by their formulas."""
    model = build_model(name, batch=1)
    network = NETWORKS[name]().eval()
    assert model.parameter_count == sum(p.numel() for p in network.parameters())
    macs = 0

    def count(module: Any, inputs: Any, output: Any) -> None:
        nonlocal macs
        if isinstance(module, nn.Conv2d):
            macs += output.numel() * module.weight[0].numel()
        elif isinstance(module, nn.Linear):
            macs += output.numel() * module.in_features
        elif isinstance(module, nn.RNNBase):
            macs += 8 * sum(weight.numel() for weight in module.all_weights[0][:2])
        elif isinstance(module, Attention):
            macs += 2 * 8 * 8 * 32  # queries times keys, shares times values

    for module in network.modules():
        module.register_forward_hook(count)
    network(torch.zeros(model.input.shape))
    assert model.macs == macs


@pytest.mark.parametrize(
    ("name", "data", "share"),
    [
        ("lstm", "digits", 0.8),
        ("gru", "digits", 0.8),
        ("transformer-tiny", "digits", 0.8),
        ("squeeze-excite", "digits", 0.9),
    ],
)
@pytest.mark.slow
def test_a_small_network_learns_the_digits(name: str, data: str, share: float):
    model = build_model(name)
    samples = load_data(data, model)
    reference = Reference(
        make_program(model.graph, model.loss, model.optimizer), model.weights, np.float32
    )
    order = np.random.default_rng(0)
    for _ in range(model.epochs):
        for batch in order.permutation(len(samples.x_train))[: 44 * 32].reshape(44, 32):
            reference.step(samples.x_train[batch], samples.y_train[batch])
    correct = sum(
        reference.evaluate(samples.x_test[i : i + 32], samples.y_test[i : i + 32])
        for i in range(0, 352, 32)
    )
    assert correct / 352 > share, correct / 352
