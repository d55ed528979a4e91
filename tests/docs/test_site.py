# SPDX-License-Identifier: Apache-2.0
"""The documentation builds as a site, strictly, with the pages that are generated."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.exceptions import Abort, PluginError

import poetfw
from docs.pages import PAGES, REPOSITORY
from poetfw.cli.main import COMMANDS


def site(folder: Path, **changes: Any) -> Path:
    """Build the site of the repository, or a changed one, into a folder."""
    config = load_config(
        str(REPOSITORY / "mkdocs.yml"), site_dir=str(folder / "site"), strict=True, **changes
    )
    config.plugins.on_startup(command="build", dirty=False)
    build(config)
    return folder / "site"


def text_of(page: Path) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", page.read_text(encoding="utf-8")))


def test_the_site_builds_strictly(tmp_path: Path) -> None:
    built = site(tmp_path)
    pages = {
        path.relative_to(built).with_suffix(".md").as_posix() for path in built.rglob("*.html")
    }
    ours = {page.removeprefix("docs/") for page in PAGES if page.startswith("docs/")}
    assert {page.replace("README", "index") for page in ours} <= pages
    commands = text_of(built / "reference/commands.html")
    for name in COMMANDS:
        assert f"poetfw {name}" in commands
        assert all(flag in commands for flag in COMMANDS[name].options)
    python = text_of(built / "reference/python.html")
    for name in poetfw.__all__:
        assert name == "__version__" or f"poetfw.{name}" in python
    assert "Bytes of the arena that a training step takes." in python
    front = (built / "index.html").read_text(encoding="utf-8")
    assert 'href="your-model.html"' in front
    assert 'href="https://github.com/poetfw/poetfw/blob/main/ARCHITECTURE.md"' in front
    requests = re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="(https?://[^"]+)"', front)
    assert requests == []  # the site needs no other host


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[a page](not-there.md)\n", Abort),
        ("[an anchor](index.md#not-there)\n", Abort),
        ("[a file](../not-there.py)\n", PluginError),
    ],
)
def test_a_link_to_nothing_fails(tmp_path: Path, text: str, error: type[Exception]) -> None:
    from mkdocs.structure.files import File, Files
    from mkdocs.structure.pages import Page

    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/index.md").write_text(f"# Title\n\n{text}")
    changes = {"docs_dir": str(tmp_path / "docs"), "nav": None, "hooks": [], "plugins": []}
    if error is Abort:
        with pytest.raises(Abort):
            site(tmp_path, **changes)
        return
    config = load_config(str(REPOSITORY / "mkdocs.yml"))
    file = File("index.md", str(tmp_path / "docs"), str(tmp_path / "site"), False)
    hooks = config["plugins"]
    with pytest.raises(error, match=r"not-there\.py is not there"):
        hooks.on_page_markdown(text, page=Page(None, file, config), config=config, files=Files([]))
