# SPDX-License-Identifier: Apache-2.0
"""The networks of the scheduling literature, against PyTorch built from the same weights."""

from __future__ import annotations

import time
import tracemalloc
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from poetfw.boards import load_board
from poetfw.common.errors import ModelError
from poetfw.costs import analytic_costs
from poetfw.ir import Dtype, Graph, Op, Role
from poetfw.models import MODELS, DrawnWeights, GraphBuilder, Model, build_model
from poetfw.models.bert import BertSize, bert
from poetfw.models.mobilenet_v2 import mobilenetv2
from poetfw.training import Program, Reference, Sgd, make_program
from workloads import BOARDS

POETS_M4F = BOARDS / "poet-m4f.toml"

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
    [
        ("resnet18", 11_173_962),
        ("resnet50", 23_520_842),
        ("mobilenetv2", 3_504_872),
        ("vgg16", 14_728_266),
        ("bert-base", 109_482_240 + 2 * 768 + 2),
        ("bert-mini", 11_170_560 + 2 * 256 + 2),
    ],
)
def test_a_large_network_has_the_published_number_of_parameters(name: str, parameters: int):
    """MobileNetV2 as torchvision has it, BERT as Hugging Face, the others as trained on CIFAR-10.

    BERT's counts are those of `BertModel`, pooler included, and of a head for two classes.
    """
    model = build_model(name, batch=1)
    assert model.parameter_count == parameters
    assert MODELS[name].batch == 1


def test_resnet18_adds_up_gradients_at_each_of_its_eight_joins():
    model = build_model("resnet18", 1)
    graph = program_of(model).training
    kinds = Counter(op.kind for op in graph.ops if not op.backward)
    assert (kinds["conv2d"], kinds["batch_norm_normalize"], kinds["add"]) == (20, 20, 8)
    assert len(gradient_sums(graph)) == 8
    forward = 3 + 20 + 3 * 20 + 17 + 8 + 3  # loads, loss; conv, batch norm, ReLU, add; the head
    backward = 1 + 5 + 17 + 2 * 20 + (2 * 20 - 1) + 8  # loss, head, ReLU, batch norm, conv, joins
    updates = len(model.graph.with_role(Role.PARAMETER))
    fused = sum(op.kind.endswith("_sgd") for op in graph.ops)
    assert fused > 10
    assert len(graph.ops) == forward + backward + updates - fused


def test_vgg16_costs_about_what_poets_does_on_poets_board():
    """3.44 J with POET's chip table, for a larger head and without batch norm and optimizer."""
    board = load_board(POETS_M4F)
    costs = analytic_costs(program_of(build_model("vgg16", 1)).training, board)
    assert sum(cost.energy_j for cost in costs.ops.values()) == pytest.approx(3.44, rel=0.03)


def test_vgg16_is_a_chain_of_thirteen_convolutions():
    graph = program_of(build_model("vgg16", 1)).training
    kinds = Counter(op.kind for op in graph.ops if not op.backward)
    assert (kinds["conv2d"], kinds["max_pool2d"], kinds["linear"]) == (13, 5, 1)
    assert not gradient_sums(graph)


@pytest.mark.parametrize("name", list(MODELS))
def test_weights_are_not_drawn_before_they_are_read(name: str):
    tracemalloc.start()
    start = time.perf_counter()
    model = build_model(name, batch=2 if name == "autoencoder" else 1)  # whose batch norms need 2
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


def torch_resnet50(w: Leaves, x: Any) -> Any:
    x = F.relu(conv_bn(w, "stem", x))
    for stage, blocks in enumerate((3, 4, 6, 3), start=1):
        for index in range(1, blocks + 1):
            block, stride = f"stage{stage}.{index}", 1 + (stage > 1 and index == 1)
            y = F.relu(conv_bn(w, f"{block}.a", x))
            y = F.relu(conv_bn(w, f"{block}.b", y, stride))
            y = conv_bn(w, f"{block}.c", y)
            shortcut = conv_bn(w, f"{block}.shortcut", x, stride) if index == 1 else x
            x = F.relu(y + shortcut)
    return F.linear(F.avg_pool2d(x, 4).flatten(1), w["logits.weight"], w["logits.bias"])


