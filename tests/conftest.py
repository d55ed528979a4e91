# SPDX-License-Identifier: Apache-2.0
"""Options of the whole test suite, and what it says at its end."""

from __future__ import annotations

import gc
import os
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import budgets
import builds
import chosen_tiles
import pictures
from strict import STRICT

pytest_plugins = ("each_choice", "processes")
BUILD = Path(__file__).parents[1] / "build"
CCACHE = Path("/usr/lib/ccache")
"""Debian's compilers that look first whether they have compiled the same before."""


# Importing PyTorch, ONNX and all tests takes half as long without: what they make stays.
gc.disable()

# Before any test is imported: each process of the tests would compile 60,000 lines of them anew.
# It stays beside its source: what pip compiled of other packages is read as it is.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
budgets.register()
pictures.leave_out()
builds.leave_out()
chosen_tiles.keep()


def pytest_sessionstart() -> None:
    """Delete objects that no test has used for a while."""
    builds.forget_old()


def pytest_configure() -> None:
    """Have our sources compiled strictly, and what is the same once.

    Builds of tests differ in folders, hardly in sources. A project's own settings say nothing of
    errors: what a user adds to it may be warned of.
    """
    os.environ["PLATFORMIO_BUILD_FLAGS"] = " ".join(STRICT)
    if CCACHE.is_dir():
        os.environ["PATH"] = f"{CCACHE}{os.pathsep}{os.environ['PATH']}"
        os.environ["CCACHE_DIR"] = str(BUILD / "ccache")
        os.environ["CCACHE_BASEDIR"] = tempfile.gettempdir()
        os.environ["CCACHE_NOHASHDIR"] = "1"


def pytest_collection_finish(session: pytest.Session) -> None:
    """Begin the server of commands' processes, where the tests' processes are to share it.

    The garbage collector leaves alone what was imported and collected, and comes rarely.

    Ten thousand tests and PyTorch are a large heap, which it would walk through again and again.
    """
    fork = sys.modules.get("system.fork")
    if fork is not None and session.config.option.processes > 1:
        fork.begin()
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write the generated code to tests/golden instead of comparing with it",
    )


@pytest.fixture(scope="session", autouse=True)
def nobodys_boards(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whoever runs the tests may have boards and measurements: here they are not known."""
    os.environ["XDG_CONFIG_HOME"] = str(tmp_path_factory.mktemp("configuration"))
    os.environ["XDG_DATA_HOME"] = str(tmp_path_factory.mktemp("data"))


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT means KeyboardInterrupt, here and in child processes.

    A shell starts what is in the background with it ignored, and that is inherited.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many graphs and files the properties hold for: each test recorded those of its own."""
    passed = terminalreporter.stats.get("passed", ())
    graphs = {
        number
        for report in passed
        for name, numbers in report.user_properties
        if name == "random graphs"
        for number in numbers
    }
    if graphs:
        terminalreporter.write_line(f"random graphs: {len(graphs):,}")
    cases: Counter[str] = Counter()
    for report in passed:
        for name, value in report.user_properties:
            if name == "fuzz cases":
                cases[value[0]] += value[1]
    if cases:
        counts = ", ".join(f"{name} {count:,}" for name, count in cases.items())
        terminalreporter.write_line(f"fuzz cases: {cases.total():,} ({counts})")
