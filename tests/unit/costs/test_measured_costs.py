# SPDX-License-Identifier: Apache-2.0
"""Plans rest on what was measured, where something was."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from poetfw.boards import Arithmetic, load_board
from poetfw.boards.environments import read_environments
from poetfw.cli.main import cli
from poetfw.common.errors import CostsError
from poetfw.common.limits import Work
from poetfw.common.resources import firmware_templates_dir, platformio_ini
from poetfw.costs import (
    Case,
    ComparedOp,
    CostTable,
    Counter,
    Database,
    MeasuredCosts,
    Measurement,
    OpCost,
    Setup,
    Source,
    alone,
    analytic_costs,
    case_of,
    compare_costs,
    own_case_of,
    usable,
)
from poetfw.costs.features import case_tiles, featured
from poetfw.firmware.case_version import case_version
from poetfw.firmware.kernel_version import kernel_version
from poetfw.firmware.platformio_ini import code_flags
from poetfw.ir import Dtype, Graph
from poetfw.ops import is_update, kind_of
from poetfw.planning import (
    BuildSettings,
    costs_from,
    database_for,
    derive_program,
    load_model,
    load_schedule_problem,
)
from poetfw.report import draw_costs
from poetfw.schedule import Schedule, checkpoint_all_schedule, solve
from unit.costs.test_cost_database import row

BOARD = load_board("nrf52840")
SETUP = Setup(BOARD.label, BOARD.core, BOARD.clock_hz, "", "gcc 12")
SETTINGS = BuildSettings(board="nrf52840", model="digits-cnn", batch=2)


@pytest.fixture(scope="module")
def graph() -> Graph:
    return derive_program(SETTINGS, load_model(SETTINGS)).training


def measured(case: Case, time_s: float, **changes: object) -> Measurement:
    version = case_version(case, tiles=case_tiles(BOARD))
    made = row(case, time_s * BOARD.clock_hz, setup=SETUP, kernel_version=version)
    return replace(made, time_s=time_s, **changes)


def rows_of(graph: Graph, time_s: Callable[[Case], float]) -> list[Measurement]:
    """Every case of a graph once, but for loads."""
    cases = {case_of(op, graph) for op in graph.ops if op.inputs}
    return [measured(case, time_s(case)) for case in cases]


def by_macs(case: Case) -> float:
    op, graph = alone(case)
    inputs = [graph.by_name[name] for name in op.inputs]
    output = None if op.output is None else graph.by_name[op.output]
    return 1e-6 + 1e-8 * kind_of(op).work(op, inputs, output).macs


def test_the_best_that_is_known_of_each_op_counts(graph: Graph, tmp_path: Path) -> None:
    database = Database(tmp_path / "costs.sqlite")
    relus = [Case("relu", (((1, n, 3), graph.tensors[0].dtype),)) for n in range(1, 10)]
    convolution = next(op for op in graph.ops if op.kind == "conv2d")
    database.add([measured(case, 1e-5 * case.inputs[0][0][1]) for case in relus])
    database.add([measured(case_of(convolution, graph), 0.25)])
    table = MeasuredCosts(database, case_version)(graph, BOARD)
    analytic = analytic_costs(graph, BOARD)
    for op in graph.ops:
        cost = table.ops[op.name]
        if op is convolution:
            assert (cost.source, cost.time_s) == (Source.MEASURED, 0.25)
        elif op.kind == "relu":
            elements = graph.by_name[op.inputs[0]].elements
            assert cost.source is Source.FITTED
            assert cost.time_s == pytest.approx(1e-5 / 3 * elements)
        else:
            assert cost == analytic.ops[op.name]
        if cost.source is not Source.ANALYTIC:
            assert cost.energy_j == pytest.approx(cost.time_s * BOARD.power.active_w)
    assert table.sources == {
        "measured": 1,
        "fitted": 3,
        "analytic": len(graph.ops) - 4,
        "board file": 0,
    }
    assert table.page_in is None
    assert table.basis == "the board, counted in cycles"


def test_the_same_database_gives_the_same_table(graph: Graph, tmp_path: Path) -> None:
    rows = rows_of(graph, by_macs)
    tables = []
    for number, some in enumerate((rows, rows[::-1])):
        database = Database(tmp_path / f"{number}.sqlite")
        database.add(some)
        tables.append(MeasuredCosts(database, case_version)(graph, BOARD).to_json())
    assert tables[0] == tables[1]


def test_every_table_of_a_provider_is_of_the_same_rows(graph: Graph, tmp_path: Path) -> None:
    database = Database(tmp_path / "costs.sqlite")
    database.add(rows_of(graph, by_macs))
    provider = MeasuredCosts(database, case_version)
    before = provider(graph, BOARD)
    later = {"measured_at": "2026-01-03T00:00:00Z"}
    database.add([replace(one, **later) for one in rows_of(graph, lambda case: 1.0)])
    assert provider(graph, BOARD) == before
    assert MeasuredCosts(database, case_version)(graph, BOARD) != before


def test_one_set_up_is_used_and_the_boards_own_first() -> None:
    relu, tanh = (Case(kind, (((2, 3), row().case.inputs[0][1]),)) for kind in ("relu", "tanh"))
    emulated = replace(SETUP, machine="qemu")
    newer = replace(SETUP, compiler="gcc 13")
    first = measured(relu, 1e-3)
    later = measured(tanh, 2e-3, setup=newer, measured_at="2027-01-01T00:00:00Z")
    latest = measured(
        relu, 3e-3, setup=emulated, counter=Counter.INSTRUCTIONS, measured_at="2028-01-01T00:00:00Z"
    )
    assert usable([first, later, latest], BOARD, case_version).rows == {tanh: later}
    assert usable([first, latest], BOARD, case_version).rows == {relu: first}
    found = usable([latest], BOARD, case_version)
    assert found.rows == {relu: latest}
    assert found.basis == "qemu, counted in instructions"


def test_a_meters_row_counts_before_a_newer_one_without() -> None:
    relu = row().case
    metered = replace(SETUP, meter="ppk2")
    with_meter = measured(relu, 1e-3, setup=metered, energy_j=5e-6)
    without = measured(relu, 2e-3, energy_j=7.0, measured_at="2029-01-01T00:00:00Z")
    for rows in ([with_meter, without], [without, with_meter]):
        found = usable(rows, BOARD, case_version)
        assert found.rows == {relu: with_meter}
        assert found.basis.endswith("energy by ppk2")


def test_stale_rows_and_those_of_another_clock_are_left_out() -> None:
    stale = measured(row().case, 1e-3, kernel_version="0" * 16)
    other = measured(row().case, 1e-3, setup=replace(SETUP, clock_hz=1))
    found = usable([stale, other], BOARD, case_version)
    assert (found.rows, found.stale) == ({}, 1)
    assert found.stale_cases == {stale.case.of_any_numbers}


def test_without_rows_costs_are_analytic_or_refused(graph: Graph, tmp_path: Path) -> None:
    path = tmp_path / "costs.sqlite"
    assert costs_from(None) is analytic_costs
    assert MeasuredCosts(Database(path), case_version)(graph, BOARD) == analytic_costs(graph, BOARD)
    with pytest.raises(CostsError, match="no measurement of nrf52840"):
        costs_from(path)(graph, BOARD)
    with pytest.raises(CostsError, match="there is no database of costs"):
        database_for("nrf52840", None, path)
    assert database_for("nrf52840", "analytic", path) is None
    assert not path.exists()
    Database(path).add([])
    assert database_for("nrf52840", None, path) is None
    assert database_for("nrf52840", "measured", path) == str(path)
    Database(path).add(rows_of(graph, by_macs))
    assert database_for("nrf52840", None, path) == str(path)
    assert database_for("nrf52840", "analytic", path) is None
    assert database_for("mkr1000", None, path) is None


def planned(database: Database, fraction: float) -> Schedule:
    problem = load_schedule_problem(SETTINGS, costs=costs_from(database.path))
    peak_bytes = checkpoint_all_schedule(problem).peak_bytes
    return solve(replace(problem, ram_bytes=int(fraction * peak_bytes)), "poet", work=Work(1.0))


def transfers(s_per_byte: float) -> list[Measurement]:
    return [
        measured(Case(kind, size_bytes=size), (1000 + size) * s_per_byte)
        for kind in ("page_in", "page_out")
        for size in (512, 4096, 65536)
    ]


@pytest.mark.slow
def test_what_paging_was_measured_to_cost_decides_whether_to_page(
    graph: Graph, tmp_path: Path
) -> None:
    """Cheap, everything that does not fit is paged; dear, it is computed again."""
    plans = []
    for name, s_per_byte in (("cheap", 1e-13), ("dear", 1e-2)):
        database = Database(tmp_path / name)
        database.add(rows_of(graph, by_macs) + transfers(s_per_byte))
        plans.append(planned(database, 0.75))
    cheap, dear = plans
    assert cheap.page_outs > 0
    assert dear.page_outs == 0
    assert dear.recomputes > cheap.recomputes
    assert dear.energy_j > cheap.energy_j


def test_measured_transfers_are_those_of_the_problem(graph: Graph, tmp_path: Path) -> None:
    database = Database(tmp_path / "costs.sqlite")
    database.add(transfers(3e-7))
    storage = load_schedule_problem(SETTINGS, costs=costs_from(database.path)).storage
    assert storage is not None
    # With each of these goes a block for its trailer.
    assert storage.paged_bytes(1024) == 1536
    assert storage.page_in_time_s(1024) == pytest.approx(3e-7 * (1000 + 1024))
    assert storage.paged_bytes(1000) == 1024
    power_w = 0.33
    assert storage.page_out.energy_j_per_byte == pytest.approx(3e-7 * power_w, rel=1e-3)
    assert (storage.page_in.beside, storage.page_out.beside) == (None, None)


def test_transfers_with_a_meter_take_what_it_measured(graph: Graph, tmp_path: Path) -> None:
    metered = replace(SETUP, meter="ppk2")
    joules = [replace(row, setup=metered, energy_j=0.9 * row.time_s) for row in transfers(3e-7)]
    database = Database(tmp_path / "costs.sqlite")
    database.add(joules)
    storage = load_schedule_problem(SETTINGS, costs=costs_from(database.path)).storage
    assert storage is not None
    assert storage.page_out.energy_j_per_byte == pytest.approx(0.9 * 3e-7, rel=1e-3)


def test_what_was_measured_beside_a_kernel_is_that_of_the_problem(
    graph: Graph, tmp_path: Path
) -> None:
    database = Database(tmp_path / "costs.sqlite")
    beside = {"page_in_beside": 2e-7, "page_in_taken": 1.5e-7}
    beside |= {"page_out_beside": 1e-7, "page_out_taken": 0.5e-7}
    rows = [
        measured(Case(kind, size_bytes=size), (1000 + size) * s_per_byte)
        for kind, s_per_byte in beside.items()
        for size in (512, 4096, 65536)
    ]
    database.add([*transfers(3e-7), *rows])
    storage = load_schedule_problem(SETTINGS, costs=costs_from(database.path)).storage
    assert storage is not None
    moved = 1000 + 1024  # and a block for the trailer, as above
    there, back = storage.moving_in(1024), storage.moving_out(1024)
    assert (there.storage_s, there.core_s) == pytest.approx((2e-7 * moved, 1.5e-7 * moved))
    assert (back.storage_s, back.core_s) == pytest.approx((1e-7 * moved, 0.5e-7 * moved))
    assert there.apart_s == pytest.approx(1e-7 * moved)


def test_larger_transfers_that_took_no_longer_are_planned_with_and_kept(
    graph: Graph, tmp_path: Path
) -> None:
    database = Database(tmp_path / "costs.sqlite")
    flat = [replace(one, ticks=64e3, time_s=1e-3) for one in transfers(1e-9)]
    database.add(flat)
    provider = costs_from(database.path)
    table = provider(graph, BOARD)
    assert table.page_in is not None
    assert table.page_in.time_s(512) == table.page_in.time_s(1 << 20) == pytest.approx(1e-3)
    text = json.dumps(table.to_json(), allow_nan=False)
    assert CostTable.from_json(json.loads(text)) == table
    assert solve(load_schedule_problem(SETTINGS, costs=provider), "checkpoint-all").time_s > 0


def test_an_emulators_ops_count_where_the_board_has_none_and_its_transfers_never(
    graph: Graph, tmp_path: Path
) -> None:
    emulated = {"setup": replace(SETUP, machine="qemu"), "counter": Counter.INSTRUCTIONS}
    database = Database(tmp_path / "costs.sqlite")
    rows = rows_of(graph, by_macs) + transfers(1e-9)
    database.add([replace(one, **emulated) for one in rows])
    assert database_for("nrf52840", None, database.path) == str(database.path)
    provider = costs_from(database.path)
    table = provider(graph, BOARD)
    loads = sum(not op.inputs for op in graph.ops)
    assert table.sources["measured"] == len(graph.ops) - loads
    assert (table.page_in, table.page_out) == (None, None)
    assert table.sources["board file"] == loads
    assert table.summary == (
        f"every op is measured, but for loads: {loads} by the board file; paging by the board file "
        "(qemu, counted in instructions)"
    )
    analytic = load_schedule_problem(SETTINGS, costs=analytic_costs)
    assert load_schedule_problem(SETTINGS, costs=provider).storage == analytic.storage
    database.add(transfers(2e-9))
    assert costs_from(database.path)(graph, BOARD).page_in is not None


def test_a_load_that_was_not_measured_reads_as_pages_do(graph: Graph) -> None:
    table = usable(transfers(3e-7), BOARD, case_version).table(graph, BOARD)
    load = next(op for op in graph.ops if op.kind == "load_x")
    assert load.output is not None
    assert graph.by_name[load.output].size_bytes == 512
    computing_s = 512 / BOARD.compute.ram_bandwidth_bytes_per_s
    assert table.ops[load.name].time_s == pytest.approx(3e-7 * (1000 - 512 + 512) + computing_s)


def test_ops_are_shown_as_measured_fitted_and_analytic(graph: Graph) -> None:
    rows = rows_of(graph, by_macs)
    compared = compare_costs(graph, BOARD, usable(rows, BOARD, case_version))
    assert [op.name for op in compared] == [op.name for op in graph.ops]
    for op, node in zip(compared, graph.ops, strict=True):
        assert op.measured_s == (by_macs(case_of(node, graph)) if node.inputs else None)
        assert op.analytic_s == analytic_costs(graph, BOARD).ops[op.name].time_s


def test_an_op_costs_what_it_took_with_its_own_numbers(graph: Graph) -> None:
    """Another network's op of the same case costs the mean, and the fit sees one row of it."""
    first, second, *_ = [op for op in graph.ops if op.kind == "batch_norm_statistics"]
    case = case_of(first, graph)
    assert case_of(second, graph) == case
    assert own_case_of(first, graph) != own_case_of(second, graph)
    assert own_case_of(first, graph).of_any_numbers == case
    rows = [measured(own_case_of(op, graph), s) for op, s in ((first, 1e-3), (second, 3e-3))]
    found = usable(rows, BOARD, case_version)
    table = found.table(graph, BOARD)
    assert [table.ops[op.name].time_s for op in (first, second)] == [1e-3, 3e-3]
    of_ops = {op.name: op.measured_s for op in compare_costs(graph, BOARD, found)}
    assert [of_ops[op.name] for op in (first, second)] == [1e-3, 3e-3]
    elsewhere = found.table(replace(graph, name="other training"), BOARD)
    for op in (first, second):
        cost = elsewhere.ops[op.name]
        assert (cost.source, cost.time_s) == (Source.MEASURED, pytest.approx(2e-3))
    (alone_row,) = found.of_any_numbers.values()
    assert (alone_row.case, alone_row.time_s) == (case, pytest.approx(2e-3))
    assert [one.case for one in found.time.measurements] == [case]


