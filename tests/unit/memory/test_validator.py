# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import random
import re

import pytest

from poetfw.common.errors import PlanError
from poetfw.memory import Buffer, Placement, PlacementStatus
from poetfw.memory.validator import validate_by_sweep, validate_placement

VALIDATORS = [validate_placement, validate_by_sweep]
A = Buffer("a", 0, 4, 10)
B = Buffer("b", 3, 6, 8)


def placed(height: int, **offsets: int) -> Placement:
    return Placement(PlacementStatus.FEASIBLE, offsets, height, 0)


@pytest.mark.parametrize("validate", VALIDATORS)
def test_accepts(validate):
    validate([A, B], placed(18, a=0, b=10), capacity=18)
    validate([A, Buffer("b", 4, 6, 8)], placed(10, a=0, b=0))
    validate([A, Buffer("b", 0, 4, 0)], placed(10, a=0, b=5))
    validate([], placed(0))


@pytest.mark.parametrize("validate", VALIDATORS)
@pytest.mark.parametrize(
    ("buffers", "placement", "capacity", "message"),
    [
        ([A, B], placed(10, a=0), None, "buffer 'b' has no offset"),
        ([A], placed(9, a=-1), None, "buffer 'a' is placed at the negative offset -1"),
        (
            [Buffer("a", 0, 4, 10, 8)],
            placed(14, a=4),
            None,
            "buffer 'a' is placed at 4, not a multiple of its alignment 8",
        ),
        (
            [Buffer("a", 0, 4, 10, offset=6)],
            placed(10, a=0),
            None,
            "buffer 'a' is placed at 0, but its offset is fixed at 6",
        ),
        (
            [A, B],
            placed(17, a=0, b=9),
            None,
            "buffers 'a' (time [0, 4), bytes [0, 10)) and 'b' (time [3, 6), bytes [9, 17)) "
            "overlap in time and address",
        ),
        (
            [A],
            placed(11, a=0),
            None,
            "the placement says its height is 11 bytes, but the highest buffer ends at 10",
        ),
        (
            [A],
            placed(10, a=0),
            9,
            "the placement is 10 bytes high, more than the capacity 9",
        ),
        ([A], placed(10, a=0, c=0), None, "the placement has an offset for the unknown buffer 'c'"),
        ([A], placed(2**62 + 10, a=2**62), None, "buffer 'a' has a time or an end beyond 2^62"),
        (
            [Buffer("a", 0, 2**62 + 1, 10)],
            placed(10, a=0),
            None,
            "buffer 'a' has a time or an end beyond 2^62",
        ),
        (
            [Buffer("a", -(2**62) - 1, 0, 10)],
            placed(10, a=0),
            None,
            "buffer 'a' has a time or an end beyond 2^62",
        ),
    ],
)
def test_refuses(validate, buffers, placement, capacity, message):
    with pytest.raises(PlanError, match=f"^{re.escape(message)}$"):
        validate(buffers, placement, capacity)


@pytest.mark.parametrize("validate", VALIDATORS)
def test_accepts_the_limits(validate):
    last = Buffer("b", 2**62 - 1, 2**62, 8)
    validate([Buffer("a", -(2**62), 2**62, 10), last], placed(2**62, a=0, b=2**62 - 8))
    with pytest.raises(PlanError, match="overlap in time"):
        validate([Buffer("a", -(2**62), 2**62, 10), last], placed(17, a=0, b=9))


def test_both_validators_agree_on_random_placements():
    rng = random.Random(7)
    verdicts = []
    for _ in range(1500):
        buffers = []
        for i in range(rng.randint(2, 7)):
            lower = rng.randint(0, 9)
            buffers.append(Buffer(str(i), lower, lower + rng.randint(1, 5), rng.randint(0, 6)))
        offsets = {b.id: rng.randint(0, 30) for b in buffers}
        height = max(offsets[b.id] + b.size for b in buffers)
        verdict = []
        for validate in VALIDATORS:
            try:
                validate(buffers, placed(height, **offsets))
                verdict.append(True)
            except PlanError:
                verdict.append(False)
        assert verdict[0] == verdict[1], (buffers, offsets)
        verdicts.append(verdict[0])
    assert 200 < sum(verdicts) < 1300


@pytest.mark.parametrize("validate", [validate_placement, validate_by_sweep])
def test_a_height_below_the_bound_is_refused(validate):
    placement = Placement(PlacementStatus.OPTIMAL, {"a": 0}, 8, 9)
    with pytest.raises(PlanError, match="8 bytes high, less than its lower bound 9"):
        validate([Buffer("a", 0, 1, 8)], placement)
