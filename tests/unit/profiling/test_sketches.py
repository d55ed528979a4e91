# SPDX-License-Identifier: Apache-2.0
"""Which cases a network has, the sketches that hold them, and what a traced step says."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from poetfw.boards import load_board
from poetfw.costs import BESIDE, MOVES, TAKEN, TRANSFERS, Case, alone, analytic_costs, case_of
from poetfw.devices.link import piped
from poetfw.devices.slices import STEPS, run_slices
from poetfw.errors import DeviceError, PortLostError, ToolError
from poetfw.firmware import assign_slots, sample_order
from poetfw.firmware.case_version import case_version
from poetfw.firmware.project import render_project
from poetfw.firmware.sketch import Sketch, arena_bytes_of, render_sketch
from poetfw.firmware.step_ticks import _with_hooks
from poetfw.importers import load_data
from poetfw.ir import Dtype
from poetfw.ops import kind_of
from poetfw.ops.base import DIVISORS
from poetfw.planning import (
    BuildSettings,
    derive_program,
    load_model,
    lower_plan,
    plan_unscheduled,
)
from poetfw.profiling import cases_of, measuring
from poetfw.profiling import operands as operands_module
from poetfw.profiling.operands import operands_of
from poetfw.training import Program, Reference

BOARD = load_board("nrf52840")
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
    flash = re.sub(
        r"\s+", " ", rendered(render_sketch(cases, program, load_board("nrf52840:qspi"), ROOM))
    )
    changes = "poet_change(poet_arena + 512u, 4096u); "
    assert flash.count(changes) == flash.count(changes + begin.format("out")) > 2
    assert flash.count(begin.format("out")) == flash.count(changes)


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


def test_operands_are_the_networks_own(program: Program) -> None:
    """Its weights, part by part those of each step; of more numbers, each in its stretch."""
    settings = BuildSettings("mkr1000", batch=32)
    model = load_model(settings)
    operands = operands_of(program, model, settings)
    data = load_data("digits", model)
    reference = Reference(program, model.weights, np.float32)
    pixels, weights, momentum = [], [], []
    for step in range(9):
        places = sample_order(len(data.x_train), 32, settings.seed, step)
        pixels.append(data.x_train[places].reshape(32, 8, 8))
        weights.append(reference.persistent["conv1.weight"].reshape(8, 9).copy())
        momentum.append(reference.persistent["conv1.weight.momentum"].reshape(8, 9).copy())
        reference.step(data.x_train[places], data.y_train[places])
    by_name = {op.name: case_of(op, program.training) for op in program.training.ops}
    x, weight = operands[by_name["conv1"]]
    updated = operands[by_name["conv1.weight.update"]][2:]
    for column in range(9):
        step = 1 + 8 * column // 9
        for kept, found in ((weights, weight), (weights, updated[0]), (momentum, updated[1])):
            assert np.array_equal(np.reshape(found, (8, 9))[:, column], kept[step][:, column])
    assert updated[0] == weight
    for sample, columns in enumerate(np.reshape(x, (32, 8))):
        for column, found in enumerate(columns):
            assert found in pixels[1 + column][sample, column]
    assert np.mean(np.equal(x, 0)) == pytest.approx(np.mean(np.equal(pixels[1:], 0)), abs=0.05)
    # A case that occurs twice begins with the first op, and ends with the second.
    twice = [op for op in program.training.ops if by_name[op.name] == by_name["bn1.statistics"]]
    assert len(twice) == 2
    (both,) = operands[by_name["bn1.statistics"]]
    assert len(both) == 256
    assert len({*np.reshape(both, (32, 8))[:, 0]} & {*np.reshape(x, (32, 8))[:, 0]}) <= 1


def test_a_sketch_holds_the_numbers_of_a_network_once(program: Program) -> None:
    settings = BuildSettings("mkr1000", batch=32)
    operands = operands_of(program, load_model(settings), settings)
    cases = [case for case in cases_of(program.training, BOARD) if not case.size_bytes]
    code = rendered(render_sketch(cases, program, BOARD, ROOM, operands))
    fills = re.findall(r"POET_FILL_(\w+), (\d+)u, (\d+)u\}", code)
    values = re.search(r"poet_values\[\] = \{(.*?)\};", code, re.DOTALL)
    assert values is not None
    numbers = [float.fromhex(text.rstrip("f")) for text in values[1].replace("\n", "").split(", ")]
    used = {(int(first), int(count)) for kind, first, count in fills if kind == "LIKE"}
    assert sum(count for _, count in used) == len(numbers)
    wanted = {one for case in cases for one in operands.get(case, ())}
    tables = {tuple(numbers[first : first + count]) for first, count in used}
    assert len(tables) == len(used) > 5
    assert tables < wanted  # labels and counters are no floats, and hold zeros
    assert {kind for kind, *_ in fills} == {"LIKE", "ZERO"}
    assert "FILL_LIKE" not in rendered(render_sketch(cases, program, BOARD, ROOM))


def test_a_network_of_other_data_has_random_inputs(program: Program, tmp_path: Path) -> None:
    settings = BuildSettings("mkr1000", batch=32, data=str(tmp_path / "none.npz"))
    operands = operands_of(program, load_model(settings), settings)
    by_name = {op.name: case_of(op, program.training) for op in program.training.ops}
    x, _ = operands[by_name["conv1"]]
    assert 0.8 < np.std(x) < 1.2
    assert 0 not in x
    active, _ = operands[by_name["conv2"]]
    assert np.mean(np.equal(active, 0)) > 0.2


def test_a_part_of_a_parameter_is_an_operand(tmp_path: Path) -> None:
    """A GRU's gates have a weight in common; a matrix product takes some of its rows."""
    settings = BuildSettings("mkr1000", model="gru", batch=1)
    model = load_model(settings)
    program = derive_program(settings, model)
    op = next(op for op in program.training.ops if "rnn.0.row" in op.inputs)
    part = program.training.by_name["rnn.0.row"]
    assert part.base is not None
    found = operands_of(program, model, settings)[case_of(op, program.training)]
    assert len(found[op.inputs.index("rnn.0.row")]) == min(part.elements, 256)


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
    assert len(there) == 1 + len(DIVISORS)


