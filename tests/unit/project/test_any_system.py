# SPDX-License-Identifier: Apache-2.0
"""poetfw runs on any system: what a system lacks is used in one module, text files are UTF-8."""

from __future__ import annotations

import ast
import shlex
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mypy
import pytest
import yaml

import poetfw
from poetfw.cli.main import COMMANDS
from poetfw.common.resources import firmware_templates_dir
from unit.project.spdx import ROOT

PACKAGE = Path(poetfw.__file__).parent
ONLY = PACKAGE / "common/system.py"
"""The module that may use calls of one system, each behind a test of the system."""
STUBS = Path(mypy.__file__).parent / "typeshed/stdlib"
SYSTEMS = ("win32", "darwin")
PROCESS_OPTIONS = {"preexec_fn", "start_new_session", "pass_fds", "creationflags", "process_group"}
"""Arguments of `Popen` that not every system takes; the stubs do not tell."""
TEXT_CALLS = {"read_text": 0, "write_text": 1}
"""Methods of a path, and their arguments before the encoding."""


def sources() -> list[Path]:
    """Sources that run on a user's computer: the package, and scripts of a project's platform."""
    return [*PACKAGE.rglob("*.py"), *(firmware_templates_dir() / "platformio").rglob("*.py")]


def holds(test: ast.expr, system: str) -> bool:
    """True if a condition of a stub file holds on a system."""
    names = {"sys": SimpleNamespace(platform=system, version_info=sys.version_info)}
    try:
        return bool(eval(compile(ast.Expression(test), "stub", "eval"), names))
    except NameError:  # of a type checker
        return True


def declared(body: list[ast.stmt], system: str) -> Iterator[str]:
    """Names that a stub file declares on a system."""
    for statement in body:
        if isinstance(statement, ast.If):
            branch = statement.body if holds(statement.test, system) else statement.orelse
            yield from declared(branch, system)
        elif isinstance(statement, ast.FunctionDef | ast.ClassDef):
            yield statement.name
            if isinstance(statement, ast.ClassDef):  # members of an enumeration, such as SIGKILL
                yield from declared(statement.body, system)
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield statement.target.id
        elif isinstance(statement, ast.Assign):
            yield from (target.id for target in statement.targets if isinstance(target, ast.Name))
        elif isinstance(statement, ast.ImportFrom):
            yield from (name.asname or name.name for name in statement.names)


@cache
def lacking(module: str) -> frozenset[str]:
    """Names of a module of the standard library that Linux has and another system lacks."""
    stub = STUBS.joinpath(*module.split("."))
    path = stub / "__init__.pyi" if stub.is_dir() else stub.with_suffix(".pyi")
    if not path.is_file():
        return frozenset()
    body = ast.parse(path.read_text(encoding="utf-8")).body
    everywhere = set.intersection(*(set(declared(body, system)) for system in SYSTEMS))
    return frozenset(set(declared(body, "linux")) - everywhere)


