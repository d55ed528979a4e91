"""Views in front of activations: the same training, with a buffer less."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from poetfw.boards import load_board
from poetfw.costs import analytic_costs
from poetfw.ir import Graph, Op, Role, Tensor
from poetfw.models.builder import GraphBuilder
from poetfw.ops import check_shapes
from poetfw.pipeline import plan_unscheduled
from poetfw.training import Reference, Sgd, hoist_views, make_program

WEIGHT = np.random.default_rng(1).normal(size=(5, 18)).astype(np.float32)


def network(*activations: str, batch: int = 2, reader: bool = False, last: bool = False) -> Graph:
    """x [batch, 2, 3, 3] -> batch norm, activations, flatten [batch, 18], linear [batch, 5]."""
    builder = GraphBuilder("network", "x", (batch, 2, 3, 3))
    pair = np.array([[1, 2], [0.5, -0.5]], np.float32)
    inputs = (builder.input, builder.parameter("affine", pair), builder.state("running", pair))
    x = builder.op("batch_norm", "bn", inputs, {"eps": 1e-3, "momentum": 0.1})
    for index, kind in enumerate(activations):
        x = builder.op(kind, f"active{index}", (x,))
    if reader:
        pooled = builder.op("global_avg_pool", "pool", (x,))
        pooled = builder.op("reshape", "pooled", (pooled,), {"shape": (batch, 2)})
    flat = builder.op("reshape", "flat", (x,), {"shape": (batch, 18)})
    if last:
        return builder.build(flat)[0]
    y = builder.op("linear", "y", (flat, builder.parameter("w", WEIGHT)))
    return builder.build(pooled if reader else y)[0]


def order(graph: Graph) -> list[str]:
    return [op.name for op in graph.ops]


def test_a_view_moves_in_front_of_the_activations() -> None:
    graph = hoist_views(network("relu", "tanh"))
    assert order(graph) == ["bn", "flat", "active0", "active1", "y"]
    assert graph.by_name["active1"].shape == (2, 18)
    assert graph.ops[-1].inputs[0] == "active1"
    check_shapes(graph)


def test_the_output_may_be_the_view() -> None:
    graph = hoist_views(network("relu", last=True))
    assert graph.by_name[graph.output] == Tensor("active0", (2, 18))
    check_shapes(graph)


@pytest.mark.parametrize(
    "graph", [network(), network("relu", reader=True)], ids=["no activation", "another reader"]
)
def test_other_views_stay(graph: Graph) -> None:
    assert hoist_views(graph) is graph


def test_an_activation_that_is_the_answer_stays() -> None:
    graph = replace(network("relu", last=True), output="active0")
    assert hoist_views(graph) is graph


def test_a_view_of_an_input_or_of_another_view_is_left_alone() -> None:
    tensors = (
        Tensor("x", (2, 6), role=Role.INPUT),
        Tensor("a", (2, 3, 2)),
        Tensor("b", (3, 4)),
    )
    ops = (
        Op("a", "reshape", ("x",), "a", {"shape": (2, 3, 2)}),
        Op("b", "reshape", ("a",), "b", {"shape": (3, 4)}),
    )
    graph = Graph("views", tensors, ops, "b")
    assert hoist_views(graph) is graph


def test_training_is_the_same_and_takes_a_buffer_less(monkeypatch: pytest.MonkeyPatch) -> None:
    board = load_board("linux")
    graph = network("relu", batch=32, last=True)
    weights = {"affine": np.ones((2, 2)), "running": np.ones((2, 2))}
    random = np.random.default_rng(2)
    x, y = (random.normal(size=shape) for shape in ((32, 2, 3, 3), (32, 18)))
    losses, peaks = [], []
    for moved in (True, False):
        if not moved:
            monkeypatch.setattr("poetfw.training.program.hoist_views", lambda model: model)
        program = make_program(graph, "mse", Sgd())
        reference = Reference(program, weights)
        losses.append([reference.step(x, y) for _ in range(3)])
        plan = plan_unscheduled(program, board, analytic_costs(program.training, board))
        peaks.append(plan.memory.peak_bytes)
    assert losses[0] == losses[1]
    assert peaks[1] - peaks[0] == 32 * 18 * 4
