# SPDX-License-Identifier: Apache-2.0
"""Which cases a network has, the sketches that hold them, and what a traced step says."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from poetfw.boards import Board, load_board
from poetfw.common.errors import DeviceError, PortLostError, ToolError
from poetfw.common.resources import profiler_sketches_dir
from poetfw.costs import (
    BESIDE,
    MOVES,
    TAKEN,
    TRANSFERS,
    Case,
    alone,
    analytic_costs,
    case_of,
    case_tiles,
    own_case_of,
)
from poetfw.firmware import assign_slots, sample_order
from poetfw.firmware.case_version import case_version
from poetfw.firmware.project import render_project
from poetfw.firmware.sketch import Operands, Sketch, arena_bytes_of, render_sketch
from poetfw.importers import load_data
from poetfw.ir import Attribute, Dtype
from poetfw.kernels import Stencil
from poetfw.ops import kind_of
from poetfw.ops.base import DIVISORS, PLAIN_LOOPS
from poetfw.planning import BuildSettings, derive_program, load_model, lower_plan, plan_unscheduled
from poetfw.profiling import cases_of, measuring
from poetfw.profiling import operands as operands_module
from poetfw.profiling.operands import operands_of
from poetfw.tools.link import piped
from poetfw.tools.slices import STEPS, run_slices
from poetfw.training import Program, Reference

BOARD = load_board("nrf52840")
SOFT = load_board("mkr1000")
ROOM = 200_000


@pytest.fixture(scope="module")
def program() -> Program:
    settings = BuildSettings("nrf52840", batch=32)
    return derive_program(settings, load_model(settings))


def rendered(sketch: Sketch) -> str:
    return sketch.project.files["lib/poetfw/generated/cases.c"].decode()


def test_every_op_is_a_case_and_every_size_a_transfer(program: Program) -> None:
    cases = cases_of(program.training, BOARD)
    assert len(set(cases)) == len(cases)
    assert {case_of(op, program.training) for op in program.training.ops} < {*cases}
    sizes = {case.size_bytes for case in cases if case.kind == "page_in"}
    assert sizes == {case.size_bytes for case in cases if case.kind == "page_out"}
    assert {496, 4096, 65536} <= sizes
    assert {case.kind for case in cases if case.size_bytes} == {*MOVES}
    assert not [
        case for case in cases_of(program.training, replace(BOARD, storage=None)) if case.size_bytes
    ]


def test_ops_whose_time_depends_on_their_numbers_have_cases_of_their_own(program: Program) -> None:
    """With an FPU, where a function goes several ways; without one, all that calculate."""
    settings = BuildSettings("nrf52840", model="transformer-tiny", batch=1)
    transformer = derive_program(settings, load_model(settings)).training
    kinds = [case.kind for case in cases_of(transformer, BOARD) if case.numbers]
    assert kinds == ["gelu", "gelu", "gelu_backward", "gelu_backward"]
    assert not [case for case in cases_of(program.training, BOARD) if case.numbers]
    graph = program.training
    soft = {case.numbers for case in cases_of(graph, SOFT)}
    for op in graph.ops:
        alike = op.kind in ("load_x", "load_y", "reshape")
        assert (own_case_of(op, graph).numbers in soft) is not alike
    assert len(soft) == len({*cases_of(graph, SOFT)} - {*cases_of(graph, BOARD)}) + 1


def test_cases_that_differ_by_their_numbers_share_their_code(program: Program) -> None:
    relu = Case("relu", (((1000,), Dtype.F32),))
    ones, twos = (replace(relu, numbers=digit * 16) for digit in "12")
    operands = {ones: (((1.0,),),), twos: (((2.0,),),)}
    code = rendered(render_sketch([ones, twos, relu], program, BOARD, ROOM, operands))
    assert re.findall(r"int (run_\d+)\(void\)", code) == ["run_0"]
    assert re.findall(r'\{"(\w{16})", (\w+),', code) == [
        *((case.key, "run_0") for case in (ones, twos, relu)),
        ("0" * 16, "run_nothing"),
    ]
    assert re.findall(r"POET_FILL_(\w+), (\d+)u, (\d+)u\}", code) == [
        ("LIKE", "0", "1"),
        ("LIKE", "1", "1"),
        ("SIGNED", "0", "0"),
        ("ZERO", "0", "0"),
    ]


def test_a_case_alone_has_the_kernel_that_it_has_in_the_network(program: Program) -> None:
    for op in program.training.ops:
        there = kind_of(op).kernel(op, program.training)
        one, graph = alone(case_of(op, program.training))
        here = kind_of(one).kernel(one, graph)
        assert replace(here, arguments=()) == replace(there, arguments=())
        assert [name is None for name in here.arguments] == [
            name is None for name in there.arguments
        ]


def test_a_sketch_is_the_same_every_time_and_names_itself(program: Program) -> None:
    cases = cases_of(program.training, BOARD)
    first, again = (render_sketch(cases, program, BOARD, ROOM) for _ in range(2))
    assert first == again
    assert first.sketch_id in rendered(first)
    keys = re.findall(r'^    \{"([0-9a-f]{16})", (?:run|move)_', rendered(first), re.MULTILINE)
    assert keys == [*(case.key for case in cases), "0" * 16]
    other = render_sketch(cases[1:], program, BOARD, ROOM)
    assert other.sketch_id != first.sketch_id
    assert not {"src/runtime/desk.c", "lib/poetfw/runtime/poetfw.c"} & {*first.project.files}
    assert "poet_page_wait(SLOT_65536)" in rendered(first)
    waiting = replace(BOARD, storage=replace(BOARD.storage, overlap=False))  # type: ignore[type-var]
    cases = cases_of(program.training, waiting)
    assert {case.kind for case in cases if case.size_bytes} == {*TRANSFERS}
    assert "poet_page_wait" not in rendered(render_sketch(cases, program, waiting, ROOM))


def test_what_a_transfer_takes_beside_a_kernel_is_a_difference(program: Program) -> None:
    """Two transfers and a short kernel without one; a transfer and a long one without it."""
    cases = [Case(kind, size_bytes=4096) for kind in (*BESIDE, *TAKEN)]
    code = re.sub(r"\s+", " ", rendered(render_sketch(cases, program, BOARD, ROOM)))
    begin, wait = (
        f"POET_TRY({call}); "
        for call in (
            "poet_page_{}_begin(SLOT_4096, poet_arena + 512u, 4096u)",
            "poet_page_wait(SLOT_4096)",
        )
    )
    for index, way in enumerate(("in", "out")):
        one = begin.format(way)
        assert f"int run_{index}(void) {{ {one}{one}poet_kernel(1u); {wait}return" in code
        assert f"int run_{index + 2}(void) {{ {one}poet_kernel(3u); {wait}return" in code
    assert "run_0, before_0, move_0," in code
    assert "run_2, before_2, kernel_2," in code
    wrote = begin.format("out") + wait
    prepare = "POET_TRY(poet_prepare_kernel(move_{})); return"
    assert f"int before_0(void) {{ {wrote}{prepare.format(0)}" in code
    assert f"int before_1(void) {{ {prepare.format(1)}" in code
    assert "poet_change" not in code
    on_flash = render_sketch(cases, program, load_board("nrf52840:qspi"), ROOM)
    flash = re.sub(r"\s+", " ", rendered(on_flash))
    changes = "poet_change(poet_arena + 512u, 4096u); "
    assert flash.count(changes) == flash.count(changes + begin.format("out")) > 2
    assert flash.count(begin.format("out")) == flash.count(changes)
    # What the second of two page-outs writes is changed while the first is under way.
    second = begin.format("out").replace("512u", "4608u")
    other = changes.replace("512u", "4608u")
    two = changes + begin.format("out") + other + second
    assert f"int run_1(void) {{ {two}poet_kernel(1u); {wait}return" in flash
    assert flash.count("{4608u, 1024u, POET_FILL_SIGNED") == 1
    plan = on_flash.project.files["lib/poetfw/generated/plan.h"].decode()
    assert re.search(r"POET_ARENA_BYTES +8704u", plan)
    small = rendered(render_sketch(cases, program, load_board("nrf52840:qspi"), 8703))
    assert "4608u" not in small


def test_operands_lie_apart_where_they_can(program: Program) -> None:
    case = Case("relu", (((1000,), Dtype.F32),))
    assert arena_bytes_of(case, ROOM) == 512 + 2 * 4000
    assert arena_bytes_of(case, 512 + 7999) == 512 + 4000
    assert arena_bytes_of(Case("add", (((1000,), Dtype.F32),) * 2), 8600) == 512 + 8000
    apart = rendered(render_sketch([case], program, BOARD, ROOM))
    assert "poet_arena + 512u), (float *)(void *)(poet_arena + 4512u)" in re.sub(r"\s+", " ", apart)
    shared = rendered(render_sketch([case], program, BOARD, 8000))
    assert "poet_arena + 4512u" not in shared


def test_what_may_not_be_negative_is_not() -> None:
    """Variances, and what an optimizer keeps; labels are zeros."""
    pair, image = ((2, 4), Dtype.F32), ((1, 4, 2, 2), Dtype.F32)
    settings = BuildSettings("nrf52840", model="mlp", batch=1)
    program = derive_program(settings, load_model(settings))
    normalize = Case("batch_norm_normalize", (image, pair, pair), attributes={"eps": 1e-5})
    sketch = render_sketch([normalize], program, BOARD, ROOM)
    kinds = re.findall(r"POET_FILL_(\w+), 0u, 0u\}", rendered(sketch))
    assert kinds == ["SIGNED", "POSITIVE", "SIGNED", "ZERO"]
    loss = Case(
        "softmax_cross_entropy", (((2, 3), Dtype.F32), ((2,), Dtype.I32)), (((1,), Dtype.F32),)
    )
    assert re.findall(
        r"POET_FILL_(\w+), 0u, 0u\}", rendered(render_sketch([loss], program, BOARD, ROOM))
    )[:2] == ["SIGNED", "ZERO"]


def test_what_an_update_divides_by_is_above_zero_and_what_counts_begins_at_zero() -> None:
    """With a pace below 0, Adam takes the root of a negative number: that is timed as a NaN."""
    settings = BuildSettings("nrf52840", model="mlp", batch=1, optimizer="adam")
    program = derive_program(settings, load_model(settings))
    cases = {
        case_of(op, program.training).kind: case_of(op, program.training)
        for op in program.training.ops
    }
    x, step = ((2, 8), Dtype.F32), ((1,), Dtype.F32)
    cases["dropout_training"] = Case(
        "dropout_training", (x, step), attributes={"share": 0.5, "seed": 1, "run": 1}
    )
    cases["count_step"] = Case("count_step", (), (step,))
    for kind, kinds in (
        ("adam", ["SIGNED", *["POSITIVE"] * 4]),
        ("linear_backward_weight_adam", ["SIGNED", "SIGNED", *["POSITIVE"] * 4]),
        ("pace", ["ZERO"]),
        ("dropout_training", ["SIGNED", "POSITIVE"]),
        ("count_step", ["ZERO"]),
    ):
        sketch = rendered(render_sketch([cases[kind]], program, BOARD, ROOM))
        assert re.findall(r"POET_FILL_(\w+), 0u, 0u\}", sketch) == [*kinds, "ZERO"], kind


def operands_on(
    program: Program, settings: BuildSettings, board: Board = SOFT
) -> tuple[Operands, list[tuple[int, int, str]]]:
    said: list[tuple[int, int, str]] = []
    cases = cases_of(program.training, board)
    model = load_model(settings)
    return operands_of(program, model, settings, cases, lambda *one: said.append(one)), said


def test_operands_are_the_networks_own(program: Program) -> None:
    """Its weights, part by part those of each step; of more numbers, each in its stretch."""
    settings = BuildSettings("mkr1000", batch=32)
    model = load_model(settings)
    operands, said = operands_on(program, settings)
    assert [one[:2] for one in said] == [(step, 9) for step in range(10)]
    assert len({text for *_, text in said}) == 1
    data = load_data("digits", model)
    reference = Reference(program, model.weights, np.float32)
    pixels, weights, momentum, biases = [], [], [], []
    for step in range(9):
        places = sample_order(len(data.x_train), 32, settings.seed, step)
        pixels.append(data.x_train[places].reshape(32, 8, 8))
        weights.append(reference.persistent["conv1.weight"].reshape(8, 9).copy())
        momentum.append(reference.persistent["conv1.weight.momentum"].reshape(8, 9).copy())
        names = ("logits.bias", "logits.bias.momentum")
        biases.append(np.stack([reference.persistent[name].copy() for name in names]))
        reference.step(data.x_train[places], data.y_train[places])
    by_name = {op.name: own_case_of(op, program.training) for op in program.training.ops}
    ((x, weight),) = operands[by_name["conv1"]]
    (updated,) = operands[by_name["conv1.weight.update"]]
    for column in range(9):
        step = 1 + 8 * column // 9
        for kept, found in ((weights, weight), (weights, updated[2]), (momentum, updated[3])):
            assert np.array_equal(np.reshape(found, (8, 9))[:, column], kept[step][:, column])
    assert updated[2] == weight
    # Ten biases have as many sets as steps, each with another step's of each.
    found = [(bias, moved) for *_, bias, moved in operands[by_name["logits.bias.update"]]]
    for column in range(10):
        of = [(8 * column // 10 + first) % 8 for first in range(8)]
        for (bias, moved), step in zip(found, of, strict=True):
            assert (bias[column], moved[column]) == (
                biases[1 + step][0, column],
                biases[1 + step][1, column],
            )
    for sample, columns in enumerate(np.reshape(x, (32, 8))):
        for column, found in enumerate(columns):
            assert found in pixels[1 + column][sample, column]
    assert np.mean(np.equal(x, 0)) == pytest.approx(np.mean(np.equal(pixels[1:], 0)), abs=0.05)
    # Of a case that occurs twice, each op has its own.
    graph = program.training
    one, other = (
        op for op in graph.ops if case_of(op, graph) == by_name["bn1.statistics"].of_any_numbers
    )
    ((first,),), ((second,),) = operands[by_name[one.name]], operands[by_name[other.name]]
    assert len(first) == len(second) == 256
    assert not {*first} & {*second}


def test_a_sketch_holds_the_numbers_of_a_network_once(program: Program) -> None:
    settings = BuildSettings("mkr1000", batch=32)
    operands, _ = operands_on(program, settings)
    cases = [case for case in cases_of(program.training, SOFT) if not case.size_bytes]
    code = rendered(render_sketch(cases, program, BOARD, ROOM, operands))
    fills = re.findall(r"POET_FILL_(\w+), (\d+)u, (\d+)u\}", code)
    values = re.search(r"poet_values\[\] = \{(.*?)\};", code, re.DOTALL)
    assert values is not None
    numbers = [float.fromhex(text.rstrip("f")) for text in values[1].replace("\n", "").split(", ")]
    sets = dict(re.findall(r'\{"(\w{16})", .*, (\d+)u\}', code))
    assert {int(sets[case.key]) for case in cases} >= {0, 1, 8}
    each = [max(1, int(sets[case.key])) for case in cases for _ in (*case.inputs, *case.updates)]
    used = {
        (int(first), int(count) * often)
        for (kind, first, count), often in zip(fills, [*each, 0], strict=True)
        if kind == "LIKE"
    }
    assert sum(count for _, count in used) == len(numbers)
    wanted = {sum(one, ()) for case in cases for one in zip(*operands.get(case, ()), strict=True)}
    tables = {tuple(numbers[first : first + count]) for first, count in used}
    assert len(tables) == len(used) > 5
    assert tables < wanted  # labels and counters are no floats, and hold zeros
    copies = [case for case in cases if case.kind == "reshape"]  # of any numbers
    assert not any(case.numbers for case in copies)
    assert [kind for kind, *_ in fills].count("SIGNED") == len(copies) > 0
    assert {kind for kind, *_ in fills} == {"LIKE", "ZERO", "SIGNED"}
    assert "FILL_LIKE" not in rendered(render_sketch(cases, program, BOARD, ROOM))


def test_a_network_of_other_data_has_random_inputs(program: Program, tmp_path: Path) -> None:
    settings = BuildSettings("mkr1000", batch=32, data=str(tmp_path / "none.npz"))
    operands, _ = operands_on(program, settings)
    by_name = {op.name: own_case_of(op, program.training) for op in program.training.ops}
    ((x, _),) = operands[by_name["conv1"]]
    assert 0.8 < np.std(x) < 1.2
    assert 0 not in x
    ((active, _),) = operands[by_name["conv2"]]
    assert np.mean(np.equal(active, 0)) > 0.2


def test_a_part_of_a_parameter_is_an_operand(tmp_path: Path) -> None:
    """A GRU's gates have a weight in common; a matrix product takes some of its rows."""
    settings = BuildSettings("mkr1000", model="gru", batch=1)
    program = derive_program(settings, load_model(settings))
    op = next(op for op in program.training.ops if "rnn.0.row" in op.inputs)
    part = program.training.by_name["rnn.0.row"]
    assert part.base is not None
    operands, _ = operands_on(program, settings)
    found = operands[own_case_of(op, program.training)]
    assert {len(one[op.inputs.index("rnn.0.row")]) for one in found} == {min(part.elements, 256)}


