# SPDX-License-Identifier: Apache-2.0
"""`poetfw check`: limits, exit code, and what grew between two builds, part by part."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

import poetfw
from poetfw.api.check_summary import to_markdown
from poetfw.api.checks import check_build, measured_accuracy
from poetfw.api.firmware import Firmware
from poetfw.cli.check import EXIT_CHECK
from poetfw.common.errors import ConfigError, OutputError
from poetfw.comparisons.inventory import arena_spans, changes, read_inventory, shares
from poetfw.memory import MemoryPlan
from poetfw.settings.check import CheckLimits
from system import commands
from system.commands import Result, needs_twin
from unit.project.spdx import ROOT

BOARD = "nrf52840"
BASH = str(shutil.which("bash"))


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> tuple[Firmware, Firmware]:
    """A build, and one whose batch is twice as large."""
    folder = tmp_path_factory.mktemp("check")
    one, two = (
        poetfw.plan("mlp", board=BOARD, batch=batch, work_limit=1).compile(folder / str(batch))
        for batch in (8, 16)
    )
    return one, two


def check(*words: str | Path, **environment: str) -> Result:
    return commands.poetfw("check", *words, cwd=Path.cwd(), **environment)


@needs_twin
def test_parts_add_up_to_the_figures(builds: tuple[Firmware, Firmware]) -> None:
    for firmware in builds:
        report = firmware.figures
        found = read_inventory(firmware.folder, report)
        for parts, total in (
            (found.ram_bytes, report.ram_bytes),
            (found.flash_bytes, report.flash_bytes),
            (found.energy_j, report.schedule.energy_j),
            (found.time_s, report.schedule.time_s),
        ):
            assert parts is not None
            assert total is not None
            assert sum(parts.values()) == pytest.approx(total, rel=1e-9)
            assert all(amount > 0 for amount in parts.values())
        assert found.ram_bytes is not None
        assert found.ram_bytes["hidden1.weight"] == 64 * 64 * 4
        assert found.flash_bytes is not None
        assert found.flash_bytes["poet_train_step"] > 100


@needs_twin
def test_a_batch_twice_as_large_is_explained(builds: tuple[Firmware, Firmware]) -> None:
    base, firmware = builds
    report = check_build(firmware, CheckLimits(), base.folder / "build.json")
    assert report.ok
    assert report.missing == ()
    reasons = {one.name: one for one in report.reasons}
    figures = {one.name: one for one in report.figures}
    for name, one in reasons.items():
        figure = figures[name]
        assert figure.base is not None
        grown = sum(change.difference for change in one.changes)
        assert grown == pytest.approx(figure.value - figure.base, rel=1e-9)
    in_ram = {change.name: change for change in reasons["RAM"].changes}
    assert (in_ram["x"].before, in_ram["x"].after) == (8 * 64 * 4, 16 * 64 * 4)
    assert "hidden1.weight" not in in_ram
    assert reasons["energy"].changes[0].name == "load x"
    same = check_build(base, CheckLimits(), base.folder)
    assert same.reasons == ()
    assert all(one.value == one.base for one in same.figures)


@needs_twin
def test_limits_and_the_exit_code(builds: tuple[Firmware, Firmware], tmp_path: Path) -> None:
    base, firmware = builds
    ram, flash = firmware.figures.ram_bytes, firmware.figures.flash_bytes
    assert ram is not None
    assert flash is not None
    schedule = firmware.figures.schedule
    exact = {
        "--max-ram": ram,
        "--max-flash": flash,
        "--max-step-s": schedule.time_s,
        "--max-energy-j": schedule.energy_j,
    }
    kept = [str(word) for pair in exact.items() for word in pair]
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    result = check("--out", firmware.folder, *kept, "--json", GITHUB_STEP_SUMMARY=str(summary))
    assert (result.code, result.json["ok"]) == (0, True), result.stderr
    text = summary.read_text()
    assert text.startswith("before\n### poetfw: mlp on nrf52840, batch 16: all limits kept")
    for flag, value in exact.items():
        below = value - 1 if isinstance(value, int) else value * (1 - 1e-9)
        result = check("--out", firmware.folder, flag, str(below), "--json")
        assert result.code == EXIT_CHECK, flag
        assert sum(not one["ok"] for one in result.json["figures"]) == 1
    result = check("--out", firmware.folder, "--max-ram", "1", "--against", base.folder)
    assert result.code == EXIT_CHECK
    assert "EXCEEDED" in result.stdout
    assert "RAM: 4 parts differ" in result.stdout


@needs_twin
def test_accuracy(builds: tuple[Firmware, Firmware], tmp_path: Path) -> None:
    base, _ = builds
    run = tmp_path / "run.json"
    run.write_text(json.dumps({"accuracy": 0.75}))
    words = ("--out", base.folder, "--accuracy-of", run, "--json")
    assert check(*words, "--min-accuracy", "0.75").code == 0
    missed = check(*words, "--min-accuracy", "0.76")
    assert missed.code == EXIT_CHECK
    for text, said in (
        ("[]", "is not what `poetfw run --json` printed"),
        ('{"accuracy": null}', "holds no accuracy: null"),
        ('{"accuracy": 2.0}', "holds no accuracy: 2.0"),
    ):
        run.write_text(text)
        refused = check(*words, "--min-accuracy", "0.5")
        assert refused.code == 1
        assert said in refused.json["error"]["message"]
    assert check(*words).code == 2  # --accuracy-of needs --min-accuracy
    assert check("--out", base.folder, "--min-accuracy", "nan").code == 2


def test_accuracy_is_that_of_a_training() -> None:
    trained = SimpleNamespace(accuracy=0.75)
    firmware: Any = SimpleNamespace(train=lambda *_: trained)
    assert measured_accuracy(firmware, lambda *_: None) == 0.75
    trained.accuracy = None
    with pytest.raises(ConfigError, match="this network has a held-out loss"):
        measured_accuracy(firmware, lambda *_: None)


@needs_twin
def test_a_base_without_its_files(builds: tuple[Firmware, Firmware], tmp_path: Path) -> None:
    base, firmware = builds
    shutil.copy(base.folder / "build.json", tmp_path)
    report = check_build(firmware, CheckLimits(), tmp_path / "build.json")
    assert report.reasons == ()
    assert len(report.missing) == 4
    assert all("base's folder lacks" in one for one in report.missing)
    assert {one.base is None for one in report.figures} == {False}
    (tmp_path / "costs.json").write_text("{")
    with pytest.raises(OutputError, match=r"costs\.json cannot be read"):
        check_build(firmware, CheckLimits(), tmp_path)
    (tmp_path / "costs.json").write_text('{"ops": 3}')
    shutil.copy(base.folder / "plan.json", tmp_path)
    with pytest.raises(OutputError, match="not what a build wrote"):
        check_build(firmware, CheckLimits(), tmp_path)
    uncompiled = replace(firmware.figures.memories[""], ram_bytes=None, flash_bytes=None)
    written = replace(firmware.figures, memories={"": uncompiled})
    with pytest.raises(OutputError, match="generated but not compiled: its RAM"):
        check_build(replace(firmware, figures=written), CheckLimits(ram_bytes=1))


@needs_twin
def test_names_do_not_become_markup(builds: tuple[Firmware, Firmware]) -> None:
    report = check_build(builds[0], CheckLimits())
    text = to_markdown(replace(report, title="<img src=x> | `a` [b](c)\n# d"))
    first = text.splitlines()[0]
    assert not set("<>`[]|").intersection(first)
    assert "# d" in first


def test_spans_that_overlap_count_once() -> None:
    assert shares([("a", 0, 10), ("b", 5, 12), ("c", 0, 4), ("d", 20, 30)]) == {
        "a": 10,
        "b": 2,
        "c": 0,
        "d": 10,
    }
    assert changes({"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 4, "d": 9})[0].name == "d"


def test_the_fullest_step() -> None:
    def stay(owner: str, lower: int, upper: int, offset: int, size: int) -> dict[str, Any]:
        place = {"lower": lower, "upper": upper, "offset": offset, "size_bytes": size}
        return {"owner": owner, "workspace": False, **place}

    memory = MemoryPlan.from_json(
        {
            "schema_version": 1,
            "persistent": [stay("w", 0, 0, 0, 64)],
            "page_buffer_offset": 64,
            "training": [stay("a", 0, 2, 576, 100), stay("b", 1, 3, 676, 24)],
            "evaluation": [stay("c", 0, 1, 690, 20)],  # fewer bytes, but up to the end
            "arena_bytes": 710,
            "peak_bytes": 700,
        }
    )
    assert shares(arena_spans(memory)) == {"w": 64, "(page buffer)": 512, "c": 20}


def action() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
    return document


def test_no_input_becomes_a_part_of_a_script() -> None:
    for step in action()["runs"]["steps"]:
        assert "${{" not in step.get("run", "")


def test_a_runner_installs_compiler_and_emulator_by_pip() -> None:
    install = next(s for s in action()["runs"]["steps"] if s.get("id") == "install")["run"]
    (extra,) = re.findall(r"\[([\w-]+)\]", install)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = " ".join(project["optional-dependencies"][extra])
    assert "ziglang" in named
    assert "unicorn" in named


def steps_of(
    inputs: dict[str, Any],
    workspace: Path,
    path: str,
    which: Sequence[str] = ("build", "check"),
    **environment: str,
) -> tuple[int, dict[str, str]]:
    """Run some of the action's scripts, as a runner does.

    Args:
        inputs: the action's inputs.
        workspace: folder that the steps begin in.
        path: folders of programs.
        which: identifiers of the steps.
        environment: further variables.

    Returns:
        Exit code of the last step that ran, and the outputs.
    """
    known = action()["inputs"]
    assert set(inputs) <= set(known), "the action has no such input"
    values = {name: str(inputs.get(name, one["default"])) for name, one in known.items()}

    def filled(text: str) -> str:
        return re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda m: values[m[1]], str(text))

    outputs = workspace / "outputs"
    code = 0
    for step in action()["runs"]["steps"]:
        if step.get("id") not in which:
            continue
        assert step["shell"] == "bash"
        ran = subprocess.run(
            [BASH, "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=workspace / filled(step.get("working-directory", ".")),
            env={
                "HOME": str(workspace),
                "PATH": path,
                "GITHUB_OUTPUT": str(outputs),
                "GITHUB_STEP_SUMMARY": str(workspace / "summary.md"),
                "GITHUB_ACTION_PATH": str(ROOT),
                **environment,
                **{name: filled(text) for name, text in step.get("env", {}).items()},
            },
            capture_output=True,
            text=True,
            check=False,
        )
        code = ran.returncode
        if code:
            print(ran.stdout, ran.stderr)
            break
    lines = outputs.read_text().splitlines()
    return code, dict(line.split("=", 1) for line in lines)


@needs_twin
def test_the_example_repository_is_checked(tmp_path: Path) -> None:
    """The workflow's steps, in a clean folder; the change has a larger batch."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "command.py").write_text(commands.POETFW)
    started = f'exec "{sys.executable}" "{tools}/command.py" "$@"'
    (tools / "poetfw").write_text(f"#!/bin/sh\n{started}\n")
    (tools / "poetfw").chmod(0o755)
    for name in ("base", "change"):
        shutil.copytree(ROOT / "examples" / "ci", tmp_path / name)
    settings = tmp_path / "change" / "poetfw.toml"
    settings.write_text(settings.read_text().replace("batch = 8", "batch = 16"))
    file = ROOT / "examples/ci/.github/workflows/train.yml"
    jobs = yaml.safe_load(file.read_text())["jobs"]["check"]["steps"]
    before, after = (step["with"] for step in jobs if step["uses"].startswith("poetfw/"))
    path = f"{tools}:{os.environ['PATH']}"
    of_builds = "CCACHE", "PLATFORMIO_BUILD_FLAGS"
    environment = {name: v for name, v in os.environ.items() if name.startswith(of_builds)}
    paths = (Path(poetfw.__file__).parents[1], ROOT / "tests")
    environment["PYTHONPATH"] = os.pathsep.join(map(str, paths))
    code, outputs = steps_of(before, tmp_path, path, **environment)
    assert code == 0
    code, outputs = steps_of(after, tmp_path, path, **environment)
    assert code == 0, (tmp_path / "summary.md").read_text()
    assert (tmp_path / "change" / outputs["build"]).is_file()
    document = json.loads((tmp_path / "change" / outputs["check"]).read_text())
    assert {one["name"] for one in document["figures"] if one["limit"] is not None} == {
        *("RAM", "flash", "time", "energy", "accuracy")
    }
    text = (tmp_path / "summary.md").read_text()
    assert "all limits kept" in text
    assert "| hidden2.backward&#95;input | 2,048 B | 4,096 B | +2,048 B (+100.0%) |" in text
    code, outputs = steps_of(
        {**after, "max-ram": "70K", "min-accuracy": ""}, tmp_path, path, ["check"], **environment
    )
    assert code == EXIT_CHECK
    assert not json.loads((tmp_path / "change" / outputs["check"]).read_text())["ok"]


