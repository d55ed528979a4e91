# SPDX-License-Identifier: Apache-2.0
"""Activations in smaller forms: exact ones change no bit, and halves only round gradients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
import pytest

from poetfw.importers import load_data
from poetfw.ir import Attribute
from poetfw.models import build_model
from poetfw.models.layers import Layers
from poetfw.ops import Array
from poetfw.optimizers import Sgd
from poetfw.planning import load_model
from poetfw.planning.choices import unordered_program
from poetfw.planning.stored import gradient_error
from poetfw.settings import BuildSettings
from poetfw.training import Program, Reference, compress_activations, make_program

BATCH = 4


def small_network() -> tuple[Program, Mapping[str, Array]]:
    """Overlapping pooling behind ReLU6 and behind ReLU, and a ReLU that a layer reads as well."""
    layers = Layers("small", (BATCH, 2, 9, 9), 0)
    x = layers.relu("first", layers.conv("conv1", layers.input, 6, 3))
    window: dict[str, Attribute] = {"kernel": (3, 3), "stride": (2, 2), "padding": (1, 1, 1, 1)}
    x = layers.op("max_pool2d", "pool1", [x], window)
    x = layers.op("relu6", "six", [layers.conv("conv2", x, 8, 1)])
    x = layers.pool("max_pool2d", "pool2", x, 2)
    x = layers.relu("read", layers.linear("hidden", layers.flatten("flat", x), 10))
    graph, drawn = layers.build(layers.linear("out", x, 10))
    return make_program(graph, "softmax_cross_entropy", Sgd(learning_rate=0.1)), drawn


def network(name: str) -> tuple[Program, Mapping[str, Array]]:
    if name == "small":
        return small_network()
    model = build_model(name, BATCH)
    return make_program(model.graph, model.loss, Sgd(learning_rate=0.1)), model.weights


def trained(program: Program, weights: Mapping[str, Array], steps: int = 3) -> Reference:
    rng = np.random.default_rng(3)
    x = rng.standard_normal(program.x.members[0].shape).astype(np.float32)
    y = rng.integers(0, 10, BATCH).astype(np.int32)
    ran = Reference(program, weights, np.float32)
    for _ in range(steps):
        ran.step(x, y)
    return ran


def kinds(program: Program) -> Counter[str]:
    return Counter(op.kind for op in program.training.ops)


@pytest.mark.parametrize("name", ["small", "digits-cnn", "resnet8"])
def test_exact_forms_change_no_bit(name: str) -> None:
    program, weights = network(name)
    exact = compress_activations(program, "exact")
    assert kinds(exact)["relu_masked_backward"] > 0
    before, after = trained(program, weights), trained(exact, weights)
    for tensor, value in before.persistent.items():
        assert value.tobytes() == after.persistent[tensor].tobytes(), tensor


def test_activations_that_nothing_else_waits_for_are_replaced() -> None:
    program, _ = small_network()
    exact = compress_activations(program, "exact")
    found = kinds(exact)
    assert (found["relu_mask"], found["relu6_mask"], found["max_pool2d_indices"]) == (1, 1, 2)
    assert found["max_pool2d_backward"] == found["relu6_backward"] == 0
    assert found["relu_backward"] == 1  # a linear layer's weights wait for its output as well
    waiting = {name for op in exact.training.ops if op.backward for name in op.inputs}
    assert not waiting & {"first", "six"}
    assert exact.evaluation == program.evaluation


@pytest.mark.parametrize("name", ["small", "digits-cnn"])
def test_halves_round_gradients_and_not_the_forward_pass(name: str) -> None:
    program, weights = network(name)
    halves = compress_activations(program, "float16")
    rounded = kinds(halves)["from_halves"]
    assert rounded > 0
    forward = [op for op in halves.training.ops if not op.backward]
    assert all(op.kind != "from_halves" for op in forward)
    before, after = (trained(each, weights, 1) for each in (program, halves))
    assert before.persistent["loss"].tobytes() == after.persistent["loss"].tobytes()
    moved, error = 0.0, 0.0
    for tensor, old in weights.items():
        step = before.persistent[tensor].astype(float) - old
        moved += float((step**2).sum())
        error += float(((after.persistent[tensor].astype(float) - old - step) ** 2).sum())
    assert 0 < error < moved * 2.0**-20  # halves have 11 bits


@pytest.mark.parametrize("name", ["digits-cnn", "transformer-tiny"])
def test_vectors_and_statistics_stay_floats(name: str) -> None:
    program, _ = network(name)
    halves = compress_activations(program, "float16").training
    sources = [halves.by_name[op.inputs[0]] for op in halves.ops if op.kind == "to_halves"]
    assert 2 in {len(tensor.shape) for tensor in sources}, "those of linear layers are halves"
    assert all(len(tensor.shape) >= 2 and tensor.role.value == "activation" for tensor in sources)
    assert not any("statistics" in halves.producer[tensor.name].kind for tensor in sources)


def test_what_is_no_larger_stays_as_it_is() -> None:
    layers = Layers("narrow", (1, 3), 0)
    x = layers.relu("one", layers.linear("a", layers.input, 1))
    x = layers.op("scale", "scaled", [x], {"factor": 2.0})
    graph, _ = layers.build(layers.linear("b", x, 3))
    narrow = make_program(graph, "softmax_cross_entropy", Sgd())
    assert compress_activations(narrow, "exact") == narrow  # a word for one float


@pytest.mark.parametrize("form", ["exact", "float16"])
def test_the_error_of_gradients_is_that_against_pytorch(form: str) -> None:
    """The error that a build prints is that from PyTorch's gradients in float32."""
    torch = pytest.importorskip("torch")
    from unit.training.torch_model import torch_step

    settings = BuildSettings("nrf52840", "digits-cnn", batch=BATCH, store_as=form)
    model = load_model(settings)
    data = load_data(settings.data, model, settings.features)
    x, y = data.x_train[:BATCH], data.y_train[:BATCH]
    program = unordered_program(settings, model, fuse_updates=False)
    rounded = Reference(program, model.weights, np.float32)
    rounded.step(x, y)
    values = {name: torch.tensor(value) for name, value in model.weights.items()}
    inputs = x.view(np.float32).reshape(BATCH, *model.graph.by_name["x"].shape[1:])
    labels = y.view(np.int32).ravel().astype(np.int64)
    _, exact = torch_step(model.graph, values, {}, Sgd(), inputs, labels)
    every = [
        np.concatenate([each[n].ravel() for n in exact]) for each in (exact, rounded.gradients)
    ]
    error = float(np.linalg.norm(every[1] - every[0]) / np.linalg.norm(every[0]))
    printed = gradient_error(settings, model, data)
    assert printed == pytest.approx(error, rel=0.02) if form == "float16" else printed == 0
    assert error < (1e-3 if form == "float16" else 1e-5)
