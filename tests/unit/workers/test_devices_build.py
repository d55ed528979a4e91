# SPDX-License-Identifier: Apache-2.0
"""`poetfw build --devices`: what it refuses, and what it decides before anything is compiled."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from poetfw.boards import family_threads
from poetfw.cli.main import cli
from poetfw.cli.run import _planned_rows
from poetfw.common.errors import DeviceError, InfeasibleError, PlanError, PoetfwError
from poetfw.common.limits import Work
from poetfw.costs import analytic_costs
from poetfw.memory import ONLY, DeviceArena, Part
from poetfw.ops.tile_tables import no_tiles
from poetfw.planning import plan_evaluation, plan_on_devices
from poetfw.report import RunReport
from poetfw.report.stage_files import _training_json, step_costs_of, training_of
from poetfw.schedule import StepKind
from poetfw.schedule.several import DevicesProblem, device_step_costs
from poetfw.tools import run_firmware
from unit.workers.device_plans import FILES, PAIR, Case, any_plan, case_of, placed, placed_parts

PAIR_TEXT = ",".join(map(str, PAIR))


@pytest.fixture(scope="module")
def case() -> Case:
    return case_of("mlp")


def build(*arguments: str | Path) -> tuple[int, str]:
    """The exit code, and what is said, of a build that ends with an error."""
    result = CliRunner().invoke(cli, ("build", *map(str, arguments)))
    if isinstance(result.exception, PoetfwError):
        return result.exception.exit_code, result.exception.message
    return result.exit_code, result.output


def limited(problem: DevicesProblem, ram_bytes: int) -> DevicesProblem:
    """The problem where each device has so much RAM."""
    return replace(
        problem,
        devices=tuple(
            replace(device, problem=replace(device.problem, ram_bytes=ram_bytes))
            for device in problem.devices
        ),
    )


def changed(folder: Path, number: int, old: str, new: str) -> str:
    """The pair of device files with a text replaced in one of them."""
    paths = []
    for n, path in enumerate(PAIR):
        text = path.read_text()
        assert old in text
        (folder / path.name).write_text(text.replace(old, new) if n == number else text)
        paths.append(str(folder / path.name))
    return ",".join(paths)


@pytest.mark.parametrize(
    ("new", "said"),
    [
        ("", "linux-small.toml: board is missing"),
        ('board = "rpi4"', "of different boards: linux, rpi4"),
        ('board = "none"', "board"),
        ("board = 7", "linux-small.toml: at board"),
    ],
)
def test_a_device_needs_the_board_of_the_other(tmp_path: Path, new: str, said: str) -> None:
    code, message = build("--devices", changed(tmp_path, 1, 'board = "linux"', new))
    assert code == 1
    assert said in message


def test_a_board_needs_threads(tmp_path: Path) -> None:
    text = PAIR[0].read_text().replace('"linux"', '"nrf52840"')
    other = PAIR[1].read_text().replace('"linux"', '"nrf52840"')
    (tmp_path / "a.toml").write_text(text)
    (tmp_path / "b.toml").write_text(other)
    code, message = build("--devices", f"{tmp_path / 'a.toml'},{tmp_path / 'b.toml'}")
    assert code == 1
    assert "runs one thread only" in message
    assert family_threads("posix")
    assert not family_threads("no-such-family")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((), 2, "either --board, or --devices"),
        (("--board", "linux", "--devices", PAIR_TEXT), 2, "--board does not go with --devices"),
        (("--devices", PAIR_TEXT, "--ram", "1000"), 2, "--ram does not go with --devices"),
        (("--devices", PAIR_TEXT, "--slices"), 2, "--slices does not go with --devices"),
        (("--board", "linux", "--parallel"), 2, "--parallel needs --devices"),
        (("--devices", str(PAIR[0])), 1, "two device files or more"),
        (("--devices", PAIR_TEXT, "--model", "mlp", "--ram-fraction", "0.5"), 1, "1 values for 2"),
        (("--devices", PAIR_TEXT, "--replay", "none.json"), 1, "none.json cannot be read"),
    ],
)
def test_options_that_do_not_go_together(arguments: tuple[str, ...], code: int, said: str) -> None:
    found, message = build(*arguments)
    assert found == code, message
    assert said in message


def test_settings_that_devices_do_not_use_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "poetfw.toml").write_text("[build]\nring = 4\n")
    monkeypatch.setenv("POETFW_SCHEDULER", "checkpoint-all")
    ends = ("--devices", PAIR_TEXT, "--replay", "none.json")
    said = " ".join(CliRunner().invoke(cli, ("build", *ends)).stderr.split())
    assert "--ring (poetfw.toml) does not go with --devices: it is not used" in said
    assert "--scheduler (environment variable POETFW_SCHEDULER) does not go" in said


def test_limits_below_the_largest_op_name_it() -> None:
    fractions = ("--ram-fraction", "0.01,0.01", "--batch", "4")
    code, message = build("--devices", PAIR_TEXT, "--model", "mlp", *fractions)
    assert code == 5
    assert "node 'hidden1' fits on no device: it needs 2,048 bytes on 'linux-big'" in message


def decide(case: Case, problem: DevicesProblem, **options: Any) -> Any:
    evaluation = plan_evaluation(case.program, case.board, analytic_costs)
    return plan_on_devices(
        case.program, evaluation, problem, options.get("plan"), Work(4), lambda *_: None
    )


def test_a_plan_of_other_devices_is_refused(case: Case) -> None:
    plan = tuple(
        step._replace(device=step.device.replace("big", "huge"))
        for step in any_plan(case.problem, 1)
    )
    with pytest.raises(PlanError, match="no device 'linux-huge'"):
        decide(case, case.problem, plan=plan)


def test_a_plan_of_another_model_is_refused(case: Case) -> None:
    with pytest.raises(PlanError, match="there is no such node"):
        decide(case, case.problem, plan=any_plan(case_of("digits-cnn").problem, 1))


def test_an_answer_for_another_batch_is_refused(tmp_path: Path) -> None:
    arguments = ("--devices", PAIR_TEXT, "--model", "mlp", "--ram-fraction", "0.9,1.0")
    solved = CliRunner().invoke(
        cli, ("schedule", *arguments, "--batch", "4", "--work-limit", "1", "--json")
    )
    (tmp_path / "answer.json").write_text(solved.stdout)
    replay = (*arguments, "--replay", str(tmp_path / "answer.json"), "--generate-only")
    code, message = build(*replay, "--batch", "8", "--out", str(tmp_path / "other"))
    assert code == 1
    assert "bytes there, and" in message
    assert not (tmp_path / "other").exists()
    code, message = build(*replay, "--batch", "4", "--out", str(tmp_path / "same"))
    assert code == 0, message


def test_a_plan_beyond_a_limit_is_refused(case: Case) -> None:
    with pytest.raises(PlanError, match="bytes of a budget of 3,000"):
        decide(case, limited(case.problem, 3_000), plan=any_plan(case.problem, 1))


def test_addresses_beyond_a_limit_are_refused(case: Case) -> None:
    """The link's buffer, of 12 bytes by the plan, takes 16: no address is not a multiple of 8."""
    links = tuple(replace(link, buffer_bytes=12) for link in case.problem.links)
    problem = replace(case.problem, links=links)
    plan = any_plan(problem, 1)
    buffers = {(link.source, link.target): 12 for link in links}
    step, _ = placed_parts(case, plan, buffers=buffers)
    largest = max(part.arena.size_bytes for part in step.parts)
    with pytest.raises((InfeasibleError, PlanError)) as found:
        decide(case, limited(problem, largest - 4), plan=plan)
    assert f"{largest - 4:,}" in found.value.message


