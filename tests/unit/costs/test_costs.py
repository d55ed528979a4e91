# SPDX-License-Identifier: Apache-2.0
import json
import math
from dataclasses import replace

import pytest

from poetfw.boards import load_board
from poetfw.common.errors import ProblemError
from poetfw.common.transfer import OverlapCosts, Transfer
from poetfw.costs import CostTable, Counter, OpCost, Source, analytic_costs, cost_of
from poetfw.costs.features import features_of
from poetfw.costs.table import SCHEMA_VERSION
from poetfw.firmware.tile_choice import program_tiles
from poetfw.ir import Dtype, Graph, Op, Role, Tensor
from poetfw.models import build_model
from poetfw.ops import OpWork
from poetfw.training import make_program
from workloads import BOARDS

BOARD = load_board(BOARDS / "poet-m4f.toml")
"""A board without prices."""


def test_arithmetic_bounds_the_time_of_work_with_many_macs():
    cost = cost_of(OpWork(macs=3_185_000, bytes_moved=4), BOARD)
    assert cost.time_s == pytest.approx(1.0)
    assert cost.energy_j == pytest.approx(10.98e-3)


def test_ram_traffic_bounds_the_time_of_work_with_few_macs():
    assert cost_of(OpWork(macs=1, bytes_moved=256_000_000), BOARD).time_s == pytest.approx(1.0)


def test_a_load_pays_for_whole_blocks_of_storage():
    assert BOARD.storage is not None
    one = cost_of(OpWork(macs=0, bytes_moved=0, storage_bytes=1), BOARD)
    assert one == cost_of(OpWork(macs=0, bytes_moved=0, storage_bytes=512), BOARD)
    assert one.time_s == pytest.approx(0.109e-3 + 512 / 4.617e6)
    assert one.energy_j == pytest.approx(0.33 * one.time_s, rel=1e-4)


def test_a_load_that_calculates_as_well_does_one_after_the_other():
    both = cost_of(OpWork(macs=3_185_000, bytes_moved=0, storage_bytes=512), BOARD)
    alone = cost_of(OpWork(macs=0, bytes_moved=0, storage_bytes=512), BOARD)
    assert both.time_s == pytest.approx(1.0 + alone.time_s)
    assert both.energy_j == pytest.approx(10.98e-3 + alone.energy_j)


def test_every_op_of_a_graph_has_a_cost_that_survives_json():
    graph = Graph(
        name="g",
        tensors=(Tensor("x", (2, 3), role=Role.INPUT), Tensor("y", (2, 3)), Tensor("z", (2, 3))),
        ops=(Op("a", "relu", ("x",), "y"), Op("b", "relu6", ("y",), "z")),
        output="z",
    )
    table = analytic_costs(graph, BOARD)
    assert table.sources == {"measured": 0, "fitted": 0, "analytic": 2, "board file": 0}
    assert table.summary == "analytic"
    assert set(table.ops) == {"a", "b"}
    assert table.ops["a"].time_s == pytest.approx(6 / 3.185e6)
    assert CostTable.from_json(json.loads(json.dumps(table.to_json()))) == table


def test_an_operator_with_a_price_costs_its_cycles_and_any_other_what_the_roofline_says():
    """Its loop of 20 elements is two blocks of 8, and four by themselves."""
    price = {"fixed": 100.0, "loop.8": 7.0, "loop.1": 2.0}
    compute = replace(BOARD.compute, cycles={"poet_relu_forward_f32": price})
    graph = Graph(
        name="g",
        tensors=(Tensor("x", (4, 5), role=Role.INPUT), Tensor("y", (4, 5)), Tensor("z", (4, 5))),
        ops=(Op("a", "relu", ("x",), "y"), Op("b", "relu6", ("y",), "z")),
        output="z",
    )
    costs = analytic_costs(graph, replace(BOARD, compute=compute)).ops
    assert costs["a"].time_s == pytest.approx((100 + 2 * 7 + 4 * 2) / 64e6)
    assert costs["a"].energy_j == pytest.approx(costs["a"].time_s * 10.98e-3)
    assert costs["b"] == analytic_costs(graph, BOARD).ops["b"]


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_a_cost_is_finite_and_not_negative(value: float):
    with pytest.raises(ProblemError, match="the cost of op 'a' must be finite and 0 or more"):
        CostTable("b", ops={"a": OpCost(0.0, value)})


