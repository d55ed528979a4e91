# SPDX-License-Identifier: Apache-2.0
"""Declaration of settings as dataclass fields: name, type, help text and dependencies."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any, ClassVar

import click

from poetfw.settings.values import Listed

_SETTING = "setting"
_PARTS = "settings"


@dataclass(frozen=True)
class Setting:
    """Declaration of a setting, from which option, key of `poetfw.toml` and help are derived.

    Attributes:
        what: help text.
        default: value if the setting is not given.
        otherwise: description of the default for the help, if `default` does not show it.
        flag: long flag; empty to derive it from the field's name.
        short: additional one-letter flag.
        type: click type that parses the text; None for plain text, or a switch if the default is
            bool.
        metavar: placeholder of the value in the help; None for the type's.
        group: heading in the help; empty for the model's.
        first: True to show the option on the help's first screen, if not all options fit there.
        needs: flags of which at least one must be given as well.
        excludes: flags that cannot be combined with this one.
        own: True if the meaning differs between commands. Variable and key are then specific to the
            command: `poetfw place` has POETFW_PLACE_OUT, and `out` under [place].
        variable: False if no environment variable sets it.
        required: True if it must be given.
        multiple: True if it may be given repeatedly.
        alone: value of the flag given without a value; None if a value is required.
    """

    what: str
    default: Any = None
    otherwise: str = ""
    flag: str = ""
    short: str = ""
    type: click.ParamType[Any] | None = None
    metavar: str | None = None
    group: str = ""
    first: bool = False
    needs: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    own: bool = False
    variable: bool = True
    required: bool = False
    multiple: bool = False
    alone: str | None = None


class Settings:
    """Settings of one concern: base of frozen dataclasses whose fields are made by `setting`.

    Attributes:
        group: heading in the help.
        one_of: alternatives, each a list of flags; a command needs all flags of one alternative.
    """

    group: ClassVar[str] = "Options"
    one_of: ClassVar[tuple[tuple[str, ...], ...]] = ()

    def __init_subclass__(cls, group: str = "", one_of: tuple[tuple[str, ...], ...] = ()) -> None:
        cls.group, cls.one_of = group or cls.group, one_of or cls.one_of


def setting(what: str, default: Any = None, **more: Any) -> Any:
    """Declare a field of a settings model; arguments as for `Setting`."""
    return _field(Setting(what, default, **more))


def like(model: type[Settings], name: str, **changes: Any) -> Any:
    """Declare a field that copies the declaration of another model's field, with changes."""
    return _field(replace(declared(model)[name], **changes))


def parts(settings: Mapping[str, Setting]) -> Any:
    """Declare a field that collects several settings as (name, value) pairs of those given."""
    return field(default=(), metadata={_PARTS: settings})


def _field(declaration: Setting) -> Any:
    return field(default=declaration.default, metadata={_SETTING: declaration})


def declared(model: type[Settings]) -> dict[str, Setting]:
    """Declarations of a model's settings by name, in field order."""
    found: dict[str, Setting] = {}
    for one in fields(model):  # type: ignore[arg-type]  # each is a dataclass
        group = _owner(model, one).group
        own = {one.name: one.metadata[_SETTING]} if _SETTING in one.metadata else {}
        for name, declaration in (own or one.metadata.get(_PARTS, {})).items():
            found[name] = replace(
                declaration,
                flag=declaration.flag or "--" + name.replace("_", "-"),
                group=declaration.group or group,
            )
    return found


def _owner(model: type[Settings], one: Field[Any]) -> type[Settings]:
    """Class among a model's bases that declares a field."""
    return next(c for c in model.__mro__ if one.name in inspect.get_annotations(c))


def arguments(*models: Settings) -> tuple[str, ...]:
    """Command-line arguments that give settings their values; none for values that are defaults."""
    return tuple(
        text
        for model in models
        for declaration, value in _values(model)
        if value != declaration.default
        for text in _argument(declaration, value)
    )


def _values(model: Settings) -> Iterator[tuple[Setting, Any]]:
    """Declarations of a model's settings, with their values."""
    known = declared(type(model))
    for one in fields(model):  # type: ignore[arg-type]
        value = getattr(model, one.name)
        if _SETTING in one.metadata:
            yield known[one.name], value
        elif _PARTS in one.metadata:
            yield from ((known[name], part) for name, part in value)


def _argument(declaration: Setting, value: Any) -> Iterator[str]:
    """Flag and value of a setting, repeated for each value of one that may be given repeatedly."""
    if value is True and declaration.type is None:
        yield declaration.flag
    else:
        repeated = declaration.multiple and not isinstance(declaration.type, Listed)
        for each in value if repeated else (value,):
            yield declaration.flag
            yield _text(each)


def _text(value: Any) -> str:
    """Text that a setting's type parses as a value."""
    return ",".join(map(_text, value)) if isinstance(value, tuple) else str(value)


def take(model: type[Settings], values: dict[str, Any]) -> Settings:
    """Create a model from values by setting name, and remove these from `values`."""
    given: dict[str, Any] = {}
    for one in fields(model):  # type: ignore[arg-type]
        if _PARTS in one.metadata:
            found = ((name, values.pop(name)) for name in one.metadata[_PARTS])
            given[one.name] = tuple(pair for pair in found if pair[1] is not None)
        elif _SETTING in one.metadata:
            given[one.name] = values.pop(one.name)
    return model(**given)


def contradictions(
    settings: Mapping[str, Setting],
    is_given: Callable[[str], bool],
    is_typed: Callable[[str], bool],
) -> Iterator[tuple[str, str]]:
    """Flags that do not go with other given ones, or lack one that they need, with the reason.

    Of two that exclude each other, the second is refused, unless only the second is typed.

    Args:
        settings: declarations by flag.
        is_given: true of a flag that is set by any source; asked again after each contradiction.
        is_typed: true of a flag that the user typed for this call.
    """
    for flag, one in settings.items():
        for other in one.excludes:
            if is_given(flag) and is_given(other):
                stays, goes = flag, other
                if is_typed(other) and not is_typed(flag):
                    stays, goes = other, flag
                yield goes, f"does not go with {stays}"
    for flag, one in settings.items():
        if one.needs and is_given(flag) and not any(map(is_given, one.needs)):
            yield flag, f"needs {' or '.join(one.needs)}"