def own_numbers(**changes: Any) -> dict[str, str]:
    settings = replace(SETTINGS, **changes)
    graph = derive_program(settings, load_model(settings)).training
    return {op.name: own_case_of(op, graph).numbers for op in graph.ops}


def test_an_ops_own_row_is_no_other_networks(graph: Graph) -> None:
    """A network is its name and its forward pass, and not what trains it or in which order."""
    ours = own_numbers()
    assert len({*ours.values()}) == len(graph.ops)
    for changes in (
        {"optimizer": "adam"},
        {"learning_rate": 0.5, "seed": 7},
        {"train": ("last:1",)},
        {"train": ("conv3*@1/2",)},
        {"clip_norm": 1.0},
    ):
        others = own_numbers(**changes)
        assert {ours[name] == number for name, number in others.items() if name in ours} == {True}
    for changes in ({"batch": 4}, {"label_smoothing": 0.5}, {"model": "mlp"}):
        assert {*ours.values()}.isdisjoint(own_numbers(**changes).values())
    named = replace(graph, name="other training")
    moved = replace(graph, ops=tuple(sorted(graph.ops, key=lambda op: op.kind != "load_y")))
    assert moved.ops != graph.ops
    read = Graph.from_json(json.loads(json.dumps(moved.to_json())))
    assert read.network == graph.network != named.network
    wider = [
        replace(tensor, shape=(*tensor.shape, 1)) if tensor.name == "conv1.weight" else tensor
        for tensor in graph.tensors
    ]
    assert replace(graph, tensors=tuple(wider)).network != graph.network


