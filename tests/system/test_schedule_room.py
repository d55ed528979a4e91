# SPDX-License-Identifier: Apache-2.0
"""`poetfw schedule`, `compare` and `sweep` take kernels with workspace as `poetfw build` does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from poetfw.boards import load_board
from poetfw.costs import Database, case_of
from poetfw.ops import VARIANT, in_variants
from poetfw.planning import BuildSettings, derive_program, load_model
from system.commands import Result, needs_twin, poetfw, succeed
from unit.costs.test_measured_costs import by_macs, measured

BOARD = load_board("nrf52840")
MODEL = ("--board", "nrf52840", "--model", "net.onnx", "--batch", "4")
NET = (*MODEL, "--db", "costs.sqlite")
FUNCTION = "poet_conv2d_depthwise_by_1_backward_input_f32"
OP = "depthwise.backward_input"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One with net.onnx, whose second layer is a depthwise 3x3 by 2 with padding of 2, and data."""
    made = tmp_path_factory.mktemp("net")
    random = np.random.default_rng(0)
    weights = {"w1": (8, 1, 3, 3), "w2": (8, 1, 3, 3), "w3": (8, 8, 1, 1), "w4": (10, 648)}
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], "first", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"], "relu"),
        helper.make_node(
            *("Conv", ["b", "w2"], ["c"], "depthwise"),
            **{"pads": [2, 2, 2, 2], "strides": [2, 2], "group": 8},
        ),
        helper.make_node("Conv", ["c", "w3"], ["d"], "pointwise"),
        helper.make_node("Flatten", ["d"], ["e"], "flatten"),
        helper.make_node("Gemm", ["e", "w4"], ["y"], "logits", transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [4, 1, 16, 16])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [4, 10])],
        [
            numpy_helper.from_array(random.normal(0, 0.1, shape).astype(np.float32), name)
            for name, shape in weights.items()
        ],
    )
    opset = helper.make_opsetid("", 17)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=8), made / "net.onnx")
    x = random.normal(0, 1, (64, 1, 16, 16)).astype(np.float32)
    np.savez(made / "data.npz", x=x, y=random.integers(0, 10, 64))
    return made


@pytest.fixture(scope="module")
def measured_net(folder: Path) -> Path:
    """The same with costs.sqlite, where kernels with workspace take half, and without.sqlite."""
    settings = BuildSettings(board=BOARD.name, model=str(folder / "net.onnx"), batch=4)
    graph = derive_program(settings, load_model(settings)).training
    rows = {}
    for op in graph.ops:
        for way in in_variants(op, graph) if op.inputs else ():
            case = case_of(way, graph)
            share = {None: 1.0, "general": 2.0, "by_1": 0.5}[way.attributes.get(VARIANT)]
            rows[case] = measured(case, share * by_macs(case_of(op, graph)))
    Database(folder / "costs.sqlite").add([*rows.values()])
    lean = [row for case, row in rows.items() if case.attributes.get(VARIANT) != "by_1"]
    Database(folder / "without.sqlite").add(lean)
    return folder


def build(folder: Path, ram_bytes: int, *options: str) -> Any:
    command = ("build", *NET, "--data", "data.npz", "--generate-only", "--out", "built")
    return succeed(*command, "--ram", str(ram_bytes), *options, cwd=folder)


def with_workspace(folder: Path) -> dict[str, dict[str, str]]:
    """Ops of the build that run as no shape says."""
    steps = json.loads((folder / "built/plan.json").read_text())["training"]
    return {
        step["node"]: {key: step[key] for key in ("function", "chosen_by")}
        for step in steps
        if step["step"] == "compute" and "by_1" in step["function"]
    }


def test_a_schedule_says_what_a_build_takes(measured_net: Path) -> None:
    plenty = build(measured_net, 150_000)
    least = plenty["minimum_budget_bytes"]
    for ram_bytes in (least, least + 6000, plenty["peak_bytes"]):
        built = build(measured_net, ram_bytes)
        ram = ("--ram", str(ram_bytes))
        found = succeed("schedule", *NET, *ram, cwd=measured_net)
        for key in ("energy_j", "overhead", "status", "bound_j", "bound_covers", "gap"):
            assert found[key] == built["schedule"][key], (ram_bytes, key)
        assert found["kernels"] == with_workspace(measured_net)
        assert found["cost_sources"] == built["cost_sources"]
    assert found["kernels"][OP] == {"function": FUNCTION, "chosen_by": "measured"}
    lean = succeed("schedule", *MODEL, "--db", "without.sqlite", cwd=measured_net)
    assert lean["kernels"] == {}
    assert found["energy_j"] < lean["energy_j"]


