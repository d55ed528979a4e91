# SPDX-License-Identifier: Apache-2.0
"""`poetfw init`: writes a template of the settings file."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from poetfw.cli import output
from poetfw.cli.command import command
from poetfw.cli.config import FILE, has_config
from poetfw.cli.known_settings import Known, known_settings
from poetfw.common.errors import OutputError
from poetfw.settings import Settings, setting

_HEAD = """\
# Settings of poetfw in this folder. Flags and environment variables take precedence over this file.
# All lines are comments: remove the `#` of a setting to use it, and replace placeholders in <>.
# Top-level keys apply to all commands that have them, keys below [place] only to `poetfw place`.
"""


@dataclass(frozen=True)
class Writing(Settings):
    """Options of writing the file."""

    force: bool = setting("Overwrite an existing file.", False, variable=False)


@command("Example:  poetfw init && poetfw build --board nrf52840")
def init(writing: Writing) -> None:
    """Write a poetfw.toml with every setting as a comment."""
    from poetfw.cli.main import COMMANDS
    from poetfw.common.output_file import replace_file

    if has_config(Path()) and not writing.force:
        raise OutputError(f"there is a {FILE} already", "overwrite it with --force")
    replace_file(Path(FILE), template(known_settings(COMMANDS)).encode())
    output.messages.print(f"wrote {FILE}")


def template(settings: list[Known]) -> str:
    """Text of a settings file in which every setting is a comment."""
    lines = [_HEAD]
    for table, of_table in groupby(settings, key=lambda known: known.table):
        if table:
            lines.append(f"# [{table}]\n")
        by_group: dict[str, list[Known]] = {}
        for known in of_table:
            by_group.setdefault(known.group, []).append(known)
        for group, members in by_group.items():
            if not table:
                lines.append(f"# ---- {group} ----\n")
            lines += [_entry(known) for known in members]
    return "\n".join(lines)


def _entry(known: Known) -> str:
    what = textwrap.fill(known.what, 96, initial_indent="## ", subsequent_indent="## ")
    return f"{what}\n# {known.key} = {known.value}\n"
