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
    exported = str(tmp_path / "problem.json")
    CliRunner().invoke(cli, ("schedule", *SMALL, "--export", exported), catch_exceptions=False)
    assert schedule("--devices", exported, "--work-limit", "5")["plan"] == answer["plan"]


@pytest.mark.parametrize("pair", [("tx2-a57", "tx2-gpu"), ("igpu-cpu", "igpu-gpu")])
def test_the_examples_are_pairs(pair: tuple[str, str]) -> None:
    from poetfw.planning import load_devices_problem
    from poetfw.schedule.devices import validate_devices

    problem = load_devices_problem([FILES / f"{name}.toml" for name in pair], "mlp")
    validate_devices(problem)
    assert {(link.source, link.target) for link in problem.links} == {pair, pair[::-1]}