def of_one_system(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and name of each use of what not every system has."""
    modules: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {name.asname or name.name: name.name for name in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found = lacking(node.module) & {name.name for name in node.names}
            yield from ((node.lineno, f"{node.module}.{name}") for name in sorted(found))
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = modules.get(node.value.id, "")
            if module and node.attr in lacking(module):
                yield node.lineno, f"{module}.{node.attr}"
        elif isinstance(node, ast.Call):
            for option in node.keywords:
                if option.arg in PROCESS_OPTIONS:
                    yield node.lineno, f"{option.arg}="
        elif isinstance(node, ast.Constant) and str(node.value).startswith(("/proc/", "/dev/")):
            yield node.lineno, str(node.value)


def without_encoding(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and name of each call that reads or writes text as the system likes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and "encoding" not in {
            option.arg for option in node.keywords
        }:
            if isinstance(node.func, ast.Attribute):
                clicks = ast.unparse(node.func.value) == "formatter"
                if len(node.args) == TEXT_CALLS.get(node.func.attr) and not clicks:
                    yield node.lineno, node.func.attr
            elif isinstance(node.func, ast.Name) and node.func.id == "open":
                mode = ast.unparse(node.args[1]) if len(node.args) > 1 else "r"
                if "b" not in mode:
                    yield node.lineno, "open"


def without_line_ends(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and name of each call that writes text with the system's line ends."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and "newline" not in {option.arg for option in node.keywords}:
            name = (
                node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
            )
            of_click = name == "write_text" and ast.unparse(node.func).startswith("formatter.")
            mode = next((a.value for a in node.args if isinstance(a, ast.Constant)), "r")
            writes = (
                name == "open" and isinstance(mode, str) and set(mode) & set("wax") == set(mode)
            )
            if (name == "write_text" and not of_click) or writes:
                yield node.lineno, name


def test_text_files_are_written_with_line_feeds() -> None:
    """A project has the same bytes whatever system it was built on."""
    found = {
        f"{path.name}:{line}: {name}"
        for path in sources()
        for line, name in without_line_ends(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert found == set()


@pytest.mark.parametrize("text", ["path.write_text('é')", "open('w')", "path.open('a')"])
def test_line_ends_of_the_system_are_found(text: str) -> None:
    assert len(list(without_line_ends(ast.parse(text)))) == 1


def portable_steps() -> list[dict[str, Any]]:
    workflow = yaml.safe_load((ROOT / ".github/workflows/portable.yml").read_text("utf-8"))
    (job,) = workflow["jobs"].values()
    assert job["runs-on"] == "${{ matrix.os }}"
    systems = {name.partition("-")[0] for name in job["strategy"]["matrix"]["os"]}
    assert systems == {"ubuntu", "macos", "windows"}
    steps: list[dict[str, Any]] = job["steps"]
    return steps


def test_the_workflow_of_other_systems_types_commands_that_there_are() -> None:
    """It runs where nobody here can look: its commands are parsed as the command line does."""
    lines = [shlex.split(step["run"]) for step in portable_steps() if "run" in step]
    commands = [line[1:] for line in lines if line[0] == "poetfw"]
    assert {"demo", "run", "build"} <= {name for name, *_ in commands}
    for name, *words in commands:
        COMMANDS[name].make_context(name, list(words))
    (install,) = (line for line in lines if line[:4] == ["python", "-m", "pip", "install"])
    assert install[4:] == [".[portable]"]


def test_what_one_system_has_is_used_in_one_module() -> None:
    found = {
        f"{path.name}:{line}: {name}"
        for path in sources()
        if path != ONLY
        for line, name in of_one_system(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert found == set()
    used = {name for _, name in of_one_system(ast.parse(ONLY.read_text(encoding="utf-8")))}
    assert {"os.killpg", "signal.SIGKILL", "os.sysconf", "/proc/self/stat"} <= used


def test_text_files_are_read_as_utf_8() -> None:
    found = {
        f"{path.name}:{line}: {name}"
        for path in sources()
        for line, name in without_encoding(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert found == set()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("import os\nos.fork()", "os.fork"),
        ("import os as system\nsystem.getuid()", "os.getuid"),
        ("from signal import SIGKILL", "signal.SIGKILL"),
        ("import signal\nsignal.setitimer(0, 1)", "signal.setitimer"),
        ("from fcntl import flock", "fcntl.flock"),
        ("import resource\nresource.getrusage(0)", "resource.getrusage"),
        ("import termios\ntermios.tcgetattr(0)", "termios.tcgetattr"),
        ("import time\ntime.clock_gettime(0)", "time.clock_gettime"),
        ("import subprocess\nsubprocess.Popen([], start_new_session=True)", "start_new_session="),
        ("open('/proc/cpuinfo', 'rb')", "/proc/cpuinfo"),
    ],
)
def test_what_one_system_has_is_found(text: str, name: str) -> None:
    assert name in [found for _, found in of_one_system(ast.parse(text))]


@pytest.mark.parametrize("text", ["path.read_text()", "path.write_text('é')", "open('a')"])
def test_text_of_the_systems_encoding_is_found(text: str) -> None:
    assert len(list(without_encoding(ast.parse(text)))) == 1


def test_what_all_systems_have_may_be_used() -> None:
    text = "import os, signal\nos.replace('a', 'b')\nsignal.raise_signal(signal.SIGINT)"
    assert list(of_one_system(ast.parse(text))) == []
