"""Options of the whole test suite, and what it says at its end."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write the generated code to tests/golden instead of comparing with it",
    )


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT means KeyboardInterrupt, here and in child processes.

    A shell starts what is in the background with it ignored, and that is inherited.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many graphs the properties hold for: each test recorded the numbers of its own."""
    graphs = {
        number
        for report in terminalreporter.stats.get("passed", ())
        for name, numbers in report.user_properties
        if name == "random graphs"
        for number in numbers
    }
    if graphs:
        terminalreporter.write_line(f"random graphs: {len(graphs):,}")
