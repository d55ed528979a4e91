# SPDX-License-Identifier: Apache-2.0
"""Whatever a file says: a clear error or a result, in bounded time and memory, and in its place.

Each part is a process of its own, since memory is limited per process. A failure names its case;
`PYTHONPATH=tests .venv/bin/python -m fuzz --case onnx:17` replays it.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import settings

from fuzz.formats import FORMATS
from system.commands import Result, forked

CASES = 20 if settings.default.max_examples < 100 else 1000  # type: ignore[union-attr]
"""Per format: 20, or 1,000 with `--hypothesis-profile=thorough`."""

LONG_PART, LONG_PARTS = 500, 20


FUZZ = "from fuzz.__main__ import main; raise SystemExit(main())"


def run(code: str, *arguments: str, cwd: Path) -> Result:
    variables = os.environ | {"OMP_NUM_THREADS": "1"}
    return forked(code, "fuzz", *arguments, cwd=cwd, variables=variables, timeout_s=580)


def fuzz(name: str, first: int, count: int, folder: Path, record: pytest.FixtureRequest) -> None:
    """Run cases in a process of its own, and record how many they were."""
    log = folder / "case"
    arguments = ["--format", name, "--log", str(log), "--first", str(first), "--count", str(count)]
    try:
        result = run(FUZZ, *arguments, cwd=folder)
    except subprocess.TimeoutExpired:
        pytest.fail(f"{log.read_text()} hangs, or the machine is too slow for {count} cases")
    where = log.read_text() if log.exists() else "the start"
    assert result.code == 0, f"after {where}:\n{result.stderr[-5000:]}"
    found = json.loads(result.stdout.splitlines()[-1])
    assert found["cases"] == count
    assert found["codes"].get("0", 0) >= count // 20, "hardly a case was accepted"
    record.node.user_properties.append(("fuzz cases", (name, count)))


@pytest.mark.parametrize("name", FORMATS)
def test_whatever_a_file_says(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    fuzz(name, 0, CASES, tmp_path, request)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(LONG_PARTS))
@pytest.mark.parametrize("name", FORMATS)
def test_whatever_a_file_says_at_length(
    name: str, part: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    fuzz(name, CASES + part * LONG_PART, LONG_PART, tmp_path, request)


BREAKING = """
import sys
from fuzz import __main__, running
from poetfw.cli import main
from pathlib import Path

def broken():
    {what}

made = []
main._run = broken
running.CPU_LIMIT_S = 1.0
sys.exit(__main__.main())
"""


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("return 70", "exit code 70"),
        ("return 9", "exit code 9"),
        ("raise ValueError('x')", "ValueError: x"),
        ("made.append(bytearray(3 << 30)); return 0", "MemoryError"),
        ("\n    while True: pass", "more than 1 s of processor time"),
        ("Path('stray').touch(); return 0", "changes work/stray"),
        ("Path('../outside/sentinel').unlink(); return 0", "changes outside/sentinel"),
        ("open('/var/tmp/poetfw-stray', 'ab').close(); return 0", "writes /var/tmp/poetfw-stray"),
        ("print('\\x1b[2J', file=sys.stderr); return 0", "control characters"),
        ("print('FORGED', file=sys.stderr); return 0", "a forged line"),
        ("print('error: x' * 9999, file=sys.stderr); return 1", "characters on stderr"),
        ("return 1", "without a word"),
        ("print('x'); print('error:', file=sys.stderr); return 1", ": 'x\\n'"),
    ],
)
def test_the_judge_finds_what_is_wrong(what: str, says: str, tmp_path: Path) -> None:
    result = run(BREAKING.format(what=what), "--format", "csv", "--count", "1", cwd=tmp_path)
    Path("/var/tmp/poetfw-stray").unlink(missing_ok=True)
    assert result.code == 1, result.stderr
    assert says in result.stderr
