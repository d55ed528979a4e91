# SPDX-License-Identifier: Apache-2.0
"""Keyword arguments from settings: named as the flags, checked by the same types."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import click

from poetfw.common.errors import ConfigError, listed
from poetfw.settings import (
    Application,
    Budget,
    BuildLimits,
    CellLimits,
    CompilerSettings,
    CostSettings,
    Devices,
    Limits,
    NetworkSettings,
    OneMachine,
    Programmed,
    RunOutput,
    RunSettings,
    Schedulers,
    SchedulerSettings,
    Setting,
    Settings,
    Solver,
    TrainingSettings,
    Where,
    contradictions,
    declared,
    take,
)
from poetfw.settings.schedule import GridSettings, TaskBudget
from poetfw.settings.values import Factor, Listed, Numbers

PLAN: tuple[type[Settings], ...] = (
    Programmed,
    NetworkSettings,
    Budget,
    TrainingSettings,
    SchedulerSettings,
    Devices,
    Application,
    CostSettings,
    BuildLimits,
    CompilerSettings,
)
"""Settings of `poetfw.plan`, as of `poetfw build`."""

RUN: tuple[type[Settings], ...] = (RunSettings, Where, OneMachine, RunOutput)
"""Settings of a run, as of `poetfw run`."""

SWEEP: tuple[type[Settings], ...] = (GridSettings, Schedulers, CostSettings, CellLimits, Solver)
"""Settings of `poetfw.sweep`, as of `poetfw sweep`."""

SCHEDULE: tuple[type[Settings], ...] = (SchedulerSettings, TaskBudget, Limits, Solver)
"""Settings of `poetfw.schedule`, as of `poetfw schedule --problem`."""


def keyword(flag: str) -> str:
    """Keyword argument of a flag: `--work-limit` is `work_limit`."""
    return flag.removeprefix("--").replace("-", "_")


def keywords(models: Sequence[type[Settings]]) -> dict[str, tuple[str, Setting]]:
    """Names of fields and their declarations, by keyword argument."""
    return {
        keyword(setting.flag): (name, setting)
        for model in models
        for name, setting in declared(model).items()
    }


def settings_of(models: Sequence[type[Settings]], options: Mapping[str, Any]) -> list[Any]:
    """Models of settings from keyword arguments; None stands for the default.

    Raises:
        ConfigError: An option is unknown, has no usable value, or does not go with another.
    """
    known = keywords(models)
    values = {name: setting.default for name, setting in known.values()}
    given: set[str] = set()
    for word, value in options.items():
        if word not in known:
            raise ConfigError(
                f"there is no option {word!r}", f"known are {listed(sorted(known), most=80)}"
            )
        if value is not None:
            name, setting = known[word]
            values[name] = converted(word, setting, value)
            if values[name] != () and values[name] is not False:
                given.add(setting.flag)
    by_flag = {setting.flag: setting for _, setting in known.values()}
    for flag, why in contradictions(by_flag, given.__contains__, given.__contains__):
        raise ConfigError(f"{flag} {why}")
    required = [((flag,),) for flag, setting in by_flag.items() if setting.required]
    for choices in (*required, *(model.one_of for model in models)):
        if choices and not any(given.issuperset(flags) for flags in choices):
            either = ", or ".join(" and ".join(flags) for flags in choices)
            raise ConfigError(f"give either {either}" if len(choices) > 1 else f"give {either}")
    return [take(model, values) for model in models]


def converted(word: str, setting: Setting, value: Any) -> Any:
    """Value of an option, by the type of its setting; Python's values and texts are accepted.

    Raises:
        ConfigError: The value is not of the type.
    """
    kind = setting.type
    try:
        if isinstance(setting.default, bool) or kind is click.BOOL:
            if not isinstance(value, bool):
                raise click.BadParameter(f"{value!r:.80} is not True or False.")
            return value
        if setting.multiple:
            several = [value] if isinstance(value, str | os.PathLike) else list(value)
            each = [_one(kind, one) for one in several]
            return tuple(chain.from_iterable(each)) if isinstance(kind, Listed) else tuple(each)
        return _one(kind, value)
    except click.BadParameter as error:
        raise ConfigError(f"{word}: {error.message}") from error
    except TypeError as error:
        raise ConfigError(f"{word}: {value!r:.80} is no usable value: {error}") from error


def _one(kind: click.ParamType[Any] | None, value: Any) -> Any:
    """A value by its type; click itself would take 1.5 for an integer, and True for a number.

    Raises:
        BadParameter: The value is not of the type.
        TypeError: It cannot be converted at all.
    """
    if isinstance(value, bool):
        raise click.BadParameter(f"{value} is a truth value.")
    if isinstance(kind, Listed) and not isinstance(value, str):
        items = value if isinstance(value, Iterable) else [value]
        return tuple(None if item is None else _one(kind.item, item) for item in items)
    if isinstance(kind, Numbers) and not isinstance(value, str):
        value = ",".join(repr(float(number)) for number in value)
    elif isinstance(kind, click.types.IntParamType) and not isinstance(value, str):
        try:
            value = operator.index(value)
        except TypeError:
            raise click.BadParameter(f"{value!r:.80} is not a whole number.") from None
    elif isinstance(kind, click.types.FloatParamType | Factor) and not isinstance(value, str):
        value = float(value)
    elif not isinstance(value, str):
        value = os.fspath(value)
    return value if kind is None else kind.convert(value, None, None)
