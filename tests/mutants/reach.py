# SPDX-License-Identifier: Apache-2.0
"""Tests that run a line of a source file, as recorded.

Each test file runs once in a copy of the checkout whose sources are marked. Its record is kept, and
taken again while the test file, its helpers and the sources that it reaches are the same.
"""

from __future__ import annotations

import ast
import hashlib
import json
import mmap
import os
import re
import shutil
import signal
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mutants import marks
from mutants.copies import RECORD_S, Copy, Imports

COMPILERS = ("gcc", "cc", "clang", "arm-none-eabi-gcc", "aarch64-linux-gnu-gcc")
TEST_S, ENDED_S = 5.0, 15.0
"""Seconds after which a test is ended while it is recorded, and for how long it is then taken."""


def sources(root: Path) -> list[str]:
    """Files that mistakes are made in: Python without packages' lists of names, and C.

    Only slow tests run the examples of exported libraries.
    """
    python = (root / "host/poetfw").rglob("*.py")
    left_out = ("__init__.py", "__main__.py")
    c = (p for p in (root / "firmware_templates").rglob("*.c") if p.parent.name != "examples")
    found = [*(path for path in python if path.name not in left_out), *c]
    return sorted(path.relative_to(root).as_posix() for path in found)


class _Enough(BaseException):
    """Ends a test that is recorded."""