def test_of_several_numbers_a_meters_rows_are_the_mean() -> None:
    relu = row().case
    with_meter = replace(SETUP, meter="ppk2")
    rows = [
        measured(replace(relu, numbers="0" * 16), 1e-3, setup=with_meter, energy_j=4e-6),
        measured(replace(relu, numbers="1" * 16), 2e-3, setup=with_meter, energy_j=8e-6),
        measured(replace(relu, numbers="2" * 16), 9e-3, energy_j=7.0),
    ]
    cost = usable(rows, BOARD, case_version).cost(relu, OpCost(1.0, BOARD.power.active_w))
    assert (cost.time_s, cost.energy_j) == pytest.approx((1.5e-3, 6e-6))


def test_a_picture_shows_each_model_where_something_was_measured() -> None:
    ops = (ComparedOp("a", "relu", 1e-3, 2e-3, 3e-3), ComparedOp("b", "relu", None, 1.0, 2.0))
    picture = draw_costs(ops, "two ops", "svg")
    assert picture.startswith(b"<?xml")
    assert draw_costs(ops[:1], "two ops", "svg") == picture
    fewer = draw_costs((replace(ops[0], fitted_s=None),), "two ops", "svg")
    assert picture.count(b"<use ") != fewer.count(b"<use ")


def test_a_kernels_version_is_that_of_all_it_is_compiled_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("kernels", "runtime", "storage"):
        (tmp_path / folder).mkdir()
    (tmp_path / "kernels/a.c").write_text('#include "a.h"\n#include "board.h"\n')
    (tmp_path / "kernels/a.h").write_text('  #  include "math.h"\n#include <stdint.h>\n')
    (tmp_path / "kernels/a_asm.S").write_text("")
    (tmp_path / "kernels/b.c").write_text("")
    (tmp_path / "runtime/math.h").write_text("")
    (tmp_path / "runtime/math.c").write_text("")
    monkeypatch.setattr("poetfw.firmware.kernel_version.firmware_templates_dir", lambda: tmp_path)
    found = set()
    texts = ("kernels/a.c", "kernels/a.h", "kernels/a_asm.S", "runtime/math.h", "runtime/math.c")
    for changed in ("", *texts):
        if changed:
            path = tmp_path / changed
            path.write_text(path.read_text() + "/* changed */")
        kernel_version.cache_clear()
        found.add(kernel_version("a"))
    assert len(found) == 6
    (tmp_path / "kernels/b.c").write_text("/* changed */")
    kernel_version.cache_clear()
    assert kernel_version("a") in found
    with pytest.raises(FileNotFoundError, match=r"no c\.c"):
        kernel_version("c")
    kernel_version.cache_clear()


