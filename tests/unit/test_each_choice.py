# SPDX-License-Identifier: Apache-2.0
"""Each-choice coverage of parametrised tests, by itself and as pytest applies it."""

from __future__ import annotations

import shlex
from collections import Counter
from itertools import product
from typing import Any

import pytest

from each_choice import cases_of, each_choice

pytest_plugins = ("pytester",)


def chosen(axes: list[str], rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows that stay; each axis names the columns that are given together."""
    names = [name for axis in axes for name in axis]
    cases = cases_of(axes, [dict(zip(names, row, strict=True)) for row in rows])
    return [rows[number] for number in each_choice(cases)]


def test_every_value_occurs_as_often_as_any_other() -> None:
    found = chosen(["a", "b", "c"], [*product("ABCDEF", range(3), (True, False))])
    assert len(found) == 6
    assert [sorted(Counter(column).values()) for column in zip(*found, strict=True)] == [
        [1] * 6, [2] * 3, [3] * 2,
    ]  # fmt: skip


def test_rows_that_are_no_product_all_stay() -> None:
    truth = [(False, False, 0), (False, True, 0), (True, False, 0), (True, True, 1)]
    assert chosen(["abc"], truth) == truth
    assert chosen(["a"], [((1, 2, 3),), ((1, 2, 4),), ((2, 2, 3),)]) == [
        ((1, 2, 3),), ((1, 2, 4),), ((2, 2, 3),),
    ]  # fmt: skip
    together = [("x", 1, c) for c in "CD"] + [("x", 2, c) for c in "CD"] + [("y", 3, "C")]
    assert len(chosen(["ab", "c"], together)) == 3


def test_rows_that_are_a_product_count_by_their_parts() -> None:
    assert len(chosen(["ab"], [*product("ABC", "DE")])) == 3
    assert len(chosen(["a"], [(pair,) for pair in product("ABC", "DE")])) == 3


def test_combinations_that_there_are_not_are_not_needed() -> None:
    rows = [("x", 1), ("x", 2), ("y", 2), ("z", 3)]
    assert chosen(["a", "b"], rows) == [("x", 1), ("y", 2), ("z", 3)]


def test_what_a_test_can_tell_apart_is_another_value() -> None:
    values = [0.0, -0.0, 0, False, float("nan"), [1], [1], {}, {}]
    assert len(chosen(["a", "b"], [(value, 1) for value in values])) == len(values)


TESTS = """\
import pytest


@pytest.fixture(params="ST")
def fixed(request):
    return request.param


@pytest.mark.parametrize("a", [1, 2, pytest.param(3, marks=pytest.mark.skip)])
@pytest.mark.parametrize(("b", "c"), [(1, 1), (1, 2), (2, 1)])
@pytest.mark.parametrize("d", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a(fixed, a, b, c, d): pass


class TestB:
    @pytest.mark.parametrize("a", range(3))
    def test_a(self, fixed, a): pass


def test_c(): pass
"""


@pytest.mark.parametrize(
    ("options", "counts"),
    [
        ("", (12 + 3 + 3 + 1, 24 - 3 + 6 - 3)),
        ("-m 'not slow'", (6 + 3 + 3 + 1, 18 + 12 - 3 + 6 - 3)),
        ("-k 'TestB and S'", (3, 43 - 3)),
        ("--every-case -m 'not slow'", (18 + 6 + 1, 18)),
    ],
)
def test_pytest_leaves_the_rest_out_and_counts_it(
    pytester: pytest.Pytester, options: str, counts: tuple[int, int]
) -> None:
    """Cases that are skipped stay, and their values occur elsewhere."""
    pytester.makeini("[pytest]\nmarkers = slow")
    pytester.makepyfile(TESTS)
    found = pytester.inline_run("--collect-only", "-p", "each_choice", *shlex.split(options))
    items = found.getcalls("pytest_collection_finish")[0].session.items
    left_out = [item for call in found.getcalls("pytest_deselected") for item in call.items]
    assert (len(items), len(left_out)) == counts
