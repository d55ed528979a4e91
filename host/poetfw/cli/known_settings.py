# SPDX-License-Identifier: Apache-2.0
"""All settings of all commands, for documentation and templates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import click

from poetfw.cli.command import Command, Option


@dataclass(frozen=True)
class Known:
    """A setting that a flag, an environment variable or `poetfw.toml` gives.

    Attributes:
        key: key in `poetfw.toml`: the flag without leading dashes.
        table: table in `poetfw.toml`; empty for the top level.
        group: heading in the help.
        what: help text, with the default.
        value: example value as TOML, or a placeholder in angle brackets.
        variable: environment variable.
        commands: commands that have the setting.
    """

    key: str
    table: str
    group: str
    what: str
    value: str
    variable: str
    commands: tuple[str, ...]


def known_settings(commands: Mapping[str, Command]) -> list[Known]:
    """Settings of commands in the order of their helps; those shared by all commands first."""
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
