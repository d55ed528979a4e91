# SPDX-License-Identifier: Apache-2.0
"""`poetfw profile` on twins, and whether what it measures is what a step is made of."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from emulator.test_serial_line import started
from poetfw.costs import BESIDE, TAKEN, Case, case_of, own_case_of
from poetfw.report import read_stages
from system.commands import interrupted, needs_aarch64, needs_twin, poetfw, succeed

pytestmark = pytest.mark.slow

ON_TWIN = ("--board", "nrf52840", "--emulator", "qemu")
FIGURES = {
    "case",
    "op",
    "operator",
    "shape",
    "n",
    "time_s",
    "energy_j",
    "energy_spread_j",
    "spread",
    "source",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("profile")


@pytest.fixture(scope="module")
def profiled(folder: Path) -> Any:
    return succeed("profile", *ON_TWIN, "--db", "one.sqlite", cwd=folder)


@needs_twin
@pytest.mark.emulator
def test_a_second_profile_costs_nothing_and_another_is_identical(
    folder: Path, profiled: Any
) -> None:
    assert profiled["measured_now"] == len(profiled["cases"]) > 50
    assert {*profiled["cases"][0]} == FIGURES | {"instructions"}
    again = succeed("profile", *ON_TWIN, "--db", "one.sqlite", cwd=folder)
    assert again == {**profiled, "measured_now": 0}
    other = succeed("profile", *ON_TWIN, "--db", "other.sqlite", cwd=folder)
    assert other == profiled
    table = poetfw("profile", *ON_TWIN, "--db", "one.sqlite", "--report", "told", cwd=folder)
    assert table.code == 0
    assert "0 to measure" in table.stdout
    assert "drawing the report" in table.stderr
    page = (folder / "told/report.md").read_text()
    assert "by the board file; paging by the board file (qemu" in page
    assert all((folder / "told" / name).exists() for name in ("ops.csv", "cases.csv", "ops.svg"))


def each_is_what_a_trace_says(profiled: Any, out: Path, cwd: Path) -> set[str]:
    """The sum within 3 % of the whole step; each within 5 %, or 50 instructions, of it therein."""
    report = succeed("run", "--out", out, "--steps", "1", "--trace", cwd=cwd)
    ticks = {case["case"]: case["instructions"] for case in profiled["cases"]}
    ops_of = {case["case"]: case["op"] for case in profiled["cases"]}
    graph = read_stages(out, None).program.training
    ops = {op.name: op for op in graph.ops}
    profiled_sum = 0.0
    for step in report["trace"]["steps"]:
        op = ops[step["op"]]
        own, case = own_case_of(op, graph), case_of(op, graph)
        if step["operator"] != op.kind:
            assert op.output is not None
            case = Case(step["operator"], size_bytes=graph.by_name[op.output].size_bytes)
        elif own.key in ticks:
            assert ops_of[own.key] == op.name
            case = own
        profiled_sum += ticks[case.key]
        assert ticks[case.key] == pytest.approx(step["ticks"], rel=0.05, abs=50), step
    assert profiled_sum == pytest.approx(report["trace"]["whole_ticks"], rel=0.03)
    return {step["operator"] for step in report["trace"]["steps"]}


@needs_twin
@pytest.mark.emulator
@pytest.mark.parametrize("ram", [(), ("--ram", "172000")], ids=["all RAM", "with paging"])
def test_a_step_is_the_sum_of_what_was_profiled(
    folder: Path, profiled: Any, ram: tuple[str, ...]
) -> None:
    out = folder / "step"
    succeed("build", "--board", "nrf52840", *ram, "--out", out, cwd=folder)
    report = succeed("run", "--out", out, "--steps", "1", cwd=folder)
    assert report["step_s"] == report["instructions"] / 64e6
    operators = each_is_what_a_trace_says(profiled, out, folder)
    assert (operators >= {"page_in", "page_out"}) == bool(ram)


@needs_twin
@pytest.mark.emulator
@pytest.mark.parametrize(
    ("board", "model", "batch", "scheduler", "own"),
    [
        ("mkr1000", "digits-cnn", 4, "poet", {"batch_norm_backward_affine", "linear"}),
        ("mkr1000", "mlp", 4, "poet", {"linear", "relu"}),
        ("nrf52840", "lstm", 8, "checkpoint-all", set()),
        ("nrf52840", "gru", 8, "checkpoint-all", set()),
        ("nrf52840", "transformer-tiny", 3, "checkpoint-all", {"gelu", "gelu_backward"}),
    ],
)
def test_each_op_has_the_time_that_its_numbers_take(
    folder: Path, board: str, model: str, batch: int, scheduler: str, own: set[str]
) -> None:
    """Without an FPU of all that calculates; with one, of functions that go several ways only.

    What the build believes of each op is what was profiled of it.
    """
    which = ("--board", board, "--model", model, "--batch", str(batch))
    db = ("--db", f"{board}.sqlite")
    profiled = succeed("profile", *which, "--emulator", "qemu", *db, cwd=folder)
    found = {case["operator"] for case in profiled["cases"] if case["op"]}
    assert found >= own if board == "mkr1000" else found == own
    again = succeed("profile", *which, "--emulator", "qemu", *db, cwd=folder)
    assert again == {**profiled, "measured_now": 0}
    out = folder / "own"
    succeed("build", *which, *db, "--scheduler", scheduler, "--out", out, cwd=folder)
    each_is_what_a_trace_says(profiled, out, folder)
    costs = json.loads((out / "costs.json").read_text())["ops"]
    times: dict[str, list[float]] = {}
    for case in profiled["cases"]:
        if case["op"]:
            times.setdefault(case["op"], []).append(case["time_s"])
    for op, found in times.items():  # by the kernel that takes the least, or as good as that
        assert costs[op]["time_s"] in found
        assert costs[op]["time_s"] <= 1.01 * min(found), op


def test_steps_that_run_on_this_computer_say_so_and_may_be_interrupted(
    folder: Path, interruptible: None
) -> None:
    options = ("--board", "mkr1000", "--emulator", "qemu", "--db", "never.sqlite")
    said = interrupted(
        "profile", *options, after="running steps of the network on this computer  1/9", cwd=folder
    )
    assert "Traceback" not in said
    assert "building" not in said
    assert not (folder / "never.sqlite").exists()


@needs_twin
@pytest.mark.emulator
def test_a_profile_that_is_interrupted_goes_on(folder: Path, interruptible: None) -> None:
    interrupted("profile", *ON_TWIN, "--db", "cut.sqlite", after="measuring", cwd=folder)
    with sqlite3.connect(folder / "cut.sqlite") as database:
        (kept,) = database.execute("SELECT count(*) FROM measurements").fetchone()
    rest = succeed("profile", *ON_TWIN, "--db", "cut.sqlite", cwd=folder)
    assert 0 < kept < len(rest["cases"])
    assert rest["measured_now"] == len(rest["cases"]) - kept


@needs_twin
@pytest.mark.emulator
def test_over_a_port(folder: Path, profiled: Any, tmp_path: Path) -> None:
    """A sketch that somebody started, as `poetfw profile` built it: the same instructions."""
    elf = folder / "build/nrf52840-profile/.pio/build/nrf52840-twin/firmware.elf"
    succeed("profile", *ON_TWIN, "--db", tmp_path / "fresh.sqlite", cwd=folder)
    (tmp_path / "storage.img").write_bytes(bytes(1 << 20))
    db = ("--db", tmp_path / "port.sqlite")
    with started("mps2", shutil.copy(elf, tmp_path), tmp_path, "listen") as port:
        there = succeed("profile", *ON_TWIN, "--port", port, *db, cwd=folder)
        itself = poetfw("profile", "--board", "nrf52840", "--port", port, *db, cwd=folder)
    assert there["cases"] == profiled["cases"]
    assert itself.code == 4
    assert "the sketch" in itself.stderr or "emulator" in itself.stderr


@needs_twin
@pytest.mark.emulator
@pytest.mark.parametrize("emulator", ["qemu", "unicorn"])
def test_a_board_without_an_fpu(folder: Path, emulator: str) -> None:
    pytest.importorskip("unicorn") if emulator == "unicorn" else None
    options = ("--board", "mkr1000", "--emulator", emulator, "--model", "mlp")
    report = succeed("profile", *options, "--db", "mkr1000.sqlite", cwd=folder)
    unit = "instructions" if emulator == "qemu" else "cycles"
    assert all(case[unit] > 0 for case in report["cases"])
    assert report["machine"] == emulator


@pytest.mark.parametrize(
    "board", ["linux", *(pytest.param(name, marks=needs_aarch64) for name in ("rpi4", "tx2"))]
)
def test_computers_under_linux(folder: Path, board: str) -> None:
    emulator = () if board == "linux" else ("--emulator", "qemu")
    report = succeed(
        *("profile", "--board", board, "--model", "mlp", *emulator, "--db", "linux.sqlite"),
        cwd=folder,
    )
    for case in report["cases"]:
        # What a transfer takes beside computing is a difference of two times on a clock.
        is_difference = case["operator"] in {*BESIDE, *TAKEN}
        assert case["ns"] > 0 or (is_difference and case["ns"] == 0), case
    assert report["machine"] == (None if board == "linux" else "qemu")


@needs_twin
@pytest.mark.emulator
def test_cases_that_do_not_fit_are_left_out_and_flash_is_shared(folder: Path) -> None:
    """With little RAM the larger cases are named; with little flash there are several sketches."""
    text = (Path(__file__).parents[2] / "boards/nrf52840.toml").read_text()
    small = text.replace("ram_bytes = { value = 262_144", "ram_bytes = { value = 65_536", 1)
    small = small.replace("flash_bytes = { value = 1_048_576", "flash_bytes = { value = 24_576", 1)
    assert small != text
    (folder / "small.toml").write_text(small)
    result = poetfw(
        *("profile", "--board", "small.toml", "--emulator", "qemu", "--db", "small.sqlite"),
        *("--json",),
        cwd=folder,
    )
    assert result.code == 0
    report = json.loads(result.stdout)
    assert "cases do not fit the board" in result.stderr
    assert report["left_out"]
    assert all("operands take" in one["reason"] for one in report["left_out"])
    assert len(report["cases"]) == report["measured_now"] > 20
