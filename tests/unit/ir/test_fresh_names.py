# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from poetfw.ir import FreshNames


def test_a_name_that_is_taken_anywhere_gets_the_smallest_free_number() -> None:
    names = FreshNames()
    taken = {"a", "a (2)"}, {"b", "a (3)"}
    assert [names.fresh(name, *taken) for name in ("a", "b", "c")] == ["a (4)", "b (2)", "c"]


def test_a_name_released_is_given_again() -> None:
    names = FreshNames()
    taken = {"a"}
    for _ in range(3):
        taken.add(names.fresh("a", taken))
    assert taken == {"a", "a (2)", "a (3)", "a (4)"}
    for name in ("a (2)", "a (3)"):
        taken.remove(name)
        names.release(name)
    assert names.fresh("a", taken) == "a (2)"
    assert names.fresh("a", taken | {"a (2)"}) == "a (3)"