def test_elements_that_are_looked_at_one_by_one_are_in_every_range_as_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A share below any bound is that of all elements of the steps that a trace times."""
    settings = BuildSettings("nrf52840", model="transformer-tiny", batch=8)
    model = load_model(settings)
    program = derive_program(settings, model)
    operands, said = operands_on(program, settings, BOARD)
    assert len(said) == 10
    data = load_data("digits", model)
    reference = Reference(program, model.weights, np.float32)
    op = next(op for op in program.training.ops if op.name == "layer1.gelu")
    all_of_it = []
    for step in range(9):
        places = sample_order(len(data.x_train), 8, settings.seed, step)
        values = reference.values(data.x_train[places], data.y_train[places])
        all_of_it += [values[op.inputs[0]].ravel()] if step else []
    ((numbers,),) = operands[own_case_of(op, program.training)]
    assert len(numbers) == 256
    assert list(numbers) != sorted(numbers)
    for bound in (-1.0, -0.625, 0.0, 0.3, 0.625, 1.0):
        share = np.mean(np.less(np.concatenate(all_of_it), bound))
        assert np.mean(np.less(numbers, bound)) == pytest.approx(share, abs=1.5 / 256)
    ((few,),) = operands_module._joined([[np.arange(3.0) + step] for step in range(8)])
    assert sorted(few) == [2.0, 5.0, 7.0]
    # Of two operands, an element of each is of the same place.
    x = np.random.default_rng(0).standard_normal((3, 40_000)).astype(np.float32)
    monkeypatch.setattr(operands_module, "_LOOKED_AT", 1000)
    steps = [operands_module._in_order([part, 2 * part, np.ones(1)]) for part in x]
    ((first, second, one),) = operands_module._joined(steps)
    assert np.array_equal(second, 2 * first)
    assert {*first} < {*x.ravel()}
    assert (first.size, one.size) == (256, 1)
    assert np.mean(np.less(first, 1)) == pytest.approx(np.mean(np.less(x, 1)), abs=0.02)


def test_small_operands_have_each_number_of_each_step() -> None:
    """Ten numbers of eight steps: eight sets, in which each of the eighty is once."""
    steps = [[np.arange(10.0) + 10 * i, np.full(1, float(i))] for i in range(8)]
    steps = [operands_module._some_of_each(operands) for operands in steps]
    sets = operands_module._parted(steps)
    assert len(sets) == 8
    assert sorted(np.concatenate([first for first, _ in sets])) == [*range(80)]
    assert sorted(float(second[0]) for _, second in sets) == [*range(8)]
    for size, count in ((32, 8), (33, 7), (128, 2), (129, 1), (256, 1), (1000, 1)):
        some = [operands_module._some_of_each([np.zeros(size), np.zeros(3)])] * 8
        assert len(operands_module._parted(some)) == count
    assert len(operands_module._parted(steps[:1])) == 1


def test_operands_are_fed_where_a_run_would_change_them(program: Program) -> None:
    """An update's, several sets, and where the output lies over an input."""

    def sets(case: Case, operands: int, count: int, room: int = ROOM) -> int:
        told = {case: [[(1.0,)] * operands] * count}
        return render_sketch([case], program, BOARD, room, told).sets[0]

    big = ((1000,), Dtype.F32)
    relu, update = (
        Case("relu", (big,), numbers="1" * 16),
        Case(
            "sgd",
            (big,),
            (big,),
            {"learning_rate": 0.1, "momentum": 0.0, "weight_decay": 0.0},
            numbers="1" * 16,
        ),
    )
    assert sets(relu, 1, 1) == 0
    assert sets(relu, 1, 3) == 3
    assert sets(relu, 1, 1, room=512 + 4000) == 1
    assert sets(update, 2, 1) == 1
    assert render_sketch([relu, update], program, BOARD, ROOM).sets == (0, 0)


