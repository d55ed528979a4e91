# SPDX-License-Identifier: Apache-2.0
"""The generator of mistakes and the judge of tests, on a small checkout of its own."""

from __future__ import annotations

import builtins
import importlib
import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from mutants import copies, marks, patches, run
from mutants.reach import ENDED_S, Reach, Recorded, digest, ordered
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
ADD = """\
import ctypes
import subprocess

import pytest


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    out = tmp_path_factory.mktemp("add") / "add.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "firmware_templates/add.c", "-o", out], check=True)
    return ctypes.CDLL(out)


def test_loads(library):
    assert library


def test_adds(library):
    assert library.add(2, 3) == 5


def test_is_loaded_already(library):
    assert library
"""


def checkout(folder: Path, tests: str = TESTS) -> Path:
    for name, text in {
        "host/poetfw/__init__.py": "",
        "host/poetfw/code.py": CODE,
        "host/poetfw/other.py": "from poetfw import code\n",
        "tests/test_code.py": tests,
        "tests/test_other.py": "from poetfw.other import code\n",
        "firmware_templates/add.c": "int add(int a, int b)\n{\n    return a + b;\n}\n",
        "tests/test_add.py": ADD,
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
        (1, "3", "4"),
        (2, ">", ">="),
        (2, "a > most", "(not (a > most))"),
        (3, "most", "None"),
        (4, "a", "None"),
        (8, "-a if a < 0 else a", "None"),
        (8, "<", "<="),
        (8, "0", "1"),
        (8, "a < 0", "(not (a < 0))"),
    }


def test_what_people_read_is_left_alone() -> None:
    text = '''\
@option("--n", default=3)
def f(a: "int | None") -> int:
    """Docs 3 + 4."""
    assert a > 1
    zip(a, strict=True)
    print(f"{a}", a + 1)
    wait(100)
    raise ValueError(f"{a + 1} of {2}")
'''
    assert [m.old for m in mutants("code.py", text)] == [
        "zip(a, strict=True)",
        "wait(100)",
        'raise ValueError(f"{a + 1} of {2}")',
    ]


def test_arguments_are_exchanged() -> None:
    assert [m.new for m in mutants("code.py", "a = f(b.c, d, 9 + 9)\n") if "f" not in m.old] == [
        "d, b.c",
        "-",
    ]


def test_what_nobody_could_notice_is_left_alone() -> None:
    assert {m.new for m in mutants("code.py", "a = min(b, c) + isclose(b, c) + f(b, b)\n")} == {"-"}
    assert mutants("code.py", "a = Picture(ms=3, autolim=False, zorder=5)\n") == []
    assert {m.new for m in mutants("code.py", "a = b.reshape(-1, 2)\n")} == {"3"}
    assert mutants("f.c", "    if ((uintptr_t)data % 4u == 0u) {\n") == []
    assert mutants("f.c", '    if (!__builtin_cpu_supports("fma")) {\n') == []
    assert {m.new for m in mutants("f.c", "    return 1;\n")} == {"0"}, "2 is as true as 1"


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
        ("<", "<="), ("0", "1"), ("2u", "3u"),
        ("(a[0] < 2u)", "(!(a[0] < 2u))"), ('g("x + 1");', ";"),
    }  # fmt: skip
    assert all(m.applied(text).endswith("}\n") for m in mutants("f.c", text))


def test_records_hold_while_only_words_change() -> None:
    code = 'def f(a):\n    """A."""\n    raise E(f"a {a}")\n'
    words, other = '# B\ndef f(a):\n    raise E(f"b {a}")\n', code.replace("{a}", "{b}")
    assert digest("f.py", code) == digest("f.py", words) != digest("f.py", other)
    assert digest("f.c", "a; /* b\n */\nc;") == digest("f.c", "a;\n\nc;") != digest("f.c", "a; b;")


