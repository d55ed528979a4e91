# SPDX-License-Identifier: Apache-2.0
"""`poetfw compare` and `poetfw sweep` as a user runs them."""

from __future__ import annotations

import csv
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from poetfw.comparisons.comparison import FRACTIONS
from system.commands import interrupted, poetfw, succeed
from workloads import BOARDS

RESIDENT = 53_088
"""Bytes of the mlp's parameters and momenta, its loss and metric, and the page buffer."""

SMALL = ("--board", "nrf52840", "--model", "mlp", "--batch", "8", "--work-limit", "1")


def test_compare_says_what_each_scheduler_costs(tmp_path: Path) -> None:
    files = ("--csv", "cells.csv", "--plot", "plot.svg")
    found = succeed("compare", *SMALL, "--fractions", "0.9,0.7", *files, cwd=tmp_path)
    assert (found["costs"], found["interrupted"], found["deadline_s"]) == ("analytic", False, None)
    cells = {(cell["scheduler"], cell["ram_fraction"]): cell for cell in found["cells"]}
    assert {fraction for _, fraction in cells} == {0.7, 0.9}
    assert ("poet", 0.7) in cells
    assert ("griewank", 0.7) in cells
    assert ("poet-algorithm-1", 0.7) not in cells
    for cell in cells.values():
        assert (cell["energy_j"] is None) == bool(cell["reason"])
        shared = found["checkpoint_all"]["peak_bytes"] - RESIDENT
        assert cell["ram_bytes"] == RESIDENT + int(cell["ram_fraction"] * shared)
        assert cell["peak_bytes"] is None or RESIDENT < cell["peak_bytes"] <= cell["ram_bytes"]
    with (tmp_path / "cells.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(cells)
    assert float(rows[-1]["energy_j"]) == cells["poet", 0.9]["energy_j"]
    assert ET.parse(tmp_path / "plot.svg").getroot().tag.endswith("svg")


def test_compare_prints_a_table_with_reasons(tmp_path: Path) -> None:
    only = ("--schedulers", "checkpoint-all,poet", "--fractions", "0.8")
    result = poetfw("compare", *SMALL, *only, cwd=tmp_path)
    assert result.code == 0, result.stderr
    assert " 80%, 58,822 B " in result.stdout  # 53,088 B that never leave RAM, and 80% of 7,168 B
    assert "\\n" not in result.stdout
    assert "costs: analytic" in result.stdout
    assert "checkpoint-all at 0.8: " in result.stdout


def test_budgets_are_fractions_unless_bytes_are_asked_for(tmp_path: Path) -> None:
    only = ("compare", *SMALL, "--schedulers", "checkpoint-all")
    for options, fractions in (((), FRACTIONS), (("--ram", "70K", "--ram", "60K"), None)):
        cells = succeed(*only, *options, cwd=tmp_path)["cells"]
        found = [cell["ram_fraction"] for cell in cells]
        assert found == sorted(fractions) if fractions else len(found) == 2


def test_compare_schedule_and_build_have_one_energy_at_one_budget(tmp_path: Path) -> None:
    ram = ("--ram", "57.5K")
    compared = succeed("compare", *SMALL, "--schedulers", "poet", *ram, cwd=tmp_path)
    scheduled = succeed("schedule", *SMALL, *ram, cwd=tmp_path)
    build = ("build", *SMALL, *ram, "--generate-only", "--out", "built")
    built = succeed(*build, cwd=tmp_path)
    (cell,) = compared["cells"]
    assert cell["ram_bytes"] == scheduled["ram_bytes"] == built["budget_bytes"] == 58_880
    assert cell["energy_j"] == scheduled["energy_j"] == built["schedule"]["energy_j"]
    assert compared["checkpoint_all"]["peak_bytes"] == built["checkpoint_all_peak_bytes"]
    for answer in (cell, scheduled, built["schedule"]):
        assert 57_184 <= answer["peak_bytes"] <= 58_880
    table = poetfw("compare", *SMALL, "--schedulers", "poet", *ram, cwd=tmp_path).stdout
    assert "58,880 B" in table
    assert f"{1e3 * built['schedule']['energy_j']:.3f} mJ" in table
    wrong = poetfw("compare", *SMALL, *ram, "--fractions", "0.5", cwd=tmp_path)
    assert wrong.code == 2
    assert "--fractions does not go with --ram" in wrong.stderr


def test_the_papers_model_can_be_asked_for(tmp_path: Path) -> None:
    only = ("--schedulers", "poet", "--fractions", "0.8")
    device, paper = (
        succeed("compare", *SMALL, *only, "--model-as", name, cwd=tmp_path)
        for name in ("device", "poet")
    )
    assert paper["model_as"] == "poet"
    assert paper["checkpoint_all"]["peak_bytes"] != device["checkpoint_all"]["peak_bytes"]
    assert paper["checkpoint_all"]["energy_j"] == device["checkpoint_all"]["energy_j"]
    alone = succeed(
        *("schedule", *SMALL, "--ram-fraction", "0.8", "--model-as", "poet"), cwd=tmp_path
    )
    assert alone["energy_j"] == paper["cells"][0]["energy_j"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--schedulers", "poet,magic"), 2, "'magic' is not one of"),
        (("--fractions", "0.5,none"), 2, "'none' is not a valid float"),
        (("--fractions", "0.5,-1"), 2, "-1.0 is not in the range x>0"),
        (("--plot", "plot.gif"), 2, "does not end in .svg or .png"),
        (("--solver", "MAGIC", "--schedulers", "poet", "--fractions", "0.8"), 3, "not installed"),
    ],
)
def test_compare_refuses(
    arguments: tuple[str, ...], code: int, message: str, tmp_path: Path
) -> None:
    result = poetfw("compare", *SMALL, *arguments, cwd=tmp_path)
    assert result.code == code
    assert message in result.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_keeps_what_is_done(tmp_path: Path) -> None:
    task = ("--board", "rpi4", "--model", "resnet18", "--fractions", "0.5", "--work-limit", "120")
    command = ("compare", *task, "--schedulers", "tflms,poet", "--csv", "cells.csv")
    errors = interrupted(*command, after="tflms", cwd=tmp_path)
    assert "interrupted after" in errors
    with (tmp_path / "cells.csv").open() as file:
        assert next(csv.DictReader(file))["scheduler"] == "tflms"


