# SPDX-License-Identifier: Apache-2.0
"""Whatever text a board file holds: it is refused, or it reaches no compiler and no other tool."""

from __future__ import annotations

import contextlib
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from invalid.case import Sandbox
from poetfw.boards import load_board
from poetfw.common.errors import BoardError
from poetfw.common.resources import boards_dir

MARK = "sneak"
HOSTILE = (
    f"-fplugin={MARK}.so @{MARK} $({MARK}) ${{sysenv.{MARK}}} %({MARK})s */ ;{MARK} {{{{ 7 }}}}"
)
FREE = {"description", "core", "source"}
"""Keys whose texts are for people: `core` is that of [cpu]."""


def hostile_board(name: str, folder: Path) -> Path:
    """A board file all of whose texts that are not refused are hostile."""
    text = re.sub(r"^#.*\n", "", (boards_dir() / f"{name}.toml").read_text(), flags=re.MULTILINE)
    path = folder / "mine.toml"
    taken = set()
    for literal in reversed(list(re.finditer(r'"[^"\n]+"', text))):
        changed = f'{text[: literal.start()]}"{HOSTILE}"{text[literal.end() :]}'
        path.write_text(changed)
        with contextlib.suppress(BoardError):
            load_board(path)
            taken.add(text[: literal.start()].split()[-2])
            text = changed
    assert taken == FREE
    path.write_text(text)
    return path


def test_no_free_text_of_a_board_is_in_what_tools_read(
    sandbox: Sandbox, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile_board("nrf52840", sandbox.work)
    build = "build --board mine.toml --model mlp --batch 4 --scheduler checkpoint-all --out out"
    assert sandbox.run(f"{build} --ram 100000 --generate-only", capsys).code == 0
    folder = sandbox.work / "out"
    files = [path for path in folder.rglob("*") if path.is_file()]
    holding = {path.relative_to(folder).as_posix() for path in files if MARK in _text(path)}
    assert holding == {"board.toml"}
    assert {"platformio.ini", "storage.img"} <= {path.name for path in files}


def _text(path: Path) -> str:
    return path.read_bytes().decode("latin-1")


@pytest.mark.slow
def test_no_free_text_of_a_board_is_in_a_command(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile_board("linux", sandbox.work)
    started: list[str] = []

    class Recorded(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, command: list[str], **how: object) -> None:
            started.append(shlex.join(map(str, command)) + str(how.get("env")))
            super().__init__(command, **how)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess, "Popen", Recorded)
    for command in ("build --model mlp --batch 4", "run --steps 2"):
        verb, *rest = command.split()
        words = " ".join([verb, "--board mine.toml --out out", *rest])
        result = sandbox.run(words, capsys)
        assert result.code == 0, result.stderr
    assert len(started) >= 3  # the compiler, PlatformIO, and what it built
    assert [line for line in started if MARK in line] == []
