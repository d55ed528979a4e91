# SPDX-License-Identifier: Apache-2.0
"""Pages read well: no paragraph over 120 words, and no phrase that is read twice."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from docs.pages import LINKING, split

MOST_WORDS = 120
_REFUSED = re.compile(
    r"(?<!there )\bis none\b(?! of)|\bso man(?:y|ie)th\b|\bkernels? (?:that )?moves? by\b"
)
_ITEM = re.compile(r"\s*(?:[-*] |\d+\. |#+ |\|)")


def paragraphs(prose: str) -> Iterator[str]:
    """Paragraphs of prose; an item of a list, a heading and a row of a table are each their own."""
    found: list[str] = []
    for line in [*prose.splitlines(), ""]:
        if found and (not line.strip() or _ITEM.match(line)):
            yield " ".join(found)
            found = []
        if line.strip():
            found.append(line.strip())


def words(paragraph: str) -> list[str]:
    """Words as a reader sees them: without the targets of links."""
    return re.sub(r"\]\([^)]*\)", "]", paragraph).split()


@pytest.mark.parametrize("page", LINKING)
def test_no_paragraph_is_long(page: str) -> None:
    long = [p for p in paragraphs(split(page)[1]) if len(words(p)) > MOST_WORDS]
    assert long == []


@pytest.mark.parametrize(
    ("prose", "lengths"),
    [
        ("a b\nc\n\nd", [3, 1]),
        ("a b:\n- c d\n  e\n- f", [2, 4, 2]),
        ("# a\n\nb\n1. c\n| d |", [2, 1, 2, 3]),
        ("see [a page](with a target.md), b", [4]),
    ],
)
def test_paragraphs_are_told_apart(prose: str, lengths: list[int]) -> None:
    assert [len(words(p)) for p in paragraphs(prose)] == lengths


@pytest.mark.parametrize("page", LINKING)
def test_no_phrase_is_a_riddle(page: str) -> None:
    assert _REFUSED.findall(" ".join(split(page)[1].split())) == []


@pytest.mark.parametrize(
    "text", ["a serial port is none", "every so manyth commit", "kernels that move by 2"]
)
def test_riddles_are_found(text: str) -> None:
    assert _REFUSED.search(text)
    assert not _REFUSED.search("not a port; if there is none; every N commits; stride 2")
