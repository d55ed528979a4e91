# SPDX-License-Identifier: Apache-2.0
"""Ordinary networks, exported by PyTorch, train as PyTorch itself trains them."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

from poetfw.errors import ModelError
from poetfw.importers.torch_export import import_torch
from poetfw.ops import check_shapes, kind_of
from poetfw.training import Sgd, make_prediction, make_program
from poetfw.training.reference import Reference
from unit.training.test_prediction import predict

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional

from ordinary import IDS, NETWORKS  # noqa: E402 (which needs torch)

BATCH, STEPS = 4, 10
FAST = ("mlp", "squeeze-excite", "tied and frozen", "in place", "lstm")
SGD = Sgd(learning_rate=0.05, momentum=0.9, weight_decay=1e-3)


def exported(net, x, path: Path) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(torch.export.export(net, (x,)), path)
    return path


def draw(shape, random: np.random.Generator):
    if shape == IDS:
        return torch.from_numpy(random.integers(0, 20, (BATCH, 8)))
    return torch.from_numpy(random.standard_normal((BATCH, *shape)).astype(np.float32))


@pytest.mark.parametrize(
    "name",
    [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in NETWORKS],
)
def test_a_network_trains_as_pytorch_trains_it(name: str, tmp_path: Path) -> None:
    make, shape = NETWORKS[name]
    torch.manual_seed(1)
    random = np.random.default_rng(3)
    net, x = make().train(), draw(shape, random)
    with torch.no_grad():
        net(x)  # makes lazy layers, and moves running statistics away from their start
    model = import_torch(exported(net, x, tmp_path / "net.pt2"), BATCH)
    program = make_program(model.graph, model.loss, SGD, model.frozen)
    ours = Reference(program, model.weights)
    theirs = torch.optim.SGD(
        [parameter for parameter in net.parameters() if parameter.requires_grad],
        lr=SGD.learning_rate,
        momentum=SGD.momentum,
        weight_decay=SGD.weight_decay,
    )
    for _ in range(STEPS):
        x, y = draw(shape, random), random.integers(0, 10, BATCH)
        theirs.zero_grad()
        loss = F.cross_entropy(net(x), torch.from_numpy(y))
        loss.backward()
        theirs.step()
        assert ours.step(x.numpy(), y.astype(np.int32)) == pytest.approx(loss.item(), abs=1e-4)
    state = {name: value.numpy() for name, value in net.state_dict().items()}
    trained = {entry.name for entry in model.state_dict}
    assert trained == {name for name in state if "num_batches_tracked" not in name}
    graph, x = make_prediction(program), draw(shape, random)
    check_shapes(graph)
    with torch.no_grad():
        expected = net.eval()(x)[0].numpy()
    predicted = predict(graph, ours.persistent, x[0].numpy())
    if name in ("mobilenet", "in place"):  # whose log-softmax is a part of the loss
        predicted, expected = predicted - predicted[0], expected - expected[0]
    np.testing.assert_allclose(predicted, expected, atol=1e-3, rtol=1e-3)
    for entry in model.state_dict:
        np.testing.assert_allclose(
            entry.of(ours.persistent[entry.tensor]), state[entry.name], atol=1e-4, rtol=1e-4
        )


@pytest.mark.parametrize(
    "name", ["vgg", *(pytest.param(n, marks=pytest.mark.slow) for n in NETWORKS)]
)
def test_another_batch_than_the_exported_one_gives_the_same_or_is_refused(
    name: str, tmp_path: Path
) -> None:
    make, shape = NETWORKS[name]
    torch.manual_seed(1)
    net, random = make().train(), np.random.default_rng(4)
    x = draw(shape, random)
    net(x[:2])
    path = exported(net, x[:2], tmp_path / "net.pt2")
    if name == "gru":  # whose sequences have the batch on axis 1
        with pytest.raises(ModelError, match="export it with the batch that is trained with, 4"):
            import_torch(path, BATCH)
        return
    model = import_torch(path, BATCH)
    program = make_program(model.graph, model.loss, SGD, model.frozen)
    y = random.integers(0, 10, BATCH)
    loss = F.cross_entropy(net(x), torch.from_numpy(y)).item()
    ours = Reference(program, model.weights).step(x.numpy(), y.astype(np.int32))
    assert ours == pytest.approx(loss, abs=1e-5)


@pytest.mark.parametrize(
    ("layer", "reason"),
    [
        (lambda: nn.Dropout(0.5), r"drops a share of 0\.5, .* set it to 0"),
        (lambda: nn.BatchNorm2d(1).eval(), r"in evaluation mode, .* export net\.train\(\)"),
        (lambda: nn.BatchNorm2d(1, track_running_stats=False), "keeps no running statistics"),
        (lambda: nn.AdaptiveAvgPool2d(3), "the output must divide the input"),
        (lambda: nn.MaxPool2d(2, dilation=2), r"its dilation is \[2, 2\]"),
        (lambda: nn.ConstantPad2d(1, 3.0), "pads with 3; poetfw pads with 0"),
        (lambda: nn.Upsample(scale_factor=1.5), "whole times"),
        (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), "no such operator"),
        (lambda: nn.Hardtanh(-2, 2), r"clips to \[-2(\.0)?, 2(\.0)?\]"),
        (lambda: nn.LeakyReLU(-0.1), "'slope' to be a finite number"),
        (lambda: nn.Softplus(beta=2), "a beta or threshold of its own"),
        (lambda: nn.SELU(), "no such operator|scaled, as SELU is"),
        (lambda: nn.AvgPool2d(2, divisor_override=3), "divisor_override"),
        (lambda: nn.AvgPool2d(3, 2, padding=1, ceil_mode=True), "ceil_mode and padding that"),
        (lambda: nn.InstanceNorm2d(1, track_running_stats=True), "keeps running statistics"),
    ],
)
@pytest.mark.slow
def test_what_is_not_what_its_author_means_is_refused(layer, reason, tmp_path: Path) -> None:
    net = nn.Sequential(nn.Conv2d(1, 1, 1), layer(), nn.Flatten(), nn.LazyLinear(10))
    x = torch.randn(2, 1, 8, 8)
    with torch.no_grad():
        net(x)
    path = exported(net, x, tmp_path / "net.pt2")
    with pytest.raises(ModelError, match=reason):
        import_torch(path, 2)


IN_PLACE = {
    "flat view": "h.view(-1).mul_(2); return torch.relu(h)",
    "row of zeros": "h[:, 0].zero_(); return h + 1",
    "assignment": "h[:, 0] = 0; return h + 1",
    "output": "h.view(-1).mul_(2); return h",
    "output's view": "y = h.view(-1, 2, 3); h.mul_(2); return y",
    "slice": "h[:, 1:3].mul_(2); return h + 1",
    "chain": "h.t()[1:].reshape(-1).view(-1).add_(1); h.t()[1:].unsqueeze(0)[0].mul_(2); return h",
    "old view": "v = h.transpose(0, 1); h.mul_(2); return v.transpose(0, 1) + h",
    "diagonal": "h.diagonal().mul_(2); return h + 1",
    "narrow": "h.narrow(1, 0, 2).mul_(2); return h + 1",
    "as strided": "h.as_strided((2,), (1,)).mul_(2); return h + 1",
    "detached": "h.detach().mul_(2); return h + 1",
    "unfold": "h.unfold(1, 2, 2).mul_(2); return h + 1",
    "split": "a, b = h.split(3, 1); b.mul_(2); return h + 1",
    "list": "a, b = torch.broadcast_tensors(x, h); b.mul_(2); return h + 1",
    "foreach": "torch._foreach_mul_([x, h], 2.0); return h + 1",
    "out": "torch.mul(x, 2, out=h); return h + 1",
    "input": "x.view(-1).mul_(2); return x + h",
    "buffer": "self.b.add_(1); return h * self.b",
    "buffer later": "y = h * self.b; self.b.view(-1).add_(1); return y",
    "tied": "y = h * self.b; self.tied.add_(1); return y",
    "result": "v = h.view(-1).mul_(2); return v.view(-1, 6) + 1",
    "copy": "h.clone().mul_(2); return h + 1",
    "constant": "return h * torch.tensor([1., 2., 3., 4., 5., 6.]).mul_(2)",
    "made": "z = torch.zeros(4, 6); z[:, 0] = 1; return h + z",
    "shuffled": "v = F.pixel_shuffle(h.view(4, 6, 1, 1), 1); v.mul_(2); return h + 1",
    "padded": "F.pad(h, (0, 0)).mul_(2); return h + 1",
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_what_is_changed_in_place_is_right_or_refused(name: str, tmp_path: Path) -> None:
    """Called twice, since the second time is the first that sees a changed buffer."""
    scope = {"torch": torch, "F": F}
    exec(f"def forward(self, x):\n h = x * 3\n {IN_PLACE[name]}", scope)
    net = type("Net", (nn.Module,), {"forward": scope["forward"]})()
    net.register_buffer("b", torch.ones(6))
    net.register_buffer("tied", net.b)
    x = draw((6,), np.random.default_rng(3))
    path = exported(net, x.clone(), tmp_path / "net.pt2")
    try:
        model = import_torch(path, BATCH, "mse")
    except ModelError:
        assert name not in ("result", "copy", "padded")
        return
    values = {**model.weights, model.input.name: x.numpy()}
    for op in model.graph.ops:
        values[op.output] = kind_of(op).compute(op, [values[i] for i in op.inputs], [])
    for _ in range(2):
        np.testing.assert_allclose(values[model.graph.output], net(x.clone()).detach(), 1e-6)
