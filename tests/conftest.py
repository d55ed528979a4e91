"""Options of the whole test suite, and what it says at its end."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write the generated code to tests/golden instead of comparing with it",
    )


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
