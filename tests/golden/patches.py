# SPDX-License-Identifier: Apache-2.0
"""Golden projects on disk: what is like another project's file is kept as a patch of that."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import unified_diff
from pathlib import Path

HERE = Path(__file__).parent
LIKE = {
    "digits-cnn-paged": ("mlp-keep-everything",),
    "mlp-paged-and-recomputed": ("mlp-keep-everything",),
    "mlp-threads-in-turn": ("mlp-keep-everything",),
    "mlp-threads-at-once": ("mlp-threads-in-turn", "mlp-keep-everything"),
}
"""Projects by those, kept before them, one of which has a file that theirs is like."""


def base_of(name: str, path: str) -> str | None:
    """The first file kept whole at a path, of the projects that one is like."""
    files = (HERE / other / path for other in LIKE.get(name, ()))
    return next((file.read_text() for file in files if file.exists()), None)


def differences(before: str, now: str, path: str = "") -> list[str]:
    """Lines of a patch; pytest's own comparison of long texts takes minutes."""
    texts = before.splitlines(), now.splitlines()
    return [*unified_diff(*texts, path, path, n=0, lineterm="")]


def kept(written: Mapping[str, str], name: str) -> dict[str, str]:
    """The files to keep of a project: short patches in place of what is like another's file."""
    found = {}
    for path, text in written.items():
        base = base_of(name, path)
        lines = None if base is None else differences(base, text)
        if lines is None or 2 * len(lines) > len(text.splitlines()):
            found[path] = text
        else:
            found[f"{path}.diff"] = "".join(f"{line}\n" for line in lines)
    return found


def whole(name: str) -> dict[str, str]:
    """The texts of a kept project's files, patches applied."""
    files = {}
    for file in sorted(path for path in (HERE / name).rglob("*") if path.is_file()):
        path, text = file.relative_to(HERE / name).as_posix(), file.read_text()
        if file.suffix == ".diff":
            path = path.removesuffix(".diff")
            text = patched(base_of(name, path) or "", text)
        files[path] = text
    return files


def patched(text: str, patch: str) -> str:
    """A text with a patch of no context applied."""
    lines = text.splitlines()
    hunks = re.split(r"^@@ -(\d+)(?:,(\d+))? \S+ @@\n", patch, flags=re.M)[1:]
    for start, count, body in reversed([*zip(hunks[::3], hunks[1::3], hunks[2::3], strict=True)]):
        size = 1 if count is None else int(count)
        at = int(start) - (size > 0)
        added = [line[1:] for line in body.splitlines() if line.startswith("+")]
        lines[at : at + size] = added
    return "".join(f"{line}\n" for line in lines)
