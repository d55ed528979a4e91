# SPDX-License-Identifier: Apache-2.0
"""One sample alone is predicted as it is in a batch."""

from __future__ import annotations

import numpy as np
import pytest

from poetfw.errors import ModelError
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
        alone = _run(graph, weights, x[row : row + 1])[graph.output]
        np.testing.assert_allclose(alone[0], whole[row], rtol=1e-5, atol=1e-6)


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


def test_what_mixes_samples_is_refused() -> None:
    builder = GraphBuilder("mixed", "x", (4, 6))
    pairs = builder.op("reshape", "pairs", (builder.input,), {"shape": (2, 12)})
    weight = builder.parameter("w", np.ones((12, 12), np.float32))
    y = builder.op("linear", "y", (pairs, weight))
    single = builder.op("reshape", "single", (y,), {"shape": (4, 6)})
    program = make_program(builder.build(single)[0], "mse", Sgd())
    with pytest.raises(ModelError):
        make_prediction(program)
