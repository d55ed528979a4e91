# SPDX-License-Identifier: Apache-2.0
"""Click commands from settings: dependencies between options, and help that fits a screen."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, get_type_hints

import click
from click.core import ParameterSource

from poetfw.cli import output
from poetfw.cli.config import FILE
from poetfw.common.limits import Deadline
from poetfw.settings import Setting, Settings, contradictions, declared, take
from poetfw.settings.values import Listed

_ALL = "poetfw.cli.command: show all options"
_OTHERS = Settings.group
_COLUMN = 26
_MOST_LINES = 24  # of options, for a help that shows all of them at once

Inapplicable = Callable[[Mapping[str, Any]], Iterable[tuple[str, str]]]
"""Function from the values of all options to flags that do not apply, each with the reason."""


class Option(click.Option):
    """Click option of a setting.

    Attributes:
        setting: declaration of the setting.
    """

    def __init__(self, name: str, setting: Setting, command: str) -> None:
        """Create the option of a command for the parameter `name`."""
        self.setting = setting
        switch = isinstance(setting.default, bool) or setting.type is click.BOOL
        more: dict[str, Any] = {}
        if setting.alone is not None:
            more |= {"is_flag": False, "flag_value": setting.alone}
        if switch:
            more["is_flag"] = True
        if switch or setting.default is not None:  # click would take an explicit None as a value
            more["default"] = setting.default
        super().__init__(
            [name, setting.flag, *([setting.short] if setting.short else [])],
            type=None if switch else setting.type,
            required=setting.required,
            multiple=setting.multiple,
            metavar=setting.metavar or _metavar(setting.type),
            envvar=variable(setting, command) if setting.variable else None,
            show_default=not (switch or setting.otherwise or setting.default in (None, ())),
            help=setting.what + (f"  [default: {setting.otherwise}]" if setting.otherwise else ""),
            **more,
        )

    def type_cast_value(self, ctx: click.Context, value: Any) -> Any:
        """Convert a value; lists of a repeated option are concatenated."""
        found = super().type_cast_value(ctx, value)
        if self.multiple and isinstance(self.type, Listed):
            return tuple(chain.from_iterable(found))
        return found


def _metavar(kind: click.ParamType[Any] | None) -> str | None:
    """Placeholder of a numeric type; None to use the type's own."""
    if isinstance(kind, click.types.IntParamType):
        return "N"
    return "NUMBER" if isinstance(kind, click.types.FloatParamType) else None


def variable(setting: Setting, command: str) -> str:
    """Environment variable of a setting: POETFW_NAME, or POETFW_COMMAND_NAME if specific."""
    words = [*([command] if setting.own else []), setting.flag.lstrip("-")]
    return "_".join(("poetfw", *words)).replace("-", "_").upper()


class Command(click.Command):
    """Command with a short help and checks of dependent options."""

    one_of: Sequence[Sequence[Sequence[str]]] = ()
    inapplicable: Inapplicable

    @property
    def options(self) -> dict[str, Option]:
        """Options that come from settings, by flag."""
        found = [option for option in self.params if isinstance(option, Option)]
        return {option.setting.flag: option for option in found}

    @property
    def keys(self) -> dict[str, bool]:
        """Keys in `poetfw.toml`; False for those specific to this command."""
        return {flag.lstrip("-"): not one.setting.own for flag, one in self.options.items()}

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Parameters of the command, and `--help-all`."""
        return [*super().get_params(ctx), _help_all()]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write options by group: all if they fit or `--help-all` is given, else those first."""
        params = super().get_params(ctx)
        everything = ctx.meta.get(_ALL, False) or _lines(ctx, params) <= _MOST_LINES
        shown = [p for p in params if everything or not isinstance(p, Option) or p.setting.first]
        if not everything:
            shown.append(_help_all())
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in shown:
            record = parameter.get_help_record(ctx)
            if record is not None:
                group = parameter.setting.group if isinstance(parameter, Option) else _OTHERS
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
        """Run the command after checking that its options are compatible.

        Raises:
            UsageError: Typed options exclude each other, one lacks an option it needs, or all
                alternatives of required options are missing.
        """
        options = self.options
        settings = {flag: option.setting for flag, option in options.items()}
        for flag, why in contradictions(
            settings,
            lambda flag: _is_given(ctx, options[flag]),
            lambda flag: _is_typed(ctx, options[flag]),
        ):
            _refuse(ctx, flag, why)
        for choices in self.one_of:
            if not any(all(_is_given(ctx, options[flag]) for flag in flags) for flags in choices):
                either = ", or ".join(" and ".join(flags) for flags in choices)
                raise click.UsageError(f"give either {either}", ctx)
        for flag, why in self.inapplicable(ctx.params):
            _refuse(ctx, flag, why)
        return super().invoke(ctx)


