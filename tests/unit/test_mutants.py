# SPDX-License-Identifier: Apache-2.0
"""The generator of mistakes and the judge of tests, on a small checkout of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from mutants import run
from mutants.reach import Reach
from mutants.rules import mutants

CODE = """\
def clipped(a, most=3):
    if a > most:
        return most
    return a


def absolute(a):
    return -a if a < 0 else a
"""
TESTS = """\
from poetfw.code import absolute, clipped


def test_clipped():
    assert [clipped(a) for a in (2, 3, 4)] == [2, 3, 3]


def test_absolute():
    assert [absolute(a) for a in (-1, 0.5)] == [1, 0.5]
"""


def checkout(folder: Path, tests: str = TESTS) -> Path:
    for name, text in {
        "host/poetfw/__init__.py": "",
        "host/poetfw/code.py": CODE,
        "host/poetfw/other.py": "from poetfw import code\n",
        "tests/test_code.py": tests,
        "tests/test_other.py": "from poetfw.other import code\n",
        "firmware_templates/add.c": "int add(int a, int b)\n{\n    return a + b;\n}\n",
        "tests/test_add.py": "SOURCE = 'add.c'\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def judged(folder: Path, *options: str) -> tuple[int, dict[str, str]]:
    arguments = ["--checkout", str(folder), "--preload", "pytest", "--json", *options]
    result = CliRunner().invoke(run.main, arguments)
    verdicts = json.loads(result.stdout)
    return result.exit_code, {
        f"{v['mutant']['old']} → {v['mutant']['new']}": v["fate"] for v in verdicts
    }


def test_python_is_broken_by_rule() -> None:
    found = {(m.line, m.old, m.new) for m in mutants("code.py", CODE)}
    assert found == {
        (1, "3", "2"),
        (1, "3", "4"),
        (2, ">", ">="),
        (2, "a > most", "(not (a > most))"),
        (8, "<", "<="),
        (8, "0", "1"),
        (8, "0", "-1"),
        (8, "a < 0", "(not (a < 0))"),
    }


def test_what_people_read_is_left_alone() -> None:
    text = '''\
@option("--n", default=3)
def f(a: "int | None") -> int:
    """Docs 3 + 4."""
    assert a > 1
    zip(a, strict=True)
    raise ValueError(f"{a + 1} of {2}")
'''
    assert [m.old for m in mutants("code.py", text)] == [
        "zip(a, strict=True)",
        'raise ValueError(f"{a + 1} of {2}")',
    ]


def test_c_is_broken_by_rule() -> None:
    text = """\
#define A 1
void f(int *a)
{
    /* 3 + 4 */
    if (a[0] < 2u) {
        g("x + 1");
    }
}
"""
    found = {(m.old, m.new) for m in mutants("f.c", text)}
    assert found == {
        ("<", "<="), ("0", "1"), ("2u", "3u"), ("2u", "1u"),
        ("(a[0] < 2u)", "(!(a[0] < 2u))"), ('g("x + 1");', ";"),
    }  # fmt: skip
    assert all(m.applied(text).endswith("}\n") for m in mutants("f.c", text))


def test_tests_are_found_by_what_they_import_or_name(tmp_path: Path) -> None:
    reach = Reach(checkout(tmp_path))
    assert reach.sources() == [
        "firmware_templates/add.c",
        "host/poetfw/code.py",
        "host/poetfw/other.py",
    ]
    assert reach.tests_of("host/poetfw/code.py", 9) == ["tests/test_code.py", "tests/test_other.py"]
    assert reach.tests_of("host/poetfw/code.py", 1) == ["tests/test_code.py"]
    assert reach.tests_of("firmware_templates/add.c", 9) == ["tests/test_add.py"]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_survives_is_named_and_tests_that_fail_anyway_prove_nothing(tmp_path: Path) -> None:
    folder = checkout(tmp_path / "right")
    code, fates = judged(folder, "--only", "code.py")
    assert code == 1
    assert {name for name, fate in fates.items() if fate != "killed"} == {"> → >=", "< → <="}
    assert (folder / "host/poetfw/code.py").read_text() == CODE
    wrong = checkout(tmp_path / "wrong", TESTS.replace("== [1, 0.5]", "== [1, 2]"))
    assert judged(wrong, "--only", "code.py")[0] == 2


def test_mistakes_by_hand_are_in_their_files() -> None:
    kept = dict(run.by_hand(run.CHECKOUT, run.CHECKOUT / "tests/mutants/by_hand.toml"))
    assert len(kept) > 30
    by_rule = {str(m) for mutant in kept for m in mutants(mutant.path, _text(mutant.path))}
    assert not by_rule & {str(mutant) for mutant in kept}
    assert all((run.CHECKOUT / t.partition("::")[0]).exists() for ts in kept.values() for t in ts)


def _text(path: str) -> str:
    return (run.CHECKOUT / path).read_text()
