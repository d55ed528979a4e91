"""Options that several commands share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from poetfw.boards import Board

_Command = TypeVar("_Command", bound=Callable[..., Any])


class Positive(click.FloatRange):
    """A number above 0. In click's own range there is room for NaN."""

    def __init__(self) -> None:
        super().__init__(min=0, min_open=True)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number.

        Raises:
            BadParameter: it is none, or not above 0.
        """
        number = float(super().convert(value, param, ctx))
        if math.isnan(number):
            self.fail(f"{value} is not a number.", param, ctx)
        return number


def split_at_commas(
    context: click.Context, parameter: click.Parameter, values: Sequence[str]
) -> tuple[str, ...]:
    """Callback of an option that may be given repeatedly, each time with one value or several."""
    return tuple(part.strip() for value in values for part in value.split(","))


def option(flag: str, *more: str, **settings: Any) -> Callable[[_Command], _Command]:
    """A click option that may also be set by an environment variable: POETFW_BOARD for --board."""
    variable = "POETFW_" + flag.lstrip("-").replace("-", "_").upper()
    return click.option(flag, *more, envvar=variable, **settings)


def json_option(command: _Command) -> _Command:
    """--json: one JSON document on stdout, and nothing else there."""
    return click.option(
        "--json", "as_json", is_flag=True, help="Print one JSON document on stdout."
    )(command)


def model_as_option(command: _Command) -> _Command:
    """--model-as."""
    return option(
        "--model-as",
        type=click.Choice(["device", "poet"]),
        default="device",
        show_default=True,
        help="What counts: all that the device does, or only what POET's paper models.",
    )(command)


def solver_option(command: _Command) -> _Command:
    """--solver."""
    return option(
        "--solver",
        default="HIGHS",
        show_default=True,
        help="A solver that cvxpy finds installed.",
    )(command)


def parse_names(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> tuple[str, ...] | None:
    """Callback of an option that takes names with commas between them."""
    return None if value is None else tuple(part.strip() for part in value.split(","))


def schedulers_option(command: _Command) -> _Command:
    """--schedulers."""
    return option(
        "--schedulers",
        callback=parse_names,
        metavar="NAME,...",
        help="Which schedulers.  [default: all but poet-algorithm-1]",
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
