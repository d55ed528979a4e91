# SPDX-License-Identifier: Apache-2.0
"""`poetfw profile --meter` as a whole, on this computer; its meters are files made for the test."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from click.testing import CliRunner

from poetfw.cli.main import cli
from poetfw.costs import case_of
from poetfw.meters import PowerTrace, measured_energy
from poetfw.meters.polled import PolledMeter
from poetfw.planning import BuildSettings, derive_program, load_model
from poetfw.profiling import metering

IDLE_W, ACTIVE_W = 2.0, 5.0
MLP = ("--board", "linux", "--model", "mlp", "--batch", "4")


class Computer:
    """Files as in /sys of a computer with RAPL and an INA226, which draws what it is told to."""

    def __init__(self, root: Path) -> None:
        self.watts, self._joules = IDLE_W, 0.0
        self._at_s = time.monotonic()
        self._end = threading.Event()
        self._zone = root / "class/powercap/intel-rapl:0"
        self._chip = root / "class/hwmon/hwmon0"
        for folder in (self._zone, self._chip):
            folder.mkdir(parents=True)
        (self._zone / "max_energy_range_uj").write_text("262143328850\n")
        for name, value in {"name": "ina226", "in0_input": "1", "in1_input": "5000"}.items():
            (self._chip / name).write_text(f"{value}\n")
        self.write()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._end.wait(5e-4):
            self.write()

    def write(self) -> None:
        now_s = time.monotonic()
        self._joules += self.watts * (now_s - self._at_s)
        self._at_s = now_s
        for path, value in (
            (self._zone / "energy_uj", self._joules * 1e6),
            (self._chip / "curr1_input", self.watts / 5.0 * 1e3),
        ):
            new = path.with_name("new")
            new.write_text(f"{value:.0f}\n")
            new.replace(path)

    def close(self) -> None:
        self._end.set()
        self._thread.join()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Intervals are short, and the computer's power follows the marker."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("POETFW_SYSFS", str(tmp_path / "sys"))
    computer = Computer(tmp_path / "sys")
    mark = PolledMeter.mark

    def wired(meter: PolledMeter, on: bool) -> None:
        mark(meter, on)
        computer.watts = ACTIVE_W if on else IDLE_W

    monkeypatch.setattr(PolledMeter, "mark", wired)
    monkeypatch.setattr(PolledMeter, "least_s", 0.05)
    monkeypatch.setattr(metering, "_BUSY", math.inf)  # it is, where tests run
    yield tmp_path
    computer.close()


def run(*arguments: str) -> Any:
    result = CliRunner().invoke(cli, [*arguments, "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("meter", "name"), [("rapl", "rapl:intel-rapl:0"), ("hwmon:ina226", "ina226:1")]
)
def test_a_meter_of_the_computer_measures_what_plans_take(
    meter: str, name: str, folder: Path
) -> None:
    found = run("profile", *MLP, "--meter", meter)
    assert found["meter"] == name
    assert "clock" in found["metered"]["aligned_by"]
    assert found["metered"]["idle_w"] == [pytest.approx(IDLE_W, rel=0.2)]
    cases = {case["case"]: case for case in found["cases"]}
    assert {case["source"] for case in cases.values()} == {"measured"}
    traces = Path(found["metered"]["traces"])
    watts = []
    for key, case in cases.items():
        energy = measured_energy(
            PowerTrace.load(traces / f"{key}.npz"), found["metered"]["idle_w"][0]
        )
        watts.append(energy.energy_j / energy.time_s)
        assert case["energy_j"] <= energy.energy_j * (1 + 1e-9)  # calling it is not the case's
    assert median(watts) == pytest.approx(ACTIVE_W - IDLE_W, rel=0.25)
    assert run("profile", *MLP, "--meter", meter)["measured_now"] == 0

    settings = BuildSettings("linux", model="mlp", batch=4)
    graph = derive_program(settings, load_model(settings)).training
    solve = ("schedule", *MLP, "--scheduler", "checkpoint-all")
    planned = run(*solve)
    assert planned["cost_sources"] == {
        "measured": len(graph.ops),
        "fitted": 0,
        "analytic": 0,
        "board file": 0,
    }
    joules = sum(cases[case_of(op, graph).key]["energy_j"] for op in graph.ops)
    assert planned["energy_j"] == pytest.approx(joules)
    assert run(*solve, "--costs", "analytic")["energy_j"] != pytest.approx(joules, rel=0.05)
    # The same joules come of the traces that were kept.
    again = run("profile", *MLP, "--meter", f"replay:{traces}", "--db", "two")
    for case in again["cases"]:
        assert case["energy_j"] == pytest.approx(cases[case["case"]]["energy_j"], rel=0.5)
