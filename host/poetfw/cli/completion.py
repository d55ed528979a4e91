# SPDX-License-Identifier: Apache-2.0
"""Words that a shell completes: boards, models, schedulers and data sets, or the names of files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import click
from click.shell_completion import CompletionItem

from poetfw.common.option_values import DATA, MODELS, SCHEDULERS
from poetfw.common.resources import boards_dir, user_boards_dir

_Items = list[CompletionItem[str]]
_Complete = Callable[[click.Context, click.Parameter, str], _Items]


def _files(context: click.Context, parameter: click.Parameter, word: str) -> _Items:
    """The files whose paths begin with a word: the shell looks for them."""
    return [CompletionItem(word, type="file")]


def _names_or_files(names: Callable[[], Iterable[str]]) -> _Complete:
    """Complete a word by the names that begin with it or, where none does, by files."""

    def complete(context: click.Context, parameter: click.Parameter, word: str) -> _Items:
        found = [CompletionItem(name) for name in names() if name.startswith(word)]
        return found or _files(context, parameter, word)

    return complete


def _names_at_commas(names: Callable[[], Iterable[str]]) -> _Complete:
    """Complete the last of several words with commas between them, by names not yet among them."""

    def complete(context: click.Context, parameter: click.Parameter, word: str) -> _Items:
        before, comma, last = word.rpartition(",")
        given = {part.strip() for part in before.split(",")}
        return [
            CompletionItem(f"{before}{comma}{name}")
            for name in names()
            if name.startswith(last) and name not in given
        ]

    return complete


def _boards() -> list[str]:
    folders = (boards_dir(), user_boards_dir())
    return sorted({path.stem for folder in folders for path in folder.glob("*.toml")})


model = _names_or_files(lambda: MODELS)

BY_OPTION: Mapping[str, _Complete] = {
    "--board": _names_or_files(_boards),
    "--boards": _names_at_commas(_boards),
    "--data": _names_or_files(lambda: DATA),
    "--devices": _files,
    "--model": model,
    "--models": _names_at_commas(lambda: MODELS),
    "--schedulers": _names_at_commas(lambda: SCHEDULERS),
    "--weights": _files,
}
"""Completions of option values whose types have none of their own."""
