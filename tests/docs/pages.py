# SPDX-License-Identifier: Apache-2.0
"""Reads README.md and docs/ the way a reader does: code blocks, commands, inline code, links."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
PAGES = (
    "README.md",
    "ARCHITECTURE.md",
    *sorted(p.relative_to(REPOSITORY).as_posix() for p in (REPOSITORY / "docs").rglob("*.md")),
)
LINKING = (
    *PAGES,
    *(
        p.relative_to(REPOSITORY).as_posix()
        for p in sorted([*REPOSITORY.glob("*.md"), *(REPOSITORY / ".github").glob("*.md")])
        if p.name not in PAGES
    ),
)
"""Pages whose links are followed: those above, and those for contributors."""

_COMMAND = re.compile(r"(poetfw|make|python|pip|pio|sudo) ")


@dataclass(frozen=True)
class Block:
    """A block of code: its lines without their indent, and the paragraph above it."""

    text: str
    above: str


@dataclass(frozen=True)
class Command:
    """A command on a page, and the lines that the page shows as its output."""

    text: str
    shown: tuple[str, ...] = ()

    @property
    def is_synopsis(self) -> bool:
        """Whether it has [optional parts]: not to be typed as it stands."""
        return " [" in self.text


def read(page: str) -> str:
    """The text of a page, named relative to the repository."""
    return (REPOSITORY / page).read_text(encoding="utf-8")


def split(page: str) -> tuple[list[Block], str]:
    """A page's blocks of code, indented or fenced, and what is left of it."""
    blocks: list[Block] = []
    prose: list[str] = []
    lines = read(page).splitlines()
    at = 0
    while at < len(lines):
        indented = lines[at].startswith("    ") and (at == 0 or not lines[at - 1].strip())
        fenced = lines[at].startswith("```")
        if not indented and not fenced:
            prose.append(lines[at])
            at += 1
            continue
        end = at + 1
        if fenced:
            while not lines[end].startswith("```"):
                end += 1
            inside = lines[at + 1 : end]
            end += 1
        else:
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                end += 1
            inside = lines[at:end]
        above = "\n".join(prose).strip().rpartition("\n\n")[2]
        blocks.append(Block(textwrap.dedent("\n".join(inside)).strip("\n") + "\n", above))
        prose.append("")
        at = end
    return blocks, "\n".join(prose)


def commands_of(block: Block) -> list[Command]:
    """The commands in a block; with `$ ` in front of them, the other lines are output."""
    lines = re.sub(r" *\\\n\s*", " ", block.text).splitlines()
    shows_output = any(line.startswith("$ ") for line in lines)
    commands: list[Command] = []
    for line in lines:
        text = line.removeprefix("$ ").partition(" #")[0].strip()
        if line.startswith("$ ") or (not shows_output and _COMMAND.match(text + " ")):
            commands.append(Command(text))
        elif shows_output and commands and line.strip():
            commands[-1] = Command(commands[-1].text, (*commands[-1].shown, line.strip()))
    return commands


def commands(page: str) -> list[Command]:
    """All commands in the blocks of a page."""
    return [command for block in split(page)[0] for command in commands_of(block)]


def inline_code(page: str) -> list[str]:
    """What stands between backticks in the prose of a page."""
    found = re.findall(r"`([^`]+)`", split(page)[1])
    return [re.sub(r"\s+", " ", code) for code in found]


def python_blocks(page: str) -> list[str]:
    """The blocks of a page that are Python to be run as it stands."""
    return [b.text for b in split(page)[0] if re.match(r"(import|from) \w+", b.text)]


def block_behind(page: str, words: str) -> str:
    """The one block whose paragraph above holds these words."""
    (block,) = (block for block in split(page)[0] if words in block.above)
    return block.text


def fenced(page: str, language: str) -> str:
    """The one fenced block of a language on a page."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", read(page), re.MULTILINE | re.DOTALL)
    return found


def table(text: str, *header: str) -> list[list[str]]:
    """The rows of the one table with this header, as the texts of their cells."""
    lines = text.splitlines()
    (at,) = [i for i, line in enumerate(lines) if _cells(line) == list(header)]
    rows = []
    for line in lines[at + 2 :]:
        if not line.startswith("|"):
            break
        rows.append(_cells(line))
    return rows


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("|")[1:-1]]
