# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import random

import pytest

from poetfw.common.limits import Deadline
from poetfw.memory import Buffer, PlacementStatus, lower_bound, place, validate_placement
from poetfw.memory.core import CoreSearch
from poetfw.memory.heuristics import Greedy
from poetfw.memory.ordering import lifetimes, order_ops
from poetfw.memory.search import SearchEnd
from workloads.networks import NETWORKS
from workloads.networks.sharing import with_sharing


def never() -> float:
    return Deadline()


def network_buffers(network: str, batch: int) -> list[Buffer]:
    """What is live in a training step of one of the benchmark's networks, in its best order."""
    step = NETWORKS[network](batch)
    shared = with_sharing(step, order_ops(step.problem).order)
    lives = lifetimes(shared, order_ops(shared).order)
    return [Buffer(b.tensor, b.lower, b.upper, shared.sizes[b.tensor]) for b in lives]


def greedy_tops(buffers: list[Buffer], order: list[int]) -> list[int]:
    offsets = Greedy(buffers).run(order, lambda height: False)
    assert offsets is not None
    return [offset + b.size for b, offset in zip(buffers, offsets, strict=True)]


@pytest.mark.parametrize("network", ["vit", "vit-l-16"])
def test_what_no_greedy_order_places_is_full_in_few_sections_only(network):
    buffers = network_buffers(network, 1)
    bound = lower_bound(buffers)
    orders = Greedy(buffers).orders()
    assert min(max(greedy_tops(buffers, order)) for order in orders) > 1.005 * bound
    placement = place(buffers)
    validate_placement(buffers, placement, capacity=bound)
    assert placement.status is PlacementStatus.OPTIMAL


def test_orders_hold_every_buffer_and_a_core_grows_where_they_fail():
    buffers = network_buffers("vit-l-16", 1)
    orders: list[list[int]] = []

    def place_in(order: list[int]) -> list[int]:
        orders.append(order)
        return greedy_tops(buffers, order)

    search = CoreSearch(buffers, lower_bound(buffers), random.Random(0))
    assert search.run(place_in, 100_000, never()) is SearchEnd.FOUND
    assert len(orders) > 1
    assert all(sorted(order) == list(range(len(buffers))) for order in orders)
    assert max(greedy_tops(buffers, orders[-1])) == lower_bound(buffers)


def test_where_a_core_does_not_fit_nothing_does():
    # Two buffers of odd size at even addresses waste a byte, which the bound does not know.
    buffers = [
        Buffer("before", 0, 1, 1),
        Buffer("even", 1, 3, 3, alignment=2),
        Buffer("any", 1, 4, 4),
        Buffer("even too", 2, 4, 1, alignment=2),
    ]
    assert lower_bound(buffers) == 8

    def search(capacity: int) -> SearchEnd:
        cores = CoreSearch(buffers, capacity, random.Random(0))
        return cores.run(lambda order: greedy_tops(buffers, order), 1_000, never())

    assert search(8) is SearchEnd.EXHAUSTED
    assert search(9) is SearchEnd.FOUND


def test_a_placement_given_up_ends_the_search():
    buffers = network_buffers("vit", 1)
    search = CoreSearch(buffers, lower_bound(buffers), random.Random(0))
    assert search.run(lambda order: None, 100_000, never()) is SearchEnd.LIMIT


def test_alignments_without_a_common_multiple_in_reach():
    # The least common multiple of the alignments is beyond 2^100.
    odd = [2**40 - 1, 2**40 - 3, 2**40 - 5]
    buffers = [Buffer(f"a{i}", i % 2, i % 2 + 2, 8 + i, odd[i % 3]) for i in range(6)]
    search = CoreSearch(buffers, lower_bound(buffers), random.Random(0))
    outcome = search.run(lambda order: greedy_tops(buffers, order), 1_000, never())
    # That padded buffers do not fit is no proof.
    assert outcome is SearchEnd.LIMIT
