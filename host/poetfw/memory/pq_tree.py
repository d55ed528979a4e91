# SPDX-License-Identifier: Apache-2.0
"""PQ-trees: all orders of some items that keep given sets of them contiguous.

A PQ-tree (Booth and Lueker, 1976) represents a set of orders of its leaves: the children of a node
come either in any order, or in the given order or its reverse. Trees are immutable: a further
constraint gives a new tree, so a search may hold many of them.

Sets of items are bit masks. Trees have tens of leaves, so plain recursion suffices.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Tree(NamedTuple):
    """Node of a PQ-tree with its subtree.

    Attributes:
        items: mask of the leaves below; a single bit for a leaf.
        ordered: True if the children's order is fixed up to reversal (Q-node), else any (P-node).
        children: empty for a leaf, else at least two; at least three if ordered.
    """

    items: int
    ordered: bool
    children: tuple[Tree, ...]


def in_any_order(children: Sequence[Tree]) -> Tree:
    """Tree whose one or more children come in any order."""
    return children[0] if len(children) == 1 else _node(False, children)


def leaves(items: int) -> Tree:
    """Tree of all orders of a mask's items."""
    return in_any_order([Tree(1 << i, False, ()) for i in indices(items)])


def indices(items: int) -> list[int]:
    """Items of a mask, ascending."""
    found = []
    while items:
        found.append((items & -items).bit_length() - 1)
        items &= items - 1
    return found


def replace(tree: Tree, together: int, by: Tree) -> Tree | None:
    """Restrict a tree to orders where some items are contiguous, and replace these items.

    Args:
        tree: the tree.
        together: mask of one or more of its items.
        by: tree that replaces them.

    Returns:
        The new tree; None if no order makes the items contiguous.
    """
    if tree.items == together:
        return by
    for i, child in enumerate(tree.children):
        if child.items & together == together:
            inner = replace(child, together, by)
            if inner is None:
                return None
            return _node(tree.ordered, [*tree.children[:i], inner, *tree.children[i + 1 :]])
    # From here on, the items are spread over several children.
    before: list[Tree] | None
    after: list[Tree] | None
    if not tree.ordered:
        others, parts = _split(tree.children, together)
        if len(parts) > 2:
            return None
        before = _rest(parts[0], together) if parts else []
        after = _rest(parts[1], together) if len(parts) > 1 else []
        if before is None or after is None:
            return None
        return in_any_order([*others, _in_this_order([*before, by, *reversed(after)])])
    touched = [i for i, c in enumerate(tree.children) if c.items & together]
    first, last = touched[0], touched[-1]
    if any(c.items & ~together for c in tree.children[first + 1 : last]):
        return None
    before = _rest(tree.children[first], together)
    after = _rest(tree.children[last], together)
    if before is None or after is None:
        return None
    return _in_this_order(
        [*tree.children[:first], *before, by, *reversed(after), *tree.children[last + 1 :]]
    )


def arrange(tree: Tree, place: Sequence[int]) -> list[int]:
    """Order of the tree in which the items' places ascend, if there is one.

    Args:
        tree: the tree.
        place: place of each item; items with equal places may come in any order of the tree.
    """
    return _arrange(tree, place)[2]


def _node(ordered: bool, children: Iterable[Tree]) -> Tree:
    row = tuple(children)
    items = 0
    for child in row:
        items |= child.items
    return Tree(items, ordered, row)


def _in_this_order(children: Sequence[Tree]) -> Tree:
    return in_any_order(children) if len(children) <= 2 else _node(True, children)


def _split(trees: Sequence[Tree], together: int) -> tuple[list[Tree], list[Tree]]:
    """Split trees into those without any of the items, and those with only some of them."""
    return (
        [tree for tree in trees if not tree.items & together],
        [tree for tree in trees if 0 != tree.items & together != tree.items],
    )


def _rest(tree: Tree, together: int) -> list[Tree] | None:
    """Subtrees left after removing items from one end, in order; None if that is impossible."""
    if not tree.items & ~together:
        return []
    if not tree.items & together:
        return [tree]
    if not tree.ordered:
        others, parts = _split(tree.children, together)
        if len(parts) > 1:
            return None
        inner = _rest(parts[0], together) if parts else []
        if inner is None:
            return None
        return [in_any_order(others), *inner] if others else inner
    row = tree.children
    if row[0].items & together and row[-1].items & ~together:
        row = row[::-1]
    first = next(i for i, c in enumerate(row) if c.items & together)
    if any(c.items & ~together for c in row[first + 1 :]):
        return None
    inner = _rest(row[first], together)
    return None if inner is None else [*row[:first], *inner]


def _arrange(tree: Tree, place: Sequence[int]) -> tuple[int, int, list[int]]:
    """Lowest place, highest place, and the items in order."""
    if not tree.children:
        item = tree.items.bit_length() - 1
        return place[item], place[item], [item]
    parts = [_arrange(child, place) for child in tree.children]
    if not tree.ordered:
        parts.sort(key=lambda part: part[:2])
    elif parts[0][:2] > parts[-1][:2]:
        parts.reverse()
    return (
        min(part[0] for part in parts),
        max(part[1] for part in parts),
        [item for part in parts for item in part[2]],
    )
