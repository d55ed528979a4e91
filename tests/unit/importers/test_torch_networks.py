# SPDX-License-Identifier: Apache-2.0
"""Ordinary networks, exported by PyTorch, train as PyTorch itself trains them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from poetfw.common.errors import ModelError
from poetfw.importers.onnx import import_onnx
from poetfw.importers.torch_export import import_torch
from poetfw.ir import Dtype
from poetfw.ops import check_shapes, kind_of
from poetfw.ops.class_losses import ClassOptions
from poetfw.planning import BuildSettings, load_model
from poetfw.training import make_prediction, make_program
from poetfw.training.reference import Reference
from unit.training.test_prediction import predict

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional


from workloads import doors  # noqa: E402 (which needs torch)
from workloads.doors import ALL_NETWORKS, BATCH, SGD, draw, made, same_dropout, trained  # noqa: E402
from workloads.ordinary import NETWORKS  # noqa: E402

FAST = ("mlp", "squeeze-excite", "tied and frozen", "in place", "lstm", "dropout")
LOG_SOFTMAX = ("mobilenet", "in place")
"""Those whose log-softmax is a part of the loss."""


def exported(net, x, path: Path) -> Path:
    return doors.export(net, x, path, "pt2")


def marked(names) -> list:
    return [
        name if name in names else pytest.param(name, marks=pytest.mark.slow) for name in NETWORKS
    ]


@pytest.mark.parametrize("name", marked(FAST))
def test_a_network_trains_as_pytorch_trains_it(name: str, tmp_path: Path) -> None:
    path = exported(*made(name)[:2], tmp_path / "net.pt2")
    net, _, random = made(name)
    model = import_torch(path, BATCH, doors.loss_of(name))
    result = trained(model, net, name, random)
    assert result.difference < 1e-4
    state = {key: value.numpy() for key, value in net.state_dict().items()}
    known = {entry.name for entry in model.state_dict}
    assert known <= state.keys()
    assert known >= {key for key, p in net.named_parameters() if p.requires_grad}
    assert known >= {key for key in state if key.endswith(("running_mean", "running_var"))}
    for entry in model.state_dict:
        ours = entry.of(result.ours.persistent[entry.tensor])
        theirs = np.clip(state[entry.name], -1e30, 1e30)
        np.testing.assert_allclose(ours, theirs, atol=1e-4, rtol=1e-4)
    graph, x = make_prediction(result.program), draw(NETWORKS[name][1], random)
    check_shapes(graph)
    with torch.no_grad():
        expected = net.eval()(x)[0].numpy()
    predicted = predict(graph, result.ours.persistent, x[0].numpy())
    if name in LOG_SOFTMAX:
        predicted, expected = predicted - predicted[0], expected - expected[0]
    np.testing.assert_allclose(predicted, expected, atol=1e-3, rtol=1e-3)


class Sequences(nn.Module):
    """Recurrent layers with dropout between them, and a number for each step."""

    def __init__(self, kind, batch_first: bool, dropout: float = 0.4) -> None:
        super().__init__()
        self.rnn = kind(4, 3, num_layers=3, dropout=dropout, batch_first=batch_first)
        self.head = nn.Linear(3, 1)

    def forward(self, x):
        if self.rnn.batch_first:
            return self.head(self.rnn(x)[0])
        return self.head(self.rnn(x.transpose(0, 1))[0]).transpose(0, 1)


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_dropout_between_recurrent_layers_is_pytorchs(kind, batch_first, tmp_path: Path) -> None:
    """In training, after every layer but the last, scaled up; and none in evaluation."""
    torch.manual_seed(3)
    net = Sequences(kind, batch_first).train()
    x, y = torch.randn(BATCH, 3, 4), torch.randn(BATCH, 3, 1)
    model = import_torch(exported(net, x, tmp_path / "net.pt2"), BATCH, "mse")
    program = make_program(model.graph, "mse", SGD)
    ours = Reference(program, model.weights)
    theirs = torch.optim.SGD(
        net.parameters(), SGD.learning_rate, SGD.momentum, weight_decay=SGD.weight_decay
    )
    for step in range(4):
        theirs.zero_grad()
        with same_dropout(step, turned=batch_first):
            loss = F.mse_loss(net(x), y)
        loss.backward()
        theirs.step()
        assert ours.step(x.numpy(), y.numpy()) == pytest.approx(loss.item(), rel=1e-5)
    for entry in model.state_dict:
        expected = net.state_dict()[entry.name].numpy()
        np.testing.assert_allclose(entry.of(ours.persistent[entry.tensor]), expected, atol=1e-6)
    expected = F.mse_loss(net.eval()(x), y).item()
    assert ours.evaluate(x.numpy(), y.numpy()) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("net", "warned"),
    [
        (nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)), True),
        (nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.0)), False),
        (Sequences(nn.LSTM, True), True),
        (Sequences(nn.RNN, True), True),
        (Sequences(nn.RNN, True, 0.0), False),
    ],
)
def test_dropout_that_the_exported_mode_leaves_out_is_said(net, warned, tmp_path: Path) -> None:
    path = exported(net.eval(), torch.randn(2, 3, 4), tmp_path / "net.pt2")
    model = import_torch(path, 2, "mse")
    assert any("dropout in evaluation mode" in warning for warning in model.warnings) == warned


@pytest.mark.parametrize("name", marked(("vgg",)))
def test_another_batch_than_the_exported_one_gives_the_same(name: str, tmp_path: Path) -> None:
    net, x, random = made(name)
    path = exported(net, x[:2], tmp_path / "net.pt2")
    net, x, random = made(name)
    model = import_torch(path, BATCH, doors.loss_of(name))
    program = make_program(model.graph, model.loss, SGD, model.frozen)
    with same_dropout(0):
        prediction = net(x.clone())
    if doors.loss_of(name) == "mse":
        y = torch.sigmoid(x).numpy()
        loss = F.mse_loss(prediction, torch.from_numpy(y)).item()
    else:
        y = random.integers(0, 10, BATCH).astype(np.int32)
        loss = F.cross_entropy(prediction, torch.from_numpy(y).long()).item()
    assert Reference(program, model.weights).step(x.numpy(), y) == pytest.approx(loss, abs=1e-5)


@pytest.mark.parametrize("door", ["pt2", "TorchScript, training"])
@pytest.mark.parametrize("ends_in_it", [True, False])
def test_likelihood_behind_a_log_softmax_is_cross_entropy(
    door: str, ends_in_it: bool, tmp_path: Path
) -> None:
    """Which is the same: the first steps are those of `nn.NLLLoss`."""
    torch.manual_seed(0)
    last = torch.nn.LogSoftmax(1) if ends_in_it else torch.nn.LogSigmoid()
    net = torch.nn.Sequential(torch.nn.Linear(8, 10), last)
    x = torch.randn(BATCH, 8)
    path = doors.export(net, x, tmp_path / ("net.pt2" if door == "pt2" else "net.onnx"), door)
    model = (import_torch if door == "pt2" else import_onnx)(path, BATCH, "nll")
    assert model.loss == ("softmax_cross_entropy" if ends_in_it else "nll")
    y = np.array([3, 9, 0, 3])
    options = ClassOptions(tuple(map(float, range(1, 11))), ignore_index=0)
    ours = Reference(make_program(model.graph, model.loss, SGD, options=options), model.weights)
    loss = F.nll_loss(
        net(x), torch.from_numpy(y), torch.tensor(options.class_weights), ignore_index=0
    )
    assert ours.step(x.numpy(), y) == pytest.approx(loss.item(), rel=1e-6)


@pytest.mark.parametrize(
    ("last", "loss", "warned"),
    [
        ([], "nll", True),
        ([], None, False),
        ([nn.LogSoftmax(1)], "nll", False),
        ([nn.LogSoftmax(1), nn.ReLU()], "nll", True),
        ([nn.Unflatten(1, (1, 10)), nn.LogSoftmax(2), nn.Flatten()], "nll", False),
    ],
)
def test_likelihood_of_no_logarithm_is_warned_of(
    last: list[nn.Module], loss: str | None, warned: bool, tmp_path: Path
) -> None:
    net = nn.Sequential(nn.Linear(8, 10), *last)
    path = exported(net, torch.randn(BATCH, 8), tmp_path / "net.pt2")
    settings = BuildSettings("linux", str(path), batch=BATCH, loss=loss)
    warnings = load_model(settings).warnings
    assert any("takes log-probabilities" in warning for warning in warnings) == warned


class WithLoss(nn.Module):
    """A network that is called with labels, as those of Hugging Face are."""

    def __init__(self, loss, last=None) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3), last or nn.Identity())
        self.loss = loss

    def forward(self, x, labels):
        logits = self.net(x)
        return {
            "loss": self.loss(logits.view(-1, 3), labels.view(-1, *labels.shape[1:])),
            "y": logits,
        }


WEIGHTS = torch.tensor([1.0, 2.0, 4.0])
LABELS, NUMBERS = torch.tensor([2, 0, 1, 2]), torch.linspace(-2, 2, 12).view(4, 3)
ENDINGS = {
    "cross-entropy": (nn.CrossEntropyLoss(), LABELS, None),
    "weighted": (nn.CrossEntropyLoss(WEIGHTS, label_smoothing=0.1, ignore_index=1), LABELS, None),
    "softmax twice": (nn.CrossEntropyLoss(), LABELS, nn.Softmax(1)),
    "nll": (nn.NLLLoss(WEIGHTS), LABELS, nn.LogSoftmax(1)),
    "bytes": (lambda y, t: F.cross_entropy(y, t.long()), LABELS.to(torch.uint8), None),
    "whole numbers": (lambda y, t: F.mse_loss(y, t.float()), NUMBERS.long(), None),
    "exchanged": (lambda y, t: F.l1_loss(t, y), NUMBERS, None),
    "mse": (nn.MSELoss(), NUMBERS, None),
    "l1": (nn.L1Loss(), NUMBERS, None),
    "huber": (nn.HuberLoss(), NUMBERS, None),
    "smooth l1": (nn.SmoothL1Loss(), NUMBERS, None),
    "bce": (nn.BCEWithLogitsLoss(), (NUMBERS > 0).float(), None),
    "sum": (nn.CrossEntropyLoss(reduction="sum"), LABELS, None),
    "shares": (nn.CrossEntropyLoss(), NUMBERS.softmax(1), None),
    "huber, another threshold": (nn.HuberLoss(delta=2.0), NUMBERS, None),
    "bce, weighted": (nn.BCEWithLogitsLoss(pos_weight=WEIGHTS), (NUMBERS > 0).float(), None),
    "stretched": (lambda y, t: F.mse_loss(*torch.broadcast_tensors(y, t)), NUMBERS[:, :1], None),
    "twice the labels": (lambda y, t: F.mse_loss(y, 2 * t), NUMBERS, None),
    "of two terms": (lambda y, t: F.mse_loss(y, t) + y.mean(), NUMBERS, None),
    "two of three": (lambda y, t: F.cross_entropy(y, t.bool().long()), LABELS, None),
    "classes in floats": (lambda y, t: F.cross_entropy(y, t.long()), LABELS.float(), None),
    "whole parts": (lambda y, t: F.mse_loss(y, t.long().float()), NUMBERS, None),
    "true or false": (
        lambda y, t: F.binary_cross_entropy_with_logits(y, t.bool().float()),
        NUMBERS,
        None,
    ),
    "labels as logits": (
        lambda y, t: F.binary_cross_entropy_with_logits(t, y.sigmoid()),
        NUMBERS,
        None,
    ),
    "three rows a sample": (
        lambda y, t: F.cross_entropy(y.view(12, 1).repeat(1, 2), t.flatten()),
        (NUMBERS > 0).long(),
        None,
    ),
}


def with_loss(loss, labels, last, path: Path) -> tuple[WithLoss, torch.Tensor]:
    torch.manual_seed(0)
    net, x = WithLoss(loss, last), torch.randn(4, 6)
    torch.export.save(torch.export.export(net, (x, labels)), path)
    return net, x


@pytest.mark.parametrize("name", ENDINGS)
def test_the_loss_that_a_module_returns_is_trained_with(name: str, tmp_path: Path) -> None:
    net, x = with_loss(*ENDINGS[name], tmp_path / "net.pt2")
    labels = ENDINGS[name][1]
    model = load_model(BuildSettings("linux", str(tmp_path / "net.pt2"), batch=BATCH))
    program = make_program(model.graph, model.loss, SGD, options=model.loss_options)
    ours = Reference(program, model.weights)
    theirs = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3)
    for _ in range(3):
        theirs.zero_grad()
        loss = net(x, labels)["loss"]
        loss.backward()
        theirs.step()
        y = labels.numpy().astype(np.int32 if model.target.dtype is Dtype.I32 else np.float32)
        assert ours.step(x.numpy(), y) == pytest.approx(loss.item(), rel=1e-5)


@pytest.mark.parametrize(
    ("loss", "labels", "reason"),
    [
        (lambda y, t: F.cross_entropy(y, t.byte().long()), LABELS, "converts to uint8"),
        (lambda y, t: F.cross_entropy(y, t.bfloat16().long()), LABELS, "converts to bfloat16"),
        (lambda y, t: F.cross_entropy(y, t.view(torch.int64)), LABELS.double(), "is float64"),
        (lambda y, t: F.mse_loss(y, t.half().float()), NUMBERS, "converts to float16"),
        (lambda y, t: F.mse_loss(y, t.mul_(2)), NUMBERS, "changes the target 'labels' in"),
        (
            lambda y, t: (t[0].mul_(2), F.mse_loss(y, t))[1],
            NUMBERS,
            "changes the target 'labels' in",
        ),
        (lambda y, t: y.square().mean(), NUMBERS, "does not depend on the input 'labels'"),
        (lambda y, t: (y - t).cummax(1)[0].square().mean(), NUMBERS, "cummax"),
        (lambda y, t: (y - t)[t > 0.5].square().mean(), NUMBERS, "torch.where"),
    ],
)
def test_a_loss_that_poetfw_has_not_is_refused(loss, labels, reason, tmp_path: Path) -> None:
    with_loss(loss, labels, None, tmp_path / "net.pt2")
    with pytest.raises(ModelError, match=reason):
        import_torch(tmp_path / "net.pt2", BATCH)


def test_a_module_s_own_loss_is_not_contradicted(tmp_path: Path) -> None:
    path = tmp_path / "net.pt2"
    with_loss(*ENDINGS["weighted"], path)
    for options, reason in (
        ({"loss": "mse"}, "ends in a loss of its own, softmax_cross_entropy, not mse"),
        ({"ignore_index": 2}, "its loss has class weights, label smoothing or a label to ignore"),
    ):
        with pytest.raises(ModelError, match=reason):
            load_model(BuildSettings("linux", str(path), batch=BATCH, **options))
    with_loss(*ENDINGS["cross-entropy"], path)
    model = load_model(BuildSettings("linux", str(path), batch=BATCH, ignore_index=2))
    assert model.loss_options.ignore_index == 2


def test_what_an_exporter_dumps_is_not_printed(tmp_path: Path, capfd) -> None:
    """PyTorch's older one writes the graph that it gives up on to the standard output of C++."""
    with pytest.raises(torch.onnx.errors.SymbolicValueError):
        doors.export(*made("alexnet")[:2], tmp_path / "net.onnx", "TorchScript")
    assert capfd.readouterr().out == ""


