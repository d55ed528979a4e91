# SPDX-License-Identifier: Apache-2.0
"""Types of settings: parsing, validation and shell completion."""

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
    """Number of bytes within a machine's limits, such as 262144 or 256K."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse a number of bytes.

        Raises:
            BadParameter: The text is not a number of bytes, or is out of range.
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
    """Finite number above 0, at most `LARGEST_COST`; click's own range would accept NaN."""

    def __init__(self) -> None:
        super().__init__(min=0, min_open=True)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Parse a number.

        Raises:
            BadParameter: The text is not a finite number above 0, or exceeds `LARGEST_COST`.
        """
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        if number > LARGEST_COST:
            self.fail(f"{value} is more than {LARGEST_COST:g}.", param, ctx)
        return number


class Share(click.FloatRange):
    """Number from 0 to 1; click's own range would accept NaN."""

    def __init__(self) -> None:
        super().__init__(min=0, max=1)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Parse a number.

        Raises:
            BadParameter: The text is not a number from 0 to 1.
        """
        number = float(super().convert(value, param, ctx))
        if math.isnan(number):
            self.fail(f"{value} is not a number from 0 to 1.", param, ctx)
        return number


class Factor(click.ParamType[Any]):
    """Number above 0, or `none`."""

    name = "factor"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float | None:
        """Parse a number; None for `none`."""
        return None if value == "none" else Positive().convert(value, param, ctx)


class OutputFile(click.Path):
    """Path of an output file; that it can be written is checked before the command starts."""

    def __init__(self, *endings: str) -> None:
        """Require one of the given file name endings; without any, accept all names."""
        super().__init__(path_type=Path, dir_okay=False)
        self._endings = endings

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Parse a path and check that the file can be written.

        Raises:
            BadParameter: The path is a folder, or has none of the endings.
            OutputError: The file cannot be written.
        """
        path = Path(str(super().convert(value, param, ctx)))
        if self._endings and path.suffix not in self._endings:
            self.fail(f"{path} does not end in {' or '.join(self._endings)}.", param, ctx)
        check_output_file(path)
        return path


class Folder(click.Path):
    """Path of a folder. An empty path is refused: Python would read it as the current folder."""

    def __init__(self) -> None:
        super().__init__(path_type=Path, file_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Parse a folder's path.

        Raises:
            BadParameter: The path is empty, or names a file.
        """
        if value == "":
            self.fail("the path is empty; the current folder is `.`", param, ctx)
        return Path(str(super().convert(value, param, ctx)))


class File(click.Path):
    """Path of a file."""

    def __init__(self, *, exists: bool = False) -> None:
        super().__init__(path_type=Path, dir_okay=False, exists=exists)


class NameOrFile(click.ParamType[str]):
    """One of the known names, or a file's path: any text, with shell completion for both."""

    name = "text"

    def __init__(self, known: Callable[[], Iterable[str]] = tuple) -> None:
        self.known = known

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text."""
        return str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> _Items:
        """Known names that begin with a word; if there are none, files."""
        found = [CompletionItem(name) for name in self.known() if name.startswith(incomplete)]
        return found or [CompletionItem(incomplete, type="file")]


class Listed(click.ParamType[tuple[Any, ...]]):
    """Comma-separated values of one type."""

    name = "text"

    def __init__(self, item: click.ParamType[Any] = click.STRING) -> None:
        self.item = item

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Any, ...]:
        """Parse the values.

        Raises:
            BadParameter: One of the values is not of the type.
        """
        if isinstance(value, tuple):
            return value
        texts = (part.strip() for part in str(value).split(","))
        return tuple(self.item.convert(text, param, ctx) for text in texts)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> _Items:
        """Completions of the last value, without the values already given."""
        before, comma, last = incomplete.rpartition(",")
        given = {part.strip() for part in before.split(",")}
        return [
            found if found.type != "plain" else CompletionItem(f"{before}{comma}{found.value}")
            for found in self.item.shell_complete(ctx, param, last)
            if found.value not in given
        ]


class Numbers(click.ParamType[tuple[float, ...]]):
    """Comma-separated numbers; exactly `count` of them, if given."""

    name = "numbers"

    def __init__(self, count: int | None = None) -> None:
        self.count = count

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, ...]:
        """Parse the numbers.

        Raises:
            BadParameter: One of the values is not a number, or their count is wrong.
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
    """Parse a number in ASCII; Python's `float` would also accept underscores and foreign digits.

    Raises:
        ValueError: The text is not such a number.
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