def test_marks_are_reached_by_branch() -> None:
    code = '''\
"""Docs."""
from __future__ import annotations


@cached
def f(a):
    """Docs."""
    b = a
    if a:
        return 1
    elif b:
        b = 2
    for c in b:
        yield c
    return b
'''
    spans = marks.spans("code.py", code)
    assert [(span.first, span.last) for span in spans] == [
        (1, 16), (8, 12), (10, 10), (12, 12), (13, 14), (14, 14), (15, 15),
    ]  # fmt: skip
    assert [marks.mark_of(spans, line) for line in (2, 8, 10, 11, 14)] == [0, 1, 2, 1, 5]
    assert [marks.mark_of(spans, line) for line in (5, 6)] == [1, 1], "a signature is the body's"
    assert marks.spans_around("code.py", code, [10, 14]) == [spans[n] for n in (0, 2, 5)]
    assert marks.spans_around("code.py", code, [2]) == spans, "what runs on import is everybody's"
    lines = marks.marked("code.py", code, spans, 40).splitlines()
    assert lines[4:6] == ["from reached_marks import REACHED as _REACHED", "_REACHED[40] = 1"]
    assert lines[9:11] == ["    _REACHED[41] = 1", "    b = a"]
    assert lines[-2:] == ["    _REACHED[46] = 1", "    return b"]
    assert compile("\n".join(lines), "code.py", "exec")


def test_short_tests_come_first_and_each_file_has_its_turn() -> None:
    long = Recorded("tests/test_a.py::t", 9.0, 9)
    many = [Recorded(f"tests/test_b.py::t{i}", 0.1 + i, 9) for i in range(5)]
    named = Recorded("tests/test_code.py::t", 0.5, 9)
    given = [long, *many, named]
    assert ordered(given, "host/poetfw/x.py") == [many[0], named, *many[1:4], long, many[4]]
    assert ordered(given, "host/poetfw/code.py")[:2] == [named, many[0]]


IMPORTED = """\
from functools import cache


@cache
def doubled(a, by=2):
    return a * by


class Counter:
    step = 1

    def counting(self, start):
        def count(n):
            return start + n

        return count


TABLE = [n + 1 for n in range(3)]
"""


@pytest.mark.parametrize(
    ("old", "new", "is_possible"),
    [
        ("a * by", "a + by", True),
        ("start + n", "start - n", True),
        ("return count", "return None", True),
        ("start + n", "n", False),  # a function inside refers to less
        ("by=2", "by=3", False),
        ("@cache", "# cache", False),
        ("step = 1", "step = 2", False),
        ("n + 1", "n + 2", False),
    ],
)
def test_only_functions_are_changed_where_they_are_imported(
    old: str, new: str, is_possible: bool
) -> None:
    found = patches.replacements("code.py", IMPORTED, IMPORTED.replace(old, new))
    assert (found is not None) == is_possible


def test_a_mistake_is_made_in_what_is_imported() -> None:
    names: dict[str, Any] = {}
    exec(compile(IMPORTED, "code.py", "exec", dont_inherit=True), names)
    doubled, counter = names["doubled"], names["Counter"]()
    assert (doubled(3), counter.counting(10)(2)) == (6, 12)
    functions = patches.functions_by_code()
    for old, new in (("a * by", "a + by"), ("start + n", "start - n")):
        found = patches.replacements("code.py", IMPORTED, IMPORTED.replace(old, new))
        assert found is not None
        assert patches.patch(functions, found) == 1
    assert (doubled(4), counter.counting(10)(2)) == (6, 8)
    assert patches.patch(functions, {}) == 0


def test_a_test_may_import_what_is_no_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "meter", SimpleNamespace(read=3))  # type: ignore[arg-type]
    for module, name in ((builtins, "__import__"), (importlib, "import_module")):
        monkeypatch.setattr(module, name, getattr(module, name))  # is put back
    imports = copies.Imports()
    imports.note()
    names: dict[str, Any] = {"__name__": "a test"}
    exec("import importlib, meter\nfrom meter import read", names)
    assert names["read"] == names["importlib"].import_module("meter").read == 3
    assert imports.files("a test") == {Path(importlib.__file__)}


