# SPDX-License-Identifier: Apache-2.0
"""Losses that a network calculates itself, as people write them, against PyTorch."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from poetfw.common.errors import DataError, ModelError
from poetfw.importers import load_data
from poetfw.importers.torch_export import import_torch
from poetfw.training import Reference, Sgd, make_prediction, make_program

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from unit.importers.beside_torch import train_beside  # noqa: E402

BATCH, STEPS, CLASSES = 4, 10, 3
INTEGERS, SHARES, PIXELS, SIGNS = "integers", "shares", "pixels", "signs"
LABELS: dict[str, Callable[[np.random.Generator], Any]] = {
    INTEGERS: lambda random: random.integers(0, CLASSES, BATCH).astype(np.int64),
    SHARES: lambda random: random.uniform(size=(BATCH, CLASSES)).astype(np.float32),
    PIXELS: lambda random: random.integers(-1, CLASSES, (BATCH, 2, 2)).astype(np.int64),
    SIGNS: lambda random: random.choice(np.float32([-1, 1]), BATCH),
}


class Network(nn.Module):
    """A small network that returns a loss, or a loss and its prediction."""

    def __init__(self, loss: Callable[..., Any], kind: str, *, alone: bool = True) -> None:
        super().__init__()
        outputs = CLASSES * 4 if kind == PIXELS else CLASSES
        self.body = nn.Sequential(nn.Linear(6, 8), nn.Tanh())
        self.head = nn.Linear(8, outputs)
        self.loss, self.kind, self.alone = loss, kind, alone

    def forward(self, x, y):
        p = self.head(self.body(x))
        if self.kind == PIXELS:
            p = p.reshape(-1, CLASSES, 2, 2)
        loss = self.loss(p, y, self) if self.loss.__code__.co_argcount == 3 else self.loss(p, y)
        return loss if self.alone else (loss, p)


def supervised_contrastive(p, y):
    z = F.normalize(p)
    apart = z @ z.T / 0.5 - 1e9 * torch.eye(BATCH)
    same = (y[:, None] == y[None]).float() * (1 - torch.eye(BATCH))
    return -(F.log_softmax(apart, 1) * same).sum() / BATCH


def info_nce(p, y):
    return F.cross_entropy(F.normalize(p) @ F.normalize(y).T / 0.2, torch.arange(BATCH))


def focal(p, y):
    right = F.softmax(p, 1).gather(1, y[:, None]).squeeze(1)
    return ((1 - right) ** 2 * F.cross_entropy(p, y, reduction="none")).mean()


def dice(p, y):
    share = p.sigmoid()
    return 1 - (2 * (share * y).sum() + 1) / (share.sum() + y.sum() + 1)


def penalised(p, y, net):
    weights = sum(w.abs().sum() for w in net.head.parameters())
    return F.cross_entropy(p, y) + 1e-2 * weights + 1e-3 * net.body[0].weight.pow(2).sum()


def triplet(p, y):
    return F.triplet_margin_loss(p, y, p.roll(1, 0), margin=0.5)


LOSSES: dict[str, tuple[Callable[..., Any], str]] = {
    "scaled": (lambda p, y: F.cross_entropy(p, y) * 0.5, INTEGERS),
    "sum, divided": (lambda p, y: F.cross_entropy(p, y, reduction="sum") / BATCH, INTEGERS),
    "weighted sum": (
        lambda p, y: F.cross_entropy(p, y, weight=torch.tensor([1.0, 0.5, 2.0]), reduction="sum"),
        INTEGERS,
    ),
    "smoothed, each": (
        lambda p, y: F.cross_entropy(p, y, label_smoothing=0.1, reduction="none").mean(),
        INTEGERS,
    ),
    "two losses": (
        lambda p, y: F.cross_entropy(p, y) + 0.3 * F.multi_margin_loss(p, y),
        INTEGERS,
    ),
    "penalised": (penalised, INTEGERS),
    "entropy": (
        lambda p, y: F.cross_entropy(p, y) - 0.1 * -(p.softmax(1) * p.log_softmax(1)).sum(1).mean(),
        INTEGERS,
    ),
    "focal": (focal, INTEGERS),
    "log of the chosen": (
        lambda p, y: -F.log_softmax(p, 1)[torch.arange(BATCH), y].mean(),
        INTEGERS,
    ),
    "log-sum-exp": (
        lambda p, y: (torch.logsumexp(p, 1) - p.gather(1, y[:, None]).squeeze(1)).mean(),
        INTEGERS,
    ),
    "one-hot": (
        lambda p, y: (p.softmax(1) - F.one_hot(y, CLASSES).float()).square().sum(1).mean(),
        INTEGERS,
    ),
    "nll, summed": (
        lambda p, y: F.nll_loss(p.log_softmax(1), y, reduction="sum") * 0.25,
        INTEGERS,
    ),
    "supervised contrastive": (supervised_contrastive, INTEGERS),
    "labels as numbers": (
        lambda p, y: ((p.softmax(1) * torch.arange(3.0)).sum(1) - y.float()).square().mean(),
        INTEGERS,
    ),
    "pixels": (lambda p, y: F.cross_entropy(p, y, ignore_index=-1), PIXELS),
    "pixels, weighted": (
        lambda p, y: F.cross_entropy(
            p, y, weight=torch.tensor([1.0, 0.5, 2.0]), ignore_index=-1, label_smoothing=0.1
        ),
        PIXELS,
    ),
    "pixels, masked by hand": (
        lambda p, y: (
            (F.cross_entropy(p, y, ignore_index=-1, reduction="none") * (y >= 0)).sum()
            / (y >= 0).sum()
        ),
        PIXELS,
    ),
    "tokens": (
        lambda p, y: (
            F.cross_entropy(
                p.permute(0, 2, 3, 1).reshape(-1, CLASSES), y.reshape(-1), ignore_index=-1
            )
            * 2
        ),
        PIXELS,
    ),
    "kl": (
        lambda p, y: F.kl_div(F.log_softmax(p, 1), y.softmax(1), reduction="batchmean"),
        SHARES,
    ),
    "distilled": (
        lambda p, y: (
            F.kl_div(
                F.log_softmax(p / 2, 1), F.log_softmax(y, 1), log_target=True, reduction="batchmean"
            )
            * 4
        ),
        SHARES,
    ),
    "shares of classes": (lambda p, y: F.cross_entropy(p, y.softmax(1)), SHARES),
    "shares, smoothed": (
        lambda p, y: F.cross_entropy(p, y.softmax(1), label_smoothing=0.2),
        SHARES,
    ),
    "quantile": (lambda p, y: torch.max(0.9 * (y - p), -0.1 * (y - p)).mean(), SHARES),
    "by hand": (
        lambda p, y: torch.where(
            (p - y).abs() < 0.3, 0.5 * (p - y) ** 2, 0.3 * (p - y).abs() - 0.045
        ).mean(),
        SHARES,
    ),
    "huber": (lambda p, y: F.huber_loss(p, y, delta=0.3), SHARES),
    "smooth l1": (lambda p, y: F.smooth_l1_loss(p, y, beta=0.2), SHARES),
    "mse, summed": (lambda p, y: F.mse_loss(p, y, reduction="sum"), SHARES),
    "log-cosh": (lambda p, y: torch.log(torch.cosh(p - y)).mean(), SHARES),
    "logits, weighted": (
        lambda p, y: F.binary_cross_entropy_with_logits(
            p, y, pos_weight=torch.tensor([1.0, 2.0, 3.0])
        ),
        SHARES,
    ),
    "probabilities": (lambda p, y: F.binary_cross_entropy(p.sigmoid(), y), SHARES),
    "dice": (dice, SHARES),
    "poisson": (lambda p, y: F.poisson_nll_loss(p, y), SHARES),
    "triplet": (triplet, SHARES),
    "cosine": (lambda p, y: (1 - F.cosine_similarity(p, y)).mean(), SHARES),
    "info-nce": (info_nce, SHARES),
    "gaussian": (
        lambda p, y: (0.5 * (p[:, 1] + (y[:, 0] - p[:, 0]) ** 2 * torch.exp(-p[:, 1]))).mean(),
        SHARES,
    ),
    "masked": (
        lambda p, y: ((p - y) ** 2).masked_fill(y < 0.5, 0.0).sum() / (y >= 0.5).float().sum(),
        SHARES,
    ),
    "hinge": (lambda p, y: F.relu(1 - p[:, 0] * y).mean(), SIGNS),
    "soft margin": (lambda p, y: F.soft_margin_loss(p[:, 0], y), SIGNS),
    "hinge embedding": (lambda p, y: F.hinge_embedding_loss(p.square().sum(1), y), SIGNS),
    "ranking": (lambda p, y: F.margin_ranking_loss(p[:, 0], p[:, 1], y, margin=0.1), SIGNS),
    "cosine embedding": (
        lambda p, y: F.cosine_embedding_loss(p, p.roll(1, 0).detach(), y, margin=0.2),
        SIGNS,
    ),
}
UNTOLD = ("supervised contrastive", "info-nce")
"""Losses of which it cannot be told what they are of, or are of what mixes samples."""


def imported(net: nn.Module, kind: str, path: Path, batch: int = BATCH) -> Any:
    y = torch.tensor(LABELS[kind](np.random.default_rng(0)))
    torch.export.save(torch.export.export(net, (torch.zeros(BATCH, 6), y)), path)
    return import_torch(path, batch)


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_of_one_s_own_trains_as_in_pytorch(name: str, tmp_path: Path) -> None:
    loss_of, kind = LOSSES[name]
    torch.manual_seed(0)
    net = Network(loss_of, kind, alone=name not in UNTOLD).train()
    model = imported(net, kind, tmp_path / "net.pt2")
    program = make_program(model.graph, model.loss, Sgd(learning_rate=0.1, momentum=0.9))
    ours = Reference(program, model.weights)
    theirs = copy.deepcopy(net)
    random = np.random.default_rng(1)
    samples = (
        (random.normal(size=(BATCH, 6)).astype(np.float32), LABELS[kind](random))
        for _ in range(STEPS)
    )

    def loss_in_torch(x: torch.Tensor, y: torch.Tensor) -> Any:
        result = theirs(x, y)
        return result if name not in UNTOLD else result[0]

    train_beside(ours, theirs, 0.1, samples, loss_in_torch, rel=1e-4, abs=1e-6)
    after = theirs.state_dict()
    for entry in model.state_dict:
        value = entry.of(ours.persistent[entry.tensor])
        np.testing.assert_allclose(value, after[entry.name].numpy(), rtol=1e-3, atol=1e-5)
    prediction = make_prediction(program)
    assert prediction.by_name[prediction.output].shape[1:] == model.output.shape[1:]
    assert "load_y" not in {op.kind for op in prediction.ops}


@pytest.mark.parametrize(
    ("loss", "kind", "reason"),
    [
        (lambda p, y: F.cross_entropy(p, y, reduction="sum") / BATCH, INTEGERS, "is not a mean"),
        (lambda p, y: (p - y).square().sum(), SHARES, "is not a mean"),
        (supervised_contrastive, INTEGERS, "export it with the batch that is trained with, 8"),
    ],
    ids=["sum of a loss", "sum", "product of samples"],
)
def test_what_joins_samples_needs_the_batch_of_the_file(
    loss: Callable[..., Any], kind: str, reason: str, tmp_path: Path
) -> None:
    net = Network(loss, kind, alone=False)
    imported(net, kind, tmp_path / "net.pt2")
    with pytest.raises(ModelError, match=reason):
        import_torch(tmp_path / "net.pt2", 2 * BATCH)


@pytest.mark.parametrize("name", ["two losses", "entropy", "pixels", "quantile", "ranking"])
def test_a_mean_is_one_of_another_batch_too(name: str, tmp_path: Path) -> None:
    loss_of, kind = LOSSES[name]
    net = Network(loss_of, kind)
    model = imported(net, kind, tmp_path / "net.pt2", 2 * BATCH)
    random = np.random.default_rng(2)
    x = random.normal(size=(2 * BATCH, 6)).astype(np.float32)
    y = np.concatenate([LABELS[kind](random) for _ in range(2)])
    expected = net(torch.tensor(x), torch.tensor(y)).item()
    given = y.astype(np.int32) if y.dtype == np.int64 else y
    program = make_program(model.graph, model.loss, Sgd())
    ours = Reference(program, model.weights)
    if model.classes is None:
        assert ours.evaluate(x, given) == pytest.approx(expected, rel=1e-5)
    else:
        right = int((net.head(net.body(torch.tensor(x))).argmax(1) == torch.tensor(y)).sum())
        assert ours.evaluate(x, given) == right
    assert ours.step(x, given) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("kind", "y", "reason"),
    [
        (PIXELS, np.full((9, 2, 2), CLASSES), "classes 0 to 2"),
        (PIXELS, np.full((9, 2), 1), r"need \[9, 2, 2\]"),
        (PIXELS, np.full((9, 2, 2), 0.5), "must be integers"),
        (INTEGERS, np.full(9, -1), "classes 0 to 2"),
        (SHARES, np.full((9, 3), np.nan), "holds NaN"),
    ],
    ids=["range", "shape", "type", "a class below 0", "not a number"],
)
def test_labels_that_do_not_fit_are_refused(kind: str, y: Any, reason: str, tmp_path: Path) -> None:
    name = {PIXELS: "pixels", INTEGERS: "focal", SHARES: "quantile"}[kind]
    model = imported(Network(LOSSES[name][0], kind), kind, tmp_path / "net.pt2")
    x = np.zeros((9, 6), np.float32)
    np.savez(tmp_path / "samples.npz", x=x, y=y)
    with pytest.raises(DataError, match=reason):
        load_data(tmp_path / "samples.npz", model)


def test_ignored_pixels_may_be_in_the_data(tmp_path: Path) -> None:
    model = imported(Network(LOSSES["pixels"][0], PIXELS), PIXELS, tmp_path / "net.pt2")
    y = np.full((9, 2, 2), -1)
    np.savez(tmp_path / "samples.npz", x=np.zeros((9, 6), np.float32), y=y)
    data = load_data(tmp_path / "samples.npz", model)
    assert data.y_train.dtype == np.int32
    assert (len(data.y_train), len(data.y_test)) == (7, 2)


class OneInput(nn.Module):
    """An auto-encoder that compares with its input."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 6)

    def forward(self, x):
        return F.mse_loss(self.layer(x), x) * 2


