# SPDX-License-Identifier: Apache-2.0
"""One sample alone is predicted as it is in a batch."""

from __future__ import annotations

import numpy as np
import pytest

from poetfw.ir import Graph
from poetfw.models import build_model
from poetfw.models.builder import GraphBuilder
from poetfw.ops import check_shapes, kind_of
from poetfw.training import Sgd, make_prediction, make_program


def _run(graph: Graph, values: dict[str, np.ndarray], x: np.ndarray) -> dict[str, np.ndarray]:
    """Every tensor of a graph up to where it wants targets."""
    values = dict(values)
    for op in graph.ops:
        if op.kind == "load_y":
            break
        if op.kind == "load_x":
            values[op.output or ""] = x
            continue
        for name in op.inputs:
            tensor = graph.by_name[name]
            if tensor.base is not None:
                flat = values[tensor.base].ravel()[tensor.offset_bytes // 4 :]
                values[name] = flat[: tensor.elements].reshape(tensor.shape)
        result = kind_of(op).compute(op, [values[name] for name in op.inputs], [])
        assert result is not None
        values[op.output or ""] = result
    return values


def predict(graph: Graph, values: dict[str, np.ndarray], sample: np.ndarray) -> np.ndarray:
    """What a prediction says of a sample, [features], as the firmware has it calculated."""
    (load,) = (op for op in graph.ops if op.kind == "load_x")
    x = np.zeros(graph.by_name[load.output or ""].shape, sample.dtype)
    x[0] = sample
    return _run(graph, values, x)[graph.output][0]


@pytest.mark.parametrize(("name", "batch"), [("mlp", 4), ("digits-cnn", 3), ("resnet8", 2)])
def test_a_prediction_is_a_row_of_the_evaluation(name: str, batch: int) -> None:
    model = build_model(name, batch)
    program = make_program(model.graph, model.loss, Sgd())
    graph = make_prediction(program)
    check_shapes(graph)
    assert [op.kind for op in graph.ops if op.kind in ("load_y", "correct_count")] == []
    assert graph.by_name[graph.output].shape == (1, *model.output.shape[1:])
    x = np.random.default_rng(1).normal(size=model.input.shape).astype(np.float32)
    weights = {name: np.asarray(value) for name, value in model.weights.items()}
    (logits, _) = program.evaluation.ops[-1].inputs
    whole = _run(program.evaluation, weights, x)[logits]
    for row in range(batch):
        alone = predict(graph, weights, x[row])
        np.testing.assert_allclose(alone, whole[row], rtol=1e-5, atol=1e-6)


def test_windows_of_a_batch_of_one_stay() -> None:
    builder = GraphBuilder("halves", "x", (1, 6))
    weight = np.ones((8, 6), np.float32)
    y = builder.op("linear", "y", (builder.input, builder.parameter("w", weight)))
    halves = [
        builder.op("slice", f"from{start}", (y,), {"axis": 1, "start": start, "length": 4})
        for start in (0, 4)
    ]
    program = make_program(builder.build(builder.op("add", "sum", halves))[0], "mse", Sgd())
    assert len(program.evaluation.windows) == 2
    graph = make_prediction(program)
    assert graph.windows == program.evaluation.windows
    x = np.arange(6, dtype=np.float32).reshape(1, 6)
    assert _run(graph, {"w": weight}, x)[graph.output].tolist() == [[30.0] * 4]


def test_what_may_mix_samples_is_predicted_in_a_batch() -> None:
    """Axis 0 of the transposed samples is as long as the batch, and is not that."""
    builder = GraphBuilder("turned", "x", (4, 4))
    axes = {"view": (4, 4), "axes": (1, 0), "shape": (4, 4)}
    turned = builder.op("transpose", "turned", (builder.input,), axes)
    back = builder.op("transpose", "back", (turned,), axes)
    y = builder.op("linear", "y", (back, builder.parameter("w", np.eye(4, dtype=np.float32))))
    program = make_program(builder.build(y)[0], "mse", Sgd())
    graph = make_prediction(program)
    check_shapes(graph)
    assert graph.by_name[graph.output].shape == (4, 4)
    sample = np.arange(4, dtype=np.float32)
    weight = {"w": np.eye(4, dtype=np.float32)}
    assert predict(graph, weight, sample).tolist() == sample.tolist()
