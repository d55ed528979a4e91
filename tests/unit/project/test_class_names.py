# SPDX-License-Identifier: Apache-2.0
"""A public class has a name of its own, so that a reader who meets it knows which is meant."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from unit.project.spdx import ROOT


def shared_names(sources: Mapping[str, str]) -> dict[str, list[str]]:
    """Names that several public classes have, each with the files of these."""
    files = defaultdict(list)
    for path, source in sources.items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                files[node.name].append(path)
    return {name: found for name, found in files.items() if len(found) > 1}


def test_no_two_classes_have_one_name() -> None:
    package = ROOT / "host/poetfw"
    sources = {str(path): Path(path).read_text("utf-8") for path in package.rglob("*.py")}
    assert len(sources) > 300
    assert shared_names(sources) == {}


def test_a_name_that_is_shared_is_found() -> None:
    sources = {"a": "class Work: ...\nclass _Own: ...", "b": "if 1:\n    class Work: ..."}
    assert shared_names(sources | {"c": "class _Own: ..."}) == {"Work": ["a", "b"]}
