# SPDX-License-Identifier: Apache-2.0
"""The threads that run a step on several devices: their turns, and what ends them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TEMPLATES = HERE.parents[2] / "firmware_templates"
FLAGS = (
    *("-std=c11", "-O1", "-g", "-pthread"),
    *("-Wall", "-Wextra", "-Wconversion", "-Werror"),
    *(f"-I{TEMPLATES / folder}" for folder in ("workers", "runtime", "storage")),
)
PLAN = """#include "slots.h"
#ifndef POET_WORKERS
#define POET_WORKERS 3u
#endif
"""


def build(folder: Path, *flags: str) -> Path:
    (folder / "plan.h").write_text(PLAN)
    program = folder / "workers"
    sources = (HERE / "workers_harness.c", TEMPLATES / "workers/workers.c")
    command = ["gcc", *FLAGS, *flags, f"-I{folder}", "-o", str(program), *map(str, sources)]
    subprocess.run(command, check=True)
    return program


def run(program: Path, mode: str) -> tuple[int, list[str]]:
    ended = subprocess.run([program, mode], capture_output=True, text=True, check=False, timeout=60)
    return ended.returncode, ended.stdout.splitlines()


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("workers"), "-DPOET_WORKER_S=1")


def test_statements_come_in_turn_and_the_first_worker_reports(program: Path) -> None:
    """20 steps of 60 statements; what an application has called is called by the first worker."""
    assert run(program, "in turn") == (0, ["0 60 1", "0 60 1", f"{20 * 20} in turn"])


def test_one_worker_does_all_in_order(tmp_path: Path) -> None:
    program = build(tmp_path, "-DPOET_WORKERS=1u")
    assert run(program, "in turn") == (0, ["0 60 1", "0 60 1", f"{20 * 60} in turn"])


def test_how_the_first_fails_is_how_the_step_ends_and_the_next_one_works(program: Path) -> None:
    code, lines = run(program, "fails")
    assert (code, lines[:2]) == (0, ["-5 19 1", "0 60 1"])


@pytest.mark.parametrize("mode", ["hangs", pytest.param("dies", marks=pytest.mark.slow)])
def test_a_worker_that_hangs_or_dies_ends_the_step_in_time(program: Path, mode: str) -> None:
    """It has the storage then, which the others would wait for next."""
    assert run(program, mode) == (1, ["-96 19 1"])


@pytest.mark.slow
def test_slow_is_not_hanging(tmp_path: Path) -> None:
    """Three statements of 2 s each, for a worker that waits for all of them: one ends in time."""
    assert run(build(tmp_path, "-DPOET_WORKER_S=3"), "slow")[1][0] == "0 60 1"


def test_copies_pass_the_buffers(program: Path) -> None:
    assert run(program, "copies") == (0, [])


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["in turn", "fails"])
def test_workers_do_not_race(tmp_path: Path, mode: str) -> None:
    program = build(tmp_path, "-fsanitize=thread")
    code, lines = run(program, mode)
    assert code == 0
    assert lines[1] == "0 60 1"
