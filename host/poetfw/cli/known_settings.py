# SPDX-License-Identifier: Apache-2.0
"""Every setting of every command, as its model declares it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import click

from poetfw.cli.command import Command, Option


@dataclass(frozen=True)
class Known:
    """A setting that a flag, an environment variable or `poetfw.toml` gives.

    Attributes:
        key: as it is spelled in `poetfw.toml`; with dashes in front, the flag.
        table: the table of `poetfw.toml` that it stands in, empty for the top.
        group: the heading that the help has it under.
        what: explanation, with what holds without it.
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


def known_settings(commands: Mapping[str, Command]) -> list[Known]:
    """The settings of commands, those of all first, in the order in which helps have them."""
    found: dict[tuple[str, str], Known] = {}
    for name, command in commands.items():
        for option in command.options.values():
            if not option.setting.variable:
                continue
            known = _known(name, option)
            before = found.setdefault((known.table, known.key), known)
            if before is not known:
                both = (*before.commands, name)
                found[known.table, known.key] = replace(before, commands=both)
    return sorted(found.values(), key=lambda known: known.table)


def _known(command: str, option: Option) -> Known:
    context = click.Context(click.Command(command))
    shown = option.get_help_record(context)
    return Known(
        key=option.setting.flag.removeprefix("--"),
        table=command if option.setting.own else "",
        group=option.setting.group,
        what=" ".join((shown[1] if shown else "").split()),
        value=_value(option, context),
        variable=str(option.envvar),
        commands=(command,),
    )


def _value(option: Option, context: click.Context) -> str:
    if option.is_flag:
        return "true"
    default = option.setting.default
    if isinstance(default, str):
        return f'"{default}"'
    if isinstance(default, int | float):
        return f"{default}"
    return f"<{option.make_metavar(context)}>"