class Filled(nn.Module):
    """Filled tensors of the batch's extent in the file: those that are masks, and a first state."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.last = nn.GRUCell(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        seen = torch.tril(torch.ones(8, 8)) == 0
        state = self.cell(x[:, 0], torch.zeros(x.shape[0], 8))
        return self.last(x).masked_fill(seen, 0.0).flatten(1) @ torch.ones(64, 8) + state


def test_a_filled_tensor_has_the_batch_only_where_it_must(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net, x = Filled(), torch.randn(8, 8, 8)
    path = exported(net, x, tmp_path / "net.pt2")
    for batch in (8, 4):
        model = import_torch(path, batch)
        expected = net(x[:batch]).detach()
        np.testing.assert_allclose(result_of(model, x[:batch]), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dim", [0, 1, -1, -2, None])
def test_a_weight_s_length_is_that_of_its_positions_along_an_axis(
    dim: int | None, tmp_path: Path
) -> None:
    net = nn.utils.parametrizations.weight_norm(nn.Linear(6, 3), dim=dim)
    x = torch.linspace(-1, 1, 24).view(4, 6)
    model = import_torch(exported(net, x, tmp_path / "net.pt2"), BATCH)
    np.testing.assert_allclose(result_of(model, x), net(x).detach(), rtol=1e-5, atol=1e-6)


def result_of(model, x) -> np.ndarray:
    values = {**model.weights, model.input.name: x.numpy()}
    for op in model.graph.ops:
        values[op.output] = kind_of(op).compute(op, [values[i] for i in op.inputs], [])
    return values[model.graph.output]


ONNX = [door for door in doors.DOORS if door != "pt2"]


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("door", ONNX)
def test_no_door_lets_another_network_in_unsaid(door: str, tmp_path: Path) -> None:
    """Each trains as PyTorch trains it, once told what is not in the file, or is refused."""
    words = {}
    for name in ALL_NETWORKS:
        try:
            words[name] = doors.through(name, door, tmp_path).word
        except doors.ExporterError:
            words[name] = "not written"
    assert [name for name, word in words.items() if word in ("WRONG", "warned")] == []
    agreeing = [name for name in NETWORKS if words[name].startswith("agrees")]
    assert len(agreeing) >= AGREEING[door]


AGREEING = dict(zip(ONNX, (20, 24, 24, 36, 36), strict=True))
"""Least number of ordinary networks that train as in PyTorch, by exporter and its arguments."""


@pytest.mark.parametrize(
    ("layer", "reason"),
    [
        (lambda: nn.BatchNorm2d(1, track_running_stats=False), "keeps no running statistics"),
        (lambda: nn.MaxPool2d(2, dilation=2), r"its dilation is \[2, 2\]"),
        (lambda: nn.ConstantPad2d(1, 3.0), "pads with 3; poetfw pads with 0"),
        (lambda: nn.AlphaDropout(0.5), "it is alpha dropout"),
        (lambda: nn.Softplus(threshold=3), "its threshold is 3"),
        (lambda: nn.LeakyReLU(-0.1), "'slope' to be a finite number"),
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
    "tied, read": "self.tied.add_(1); return h * self.b * self.tied",
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
    result = result_of(model, x)
    for _ in range(2):
        np.testing.assert_allclose(result, net(x.clone()).detach(), 1e-6)