def test_no_step_is_run_where_no_op_has_numbers(program: Program) -> None:
    assert operands_on(program, BuildSettings("nrf52840", batch=32), BOARD) == ({}, [])


def test_what_is_no_number_stands_for_one() -> None:
    """A training that diverges has times, too."""
    found = operands_module._some(np.array([[np.nan, 2.0], [-np.inf, 0.0]], np.float32))
    assert np.array_equal(found, [[1.0, 2.0], [-1.0, 0.0]])


@pytest.mark.parametrize("model", ["digits-cnn", "mlp", "ds-cnn", "gru", "transformer-tiny"])
@pytest.mark.parametrize("batch", [1, 6])
def test_kernels_are_told_of_the_network_what_its_project_tells_them(
    model: str, batch: int
) -> None:
    """A case of a sketch is compiled as in training, whatever else is in the sketch."""
    settings = BuildSettings("linux", model=model, batch=batch)
    board = load_board("linux")
    program = derive_program(settings, load_model(settings))
    plan = plan_unscheduled(program, board, analytic_costs)
    slots = assign_slots(program, plan.training.plan)
    project = render_project(lower_plan(program, board, plan, slots).view, board)
    cases = cases_of(program.training, board)
    sketches = [render_sketch(part, program, board, ROOM) for part in (cases[:2], cases[-3:])]
    there, *here = (
        re.findall(r"#define .*", found.files["lib/poetfw/kernels/shapes.h"].decode())
        for found in (project, *(sketch.project for sketch in sketches))
    )
    assert here == [there, there]
    assert len(there) == 1 + len(DIVISORS) + len(PLAIN_LOOPS)


