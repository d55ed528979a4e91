"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from poetfw.boards import Board

_Command = TypeVar("_Command", bound=Callable[..., Any])


class Positive(click.ParamType):
    """A number above 0. Unlike click's own range, it has no room for NaN."""

    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number.

        Raises:
            BadParameter: it is none, or not above 0.
        """
        number = float(click.FLOAT.convert(value, param, ctx))
        if not number > 0:
            self.fail(f"{value} is not above 0.", param, ctx)
        return number


def option(flag: str, *more: str, **settings: Any) -> Callable[[_Command], _Command]:
    """A click option that may also be set by an environment variable: POETFW_BOARD for --board."""
    variable = "POETFW_" + flag.lstrip("-").replace("-", "_").upper()
    return click.option(flag, *more, envvar=variable, **settings)


def json_option(command: _Command) -> _Command:
    """--json: one JSON document on stdout, and nothing else there."""
    return click.option(
        "--json", "as_json", is_flag=True, help="Print one JSON document on stdout."
    )(command)


def board_option(command: _Command) -> _Command:
    """--board."""
    return option(
        "--board",
        required=True,
        metavar="NAME|FILE.toml",
        help="The board; `poetfw boards` lists those that are known.",
    )(command)


def out_option(command: _Command) -> _Command:
    """--out."""
    return option(
        "--out",
        type=click.Path(path_type=Path, file_okay=False),
        default=None,
        metavar="DIR",
        help="The project's folder.  [default: build/BOARD]",
    )(command)


def out_folder(out: Path | None, board: Board) -> Path:
    """The project's folder: what was asked for, or the board's default."""
    return out if out is not None else Path("build") / board.name
