# SPDX-License-Identifier: Apache-2.0
"""`poetfw schedule --devices`, from device files to an answer and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from poetfw.cli.main import cli

FILES = Path(__file__).parents[3] / "examples" / "devices"
PAIR = ",".join(str(FILES / f"igpu-{name}.toml") for name in ("gpu", "cpu"))
SMALL = ("--devices", PAIR, "--model", "mlp", "--ram-fraction", "0.9,1.0", "--work-limit", "5")


def schedule(*arguments: str) -> Any:
    result = CliRunner().invoke(cli, ("schedule", *arguments, "--json"), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_an_answer_is_what_its_replay_and_its_problem_come_to(tmp_path: Path) -> None:
    answer = schedule(*SMALL)
    # A launch on the graphics unit takes longer than any op of so small a network.
    assert answer["computed"]["igpu-gpu"] == 0
    assert answer["ceiling"] <= answer["time_s"]
    (tmp_path / "answer.json").write_text(json.dumps(answer))
    replayed = schedule(*SMALL, "--replay", str(tmp_path / "answer.json"))
    assert {key: answer[key] for key in replayed if key != "legal"} == {
        key: value for key, value in replayed.items() if key != "legal"
    }
    arguments = ("schedule", *SMALL, "--replay", str(tmp_path / "answer.json"), "--batch", "2")
    assert "bytes there, and" in str(CliRunner().invoke(cli, arguments).exception)
    exported = str(tmp_path / "problem.json")
    CliRunner().invoke(cli, ("schedule", *SMALL, "--export", exported), catch_exceptions=False)
    assert schedule("--devices", exported, "--work-limit", "5")["plan"] == answer["plan"]


@pytest.mark.parametrize("pair", [("tx2-a57", "tx2-gpu"), ("igpu-cpu", "igpu-gpu")])
def test_the_examples_are_pairs(pair: tuple[str, str]) -> None:
    from poetfw.planning import load_devices_problem
    from poetfw.schedule.several import validate_devices

    problem = load_devices_problem([FILES / f"{name}.toml" for name in pair], "mlp")
    validate_devices(problem)
    assert {(link.source, link.target) for link in problem.links} == {pair, pair[::-1]}


def test_devices_at_once_are_drawn_and_replayed(tmp_path: Path) -> None:
    picture = tmp_path / "plan.svg"
    answer = schedule(*SMALL, "--parallel", "--plot", str(picture))
    assert answer["bound"] <= answer["time_s"] <= answer["at_once"]["sequential_s"] * (1 + 1e-12)
    drawn = picture.read_text()
    assert "who computes what when" in drawn.lower()
    counts = {"computed": "computed", "computed again": "recomputes", "copied": "copies"}
    counts["paged"] = "page_outs"
    legend = {what for what in counts if f">{what}<" in drawn}
    assert legend == {what for what, count in counts.items() if answer[count]}
    (tmp_path / "answer.json").write_text(json.dumps(answer))
    again = tmp_path / "again.svg"
    replay = ("--replay", str(tmp_path / "answer.json"))
    replayed = schedule(*SMALL, "--parallel", *replay, "--plot", str(again))
    assert replayed["time_s"] == answer["time_s"]
    assert again.read_bytes() == picture.read_bytes()
    exported = str(tmp_path / "problem.json")
    with_parallel = ("schedule", *SMALL, "--parallel", "--export", exported)
    CliRunner().invoke(cli, with_parallel, catch_exceptions=False)
    assert schedule("--devices", exported, *replay)["time_s"] == answer["time_s"]


def test_one_device_is_a_file_of_it_or_a_problem(tmp_path: Path) -> None:
    file, exported = str(FILES / "igpu-cpu.toml"), str(tmp_path / "problem.json")
    alone = ("--devices", file, "--model", "mlp", "--work-limit", "1")
    answer = schedule(*alone)
    assert list(answer["computed"]) == ["igpu-cpu"]
    assert CliRunner().invoke(cli, ("schedule", *alone, "--export", exported)).exit_code == 0
    assert schedule("--devices", exported, "--work-limit", "1")["plan"] == answer["plan"]
    refused = CliRunner().invoke(cli, ("schedule", "--devices", f"{exported},{exported}"))
    assert refused.exit_code == 2
    assert "--devices with device files needs --model" in refused.stderr


def test_a_device_lacks_operators_that_there_are(tmp_path: Path) -> None:
    file = tmp_path / "odd.toml"
    file.write_text('lacks = ["nope"]\n' + (FILES / "igpu-gpu.toml").read_text())
    arguments = ("schedule", "--devices", f"{file},{FILES / 'igpu-cpu.toml'}", "--model", "mlp")
    assert "there is no operator 'nope'" in str(CliRunner().invoke(cli, arguments).exception)


def test_nothing_takes_no_energy() -> None:
    arguments = ("schedule", *SMALL, "--minimise", "energy")
    result = CliRunner().invoke(cli, arguments)
    assert "no device file gives its power" in str(result.exception)
    result = CliRunner().invoke(cli, (*arguments, "--board", "rpi4"))
    assert result.exit_code == 2
    assert "--board does not go with --devices" in result.stderr


@pytest.mark.parametrize("given", ["--solver=HIGHS", "--model-as=poet", "--costs=analytic"])
def test_devices_take_no_options_of_a_board(given: str) -> None:
    arguments = ("compare", "--devices", "igpu-gpu,igpu-cpu", "--model", "mlp", given)
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 2
    assert f"{given.partition('=')[0]} does not go with --devices" in result.stderr


@pytest.mark.parametrize("given", ["--scheduler=poet", "--model-as=poet", "--costs=analytic"])
def test_a_schedule_of_devices_takes_no_options_of_a_board(given: str) -> None:
    result = CliRunner().invoke(cli, ("schedule", *SMALL, given))
    assert result.exit_code == 2
    assert f"{given.partition('=')[0]} does not go with --devices" in result.stderr


@pytest.mark.parametrize("command", ["schedule", "compare"])
def test_settings_that_devices_do_not_use_are_named(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "poetfw.toml").write_text('costs = "analytic"\nmodel = "mlp"\n')
    monkeypatch.setenv("POETFW_BOARD", "linux")
    arguments = (command, "--devices", PAIR, "--work-limit", "0.1", "--json")
    result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    said = " ".join(result.stderr.split())
    for where in ("--board (environment variable POETFW_BOARD)", "--costs (poetfw.toml)"):
        assert f"{where} does not go with --devices: it is not used" in said
    assert "--model" not in said
    json.loads(result.stdout)


def test_devices_are_compared_with_each_alone() -> None:
    arguments = ("--devices", PAIR, "--model", "mlp", "--fractions", "0.9,1.0", "--work-limit", "2")
    result = CliRunner().invoke(cli, ("compare", *arguments, "--json"), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    rows = {row["name"]: row for row in answer["rows"]}
    times = {name: row["time_s"] for name, row in rows.items()}
    assert rows["igpu-gpu alone"]["time_s"] is None
    assert rows["igpu-gpu alone"]["reason"]
    assert answer["best_alone_s"] == min(
        row["time_s"] for row in rows.values() if row["alone"] and row["time_s"]
    )
    assert times["no memory limits"] <= times["all, in turn"] <= answer["best_alone_s"]
    assert times["critical path"] <= times["all at once"] <= times["all, in turn"]
    printed = CliRunner().invoke(cli, ("compare", *arguments), catch_exceptions=False).output
    assert "balanced work" in printed
    assert "no plan beats it" in printed