def test_a_copy_has_all_that_tests_read(tmp_path: Path) -> None:
    folder = checkout(tmp_path / "right")
    for name in (".ci/run", ".github/workflows/ci.yml", ".git", ".mypy_cache/cache.json"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
    root = copies.Copy(folder, tmp_path / "copy").root
    assert {path.name for path in root.glob(".*")} == {".ci", ".github", ".venv"}
    assert (root / "tests/test_code.py").read_text() == TESTS


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_survives_is_named_and_tests_that_fail_anyway_prove_nothing(tmp_path: Path) -> None:
    folder = checkout(tmp_path / "right")
    code, fates = judged(folder)
    assert code == 1
    assert {name for name, fate in fates.items() if fate != "killed"} == {"> → >=", "< → <="}
    assert (folder / "host/poetfw/code.py").read_text() == CODE
    lines = run.lines_of(run.by_rule(folder, 1, 300))
    reach = Reach(folder, lines)
    assert reach.missing() == []
    near, far = reach.tests_of("host/poetfw/code.py", 2)
    assert [[test.name.partition("::")[2] for test in tests] for tests in (near, far)] == [
        ["test_clipped"], ["test_absolute"],
    ]  # fmt: skip
    near, far = reach.tests_of("firmware_templates/add.c", 3)
    assert [[test.name.partition("::")[2] for test in tests] for tests in (near, far)] == [
        ["test_adds"], ["test_is_loaded_already", "test_loads"],
    ]  # fmt: skip
    code_file = folder / "host/poetfw/code.py"
    code_file.write_text(f'"""Docs."""\n# Comment.\n{CODE}')
    assert Reach(folder, run.lines_of(run.by_rule(folder, 1, 300))).missing() == []
    code_file.write_text(CODE.replace("    return a", "    return +a"))
    assert Reach(folder, lines).missing() == ["tests/test_code.py"]
    wrong = checkout(folder, TESTS.replace("== [1, 0.5]", "== [1, 2]"))
    assert Reach(folder, lines).missing() == ["tests/test_code.py"]
    assert judged(wrong, "--only", "code.py")[0] == 2


def test_what_a_test_imports_on_its_way_is_reached_by_those_behind_it(tmp_path: Path) -> None:
    folder, file = checkout(tmp_path), "host/poetfw/code.py"
    reach = Reach(folder, {file: [2]})
    names = [f"tests/test_code.py::{name}" for name in ("first", "imports", "behind")]
    found = {
        "reached": {names[0]: [], names[1]: [0], names[2]: [], "": []},
        "time_s": dict.fromkeys(names, 0.1),
        "imported": ["tests/test_code.py"],
        "on_import": [],
    }
    copy: Any = SimpleNamespace(
        temporary=tmp_path, prepare=lambda: None, run=lambda *_: json.dumps(found)
    )
    reach.record(copy, "tests/test_code.py")
    near, _ = reach.tests_of(file, 6)  # between functions
    assert sorted(test.name for test in near) == sorted(names[1:])


LONG = """\
import time

from poetfw.code import absolute, clipped


def test_is_long():
    clipped(2)
    time.sleep(60)
    absolute(2)
"""


@pytest.mark.slow
def test_a_long_test_is_recorded_as_far_as_it_came(tmp_path: Path) -> None:
    folder = checkout(tmp_path / "right", LONG)
    copies.preload("pytest")
    drawn = [m for m in run.by_rule(folder, 1, 300) if "code.py" in m.path]
    reach = run.recorded(folder, tmp_path / "copies", drawn, 1)
    reached = [reach.tests_of("host/poetfw/code.py", line)[0] for line in (2, 8)]
    assert [[(test.name, test.time_s) for test in tests] for tests in reached] == [
        [("tests/test_code.py::test_is_long", ENDED_S)], [],
    ]  # fmt: skip


def test_mistakes_are_drawn_again_where_lines_are_the_same(tmp_path: Path) -> None:
    folder = checkout(tmp_path)
    drawn = {str(mutant) for mutant in run.by_rule(folder, 1, 4)}
    assert {mutant.split(":")[0] for mutant in drawn} == {
        "firmware_templates/add.c", "host/poetfw/code.py",
    }  # fmt: skip
    code = folder / "host/poetfw/code.py"
    code.write_text(f"MOST = 3\nLEAST = 2\n\n\n{CODE}")
    moved = {str(mutant) for mutant in run.by_rule(folder, 1, 8)}
    lines = {re.sub(r":\d+:", ":", mutant) for mutant in moved}
    assert {re.sub(r":\d+:", ":", mutant) for mutant in drawn} <= lines
    assert drawn != {str(mutant) for mutant in run.by_rule(folder, 2, 4)}


def test_mistakes_by_hand_are_in_their_files() -> None:
    kept = [*run.by_hand(run.CHECKOUT, run.CHECKOUT / "tests/mutants/by_hand.toml")]
    assert len(kept) > 30
    by_rule = {str(m) for mutant in kept for m in mutants(mutant.path, _text(mutant.path))}
    assert not by_rule & {str(mutant) for mutant in kept}


def _text(path: str) -> str:
    return (run.CHECKOUT / path).read_text()
