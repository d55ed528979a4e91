# SPDX-License-Identifier: Apache-2.0
"""Networks with several inputs, labels and results, against PyTorch."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from poetfw.common.errors import DataError, ModelError
from poetfw.importers import load_data
from poetfw.importers.onnx import import_onnx
from poetfw.importers.torch_export import import_torch
from poetfw.ir import Record
from poetfw.models import Model
from poetfw.ops import kind_of
from poetfw.training import Program, Reference, Sgd, make_prediction, make_program

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

BATCH, STEPS = 4, 10


class Fusion(nn.Module):
    """An image, ids and numbers in; classes and a quantity out."""

    def __init__(self, kind: str = "prediction") -> None:
        super().__init__()
        self.image = nn.Conv2d(1, 3, 3)
        self.table = nn.Embedding(9, 4)
        self.body = nn.Linear(3 * 4 * 4 + 4 + 2, 10)
        self.digit, self.angle = nn.Linear(10, 5), nn.Linear(10, 2)
        self.kind = kind

    def forward(self, image, word, numbers, which=None, turn=None):
        parts = (self.image(image).relu().flatten(1), self.table(word).mean(1), numbers)
        hidden = self.body(torch.cat(parts, 1)).tanh()
        a, b = self.digit(hidden), self.angle(hidden)
        if self.kind == "prediction":
            return a
        if self.kind == "results":
            return a, b
        loss = F.cross_entropy(a, which) + 0.5 * F.mse_loss(b, turn)
        return loss, a, b


def drawn(random: np.random.Generator, samples: int = BATCH) -> dict[str, np.ndarray]:
    return {
        "image": random.normal(size=(samples, 1, 6, 6)).astype(np.float32),
        "word": random.integers(0, 9, (samples, 3)),
        "numbers": random.normal(size=(samples, 2)).astype(np.float32),
        "which": random.integers(0, 5, samples),
        "turn": random.normal(size=(samples, 2)).astype(np.float32),
    }


def tensors(arrays: dict[str, np.ndarray], *names: str) -> tuple[Any, ...]:
    return tuple(torch.tensor(arrays[name]) for name in names)


def exported(net: nn.Module, arrays: tuple[Any, ...], path: Path) -> Path:
    torch.export.save(torch.export.export(net.train(), arrays), path)
    return path


def joined(record: Record, arrays: dict[str, np.ndarray], names: tuple[str, ...]) -> np.ndarray:
    columns = [arrays[name] for name in names]
    return record.join(columns, len(columns[0]))


def program_of(model: Model, rate: float = 0.05) -> Program:
    sgd = Sgd(learning_rate=rate, momentum=0.9)
    return make_program(model.graph, model.loss, sgd, heads=model.heads)


INPUTS, LABELS = ("image", "word", "numbers"), ("which", "turn")


def expect_training_as_in_torch(model: Model, net: nn.Module, loss_of: Any, x, y) -> Reference:
    theirs = copy.deepcopy(net).double()
    optimizer = torch.optim.SGD(theirs.parameters(), lr=0.05, momentum=0.9)
    ours = Reference(program_of(model), model.weights)
    random = np.random.default_rng(3)
    for _ in range(STEPS):
        arrays = drawn(random)
        optimizer.zero_grad()
        loss = loss_of(
            theirs, {n: v.astype(float) if v.dtype == np.float32 else v for n, v in arrays.items()}
        )
        loss.backward()
        optimizer.step()
        assert ours.step(joined(model.x, arrays, x), joined(model.y, arrays, y)) == pytest.approx(
            loss.item(), rel=1e-6
        )
    return ours


def test_several_inputs_labels_and_results_train_as_in_torch(tmp_path: Path) -> None:
    net = Fusion("loss")
    path = exported(net, tensors(drawn(np.random.default_rng(1)), *INPUTS, *LABELS), tmp_path / "n")
    model = import_torch(path, BATCH)
    assert (model.x.names, model.y.names) == (INPUTS, LABELS)
    assert [(name, shape[1:]) for name, shape in model.heads] == [("digit", (5,)), ("angle", (2,))]
    assert model.classes is None
    ours = expect_training_as_in_torch(
        model, net, lambda m, a: m(*tensors(a, *INPUTS, *LABELS))[0], INPUTS, LABELS
    )
    # what a device predicts of one sample: both results, one after the other
    graph = make_prediction(program_of(model))
    one, values = drawn(np.random.default_rng(8), 1), dict(ours.persistent)
    for op in graph.ops:
        inputs = [values[name] for name in op.inputs]
        loads = op.kind == "load_x"
        values[op.output] = one[op.output] if loads else kind_of(op).compute(op, inputs, [])
    state = {e.name: torch.tensor(e.of(ours.persistent[e.tensor])) for e in model.state_dict}
    net.double().load_state_dict(state)
    given = [v.double() if v.is_floating_point() else v for v in tensors(one, *INPUTS)]
    net.kind = "results"
    expected = torch.cat(net(*given), 1).detach().numpy()
    np.testing.assert_allclose(values[graph.output], expected, rtol=1e-6)


def test_the_labels_may_come_first_and_another_batch_is_trained(tmp_path: Path) -> None:
    class Turned(Fusion):
        def forward(self, which, image, turn, word, numbers):
            return super().forward(image, word, numbers, which, turn)

    net = Turned("loss")
    names = ("which", "image", "turn", "word", "numbers")
    path = exported(net, tensors(drawn(np.random.default_rng(1), 2), *names), tmp_path / "n")
    model = import_torch(path, BATCH)
    assert (model.x.names, model.y.names) == (INPUTS, LABELS)
    expect_training_as_in_torch(model, net, lambda m, a: m(*tensors(a, *names))[0], INPUTS, LABELS)


def test_one_result_of_several_inputs_has_poetfw_s_losses(tmp_path: Path) -> None:
    net = Fusion()
    path = exported(net, tensors(drawn(np.random.default_rng(1)), *INPUTS), tmp_path / "n.pt2")
    model = import_torch(path, BATCH)
    assert model.y.names == ("y",)
    assert model.classes == 5
    expect_training_as_in_torch(
        model,
        net,
        lambda m, a: F.cross_entropy(m(*tensors(a, *INPUTS)), *tensors(a, "which")),
        INPUTS,
        ("which",),
    )


@pytest.mark.parametrize("kind", ["pt2", "onnx"])
@pytest.mark.parametrize("loss", ["softmax_cross_entropy", "mse", "l1", "huber"])
def test_results_without_a_loss_get_the_same_one_each(kind: str, loss: str, tmp_path: Path) -> None:
    net, example = Fusion("results"), tensors(drawn(np.random.default_rng(1)), *INPUTS)
    if kind == "pt2":
        model = import_torch(exported(net, example, tmp_path / "n.pt2"), BATCH, loss)
    else:
        path = tmp_path / "n.onnx"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                net,
                example,
                path,
                dynamo=False,
                input_names=list(INPUTS),
                output_names=["digit", "angle"],
                training=torch.onnx.TrainingMode.TRAINING,
                do_constant_folding=False,
            )
        model = import_onnx(path, BATCH, loss)
    assert model.y.names == ("digit_y", "angle_y")
    functions = {
        "softmax_cross_entropy": F.cross_entropy,
        "mse": F.mse_loss,
        "l1": F.l1_loss,
        "huber": F.huber_loss,
    }

    class Labelled(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, image, word, numbers, one, two):
            a, b = self.net(image, word, numbers)
            return functions[loss](a, one) + functions[loss](b, two)

    random = np.random.default_rng(5)
    theirs = copy.deepcopy(Labelled()).double()
    optimizer = torch.optim.SGD(theirs.parameters(), lr=0.05, momentum=0.9)
    ours = Reference(program_of(model), model.weights)
    for _ in range(STEPS):
        arrays = drawn(random)
        classes = loss == "softmax_cross_entropy"
        one = random.integers(0, 5, BATCH) if classes else random.normal(size=(BATCH, 5))
        two = random.integers(0, 2, BATCH) if classes else random.normal(size=(BATCH, 2))
        given = [v.double() if v.is_floating_point() else v for v in tensors(arrays, *INPUTS)]
        optimizer.zero_grad()
        expected = theirs(*given, torch.tensor(one), torch.tensor(two))
        expected.backward()
        optimizer.step()
        x = joined(model.x, arrays, INPUTS)
        assert ours.step(x, model.y.join([one, two], BATCH)) == pytest.approx(
            expected.item(), rel=1e-5
        )


class Alone(nn.Module):
    """A loss of samples alone: an auto-encoder that returns what it makes of them."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 3), nn.Tanh(), nn.Linear(3, 6))

    def forward(self, x):
        seen = self.net(x)
        return F.mse_loss(seen, x) + 0.01 * seen.abs().mean(), seen


