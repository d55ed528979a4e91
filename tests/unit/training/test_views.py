# SPDX-License-Identifier: Apache-2.0
"""Views in front of activations, and windows: the same training, with buffers less."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from poetfw.boards import load_board
from poetfw.common.errors import ModelError
from poetfw.costs import analytic_costs
from poetfw.ir import Dtype, Graph, Op, Role, Tensor
from poetfw.memory.ordering import from_graph, lifetimes
from poetfw.models.builder import GraphBuilder
from poetfw.ops import check_shapes
from poetfw.planning import plan_evaluation, plan_unscheduled
from poetfw.training import (
    Program,
    Reference,
    Sgd,
    hoist_views,
    in_place_input,
    make_program,
    open_windows,
)

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
            monkeypatch.setattr("poetfw.training.derivation.hoist_views", lambda model: model)
        program = make_program(graph, "mse", Sgd())
        reference = Reference(program, weights)
        losses.append([reference.step(x, y) for _ in range(3)])
        plan = plan_unscheduled(program, board, analytic_costs)
        peaks.append(plan.memory.peak_bytes)
    assert losses[0] == losses[1]
    assert peaks[1] - peaks[0] == 32 * 18 * 4


def gate(batch: int) -> tuple[Graph, dict[str, np.ndarray]]:
    """x [batch, 6, 2, 2]; y = batch norm of x; relu(y[:, :3]) + y[:, 3:] through a linear layer."""
    builder = GraphBuilder("gate", "x", (batch, 6, 2, 2))
    affine = np.ones((2, 6), np.float32)
    inputs = (builder.input, builder.parameter("affine", affine), builder.state("run", affine))
    y = builder.op("batch_norm", "bn", inputs, {"eps": 1e-3, "momentum": 0.1})
    low, high = (
        builder.op("slice", name, (y,), {"axis": 1, "start": start, "length": 3})
        for name, start in (("low", 0), ("high", 3))
    )
    total = builder.op("add", "total", (builder.op("relu", "active", (low,)), high))
    flat = builder.op("reshape", "flat", (total,), {"shape": (batch, 12)})
    weight = np.random.default_rng(3).normal(size=(5, 12)).astype(np.float32)
    return builder.build(builder.op("linear", "out", (flat, builder.parameter("w", weight))))


def test_slices_of_one_sample_are_windows() -> None:
    program = make_program(gate(1)[0], "mse", Sgd())
    low, high = program.training.windows
    assert (low.base, low.offset_bytes, low.shape) == ("bn", 0, (1, 3, 2, 2))
    assert (high.base, high.offset_bytes, high.shape) == ("bn", 48, (1, 3, 2, 2))
    assert not [op for op in program.training.ops if op.kind == "slice"]
    assert [op.name for op in program.training.consumers["bn"]][:2] == ["active", "total"]
    assert Program.from_json(json.loads(json.dumps(program.to_json()))) == program
    assert len(program.evaluation.windows) == 2


def test_slices_of_several_samples_are_copied() -> None:
    program = make_program(gate(2)[0], "mse", Sgd())
    assert program.training.windows == ()
    assert len([op for op in program.training.ops if op.kind == "slice"]) == 2


def test_what_reshapes_a_window_is_one_too() -> None:
    builder = GraphBuilder("windows", "x", (1, 8))
    doubled = builder.op("add", "doubled", (builder.input, builder.input))
    part = builder.op("slice", "part", (doubled,), {"axis": 1, "start": 2, "length": 6})
    builder.op("slice", "rest", (doubled,), {"axis": 1, "start": 0, "length": 2})
    seen = builder.op("reshape", "seen", (part,), {"shape": (1, 2, 3)})
    inner = builder.op("slice", "inner", (seen,), {"axis": 1, "start": 1, "length": 1})
    graph, _ = builder.build(builder.op("add", "y", (inner, inner)))
    opened = open_windows(graph)
    assert order(opened) == ["doubled", "y"]
    at = {window.name: (window.base, window.offset_bytes) for window in opened.windows}
    assert at.pop("rest") == ("doubled", 0)
    assert at == {"part": ("doubled", 8), "seen": ("doubled", 8), "inner": ("doubled", 20)}
    check_shapes(opened)


@pytest.mark.parametrize("late", [False, True])
def test_a_slice_does_not_keep_a_larger_tensor_alone(late: bool) -> None:
    builder = GraphBuilder("part", "x", (1, 8))
    doubled = builder.op("add", "doubled", (builder.input, builder.input))
    part = builder.op("slice", "part", (doubled,), {"axis": 1, "start": 2, "length": 2})
    seen = builder.op("reshape", "seen", (part,), {"shape": (2, 1)})
    y = builder.op("relu", "early", (doubled,))
    y = builder.op("relu", "reader", (seen,))
    if late:
        y = builder.op("relu", "late", (doubled,))
    opened = open_windows(builder.build(y)[0])
    assert [window.name for window in opened.windows] == (["part", "seen"] if late else [])


def test_slices_of_parameters_stay() -> None:
    builder = GraphBuilder("table", "x", (1, 2))
    table = builder.parameter("table", np.ones((3, 2), np.float32))
    rows = [
        builder.op("slice", f"row{i}", (table,), {"axis": 0, "start": i, "length": 1})
        for i in range(3)  # together all of it, so that nothing else speaks against windows
    ]
    y = builder.input
    for i, row in enumerate(rows):
        y = builder.op("add", f"sum{i}", (y, row))
    graph, _ = builder.build(y)
    assert open_windows(graph) == graph


def test_nothing_is_written_over_a_tensor_before_its_windows_are_read() -> None:
    builder = GraphBuilder("late", "x", (1, 4))
    doubled = builder.op("add", "doubled", (builder.input, builder.input))
    halves = [
        builder.op("slice", f"half{start}", (doubled,), {"axis": 1, "start": start, "length": 2})
        for start in (0, 2)
    ]
    builder.op("relu", "active", (doubled,))
    graph, _ = builder.build(builder.op("add", "y", halves))
    opened = open_windows(graph)
    relu, last = opened.ops[-2:]
    assert opened.consumers["doubled"] == (relu, last)
    assert [(life.tensor, life.upper) for life in lifetimes(from_graph(opened))] == [
        ("doubled", 3),
        ("active", 2),
        ("y", 3),
    ]
    assert in_place_input(opened, relu) == "doubled"
    assert in_place_input(opened, replace(relu, kind="add", inputs=("doubled", "half0"))) is None


def test_training_with_windows_is_the_same_in_fewer_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    board = load_board("linux")
    graph, weights = gate(1)
    random = np.random.default_rng(2)
    x, y = (random.normal(size=shape).astype(np.float32) for shape in ((1, 6, 2, 2), (1, 5)))
    trained, peaks = [], []
    for opened in (True, False):
        if not opened:
            monkeypatch.setattr("poetfw.training.derivation.open_windows", lambda graph: graph)
        program = make_program(graph, "mse", Sgd())
        reference = Reference(program, weights, np.float32)
        losses = [reference.step(x, y) for _ in range(3)]
        bits = {name: value.tobytes() for name, value in reference.persistent.items()}
        trained.append((losses, bits, reference.evaluate(x, y)))
        peaks.append(plan_evaluation(program, board, analytic_costs).peak_bytes)
    assert trained[0] == trained[1]
    assert peaks[1] - peaks[0] == 48  # no copy of the second half


def test_a_batch_is_rounded_to_the_precision_of_the_calculation() -> None:
    graph, weights = gate(1)
    program = make_program(graph, "mse", Sgd())
    x, y = (np.random.default_rng(4).normal(size=shape) for shape in ((1, 6, 2, 2), (1, 5)))
    losses = [
        Reference(program, weights, np.float32).step(x.astype(kind), y.astype(kind))
        for kind in (np.float32, np.float64)
    ]
    assert losses[0] == losses[1] != Reference(program, weights).step(x, y)


@pytest.mark.parametrize("batch", [1, 3])
def test_a_gate_trains_as_in_torch(batch: int) -> None:
    torch = pytest.importorskip("torch", reason="needs PyTorch (the extra `torch`)")
    graph, weights = gate(batch)
    random = np.random.default_rng(5)
    x, y = random.normal(size=(batch, 6, 2, 2)), random.normal(size=(batch, 5))
    reference = Reference(make_program(graph, "mse", Sgd(momentum=0.9)), weights)
    norm = torch.nn.BatchNorm2d(6, eps=1e-3, dtype=torch.float64)
    torch.nn.init.ones_(norm.bias)
    weight = torch.nn.Parameter(torch.tensor(weights["w"], dtype=torch.float64))
    optimizer = torch.optim.SGD([*norm.parameters(), weight], lr=0.05, momentum=0.9)
    for _ in range(10):
        low, high = norm(torch.tensor(x)).chunk(2, dim=1)
        out = (torch.relu(low) + high).flatten(1) @ weight.T
        loss = torch.nn.functional.mse_loss(out, torch.tensor(y))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        assert reference.step(x, y) == pytest.approx(loss.item(), rel=1e-9)
    assert reference.persistent["w"] == pytest.approx(weight.detach().numpy(), rel=1e-9)


@pytest.mark.parametrize(
    ("window", "reason"),
    [
        (Tensor("w", (3,), base="a", offset_bytes=8), "window 'w' does not lie within tensor 'a'"),
        (Tensor("w", (2,), base="a", offset_bytes=-4), "window 'w' does not lie within tensor 'a'"),
        (Tensor("w", (2,), Dtype.I32, base="a"), "window 'w' does not lie within tensor 'a'"),
        (Tensor("w", (2,), base="x"), "'w' is not a window on a tensor that an op produces"),
        (Tensor("w", (2,), base="?"), "'w' is not a window on a tensor that an op produces"),
    ],
)
def test_windows_lie_within_what_is_produced(window: Tensor, reason: str) -> None:
    ops = (Op("a", "relu", ("x",), "a"), Op("b", "relu", ("w",), "b"))
    tensors = (Tensor("x", (4,), role=Role.INPUT), Tensor("a", (4,)), window, Tensor("b", (2,)))
    with pytest.raises(ModelError, match=re.escape(reason)):
        Graph("bad", tensors, ops, "b")


def test_a_window_is_not_read_before_its_base_is_produced() -> None:
    ops = (Op("b", "relu", ("w",), "b"), Op("a", "relu", ("x",), "a"))
    tensors = (
        Tensor("x", (4,), role=Role.INPUT),
        Tensor("a", (4,)),
        Tensor("w", (2,), base="a", offset_bytes=8),
        Tensor("b", (2,)),
    )
    with pytest.raises(ModelError, match="op 'b' uses tensor 'w' before it is produced"):
        Graph("early", tensors, ops, "b")
