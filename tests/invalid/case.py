# SPDX-License-Identifier: Apache-2.0
"""What a case of bad input is, and how it is run."""

from __future__ import annotations

import json
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from poetfw.cli import main

Make = Callable[[Path], None]
"""Makes a case's files in the folder the command is run in."""


def nothing(folder: Path) -> None:
    """For a case without files."""


@dataclass(frozen=True)
class Case:
    """One bad input.

    Attributes:
        name: what is wrong, for the test's name.
        command: what follows `poetfw`; `{folder}` stands for the folder it is run in.
        code: the exit code it must end with.
        says: fragments that the error must hold.
        make: makes its files.
        environment: variables that are set.
        built: whether `build/linux` holds a compiled project to begin with.
    """

    name: str
    command: str
    code: int
    says: tuple[str, ...]
    make: Make = nothing
    environment: Mapping[str, str] = field(default_factory=dict)
    built: bool = False


def cases(command: str, *rows: tuple[Any, ...], code: int = 1) -> tuple[Case, ...]:
    """Cases of one command and exit code. A row: name, what makes the files, fragments."""
    return tuple(Case(name, command, code, tuple(says), make) for name, make, *says in rows)


def options(
    command: str, rows: Mapping[str, str | tuple[str, ...]], code: int = 1
) -> tuple[Case, ...]:
    """Cases of options of a command, with a fragment of each error; they are the tests' names."""
    return tuple(
        Case(given, f"{command} {given}", code, (says,) if isinstance(says, str) else says)
        for given, says in rows.items()
    )


@dataclass(frozen=True)
class Result:
    code: int
    stdout: str
    stderr: str


class Sandbox:
    """Folders of one test's own: where the command runs, its home, its temporary files."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.work = root / "work"
        for folder in (self.work, root / "home", root / "tmp"):
            folder.mkdir()
        for name in [name for name in os.environ if name.startswith("POETFW_")]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("HOME", str(root / "home"))
        monkeypatch.setenv("MPLCONFIGDIR", str(root.parent / "matplotlib"))  # its cache of fonts
        monkeypatch.setattr(tempfile, "tempdir", str(root / "tmp"))
        monkeypatch.chdir(self.work)
        self._monkeypatch = monkeypatch

    def run(self, command: str, capsys: pytest.CaptureFixture[str]) -> Result:
        """Run `poetfw` in this process: importing it anew for each case would take minutes."""
        arguments = shlex.split(command.replace("{folder}", str(self.work)))
        self._monkeypatch.setattr(sys, "argv", ["poetfw", *arguments])
        capsys.readouterr()
        code = main._run()
        out, err = capsys.readouterr()
        return Result(code, out, err)

    def tree(self) -> dict[str, str | bytes]:
        """Everything in the sandbox, but for what runs leave in a project's `run` folder."""
        return {
            path.relative_to(self.root).as_posix(): _content(path)
            for path in sorted(self.root.rglob("*"))
            if "run" not in path.relative_to(self.root).parts
        }

    def processes_left(self) -> list[str]:
        """The processes that work in the sandbox and do not end within seconds.

        A process that was killed is there until the system comes to it.
        """
        deadline = time.monotonic() + 20
        while (found := self._processes()) and time.monotonic() < deadline:
            time.sleep(0.02)
        return found

    def _processes(self) -> list[str]:
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                inside = (folder / "cwd").readlink().is_relative_to(self.root)
                command = (folder / "cmdline").read_bytes()
            except OSError:  # it ended meanwhile, or is not ours
                continue
            if inside and folder.name != str(os.getpid()):
                found.append(command.replace(b"\0", b" ").decode(errors="replace"))
        return found


def _content(path: Path) -> str | bytes:
    if path.is_symlink():
        return f"link to {path.readlink()}"
    if path.is_dir():
        return "folder"
    return path.read_bytes()


def only_document(text: str) -> Any:
    """The one JSON document in a text that holds nothing else."""
    document, end = json.JSONDecoder().raw_decode(text)
    assert text[end:].strip() == ""
    return document
