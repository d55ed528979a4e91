# SPDX-License-Identifier: Apache-2.0
"""Which of its kernels an op runs by, where several leave the same bits."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from poetfw.boards import load_board
from poetfw.common.errors import CostsError
from poetfw.costs import (
    Case,
    Database,
    MeasuredCosts,
    Measurement,
    Source,
    analytic_costs,
    case_of,
    own_case_of,
    read_measurements,
    to_json,
)
from poetfw.costs.features import featured
from poetfw.firmware.case_version import case_version
from poetfw.ir import Dtype, Op
from poetfw.ops import VARIANT, in_variants, kind_of
from poetfw.pipeline import plan_build
from poetfw.planning import (
    ChosenBy,
    choose_kernels,
    derive_program,
    load_model,
    load_schedule_problem,
)
from poetfw.profiling import cases_of
from poetfw.training import Program
from unit.costs.test_measured_costs import BOARD, SETTINGS, measured

Took = Sequence[tuple[Op, float]]


@pytest.fixture(scope="module")
def program() -> Program:
    return derive_program(SETTINGS, load_model(SETTINGS))


def variants(program: Program, kind: str = "conv2d") -> list[tuple[Op, ...]]:
    graph = program.training
    return [in_variants(op, graph) for op in graph.ops if op.kind == kind]


def database(path: Path, program: Program, took: Took) -> Database:
    """One with rows of these ops, in seconds."""
    found = Database(path / "costs.sqlite")
    found.add([measured(case_of(op, program.training), s) for op, s in took])
    return found


def chosen(program: Program, store: Database) -> tuple[dict[str, str], Mapping[str, ChosenBy]]:
    """The function of each convolution of the training step, and what decided."""
    found = choose_kernels(program, BOARD, MeasuredCosts(store, case_version))
    graph = found.program.training
    functions = {
        op.name: kind_of(op).kernel(op, graph).function for op in graph.ops if op.kind == "conv2d"
    }
    return functions, found.by[graph.name]


def test_without_rows_shapes_decide(program: Program) -> None:
    found = choose_kernels(program, BOARD, analytic_costs)
    assert found.program == program
    several = [op.name for op in program.training.ops if len(in_variants(op, program.training)) > 1]
    assert several
    assert found.by[program.training.name] == dict.fromkeys(several, ChosenBy.SHAPE)


def test_what_was_measured_of_both_decides(program: Program, tmp_path: Path) -> None:
    (one, other_one), (two, other_two), (three, other_three) = variants(program)
    rows = [(one, 2e-3), (other_one, 1e-3), (two, 1e-3), (other_two, 2e-3), (three, 1e-3)]
    functions, by = chosen(program, database(tmp_path, program, rows))
    assert functions[one.name] == "poet_conv2d_forward_f32"
    assert functions[two.name] == functions[three.name] == "poet_conv2d_3x3_forward_f32"
    assert (by[one.name], by[two.name]) == (ChosenBy.MEASURED, ChosenBy.MEASURED)
    assert by[three.name] is ChosenBy.SHAPE, "the other was not measured"
    rows = [(one, 1e-3), (other_one, 0.991e-3), (two, 1e-3), (other_two, 0.989e-3)]
    (tmp_path / "near").mkdir()
    functions, by = chosen(program, database(tmp_path / "near", program, rows))
    assert functions[one.name] == "poet_conv2d_3x3_forward_f32", "another function for nothing"
    assert by[one.name] is ChosenBy.MEASURED, "both are known, and as good"
    assert functions[two.name] == "poet_conv2d_forward_f32"
    assert other_three.attributes[VARIANT] == "general"
    (tmp_path / "other").mkdir()
    functions, by = chosen(program, database(tmp_path / "other", program, [(other_one, 1e-9)]))
    assert functions[one.name] == "poet_conv2d_3x3_forward_f32", "nothing is known of it"
    assert by[one.name] is ChosenBy.SHAPE


def test_less_energy_that_takes_longer_is_not_taken(program: Program, tmp_path: Path) -> None:
    (one, other), *_ = variants(program)
    rows = [
        replace(measured(case_of(op, program.training), s), energy_j=joules, setup=setup)
        for op, s, joules in ((one, 1e-3, 1e-3), (other, 1.1e-3, 1e-4))
        for setup in [replace(measured(case_of(one, program.training), s).setup, meter="ppk2")]
    ]
    store = Database(tmp_path / "costs.sqlite")
    store.add(rows)
    functions, _ = chosen(program, store)
    assert functions[one.name] == "poet_conv2d_3x3_forward_f32"


def test_a_model_decides_beyond_its_error(program: Program, tmp_path: Path) -> None:
    """Rows of other shapes tell the two functions apart, by how much each product takes."""
    shapes, general = zip(*variants(program), strict=True)

    def rows(several: Sequence[Op], per_mac: float) -> list[Measurement]:
        found = []
        for way, channels in itertools.product(several, range(9, 21)):
            case = case_of(way, program.training)
            (x, dtype), (w, _), *bias = case.inputs
            sizes = ((x[0], channels, *x[2:]), dtype), ((w[0], channels, *w[2:]), dtype)
            case = replace(case, inputs=(*sizes, *bias))
            found.append(measured(case, per_mac * featured(case).features["macs"]))
        return found

    for faster, function, by in (
        (0.5, "poet_conv2d_forward_f32", ChosenBy.MODELLED),
        (0.8, "poet_conv2d_3x3_forward_f32", ChosenBy.SHAPE),
        (2.0, "poet_conv2d_3x3_forward_f32", ChosenBy.MODELLED),
    ):
        store = Database(tmp_path / f"{faster}.sqlite")
        store.add([*rows(shapes, 1e-8), *rows(general, faster * 1e-8)])
        functions, decided = chosen(program, store)
        names = [first.name for first, *_ in variants(program)]
        assert {functions[name] for name in names} == {function}
        assert {decided[name] for name in names} == {by}


def test_plans_pay_for_the_kernel_that_is_chosen(program: Program, tmp_path: Path) -> None:
    (one, other), *_ = variants(program)
    store = database(tmp_path, program, [(one, 2e-3), (other, 1e-3)])
    costs = MeasuredCosts(store, case_version)
    problem = load_schedule_problem(SETTINGS, costs=costs)
    (node,) = (node for node in problem.nodes if node.name == one.name)
    assert node.time_s == 1e-3
    settings = replace(SETTINGS, ram_bytes=100_000, scheduler="checkpoint-all")
    build = plan_build(settings, progress=lambda text: None, costs=costs)
    files = build.project.files
    plan = json.loads(files["plan.json"])
    for steps in (plan["training"], plan["evaluation"]):
        (step,) = (s for s in steps if s["node"] == one.name and s["step"] == "compute")
        assert step["function"] == "poet_conv2d_forward_f32"
        assert step["chosen_by"] == "measured"
    others = [s for s in plan["training"] if s["step"] == "compute" and s["node"] != one.name]
    assert {step["chosen_by"] for step in others} == {"shape"}
    assert json.loads(files["costs.json"])["ops"][one.name]["time_s"] == 1e-3
    assert b" poet_conv2d_forward_f32(" in files["lib/poetfw/generated/train_step.c"]
    assert build.kernels_by[one.name] is ChosenBy.MEASURED


def test_ops_with_numbers_of_their_own_keep_their_rows(program: Program, tmp_path: Path) -> None:
    """A network is the same by whichever kernels its ops run: so were its ops measured."""
    (one, other), (two, _), _ = variants(program)
    graph = program.training
    (first, second) = (op for op in graph.ops if op.name in ("relu1", "relu2"))
    store = Database(tmp_path / "costs.sqlite")
    took = [(one, 2e-3), (other, 1e-3), (two, 1e-3), (first, 3e-4), (second, 5e-4)]
    store.add([measured(own_case_of(op, graph), s) for op, s in took])
    costs = MeasuredCosts(store, case_version)
    found = choose_kernels(program, BOARD, costs).program.training
    assert found != graph
    ops = costs(found, BOARD).ops
    names = (one.name, two.name, first.name, second.name)
    assert [ops[name].time_s for name in names] == [1e-3, 1e-3, 3e-4, 5e-4]


def test_profiles_measure_every_kernel(program: Program) -> None:
    board = load_board("nrf52840")
    cases = set(cases_of(program.training, board))
    for every in variants(program):
        assert {case_of(op, program.training) for op in every} <= cases
    (one, other), *_ = variants(program)
    keys = [case_of(op, program.training).key for op in (one, other)]
    assert keys[0] != keys[1]
    assert "variant" not in case_of(one, program.training).to_json()
    alone = load_board("mkr1000")
    own = [case for case in cases_of(program.training, alone) if case.kind == "conv2d"]
    assert len({case.numbers for case in own}) == len(own) / 2, "each with numbers of its own"


def test_rows_say_their_kernel_and_only_one_that_there_is(program: Program, tmp_path: Path) -> None:
    _, other = variants(program)[0]
    row = measured(case_of(other, program.training), 1e-3)
    path = tmp_path / "rows.json"
    path.write_bytes(to_json([row]))
    assert read_measurements(path) == (row,)
    path.write_bytes(path.read_bytes().replace(b'"general"', b'"fastest"'))
    with pytest.raises(CostsError, match="no kernel 'fastest' runs such a 'conv2d'"):
        read_measurements(path)
    relu = Case("relu", (((1, 2, 3), row.case.inputs[0][1]),), attributes={VARIANT: "general"})
    path.write_bytes(to_json([replace(row, case=relu)]))
    with pytest.raises(CostsError, match="no kernel 'general' runs such a 'relu'"):
        read_measurements(path)


def test_rows_of_before_are_of_the_kernel_for_the_shape(program: Program, tmp_path: Path) -> None:
    one, other = variants(program)[0]
    costs = MeasuredCosts(database(tmp_path, program, [(one, 1e-3)]), case_version)
    graph = program.training
    assert costs(graph, BOARD).ops[one.name].source is Source.MEASURED
    others = replace(graph, ops=tuple(other if op.name == one.name else op for op in graph.ops))
    assert costs(others, BOARD).ops[one.name].source is Source.ANALYTIC


def test_planes_by_1_are_counted_as_such() -> None:
    """Strips are those of stride 1, to the plane of which every second one is taken."""
    window = {"padding": (2, 2, 1, 1), "groups": 4}
    x, w, y, whole = (2, 4, 16, 16), (4, 1, 3, 3), (2, 4, 9, 9), (2, 4, 17, 17)
    by_1 = {**window, "stride": (2, 2), VARIANT: "by_1"}
    f32 = Dtype.F32
    for kind, more, inputs, inputs_by_1 in (
        ("conv2d", {}, (x, w), (x, w)),
        ("conv2d_backward_input", {"input_shape": x}, (w, y), (w, whole)),
    ):
        case = Case(kind, tuple((shape, f32) for shape in inputs), attributes={**by_1, **more})
        alike = {**window, "stride": (1, 1), **more}
        other = Case(kind, tuple((shape, f32) for shape in inputs_by_1), attributes=alike)
        counted, expected = featured(case), featured(other)
        assert counted.family == "conv2d_depthwise_by_1"
        strips = {name: n for name, n in expected.features.items() if "strips" in name}
        assert "plane_strips.rows" in strips
        assert strips.items() <= counted.features.items()
        assert counted.features["moved"] == math.prod(y)
        assert counted.features.get("zeros", 0) == (17 * 17 if more else 0)