@pytest.mark.slow
def test_a_bare_runner_installs_builds_and_checks(tmp_path: Path) -> None:
    """All steps, from pip on: an empty home, and a path without compilers and QEMU."""
    shutil.copytree(ROOT / "examples" / "ci", tmp_path / "change")
    venv.create(tmp_path / "venv", with_pip=True)
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("cat", "mkdir"):
        (tools / name).symlink_to(str(shutil.which(name)))
    path = f"{tmp_path / 'venv' / 'bin'}:{tools}"
    pip = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    for absent in ("gcc", "cc", "arm-none-eabi-gcc", "qemu-system-arm"):
        assert shutil.which(absent, path=path) is None
    inputs = {"working-directory": "change", "max-ram": "100K", "min-accuracy": "0.2"}
    code, outputs = steps_of(inputs, tmp_path, path, ["install", "build", "check"], **pip)
    assert code == 0, (tmp_path / "summary.md").read_text()
    built = json.loads((tmp_path / "change" / outputs["build"]).read_text())
    assert built["toolchain"] == "zig"
    document = json.loads((tmp_path / "change" / outputs["check"]).read_text())
    accuracy = next(one for one in document["figures"] if one["name"] == "accuracy")
    assert accuracy["value"] >= 0.2
    assert "all limits kept" in (tmp_path / "summary.md").read_text()
    code, outputs = steps_of({**inputs, "max-ram": "9K"}, tmp_path, path, ["check"], **pip)
    assert code == EXIT_CHECK
