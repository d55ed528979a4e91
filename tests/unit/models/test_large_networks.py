"""The networks of the scheduling literature, against PyTorch built from the same weights."""

from __future__ import annotations

import time
import tracemalloc
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from poetfw.ir import Graph, Op, Role
from poetfw.models import MODELS, DrawnWeights, Model, build_model
from poetfw.training import Program, Reference, make_program

torch = pytest.importorskip("torch")
F = torch.nn.functional

Leaves = dict[str, Any]
Network = Callable[[Leaves, Any], Any]


def program_of(model: Model) -> Program:
    return make_program(model.graph, model.loss, model.optimizer)


def gradient_sums(graph: Graph) -> list[Op]:
    """The ops that add up gradients where paths join."""
    return [op for op in graph.ops if op.kind == "add" and op.backward]


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("resnet18", 11_173_962), ("vgg16", 14_728_266)],
)
def test_a_large_network_has_the_published_number_of_parameters(name: str, parameters: int):
    """ResNet-18 and VGG-16 with batch norm as widely trained on CIFAR-10 in PyTorch."""
    model = build_model(name, batch=1)
    assert model.parameter_count == parameters
    assert model.output.shape == (1, 10)
    assert MODELS[name].batch == 1


def test_resnet18_adds_up_gradients_at_each_of_its_eight_joins():
    model = build_model("resnet18", 1)
    graph = program_of(model).training
    kinds = Counter(op.kind for op in graph.ops if not op.backward)
    assert (kinds["conv2d"], kinds["batch_norm_normalize"], kinds["add"]) == (20, 20, 8)
    assert len(gradient_sums(graph)) == 8
    forward = 3 + 20 + 3 * 20 + 17 + 8 + 3  # loads, loss; conv, batch norm, ReLU, add; the head
    backward = 1 + 5 + 17 + 2 * 20 + (2 * 20 - 1) + 8  # loss, head, ReLU, batch norm, conv, joins
    assert len(graph.ops) == forward + backward + len(model.graph.with_role(Role.PARAMETER))


def test_vgg16_is_a_chain_of_thirteen_convolutions():
    graph = program_of(build_model("vgg16", 1)).training
    kinds = Counter(op.kind for op in graph.ops if not op.backward)
    assert (kinds["conv2d"], kinds["max_pool2d"], kinds["linear"]) == (13, 5, 1)
    assert not gradient_sums(graph)


@pytest.mark.parametrize("name", list(MODELS))
def test_weights_are_not_drawn_before_they_are_read(name: str):
    tracemalloc.start()
    start = time.perf_counter()
    model = build_model(name, batch=1)
    program_of(model)
    seconds = time.perf_counter() - start
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert isinstance(model.weights, DrawnWeights)
    assert peak_bytes < 16 * 2**20
    assert seconds < 5  # tracing included


def test_weights_do_not_depend_on_which_is_read_first():
    forward, backward = build_model("resnet8", 1, 3).weights, build_model("resnet8", 1, 3).weights
    names = list(forward)
    for name in names:
        assert name in forward
        forward[name]
    assert "no such weight" not in forward
    for name in reversed(names):
        np.testing.assert_array_equal(backward[name], forward[name])


def conv_bn(w: Leaves, name: str, x: Any, stride: int = 1) -> Any:
    x = F.conv2d(x, w[f"{name}.conv.weight"], None, stride, w[f"{name}.conv.weight"].shape[2] // 2)
    return F.batch_norm(x, None, None, *w[f"{name}.bn.affine"], training=True)


def torch_resnet18(w: Leaves, x: Any) -> Any:
    x = F.relu(conv_bn(w, "stem", x))
    for block in (f"stage{stage}.{index}" for stage in (1, 2, 3, 4) for index in (1, 2)):
        stride = 2 if block[5:] in ("2.1", "3.1", "4.1") else 1
        y = F.relu(conv_bn(w, f"{block}.a", x, stride))
        y = conv_bn(w, f"{block}.b", y)
        shortcut = f"{block}.shortcut"
        x = F.relu(y + (conv_bn(w, shortcut, x, stride) if stride == 2 else x))
    return F.linear(F.avg_pool2d(x, 4).flatten(1), w["logits.weight"], w["logits.bias"])


def torch_vgg16(w: Leaves, x: Any) -> Any:
    for stage, convolutions in enumerate((2, 2, 3, 3, 3), start=1):
        for index in range(1, convolutions + 1):
            name = f"conv{stage}_{index}"
            x = F.conv2d(x, w[f"{name}.weight"], w[f"{name}.bias"], padding=1)
            x = F.relu(F.batch_norm(x, None, None, *w[f"{name}.bn.affine"], training=True))
        x = F.max_pool2d(x, 2)
    return F.linear(x.flatten(1), w["logits.weight"], w["logits.bias"])


def assert_step_matches(model: Model, network: Network, x: np.ndarray, y: np.ndarray) -> None:
    """Compare the loss and every parameter's gradient of one training step, both in float64.

    A gradient that is 0 in exact arithmetic (a bias before batch norm) has only rounding errors.
    """
    reference = Reference(program_of(model), model.weights)
    loss = reference.step(x, y)
    leaves = {
        tensor.name: torch.tensor(
            model.weights[tensor.name], dtype=torch.float64, requires_grad=True
        )
        for tensor in model.graph.with_role(Role.PARAMETER)
    }
    features = torch.tensor(x, dtype=torch.float64 if x.dtype == np.float32 else torch.int64)
    expected = F.cross_entropy(network(leaves, features), torch.tensor(y, dtype=torch.int64))
    expected.backward()
    assert loss == pytest.approx(expected.item(), rel=1e-9)
    assert set(reference.gradients) == set(leaves)
    largest = max(leaf.grad.abs().max().item() for leaf in leaves.values())
    for name, gradient in reference.gradients.items():
        actual, own = gradient, leaves[name].grad.numpy()
        assert np.abs(actual - own).max() <= 1e-5 * np.abs(own).max() + 1e-12 * largest, name


@pytest.mark.parametrize(
    ("name", "network"), [("resnet18", torch_resnet18), ("vgg16", torch_vgg16)]
)
def test_gradients_of_image_networks_match_torch(name: str, network: Network):
    model = build_model(name, batch=2, seed=5)
    x = np.random.default_rng(6).standard_normal(model.input.shape).astype(np.float32)
    assert_step_matches(model, network, x, np.array([3, 7], np.int32))
