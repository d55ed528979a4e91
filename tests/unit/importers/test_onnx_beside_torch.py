# SPDX-License-Identifier: Apache-2.0
"""Weights in files of PyTorch's ONNX exporters train as in PyTorch, or are refused by name."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from poetfw.common.errors import ModelError
from poetfw.importers.onnx import import_onnx
from poetfw.training import Reference, Sgd, TrainedNames, make_program

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from unit.importers.beside_torch import train_beside  # noqa: E402

BATCH = 4
OLDER = {"dynamo": False, "do_constant_folding": False}
DOORS = {
    "newer": {},
    "newer, not optimized": {"optimize": False},
    "older": {"dynamo": False},
    "older, training": {**OLDER, "training": torch.onnx.TrainingMode.TRAINING},
}


class TiedTranspose(nn.Module):
    """Uses a matrix, and its transpose behind that."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 6))

    def forward(self, x):
        return F.linear(F.linear(x, self.weight).tanh(), self.weight.T)


class Joined(nn.Module):
    """Puts a token, or zeros, before what it calculates of each sample."""

    def __init__(self, *, token: bool) -> None:
        super().__init__()
        self.layer, self.head = nn.Linear(6, 6), nn.Linear(8, 6)
        self.token = nn.Parameter(torch.randn(1, 2)) if token else None

    def forward(self, x):
        n = x.size(0)
        first = torch.zeros(n, 2) if self.token is None else self.token.expand(n, -1)
        return self.head(torch.cat([first, self.layer(x)], 1))


class Scaled(nn.Module):
    """Multiplies by a buffer, which is a constant, and by a single number, which is trained."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 6)
        self.register_buffer("mix", torch.rand(6, 6))
        self.gate = nn.Parameter(torch.tensor(0.7))

    def forward(self, x):
        return self.gate * (self.layer(x) @ self.mix)


class Last(nn.Module):
    """Takes a recurrent layer's output without its states."""

    def forward(self, results):
        return results[0].flatten(1)


def twice(*, shared: bool) -> nn.Sequential:
    layer = nn.Linear(6, 6)
    return nn.Sequential(layer, nn.Tanh(), layer if shared else copy.deepcopy(layer))


def without_offset() -> nn.Sequential:
    net = dense()
    nn.init.zeros_(net[1].bias)
    return net


def dense(*between: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 6), *between, nn.Linear(6, 6))


def grouped() -> nn.Sequential:
    norm = nn.GroupNorm(2, 4, affine=False)
    return nn.Sequential(nn.Unflatten(1, (1, 6)), nn.Conv1d(1, 4, 1), norm, nn.Flatten())


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "norm without weights": lambda: dense(nn.LayerNorm(6, elementwise_affine=False)),
    "norm without bias": lambda: dense(nn.LayerNorm(6, bias=False)),
    "group norm without weights": grouped,
    "two norms": lambda: dense(nn.LayerNorm(6), nn.GELU(), nn.Linear(6, 6), nn.LayerNorm(6)),
    "tied transpose": TiedTranspose,
    "token": lambda: Joined(token=True),
    "zeros": lambda: Joined(token=False),
    "buffer and number": Scaled,
    "one layer twice": lambda: twice(shared=True),
    "equal layers": lambda: twice(shared=False),
    "weight norm": lambda: nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(6, 6))),
    "zero bias": without_offset,
    "recurrent": lambda: nn.Sequential(
        nn.Unflatten(1, (2, 3)), nn.LSTM(3, 3, batch_first=True), Last()
    ),
}
REFUSED = {
    ("token", "newer"): "a row for each of the file's 4 samples, all alike",
    ("group norm without weights", "newer"): "does not say whether they are weights",
    ("two norms", "newer"): "the network has them apart",
    ("equal layers", "newer"): "'0.bias', '0.weight': the network has them apart",
    ("weight norm", "newer"): "'mul' is what PyTorch's exporter calculated from '0.parametriz",
    ("zero bias", "newer"): "left out biases that are zero",
    **{("tied transpose", door): "shared with a node" for door in DOORS},
}


class OverBatch(nn.Module):
    """Divides by the batch size."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)

    def forward(self, x):
        return self.layer(x) / x.size(0)


@pytest.mark.parametrize("door", DOORS)
def test_the_file_s_batch_size_is_in_no_other_training(door: str, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    torch.onnx.export(OverBatch(), (torch.randn(BATCH, 6),), path, verbose=False, **DOORS[door])
    import_onnx(path, BATCH, "mse")
    with pytest.raises(ModelError, match="its number 4 may come from the file's batch size, 4"):
        import_onnx(path, 2 * BATCH, "mse")


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", NETWORKS)
def test_weights_train_as_in_pytorch_or_are_refused(name: str, door: str, tmp_path: Path) -> None:
    torch.manual_seed(1)
    net, path = NETWORKS[name]().train(), tmp_path / "net.onnx"
    torch.onnx.export(
        copy.deepcopy(net), (torch.randn(BATCH, 6),), path, verbose=False, **DOORS[door]
    )
    if (name, door) in REFUSED:
        with pytest.raises(ModelError, match=REFUSED[name, door]):
            import_onnx(path, BATCH, "mse")
        return
    chosen = TrainedNames()
    if name == "buffer and number" and "older" in door:
        with pytest.raises(ModelError, match="are weights or constants: 'gate', 'mix"):
            import_onnx(path, BATCH, "mse")
        chosen = TrainedNames(("*",), ("mix",))
    if name == "recurrent" and door == "older":
        with pytest.raises(ModelError, match="PyTorch's exporter calculated these"):
            import_onnx(path, BATCH, "mse", chosen=TrainedNames(("*",)))
        chosen = TrainedNames(("*", "onnx::*"))
    model = import_onnx(path, BATCH, "mse", chosen=chosen)
    assert model.warnings == ()
    sgd = Sgd(learning_rate=0.05, momentum=0.9)
    program = make_program(model.graph, model.loss, sgd, model.frozen)
    ours = Reference(program, model.weights)
    random = np.random.default_rng(2)
    shapes = (BATCH, 6), (BATCH, *model.output.shape[1:])
    samples = (tuple(random.normal(size=s).astype(np.float32) for s in shapes) for _ in range(10))
    train_beside(
        *(ours, net, 0.05, samples), lambda x, y: F.mse_loss(net(x), y), rel=1e-4, abs=1e-6
    )