def test_a_version_is_that_of_the_sources() -> None:
    relu = Case("relu", (((8,), Dtype.F32),))
    assert case_version(relu) == case_version(Case("relu", (((9,), Dtype.F32),)))
    assert case_version(relu) != case_version(Case("page_in", size_bytes=8))
    assert case_version(Case("page_in", size_bytes=8)) == case_version(
        Case("page_out", size_bytes=9)
    )
    own = replace(relu, numbers="1" * 16)
    assert case_version(own) == case_version(replace(own, numbers="2" * 16))
    assert case_version(own) != case_version(relu)  # how it gets its numbers counts, too
    assert case_version(own, soft_float=True) not in (
        case_version(own),
        case_version(relu, soft_float=True),
    )


def test_a_version_covers_generated_tiles_where_a_board_runs_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    operands = (((1, 2, 6, 6), Dtype.F32), ((3, 2, 3, 3), Dtype.F32))
    window: dict[str, Attribute] = {"stride": (1, 1), "padding": (1,) * 4, "groups": 1}
    convolution = Case("conv2d", operands, attributes=window)
    boards = ("nrf52840", "linux")

    def versions() -> list[str]:
        return [case_version(convolution, tiles=case_tiles(load_board(name))) for name in boards]

    before, text = versions(), Stencil.text
    monkeypatch.setattr(Stencil, "text", lambda block: text(block) + "   nop\n")
    after = versions()
    assert before[0] != after[0]
    assert before[1] == after[1]


