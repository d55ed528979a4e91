# SPDX-License-Identifier: Apache-2.0
"""Whom a statement waits for."""

from __future__ import annotations

import itertools

import networkx as nx
from hypothesis import given
from hypothesis import strategies as st

from poetfw.firmware.turns import ArenaRange, Turn, Turns

SPANS = st.lists(
    st.builds(lambda a, n: ArenaRange(a, a + n), st.integers(0, 12), st.integers(1, 3)), max_size=2
)
STATEMENTS = st.lists(st.tuples(st.integers(0, 2), SPANS, SPANS), max_size=12)


def conflicts(
    a: tuple[int, list[ArenaRange], list[ArenaRange]],
    b: tuple[int, list[ArenaRange], list[ArenaRange]],
) -> bool:
    """Byte by byte: whether one writes what the other touches."""

    def touched(spans: list[ArenaRange]) -> set[int]:
        return {byte for span in spans for byte in range(span.begin, span.end)}

    return bool(touched(a[2]) & touched([*b[1], *b[2]]) or touched(b[2]) & touched([*a[1], *a[2]]))


@given(STATEMENTS)
def test_waits_order_all_that_must_be_and_none_follows_from_the_rest(
    statements: list[tuple[int, list[ArenaRange], list[ArenaRange]]],
) -> None:
    turns = Turns(parallel=True)
    order: nx.DiGraph[int] = nx.DiGraph()
    last: dict[int, int] = {}
    waits: list[tuple[int, int]] = []
    for number, (worker, reads, writes) in enumerate(statements, 1):
        order.add_node(number)
        if worker in last:
            order.add_edge(last[worker], number)
        last[worker] = number
        for turn in turns.take(Turn(worker, number), reads, writes):
            assert statements[turn.number - 1][0] == turn.worker != worker
            assert conflicts(statements[turn.number - 1], (worker, reads, writes))
            waits.append((turn.number, number))
    order.add_edges_from(waits)
    for (i, a), (j, b) in itertools.combinations(enumerate(statements, 1), 2):
        if conflicts(a, b):
            assert nx.has_path(order, i, j)
    for wait in waits:
        order.remove_edge(*wait)
        assert not nx.has_path(order, *wait)
        order.add_edge(*wait)


def test_in_turn_each_waits_for_the_one_before() -> None:
    turns = Turns(parallel=False)
    workers = [0, 0, 1, 2, 1, 1, 0]
    found = [turns.take(Turn(worker, n), (), ()) for n, worker in enumerate(workers, 1)]
    assert found == [(), (), (Turn(0, 2),), (Turn(1, 3),), (Turn(2, 4),), (), (Turn(1, 6),)]
