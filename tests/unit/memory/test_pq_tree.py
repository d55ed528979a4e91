# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import random
from itertools import permutations

import pytest

from poetfw.memory.pq_tree import Tree, arrange, indices, leaves, replace


def orders(tree: Tree) -> set[tuple[int, ...]]:
    """All orders a tree stands for."""
    if not tree.children:
        return {(tree.items.bit_length() - 1,)}
    found = set()
    rows = permutations(tree.children)
    if tree.ordered:
        rows = iter([tree.children, tree.children[::-1]])
    for row in rows:
        partial: set[tuple[int, ...]] = {()}
        for child in row:
            partial = {start + end for start in partial for end in orders(child)}
        found |= partial
    return found


def replaced(order: tuple[int, ...], together: int, by: tuple[int, ...]) -> set[tuple[int, ...]]:
    """The orders with others in place of items that have to lie together, none if they don't."""
    at = [k for k, item in enumerate(order) if together >> item & 1]
    if at[-1] - at[0] >= len(at):
        return set()
    return {(*order[: at[0]], *new, *order[at[-1] + 1 :]) for new in permutations(by)}


def test_a_set_that_overlaps_another_orders_what_is_around():
    tree = replace(leaves(0b1111), 0b0011, leaves(0b110000))
    assert tree is not None
    assert {order for order in orders(tree) if order[:2] == (2, 3)} == {(2, 3, 4, 5), (2, 3, 5, 4)}
    # 5 must lie beside 4 and beside 3, which gives up its place beside 2 for that.
    tree = replace(tree, 0b101000, leaves(1 << 6))
    assert tree is not None
    assert orders(tree) == {(2, 4, 6), (4, 6, 2), (6, 4, 2), (2, 6, 4)}


def test_what_two_others_enclose_cannot_touch_a_third():
    # In place of 0 come 4, 5 and 6; 4 lies with 1 and 6 with 2, so 5 is not beside 3.
    tree = replace(leaves(0b1111), 0b0001, leaves(0b1110000))
    assert tree is not None
    tree = replace(tree, 0b0010010, leaves(1 << 7))
    assert tree is not None
    tree = replace(tree, 0b1000100, leaves(1 << 8))
    assert tree is not None
    assert replace(tree, 0b0101000, leaves(1 << 9)) is None


@pytest.mark.parametrize("seed", range(60))
def test_trees_hold_the_orders_that_enumeration_finds(seed):
    rng = random.Random(seed)
    tree = leaves(0b111111)
    expected = set(permutations(range(6)))
    next_item = 6
    while tree.children:
        live = indices(tree.items)
        together = sum(1 << item for item in rng.sample(live, rng.randint(1, min(3, len(live)))))
        new = tuple(range(next_item, next_item + rng.randint(1, 2)))
        next_item += len(new)
        found = {after for order in expected for after in replaced(order, together, new)}
        after = replace(tree, together, leaves(sum(1 << item for item in new)))
        if after is None:
            assert not found
            return
        assert orders(after) == found

        # Going back from any order leads to one that allows it.
        place = [0] * next_item
        for at, item in enumerate(rng.choice(sorted(found))):
            place[item] = at
        for item in indices(together):
            place[item] = min(place[item] for item in new)
        before = arrange(tree, place)
        assert tuple(before) in expected
        assert [place[item] for item in before] == sorted(place[item] for item in live)
        tree, expected = after, found
