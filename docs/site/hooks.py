# SPDX-License-Identifier: Apache-2.0
"""Hooks of the documentation's site: pages that are generated, and links out of docs/.

The front page is README.md. The reference of commands comes from their settings, that of Python
from docstrings. Links to files of the repository outside docs/ lead to the repository; a link to a
file that is not there fails the build, as mkdocs does for pages.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

import click
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

import poetfw
from poetfw.cli.main import COMMANDS, cli

ROOT = Path(__file__).parents[2]
_LINK = re.compile(r"(\]\()([^)\s#:]+)((?:#[^)\s]*)?\))")
_NO_LINK = re.compile(r"(?<!\\)\[([^\[\]]*)\](?!\()")
_CODE = re.compile(r"(^```(?s:.*?)^```$|^    .*$|`[^`\n]*`)", re.MULTILINE)


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are generated."""
    front = _from_docs((ROOT / "README.md").read_text(encoding="utf-8"))
    for path, text in {
        "index.md": front,
        "reference/commands.md": commands_page(),
        "reference/python.md": python_page(),
    }.items():
        files.append(File.generated(config, path, content=text))
    for decision in sorted((ROOT / "docs" / "adr").glob("0*.md")):
        found = files.get_file_from_path(f"adr/{decision.name}")
        assert found is not None
        found.inclusion = found.inclusion.NOT_IN_NAV
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Have links that leave docs/ lead to the repository, and brackets be no links."""
    folder = posixpath.dirname(page.file.src_uri)

    def outside(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join("docs", folder, link[2]))
        if path.startswith("docs/"):
            return link[0]
        if path == "README.md":
            return f"{link[1]}{posixpath.relpath('index.md', folder or '.')}{link[3]}"
        if not (ROOT / path).exists():
            raise PluginError(f"{page.file.src_uri}: {link[2]} is not there")
        kind = "tree" if (ROOT / path).is_dir() else "blob"
        return f"{link[1]}{config.repo_url}/{kind}/main/{path}{link[3]}"

    return "".join(
        part if _CODE.fullmatch(part) else _NO_LINK.sub(r"\\[\1\\]", _LINK.sub(outside, part))
        for part in _CODE.split(markdown)
    )


def _from_docs(readme: str) -> str:
    """README.md as a page in docs/: its links are relative to the repository's root."""

    def moved(link: re.Match[str]) -> str:
        target = link[2].removeprefix("docs/") if link[2].startswith("docs/") else f"../{link[2]}"
        return f"{link[1]}{target}{link[3]}"

    return _LINK.sub(moved, readme)


def commands_page() -> str:
    """Options of every command, from their settings."""
    lines = ["# Commands", "", *_paragraphs(cli.help or "")]
    for name in COMMANDS:
        command = COMMANDS[name]
        context = click.Context(command, info_name=f"poetfw {name}")
        lines += ["", f"## poetfw {name}", "", *_paragraphs(command.help or "")]
        if command.epilog:
            lines += ["", f"    {command.epilog.removeprefix('Example:').strip()}"]
        lines += ["", "| option | variable | what it is |", "|---|---|---|"]
        for flag, option in command.options.items():
            record = option.get_help_record(context)
            assert record is not None
            shown = record[0].replace("|", "\\|")
            text = record[1].replace("|", "\\|").replace("<", "&lt;")
            variable = f"`{option.envvar}`" if option.envvar else ""
            lines.append(f"| `{shown}` | {variable} | {text} |")
            assert flag in record[0]
    return "\n".join(lines) + "\n"


def _paragraphs(text: str) -> list[str]:
    return [line.strip() for line in text.replace("<", "&lt;").splitlines()]


def python_page() -> str:
    """Docstrings of the names of `poetfw`."""
    lines = [
        "# Python",
        "",
        "Names of `import poetfw`; [From Python](../python.md) shows them at work.",
    ]
    for name in poetfw.__all__:
        found = getattr(poetfw, name)
        if name == "schedule":
            place = "poetfw.api.searches.schedule"
        elif hasattr(found, "__module__"):
            place = f"{found.__module__}.{found.__qualname__}"
        else:
            continue
        lines += ["", f"## poetfw.{name}", "", f"::: {place}", "    options:"]
        lines += ["      heading_level: 3"]
    return "\n".join(lines) + "\n"
