# SPDX-License-Identifier: Apache-2.0
"""Copies of a checkout, and tests in processes forked from one that has collected them all.

Importing PyTorch, ONNX and the tests takes longer than most tests that notice a mistake. A mistake
in what runs on import is judged in a process that begins with less.
"""

from __future__ import annotations

import builtins
import gc
import importlib
import multiprocessing
import os
import resource
import shutil
import signal
import sys
import tempfile
from collections import defaultdict
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import zip_longest
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple, Protocol

import pytest
from hypothesis import Phase, settings

from mutants import marks, patches

PRELOADED = "pytest,hypothesis,numpy,onnx,cvxpy,click,rich.progress,scipy.optimize,highspy,torch"
"""Most of a test's time would go into importing these."""
_PYTEST = ("-q", "--tb=no", "-m", "not slow", "-p", "no:cacheprovider")
RECORD_S = 900.0
"""Seconds of a processor that a test file may take while it is recorded."""
_LEFT_OUT = (".git", ".venv", ".hypothesis", ".*_cache", "build", "dist")
"""Names that are left out of a copy of a checkout, as no test reads them."""
_PROFILE = "--hypothesis-profile=mutants"
_CONTEXT = multiprocessing.get_context("forkserver")
_FORK = multiprocessing.get_context("fork")
UNCHANGED = "no function has changed"
"""Answer where a mistake is in none of the functions that there are."""
_TOO_LONG = (-signal.SIGXCPU, -signal.SIGPROF, -signal.SIGKILL)


class Plugin(Protocol):
    """A plugin of pytest that has something to tell."""

    def start(self, imports: Imports) -> None:
        """Begin before any test runs."""

    def chosen(self, items: Sequence[pytest.Item]) -> list[pytest.Item]:
        """Tests to run, of those collected."""

    def is_done(self) -> bool:
        """True if no other test has to run."""

    def answer(self) -> str:
        """Text that the process leaves."""


class Exchange(NamedTuple):
    """A Python file, its text without and with a mistake."""

    file: Path
    right: str
    wrong: str

    def is_possible(self) -> bool:
        """True if the mistake can be made where the file has been imported."""
        return patches.replacements(*map(str, self)) is not None


class Copy:
    """A copy of the checkout, whose compilers look into the checkout's caches."""

    def __init__(self, checkout: Path, folder: Path) -> None:
        self.root, self.temporary = folder / "checkout", folder / "temporary"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(checkout, self.root, ignore=shutil.ignore_patterns(*_LEFT_OUT))
        (self.root / ".venv").symlink_to(checkout / ".venv")
        (self.root / "build").mkdir()
        for cache in ("build/ccache", "build/objects"):
            (checkout / cache).mkdir(parents=True, exist_ok=True)
            (self.root / cache).symlink_to(checkout / cache)

    def prepare(self) -> None:
        """Empty the folder of temporary files."""
        shutil.rmtree(self.temporary, ignore_errors=True)
        self.temporary.mkdir()

    def run_anew(self, files: Sequence[str], plugin: Plugin, longest_s: float) -> str | None:
        """Answer of the plugin after files were imported; None if the tests take too long."""
        process = _CONTEXT.Process(
            target=_begin, args=(self.root, self.temporary, files, plugin, longest_s)
        )
        process.start()
        return self._answer(process.pid or 0, _ended(process, longest_s))

    def run(self, plugin: Plugin, longest_s: float, exchange: Exchange | None = None) -> str | None:
        """The same in a fork of a process that has collected all tests, with a mistake in it."""
        self._server.send((self.temporary, plugin, longest_s, exchange))
        return self._answer(*self._server.recv())

    def _answer(self, pid: int, code: int | None) -> str | None:
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        answer = self.temporary / "answer"
        if code in _TOO_LONG:
            return None
        return answer.read_text() if answer.exists() else "it crashes"

    def end(self) -> None:
        """End the process that has collected all tests, if there is one."""
        if "_server" in vars(self):
            self._server.close()

    @cached_property
    def _server(self) -> Connection:
        ours, theirs = multiprocessing.Pipe()
        folder = self.temporary.with_name("server")
        folder.mkdir()
        _CONTEXT.Process(target=_serve, args=(self.root, folder, theirs)).start()
        theirs.close()
        return ours


def _ended(process: BaseProcess, longest_s: float) -> int | None:
    """Exit code of a process, which ends it where it waits for ever."""
    process.join(10 * longest_s)  # a process may have to wait for its processor
    if process.is_alive():
        process.kill()
        process.join()
    return process.exitcode


def preload(modules: str = PRELOADED) -> None:
    """Say what processes begin with."""
    _CONTEXT.set_forkserver_preload(modules.split(","))