TABLE = CostTable(
    "b",
    {"a": OpCost(1.0, 2.0, Source.MEASURED), "c": OpCost(3.0, 4.0, Source.FITTED)},
    page_in=Transfer(1e6, 1e-3, 1e-8, 1e-6, OverlapCosts(math.inf, 1e-4, 1e-5, 1e-7)),
    basis="qemu",
)
MEASURED = TABLE.to_json()
BESIDE = MEASURED["page_in"]["beside"]


def test_a_measured_table_survives_json_and_says_what_it_is():
    assert CostTable.from_json(json.loads(json.dumps(MEASURED, allow_nan=False))) == TABLE
    assert TABLE.summary == "1 measured, 1 fitted; paging measured (qemu)"


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"schema_version": SCHEMA_VERSION},
        {
            "schema_version": SCHEMA_VERSION,
            "board": "b",
            "basis": "",
            "page_in": None,
            "page_out": None,
            "ops": [],
        },
        MEASURED | {"page_in": {"latency_s": 0.0}},
        MEASURED | {"page_in": MEASURED["page_in"] | {"latency_s": -1.0}},
        MEASURED | {"page_in": MEASURED["page_in"] | {"beside": {"latency_s": 0.0}}},
        MEASURED | {"page_in": MEASURED["page_in"] | {"beside": dict.fromkeys(BESIDE, -1.0)}},
        MEASURED | {"ops": {"a": {"time_s": 1.0, "energy_j": 1.0, "source": "guessed"}}},
    ],
)
def test_malformed_json_is_refused(document: dict[str, object]):
    with pytest.raises(ProblemError, match="cost table"):
        CostTable.from_json(document)


@pytest.mark.parametrize("version", range(SCHEMA_VERSION))
def test_another_version_is_refused(version: int):
    document = CostTable("b", ops={}).to_json() | {"schema_version": version}
    with pytest.raises(ProblemError, match=f"schema version {version}; this poetfw reads"):
        CostTable.from_json(document)


def test_a_packed_layer_costs_its_slices_and_unpacking() -> None:
    """8 KB of floats at a time: 64 output channels of 128 weights in four slices of 16."""
    board = load_board("nrf52840")
    attributes = {"weight_shape": (64, 128), "format": "float16"}
    x, w = Tensor("x", (2, 128), role=Role.INPUT), Tensor("w", (64, 128), role=Role.INPUT)
    words = Tensor("w", (64, 64), Dtype.I32, Role.INPUT)
    y = Tensor("y", (2, 64))
    packed = Graph(
        "g", (x, words, y), (Op("a", "packed_linear", ("x", "w"), "y", attributes),), "y"
    )
    some = replace(words, shape=(16, 64))
    unpack = Op("b", "unpack_float16", ("w",), "f", {"shape": (16, 128)})
    unpacked = Graph("g", (some, Tensor("f", (16, 128))), (unpack,), "f")
    part, apart = Tensor("w", (16, 128), role=Role.INPUT), {"result_row": 64}
    layer = Graph(
        "g", (x, part, Tensor("y", (2, 16))), (Op("c", "linear", ("x", "w"), "y", apart),), "y"
    )
    whole = Graph("g", (x, w, y), (Op("d", "linear", ("x", "w"), "y"),), "y")
    costs = [
        analytic_costs(graph, board).ops[graph.ops[0].name].time_s
        for graph in (packed, unpacked, layer, whole)
    ]
    loop = board.compute.cycles["poet_packed_linear_forward_f32"]
    around_s = (loop["fixed"] + 4 * loop["loop.1"]) / board.clock_hz
    assert costs[0] == pytest.approx(4 * (costs[1] + costs[2]) + around_s)
    assert costs[0] > 4 * costs[1] + costs[3]


def test_a_step_costs_the_tiles_that_its_program_runs() -> None:
    """Those that are best for each pass by itself would take 1.3% less."""
    board, model = load_board("nrf52840"), build_model("lenet5", 4)
    program = make_program(model.graph, model.loss, model.optimizer)
    graph, tiles = program.training, program_tiles(program, board)
    costs = analytic_costs(graph, board).ops
    counted = {
        op.name: features_of(op, graph, tiles, Counter.CYCLES).cost(board.compute.cycles)
        for op in graph.ops
    }
    expected = sum(cycles for cycles in counted.values() if cycles is not None)
    found = sum(costs[name].time_s for name, cycles in counted.items() if cycles is not None)
    assert found * board.clock_hz == pytest.approx(expected, rel=1e-3)
