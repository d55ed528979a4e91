# SPDX-License-Identifier: Apache-2.0
"""The licence line of every source file: which lack it, and with --fix, its addition.

python tests/unit/project/spdx.py [--fix]
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
LICENCE = "SPDX-License-Identifier: Apache-2.0"

_HASH, _SEMICOLON, _C = "# {}", "; {}", "/* {} */"
_BY_SUFFIX = {
    **dict.fromkeys((".py", ".toml", ".yml", ".yaml", ".sh"), _HASH),
    ".ini": _SEMICOLON,
    **dict.fromkeys((".c", ".h", ".S", ".ld", ".css"), _C),
    ".js": "// {}",
}
_INCLUDED = "{{# {} #}}"  # what includes it has the line already, or has no comments
_OF_TEMPLATE = {
    **dict.fromkeys((".c", ".h", ".S", ".ld"), _C),
    ".ino": "// {}",
    **dict.fromkeys((".html", ".json", ".md", ".properties"), _INCLUDED),
}
"""By the suffix of what a template is rendered to; where it is none of these, it is a script."""
_BY_PATH = {"Makefile": _HASH, ".ci/run": _HASH, "firmware_templates/ld/cortex_m.j2": _INCLUDED}
_HIDDEN = {".ci", ".github", ".pre-commit-config.yaml"}
_WRITTEN = {"build", "dist", "__pycache__"}
_GOLDEN = Path("tests/golden")
"""Holds what templates are rendered to: `pytest tests/golden --update-golden` writes it."""


def sources() -> list[Path]:
    """Every file that has a place for the line, by its path from the root."""
    found = []
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if _is_ours(name)]
        paths = (Path(folder, name).relative_to(ROOT) for name in files if _is_ours(name))
        found += [path for path in paths if _style(path)]
    return sorted(found)


def is_licensed(path: Path) -> bool:
    """Whether the line is the first, or follows what must come first."""
    style = _style(path)
    assert style is not None
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
    return style.format(LICENCE) in lines[: 1 + _begins_with_interpreter(lines)]


def fix(path: Path) -> None:
    """Add the line."""
    style = _style(path)
    assert style is not None
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines(keepends=True)
    lines.insert(_begins_with_interpreter(lines), style.format(LICENCE) + "\n")
    (ROOT / path).write_text("".join(lines), encoding="utf-8")


def _is_ours(name: str) -> bool:
    return name in _HIDDEN or not (name.startswith(".") or name in _WRITTEN)


def _style(path: Path) -> str | None:
    if path.suffix == ".j2":
        style = _OF_TEMPLATE.get(Path(path.stem).suffix, _HASH)
        return _BY_PATH.get(path.as_posix(), style)
    return _BY_PATH.get(path.as_posix(), _BY_SUFFIX.get(path.suffix))


def _begins_with_interpreter(lines: list[str]) -> bool:
    return bool(lines) and lines[0].startswith("#!")


def main() -> int:
    """Print the files without the line; with --fix, write it into all but the goldens."""
    unlicensed = [path for path in sources() if not is_licensed(path)]
    if sys.argv[1:] == ["--fix"]:
        for path in unlicensed:
            if not path.is_relative_to(_GOLDEN / "test_golden.py") and path.is_relative_to(_GOLDEN):
                print(f"{path}: run pytest tests/golden --update-golden")
            else:
                fix(path)
        return 0
    print(*unlicensed, sep="\n")
    return bool(unlicensed)


if __name__ == "__main__":
    sys.exit(main())
