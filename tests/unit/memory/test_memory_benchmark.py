# SPDX-License-Identifier: Apache-2.0
"""The memory benchmark: its runner, and what it takes as shareable."""

from __future__ import annotations

import json
import statistics

import pytest

from poetfw.common.limits import Work
from poetfw.memory.ordering import (
    OrderingProblem,
    OrderingStatus,
    OrderOp,
    lifetimes,
    order_ops,
    peak_bytes,
)
from system.commands import benchmark
from workloads import olla
from workloads.networks import NETWORKS, OLLA
from workloads.networks.sharing import with_fused_updates, with_sharing
from workloads.networks.tape import TrainingStep
from workloads.published import published


@pytest.mark.slow
def test_quick_run_writes_every_figure(tmp_path):
    path = tmp_path / "memory.json"
    printed = benchmark("memory", "--quick", "--json", path).stdout
    document = json.loads(path.read_text())
    assert {case["case"] for case in document["nntrainer"]} >= {"Linear", "LSTM", "FC-FC-FC"}
    for row in document["olla"]["rows"]:
        assert row["kept_bytes"] <= row["shared_peak_bytes"] <= row["peak_bytes"]
        assert row["peak_bytes"] <= row["pytorch_peak_bytes"] <= row["pytorch_reserved_bytes"]
        assert row["fused_arena_bytes"] <= row["arena_bytes"] == row["shared_peak_bytes"]
    summaries = document["olla"]["summaries"]
    assert [s["olla"]["mean_total_reduction"] for s in summaries] == [0.304, 0.361]
    assert all("4 of OLLA's 12" in s["networks"] for s in summaries)
    assert all(p["height_bytes"] == p["lower_bound_bytes"] for p in document["packings"])
    assert "30.4%" in printed


@pytest.mark.parametrize("network", ["googlenet", "mobilenet", "efficientnet", "transformer-6"])
def test_what_is_shared_is_dead_in_the_final_order(network):
    problem = NETWORKS[network](2).problem
    shared = with_sharing(NETWORKS[network](2), problem.names)
    ordering = order_ops(shared, Work(5.0))
    assert ordering.peak_bytes < peak_bytes(problem)

    position = {name: at for at, name in enumerate(ordering.order)}
    lives = {life.tensor: life for life in lifetimes(problem, ordering.order)}
    live = [0] * len(position)
    for tensor, life in lives.items():
        for at in range(life.lower, life.upper):
            live[at] += problem.sizes[tensor]
    taken = []
    for op in shared.ops:
        if op.in_place is not None and lives[op.in_place].upper == position[op.name] + 1:
            assert problem.sizes[op.in_place] == problem.sizes[op.outputs[0]]
            live[position[op.name]] -= problem.sizes[op.in_place]
            taken.append(op.in_place)
    assert len(set(taken)) == len(taken) > 0
    assert problem.resident_bytes + max(live) == ordering.peak_bytes
    assert len(lifetimes(shared, ordering.order)) == len(lives) - len(taken)


@pytest.mark.parametrize("network", ["googlenet", "resnet", "bert"])
def test_only_element_by_element_outputs_are_written_over_gradients(network):
    step = NETWORKS[network](1)
    fixed = {"convolution", "addmm", "mm", "bmm", "clone", "cat", "max_pool2d_with_indices"}
    for op in step.problem.ops:
        kind = op.name.split(" ")[1]
        if kind in fixed and op.outputs:
            assert step.writable[op.outputs[0]] == ()
        if kind in ("max_pool2d_backward", "convolution_backward"):
            assert op.inputs[0] not in step.writable[op.outputs[0]]


def test_the_paper_lists_these_networks():
    models = published("olla_2022")["total"]["models"]
    assert sorted(name.split()[0] for name in models) == sorted(OLLA)


@pytest.mark.parametrize("batch", [1, 32])
def test_ordering_saves_what_it_saves_in_the_paper(batch):
    """Their mean on their networks, so both count the same bytes, and the orders are as good."""
    saved = []
    for network in OLLA.values():
        problem = network(batch).problem
        ordered = order_ops(problem, Work(5.0))
        assert ordered.status is OrderingStatus.OPTIMAL
        saved.append(1 - ordered.peak_bytes / peak_bytes(problem))
    theirs = olla.published_figures(batch)["mean_ordering_reduction"]
    assert statistics.mean(saved) == pytest.approx(theirs, abs=0.005)


def test_sharing_waits_for_the_last_reader():
    ops = (
        OrderOp("make", (), ("x",)),
        OrderOp("scale", ("x",), ("y",)),
        OrderOp("read", ("x",)),
        OrderOp("negate", ("y",), ("z",)),
    )
    problem = OrderingProblem(ops, dict.fromkeys("xyz", 4))
    step = TrainingStep(problem, (), {"x": (), "y": ("x",), "z": ("y",)})
    order = ("make", "read", "scale", "negate")
    for known in (problem.names, order):
        shared = with_sharing(step, known)
        assert shared.names == known
        assert [op.in_place for op in shared.ops if op.outputs] == [None, "x", "y"]
    assert peak_bytes(shared, problem.names) == 8
    assert peak_bytes(shared, order) == order_ops(shared).peak_bytes == 4


def test_what_dies_is_written_over_rather_than_what_fewer_ops_read():
    ops = (
        OrderOp("make", (), ("x", "y")),
        OrderOp("read", ("x",)),
        OrderOp("add", ("x", "y"), ("z",)),
        OrderOp("later", ("y",)),
        OrderOp("last", ("z",)),
    )
    step = TrainingStep(
        OrderingProblem(ops, dict.fromkeys("xyz", 4)), (), {"x": (), "z": ("x", "y")}
    )
    for order, best in [
        (("make", "read", "add", "later", "last"), "x"),
        (("make", "later", "add", "read", "last"), "y"),
    ]:
        shared = with_sharing(step, order)
        assert {op.in_place for op in shared.ops} == {None, best}


def test_fused_updates_store_no_gradient_of_a_linear_layer_and_read_the_same():
    step = NETWORKS["alexnet"](1)
    fused = with_fused_updates(step).problem
    assert len(fused.ops) == len(step.problem.ops) - 3
    gone = set(step.problem.sizes) - set(fused.sizes)
    assert sorted(step.problem.sizes[name] for name in gone) == [
        4 * 4096 * 1000,
        4 * 4096 * 4096,
        4 * 9216 * 4096,
    ]
    readers = {op.name: op.inputs for op in step.problem.ops}
    assert all(op.inputs == readers[op.name] for op in fused.ops)
    assert peak_bytes(fused) < peak_bytes(step.problem)


def test_kept_bytes_are_what_spans_the_beginning_of_the_backward_pass():
    ops = (
        OrderOp("0 f", (), ("kept", "scratch")),
        OrderOp("1 g", ("scratch",), ("loss",)),
        OrderOp("2 ones_like", ("loss",), ("seed",)),
        OrderOp("3 aside", ("scratch",)),
        OrderOp("4 backward", ("seed", "kept")),
    )
    sizes = {"kept": 100, "scratch": 10, "loss": 1, "seed": 1}
    assert olla.kept_bytes(OrderingProblem(ops, sizes, 1000)) == 1100
