# SPDX-License-Identifier: Apache-2.0
"""Runs code in a process forked from a server that has already imported everything.

A process of its own costs a second and a half of imports; a fork costs milliseconds, and is as
much a process: with a working directory, an environment, streams, signals and an exit code.
"""

from __future__ import annotations

import multiprocessing
import os
import pkgutil
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from multiprocessing import forkserver, spawn
from pathlib import Path
from typing import Any

import poetfw

HEAVY = ("torch", "distributed", "dask")
"""Packages that few commands use, and that begin threads, which a fork would not have."""


@cache
def _server() -> multiprocessing.context.ForkServerContext:
    """The server, which is not made anew by what imports this module in a fork of it."""
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(["system.loading", *_imported(), "system.loaded"])
    spawn.get_preparation_data = _without_main
    return server


_with_main = spawn.get_preparation_data


def _without_main(name: str) -> dict[str, Any]:
    """Data for starting a fork, without the main script, which the fork would run first."""
    return {
        key: value for key, value in _with_main(name).items() if not key.startswith("init_main")
    }


def begin() -> None:
    """Have the server import everything while there is other work, for forks of this process, too.

    A fork would take the server, no child of its own, for one that has ended, and begin another.
    """
    _server()
    forkserver.ensure_running()
    forkserver._forkserver.ensure_running = lambda: None  # type: ignore[attr-defined]


def _imported() -> list[str]:
    """All modules of poetfw, and what they import, be it inside a function: commands load late."""
    package = Path(poetfw.__file__).parent
    names = {module.name for module in pkgutil.walk_packages([str(package)], "poetfw.")}
    for path in package.rglob("*.py"):
        names.update(re.findall(r"^ *(?:from|import) (\w[\w.]*)", path.read_text(), re.MULTILINE))
    return sorted(
        name for name in names if not name.endswith("__main__") and name.split(".")[0] not in HEAVY
    )


def run(
    code: str,
    arguments: Sequence[str],
    cwd: Path,
    environment: Mapping[str, str],
    streams: tuple[Path, Path],
    timeout_s: float,
) -> int:
    """Run Python code, as `python -c` does, its output and errors in two files.

    Returns:
        Its exit code.

    Raises:
        subprocess.TimeoutExpired: it was ended, since it took longer than `timeout_s`.
    """
    process = _server().Process(
        target=_become, args=(code, list(arguments), str(cwd), dict(environment), streams)
    )
    process.start()
    try:
        process.join(timeout_s)
        if process.is_alive():
            raise subprocess.TimeoutExpired(arguments, timeout_s)
    finally:  # also where the test's own time is over
        process.kill()
        process.join()
    assert process.exitcode is not None
    return process.exitcode


def _become(
    code: str,
    arguments: list[str],
    cwd: str,
    environment: dict[str, str],
    streams: tuple[Path, Path],
) -> None:
    """Make this process what a shell would have begun, then run the code."""
    for number, path in zip((1, 2), streams, strict=True):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = arguments
    exec(code, {"__name__": "__main__"})
