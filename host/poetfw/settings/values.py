# SPDX-License-Identifier: Apache-2.0
"""Types of settings: how texts become values, and what a shell completes them with."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from poetfw.common.option_values import DATA, LARGEST_BYTES, LARGEST_COST, MODELS
from poetfw.common.output_file import check_output_file
from poetfw.common.resources import boards_dir, user_boards_dir
from poetfw.common.sizes import parse_bytes

_Items = list[CompletionItem[str]]


class Bytes(click.IntRange):
    """A number of bytes that a machine may have, as 262144 or 256K."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number.

        Raises:
            BadParameter: it is not a number, or out of range.
        """
        if isinstance(value, str) and not value.startswith("-"):
            try:
                value = parse_bytes(value)
            except ValueError as error:
                self.fail(f"{error}.", param, ctx)
        number = int(super().convert(value, param, ctx))
        if number > LARGEST_BYTES:
            self.fail(f"{value} is more than {LARGEST_BYTES}, which no machine has.", param, ctx)
        return number


class Positive(click.FloatRange):
    """A finite number above 0, and below overflow. In click's own range there is room for NaN."""

    def __init__(self) -> None:
        super().__init__(min=0, min_open=True)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number.

        Raises:
            BadParameter: it is not a number, not finite, not above 0, or beyond `LARGEST_COST`.
        """
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        if number > LARGEST_COST:
            self.fail(f"{value} is more than {LARGEST_COST:g}.", param, ctx)
        return number


class Factor(click.ParamType[Any]):
    """A number above 0, or `none`."""

    name = "factor"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float | None:
        """The number; None for `none`."""
        return None if value == "none" else Positive().convert(value, param, ctx)


class OutputFile(click.Path):
    """The path of a file that is written at the end: that it can be is found at the beginning."""

    def __init__(self, *endings: str) -> None:
        """A file whose name has one of the endings, or any where none are given."""
        super().__init__(path_type=Path, dir_okay=False)
        self._endings = endings

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """The path.

        Raises:
            BadParameter: it is a folder, or its name has none of the endings.
            OutputError: it cannot be written.
        """
        path = Path(str(super().convert(value, param, ctx)))
        if self._endings and path.suffix not in self._endings:
            self.fail(f"{path} does not end in {' or '.join(self._endings)}.", param, ctx)
        check_output_file(path)
        return path


class Folder(click.Path):
    """A folder's path; an empty one is refused, which Python would take for the current folder."""

    def __init__(self) -> None:
        super().__init__(path_type=Path, file_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """The path.

        Raises:
            BadParameter: it is empty, or a file's.
        """
        if value == "":
            self.fail("the path is empty; the current folder is `.`", param, ctx)
        return Path(str(super().convert(value, param, ctx)))


class File(click.Path):
    """A file by its path."""

    def __init__(self, *, exists: bool = False) -> None:
        super().__init__(path_type=Path, dir_okay=False, exists=exists)


class NameOrFile(click.ParamType[str]):
    """A name of some that are known, or a file's: any text, which a shell can complete."""

    name = "text"

    def __init__(self, known: Callable[[], Iterable[str]] = tuple) -> None:
        self.known = known

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text."""
        return str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> _Items:
        """The known names that begin with a word or, where none does, its files."""
        found = [CompletionItem(name) for name in self.known() if name.startswith(incomplete)]
        return found or [CompletionItem(incomplete, type="file")]


class Listed(click.ParamType[tuple[Any, ...]]):
    """Values with commas between them."""

    name = "text"

    def __init__(self, item: click.ParamType[Any] = click.STRING) -> None:
        self.item = item

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Any, ...]:
        """The values.

        Raises:
            BadParameter: one of them is not of the type.
        """
        if isinstance(value, tuple):
            return value
        texts = (part.strip() for part in str(value).split(","))
        return tuple(self.item.convert(text, param, ctx) for text in texts)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> _Items:
        """The last value, by what its type knows and is not yet among the values."""
        before, comma, last = incomplete.rpartition(",")
        given = {part.strip() for part in before.split(",")}
        return [
            found if found.type != "plain" else CompletionItem(f"{before}{comma}{found.value}")
            for found in self.item.shell_complete(ctx, param, last)
            if found.value not in given
        ]


class Numbers(click.ParamType[tuple[float, ...]]):
    """Numbers with commas between them; as many as a setting has, where that is known."""

    name = "numbers"

    def __init__(self, count: int | None = None) -> None:
        self.count = count

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, ...]:
        """The numbers.

        Raises:
            BadParameter: one of them is not a number, or they are not as many.
        """
        if isinstance(value, tuple):
            return value
        try:
            numbers = tuple(_number(part) for part in str(value).split(","))
        except ValueError:
            numbers = ()
        if not numbers or self.count not in (None, len(numbers)):
            count = "" if self.count is None else f"{self.count} "
            self.fail(f"{value!r} is not {count}numbers with commas between.", param, ctx)
        return numbers


def _number(text: str) -> float:
    """A number in ASCII, without the underscores and foreign digits that Python's `float` reads.

    Raises:
        ValueError: it is not.
    """
    if not text.isascii() or "_" in text:
        raise ValueError(text)
    return float(text)


def _boards() -> list[str]:
    folders = (boards_dir(), user_boards_dir())
    return sorted({path.stem for folder in folders for path in folder.glob("*.toml")})


BOARD = NameOrFile(_boards)
MODEL = NameOrFile(lambda: MODELS)
DATA_SET = NameOrFile(lambda: DATA)