def test_a_changed_step_makes_its_optimizers_rows_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = {kind: updates(kind) for kind in ("sgd", "adam")}
    before = {kind: [*map(case_version, some)] for kind, some in cases.items()}
    templates = shutil.copytree(firmware_templates_dir(), tmp_path / "templates")
    with (templates / "kernels/adam.c").open("a") as file:
        file.write("/* changed */")
    monkeypatch.setattr("poetfw.firmware.kernel_version.firmware_templates_dir", lambda: templates)
    kernel_version.cache_clear()
    after = {kind: [*map(case_version, some)] for kind, some in cases.items()}
    kernel_version.cache_clear()
    assert after["sgd"] == before["sgd"]
    assert not set(after["adam"]) & set(before["adam"])


def test_changed_functions_for_floats_make_rows_stale_without_an_fpu(
    graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    soft = replace(BOARD, firmware=load_board("mkr1000").firmware)
    relu = next(case_of(op, graph) for op in graph.ops if op.kind == "relu")
    moved = Case("page_in", size_bytes=512)
    rows = {
        of_functions: [
            row(case, 1.0, setup=SETUP, kernel_version=case_version(case, soft_float=of_functions))
            for case in (relu, moved)
        ]
        for of_functions in (False, True)
    }
    assert usable(rows[False], BOARD, case_version).stale == 0
    assert usable(rows[True], soft, case_version).stale == 0
    templates = shutil.copytree(firmware_templates_dir(), tmp_path / "templates")
    with (templates / "runtime/soft_float.c").open("a") as file:
        file.write("/* changed */")
    monkeypatch.setattr("poetfw.firmware.kernel_version.firmware_templates_dir", lambda: templates)
    kernel_version.cache_clear()
    found = usable(rows[True], soft, case_version)
    with_fpu = usable(rows[False], BOARD, case_version)
    kernel_version.cache_clear()
    assert found.stale == 1
    assert set(found.rows) == {moved}
    assert with_fpu.stale == 0


def test_other_flags_of_the_compiler_make_rows_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = [Case("relu", (((9,), Dtype.F32),)), Case("page_in", size_bytes=512)]
    rows = [row(case, 1.0, setup=SETUP, kernel_version=case_version(case)) for case in cases]
    assert set(usable(rows, BOARD, case_version).rows) == set(cases)
    changed = tmp_path / "platformio.ini"
    monkeypatch.setattr("poetfw.boards.environments.platformio_ini", lambda: changed)
    for old, new, stale in ((" -O2", " -O1", 2), (" -Wall", "", 0)):
        text = platformio_ini().read_text()
        assert old in text
        changed.write_text(text.replace(old, new))
        code_flags.cache_clear()
        read_environments.cache_clear()
        assert usable(rows, BOARD, case_version).stale == stale
    monkeypatch.undo()
    code_flags.cache_clear()
    read_environments.cache_clear()


def test_other_sums_are_other_kernels(graph: Graph) -> None:
    """Two boards of the same compiler share no row of what is compiled from other files."""
    cases = {op.kind: case_of(op, graph) for op in graph.ops}
    convolution, relu = cases["conv2d"], cases["relu"]
    assert len({case_version(convolution, arithmetic) for arithmetic in Arithmetic}) == 3
    assert len({case_version(relu, arithmetic) for arithmetic in Arithmetic}) == 1
    inexact = replace(BOARD, compute=replace(BOARD.compute, arithmetic=Arithmetic.INTEGERS))
    rows = [measured(convolution, 1e-3), measured(relu, 1e-3)]
    assert usable(rows, BOARD, case_version).stale == 0
    assert set(usable(rows, inexact, case_version).rows) == {relu}


def test_stale_ops_are_counted_until_they_are_measured_again(
    graph: Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = rows_of(graph, by_macs)
    old = [
        replace(one, kernel_version="0" * 16) if one.case.kind == "conv2d" else one for one in rows
    ]
    convolutions = sum(op.kind == "conv2d" for op in graph.ops)
    table = usable(old, BOARD, case_version).table(graph, BOARD)
    assert f"those of {convolutions} ops are stale, and left out" in table.summary
    again = usable([*old, *rows], BOARD, case_version)
    assert (again.stale > 0, again.stale_cases) == (True, frozenset())
    assert "stale" not in again.table(graph, BOARD).summary
    database = Database(tmp_path / "costs.sqlite")
    database.add(old)
    cli.main(["costs", "--board", "nrf52840", "--db", str(database.path)], standalone_mode=False)
    assert "nothing else is known of cases of conv2d" in " ".join(capsys.readouterr().out.split())


def test_an_emulators_loads_are_no_measurement(graph: Graph) -> None:
    """The card's time is not in them."""
    loads = [case_of(op, graph) for op in graph.ops if op.kind.startswith("load_")]
    rows = [measured(case, 1e-3) for case in loads]
    emulated = [replace(one, setup=replace(SETUP, machine="qemu")) for one in rows]
    assert usable(rows, BOARD, case_version).table(graph, BOARD).sources["measured"] == 2
    table = usable(emulated, BOARD, case_version).table(graph, BOARD)
    assert table.sources["measured"] == 0
    assert table.sources["board file"] == 2
    analytic = analytic_costs(graph, BOARD).ops
    assert all(cost.time_s == analytic[name].time_s for name, cost in table.ops.items())


def test_what_a_meter_sees_beside_an_emulator_is_no_boards(graph: Graph) -> None:
    relu = next(case_of(op, graph) for op in graph.ops if op.kind == "relu")
    for machine, energy_j in (("", 7.0), ("qemu", 1e-3 * BOARD.power.active_w)):
        metered = replace(SETUP, machine=machine, meter="ppk2")
        rows = [measured(relu, 1e-3, setup=metered, energy_j=7.0)]
        found = usable(rows, BOARD, case_version)
        assert found.cost(relu, OpCost(1.0, BOARD.power.active_w)).energy_j == pytest.approx(
            energy_j
        )
        assert ("energy by" in found.basis) == (not machine)


def test_every_op_has_a_version_and_features(graph: Graph) -> None:
    for op in graph.ops:
        case = case_of(op, graph)
        assert len(case_version(case)) == 16
        assert featured(case).features["fixed"] == 1
        assert case_of(*alone(case)) == case


def updates(optimizer: str, **settings: object) -> list[Case]:
    """The ops that apply gradients, in the networks of a few batches."""
    found = {}
    for batch in (1, 2, 3, 4, 5, 6):
        some = replace(SETTINGS, model="mlp", batch=batch, optimizer=optimizer, **settings)
        graph = derive_program(some, load_model(some)).training
        found |= {case_of(op, graph): None for op in graph.ops if is_update(op)}
    return [*found]


@pytest.mark.parametrize(
    ("optimizer", "settings"),
    [
        ("adam", {}),
        ("sgd", {"momentum": 0.9}),
        ("sgd", {"clip_value": 1.0}),
        ("sgd", {"schedule": "cosine:9"}),
    ],
)
def test_an_update_is_fitted_to_none_of_another_step(
    optimizer: str, settings: dict[str, object]
) -> None:
    """They run one C function, which calls the step that it is given."""
    plain, others = updates("sgd", momentum=0.0), updates(optimizer, **settings)
    known = usable([measured(case, by_macs(case)) for case in plain], BOARD, case_version)
    costs = [known.time.predict(case) for case in plain]
    assert costs == [None if cost is None else pytest.approx(cost) for cost in costs]
    assert any(cost is not None for cost in costs)
    assert [known.time.predict(case) for case in others] == [None] * len(others)
