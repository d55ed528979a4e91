# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from poetfw.common.errors import ModelError
from poetfw.common.option_values import DEFAULT_MODEL
from poetfw.importers import load_data
from poetfw.ir import Graph, Op, Role, Tensor
from poetfw.models import MODELS, GraphBuilder, Model, build_model
from poetfw.ops import kind_of
from poetfw.training import Reference, make_program

NRF52840_RAM_BYTES = 262_144


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("digits-cnn", 2_514), ("lenet5", 61_706), ("mlp", 6_570), ("resnet8", 78_186)],
)
def test_a_built_in_model_has_the_parameters_it_should(name: str, parameters: int):
    model = build_model(name, batch=2)
    assert model.parameter_count == parameters
    assert model.output.shape == (2, 10)
    assert model.classes == 10
    assert build_model(name).batch == MODELS[name].batch


def test_resnet8_has_as_many_numbers_as_mlperf_tinys():
    """Keras counts 78,666 for `resnet_v1_eembc`: 78,186 trained, 480 running statistics."""
    model = build_model("resnet8", batch=1)
    assert sum(tensor.elements for tensor in model.graph.persistent) == 78_666
    shapes = [model.graph.by_name[op.output].shape for op in model.graph.ops if op.kind == "add"]
    assert shapes == [(1, 16, 32, 32), (1, 32, 16, 16), (1, 64, 8, 8)]


def test_weights_depend_on_the_seed_alone():
    first, again, other = (build_model("digits-cnn", 8, seed) for seed in (1, 1, 2))
    for name, values in first.weights.items():
        np.testing.assert_array_equal(values, again.weights[name])
    assert any((other.weights[name] != values).any() for name, values in first.weights.items())
    np.testing.assert_array_equal(
        build_model("digits-cnn", 1, 1).weights["conv2.weight"], first.weights["conv2.weight"]
    )


def test_weights_have_the_variance_of_he_et_al():
    weight = build_model("lenet5", 1).weights["c5.weight"]
    assert weight.std() == pytest.approx((2 / 400) ** 0.5, rel=0.02)
    assert weight.mean() == pytest.approx(0, abs=1e-3)


def test_the_weights_of_seed_0_stay_as_they_are():
    """A change here changes what everybody's builds start from."""
    weight = build_model("digits-cnn", 1).weights["conv1.weight"]
    normal = np.array([0.12573022, -0.13210486, 0.64042265])  # PCG64(0)'s first draws
    np.testing.assert_allclose(weight.reshape(-1)[:3], normal * (2 / 9) ** 0.5, rtol=1e-6)


def test_the_default_model_needs_far_more_ram_than_the_nrf52840_has():
    """Every tensor computed once and freed after its last use, with parameters and momentum."""
    model = build_model(DEFAULT_MODEL)
    program = make_program(model.graph, model.loss, model.optimizer)
    graph = program.training
    last = {name: at for at, op in enumerate(graph.ops) for name in op.inputs}
    resident = sum(tensor.size_bytes for tensor in program.persistent)
    live: dict[str, int] = {}
    peak = 0
    for at, op in enumerate(graph.ops):
        if op.output is not None:
            live[op.output] = graph.by_name[op.output].size_bytes
        peak = max(peak, resident + sum(live.values()))
        live = {name: size for name, size in live.items() if last.get(name, -1) > at}
    assert peak > 1.6 * NRF52840_RAM_BYTES
    most = max(
        sum(
            graph.by_name[name].size_bytes
            for name in {*op.inputs, op.output} - {None}
            if not graph.by_name[name].role.persistent
        )
        for op in graph.ops
    )
    assert resident + most < 0.85 * NRF52840_RAM_BYTES  # so a schedule can make it fit
    macs = sum(
        kind_of(op)
        .work(
            op,
            [graph.by_name[name] for name in op.inputs],
            None if op.output is None else graph.by_name[op.output],
        )
        .macs
        for op in graph.ops
    )
    assert macs < 250_000 * model.batch