def test_an_evaluation_that_fits_nowhere_is_said(case: Case) -> None:
    limits = {"linux-big": 500, "linux-small": 400}
    with pytest.raises(InfeasibleError, match="evaluation step fits on no device"):
        placed_parts(case, any_plan(case.problem, 1), limits)


@pytest.mark.slow
def test_a_search_keeps_to_its_limits(case: Case) -> None:
    """So that addresses fit where it pays: the plan is searched again with less."""
    found = decide(case, limited(case.problem, 4_000))
    arenas = [part.arena for part in found.step.parts]
    assert all(a.size_bytes <= a.limit_bytes == 4_000 for a in arenas)
    assert found.limit_bytes == min(a.offset for a in arenas) + 8_000
    assert found.training.peak_bytes <= 8_000


def test_plans_are_read_as_they_were_written(case: Case) -> None:
    written = placed(case, any_plan(case.problem, 1)).step
    costs = device_step_costs(case.problem, written.steps)
    training = _training_json(written, costs, case.program.training, no_tiles)
    document = json.loads(json.dumps(training))
    assert training_of(document) == written
    assert step_costs_of(document) == costs
    for broken in (
        {"parts": document["parts"][:1]},
        {"parts": [{**document["parts"][0], "arena": {"offset": "x"}}]},
        {"training": [*document["training"], {**document["training"][0], "step": "page_out"}]},
        {"training": [{"step": "fly", "node": "x", "device": "linux-big"}]},
    ):
        with pytest.raises((PlanError, ValueError)):
            training_of({**document, **broken})


