# SPDX-License-Identifier: Apache-2.0
"""Which test files are the first to notice a mistake in a source file: derived from imports.

A test reaches a Python file by what it imports, through the packages that pass names on, and a C
file by naming it, or one that includes it. The fewer steps lead to a file, the earlier its tests.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cached_property
from pathlib import Path

Names = dict[str, set[str]]


class Reach:
    """The source and the test files of a checkout, and which lead to which."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._modules = {
            _module(path.relative_to(root / "host")): path
            for path in (root / "host/poetfw").rglob("*.py")
        }
        self._tests = {
            _module(path.relative_to(root / "tests")): path
            for path in (root / "tests").rglob("*.py")
            if not path.is_relative_to(root / "tests/golden")
        }

    def sources(self) -> list[str]:
        """Files that mistakes are made in: Python without packages' lists of names, and C."""
        python = (p for p in self._modules.values() if p.name not in ("__init__.py", "__main__.py"))
        c = (p for p in (self.root / "firmware_templates").rglob("*.c"))
        return sorted(path.relative_to(self.root).as_posix() for path in (*python, *c))

    def tests_of(self, source: str, most: int) -> list[str]:
        """The test files that are closest to a source file, from the checkout's root."""
        path = self.root / source
        if path.suffix == ".py":
            module = _module(path.relative_to(self.root / "host"))
            package = module.rpartition(".")[0]
            beside = {name for name in self._modules if name.startswith(f"{package}.")}
            near = self._near({module}) or self._near({package, *beside})
        else:
            near = self._near_c(path.name) or self._near_c(path.parent.name)
        order = sorted(near, key=lambda test: (near[test], *_far(test, path), test))
        return [test.relative_to(self.root).as_posix() for test in order][:most]

    def _near(self, modules: set[str]) -> dict[Path, int]:
        """Steps from test files to the nearest of some modules."""
        steps: dict[Path, int] = {}
        seen, now = modules, modules
        for distance in range(4):
            for name, path in self._tests.items():
                if path.name.startswith("test_") and now & self._imported_by_tests[name]:
                    steps.setdefault(path, distance)
            now = {n for n, used in self._imported_by_modules.items() if used & now} - seen
            seen |= now
        return steps

    def _near_c(self, name: str) -> dict[Path, int]:
        """Steps from test files to a C file or header."""
        steps: dict[Path, int] = {}
        stem = name.partition(".")[0]
        seen, now = set[str](), {name, f"{stem}.h", stem}
        for distance in range(3):
            for test, path in self._tests.items():
                if path.name.startswith("test_") and self._words[test] & now:
                    steps.setdefault(path, distance)
            seen |= now
            now = {name for name, used in self._included.items() if used & now} - seen
        return steps

    @cached_property
    def _imported_by_modules(self) -> Names:
        return {name: self._resolved(path) - {name} for name, path in self._modules.items()}

    @cached_property
    def _imported_by_tests(self) -> Names:
        """By module of tests: modules of poetfw, also those that its helpers import."""
        direct = {name: self._resolved(path) for name, path in self._tests.items()}
        return {name: set().union(*(direct[n] for n in self._helpers(name))) for name in direct}

    @cached_property
    def _words(self) -> Names:
        """By module of tests: words of its own text and of its helpers' that may name C files."""
        words = {
            name: set(re.findall(r"[\w.]+", path.read_text())) for name, path in self._tests.items()
        }
        return {name: set().union(*(words[n] for n in self._helpers(name))) for name in words}

    @cached_property
    def _included(self) -> Names:
        """By name of a C file: the headers that it includes."""
        found: Names = defaultdict(set)
        for path in (self.root / "firmware_templates").rglob("*.[ch]"):
            found[path.name] |= set(re.findall(r'#include "(?:\w+/)*([\w.]+)"', path.read_text()))
        return found

    def _helpers(self, name: str) -> set[str]:
        """A module of tests, the conftest beside it, and what they import of the tests."""
        found: set[str] = set()
        waiting = [name, f"{name.rpartition('.')[0]}.conftest".lstrip(".")]
        while waiting:
            module = waiting.pop()
            if module in self._tests and module not in found:
                found.add(module)
                waiting += self._mentioned(self._tests[module])
        return found

    def _mentioned(self, path: Path) -> set[str]:
        """Dotted names that a file imports, whatever they are."""
        return {name for name, _ in _imports(path)} | {f"{m}.{name}" for m, name in _imports(path)}

    def _resolved(self, path: Path) -> set[str]:
        """Modules of poetfw that define what a file imports."""
        return {
            module
            for package, name in _imports(path)
            if (module := self._defining(package, name)) is not None
        }

    def _defining(self, package: str, name: str) -> str | None:
        """The module that a name comes from, through packages that pass it on."""
        if f"{package}.{name}" in self._modules:
            return f"{package}.{name}"
        path = self._modules.get(package)
        if path is None or path.name != "__init__.py":
            return package if path else None
        onward = [inner for inner, passed in _imports(path) if passed == name and inner != package]
        return self._defining(onward[0], name) if onward else package


_KNOWN: dict[Path, list[tuple[str, str]]] = {}


def _imports(path: Path) -> list[tuple[str, str]]:
    """The imports of a file: modules, and the names that are taken from them."""
    if path not in _KNOWN:
        _KNOWN[path] = [
            (node.module or "", alias.name)
            if isinstance(node, ast.ImportFrom)
            else (alias.name, "")
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        ]
    return _KNOWN[path]


def _module(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _far(test: Path, source: Path) -> tuple[bool, bool, bool, int]:
    """Puts first what is named like a source file or its folder, then what speaks of it most."""
    stem, text = source.stem, test.read_text()
    mentions = 10 * text.count(stem) + text.count(stem.partition("_")[0])
    whole = "emulator" in test.parts or "system" in test.parts
    return stem not in test.stem, source.parent.name not in test.parts, whole, -mentions