def test_a_version_is_that_of_the_sources() -> None:
    relu = Case("relu", (((8,), Dtype.F32),))
    assert case_version(relu) == case_version(Case("relu", (((9,), Dtype.F32),)))
    assert case_version(relu) != case_version(Case("page_in", size_bytes=8))
    assert case_version(Case("page_in", size_bytes=8)) == case_version(
        Case("page_out", size_bytes=9)
    )


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


def test_a_wait_is_of_the_transfer_that_it_waits_for() -> None:
    source = """
    /*   1  a */
    f(x);
    poet_between_ops();
    /*   2  page out a */
    POET_TRY(poet_page_out_begin(SLOT_A,
                                 A, 4u));
    poet_between_ops();
    /*   3  a view: nothing moves */
    POET_TRY(poet_page_wait(SLOT_A));
    /*   4  b */
    g(y);
    poet_between_ops();
"""
    hooked, numbers = _with_hooks(source)
    assert numbers == [1, 2, 2, 4]
    assert hooked.count("poet_between_ops();") == 4
    assert "SLOT_A));\n    poet_between_ops();\n" in hooked


def slices_of(folder: Path, *lines: str) -> Any:
    text = "".join(f"{line}\n" for line in lines)
    return run_slices([sys.executable, "-c", f"print({text!r}, end='')"], folder, 30.0, 2)


def test_slices_are_averaged_over_steps(tmp_path: Path) -> None:
    each = [f"@slice {i} ticks={100 * i}" for i in range(1 + 2 * STEPS)]
    found = slices_of(tmp_path, "@boot plan=0", *each, "@done ticks=9000 tick_unit=cycles")
    assert (found.tick_unit, found.whole, found.nothing) == ("cycles", 9000, 0)
    assert found.ticks == (100.0 * STEPS, 100.0 * (STEPS + 1))


@pytest.mark.parametrize(
    "lines",
    [
        ("@slice 1 ticks=5",),
        ("@slice 0 ticks=-5",),
        ("@slice 0 ticks=5", "@slice 0 ticks=5"),
        ("@slice 0 ticks=5", "@done ticks=9 tick_unit=ns"),
        ("@error status=-3",),
        ("@fault pc=0",),
        tuple(f"@slice {i} ticks=1" for i in range(3 + 2 * STEPS)),
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