def test_a_plan_that_no_program_runs_is_refused(case: Case) -> None:
    plan = placed(case, any_plan(case.problem, 1)).step
    page = plan.steps[0]._replace(kind=StepKind.PAGE_OUT)
    with pytest.raises(PlanError, match="the plan pages tensors, which is not supported"):
        replace(plan, steps=(*plan.steps, page))
    other = Part("other", DeviceArena("other", 0, 0, 0))
    with pytest.raises(PlanError, match="devices of the plan share one of several memories"):
        replace(plan, parts=(*plan.parts, other))
    with pytest.raises(PlanError, match="the plan has no arena of 'linux-huge'"):
        replace(plan, steps=(*plan.steps, page._replace(device="linux-huge")))


def test_the_console_counts_arenas_in_their_order(tmp_path: Path) -> None:
    lines = ["@arena 1 high_water=64", "@arena 3 high_water=9", "@arena 2 high_water=128"]
    lines.append("@done ticks=1 tick_unit=ns high_water=200 stack_high_water=0 read=0 written=0")
    script = "; ".join(f"echo '{line}'" for line in lines)
    log = run_firmware(["/bin/sh", "-c", script], tmp_path, 10.0, steps=0, evaluations=0)
    assert log.arenas == (64, 128)
    script = "echo '@error status=-96 at=train'; exit 1"
    with pytest.raises(DeviceError, match="-96 at=train: a worker cannot be started, or hangs"):
        run_firmware(["/bin/sh", "-c", script], tmp_path, 10.0, steps=1, evaluations=0)


def test_a_plans_time_is_that_of_the_devices_in_the_files() -> None:
    report = RunReport(
        **{field.name: None for field in fields(RunReport)}
        | {"planned_step_s": 1.25e-05, "step_s": 0.5, "arenas": {"linux-big": 64}}
    )
    assert _planned_rows(report) == [("planned time per step, on its devices", "1.25e-05 s")]
    alone = _planned_rows(
        replace(report, arenas={ONLY: 64}, planned_by="1 measured, 2 by the board file")
    )
    assert alone[0][1].startswith("0.0000 s, -100")
    assert alone[1:] == [("… by costs", "1 measured, 2 by the board file")]


def test_only_figures_of_one_unit_are_compared() -> None:
    counted = RunReport(
        **{field.name: None for field in fields(RunReport)}
        | {"planned_step_s": 0.5, "step_s": 0.25, "arenas": {ONLY: 64}, "planned_by": "analytic"}
        | {"emulated": True, "step_instructions": 1000.0, "planned_instructions": 1020.0}
    )
    rows = dict(_planned_rows(counted))
    assert rows["planned time per step"] == "0.5000 s"
    assert rows["instructions per step"] == "1,000; 1,020 planned, +2.0%"
    without = dict(_planned_rows(replace(counted, planned_instructions=None)))
    assert without["instructions per step"] == "1,000"
    board = replace(counted, emulated=False, step_instructions=None)
    assert dict(_planned_rows(board))["planned time per step"] == "0.5000 s, +100.0%"


def test_the_examples_say_their_boards() -> None:
    boards = {path.stem: "board = " in path.read_text() for path in FILES.glob("*.toml")}
    assert {name for name, has in boards.items() if has} == {
        *("linux-big", "linux-small", "tx2-a57", "tx2-denver2", "gateway", "sensor"),
    }
