# SPDX-License-Identifier: Apache-2.0
"""The command as a shell starts it: without arguments, a terminal, tools or a reader."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from poetfw.cli.main import COMMANDS
from system.commands import POETFW as IN_A_FORK
from system.commands import Result, forked, poetfw

BEGUN_ANEW = ("boards", "build")
"""Commands that begin an interpreter, which reads the locale; others run in a fork of one."""
POETFW = [sys.executable, "-m", "poetfw.cli.entry"]


def typed(
    *arguments: str, folder: Path, without: tuple[str, ...] = (), **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, with HOME there and without some environment variables."""
    return subprocess.run(
        [*POETFW, *arguments],
        cwd=folder,
        env=variables_of(folder, without, **environment),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
        timeout=300,
    )


def variables_of(folder: Path, without: tuple[str, ...], **environment: str) -> dict[str, str]:
    variables = {k: v for k, v in os.environ.items() if not k.startswith("POETFW_")}
    variables |= {"HOME": str(folder), **environment}
    return {name: value for name, value in variables.items() if name not in without}


def test_alone_it_prints_its_help_as_help(tmp_path: Path) -> None:
    alone, asked = typed(folder=tmp_path), typed("--help", folder=tmp_path)
    assert (alone.returncode, alone.stdout, alone.stderr) == (0, asked.stdout, "")
    assert "plan-update" in alone.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_a_bare_environment_is_no_bug(command: str, tmp_path: Path) -> None:
    """No arguments, an empty read-only folder, no HOME, no PATH, no locale but C."""
    tmp_path.chmod(0o555)
    try:
        words = [command, *(["mlp"] if command == "models" else [])]
        bare: dict[str, Any] = {"without": ("HOME",), "PATH": "", "LANG": "C"}
        if command in BEGUN_ANEW:
            ran = typed(*words, folder=tmp_path, **bare)
            done = Result(ran.returncode, ran.stdout, ran.stderr)
        else:
            how: Any = {"cwd": tmp_path, "variables": variables_of(tmp_path, **bare)}
            done = forked(IN_A_FORK, "poetfw", *words, timeout_s=300, **how)
    finally:
        tmp_path.chmod(0o755)
    assert done.code in (0, 1, 2, 3, 4, 5), done.stderr
    assert "Traceback" not in done.stderr
    assert done.code == 0 or "error:" in done.stderr or command == "doctor"


@pytest.mark.parametrize("command", COMMANDS)
def test_an_option_that_is_none_is_refused(command: str, tmp_path: Path) -> None:
    assert poetfw(command, "--no-such-option", cwd=tmp_path).code == 2


@pytest.mark.parametrize("arguments", [["boards"], ["--help"], ["models", "mlp", "--json"]])
def test_a_reader_who_leaves_is_no_error(arguments: list[str], tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    result = subprocess.run(
        [*POETFW, *arguments],
        cwd=tmp_path,
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writing)
    assert "Traceback" not in result.stderr
    assert "Exception ignored" not in result.stderr


def test_in_a_terminal_nothing_is_wider_than_it(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*POETFW, "boards"],
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "80", "TERM": "dumb", "HOME": str(tmp_path)},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    said = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # Linux says so where the other end is closed
            break
        if not part:
            break
        said += part
    os.close(ours)
    assert process.wait() == 0
    lines = said.decode().splitlines()
    assert lines[0] == "Boards"
    assert max(map(len, lines)) <= 80


def test_a_folder_without_a_build_is_called_so(tmp_path: Path) -> None:
    result = typed("run", "--out", "nothing", folder=tmp_path)
    assert result.returncode == 1
    assert "there is no build in nothing" in result.stderr
    assert "poetfw build" in result.stderr


def test_nothing_measured_draws_nothing_and_says_so(tmp_path: Path) -> None:
    arguments = ["costs", "--board", "linux", "--model", "mlp", "--plot", "costs.svg"]
    result = typed(*arguments, folder=tmp_path)
    assert result.returncode == 1
    assert "was measured on linux" in result.stderr
    assert "poetfw profile --board linux --model mlp" in result.stderr
    assert not (tmp_path / "costs.svg").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["compare", "--board", "linux", "--model", "mlp"],
        ["sweep", "--boards", "linux", "--models", "mlp"],
    ],
)
def test_budgets_above_everything_are_refused(arguments: list[str], tmp_path: Path) -> None:
    result = typed(*arguments, "--fractions", "0.5,2", folder=tmp_path)
    assert result.returncode == 2
    assert "2 is above 1" in result.stderr