def test_the_default_model_learns_the_digits():
    model = build_model(DEFAULT_MODEL)
    data = load_data("digits", model)
    program = make_program(model.graph, model.loss, model.optimizer)
    reference = Reference(program, model.weights, np.float32)
    order = np.random.default_rng(0)
    for _ in range(model.epochs):
        for batch in order.permutation(len(data.x_train))[: 44 * 32].reshape(44, 32):
            reference.step(data.x_train[batch], data.y_train[batch])
    correct = sum(
        reference.evaluate(data.x_test[i : i + 32], data.y_test[i : i + 32])
        for i in range(0, 352, 32)
    )
    assert correct / 352 > 0.93


@pytest.mark.parametrize("name", list(MODELS))
def test_every_built_in_model_can_be_trained(name: str):
    model = build_model(name, batch=2)
    program = make_program(model.graph, model.loss, model.optimizer)
    trained = {tensor.name for tensor in model.graph.with_role(Role.PARAMETER)}
    applied = {op.updates[0] for op in program.training.ops if op.kind.endswith("sgd")}
    assert applied == trained
    unstored = {op.updates[0] for op in program.training.ops if op.kind.endswith("_sgd")}
    assert trained - set(program.parameter_gradients) == unstored


def test_an_unknown_model_lists_the_known_ones():
    with pytest.raises(ModelError, match=r"^no model is called 'vgg'$") as caught:
        build_model("vgg")
    assert caught.value.try_next[0] == "use one of: " + ", ".join(MODELS)


@pytest.mark.parametrize(("batch", "seed"), [(0, 0), (-1, 0), (10**9, 0), (1, -1)])
def test_batch_and_seed_must_be_sensible(batch: int, seed: int):
    with pytest.raises(ModelError, match="must be"):
        build_model("mlp", batch, seed)


def relu_graph(shape: tuple[int, ...], role: Role = Role.INPUT) -> Graph:
    return Graph(
        "g",
        (Tensor("x", shape, role=role), Tensor("y", shape)),
        (Op("r", "relu", ("x",), "y"),),
        "y",
    )


@pytest.mark.parametrize(
    ("graph", "weights", "loss", "message"),
    [
        (relu_graph((2, 3)), {}, "hinge", "'hinge' is not a loss of poetfw"),
        (relu_graph((2, 3, 4)), {}, "softmax_cross_entropy", "2 classes or more"),
        (relu_graph((2, 1)), {}, "softmax_cross_entropy", "2 classes or more"),
        (relu_graph((2, 3), Role.STATE), {"x": np.zeros((2, 3), "f")}, "mse", "has no input"),
        (
            Graph(
                "g",
                (*relu_graph((2, 3)).tensors, Tensor("w", (3,), role=Role.STATE)),
                relu_graph((2, 3)).ops,
                "y",
            ),
            {"w": np.array([1, np.nan, 1], np.float32)},
            "mse",
            "'w' hold NaN or infinity",
        ),
        (
            Graph(
                "g",
                (*relu_graph((2, 3)).tensors, Tensor("w", (3,), role=Role.STATE)),
                relu_graph((2, 3)).ops,
                "y",
            ),
            {"w": np.zeros(4, np.float32)},
            "mse",
            r"'w' needs float32 weights of shape \[3\]",
        ),
    ],
)
def test_a_malformed_model_is_refused(
    graph: Graph, weights: dict[str, np.ndarray], loss: str, message: str
):
    with pytest.raises(ModelError, match=message):
        Model(graph, weights, loss, "")


def test_the_builder_keeps_names_apart():
    builder = GraphBuilder("g", "x", (2, 3))
    first = builder.op("relu", "x", (builder.input,))
    second = builder.op("relu", "x", (first,))
    assert (builder.input, first, second) == ("x", "x (2)", "x (3)")
    graph, _ = builder.build(second)
    assert [op.name for op in graph.ops] == ["x (2)", "x (3)"]