def test_a_loss_of_samples_alone_needs_no_labels(tmp_path: Path) -> None:
    net = Alone()
    path = exported(net, (torch.zeros(BATCH, 6),), tmp_path / "net.pt2")
    model = import_torch(path, BATCH)
    assert model.y.members == ()
    theirs = copy.deepcopy(net).double()
    optimizer = torch.optim.SGD(theirs.parameters(), lr=0.05, momentum=0.9)
    program = program_of(model)
    ours, random = Reference(program, model.weights), np.random.default_rng(3)
    for _ in range(STEPS):
        x = random.normal(size=(BATCH, 6)).astype(np.float32)
        optimizer.zero_grad()
        loss = theirs(torch.tensor(x, dtype=torch.float64))[0]
        loss.backward()
        optimizer.step()
        assert ours.step(x, program.y.join([], BATCH)) == pytest.approx(loss.item(), rel=1e-6)
    np.savez(tmp_path / "data.npz", x=np.zeros((10, 6), np.float32))
    data = load_data(tmp_path / "data.npz", model)
    assert (len(data.x_train), len(data.y_train), len(data.x_test)) == (8, 8, 2)


def written(path: Path, arrays: dict[str, np.ndarray]) -> Path:
    np.savez(path, **arrays)
    return path


@pytest.fixture(scope="module")
def fusion(tmp_path_factory: pytest.TempPathFactory) -> Model:
    path = tmp_path_factory.mktemp("fusion") / "n.pt2"
    example = tensors(drawn(np.random.default_rng(1)), *INPUTS, *LABELS)
    return import_torch(exported(Fusion("loss"), example, path), BATCH)


