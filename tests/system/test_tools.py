# SPDX-License-Identifier: Apache-2.0
"""`poetfw schedule` and `poetfw place` as tools of their own, on the examples that ship."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import pytest

from system.commands import poetfw, succeed

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = ROOT / "examples"


def test_schedule_of_a_problem_can_be_replayed(tmp_path: Path) -> None:
    problem = EXAMPLES / "chain.json"
    answer = succeed("schedule", "--problem", problem, cwd=tmp_path)
    assert answer["status"] == "optimal"
    assert answer["bound_covers"] == "all plans"
    assert answer["energy_j"] == answer["compute_energy_j"] + answer["paging_energy_j"]
    assert answer["peak_bytes"] <= json.loads(problem.read_text())["ram_bytes"]
    (tmp_path / "answer.json").write_text(json.dumps(answer))
    again = succeed("schedule", "--problem", problem, "--replay", "answer.json", cwd=tmp_path)
    assert again["legal"]
    for figure in ("energy_j", "time_s", "peak_bytes", "recomputes", "page_ins", "page_outs"):
        assert again[figure] == answer[figure]


def test_replay_refuses_a_plan_that_forgets_a_step(tmp_path: Path) -> None:
    problem = EXAMPLES / "chain.json"
    answer = succeed("schedule", "--problem", problem, cwd=tmp_path)
    answer["plan"] = [step for step in answer["plan"] if step["node"] != "forward4"]
    (tmp_path / "answer.json").write_text(json.dumps(answer))
    result = poetfw("schedule", "--problem", problem, "--replay", "answer.json", cwd=tmp_path)
    assert result.code == 1
    assert "forward4" in result.stderr


def test_less_ram_never_takes_less_energy(tmp_path: Path) -> None:
    energies = [
        succeed(
            *("schedule", "--problem", EXAMPLES / "chain.json", "--ram-fraction", share),
            cwd=tmp_path,
        )["energy_j"]
        for share in ("1", "0.8", "0.6", "0.5")
    ]
    assert energies == sorted(energies)


def test_an_answer_says_its_limits(tmp_path: Path) -> None:
    chain = ("schedule", "--problem", EXAMPLES / "chain.json")
    limits = ("--ram-fraction", "0.8", "--deadline", "3600")
    by_share = succeed(*chain, *limits, cwd=tmp_path)
    keep = ("--scheduler", "checkpoint-all", "--ram-fraction", "1")
    all_kept = succeed(*chain, *keep, cwd=tmp_path)
    assert by_share["ram_bytes"] == int(0.8 * all_kept["peak_bytes"])
    assert by_share["deadline_s"] == 3600
    by_bytes = succeed(*chain, "--ram", str(by_share["ram_bytes"]), cwd=tmp_path)
    assert by_bytes["energy_j"] == by_share["energy_j"]


def test_place_writes_offsets(tmp_path: Path) -> None:
    placed = succeed("place", EXAMPLES / "buffers.csv", "--out", "placed.csv", cwd=tmp_path)
    assert placed["status"] == "optimal"
    assert placed["height_bytes"] == placed["lower_bound_bytes"]
    with (tmp_path / "placed.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == [buffer["id"] for buffer in placed["buffers"]]
    assert max(int(row["offset"]) + int(row["size"]) for row in rows) == placed["height_bytes"]


def test_place_never_writes_in_the_place_of_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for name in ("pipe", "link"):
        refused = poetfw("place", EXAMPLES / "buffers.csv", "--out", name, cwd=tmp_path)
        assert refused.code == 1
        assert f"cannot write {name}: it is not a regular file" in refused.stderr
    assert (tmp_path / "pipe").is_fifo()
    assert (tmp_path / "link").is_symlink()


def test_place_reports_on_banks(tmp_path: Path) -> None:
    (tmp_path / "buffers.csv").write_text(
        "id,lower,upper,size,bank\na,0,2,600,slow\nb,1,3,400,fast\n"
    )
    banks = ("--bank", "fast=0:512", "--bank", "slow=400:4096")
    placed = succeed("place", "buffers.csv", *banks, cwd=tmp_path)
    assert {b["id"]: b["offset"] for b in placed["buffers"]} == {"a": 400, "b": 0}
    assert [(use["bank"]["name"], use["size_bytes"]) for use in placed["banks"]] == [
        ("fast", 400),
        ("slow", 600),
    ]
    table = poetfw("place", "buffers.csv", *banks, cwd=tmp_path)
    assert "1 of 1 buffers that prefer it, 600 B of 600 B" in table.stdout
    (tmp_path / "poetfw.toml").write_text('[place]\nbank = "fast=0:512,slow=400:4096"\n')
    again = succeed("place", "buffers.csv", cwd=tmp_path)
    assert again["banks"] == placed["banks"]
    refused = poetfw("place", "buffers.csv", "--bank", "fast=0-512", cwd=tmp_path)
    assert refused.code == 2
    assert "'fast=0-512' is not NAME=LOWER:UPPER" in refused.stderr


def test_the_example_of_banks_meets_every_preference(tmp_path: Path) -> None:
    banks = ("--bank", "fast=0:65536", "--bank", "slow=65536:262144")
    placed = succeed("place", EXAMPLES / "banks.csv", *banks, cwd=tmp_path)
    assert placed["height_bytes"] == placed["lower_bound_bytes"] == 163840
    assert all(use["buffers"] == use["of_buffers"] == 3 for use in placed["banks"])


@pytest.mark.parametrize("as_json", [True, False])
def test_place_says_what_is_impossible(tmp_path: Path, as_json: bool) -> None:
    flags = ["--json"] if as_json else []
    buffers = EXAMPLES / "buffers.csv"
    result = poetfw("place", buffers, "--capacity", "1000", *flags, cwd=tmp_path)
    assert result.code == 5
    assert "proven impossible within 1,000 bytes" in result.stderr
    if as_json:
        assert result.json["error"]["minimum_budget_bytes"] > 1000


@pytest.mark.parametrize("flag", [("--board", "nrf52840"), ("--model", "mlp"), ("--batch", "2")])
def test_a_problem_and_a_flag_that_it_has_no_use_for_are_refused(
    tmp_path: Path, flag: tuple[str, str]
) -> None:
    result = poetfw("schedule", "--problem", EXAMPLES / "chain.json", *flag, cwd=tmp_path)
    assert result.code == 2
    assert f"{flag[0]} does not go with --problem" in result.stderr


def test_settings_for_other_commands_do_not_stand_in_the_way_of_a_problem(tmp_path: Path) -> None:
    (tmp_path / "poetfw.toml").write_text('board = "nrf52840"\nmodel = "mlp"\n')
    settings = {"POETFW_MODEL": "lenet5", "POETFW_BATCH": "4"}
    problem = EXAMPLES / "chain.json"
    answer = succeed("schedule", "--problem", problem, cwd=tmp_path, **settings)
    assert {step["node"] for step in answer["plan"]} >= {"forward1", "backward1"}


def test_an_exported_problem_is_the_one_that_was_solved(tmp_path: Path) -> None:
    model = ("--board", "nrf52840", "--model", "mlp", "--batch", "4", "--ram-fraction", "0.9")
    result = poetfw("schedule", *model, "--export", "problem.json", cwd=tmp_path)
    assert result.code == 0
    assert result.stdout == ""
    solved = succeed("schedule", *model, cwd=tmp_path)
    again = succeed("schedule", "--problem", "problem.json", cwd=tmp_path)
    assert again["energy_j"] == solved["energy_j"]
    assert again["plan"] == solved["plan"]


def test_the_example_is_what_is_exported(tmp_path: Path) -> None:
    model = ("--board", "nrf52840", "--model", "digits-cnn", "--batch", "32")
    assert poetfw("schedule", *model, "--export", "problem.json", cwd=tmp_path).code == 0
    exported = json.loads((tmp_path / "problem.json").read_text())
    assert exported == json.loads((EXAMPLES / "digits-cnn.json").read_text())


@pytest.mark.parametrize(
    "model", ["resnet18", "resnet50", "mobilenetv2", "vgg16", "bert-base", "bert-mini"]
)
def test_the_page_on_models_has_their_peaks(tmp_path: Path, model: str) -> None:
    problem = ("schedule", "--board", "rpi4", "--model", model, "--ram-fraction", "1")
    assert poetfw(*problem, "--export", "problem.json", cwd=tmp_path).code == 0
    resident = json.loads((tmp_path / "problem.json").read_text())["resident_bytes"]
    exported = ("schedule", "--problem", "problem.json", "--scheduler", "checkpoint-all")
    answer = succeed(*exported, cwd=tmp_path)
    ops = len({step["node"] for step in answer["plan"]})
    rows = (ROOT / "docs" / "models.md").read_text().splitlines()
    (row,) = (row for row in rows if row.startswith(f"| `{model}` | {ops:,} |"))
    assert f"| {answer['peak_bytes'] - resident:,} B |" in row


def test_the_projects_folder_is_no_file_of_placements(tmp_path: Path) -> None:
    (tmp_path / "poetfw.toml").write_text('out = "project"\n')
    arguments = ("place", EXAMPLES / "buffers.csv")
    succeed(*arguments, cwd=tmp_path, POETFW_OUT="other")
    assert [path.name for path in tmp_path.iterdir()] == ["poetfw.toml"]
    succeed(*arguments, cwd=tmp_path, POETFW_PLACE_OUT="placed.csv")
    (tmp_path / "poetfw.toml").write_text('[place]\nout = "again.csv"\n')
    succeed(*arguments, cwd=tmp_path)
    assert (tmp_path / "again.csv").read_text() == (tmp_path / "placed.csv").read_text()
