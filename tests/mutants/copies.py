# SPDX-License-Identifier: Apache-2.0
"""Copies of a checkout, and pytest in processes forked from a server that imported what is slow."""

from __future__ import annotations

import gc
import multiprocessing
import os
import resource
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import pytest
from hypothesis import Phase, settings

PRELOADED = "pytest,hypothesis,numpy,onnx,cvxpy,click,rich.progress,scipy.optimize,highspy"
"""Most of a test's time would go into importing these."""
_PYTEST = ("-q", "--tb=no", "-m", "not slow", "-p", "no:cacheprovider")
_CONTEXT = multiprocessing.get_context("forkserver")


class Plugin(Protocol):
    """A plugin of pytest that has something to tell."""

    def start(self) -> None:
        """Begin before anything is imported."""

    def answer(self) -> str:
        """Text that the process leaves."""


class Copy:
    """A copy of the checkout, whose compilers look into the checkout's caches."""

    def __init__(self, checkout: Path, folder: Path) -> None:
        self.root, self.temporary = folder / "checkout", folder / "temporary"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(checkout, self.root, ignore=shutil.ignore_patterns(".*", "build", "dist"))
        (self.root / ".venv").symlink_to(checkout / ".venv")
        (self.root / "build").mkdir()
        for cache in ("build/ccache", "build/objects"):
            (checkout / cache).mkdir(parents=True, exist_ok=True)
            (self.root / cache).symlink_to(checkout / cache)

    def prepare(self) -> None:
        """Empty the folder of temporary files."""
        shutil.rmtree(self.temporary, ignore_errors=True)
        self.temporary.mkdir()

    def run(self, arguments: Sequence[str], plugin: Plugin, longest_s: float) -> str | None:
        """Answer of the plugin; None if pytest takes too long."""
        answer = self.temporary / "answer"
        process = _CONTEXT.Process(
            target=_pytest, args=(self.root, self.temporary, arguments, plugin, longest_s)
        )
        process.start()
        process.join(10 * longest_s)  # a process may have to wait for its processor
        with suppress(ProcessLookupError):
            os.killpg(process.pid or 0, signal.SIGKILL)
        process.join()
        if process.exitcode in (-signal.SIGXCPU, -signal.SIGKILL):
            return None
        return answer.read_text() if answer.exists() else "it crashes"


def preload(modules: str = PRELOADED) -> None:
    """Say what the server imports."""
    _CONTEXT.set_forkserver_preload(modules.split(","))


def _pytest(
    root: Path, temporary: Path, arguments: Sequence[str], plugin: Plugin, longest_s: float
) -> None:
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CPU, (int(longest_s) + 1, resource.RLIM_INFINITY))
    with (temporary / "output").open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.chdir(root)
    os.environ["PYTHONPATH"] = str(root / "host")
    os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)
    sys.path.insert(0, str(root / "host"))
    phases = (Phase.explicit, Phase.generate)
    settings.register_profile("mutants", max_examples=10, phases=phases, deadline=None)
    gc.freeze()  # pytest collects garbage again and again: not what was there before it
    plugin.start()
    code = pytest.main([*_PYTEST, "--hypothesis-profile=mutants", *arguments], plugins=[plugin])
    text = plugin.answer()
    (temporary / "answer").write_text(text or ("" if code in (0, 5) else f"pytest: {int(code)}"))
    sys.stdout.flush()
    os._exit(0)
