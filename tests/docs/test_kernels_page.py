# SPDX-License-Identifier: Apache-2.0
"""docs/kernels.md sends nobody to a function or file that is not there."""

from __future__ import annotations

import re

from docs.pages import REPOSITORY, read

FOLDERS = ("firmware_templates", "host", "benchmarks")


def test_every_function_and_file_that_the_page_names_is_there() -> None:
    files = [
        path
        for folder in FOLDERS
        for path in (REPOSITORY / folder).rglob("*")
        if path.suffix in {".c", ".h", ".S", ".py"}
    ]
    names = {path.name for path in files}
    words = {word for path in files for word in re.findall(r"\w+", path.read_text())}
    prefixes = {word[: end + 1] for word in words for end in range(len(word))}
    missing = []
    for code in re.findall(r"`([^`\n]+)`", read("docs/kernels.md")):
        if re.fullmatch(r"\w+\.[chS]", code):
            known = any(name.endswith(code) for name in names)
        elif re.fullmatch(r"\w+…", code):
            known = code[:-1] in prefixes
        else:
            known = not re.fullmatch(r"[a-z_]\w*", code) or code in words
        if not known:
            missing.append(code)
    assert missing == []
