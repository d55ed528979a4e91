# SPDX-License-Identifier: Apache-2.0
"""Version of a kernel's sources, which decides whether a measurement is stale."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from poetfw.boards import Arithmetic
from poetfw.common.resources import firmware_templates_dir

_FOLDERS = ("kernels", "runtime", "storage")
_INSTEAD = {
    Arithmetic.SEPARATE: {},
    Arithmetic.FMA: {"product.h": "fma/product.h"},
    Arithmetic.INTEGERS: {"dot.c": "dot_fused.c"},
}
"""Source files that replace others, by the board's arithmetic."""

_CODE = (".c", "_asm.S")
"""Endings of the files that hold what a header declares."""

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)


@cache
def kernel_version(source: str, arithmetic: Arithmetic = Arithmetic.SEPARATE) -> str:
    """16 hexadecimal digits: a digest of a C file, every header it includes, and their code.

    Headers of the board (its HAL) and of the generated project are not among them.

    Args:
        source: the file without its ending: `Kernel.source`, or a file of the runtime's or the
            storage's.
        arithmetic: how sums of products are rounded.

    Raises:
        FileNotFoundError: The templates have no such file.
    """
    if _template(f"{source}.c") is None:
        raise FileNotFoundError(f"there is no {source}.c in {', '.join(_FOLDERS)}")
    digest = hashlib.sha256()
    for path in compiled_from([source], arithmetic):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def compiled_from(sources: Iterable[str], arithmetic: Arithmetic) -> list[Path]:
    """C files with what they include of the templates, its C and assembly files, and so on.

    Args:
        sources: the files without their endings.
        arithmetic: how sums of products are rounded.
    """
    found: set[Path] = set()
    waiting = [f"{source}{ending}" for source in sources for ending in (".c", ".h")]
    while waiting:
        name = waiting.pop()
        path = _template(_INSTEAD[arithmetic].get(name, name))
        if path is not None and path not in found:
            found.add(path)
            waiting += _INCLUDE.findall(path.read_text(encoding="utf-8"))
            waiting += [f"{path.stem}{ending}" for ending in _CODE]
    return sorted(found)


def _template(name: str) -> Path | None:
    for folder in _FOLDERS:
        path = firmware_templates_dir() / folder / name
        if path.is_file():
            return path
    return None