def test_a_loss_without_labels_is_refused_with_what_to_write(tmp_path: Path) -> None:
    path = tmp_path / "net.pt2"
    torch.export.save(torch.export.export(OneInput(), (torch.zeros(BATCH, 6),)), path)
    with pytest.raises(ModelError, match="cannot be told what the network predicts") as caught:
        import_torch(path, BATCH)
    assert "return loss, prediction" in caught.value.try_next[0]


class Heads(nn.Module):
    """Two results, neither of which is calculated from the other."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 3), nn.Linear(6, 3)

    def forward(self, x, y):
        return F.mse_loss(self.a(x), y) + F.l1_loss(self.b(x), y)


class Mixed(Heads):
    """A result without samples."""

    def forward(self, x, y):
        return F.mse_loss(self.a(x), y) + (self.b(x).mean(0) * y.mean(0)).sum()


def test_all_that_a_loss_compares_is_predicted(tmp_path: Path) -> None:
    path, example = tmp_path / "net.pt2", (torch.zeros(BATCH, 6), torch.zeros(BATCH, 3))
    torch.export.save(torch.export.export(Heads(), example), path)
    assert [name for name, _ in import_torch(path, BATCH).heads] == ["a", "b"]
    torch.export.save(torch.export.export(Mixed(), example), path)
    with pytest.raises(ModelError, match="cannot be told what the loss is of"):
        import_torch(path, BATCH)


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        (
            lambda p, y: F.cross_entropy(p, y, reduction="none"),
            r"has shape \[4\], but must be a sc",
        ),
        (lambda p, y: p.logsumexp(1) - y, r"has the shape \[4\]; the loss softmax_cross_entropy"),
    ],
    ids=["reduction", "mean"],
)
def test_a_loss_that_is_not_a_scalar_is_refused(
    loss: Callable[..., Any], said: str, tmp_path: Path
) -> None:
    class Unreduced(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(6, 3)

        def forward(self, x, y):
            return loss(self.a(x), y)

    example = (torch.zeros(4, 6), torch.zeros(4, dtype=torch.int64))
    torch.export.save(torch.export.export(Unreduced(), example), tmp_path / "net.pt2")
    with pytest.raises(ModelError, match=said) as caught:
        import_torch(tmp_path / "net.pt2", 4)
    assert "loss.mean()" in caught.value.try_next[0]


class WithConstants(nn.Module):
    """Reads a buffer, one that is not in the state dict, and a tensor that is no buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, CLASSES)
        self.register_buffer("scale", torch.tensor([1.0, 2.0, 3.0]))
        self.register_buffer("hidden", torch.tensor([1.0, 2.0, 4.0]), persistent=False)
        self.plain = torch.tensor([0.5, 0.25, 0.75])

    def forward(self, x, y):
        p = self.layer(x) * self.scale * self.hidden + self.plain
        return F.cross_entropy(p * torch.tensor([1.0, 0.5, 2.0]), y) * 1.5, p


def test_only_what_the_author_s_state_dict_names_is_written(tmp_path: Path) -> None:
    net = WithConstants()
    model = imported(net, INTEGERS, tmp_path / "net.pt2")
    assert {entry.name for entry in model.state_dict} == set(net.state_dict())
    state = {entry.name: entry.of(model.weights[entry.tensor]) for entry in model.state_dict}
    WithConstants().load_state_dict({name: torch.tensor(v) for name, v in state.items()})