def torch_mobilenetv2(w: Leaves, x: Any) -> Any:
    """The strides are those at which the paper's table 2 halves the image."""

    def unit(name: str, x: Any, stride: int = 1, groups: int = 1) -> Any:
        weight = w[f"{name}.conv.weight"]
        x = F.conv2d(x, weight, None, stride, weight.shape[2] // 2, 1, groups)
        return F.batch_norm(x, None, None, *w[f"{name}.bn.affine"], training=True)

    x = F.relu6(unit("stem", x, 2))
    for stage, blocks in enumerate((1, 2, 3, 4, 3, 3, 1), start=1):
        for index in range(1, blocks + 1):
            block, stride = f"stage{stage}.{index}", 1 + (index == 1 and stage in (2, 3, 4, 6))
            y = F.relu6(unit(f"{block}.expand", x)) if stage > 1 else x
            y = F.relu6(unit(f"{block}.depthwise", y, stride, groups=y.shape[1]))
            y = unit(f"{block}.project", y)
            x = x + y if index > 1 else y
    x = F.relu6(unit("head", x)).mean((2, 3))
    return F.linear(x, w["logits.weight"], w["logits.bias"])


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

    A gradient that is applied without being stored is known by what it does to the parameter. One
    that is 0 in exact arithmetic (a bias before batch norm) has only rounding errors.
    """
    plain = Sgd(learning_rate=1.0, momentum=0.0)
    program = make_program(model.graph, model.loss, plain)
    reference = Reference(program, model.weights)
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
    largest = max(leaf.grad.abs().max().item() for leaf in leaves.values())
    for name, leaf in leaves.items():
        wanted = leaf.grad.numpy()
        tolerance = 1e-5 * np.abs(wanted).max() + 1e-12 * largest
        moved = model.weights[name] - reference.persistent[name]
        for actual in (moved, reference.gradients.get(name, moved)):
            assert np.abs(actual - wanted).max() <= tolerance, name


@pytest.mark.parametrize(
    ("name", "network"),
    [
        ("resnet18", torch_resnet18),
        pytest.param("resnet50", torch_resnet50, marks=pytest.mark.slow),
        ("vgg16", torch_vgg16),
    ],
)
def test_gradients_of_image_networks_match_torch(name: str, network: Network):
    model = build_model(name, batch=2, seed=5)
    x = np.random.default_rng(6).standard_normal(model.input.shape).astype(np.float32)
    assert_step_matches(model, network, x, np.array([3, 7], np.int32))


def test_gradients_of_mobilenetv2_match_torch_on_small_images():
    drawn = mobilenetv2(batch=2, seed=5, size=64)
    # Three times the usual scale, so that some values exceed 6.
    weights = {
        name: 3 * values if "affine" in name else values for name, values in drawn.weights.items()
    }
    model = Model(drawn.graph, weights, drawn.loss, "")
    x = np.random.default_rng(6).standard_normal(model.input.shape).astype(np.float32)
    assert_step_matches(model, torch_mobilenetv2, x, np.array([3, 700], np.int32))


TINY = BertSize(
    layers=2, hidden=16, heads=4, sequence=5, vocabulary=11, positions=8, segments=2, classes=3
)


def torch_bert(w: Leaves, ids: Any) -> Any:
    """BERT by PyTorch's own embedding, layer norm, attention and GELU."""

    def linear(name: str, x: Any) -> Any:
        return F.linear(x, w[f"{name}.weight"], w[f"{name}.bias"])

    def norm(name: str, x: Any) -> Any:
        return F.layer_norm(x, x.shape[-1:], *w[f"{name}.norm.affine"], eps=1e-12)

    def heads(name: str, x: Any) -> Any:
        return linear(name, x).unflatten(-1, (TINY.heads, -1)).transpose(1, 2)

    positions = torch.arange(ids.shape[1])
    x = F.embedding(ids, w["embeddings.token.weight"])
    x = x + F.embedding(torch.zeros_like(ids), w["embeddings.segment.weight"])
    x = norm("embeddings", x + F.embedding(positions, w["embeddings.position.weight"]))
    for layer in (f"layer{index}" for index in range(1, TINY.layers + 1)):
        parts = (heads(f"{layer}.{part}", x) for part in ("query", "key", "value"))
        context = F.scaled_dot_product_attention(*parts).transpose(1, 2).flatten(2)
        x = norm(f"{layer}.attention", x + linear(f"{layer}.attention", context))
        y = linear(f"{layer}.output.contract", F.gelu(linear(f"{layer}.output.expand", x)))
        x = norm(f"{layer}.output", x + y)
    return linear("logits", torch.tanh(linear("pooler", x[:, 0])))


def test_gradients_of_a_tiny_bert_match_torch():
    drawn = bert("tiny", TINY, batch=3, seed=7)
    # Ten times the usual weights, so that attention is far from uniform.
    weights = {
        name: 10 * values if values.std() and "affine" not in name else values
        for name, values in drawn.weights.items()
    }
    model = Model(drawn.graph, weights, drawn.loss, "")
    ids = np.random.default_rng(8).integers(0, TINY.vocabulary, (3, 5)).astype(np.int32)
    assert len(np.unique(ids)) < ids.size  # some token occurs twice
    assert_step_matches(model, torch_bert, ids, np.array([0, 2, 1], np.int32))


def test_a_tiny_bert_learns():
    model = bert("tiny", TINY, batch=8, seed=1)
    program = make_program(model.graph, model.loss, Sgd(learning_rate=0.2, momentum=0.9))
    reference = Reference(program, model.weights)
    random = np.random.default_rng(2)
    ids = random.integers(0, TINY.vocabulary, (8, 5)).astype(np.int32)
    labels = random.integers(0, TINY.classes, 8).astype(np.int32)
    losses = [reference.step(ids, labels) for _ in range(60)]
    assert losses[-1] < 0.05 < 0.9 < losses[0]
    assert reference.evaluate(ids, labels) == 8


@pytest.mark.parametrize("name", ["bert-base", "bert-mini"])
def test_bert_never_stores_the_gradient_of_its_token_table(name: str):
    model = build_model(name, 1)
    assert model.input.dtype is Dtype.I32
    graph = program_of(model).training
    kinds = Counter(op.kind for op in graph.ops)
    assert kinds["embedding_backward_sgd"] == 1
    assert "embedding_backward" not in kinds
    layers = {"bert-base": 12, "bert-mini": 4}[name]
    assert kinds["softmax"] == layers
    assert len(gradient_sums(graph)) == 4 * layers  # query, key, value, and two residuals
    tables = {"embeddings.token.weight", "embeddings.token.weight.momentum"}
    largest = max(tensor.size_bytes for tensor in graph.tensors if not tensor.role.persistent)
    assert largest < min(graph.by_name[table].size_bytes for table in tables)


def test_the_gradient_of_a_table_that_is_used_twice_is_stored():
    builder = GraphBuilder("twice", "x", (2, 3), Dtype.I32)
    table = builder.parameter("table", np.ones((5, 4), np.float32))
    first = builder.op("embedding", "first", (builder.input, table))
    total = builder.op("add", "sum", (first, builder.op("embedding", "second", ("x", table))))
    graph, _ = builder.build(builder.op("reshape", "y", (total,), {"shape": (2, 12)}))
    program = make_program(graph, "softmax_cross_entropy", Sgd(momentum=0.0))
    assert Counter(op.kind for op in program.training.ops)["embedding_backward"] == 2
    reference = Reference(program, {"table": np.ones((5, 4))})
    reference.step(np.array([[0, 1, 2], [2, 2, 4]], np.int32), np.array([0, 5], np.int32))
    assert (reference.gradients["table"][3] == 0).all()
    assert (reference.gradients["table"][[0, 1, 2, 4]] != 0).all()


@pytest.mark.parametrize(
    ("extents", "message"),
    [
        ({"heads": 3}, "3 heads cannot share out a hidden size of 16"),
        ({"sequence": 513}, "a sequence of 513 tokens is longer than the 512 positions"),
    ],
)
def test_sizes_of_bert_must_fit_together(extents: dict[str, int], message: str):
    with pytest.raises(ModelError, match=message):
        BertSize(**{"layers": 1, "hidden": 16, "heads": 4, **extents})
