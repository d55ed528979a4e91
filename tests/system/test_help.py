# SPDX-License-Identifier: Apache-2.0
"""Helps fit on a screen, options that do not go together are refused, and `init` sets nothing."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from click.testing import CliRunner

from poetfw.cli.command import Command
from poetfw.cli.config import read_config
from poetfw.cli.known_settings import known_settings
from poetfw.cli.main import COMMANDS, cli
from poetfw.common.errors import OutputError
from poetfw.memory import ONLY
from poetfw.report import BuildReport
from system.commands import poetfw

MOST = 24


def shown(command: str, flag: str) -> str:
    result = poetfw(command, flag, cwd=Path(), COLUMNS="80")
    assert result.code == 0
    return result.stdout


def lines_of_options(text: str) -> int:
    """Lines below headings."""
    sections = re.findall(r"^\w[\w ]*:\n((?:  .*\n)+)", text, re.M)
    return sum(section.count("\n") for section in sections)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_first_screen_of_a_help_has_few_lines_of_options(name: str) -> None:
    assert lines_of_options(shown(name, "--help")) <= MOST


REQUIRED = {
    "export": {"--as", "--out", "project"},
    "export-weights": {"--output"},
    "place": {"file"},
    "plan-update": {"--board"},
    "profile": {"--board"},
    "pull": {"--output"},
    "push": {"file"},
    "report": {"--output"},
    "sweep": {"--boards", "--models"},
}
"""Options and arguments without which a command has nothing to do; of others it tells or asks."""


@pytest.mark.parametrize("name", COMMANDS)
def test_what_a_command_cannot_do_without_is_required(name: str) -> None:
    required = {option.opts[0] for option in COMMANDS[name].params if option.required}
    assert required == REQUIRED.get(name, set())


@pytest.mark.parametrize("name", REQUIRED)
def test_what_is_missing_is_named(name: str) -> None:
    result = CliRunner().invoke(cli, [name])
    assert result.exit_code == 2
    assert "Missing" in result.output


def test_what_means_something_else_in_each_command_is_set_for_each() -> None:
    known = {(one.table, one.key) for one in known_settings(COMMANDS)}
    outputs = {table for table, key in known if key in ("out", "output")}
    own = {"export", "export-weights", "place", "plan-update", "pull", "report", "sweep"}
    assert outputs == {"", *own}, "the folder of builds is one for all commands"


@pytest.mark.parametrize("name", COMMANDS)
def test_flags_are_off(name: str) -> None:
    flags = [option for option in COMMANDS[name].params if getattr(option, "is_flag", False)]
    assert not any(flag.default for flag in flags)


@pytest.mark.parametrize("name", COMMANDS)
def test_all_options_are_in_the_whole_help(name: str) -> None:
    whole = shown(name, "--help-all")
    for option in COMMANDS[name].params:
        if isinstance(option, click.Option):
            assert re.search(rf"^  (-\w, )?{option.opts[0]}\b", whole, re.M), option.opts[0]
    assert "more:" not in whole


def test_every_rule_names_options_of_its_command() -> None:
    for command in COMMANDS.values():
        assert isinstance(command, Command)
        for option in command.options.values():
            assert {*option.setting.needs, *option.setting.excludes} <= {*command.options}
        assert {flag for choices in command.one_of for flags in choices for flag in flags} <= {
            *command.options
        }


def test_options_that_do_not_go_together_are_refused(tmp_path: Path) -> None:
    refused = {
        ("run", "--on-board", "--emulator", "qemu"): "--emulator does not go with --on-board",
        ("run", "--resume", "--verify"): "--verify does not go with --resume",
        ("run", "--steps", "1", "--epochs", "1"): "--epochs does not go with --steps",
        ("schedule", "--board", "linux"): "give either --problem, or --board and --model, or",
        ("flash", "--force"): "--force needs --storage",
        ("build", "--board", "linux", "--parallel"): "--parallel needs --devices",
        ("build", "--board", "linux", "--ring-share", "2"): "--ring-share needs --ring",
        ("schedule", "--ram", "1", "--ram-fraction", "1"): "--ram-fraction does not go with --ram",
    }
    for command, said in refused.items():
        result = poetfw(*command, cwd=tmp_path)
        assert (result.code, said in result.stderr) == (2, True), result.stderr


def test_what_nobody_typed_gives_way(tmp_path: Path) -> None:
    """A variable that is meant for other commands ends none."""
    result = poetfw("flash", cwd=tmp_path, POETFW_FORCE="1")
    said = "--force (environment variable POETFW_FORCE) needs --storage: it is not used"
    assert said in " ".join(result.stderr.split())
    assert result.code == 1  # there is no build
    switched_off = poetfw("flash", cwd=tmp_path, POETFW_FORCE="0")
    assert "--force" not in switched_off.stderr


def test_what_is_typed_stays(tmp_path: Path) -> None:
    """Of two settings that exclude each other, whichever of them declares it."""
    for typed, variable in (("--verify", "RESUME"), ("--resume", "VERIFY")):
        result = poetfw("run", typed, cwd=tmp_path, **{f"POETFW_{variable}": "1"})
        why = f"(environment variable POETFW_{variable}) does not go with {typed}: it is not used"
        assert f"--{variable.lower()} {why}" in " ".join(result.stderr.split())
        assert result.code == 1  # there is no build


def test_a_port_of_other_commands_does_not_stop_a_run_on_a_twin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(folder: Path, label: str, emulator: str, at: list[str], threads: int) -> None:
        raise OutputError(f"opened at {at}")

    report = SimpleNamespace(memories={ONLY: None})
    monkeypatch.setattr(BuildReport, "read", lambda path: report)
    monkeypatch.setattr("poetfw.api.firmware.open_build", opened)
    run = ["run", "--out", str(tmp_path)]
    typed = CliRunner().invoke(cli, [*run, "--port", "x"])
    assert (typed.exit_code, "--port needs --on-board" in typed.stderr) == (2, True), typed.stderr
    result = CliRunner().invoke(cli, run, env={"POETFW_PORT": "x"})
    assert "(environment variable POETFW_PORT) needs --on-board" in " ".join(result.stderr.split())
    assert "opened at []" in str(result.exception)


def test_init_writes_a_file_that_sets_nothing(tmp_path: Path) -> None:
    assert poetfw("init", cwd=tmp_path).code == 0
    path = tmp_path / "poetfw.toml"
    text = path.read_text()
    assert " RANGE>" not in text
    options = {name: command.keys for name, command in COMMANDS.items()}
    assert not any(read_config(tmp_path, options).values())
    again = poetfw("init", cwd=tmp_path)
    assert (again.code, path.read_text()) == (1, text)
    path.write_text("batch = 3\n")
    assert poetfw("init", "--force", cwd=tmp_path).code == 0
    assert path.read_text() == text


def test_every_line_of_the_file_is_a_setting(tmp_path: Path) -> None:
    assert poetfw("init", cwd=tmp_path).code == 0
    path = tmp_path / "poetfw.toml"
    options = {name: command.keys for name, command in COMMANDS.items()}
    table, found = "", set()
    for line in path.read_text().splitlines():
        if heading := re.fullmatch(r"# \[([\w-]+)\]", line):
            table = heading[1]
        if setting := re.fullmatch(r"# (([\w-]+) = .*)", line):
            value = re.sub(r"<.*>$", '"a"', setting[1])
            path.write_text((f"[{table}]\n" if table else "") + value)
            assert any(read_config(tmp_path, options).values())
            found.add((table, setting[2]))
    known = known_settings(COMMANDS)
    assert found == {(setting.table, setting.key) for setting in known}
    assert all(setting.what for setting in known)