def test_cases_that_do_not_fit_the_flash_together_are_halved(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The linker says that code is too large; what is too large by itself is said to be."""
    cases = cases_of(program.training, BOARD)[:7]
    large, tried = cases[5], []

    def build(folder: Path, environments: list[str]) -> dict[str, Path]:
        keys = re.findall(r'^    \{"(\w+)", run_', (folder / "c").read_text(), re.MULTILINE)[:-1]
        tried.append(len(keys))
        if len(keys) > 3 or large.key in keys:
            raise ToolError("ld failed", said=["region `FLASH' overflowed by 7 bytes"])
        return {environments[0]: folder}

    def write(project: Any, folder: Path) -> None:
        (folder / "c").write_bytes(project.files["lib/poetfw/generated/cases.c"])

    monkeypatch.setattr(measuring, "build_environments", build)
    monkeypatch.setattr(measuring, "write_project", write)
    built = list(measuring._built(cases, program, BOARD, ROOM, tmp_path, "e"))
    assert [case for sketch, _ in built for case in sketch.cases] == list(cases)
    assert [sketch.cases for sketch, elf in built if elf is None] == [(large,)]
    assert tried == [7, 3, 4, 2, 2, 1, 1]

    monkeypatch.setattr(
        measuring, "build_environments", lambda *_: (_ for _ in ()).throw(ToolError("gcc failed"))
    )
    with pytest.raises(ToolError, match="gcc failed"):
        list(measuring._built(cases, program, BOARD, ROOM, tmp_path, "e"))


# A traced step --------------------------------------------------------------------------------


def slices_of(folder: Path, *lines: str, count: int = 2) -> Any:
    text = "".join(f"{line}\n" for line in lines)
    return run_slices([sys.executable, "-c", f"print({text!r}, end='')"], folder, 30.0, count)


def slices_of_steps(*of_a_step: str) -> list[str]:
    """Lines of an empty slice of 2 ticks and of the slices of all steps."""
    said = ["ticks=2", *of_a_step * STEPS]
    return [f"@slice {number} {each}" for number, each in enumerate(said)]


def test_slices_are_averaged_over_steps(tmp_path: Path) -> None:
    said = ["ticks=2", *(f"ticks={10 * i} statement={1 + i % 2}" for i in range(2 * STEPS))]
    each = [f"@slice {number} {text}" for number, text in enumerate(said)]
    found = slices_of(tmp_path, "@boot plan=0", *each, "@done ticks=9000 tick_unit=cycles")
    assert (found.tick_unit, found.whole) == ("cycles", 9000)
    assert found.ticks == {1: 10.0 * (STEPS - 1) - 2, 2: 10.0 * STEPS - 2}


def test_a_wait_is_of_the_transfer_that_it_waits_for(tmp_path: Path) -> None:
    step = (
        *("ticks=12 statement=1 slot=7", "ticks=22 statement=2 slot=8", "ticks=7 statement=3"),
        *("ticks=102 statement=0 slot=7", "ticks=9 statement=5"),
    )
    done = "@done ticks=9 tick_unit=ns"
    found = slices_of(tmp_path, *slices_of_steps(*step), done, count=5)
    assert found.ticks == {1: 10 + 100, 2: 20, 3: 5, 5: 7}


MARKED = """
#include <stdio.h>
#include "statement.h"
struct poet_timed poet_timed;
static void begin(const char *what)
{
    printf("%s %u %d\\n", what, poet_timed.statement, (int)poet_timed.slot);
}
int (poet_page_in_begin)(uint32_t slot, void *to, uint32_t bytes)
{
    begin("in");
    return (int)(slot + bytes) * !to;
}
int (poet_page_out_begin)(uint32_t slot, void *of, uint32_t bytes)
{
    begin("out");
    return (int)(slot + bytes) * !of;
}
int poet_timed_wait(uint32_t slot)
{
    return printf("wait %u\\n", slot) < 0;
}
int main(void)
{
    POET_STATEMENT(1u);
    begin("op");
    POET_STATEMENT(2u);
    int bad = poet_page_out_begin(7u, &bad, 4u);
    POET_STATEMENT(3u);
    bad |= poet_page_in_begin(8u, &bad, 4u);
    bad |= poet_page_wait(7u);
    POET_STATEMENT(4u);
    begin("op");
    return bad;
}
"""


def test_a_timed_step_says_what_it_times(tmp_path: Path) -> None:
    """The statement, and the slot of a transfer that it begins or waits for."""
    (tmp_path / "marked.c").write_text(MARKED)
    flags = ("-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{profiler_sketches_dir() / 'steps'}")
    subprocess.run(["gcc", *flags, "marked.c", "-o", "marked"], cwd=tmp_path, check=True)
    said = subprocess.run([tmp_path / "marked"], capture_output=True, text=True, check=True).stdout
    assert said.split("\n") == ["op 1 -1", "out 2 7", "in 3 8", "wait 7", "op 4 -1", ""]


@pytest.mark.parametrize(
    "lines",
    [
        ("@slice 1 ticks=5",),
        ("@slice 0 ticks=-5",),
        ("@slice 0 ticks=5", "@slice 0 ticks=5"),
        ("@slice 0 ticks=5", "@done ticks=9 tick_unit=ns"),
        ("@slice 0 ticks=5", "@slice 1 ticks=9 statement=1", "@done ticks=9 tick_unit=ns"),
        ("@slice 0 ticks=5", "@slice 1 ticks=9"),
        ("@slice 0 ticks=5", "@slice 1 ticks=9 statement=1 slot=x"),
        ("@error status=-3",),
        ("@fault pc=0",),
        (*slices_of_steps(*["ticks=1 statement=1"] * 5), "@done ticks=9 tick_unit=ns"),
        (),
    ],
)
def test_slices_that_make_no_sense_are_refused(tmp_path: Path, lines: tuple[str, ...]) -> None:
    with pytest.raises(DeviceError):
        slices_of(tmp_path, *lines)


# A program at the end of a pipe ---------------------------------------------------------------


def test_a_program_is_spoken_to_until_it_ends(tmp_path: Path) -> None:
    program = "print(input()[::-1], flush=True); print('out of work')"
    with piped([sys.executable, "-c", program], tmp_path) as line:
        assert line.read(0.01) == b""
        line.write(b"abc\n")
        assert line.read(30.0) == b"cba\n"
        assert line.read(30.0) == b"out of work\n"
        with pytest.raises(PortLostError, match="out of work"):
            line.read(30.0)
