# SPDX-License-Identifier: Apache-2.0
"""Every setting of every command, as its option declares it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import click

from poetfw.cli.command import Setting
from poetfw.cli.options import variable


@dataclass(frozen=True)
class Known:
    """A setting that a flag, an environment variable or `poetfw.toml` gives.

    Attributes:
        key: as it is spelled in `poetfw.toml`; with dashes in front, the flag.
        table: the table of `poetfw.toml` that it stands in, empty for the top.
        group: the heading that the help has it under.
        what: what it is, with what holds without it.
        value: an example of its value, as TOML, or a word for it in angle brackets.
        variable: the environment variable.
        commands: which have it.
    """

    key: str
    table: str
    group: str
    what: str
    value: str
    variable: str
    commands: tuple[str, ...]


def known_settings(commands: Mapping[str, click.Command]) -> list[Known]:
    """The settings of commands, those of all first, in the order in which helps have them."""
    found: dict[tuple[str, str], Known] = {}
    for name, command in commands.items():
        for option in command.params:
            if not isinstance(option, Setting) or not isinstance(option.envvar, str):
                continue
            known = _known(name, option)
            before = found.setdefault((known.table, known.key), known)
            if before is not known:
                both = (*before.commands, name)
                found[known.table, known.key] = replace(before, commands=both)
    return sorted(found.values(), key=lambda known: known.table)


def _known(command: str, option: Setting) -> Known:
    flag = next(flag for flag in option.opts if flag.startswith("--"))
    context = click.Context(click.Command(command))
    shown = option.get_help_record(context)
    return Known(
        key=flag.removeprefix("--"),
        table="" if option.envvar == variable(flag) else command,
        group=option.group,
        what=" ".join((shown[1] if shown else "").split()),
        value=_value(option, context),
        variable=str(option.envvar),
        commands=(command,),
    )


def _value(option: Setting, context: click.Context) -> str:
    if option.is_flag:
        return "true"
    default = option.get_default(context)
    if isinstance(default, str):
        return f'"{default}"'
    if isinstance(default, int | float):
        return f"{default}"
    return f"<{option.make_metavar(context)}>"
