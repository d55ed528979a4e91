# SPDX-License-Identifier: Apache-2.0
"""Which version of a kernel something was measured with."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path

from poetfw.resources import firmware_templates_dir

_FOLDERS = ("kernels", "runtime", "storage")
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)


@cache
def kernel_version(source: str) -> str:
    """16 hexadecimal digits: a digest of a C file, every header it includes, and their C files.

    Headers of the board (its HAL) and of the generated project are not among them.

    Args:
        source: the file without its ending: `Kernel.source`, or a file of the runtime's or the
            storage's.

    Raises:
        FileNotFoundError: the templates have no such file.
    """
    if _template(f"{source}.c") is None:
        raise FileNotFoundError(f"there is no {source}.c in {', '.join(_FOLDERS)}")
    digest = hashlib.sha256()
    for path in sorted(_included(f"{source}.c")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _included(name: str) -> set[Path]:
    """The file, what it includes of the templates, what that includes, and so on."""
    found: set[Path] = set()
    waiting = [name]
    while waiting:
        path = _template(waiting.pop())
        if path is not None and path not in found:
            found.add(path)
            waiting += [*_INCLUDE.findall(path.read_text(encoding="utf-8")), f"{path.stem}.c"]
    return found


def _template(name: str) -> Path | None:
    for folder in _FOLDERS:
        path = firmware_templates_dir() / folder / name
        if path.is_file():
            return path
    return None