def command(
    example: str, inapplicable: Inapplicable = lambda given: (), name: str | None = None
) -> Callable[[Callable[..., Any]], Command]:
    """Decorator that makes a command of a function; its settings parameters become options.

    Args:
        example: last paragraph of the help.
        inapplicable: options to refuse if they are given; they keep their defaults if they are set
            by a file or variable.
        name: name of the command; None for the function's.
    """

    def decorate(function: Callable[..., Any]) -> Command:
        called = name or function.__name__
        kinds = {
            parameter: kind
            for parameter, kind in get_type_hints(function).items()
            if isinstance(kind, type) and issubclass(kind, Settings)
        }

        @functools.wraps(function)
        def run(**values: Any) -> Any:
            models = {parameter: take(kind, values) for parameter, kind in kinds.items()}
            return function(**values, **models)

        made = click.command(called, cls=Command, epilog=example)(run)
        settings = [pair for kind in kinds.values() for pair in declared(kind).items()]
        made.params[:0] = [Option(name, setting, called) for name, setting in settings]
        made.inapplicable = inapplicable
        made.one_of = [kind.one_of for kind in kinds.values() if kind.one_of]
        return made

    return decorate


def command_deadline(time_limit_s: float) -> Deadline:
    """Deadline of the running command, counted from process start if the process is its own."""
    return Deadline(time_limit_s, began_s=click.get_current_context().obj)


def _lines(ctx: click.Context, params: Sequence[click.Parameter]) -> int:
    """Number of lines that options take in a help."""
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


def _source(ctx: click.Context, option: Option) -> ParameterSource:
    return ctx.get_parameter_source(option.name or "") or ParameterSource.DEFAULT


def _is_typed(ctx: click.Context, option: Option) -> bool:
    return _source(ctx, option) is ParameterSource.COMMANDLINE


def _is_given(ctx: click.Context, option: Option) -> bool:
    """True if an option was set by any source and not switched off."""
    if _source(ctx, option) in (ParameterSource.DEFAULT, ParameterSource.PROMPT):
        return False
    value = ctx.params.get(option.name or "")
    return value not in (None, ()) and value is not False


def _refuse(ctx: click.Context, flag: str, why: str) -> None:
    """Refuse an option if it was typed; if a file or variable sets it, warn and ignore it.

    Raises:
        UsageError: The option was typed.
    """
    assert isinstance(ctx.command, Command)
    option = ctx.command.options[flag]
    if not _is_given(ctx, option):
        return
    if _is_typed(ctx, option):
        raise click.UsageError(f"{flag} {why}", ctx)
    where = FILE
    if _source(ctx, option) is ParameterSource.ENVIRONMENT:
        where = f"environment variable {option.envvar}"
    name = option.name or ""
    ctx.params[name] = option.type_cast_value(ctx, option.get_default(ctx))
    ctx.set_parameter_source(name, ParameterSource.DEFAULT)
    output.warn(f"{flag} ({where}) {why}: it is not used")