def test_an_answer_is_replayed_by_its_kernels(measured_net: Path) -> None:
    found = succeed("schedule", *NET, cwd=measured_net)
    answer = measured_net / "answer.json"
    replay = ("schedule", *NET, "--replay", "answer.json")
    answer.write_text(json.dumps(found))
    again = succeed(*replay, cwd=measured_net)
    figures = ("energy_j", "time_s", "peak_bytes")
    assert [again[key] for key in figures] == [found[key] for key in figures]
    answer.write_text(json.dumps(found | {"kernels": {}}))
    lean = succeed("schedule", *MODEL, "--db", "without.sqlite", cwd=measured_net)
    assert succeed(*replay, cwd=measured_net)["energy_j"] == lean["energy_j"]
    other = {OP: {"function": "poet_conv2d_backward_input_f32", "chosen_by": "measured"}}
    answer.write_text(json.dumps(found | {"kernels": other}))
    assert succeed(*replay, cwd=measured_net)["energy_j"] == lean["energy_j"]
    answer.write_text(json.dumps(found | {"kernels": [FUNCTION]}))
    refused = poetfw(*replay, cwd=measured_net)
    assert refused.code == 1
    assert "answer.json: at kernels" in refused.stderr


def test_an_exported_problem_has_no_workspace_that_it_could_do_without(measured_net: Path) -> None:
    exported = poetfw("schedule", *NET, "--export", "problem.json", cwd=measured_net)
    assert exported.code == 0, exported.stderr
    nodes = json.loads((measured_net / "problem.json").read_text())["nodes"]
    assert not any(node["workspace_bytes"] for node in nodes)
    found = succeed("schedule", "--problem", "problem.json", cwd=measured_net)
    assert "kernels" not in found
    lean = succeed("schedule", *MODEL, "--db", "without.sqlite", cwd=measured_net)
    assert found["energy_j"] == lean["energy_j"]


def test_the_table_counts_who_chose(measured_net: Path) -> None:
    def kernels(result: Result) -> str:
        assert result.code == 0, result.stderr
        (line,) = (line for line in result.stdout.splitlines() if "have a choice" in line)
        return line.split("│")[2].strip()

    assert kernels(poetfw("schedule", *NET, "--verbose", cwd=measured_net)).endswith("as measured")
    command = ("build", *NET, "--data", "data.npz", "--generate-only", "--out", "built")
    built = poetfw(*command, "--ram", "150000", "--verbose", cwd=measured_net)
    assert kernels(built) == kernels(poetfw("schedule", *NET, "--verbose", cwd=measured_net))


def test_comparisons_take_them_too(measured_net: Path) -> None:
    only = ("--schedulers", "checkpoint-all,dtr,poet", "--fractions", "0.8,0.96,1")
    found = succeed("compare", *NET, *only, "--deadline-factor", "3", cwd=measured_net)
    everything = found["checkpoint_all"]
    best = succeed("schedule", *NET, cwd=measured_net)
    assert everything["energy_j"] == best["energy_j"]
    for cell in found["cells"]:
        if cell["energy_j"] is None:
            continue
        overhead = cell["energy_j"] / everything["energy_j"] - 1
        assert cell["overhead"] == pytest.approx(overhead)
        assert cell["overhead"] >= 0
        ram = ("--ram", str(cell["ram_bytes"]), "--scheduler", cell["scheduler"])
        alone = succeed("schedule", *NET, *ram, cwd=measured_net)
        assert cell["energy_j"] <= alone["energy_j"]
    whole = {cell["scheduler"]: cell for cell in found["cells"] if cell["ram_fraction"] == 1}
    assert {cell["overhead"] for cell in whole.values()} == {0}
    lean = succeed("schedule", *MODEL, "--db", "without.sqlite", cwd=measured_net)
    assert found["deadline_s"] == pytest.approx(3 * lean["time_s"])
    grid = ("--boards", "nrf52840", "--models", "net.onnx", "--batch", "4", "--db", "costs.sqlite")
    swept = succeed("sweep", *grid, *only, "--deadlines", "3", "--jobs", "1", cwd=measured_net)
    energies = {(c["scheduler"], c["ram_fraction"]): c["energy_j"] for c in found["cells"]}
    assert {(c["scheduler"], c["ram_fraction"]): c["energy_j"] for c in swept["cells"]} == energies


@pytest.mark.slow
@pytest.mark.emulator
@needs_twin
def test_what_an_emulator_measured(folder: Path) -> None:
    profiled = ("profile", *MODEL, "--emulator", "qemu", "--db", "qemu.sqlite")
    succeed(*profiled, cwd=folder)
    database = ("--db", "qemu.sqlite")
    built = succeed(
        *("build", *MODEL, *database, "--data", "data.npz", "--generate-only", "--out", "built"),
        *("--ram", "150000"),
        cwd=folder,
    )
    found = succeed("schedule", *MODEL, *database, cwd=folder)
    assert found["kernels"] == with_workspace(folder)
    assert found["kernels"][OP] == {"function": FUNCTION, "chosen_by": "measured"}
    assert found["energy_j"] == built["schedule"]["energy_j"]
    assert found["energy_j"] < succeed("schedule", *MODEL, cwd=folder)["energy_j"]