# Sweeps -----------------------------------------------------------------------------------------

POETS_M4F = BOARDS / "poet-m4f.toml"  # its card is quick
GRID = ("--boards", f"{POETS_M4F},rpi4", "--models", "mlp", "--batch", "8", "--fractions", "0.8")
QUICK = ("--schedulers", "capuchin,poet", "--deadlines", "1.2,2", "--work-limit", "1")


@pytest.mark.slow
def test_a_sweep_on_processes_and_again_from_its_file(tmp_path: Path) -> None:
    command = ("sweep", *GRID, *QUICK, "--jobs", "2", "--plots", "plots", "--csv", "cells.csv")
    found = succeed(*command, cwd=tmp_path)
    assert (found["points"], found["finished"], found["interrupted"]) == (4, 4, False)
    assert len(found["cells"]) == 8
    assert {cell["deadline_factor"] for cell in found["cells"]} == {1.2, 2.0}
    names = {path.name for path in (tmp_path / "plots").iterdir()}
    assert names == {"energy.svg", "ablation.svg", "capuchin.svg"}
    lines = (tmp_path / "sweep.jsonl").read_text().splitlines(keepends=True)
    assert len(lines) == 5
    (tmp_path / "sweep.jsonl").write_text("".join(lines[:4]) + lines[4][:40])
    again = succeed(*command, cwd=tmp_path)
    assert [cell["energy_j"] for cell in again["cells"]] == [
        cell["energy_j"] for cell in found["cells"]
    ]


def test_a_sweep_prints_reasons_below_each_table(tmp_path: Path) -> None:
    result = poetfw("sweep", *GRID, "--schedulers", "checkpoint-all", "--jobs", "1", cwd=tmp_path)
    assert result.code == 0, result.stderr
    tables = result.stdout.split("energy over that of checkpoint-all")
    assert len(tables) == 3
    assert all("-  checkpoint-all at 0.8: " in table for table in tables[1:])


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_ends_a_sweep_which_then_goes_on(tmp_path: Path) -> None:
    grid = ("--boards", "rpi4", "--models", "resnet18", "--fractions", "0.5,0.9", "--jobs", "1")
    command = ("sweep", *grid, "--schedulers", "poet", "--work-limit", "100", "--deadlines", "none")
    errors = interrupted(*command, after="points", cwd=tmp_path, delay_s=2)
    assert "interrupted after 0 of 2 points; sweep.jsonl keeps them" in errors
    assert len((tmp_path / "sweep.jsonl").read_text().splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--deadlines", "soon"), 2, "'soon' is not a valid float"),
        (("--schedulers", "magic"), 2, "'magic' is not one of"),
        (("--boards", "nowhere"), 1, "nowhere"),
        (("--jobs", "0"), 2, "0 is not in the range"),
    ],
)
def test_sweep_refuses(arguments: tuple[str, ...], code: int, message: str, tmp_path: Path) -> None:
    result = poetfw("sweep", *GRID, *QUICK, *arguments, cwd=tmp_path)
    assert result.code == code
    assert message in result.stderr
    assert not list(tmp_path.iterdir())
