# SPDX-License-Identifier: Apache-2.0
"""Settings as fields of dataclasses, which name, type, explain and check them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any, ClassVar

import click

_SETTING = "setting"
_PARTS = "settings"


@dataclass(frozen=True)
class Setting:
    """Declaration of a setting. Its option, its key in `poetfw.toml` and its help come from this.

    Attributes:
        what: explanation.
        default: value where nobody gives one.
        otherwise: what holds then, where the default does not say it.
        flag: its flag; empty for the field's name with dashes.
        short: a flag of one letter, too.
        type: how a text is read; None for a text as it is, or for a switch if the default is one.
        metavar: a word for its value; None for the type's.
        group: under which heading the help has it; empty for the model's.
        first: True if it is on the help's first screen, where a command has more than fit there.
        needs: flags of which one must be given, too.
        excludes: flags that it does not go with.
        own: True if it means something else in other commands: `poetfw place` has the variable
            POETFW_PLACE_OUT and the key `out` in [place].
        variable: False if no environment variable sets it.
        required: True if it must be given.
        multiple: True if it may be given repeatedly.
        alone: value of the flag without one; None if it needs one.
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
    """Settings of one concern: base of frozen dataclasses whose fields `setting` declares.

    Attributes:
        group: heading of a help that has them.
        one_of: ways of giving what must be given; a command needs all flags of one of them.
    """

    group: ClassVar[str] = "Options"
    one_of: ClassVar[tuple[tuple[str, ...], ...]] = ()

    def __init_subclass__(cls, group: str = "", one_of: tuple[tuple[str, ...], ...] = ()) -> None:
        cls.group, cls.one_of = group or cls.group, one_of or cls.one_of


def setting(what: str, default: Any = None, **more: Any) -> Any:
    """A field of a model, as `Setting` takes it."""
    return _field(Setting(what, default, **more))


def like(model: type[Settings], name: str, **changes: Any) -> Any:
    """The field that sets what a field of another model sets, but for some attributes."""
    return _field(replace(declared(model)[name], **changes))


def parts(settings: Mapping[str, Setting]) -> Any:
    """A field of pairs, names and values, of those of some settings that are given."""
    return field(default=(), metadata={_PARTS: settings})


def _field(declaration: Setting) -> Any:
    return field(default=declaration.default, metadata={_SETTING: declaration})


def declared(model: type[Settings]) -> dict[str, Setting]:
    """The settings of a model by their names, in order."""
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
    """The class of a model's bases that declares a field."""
    return next(c for c in model.__mro__ if one.name in inspect.get_annotations(c))


def take(model: type[Settings], values: dict[str, Any]) -> Settings:
    """Make a model of values by the names of its settings, which are taken out of them."""
    given: dict[str, Any] = {}
    for one in fields(model):  # type: ignore[arg-type]
        if _PARTS in one.metadata:
            found = ((name, values.pop(name)) for name in one.metadata[_PARTS])
            given[one.name] = tuple(pair for pair in found if pair[1] is not None)
        elif _SETTING in one.metadata:
            given[one.name] = values.pop(one.name)
    return model(**given)