class Imports:
    """Files that each module imported, and marks that were reached meanwhile."""

    def __init__(self) -> None:
        self._imported: dict[str, set[str]] = defaultdict(set)
        self.reached: Collection[int] = ()

    def note(self) -> None:
        """Note all imports from now on."""
        statement, function = builtins.__import__, importlib.import_module

        def stated(
            name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
        ) -> Any:
            found = statement(name, globals, locals, fromlist, level)
            importer = (globals or {}).get("__name__", "")
            top = getattr(found, "__name__", name) if fromlist or level else name
            self._imported[importer] |= {top, *(f"{top}.{part}" for part in fromlist or ())}
            return found

        def called(name: str, package: str | None = None) -> Any:
            found = function(name, package)
            importer = sys._getframe(1).f_globals["__name__"]
            self._imported[importer].add(getattr(found, "__name__", name))
            return found

        builtins.__import__ = stated
        importlib.import_module = called

    def files(self, name: str) -> set[Path]:
        """Files of a module and of all that it imports, which none but it need have done."""
        waiting, seen = [name], set[str]()
        while waiting:
            at = waiting.pop()
            if at not in seen:
                seen.add(at)
                waiting += [*self._imported[at], *filter(None, [at.rpartition(".")[0]])]
        found = [getattr(sys.modules.get(at), "__file__", None) for at in seen]
        return {Path(file) for file in found if file}


def _begin(
    root: Path, temporary: Path, files: Sequence[str], plugin: Plugin, longest_s: float
) -> None:
    """Collect some tests in this process, and run those that the plugin chooses."""
    _enter(temporary, longest_s)
    _prepare(root)
    plugin.start(Imports())
    once = _Once(plugin)
    code = pytest.main([*_PYTEST, _PROFILE, "-x", *files], plugins=[plugin, once])
    otherwise = "" if code in (0, 1, 5) else f"pytest: {int(code)}"
    _leave(temporary, plugin.answer() or otherwise)


def _enter(temporary: Path, longest_s: float) -> None:
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CPU, (int(longest_s) + 1, resource.RLIM_INFINITY))
    with (temporary / "output").open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    _use(temporary)


def _use(temporary: Path) -> None:
    """Have temporary files in a folder, which ccache takes for any other."""
    os.environ["TMPDIR"] = os.environ["CCACHE_BASEDIR"] = tempfile.tempdir = str(temporary)


def _prepare(root: Path) -> None:
    os.chdir(root)
    os.environ["PYTHONPATH"] = str(root / "host")
    sys.path.insert(0, str(root / "host"))
    how: dict[str, Any] = {"max_examples": 10, "deadline": None, "derandomize": True}
    settings.register_profile("mutants", phases=(Phase.explicit, Phase.generate), **how)
    gc.freeze()  # pytest collects garbage again and again: not what was there before it


def _leave(temporary: Path, answer: str) -> None:
    (temporary / "answer").write_text(answer)
    sys.stdout.flush()
    os._exit(0)


class _Once:
    """Has the tests run that a plugin chooses."""

    def __init__(self, plugin: Plugin) -> None:
        self._plugin = plugin

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out the other tests."""
        items[:] = self._plugin.chosen(items)


def _serve(root: Path, folder: Path, connection: Connection) -> None:
    """Collect all tests, then run some in a fork as often as it is asked for."""
    with (folder / "output").open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    _use(folder)
    _prepare(root)
    (folder / "marks").write_bytes(bytes(marks.SIZE))
    os.environ[marks.MAP] = str(folder / "marks")
    imports = Imports()
    imports.note()
    pytest.main([*_PYTEST, _PROFILE, "tests"], plugins=[_Server(connection, imports)])


class _Server:
    """A plugin of pytest that forks its session."""

    def __init__(self, connection: Connection, imports: Imports) -> None:
        self._connection, self._imports = connection, imports
        self._functions: dict[CodeType, list[FunctionType]] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self) -> None:
        """Find all functions before the garbage collector is told to forget them."""
        self._functions = patches.functions_by_code()
        reached = Path(os.environ[marks.MAP]).read_bytes()
        self._imports.reached = [number for number, is_set in enumerate(reached) if is_set]
        commands = sys.modules.get("system.fork")
        if self._imports.reached and commands is not None:
            commands.begin()  # once, as all its processes have these marks
            nowhere = Path(os.devnull)
            commands.run("", (), Path.cwd(), os.environ, (nowhere, nowhere), RECORD_S)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Fork for each request, until nobody is there to ask."""
        with suppress(EOFError):
            while True:
                temporary, plugin, longest_s, exchange = self._connection.recv()
                process = _FORK.Process(
                    target=self._work, args=(session, temporary, plugin, longest_s, exchange)
                )
                process.start()
                self._connection.send((process.pid, _ended(process, longest_s)))
        return True

    def _work(
        self,
        session: pytest.Session,
        temporary: Path,
        plugin: Plugin,
        longest_s: float,
        exchange: Exchange | None,
    ) -> None:
        _enter(temporary, longest_s)
        plugins = session.config.pluginmanager
        capture = plugins.getplugin("capturemanager")
        capture.stop_global_capturing()  # it writes where the server's does
        capture.start_global_capturing()
        capture.suspend()
        if exchange is not None:
            found = patches.replacements(*map(str, exchange)) or {}
            if not patches.patch(self._functions, found) and patches.is_imported(exchange.file):
                _leave(temporary, UNCHANGED)
        plugin.start(self._imports)
        plugins.register(plugin)
        items = plugin.chosen(session.items)
        for item, following in zip_longest(items, items[1:]):
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if plugin.is_done():
                break
        _leave(temporary, plugin.answer())
