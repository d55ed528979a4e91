# SPDX-License-Identifier: Apache-2.0
"""`poetfw profile` on twins, and whether what it measures is what a step is made of."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from emulator.test_serial_line import started
from poetfw.costs import BESIDE, TAKEN, Case, case_of
from poetfw.report import read_stages
from system.commands import needs_aarch64, needs_twin, poetfw, succeed

pytestmark = pytest.mark.slow

ON_TWIN = ("--board", "nrf52840", "--emulator", "qemu")
FIGURES = {
    "case",
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
    page = (folder / "told/report.md").read_text()
    assert "every op is measured; loads and transfers are the board file's (qemu" in page
    assert all((folder / "told" / name).exists() for name in ("ops.csv", "cases.csv", "ops.svg"))


@needs_twin
@pytest.mark.emulator
@pytest.mark.parametrize("ram", [(), ("--ram", "172000")], ids=["all RAM", "with paging"])
def test_a_step_is_the_sum_of_what_was_profiled(
    folder: Path, profiled: Any, ram: tuple[str, ...]
) -> None:
    """The sum within 3 % of the whole step; each within 5 %, or 50 instructions, of it therein."""
    out = folder / "step"
    succeed("build", "--board", "nrf52840", *ram, "--out", out, cwd=folder)
    report = succeed("run", "--out", out, "--steps", "1", "--trace", cwd=folder)
    assert report["step_s"] == report["instructions"] / 64e6
    ticks = {case["case"]: case["instructions"] for case in profiled["cases"]}
    graph = read_stages(out, None).program.training
    ops = {op.name: op for op in graph.ops}
    profiled_sum, apart = 0.0, {}
    for step in report["trace"]["steps"]:
        op = ops[step["op"]]
        case = case_of(op, graph)
        if step["operator"] != op.kind:
            assert op.output is not None
            case = Case(step["operator"], size_bytes=graph.by_name[op.output].size_bytes)
        profiled_sum += ticks[case.key]
        apart[step["plan_step"]] = abs(ticks[case.key] - step["ticks"])
        assert apart[step["plan_step"]] <= max(50, 0.05 * step["ticks"]), step
    assert profiled_sum == pytest.approx(report["trace"]["whole_ticks"], rel=0.03)
    paged = {step["operator"] for step in report["trace"]["steps"]} >= {"page_in", "page_out"}
    assert paged == bool(ram)


@needs_twin
@pytest.mark.emulator
@pytest.mark.parametrize("model", ["digits-cnn", "mlp"])
def test_a_step_without_an_fpu_is_the_sum_of_what_was_profiled(folder: Path, model: str) -> None:
    """Numbers decide there what a sum takes: cases have those of the network's own tensors.

    A case that stands for several ops has one time; it is their mean that it must meet.
    """
    board, db = ("--board", "mkr1000", "--model", model), ("--db", "soft.sqlite")
    profiled = succeed("profile", *board, "--emulator", "qemu", *db, cwd=folder)
    out = folder / "soft"
    succeed("build", *board, *db, "--out", out, cwd=folder)
    report = succeed("run", "--out", out, "--steps", "1", "--trace", cwd=folder)
    ticks = {case["case"]: case["instructions"] for case in profiled["cases"]}
    graph = read_stages(out, None).program.training
    ops = {op.name: op for op in graph.ops}
    profiled_sum, of_cases = 0.0, defaultdict[str, list[float]](list)
    for step in report["trace"]["steps"]:
        op = ops[step["op"]]
        case = case_of(op, graph)
        if step["operator"] != op.kind:
            assert op.output is not None
            case = Case(step["operator"], size_bytes=graph.by_name[op.output].size_bytes)
        elif op.kind.startswith(("conv2d", "linear")):
            assert ticks[case.key] == pytest.approx(step["ticks"], rel=0.05, abs=50), step
        of_cases[case.key].append(step["ticks"])
        profiled_sum += ticks[case.key]
    for key, found in of_cases.items():
        assert ticks[key] == pytest.approx(fmean(found), rel=0.05, abs=50), found
    assert profiled_sum == pytest.approx(report["trace"]["whole_ticks"], rel=0.03)


@needs_twin
@pytest.mark.emulator
def test_a_profile_that_is_interrupted_goes_on(folder: Path, interruptible: None) -> None:
    command = [sys.executable, "-m", "poetfw.cli.main", "profile", *ON_TWIN, "--db", "cut.sqlite"]
    with subprocess.Popen(
        command, cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, env={**os.environ}
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith(b"measuring"):
                process.send_signal(signal.SIGINT)
                break
        process.stderr.read()
    assert process.returncode == 130
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
