# SPDX-License-Identifier: Apache-2.0
"""The runner of mutations on a small checkout of its own; and that no mutation of ours is stale."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from mutants import run

CODE = """\
def larger(a, b):
    return a if a > b else b


def absolute(a):
    return -a if a < 0 else a


PROGRAM = "int main(void) {}"
"""

TESTS = """\
import subprocess

import pytest

from code_under_test import PROGRAM, absolute, larger


@pytest.fixture
def five():
    assert absolute(-5) == 5


@pytest.fixture
def compiled():
    subprocess.run(["gcc", "-fsyntax-only", "-xc", "-"], input=PROGRAM.encode(), check=True)


def test_fixtures(five, compiled):
    pass


def test_larger():
    assert larger(1, 2) == 2


def test_larger_of_equals():
    assert larger(2, 2) == 2


def test_absolute():
    assert absolute(-3) == 3
"""


def lists(folder: Path, *mutants: str) -> Path:
    """A folder with one list of mutations, in a checkout that is made beside it."""
    checkout = folder / "checkout"
    (checkout / "host").mkdir(parents=True)
    (checkout / "tests").mkdir()
    (checkout / "host/code_under_test.py").write_text(CODE)
    (checkout / "tests/test_code.py").write_text(TESTS)
    (folder / "lists").mkdir()
    (folder / "lists/small.toml").write_text(
        '[[file]]\npath = "host/code_under_test.py"\ntests = ["tests/test_code.py"]\n'
        f"mutants = [\n{''.join(mutants)}]\n"
    )
    return folder / "lists"


def apply(folder: Path, *options: str) -> tuple[int, str, str]:
    places = ("--lists", folder, "--checkout", folder.parent / "checkout", "--preload", "pytest")
    result = subprocess.run(
        [sys.executable, run.__file__, *places, *options],
        capture_output=True,
        text=True,
        timeout=300,
    )
    return result.returncode, result.stdout, result.stderr


KILLED = "{ old = 'a if a > b else b', new = 'b if a > b else a' },\n"
SURVIVES = "{ old = 'if a < 0', new = 'if a < -1' },\n"
EXPLAINED = "{ old = 'if a > b', new = 'if a >= b', equivalent = 'equals are equal' },\n"
STALE = "{ old = 'return', new = 'yield' },\n"
MISJUDGED = "{ old = 'return -a', new = 'return a', equivalent = 'it is not' },\n"
BROKEN = "{ old = 'def larger', new = 'def smaller' },\n"
ONLY_FIXTURES = "tests = ['tests/test_code.py::test_fixtures']"
FIXTURE_FAILS = f"{{ old = 'return -a', new = 'return +a', {ONLY_FIXTURES} }},\n"
COMPILER_FAILS = f"{{ old = 'main(void)', new = 'main(', {ONLY_FIXTURES} }},\n"
SPREAD = "{ old = 'def absolute(a): return -a if', new = 'def absolute(a): return a if' },\n"


def test_it_tells_what_became_of_each_mutation(tmp_path: Path) -> None:
    listed = KILLED, SURVIVES, EXPLAINED, STALE, MISJUDGED, BROKEN, SPREAD
    folder = lists(tmp_path, *listed, FIXTURE_FAILS, COMPILER_FAILS)
    before = (tmp_path / "checkout/host/code_under_test.py").read_bytes()
    code, stdout, stderr = apply(folder, "--json", "-j", "2")
    assert code == 1, stderr
    fates = [verdict["fate"] for verdict in json.loads(stdout)]
    assert fates == [
        "killed", "survived", "survived", "stale", "misjudged", "broken", "killed",
        "killed", "broken",
    ]  # fmt: skip
    assert "test_larger" in json.loads(stdout)[0]["note"]
    assert "found 2 times" in json.loads(stdout)[3]["note"]
    assert (tmp_path / "checkout/host/code_under_test.py").read_bytes() == before
    for fate in ("survived: host/code_under_test.py: if a < 0", "stale:", "misjudged:", "broken:"):
        assert fate in stderr.replace("\n", " ")
    assert stderr.endswith("9 of 9 mutations\n")
    assert "if a >= b" not in stderr.replace("\n", " ")


def test_the_cheapest_tests_come_first_but_modules_stay_together() -> None:
    costs = {"long.py::a": 0.1, "long.py::b": 9.0, "short.py::a": 2.0, "short.py::b": 1.0}
    tests = [SimpleNamespace(nodeid=name, path=Path(name.partition("::")[0])) for name in costs]
    run.Watch(costs).pytest_collection_modifyitems(tests)  # type: ignore[arg-type]
    expected = ["short.py::b", "short.py::a", "long.py::a", "long.py::b"]
    assert [test.nodeid for test in tests] == expected


def test_all_killed_is_a_success(tmp_path: Path) -> None:
    code, stdout, stderr = apply(lists(tmp_path, KILLED, SURVIVES), "--only", "larger")
    assert code == 2, stderr  # of mutations it is their own text that is searched
    code, stdout, stderr = apply(tmp_path / "lists", "--only", "a > b")
    assert (code, stdout) == (0, "1 mutations: 1 killed\n"), stderr


def test_too_many_may_not_survive_even_if_explained(tmp_path: Path) -> None:
    code, stdout, _ = apply(lists(tmp_path, KILLED, EXPLAINED))
    assert code == 1
    assert stdout.splitlines()[-1] == "2 mutations: 1 killed, 1 survived"
    assert "equals are equal" in stdout


def test_tests_that_fail_anyway_prove_nothing(tmp_path: Path) -> None:
    folder = lists(tmp_path, KILLED)
    with (tmp_path / "checkout/tests/test_code.py").open("a") as file:
        file.write("\n\ndef test_wrong():\n    assert larger(1, 2) == 1\n")
    code, _, stderr = apply(folder)
    assert code == 2
    assert "without any mutation, pytest ends with code 1" in stderr.replace("\n", " ")


OURS = run.load()


@pytest.mark.parametrize("area", sorted({mutant.area for mutant in OURS}))
def test_no_mutation_of_ours_is_stale(area: str) -> None:
    stale = {
        str(mutant): reason
        for mutant in OURS
        if mutant.area == area and (reason := mutant.stale(run.CHECKOUT))
    }
    assert stale == {}


def test_there_are_enough_of_them_and_few_are_said_to_change_nothing() -> None:
    assert len(OURS) >= 300
    assert len(set(OURS)) == len(OURS)
    explained = [mutant for mutant in OURS if mutant.equivalent is not None]
    assert len(explained) <= run.LARGEST_SURVIVING_SHARE * len(OURS)
