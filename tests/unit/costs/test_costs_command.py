# SPDX-License-Identifier: Apache-2.0
"""`poetfw costs`, and how commands find measured costs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from poetfw.cli.main import cli
from poetfw.costs import Case, Database, read_measurements, to_csv
from poetfw.ir import Dtype
from poetfw.planning import BuildSettings, derive_program, load_model
from unit.costs.test_measured_costs import by_macs, measured, rows_of, transfers

MLP = ("--board", "nrf52840", "--model", "mlp", "--batch", "1")
SOLVE = ("--scheduler", "checkpoint-all", "--json")


def run(*arguments: str) -> Any:
    result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout) if "--json" in arguments else result.stdout


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path


def mlp_rows() -> list[Any]:
    settings = BuildSettings(board="nrf52840", model="mlp", batch=1)
    return rows_of(derive_program(settings, load_model(settings)).training, by_macs)


def test_rows_are_taken_shown_and_given_away(folder: Path) -> None:
    (folder / "rows.csv").write_bytes(to_csv(mlp_rows()))
    found = run("costs", "--import", "rows.csv", "--export", "copy.json", *MLP, "--json")
    rows = read_measurements(folder / "rows.csv")
    assert found["imported"] == found["rows"] == found["usable"] == len(rows)
    assert Path(found["db"]) == folder / "data/poetfw/costs.sqlite"
    assert sorted(read_measurements(folder / "copy.json"), key=repr) == sorted(rows, key=repr)
    assert len([op for op in found["ops"] if op["measured_s"] is None]) == 2  # the loads
    table = run("costs", "--import", "rows.csv", "--db", "other.sqlite")
    assert "2026-01-02T03:04:05Z" in table
    assert len(Database(folder / "other.sqlite").all()) == len(rows)


def test_it_says_how_many_rows_came_of_each_file(folder: Path) -> None:
    for name, rows in {"one.csv": mlp_rows()[:1], "more.csv": mlp_rows(), "none.csv": []}.items():
        (folder / name).write_bytes(to_csv(rows))
    told = ["costs", "--import", "one.csv", "--import", "more.csv", "--import", "none.csv"]
    said = CliRunner().invoke(cli, told, catch_exceptions=False)
    assert said.stderr.splitlines() == [
        "warning: none.csv holds no rows",
        "rows imported from one.csv: 1",
        f"rows imported from more.csv: {len(mlp_rows())}",
        "rows imported from none.csv: 0",
    ]


def test_a_model_for_other_commands_asks_for_no_board(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POETFW_MODEL", "mlp")
    assert run("costs", "--json")["ops"] == []


def test_the_fits_say_how_well_they_do(folder: Path) -> None:
    relus = [Case("relu", (((1, n), Dtype.F32),)) for n in range(1, 20)]
    Database(folder / "db").add([measured(one, 1e-6 * one.inputs[0][0][1]) for one in relus])
    (fit,) = run("costs", "--board", "nrf52840", "--db", "db", "--json")["fits"]
    assert (fit["name"], fit["rows"]) == ("poet_relu_forward_f32", 19)
    assert fit["largest_error"] < 1e-6
    assert "poet_relu_forward_f32" in run("costs", "--board", "nrf52840", "--db", "db")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--model", "mlp"), 2, "--model needs --board"),
        (("--plot", "x.svg"), 2, "--plot needs --model"),
        (("--export", "x.txt"), 2, "does not end in .csv or .json"),
        (("--import", "rows.csv"), 1, "rows.csv cannot be read"),
        (("--import", "bad.csv"), 1, "bad.csv:1: the columns"),
        (("--db", "bad.csv"), 1, "not a database"),
        (("--db", "none.sqlite"), 1, "there is no database of costs none.sqlite"),
    ],
)
def test_what_cannot_be_is_refused(
    arguments: tuple[str, ...], code: int, said: str, folder: Path
) -> None:
    (folder / "bad.csv").write_text("one,two\n" * 1000)
    result = CliRunner().invoke(cli, ["costs", *arguments], standalone_mode=False)
    error = result.exception
    assert error is not None
    assert code == getattr(error, "exit_code", None)
    assert said in (getattr(error, "message", "") or str(error))
    assert not (folder / "data").exists()


def test_plans_take_measured_costs_where_there_are_any(folder: Path) -> None:
    analytic = run("schedule", *MLP, *SOLVE)
    assert analytic["cost_sources"]["measured"] == 0
    path = Database.default_path()
    assert path == folder / "data/poetfw/costs.sqlite"
    Database(path).add([*mlp_rows(), *transfers(1e-6)])
    found = run("schedule", *MLP, *SOLVE)
    assert found["cost_sources"] == {"measured": 20, "fitted": 0, "analytic": 2, "board file": 0}
    assert found["time_s"] != analytic["time_s"]
    assert run("schedule", *MLP, *SOLVE, "--costs", "analytic")["time_s"] == analytic["time_s"]
    compared = run(
        "compare", *MLP, "--schedulers", "checkpoint-all", "--fractions", "0.9", "--json"
    )
    assert compared["costs"] == (
        "20 measured, 2 analytic; paging measured (the board, counted in cycles)"
    )
    assert compared["checkpoint_all"]["time_s"] == found["time_s"]


@pytest.mark.parametrize("command", ["schedule", "build", "compare"])
def test_a_database_that_is_named_and_not_there_is_not_empty(command: str, folder: Path) -> None:
    result = CliRunner().invoke(
        cli, [command, "--board", "nrf52840", "--model", "mlp", "--db", "typo.sqlite"]
    )
    assert "there is no database of costs typo.sqlite" in getattr(result.exception, "message", "")
    assert not (folder / "typo.sqlite").exists()


def test_the_batch_is_the_boards(folder: Path) -> None:
    """As build and profile have it; the MKR1000's file says 4."""
    (folder / "rows.csv").write_bytes(to_csv(mlp_rows()))
    ops = {}
    for batch in ("4", "1"):
        chosen = ("costs", "--board", "mkr1000", "--model", "mlp", "--batch", batch, "--json")
        ops[batch] = run(*chosen)["ops"]
    assert run("costs", "--board", "mkr1000", "--model", "mlp", "--json")["ops"] == ops["4"]
    assert ops["4"] != ops["1"]


@pytest.mark.slow
def test_a_sweep_takes_measured_costs_of_the_boards_that_have_some(folder: Path) -> None:
    Database(Database.default_path()).add(mlp_rows())
    grid = ("--boards", "nrf52840,mkr1000", "--models", "mlp", "--fractions", "0.9")
    swept = run("sweep", *grid, "--schedulers", "checkpoint-all", "--jobs", "1", "--json")
    assert swept["costs"] == {"nrf52840": "measured", "mkr1000": "analytic"}


@pytest.mark.slow
def test_another_measurement_makes_another_sweep(folder: Path) -> None:
    Database(folder / "db").add(mlp_rows())
    sweep = ("sweep", "--boards", "nrf52840", "--models", "mlp", "--fractions", "0.9", "--db", "db")
    sweep += ("--schedulers", "checkpoint-all", "--jobs", "1", "--json")
    assert run(*sweep)["finished"] == 1
    assert run(*sweep)["finished"] == 1
    Database(folder / "db").add(transfers(1e-6))
    result = CliRunner().invoke(cli, sweep)
    assert "something else than this sweep" in str(result.exception)
