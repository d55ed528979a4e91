# SPDX-License-Identifier: Apache-2.0
"""Search for a placement without gaps, for buffers that fill the arena at every moment.

Blocks. If no byte may be wasted, the buffers that begin at a moment take exactly the addresses of
those that end there. So both split into blocks: the buffers that end in a block are contiguous,
and those that begin in it take their place. This is the only condition on a placement.

Orders. The possible vertical orders of the live buffers, given the blocks so far, form a PQ-tree. A
sweep over time restricts it by each block, or refutes the blocks chosen before; at the end,
backtracking from any remaining order gives every address. This is the planarity test of Lempel,
Even and Cederbaum (1967), for the graph with blocks as nodes and buffers as edges.

Doubt. The search decides which buffers form the blocks. Two small sets of buffers rarely have the
same total size by accident. The expected number of such accidents at a moment, in bits, is the
doubt about a set as a block, or about rejecting it. Successive runs admit more doubt, forwards and
backwards in time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from math import gcd, lcm

from poetfw.common.limits import Deadline
from poetfw.memory.blocks import Block, Blocks, find_blocks
from poetfw.memory.pq_tree import Tree, arrange, indices, leaves, replace
from poetfw.memory.problem import Buffer
from poetfw.memory.search import SearchEnd
from poetfw.memory.sections import find_sections

_LARGEST_SECTION = 250
"""Most buffers live at once; a tree of more might exceed the recursion limit."""

_DOUBT_STEP = 2.0
"""Bits of doubt that each run admits in addition."""

_STATES_PER_TREE = 2
"""States of `Search` per tree."""

_SETS_PER_STATE = 20
"""Sets of buffers examined per state of `Search`."""


@dataclass(frozen=True, slots=True)
class _State:
    """Block taken, and the open decisions of its moment.

    Attributes:
        before: previous state; None at the beginning.
        block: the block.
        tree: remaining orders of the buffers live then.
        section: section that begins at the moment.
        ending: mask of the other buffers that end at the moment.
        beginning: mask of the other buffers that begin at the moment.
        blocks: candidate blocks of the moment.
        next_block: index of the first candidate that may follow.
        doubt: bits of doubt in all blocks taken and rejected so far.
    """

    before: _State | None
    block: Block
    tree: Tree
    section: int
    ending: int
    beginning: int
    blocks: Blocks
    next_block: int
    doubt: float


def filled_bytes(buffers: Sequence[Buffer]) -> int | None:
    """Height in bytes that the buffers fill without gaps at every moment.

    Returns:
        None if the height varies, if a stack might be misaligned, if a buffer is fixed, or if too
        many are live at once for `Tiling`.
    """
    if any(b.offset is not None for b in buffers):
        return None
    if gcd(*(b.size for b in buffers)) % lcm(*(b.alignment for b in buffers)):
        return None
    first, last, count = find_sections(buffers)
    size, live = [0] * (count + 1), [0] * (count + 1)
    for b, begin, end in zip(buffers, first, last, strict=True):
        size[begin] += b.size
        size[end] -= b.size
        live[begin] += 1
        live[end] -= 1
    if any(size[1:-1]) or max(accumulate(live)) > _LARGEST_SECTION:
        return None
    return size[0]


class Tiling:
    """Search for one placement without gaps.

    Args:
        buffers: buffers that `filled_bytes` accepts.

    Attributes:
        offsets: bytes by buffer id, once found.
    """

    def __init__(self, buffers: Sequence[Buffer]) -> None:
        first, last, count = find_sections(buffers)
        sizes = [b.size for b in buffers]
        spans = list(zip(first, last, strict=True))
        mirrored = [(count - end, count - begin) for begin, end in spans]
        self.offsets: dict[str, int] = {}
        self._ids = [b.id for b in buffers]
        self._sweeps = _Sweep(spans, sizes), _Sweep(mirrored, sizes)

    @property
    def states(self) -> int:
        """Work done so far, in states of `Search`."""
        return sum(sweep.states for sweep in self._sweeps)

    def run(self, state_limit: int, deadline: Deadline) -> SearchEnd:
        """Search with increasing doubt.

        Args:
            state_limit: work limit, in states of `Search`.
            deadline: time limit.

        Returns:
            FOUND with the answer in `offsets`, EXHAUSTED if there is none, or LIMIT.
        """
        most = 0.0
        while True:
            for sweep in self._sweeps:
                outcome = sweep.run(most, state_limit - self.states, deadline)
                if outcome is SearchEnd.FOUND:
                    self.offsets = dict(zip(self._ids, sweep.offsets, strict=True))
                if outcome is not SearchEnd.LIMIT or not sweep.doubts:
                    return outcome
            most += _DOUBT_STEP


class _Sweep:
    """Search in one direction of time.

    Attributes:
        offsets: of each buffer, in bytes, once found.
        states: work done so far, in states of `Search`.
        doubts: True if the limit on doubt ended the last run, so that another may go further.
    """

    def __init__(self, spans: Sequence[tuple[int, int]], sizes: Sequence[int]) -> None:
        self.offsets: list[int] = []
        self.states = 0
        self.doubts = False
        self._sizes = sizes
        self._count = max(last for _, last in spans)
        self._begins = [0] * self._count
        self._ends = [0] * (self._count + 1)
        for i, (first, last) in enumerate(spans):
            self._begins[first] |= 1 << i
            self._ends[last] |= 1 << i
        self._found: dict[tuple[int, int], Blocks] = {}
        self._complete = True

    def run(self, most: float, state_limit: int, deadline: Deadline) -> SearchEnd:
        """Search depth first, with at most `most` bits of doubt on the way."""
        limit = self.states + state_limit
        self.doubts = False
        nothing = Block(0.0, 0, 0)
        orders = leaves(self._begins[0])
        start = _State(None, nothing, orders, 0, 0, 0, Blocks((), True, 0), 0, 0.0)
        path = [(start, self._following(start, most))]
        while path:
            state, following = path[-1]
            if not state.ending and state.section == self._count - 1:
                self.offsets = self._addresses(state)
                return SearchEnd.FOUND
            if self.states > limit or deadline.has_passed():
                self.doubts = False
                return SearchEnd.LIMIT
            after = next(following, None)
            if after is None:
                path.pop()
            else:
                path.append((after, self._following(after, most)))
        return SearchEnd.LIMIT if self.doubts or not self._complete else SearchEnd.EXHAUSTED

    def _following(self, state: _State, most: float) -> Iterator[_State]:
        """States with one more block."""
        section, blocks, at = state.section, state.blocks, state.next_block
        ending, beginning = state.ending, state.beginning
        if not ending:
            section += 1
            ending, beginning = self._ends[section], self._begins[section]
        if not state.ending or not blocks.complete:
            blocks, at = self._find_blocks(ending, beginning), 0
        row = blocks.row
        credible = max(at, bisect_left(row, 0.0, key=lambda block: block.doubt))
        # All remaining buffers may form one block; it comes after the blocks with less doubt.
        rest = len(row)
        doubt = state.doubt
        for i in chain(range(at, credible), (rest,), range(credible, rest)):
            block = row[i] if i < rest else Block(0.0, ending, beginning)
            if doubt + max(block.doubt, 0.0) > most:
                self.doubts = True
                return
            left = ending & ~block.ends
            if block.ends & ~ending or block.begins & ~beginning or (not left and i < rest):
                continue
            self.states += _STATES_PER_TREE
            tree = replace(state.tree, block.ends, leaves(block.begins))
            if tree is None:
                continue
            yield _State(
                state, block, tree, section, left, beginning & ~block.begins, blocks, i + 1,
                doubt + max(block.doubt, 0.0),
            )  # fmt: skip
            doubt += max(-block.doubt, 0.0)
            if doubt > most:
                self.doubts = True
                return

    def _find_blocks(self, ending: int, beginning: int) -> Blocks:
        """Possible blocks of the remaining buffers of a moment."""
        if (ending, beginning) not in self._found:
            blocks = find_blocks(ending, beginning, self._sizes)
            self.states += blocks.work // _SETS_PER_STATE
            self._complete &= blocks.complete
            self._found[ending, beginning] = blocks
        return self._found[ending, beginning]

    def _addresses(self, state: _State) -> list[int]:
        """Addresses of the buffers, from the last state."""
        offsets, place = [0] * len(self._sizes), [0] * len(self._sizes)
        order = arrange(state.tree, place)
        while True:
            offset = 0
            for at, i in enumerate(order):
                offsets[i], place[i] = offset, at
                offset += self._sizes[i]
            if state.before is None:
                return offsets
            # The replaced buffers take the place of the block.
            at = min(place[i] for i in indices(state.block.begins))
            for i in indices(state.block.ends):
                place[i] = at
            state = state.before
            order = arrange(state.tree, place)
