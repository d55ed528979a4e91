# SPDX-License-Identifier: Apache-2.0
"""Slices of weights that are loaded ahead, where that saves time for little energy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from poetfw.boards import load_board
from poetfw.common.errors import PlanError
from poetfw.costs import analytic_costs
from poetfw.models.zoo import build_model
from poetfw.ops import kind_of, streamed_kind
from poetfw.planning.problem import schedule_problem, streaming_cost
from poetfw.planning.read_ahead import MOST_ENERGY, read_ahead, spare_at
from poetfw.schedule import ScheduleProblem, Storage, simulate, solve
from poetfw.training import Program, Sgd, make_program, stream

BOARD = load_board("nrf52840")
TILES = {"stack3.a.conv.weight": (64, 8), "stack3.b.conv.weight": (32, 16)}
LOADING = 2
SPARE = {
    f"{layer}{op}": 4096
    for layer in ("stack3.a.conv", "stack3.b.conv")
    for op in ("", ".backward_input")
}


def streamed() -> Program:
    """A training step of resnet8 with two streamed weights."""
    model = build_model("resnet8", 1)
    return stream(make_program(model.graph, "softmax_cross_entropy", Sgd(0.1, momentum=0.9)), TILES)


def storage_of(program: Program) -> Storage:
    """The board's storage."""
    costs = analytic_costs(program.training, BOARD)
    storage = schedule_problem(program.training, BOARD, costs, None).storage
    assert storage is not None
    return storage


def test_slices_become_smaller_in_all_ops_of_a_layer() -> None:
    before = streamed()
    after = read_ahead(before, BOARD, analytic_costs, SPARE)
    for graph, other in (
        (before.training, after.training),
        (before.evaluation, after.evaluation),
    ):
        changed = [pair for pair in zip(graph.ops, other.ops, strict=True) if pair[0] != pair[1]]
        assert len(changed) == (2 * LOADING if graph is before.training else LOADING)
        for old, new in changed:
            (outputs, inputs), smaller = old.integers("tile"), new.integers("tile")
            assert smaller in [(outputs, part) for part in range(1, inputs) if inputs % part == 0]
            assert (old.name, old.inputs, old.updates) == (new.name, new.inputs, new.updates)
            grown = kind_of(new).workspace_bytes(new, other)
            assert grown <= kind_of(old).workspace_bytes(old, graph) + 4096
    layouts = [
        {name: kind.layouts(op, graph)[name] for name in TILES if name in op.inputs}
        for graph in (after.training, after.evaluation)
        for op in graph.ops
        if (kind := streamed_kind(op)) is not None
    ]
    for name in TILES:
        assert len({each[name] for each in layouts if name in each}) == 1


def test_a_layer_takes_little_more_energy_and_less_time() -> None:
    before = streamed()
    after = read_ahead(before, BOARD, analytic_costs, SPARE)
    table, storage = analytic_costs(before.training, BOARD), storage_of(before)
    for weight in TILES:
        figures = []
        for graph in (before.training, after.training):
            ops = [op for op in graph.ops if weight in op.inputs]
            seconds = [table.ops[op.name].time_s for op in ops]
            costs = [
                streaming_cost(op, graph, storage, compute_s)
                for op, compute_s in zip(ops, seconds, strict=True)
            ]
            time_s = sum(seconds) + sum(cost.time_s for cost in costs)
            figures.append((sum(cost.energy_j for cost in costs), time_s))
        (energy_j, time_s), (more_j, less_s) = figures
        assert energy_j < more_j <= MOST_ENERGY * energy_j
        assert more_j * less_s < energy_j * time_s
    # Without more workspace, slices would have to be so narrow that requests take more energy.
    assert read_ahead(before, BOARD, analytic_costs, {}) == before


def test_workspace_may_grow_by_what_is_free_and_not_by_more() -> None:
    program = streamed()
    costs = analytic_costs(program.training, BOARD)
    problem = schedule_problem(program.training, BOARD, costs, None)
    schedule = solve(problem, "checkpoint-all")
    problem = replace(problem, ram_bytes=schedule.peak_bytes + 1000)
    spare = spare_at(problem, schedule.plan)
    assert min(spare.values()) == 1000

    def grown(by: int) -> ScheduleProblem:
        nodes = (
            replace(node, workspace_bytes=node.workspace_bytes + spare[node.name] + by)
            for node in problem.nodes
        )
        return replace(problem, nodes=tuple(nodes))

    assert simulate(grown(0), schedule.plan).peak_bytes == problem.ram_bytes
    with pytest.raises(PlanError, match="it needs"):
        simulate(grown(1), schedule.plan)


class _Channel:
    """The storage's channel, which does one transfer after the other."""

    def __init__(self, storage: Storage, tensors: int) -> None:
        self.storage, self.tensors, self.free_s = storage, tensors, 0.0

    def transfer(self, way: str, size: int, from_s: float) -> float:
        """When a slice of each tensor has been moved that is asked for at some time."""
        busy = getattr(self.storage, way).moving(size)
        self.free_s = max(self.free_s, from_s) + self.tensors * busy.storage_s
        return self.free_s


@pytest.mark.parametrize("compute_s", [0.0, 0.01, 0.3, 5.0])
def test_the_time_is_that_of_a_core_and_a_channel_side_by_side(compute_s: float) -> None:
    """The formula agrees with a simulation that follows each slice."""
    program = read_ahead(streamed(), BOARD, analytic_costs, SPARE)
    storage, graph = storage_of(program), program.training
    for op in graph.ops:
        kind = streamed_kind(op)
        weight = None if kind is None else kind.loads(op, graph.by_name).weight
        if kind is None or weight is None or not weight.loads_ahead:
            continue
        sizes, tensors = weight.layout.column_request_bytes, len(weight.tensors)
        channel, core_s = _Channel(storage, tensors), 0.0
        ways = ("page_in", "page_out") if weight.updated else ("page_in",)
        loaded_s = [channel.transfer("page_in", sizes[0], 0.0)]
        for number, size in enumerate(sizes):
            core_s = max(core_s, loaded_s[number])
            loaded_s += [
                channel.transfer("page_in", following, core_s)
                for following in sizes[number + 1 : number + 2]
            ]
            core_s += compute_s / len(sizes)
            core_s += sum(tensors * getattr(storage, way).moving(size).core_s for way in ways)
            if weight.updated:
                channel.transfer("page_out", size, core_s)
        waiting = replace(op, attributes={**op.attributes, "ahead": 0})
        waited_s = streaming_cost(waiting, graph, storage).time_s
        said_s = streaming_cost(op, graph, storage, compute_s).time_s + compute_s
        assert said_s == pytest.approx(max(core_s, channel.free_s), rel=0.03)
        assert said_s < waited_s + compute_s


def test_ops_on_stored_tensors_are_left_alone() -> None:
    program = streamed()
    graph = program.training
    ops = tuple(
        replace(
            op, kind=f"pieced_{op.kind}", attributes={**op.attributes, "loops": "i", "cut": (16,)}
        )
        if "stack3.b.conv.weight" in op.inputs and op.backward
        else op
        for op in graph.ops
    )
    pieced = replace(program, training=replace(graph, ops=ops))
    after = read_ahead(pieced, BOARD, lambda each, board: analytic_costs(graph, board), SPARE)
    ahead = {op.name for op in after.training.ops if "ahead" in op.attributes}
    assert ahead == {"stack3.a.conv", "stack3.a.conv.backward_input"}
