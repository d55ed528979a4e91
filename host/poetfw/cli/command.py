# SPDX-License-Identifier: Apache-2.0
"""Commands and their options: what goes with what, and a help that fits on a screen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from poetfw.cli import output
from poetfw.cli.config import FILE

_Command = TypeVar("_Command", bound=Callable[..., Any])

_ALL = "poetfw.cli.command: show all options"
_OTHERS = "Options"
_COLUMN = 26
_MOST_LINES = 24  # of options in a help that has all of them


class Setting(click.Option):
    """An option.

    Attributes:
        group: under which heading the help has it.
        first: whether it is on the help's first screen, where a command has more than fit there.
        needs: flags of which one must be given, too.
        excludes: flags that it does not go with.
    """

    def __init__(
        self,
        *arguments: Any,
        group: str = _OTHERS,
        first: bool = False,
        needs: Sequence[str] = (),
        excludes: Sequence[str] = (),
        **settings: Any,
    ) -> None:
        super().__init__(*arguments, **settings)
        self.group, self.first = group, first
        self.needs, self.excludes = tuple(needs), tuple(excludes)


class Command(click.Command):
    """A command whose help shows what is wanted first, and whose options may need each other."""

    @property
    def _settings(self) -> list[Setting]:
        return [option for option in self.params if isinstance(option, Setting)]

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Its parameters, and `--help-all`."""
        return [*super().get_params(ctx), _help_all()]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options by their groups: all where they fit or are asked for, or the first."""
        params = super().get_params(ctx)
        everything = ctx.meta.get(_ALL, False) or _lines(ctx, params) <= _MOST_LINES
        shown = [p for p in params if everything or not isinstance(p, Setting) or p.first]
        if not everything:
            shown.append(_help_all())
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in shown:
            record = parameter.get_help_record(ctx)
            if record is not None:
                group = parameter.group if isinstance(parameter, Setting) else _OTHERS
                groups.setdefault(group, []).append(record)
        for group in sorted(groups, key=_OTHERS.__eq__):  # --help is one of the others
            with formatter.section(group):
                formatter.write_dl(groups[group], col_max=_COLUMN)
        if len(shown) < len(params):
            formatter.write_paragraph()
            formatter.write_text(
                f"{len(params) - len(shown) + 1} more: {ctx.command_path} --help-all"
            )

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, if its options go together.

        Raises:
            UsageError: two on the command line do not, or one lacks another.
        """
        by_flag = {flag: setting for setting in self._settings for flag in setting.opts}
        for setting in self._settings:
            if not _is_given(ctx, setting):
                continue
            for flag in setting.excludes:
                _exclude(ctx, setting, by_flag[flag])
        for setting in self._settings:
            if _is_given(ctx, setting) and setting.needs:
                _require(ctx, setting, [by_flag[flag] for flag in setting.needs])
        return super().invoke(ctx)


def _lines(ctx: click.Context, params: Sequence[click.Parameter]) -> int:
    """Lines that options take in a help."""
    formatter = ctx.make_formatter()
    records = [parameter.get_help_record(ctx) for parameter in params]
    formatter.write_dl([record for record in records if record], col_max=_COLUMN)
    return formatter.getvalue().count("\n")


def _help_all() -> click.Option:
    def show(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
        if value and not ctx.resilient_parsing:
            ctx.meta[_ALL] = True
            click.echo(ctx.get_help(), color=ctx.color)
            ctx.exit()

    return click.Option(
        ["--help-all"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=show,
        help="Show all options and exit.",
    )


def _source(ctx: click.Context, setting: Setting) -> ParameterSource:
    return ctx.get_parameter_source(setting.name or "") or ParameterSource.DEFAULT


def _is_given(ctx: click.Context, setting: Setting) -> bool:
    if _source(ctx, setting) in (ParameterSource.DEFAULT, ParameterSource.PROMPT):
        return False
    value = ctx.params.get(setting.name or "")
    return value not in (None, ()) and value is not False


def _exclude(ctx: click.Context, setting: Setting, other: Setting) -> None:
    """Refuse an option that does not go with another; leave it out if nobody typed it."""
    if not _is_given(ctx, other):
        return
    why = f"does not go with {_flag(setting)}"
    if _source(ctx, other) is ParameterSource.COMMANDLINE:
        raise click.UsageError(f"{_flag(other)} {why}")
    leave_out(ctx, other, why)


def _require(ctx: click.Context, setting: Setting, others: Sequence[Setting]) -> None:
    """Refuse an option that lacks another, and leave it out where it comes from elsewhere."""
    if any(_is_given(ctx, other) for other in others):
        return
    needed = " or ".join(_flag(other) for other in others)
    if _source(ctx, setting) is ParameterSource.COMMANDLINE:
        raise click.UsageError(f"{_flag(setting)} needs {needed}")
    leave_out(ctx, setting, f"needs {needed}")


def leave_out(ctx: click.Context, setting: Setting, why: str) -> None:
    """Go on without a setting of the environment or the folder, and say why; others stay."""
    if not _is_given(ctx, setting):
        return
    where = FILE
    if _source(ctx, setting) is ParameterSource.ENVIRONMENT:
        where = f"environment variable {setting.envvar}"
    name = setting.name or ""
    ctx.params[name] = setting.type_cast_value(ctx, setting.get_default(ctx))
    ctx.set_parameter_source(name, ParameterSource.DEFAULT)
    output.warn(f"{_flag(setting)} ({where}) {why}: it is not used")


def _flag(setting: Setting) -> str:
    return setting.opts[0]


def grouped(
    group: str, options: Iterable[Callable[[_Command], _Command]], command: _Command
) -> _Command:
    """A command with options that belong together, in this order."""
    before = len(_declared(command))
    for decorate in reversed([*options]):
        command = decorate(command)
    for option in _declared(command)[before:]:
        if isinstance(option, Setting) and option.group == _OTHERS:
            option.group = group
    return command


def _declared(command: Callable[..., Any]) -> list[click.Parameter]:
    """The options that a command's decorators have declared so far."""
    declared: list[click.Parameter] = getattr(command, "__click_params__", [])
    return declared