@dataclass(eq=False)
class Recorder:
    """A plugin of pytest that notes which marks each test reaches, and its seconds.

    Marks of a fixture that tests share count for all that use it, those of the import for all.
    """

    file: str
    folder: Path
    reached: dict[str, list[int]] = field(default_factory=dict)
    time_s: dict[str, float] = field(default_factory=dict)

    def start(self, imports: Imports) -> None:
        """Map the marks, and put compilers that note the marks of their inputs first."""
        with open(os.environ[marks.MAP], "r+b") as opened:
            self._map = mmap.mmap(opened.fileno(), 0)
        self._map[:] = bytes(marks.SIZE)
        self._compiled = self.folder / "compiled"
        self._compiled.touch()
        os.environ[marks.COMPILED] = str(self._compiled)
        self._shared: dict[str, set[int]] = defaultdict(set)
        self._at = 0
        self._ended = set[str]()
        self._imports = imports
        self._note_inputs()
        os.environ["PATH"] = f"{self._compilers}{os.pathsep}{os.environ['PATH']}"

    def chosen(self, items: Sequence[pytest.Item]) -> list[pytest.Item]:
        """Tests of the file, whose module has imported what it needs."""
        found = [item for item in items if item.nodeid.partition("::")[0] == self.file]
        self._module = found[0].getparent(pytest.Module).obj.__name__ if found else ""  # type: ignore[union-attr]
        return found

    def is_done(self) -> bool:
        """Every test is recorded."""
        return False

    def _note_inputs(self) -> None:
        folder = self.folder / "ccache"  # as tests.builds takes it for what stands before compilers
        folder.mkdir()
        path = f"/usr/lib/ccache{os.pathsep}{os.environ['PATH']}"
        for name in COMPILERS:
            compiler = shutil.which(name, path=path)
            if compiler is not None:
                mark = "${1%% *}" if "-" not in name else "${1#* }"
                script = (
                    f'#!/bin/sh\nmark() {{ echo "{mark}" >> {self._compiled}; }}\n'
                    'for word; do case "$word" in *.c) if [ -f "$word" ]; then '
                    'read -r line < "$word"; case "$line" in "/* mark "*) '
                    f'mark "${{line#/* mark }}";; esac; fi;; esac; done\n'
                    f'PATH={path} exec {compiler} "$@"\n'
                )
                (folder / name).write_text(script)
                (folder / name).chmod(0o755)
        self._compilers = str(folder)

    def _taken(self) -> set[int]:
        found = set(np.flatnonzero(np.frombuffer(self._map, np.uint8)).tolist())
        self._map[:] = bytes(marks.SIZE)
        with self._compiled.open() as file:
            file.seek(self._at)
            found |= {int(line.split()[0]) for line in file}
            self._at = file.tell()
        return found

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Iterator[None]:
        """Note what a shared fixture reaches."""
        if fixturedef.scope == "function":
            return (yield)
        before = self._taken()
        try:
            return (yield)
        finally:
            self._shared[fixturedef.argname] |= self._taken()
            self._before |= before

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """End a test that takes long: it is rarely needed, and has reached most of what it will."""

        def end(number: int, frame: object) -> None:
            self._ended.add(item.nodeid)
            raise _Enough

        signal.signal(signal.SIGALRM, end)
        signal.setitimer(signal.ITIMER_REAL, TEST_S)
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Note what a test reaches."""
        self._before = set[int]()
        began_s = time.monotonic()
        result = yield
        found = self._before | self._taken()
        for name in getattr(item, "fixturenames", ()):
            found |= self._shared[name]
        taken_s = time.monotonic() - began_s
        self.time_s[item.nodeid] = ENDED_S if item.nodeid in self._ended else round(taken_s, 3)
        self.reached[item.nodeid] = sorted(found)
        return result

    def answer(self) -> str:
        """Record as JSON, with the files that the test file imported."""
        root = Path.cwd()
        files = self._imports.files(self._module) | self._imports.files("conftest")
        imported = [str(file.relative_to(root)) for file in files if file.is_relative_to(root)]
        found = {"reached": self.reached, "time_s": self.time_s, "imported": sorted(imported)}
        return json.dumps({**found, "on_import": list(self._imports.reached)})


@dataclass(frozen=True)
class Recorded:
    """A test that reaches a line, or else its file."""

    name: str
    time_s: float
    reaches: int
    """Marks that it reaches altogether: a test of few is about each of them."""

    @property
    def file(self) -> str:
        return self.name.partition("::")[0]


class Reach:
    """Records of all test files of a checkout: which of some lines each test reaches.

    Only these lines are marked: marks everywhere make tests take twice as long.

    Attributes:
        spans: marked spans of each file, in the order of their numbers.
    """

    def __init__(self, root: Path, lines: Mapping[str, Iterable[int]]) -> None:
        self._root = root
        self._sources = sorted(lines)
        texts = {path: (root / path).read_text() for path in self._sources}
        self.spans = {p: marks.spans_around(p, text, lines[p]) for p, text in texts.items()}
        self._hashes = {path: digest(path, text) for path, text in texts.items()}
        self._marks = {path: marks_of(texts[path], lines[path]) for path in self._sources}
        self._kept = root / "build/mutants/reach"
        self._base: dict[str, int] = {}
        count = 0
        for path in self._sources:
            self._base[path] = count
            count += len(self.spans[path]) + 1
        assert count < marks.SIZE
        self._by_mark: dict[tuple[str, int], list[Recorded]] = defaultdict(list)
        self._by_file: dict[str, set[Recorded]] = defaultdict(set)
        self._on_import: set[tuple[str, int]] = set()

    def missing(self) -> list[str]:
        """Test files without a record that still holds; the others' records are read."""
        files = (self._root / "tests").rglob("test_*.py")
        names = sorted(path.relative_to(self._root).as_posix() for path in files)
        return [name for name in names if not self._read(name)]

    def record(self, copy: Copy, test: str) -> None:
        """Run a test file in a marked copy, and keep the record."""
        copy.prepare()
        answer = copy.run(Recorder(test, copy.temporary), RECORD_S)
        found: dict[str, Any] = {"reached": {}, "time_s": {}, "imported": [test], "on_import": []}
        if answer and answer.startswith("{"):
            found = json.loads(answer)
        found["reached"][""] = found["on_import"]
        reached: dict[str, dict[str, list[int]]] = {}
        ends = [(self._base[path], path) for path in self._sources]
        starts = np.array([base for base, _ in ends])
        for name, numbers in found["reached"].items():
            by_path: dict[str, list[int]] = defaultdict(list)
            for number in numbers:
                path = ends[int(np.searchsorted(starts, number, "right")) - 1][1]
                by_path[path].append(number - self._base[path])
            reached[name] = by_path
        imported: set[str] = set()  # by a test on its way: the others would have done it
        for name in found["time_s"]:
            reached[name] = {**{path: [0] for path in imported}, **reached[name]}
            imported |= {p for p, n in reached[name].items() if p.endswith(".py") and 0 in n}
        reached[""] = {p: n for p, n in reached[""].items() if p in found["imported"]}
        runs = (item for by_path in reached.values() for item in by_path.items())
        helpers = (path for path in found["imported"] if path.startswith("tests/"))
        files = {test, *helpers, *(path for path, n in runs if not _imports(path, n))}
        kept = {
            "files": {path: self._hash_of(path) for path in sorted(files)},
            "marks": self._marks,
            "time_s": found["time_s"],
            "reached": reached,
        }
        file = self._file(test)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(kept))
        assert self._read(test)

    def tests_of(self, path: str, line: int) -> tuple[list[Recorded], list[Recorded]]:
        """Tests that reach a line, and others that reach its file.

        Of what runs on import, the nearest are those that run a function of the file; of C that no
        test runs on this computer, those that compile it for another core.
        """
        spans = self.spans[path]
        number = marks.mark_of(spans, line)
        near, far = self._by_mark[path, number], self._by_file[path]
        if number == 0 and path.endswith(".py") and far:
            near, far = [*far], {*near}
        elif not near:
            near = self._by_mark[path, len(spans)]
        return near, sorted(far - {*near}, key=lambda test: test.name)

    def runs_on_import(self, path: str, line: int) -> bool:
        """True for a line that runs on collection: tests may keep what it made."""
        number = marks.mark_of(self.spans[path], line)
        return number == 0 or (path, number) in self._on_import

    def _file(self, test: str) -> Path:
        return self._kept / f"{test.replace('/', '+')}.json"

    def _hash_of(self, path: str) -> str:
        if path not in self._hashes:
            file = self._root / path
            self._hashes[path] = digest(path, file.read_text() if file.exists() else "")
        return self._hashes[path]

    def _read(self, test: str) -> bool:
        file = self._file(test)
        if not file.exists():
            return False
        kept = json.loads(file.read_text())
        if any(self._hash_of(path) != known for path, known in kept["files"].items()):
            return False
        reached = set[str]().union(*kept["reached"].values())
        if any(
            path not in kept["marks"] or (kept["marks"][path] != known and path in reached)
            for path, known in self._marks.items()
        ):
            return False
        on_import = kept["reached"].get("", {})
        self._on_import |= {(path, n) for path, numbers in on_import.items() for n in numbers}
        for name, time_s in kept["time_s"].items():
            by_path = kept["reached"][name]
            found = Recorded(name, time_s, sum(map(len, by_path.values())))
            for path in {*by_path, *on_import}:
                numbers = {*by_path.get(path, ()), *on_import.get(path, ())}
                if not _imports(path, numbers):
                    self._by_file[path].add(found)
                for number in numbers:
                    self._by_mark[path, number].append(found)
        return True


