# SPDX-License-Identifier: Apache-2.0
"""Every link from one page of the project to another leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from unit.docs.pages import ROOT

PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / ".github").glob("*.md")]
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", page.read_text()):
        if target.startswith(("http:", "https:")):
            continue
        linked = page.parent / target if target else page
        assert linked.exists(), target
        if anchor:
            assert anchor in _anchors(linked.read_text()), f"{target}#{anchor}"


def _anchors(text: str) -> set[str]:
    """What GitHub makes of the headings."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
