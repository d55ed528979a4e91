# SPDX-License-Identifier: Apache-2.0
"""Marks in Python and C: each sets a byte in a file that all processes of a test map."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

MAP, SIZE = "REACHED_MAP", 1 << 16
COMPILED = "REACHED_COMPILED"
"""The environment variable that names the mapped file, and bytes of the file."""


@dataclass(frozen=True)
class Span:
    """Lines, the first and the last included, that run once their mark is reached.

    Attributes:
        head: first line of the signature of a function that begins with these lines, or 0: its
            defaults are set on import, but matter where the function runs.
    """

    first: int
    last: int
    head: int = 0

    def __contains__(self, line: int) -> bool:
        return (self.head or self.first) <= line <= self.last


def spans(path: str, text: str) -> list[Span]:
    """Spans of a file, by place of their marks.

    The first is the file, which is reached when it is imported or compiled. The others are
    statements of Python's functions up to the next branch, and functions of C.
    """
    found = _python(text) if path.endswith(".py") else _c(text)
    whole = Span(1, text.count("\n") + 1)
    return sorted({whole, *found}, key=lambda span: (span.first, -span.last))


def spans_around(path: str, text: str, lines: Iterable[int]) -> list[Span]:
    """The file's span and the innermost ones around lines; all where a line runs on import."""
    found = spans(path, text)
    kept = {0, *(mark_of(found, line) for line in lines)}
    if path.endswith(".py") and any(mark_of(found, line) == 0 for line in lines):
        return found
    return [found[number] for number in sorted(kept)]


def mark_of(spans: list[Span], line: int) -> int:
    """Number of the innermost span around a line."""
    around = [number for number, span in enumerate(spans) if line in span]
    return min(around, key=lambda n: spans[n].last - spans[n].first)


def marked(path: str, text: str, spans: list[Span], base: int) -> str:
    """A file's text with the marks of spans, which are numbered from `base`.

    A C file tells compilers its own mark, and the one for cores other than this computer's.
    """
    lines = text.splitlines(keepends=True)
    places = [(span.first, base + number) for number, span in enumerate(spans)][1:]
    if path.endswith(".py"):
        for line, number in reversed(places):
            indent = re.match(" *", lines[line - 1])[0]  # type: ignore[index]
            lines.insert(line - 1, f"{indent}_REACHED[{number}] = 1\n")
        head = f"from reached_marks import REACHED as _REACHED\n_REACHED[{base}] = 1\n"
        lines.insert(_first_code(text) - 1, head)
        return "".join(lines)
    for line, number in reversed(places):
        lines.insert(line, f"POET_REACHED({number});\n")
    return f"/* mark {base} {base + len(spans)} */\n{_C_HEAD}{''.join(lines)}"


def write_marks(root: Path, spans_of: Mapping[str, list[Span]]) -> None:
    """Mark the sources of a checkout."""
    base = 0
    for path, spans in spans_of.items():
        file = root / path
        file.write_text(marked(path, file.read_text(), spans, base))
        base += len(spans) + 1
    (root / "host/reached_marks.py").write_text(_PYTHON_MODULE)


_PYTHON_MODULE = f"""\
import mmap
import os

if "{MAP}" in os.environ:
    with open(os.environ["{MAP}"], "r+b") as file:
        REACHED = mmap.mmap(file.fileno(), 0)
else:
    REACHED = bytearray({SIZE})
"""

_C_HEAD = f"""\
#if defined(__linux__)
extern char *getenv(const char *);
extern int open(const char *, int, ...);
extern void *mmap(void *, unsigned long, int, int, int, long);
static volatile unsigned char *poet_reached_map;
__attribute__((constructor, unused)) static void poet_reached_open(void)
{{
    const char *name = getenv("{MAP}");
    const int file = name ? open(name, 2) : -1;
    void *map = file < 0 ? (void *)-1 : mmap((void *)0, {SIZE}ul, 3, 1, file, 0);
    poet_reached_map = map == (void *)-1 ? (unsigned char *)0 : map;
}}
#define POET_REACHED(n) do {{ if (poet_reached_map) poet_reached_map[n] = 1; }} while (0)
#else
#define POET_REACHED(n) (void)0
#endif
"""


def _python(text: str) -> Iterator[Span]:
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            body = _body(node.body, lines)
            for first in islice(body, 1):
                yield replace(first, head=_first_line(node))
            yield from body


def _body(body: list[ast.stmt], lines: list[str]) -> Iterator[Span]:
    first: int | None = None
    for i, statement in enumerate(body):
        line = _first_line(statement)
        is_left_out = is_text(statement) or lines[line - 1].lstrip().startswith("elif")
        is_branch = hasattr(statement, "body") or hasattr(statement, "cases")
        if first is None and not is_left_out:
            first = line
        if first is not None and (is_branch or i == len(body) - 1):
            yield Span(first, statement.end_lineno or line)
            first = None
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            continue
        for inner in _bodies(statement):
            yield from _body(inner, lines)


def _bodies(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        yield getattr(statement, name, [])
    for name in ("handlers", "cases"):
        yield from (part.body for part in getattr(statement, name, []))


def _first_code(text: str) -> int:
    """The first line that is neither documentation nor an import from the future."""
    for statement in ast.parse(text).body:
        is_future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
        if not is_text(statement) and not is_future:
            return _first_line(statement)
    return text.count("\n") + 1


def _first_line(statement: ast.stmt) -> int:
    """The first line of a statement, its decorators included."""
    return min(
        [statement.lineno, *(part.lineno for part in getattr(statement, "decorator_list", ()))]
    )


def is_text(statement: ast.stmt) -> bool:
    """True for documentation."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _c(text: str) -> Iterator[Span]:
    for match in re.finditer(r"\)\n\{\n.*?^\}", text, re.DOTALL | re.MULTILINE):
        first = text.count("\n", 0, match.start()) + 2
        yield Span(first, text.count("\n", 0, match.end()) + 1)
