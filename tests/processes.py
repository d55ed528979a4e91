# SPDX-License-Identifier: Apache-2.0
"""Runs the tests in several processes, forked from the one that has collected them.

Processes that each begin anew import PyTorch, ONNX and all tests as often as there are processes,
and on a fresh checkout compile them as often. A fork has it all, and is free: one whose test
crashed is replaced.

Files are dealt out whole, in order, so that what the tests of a file share is made once; whoever
finds none left takes half of the longest rest of another. Each process has two tests, as the end
of one depends on the next.
"""

from __future__ import annotations

import multiprocessing
import warnings
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import pytest

_FORK = multiprocessing.get_context("fork")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--processes",
        type=int,
        default=0,
        metavar="N",
        help="run the tests in this many processes, forked after their collection",
    )


def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the tests in processes, if that is asked for and none failed to be collected."""
    count = session.config.option.processes
    if count < 1 or session.config.option.collectonly or session.testsfailed:
        return None
    loop = _Loop(session, count)
    try:
        loop.run()
    finally:
        loop.end()
    return True


@dataclass(eq=False)
class _Worker:
    """A process, the numbers of the tests that it was given, and of those that wait for it."""

    process: BaseProcess
    connection: Connection
    given: deque[int] = field(default_factory=deque)
    waiting: deque[int] = field(default_factory=deque)
    is_told: bool = False
    """True when it knows its last test."""


class _Loop:
    """Deals out tests, and reports what the processes say."""

    def __init__(self, session: pytest.Session, count: int) -> None:
        self._session, self._config = session, session.config
        self._files = deque(
            deque(number for number, _ in file)
            for _, file in groupby(enumerate(session.items), lambda pair: pair[1].path)
        )
        self._workers: list[_Worker] = []
        for _ in range(count):
            self._workers.append(self._forked())

    def _forked(self) -> _Worker:
        ours, theirs = _FORK.Pipe()
        not_theirs = [ours, *(worker.connection for worker in self._workers)]
        process = _FORK.Process(target=_work, args=(self._session, theirs, not_theirs))
        process.start()
        theirs.close()
        return _Worker(process, ours)

    def run(self) -> None:
        """Have every test run.

        Raises:
            Session.Failed: as many tests failed as end the session.
            Session.Interrupted: a plugin asked for the end.
        """
        for worker in self._workers:
            self._give(worker)
        while self._workers:
            ready = wait([worker.connection for worker in self._workers])
            for worker in [w for w in self._workers if w.connection in ready]:
                self._hear(worker)
                if self._session.shouldfail:
                    raise self._session.Failed(self._session.shouldfail)
                if self._session.shouldstop:
                    raise self._session.Interrupted(self._session.shouldstop)

    def end(self) -> None:
        """End every process, at once if it is at work still."""
        for worker in self._workers:
            worker.process.kill()
            worker.process.join()

    def _give(self, worker: _Worker) -> None:
        """Let a process know two tests, the second or the first as none if no more are left."""
        while len(worker.given) < 2 and not worker.is_told:
            number = self._next(worker)
            worker.is_told = number is None
            if number is not None:
                worker.given.append(number)
            worker.connection.send(number)

    def _next(self, worker: _Worker) -> int | None:
        if not worker.waiting and self._files:
            worker.waiting = self._files.popleft()
        if not worker.waiting:
            longest = max((other.waiting for other in self._workers), key=len)
            worker.waiting.extend(longest.pop() for _ in range((len(longest) + 1) // 2))
            worker.waiting.reverse()
        return worker.waiting.popleft() if worker.waiting else None

    def _hear(self, worker: _Worker) -> None:
        hook = self._config.hook
        try:
            kind, said = worker.connection.recv()
        except (EOFError, ConnectionResetError):
            self._lose(worker)
            return
        if kind == "report":
            report = hook.pytest_report_from_serializable(config=self._config, data=said)
            hook.pytest_runtest_logreport(report=report)
        elif kind == "warning":
            hook.pytest_warning_recorded.call_historic(kwargs=said)
        else:
            self._finish(worker.given.popleft())
            self._give(worker)

    def _finish(self, number: int) -> None:
        item = self._session.items[number]
        self._config.hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)

    def _lose(self, worker: _Worker) -> None:
        """Take note of a process's end; its tests go to a new one if it ended too early."""
        worker.process.join()
        self._workers.remove(worker)
        if not worker.given:
            return
        number = worker.given.popleft()
        item, code = self._session.items[number], worker.process.exitcode
        report = pytest.TestReport(
            item.nodeid, item.location, {}, "failed", f"its process ended with {code}", "call"
        )
        self._config.hook.pytest_runtest_logreport(report=report)
        self._finish(number)
        new = self._forked()
        new.waiting = deque([*worker.given, *worker.waiting])
        self._workers.append(new)
        self._give(new)


class _Terminal:
    """Stands in for the plugin that prints: a test that takes too long still writes where it is."""

    def __init__(self, writer: Any) -> None:
        self._tw = writer


class _Sender:
    """A plugin of a process that sends what its session reports."""

    def __init__(self, config: pytest.Config, connection: Connection) -> None:
        self._config, self._connection = config, connection

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Send a report."""
        hook = self._config.hook
        data = hook.pytest_report_to_serializable(config=self._config, report=report)
        self._connection.send(("report", data))

    def pytest_warning_recorded(
        self,
        warning_message: warnings.WarningMessage,
        when: str,
        nodeid: str,
        location: tuple[str, int, str] | None,
    ) -> None:
        """Send a warning as text and kind: not every exception can be sent."""
        kind = next(k for k in warning_message.category.__mro__ if k.__module__ == "builtins")
        said: dict[str, Any] = {"when": when, "nodeid": nodeid, "location": location}
        said["warning_message"] = warnings.WarningMessage(
            str(warning_message.message), kind, warning_message.filename, warning_message.lineno
        )
        self._connection.send(("warning", said))


def _work(session: pytest.Session, connection: Connection, not_ours: list[Connection]) -> None:
    """Run the tests whose numbers come, each with the next one known, until none comes."""
    for other in not_ours:
        other.close()
    config, plugins = session.config, session.config.pluginmanager
    writer = config.get_terminal_writer()
    plugins.unregister(name="terminalreporter")
    plugins.register(_Terminal(writer), "terminalreporter")
    capture = plugins.getplugin("capturemanager")
    capture.stop_global_capturing()  # it writes where that of the other processes does
    capture.start_global_capturing()
    capture.suspend()
    plugins.register(_Sender(config, connection))
    for item, following in _pairs(session.items, connection):
        config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        connection.send(("done", None))


def _pairs(
    items: list[pytest.Item], connection: Connection
) -> Iterator[tuple[pytest.Item, pytest.Item | None]]:
    """Each test whose number comes, with the one after it."""
    number = connection.recv()
    while number is not None:
        following = connection.recv()
        yield items[number], None if following is None else items[following]
        number = following