def marks_of(text: str, lines: Iterable[int]) -> str:
    """Name for what is marked in a file, wherever its lines are."""
    all_lines = text.splitlines()
    said = sorted(all_lines[line - 1].strip() for line in lines)
    return hashlib.sha256(repr(said).encode()).hexdigest()[:16]


def _imports(path: str, numbers: Collection[int]) -> bool:
    """True if the marks reached are those of a Python file that is merely imported."""
    return path.endswith(".py") and {*numbers} == {0}


def digest(path: str, text: str) -> str:
    """Digest of what a file does: without comments, texts and places of lines."""
    if path.endswith(".py"):
        tree = ast.parse(text)
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                node.value = ""  # a message that changes reaches nothing else
            body = getattr(node, "body", None)
            if isinstance(body, list):
                node.body = [s for s in body if not marks.is_text(s)]  # type: ignore[attr-defined]
        text = ast.dump(tree)
    else:
        text = " ".join(re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL).split())
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def ordered(tests: Sequence[Recorded], path: str) -> list[Recorded]:
    """Tests as they are run: short and of few marks first, and from each test file in turn."""
    words = set(re.split("[/_.]", path)) - {"host", "poetfw", "py"}

    def weight(test: Recorded) -> float:
        near = len(words & set(re.split("[/_.]", test.file)))
        return (test.time_s + 0.05) * (test.reaches + 20) ** 0.5 / 4**near

    turns: dict[str, int] = defaultdict(int)
    by_weight: list[tuple[int, float, Recorded]] = []
    for test in sorted(tests, key=lambda test: (weight(test), test.name)):
        by_weight.append((turns[test.file] // 4, weight(test), test))
        turns[test.file] += 1
    return [test for _, _, test in sorted(by_weight, key=lambda found: found[:2])]
