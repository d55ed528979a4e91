# SPDX-License-Identifier: Apache-2.0
"""Each-choice coverage of parametrised tests: every value of every parameter occurs in a case.

`make test` runs these cases, `--every-case` (and so `make test-all`) all combinations. Parameters
that one `parametrize` gives together are one value unless they are a full product: rows that
somebody wrote are never left out.

Each choice is the weakest criterion of combinatorial testing (Grindal, Offutt, Andler, "Combination
testing strategies", 2005). Of cases with as many new values, the one whose values have been used
least comes first, which spreads each parameter's values over those of the others.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from math import prod
from typing import Any

import pytest

Case = frozenset[tuple[int, Hashable]]
"""Values of a case, each with the number of its parameter."""


def cases_of(axes: Sequence[Sequence[str]], rows: Sequence[Mapping[str, Any]]) -> list[Case]:
    """Values of each row of parameters, whose names `axes` gives as they were given together."""
    columns = [
        column
        for names in axes
        for column in _factors([tuple(_key(row[name]) for name in names) for row in rows])
    ]
    return [frozenset(enumerate(case)) for case in zip(*columns, strict=True)]


def _factors(column: list[Any]) -> Iterator[list[Hashable]]:
    """The columns whose product a column of tuples is, or else the column itself."""
    if all(isinstance(value, tuple) and len(value) == len(column[0]) for value in column):
        parts = [[*part] for part in zip(*column, strict=True)]
        if len(set(column)) == prod(len(set(part)) for part in parts):
            for part in parts:
                yield from _factors(part)
            return
    yield column


def _key(value: Any) -> Hashable:
    """A key that is equal only for what no test can tell apart."""
    if isinstance(value, tuple):
        return tuple(map(_key, value))
    try:
        hash(value)
    except TypeError:
        return id(value)
    return type(value), repr(value) if isinstance(value, float) else value  # -0.0 is not 0.0


def each_choice(cases: Sequence[Case]) -> list[int]:
    """Numbers of cases, rising, that hold every value that any case holds.

    The case with the most values that no chosen one holds comes next.
    """
    if all(len(case) == 1 for case in cases):
        return [*range(len(cases))]
    missing = Case().union(*cases)
    uses: Counter[tuple[int, Hashable]] = Counter()
    chosen: list[int] = []
    while missing:
        number = max(
            range(len(cases)),
            key=lambda n: (len(cases[n] & missing), -sum(uses[value] for value in cases[n]), -n),
        )
        chosen.append(number)
        missing -= cases[number]
        uses.update(cases[number])
    return sorted(chosen)


def _axes(item: pytest.Function) -> list[list[str]]:
    """Names of an item's parameters; those that one mark gives together are together."""
    left = dict.fromkeys(item.callspec.params)
    axes: list[list[str]] = []
    for mark in item.iter_markers("parametrize"):
        names = mark.kwargs.get("argnames", mark.args[0] if mark.args else ())
        names = [name.strip() for name in names.split(",")] if isinstance(names, str) else names
        axes.append([name for name in names if left.pop(name, left) is None])
    return [axis for axis in axes if axis] + [[name] for name in left]


def _skips(item: pytest.Item) -> bool:
    """True for a case that shows no value, as it will not run."""
    conditions = (mark.args[0] for mark in item.iter_markers("skipif") if mark.args)
    return item.get_closest_marker("skip") is not None or any(c is True for c in conditions)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--every-case",
        action="store_true",
        help="run parametrised tests with all combinations of their values",
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out cases that each-choice coverage does without, of those that others left."""
    if config.getoption("every_case"):
        return
    tests: dict[tuple[Any, str], list[pytest.Function]] = defaultdict(list)
    for item in items:
        if isinstance(item, pytest.Function) and hasattr(item, "callspec") and not _skips(item):
            tests[item.parent, item.originalname].append(item)
    left_out: set[pytest.Item] = set()
    for found in tests.values():
        kept = each_choice(cases_of(_axes(found[0]), [item.callspec.params for item in found]))
        left_out |= {*found} - {found[number] for number in kept}
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]
