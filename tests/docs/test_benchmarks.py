# SPDX-License-Identifier: Apache-2.0
"""Every command of benchmarks/ explains itself with an example, and is on a page."""

from __future__ import annotations

import re

import pytest

from docs.pages import PAGES, REPOSITORY, read
from system.commands import BENCHMARKS, benchmark

COMMANDS = sorted(path.stem for path in BENCHMARKS.glob("*.py"))


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_an_example_of_options_that_it_has(name: str) -> None:
    text = benchmark(name, "--help").stdout
    source = (BENCHMARKS / f"{name}.py").read_text()
    example = re.search(rf"python benchmarks/{name}\.py ([\w./*-][\w ./*-]*)", source)
    assert example is not None
    assert all(option in text for option in re.findall(r"--[\w-]+", example[1])), example[1]


def test_every_command_is_on_a_page_or_behind_make() -> None:
    pages = "".join(map(read, (*PAGES, "Makefile")))
    assert set(re.findall(r"python benchmarks/(\w+)\.py", pages)) >= set(COMMANDS)
    assert {path.suffix for path in (REPOSITORY / "benchmarks").glob("*.*")} == {".py"}
