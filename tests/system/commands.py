# SPDX-License-Identifier: Apache-2.0
"""Runs the command line as a user does: in a process of its own, forked or begun anew."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from system import fork

needs_twin = pytest.mark.skipif(
    shutil.which("qemu-system-arm") is None or shutil.which("arm-none-eabi-gcc") is None,
    reason="needs qemu-system-arm and arm-none-eabi-gcc",
)

needs_aarch64 = pytest.mark.skipif(
    shutil.which("qemu-aarch64") is None or shutil.which("aarch64-linux-gnu-gcc") is None,
    reason="needs qemu-aarch64 and aarch64-linux-gnu-gcc",
)


POETFW = """
import builds
import chosen_tiles
import pictures
from poetfw.cli.main import main

builds.leave_out()
chosen_tiles.keep()
pictures.leave_out()
main()
"""


ON_LINUX = ("--board", "linux", "--ram", "64M")
"""Options of a build for this computer; asking the compiler for its free RAM takes a second."""


@dataclass(frozen=True)
class Result:
    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)


def poetfw(*arguments: str | Path, cwd: Path, timeout_s: float = 280, **environment: str) -> Result:
    """Run `poetfw`; the interpreter and its packages are those of the tests.

    A variable of Python's own takes effect only where an interpreter begins: then one does.
    """
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("POETFW_")}
    variables = {**inherited, **environment}
    words = [str(argument) for argument in arguments]
    if not any(name.startswith("PYTHON") for name in environment):
        return forked(POETFW, "poetfw", *words, cwd=cwd, variables=variables, timeout_s=timeout_s)
    command = [sys.executable, "-m", "poetfw.cli.main", *words]
    how: Any = {"cwd": cwd, "env": variables, "timeout": timeout_s, "check": False}
    ran = subprocess.run(command, capture_output=True, text=True, **how)
    return Result(ran.returncode, ran.stdout, ran.stderr)


def forked(
    code: str, *words: str, cwd: Path, variables: Mapping[str, str], timeout_s: float
) -> Result:
    """Run Python code, `sys.argv` being the words, in a process of its own with all loaded."""
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        code_of_exit = fork.run(code, words, cwd, variables, (out, err), timeout_s)
        return Result(code_of_exit, out.read_text(), err.read_text())


def succeed(*arguments: str | Path, cwd: Path, **environment: str) -> Any:
    """Run `poetfw … --json`, which must succeed; returns the document it prints."""
    result = poetfw(*arguments, "--json", cwd=cwd, **environment)
    assert result.code == 0, result.stderr
    return result.json


BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def benchmark(name: str, *arguments: str | Path, code: int = 0) -> Result:
    """Run a command of `benchmarks/`, named without `.py`, which must end with this code."""
    path = str(BENCHMARKS / f"{name}.py")
    run = f"import builds, chosen_tiles, runpy, sys; sys.path.insert(0, {str(BENCHMARKS)!r})\n"
    run += "builds.leave_out()\nchosen_tiles.keep()\n"
    run += f"runpy.run_path({path!r}, run_name='__main__')"
    words = (path, *map(str, arguments))
    ran = forked(run, *words, cwd=Path.cwd(), variables=os.environ, timeout_s=500)
    assert ran.code == code, f"{ran.stdout}\n{ran.stderr}"
    return ran


def interrupted(*words: str, after: str, cwd: Path, delay_s: float = 0.0) -> str:
    """Press Ctrl-C after a line of `poetfw` that begins so; returns what it says to that."""
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "poetfw.cli.main", *words],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith(after):
            break
    time.sleep(delay_s)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    return errors
