from __future__ import annotations

import pytest

from poetfw.limits import Deadline
from poetfw.memory import Buffer, PlacementStatus, place, validate_placement
from poetfw.memory.search import Look, Outcome, Search

IN_PADDINGS = [
    (  # A fixed byte at 5 lies in the padding below what is aligned to 16.
        54,
        [
            Buffer("b0", 3, 4, 1, 1, 5),
            Buffer("b1", 3, 4, 8, 16),
            Buffer("b2", 2, 4, 3, 1),
            Buffer("b3", 2, 4, 9, 16),
            Buffer("b4", 3, 6, 6, 16),
            Buffer("b5", 3, 6, 1, 16),
        ],
    ),
    (
        20,
        [
            Buffer("b0", 0, 4, 1, 4, 0),
            Buffer("b1", 1, 7, 3, 6, 6),
            Buffer("b2", 4, 8, 4, 6),
            Buffer("b3", 0, 3, 4, 10),
            Buffer("b4", 0, 5, 4, 4),
            Buffer("b5", 4, 10, 4, 10),
        ],
    ),
    (
        33,
        [
            Buffer("b0", 3, 6, 1, 1, 5),
            Buffer("b1", 2, 4, 2, 1, 1),
            Buffer("b2", 2, 3, 1, 8),
            Buffer("b3", 3, 6, 6, 8),
            Buffer("b4", 2, 5, 5, 8),
            Buffer("b5", 3, 6, 7, 1),
            Buffer("b6", 3, 5, 2, 8),
        ],
    ),
]


@pytest.mark.parametrize("look", Look)
@pytest.mark.parametrize(("lowest", "buffers"), IN_PADDINGS)
def test_fixed_buffers_in_paddings_are_no_waste(lowest, buffers, look):
    def outcome(capacity):
        search = Search(buffers, capacity)
        return search.run([0.0] * len(search.buffers), look, 10**6, Deadline())

    for capacity in range(lowest, lowest + 4):
        assert outcome(capacity) is Outcome.FOUND
    assert outcome(lowest - 1) is Outcome.EXHAUSTED


@pytest.mark.parametrize(("lowest", "buffers"), IN_PADDINGS)
def test_fixed_buffers_in_paddings_leave_the_optimum(lowest, buffers):
    for capacity in [None, lowest]:
        placement = place(buffers, capacity=capacity)
        validate_placement(buffers, placement, capacity)
        assert placement.height_bytes == lowest >= placement.lower_bound_bytes
    assert place(buffers, capacity=lowest - 1).status is PlacementStatus.INFEASIBLE