def test_data_have_an_array_for_each(fusion: Model, tmp_path: Path) -> None:
    arrays = drawn(np.random.default_rng(2), 20)
    data = load_data(written(tmp_path / "d.npz", arrays), fusion)
    assert (len(data.x_train), len(data.x_test)) == (16, 4)
    together = np.concatenate([data.x_train, data.x_test])
    order = np.argsort(
        [np.flatnonzero((arrays["numbers"] == row).all(1))[0] for row in together["numbers"]]
    )
    for name in INPUTS:
        np.testing.assert_array_equal(together[order][name], arrays[name])
    held_out = {f"{name}_test": values[:3] for name, values in arrays.items()}
    split = load_data(written(tmp_path / "e.npz", {**arrays, **held_out}), fusion)
    np.testing.assert_array_equal(split.y_test["turn"], arrays["turn"][:3])
    assert len(load_data("synthetic", fusion).x_train) > 100


WRONG = {
    "missing": (lambda a: a.pop("word"), "there is no array word; it holds 'image', 'numbers'"),
    "x and y": (lambda a: [a.pop(n) for n in (*INPUTS, *LABELS)] and a.update(x=1), "no array"),
    "unlike counts": (
        lambda a: a.update(word=a["word"][:19]),
        "word has 19 samples, but image has 20",
    ),
    "unlike labels": (lambda a: a.update(turn=a["turn"][:19]), r"turn has shape \[19, 2\]"),
    "dtype": (lambda a: a.update(word=a["word"] * 0.5), "word holds float64, but .* integer ids"),
    "shape": (
        lambda a: a.update(numbers=a["numbers"][:, :1]),
        r"numbers has shape \[20, 1\], but model 'n' needs \[samples, 2\]",
    ),
    "ids": (lambda a: a["word"].__setitem__(3, 9), "word holds ids from 0 to 9, .* has 0 to 8"),
    "classes": (lambda a: a["which"].__setitem__(3, 5), "which holds labels from 0 to 5"),
    "held out": (
        lambda a: a.update(image_test=a["image"]),
        "image_test and word_test .* must come together",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_arrays_that_do_not_fit_are_refused(name: str, fusion: Model, tmp_path: Path) -> None:
    spoil, message = WRONG[name]
    arrays = drawn(np.random.default_rng(2), 20)
    spoil(arrays)
    with pytest.raises(DataError, match=message):
        load_data(written(tmp_path / "d.npz", arrays), fusion)


def test_formats_of_one_array_are_refused(fusion: Model, tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("1,2\n")
    for spec in ("digits", tmp_path / "d.csv", tmp_path):
        with pytest.raises(DataError, match="image and word and numbers and which and turn") as c:
            load_data(spec, fusion)
        assert "numpy.savez(path, image=image" in c.value.try_next[0]


def test_inputs_of_unlike_batches_are_refused(tmp_path: Path) -> None:
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(3, 2)

        def forward(self, samples, prototypes):
            return self.a(samples) @ self.a(prototypes).T

    path = exported(Mixed(), (torch.zeros(4, 3), torch.zeros(2, 3)), tmp_path / "n.pt2")
    with pytest.raises(ModelError, match="unlike counts of samples: 'prototypes' has 2, but"):
        import_torch(path, 4)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_other_floats_are_refused_with_what_to_write(dtype: Any, tmp_path: Path) -> None:
    net, example = nn.Linear(3, 2).to(dtype), torch.zeros(4, 3, dtype=dtype)
    with pytest.raises(ModelError, match=str(dtype).removeprefix("torch.")) as caught:
        import_torch(exported(net, (example,), tmp_path / "n.pt2"), 4)
    assert ".float()" in caught.value.try_next[0]
    mixed = nn.Linear(3, 2)
    mixed.forward = lambda x: nn.Linear.forward(mixed, x.float())
    with pytest.raises(ModelError, match="the model's input 'x' has shape") as caught:
        import_torch(exported(mixed, (example,), tmp_path / "m.pt2"), 4)
    assert "example.float()" in caught.value.try_next[0]


def test_an_input_that_the_loss_does_not_read_is_refused(tmp_path: Path) -> None:
    class Unread(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(3, 2)

        def forward(self, x, extra, y):
            p = self.a(x)
            return F.cross_entropy(p, y) * 2, p, extra * 2

    example = (torch.zeros(4, 3), torch.zeros(4, 3), torch.zeros(4, dtype=torch.int64))
    with pytest.raises(ModelError, match="does not depend on the input 'extra'"):
        import_torch(exported(Unread(), example, tmp_path / "n.pt2"), 4)
