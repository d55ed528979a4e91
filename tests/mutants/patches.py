# SPDX-License-Identifier: Apache-2.0
"""A mistake in Python made in a process that has imported its file already.

Functions get the code that they would have if the file were imported with the mistake. That takes
milliseconds, and importing PyTorch, ONNX and all of poetfw takes seconds.
"""

from __future__ import annotations

import gc
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import CodeType, FunctionType

_OPTIMIZED = 1
"""The flag of code that is a function's: the code of a class runs where the class is made."""
_AT_ONCE = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")


def replacements(file: str, right: str, wrong: str) -> dict[CodeType, CodeType] | None:
    """Code of functions that a mistake changes, in a file that was imported without it.

    None if it is elsewhere: in what runs on import, or in what a function refers to.
    """
    before, after = (compile(text, file, "exec", dont_inherit=True) for text in (right, wrong))
    found: dict[CodeType, CodeType] = {}
    for old, new in _on_import(before, after):
        if _said(old) != _said(new):
            return None
        for first, second in zip(_functions(old), _functions(new), strict=True):
            if not _exchanged(first, second, found):
                return None
    return found


def functions_by_code() -> dict[CodeType, list[FunctionType]]:
    """All functions of this process."""
    found: dict[CodeType, list[FunctionType]] = defaultdict(list)
    for value in gc.get_objects():
        if type(value) is FunctionType:
            found[value.__code__].append(value)
    return found


def patch(
    functions: Mapping[CodeType, list[FunctionType]], found: Mapping[CodeType, CodeType]
) -> int:
    """Exchange the code of functions, and count them."""
    count = 0
    for old, new in found.items():
        for function in functions.get(old, ()):
            if function.__code__.co_filename == new.co_filename:
                function.__code__ = new
                count += 1
    return count


def _on_import(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """Pairs of code that runs on import: a file's, its classes' and their comprehensions'."""
    yield old, new
    for first, second in zip(_inner(old), _inner(new), strict=False):
        if _runs_at_once(first):
            yield from _on_import(first, second)


def _exchanged(old: CodeType, new: CodeType, found: dict[CodeType, CodeType]) -> bool:
    """Note a function and those in it; False if its signature or its surroundings differ."""
    if old != new:
        found[old] = new
    same = _signature(old) == _signature(new)
    inside = zip(_inner(old), _inner(new), strict=False)
    return same and all(_exchanged(a, b, found) for a, b in inside if a.co_name == b.co_name)


def _signature(code: CodeType) -> tuple[object, ...]:
    counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount
    return code.co_qualname, counts, code.co_flags, code.co_freevars


def _said(code: CodeType) -> tuple[object, ...]:
    """Code of a module without that of its functions, whatever the numbers of its lines."""
    constants = [
        (c.co_qualname, c.co_flags) if isinstance(c, CodeType) else (type(c), repr(c))
        for c in code.co_consts
    ]
    return code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars


def _inner(code: CodeType) -> list[CodeType]:
    return [constant for constant in code.co_consts if isinstance(constant, CodeType)]


def _functions(code: CodeType) -> list[CodeType]:
    return [inner for inner in _inner(code) if not _runs_at_once(inner)]


def _runs_at_once(code: CodeType) -> bool:
    return code.co_name in _AT_ONCE or not code.co_flags & _OPTIMIZED


def is_imported(file: Path) -> bool:
    """True if a module of this process is of a file."""
    files = (getattr(module, "__file__", None) for module in [*sys.modules.values()])
    return str(file) in files
