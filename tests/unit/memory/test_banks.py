# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from poetfw.common.errors import ProblemError
from poetfw.memory import Buffer, PlacementStatus, place, validate_placement
from poetfw.memory.banks import Bank, BankUse, bank_uses, check_banks, place_in_banks

FAST = Bank("fast", 0, 64)
SLOW = Bank("slow", 64, 1_000)


def used(buffers, banks, placement):
    return {use.bank.name: use.size_bytes for use in bank_uses(buffers, banks, placement.offsets)}


def test_preferences_are_met_where_they_cost_nothing():
    buffers = [
        Buffer("x", 0, 9, 8),
        Buffer("a", 1, 4, 64, 8, bank="slow"),
        Buffer("b", 2, 6, 64, 8, bank="fast"),
        Buffer("c", 3, 12, 64, 8, bank="slow"),
    ]
    free = place(buffers)
    placement = place_in_banks(buffers, [FAST, SLOW])
    validate_placement(buffers, placement)
    assert placement.status is PlacementStatus.OPTIMAL
    assert placement.height_bytes == free.height_bytes == 200
    assert used(buffers, [FAST, SLOW], placement) == {"fast": 64, "slow": 128}


def test_what_does_not_fit_is_left_out_the_largest_met():
    buffers = [Buffer(f"{i}", 0, 1, 10 + i, bank="fast") for i in range(10)]
    placement = place_in_banks(buffers, [FAST])
    assert placement.height_bytes == sum(range(10, 20))
    (use,) = bank_uses(buffers, [FAST], placement.offsets)
    assert use == BankUse(FAST, use.buffers, 10, use.size_bytes, 145)
    assert use.size_bytes >= 19 + 18 + 17
    assert use.size_bytes <= 64


def test_the_height_comes_first():
    buffers = [Buffer("a", 0, 1, 10, bank="slow")]
    placement = place_in_banks(buffers, [SLOW])
    assert (placement.offsets, placement.height_bytes) == ({"a": 0}, 10)
    within = place_in_banks(buffers, [SLOW], capacity=100)
    assert within.offsets["a"] >= 64
    assert within.status is PlacementStatus.FEASIBLE
    assert within.lower_bound_bytes == 10
    assert place_in_banks(buffers, [SLOW], capacity=9).status is PlacementStatus.INFEASIBLE


def test_fixed_buffers_stay_and_count():
    buffers = [Buffer("a", 0, 2, 8, offset=0, bank="slow"), Buffer("b", 1, 3, 8, bank="fast")]
    placement = place_in_banks(buffers, [FAST, SLOW])
    assert placement.offsets == {"a": 0, "b": 8}
    assert used(buffers, [FAST, SLOW], placement) == {"fast": 8, "slow": 0}


def test_a_place_from_the_top_is_tried_too():
    # At the lowest place of its bank, "late" would leave no room for "wide" below or above.
    bank = Bank("bank", 10, 60)
    buffers = [Buffer("wide", 0, 2, 50), Buffer("late", 1, 3, 10, bank="bank")]
    placement = place_in_banks(buffers, [bank])
    assert placement.offsets == {"wide": 0, "late": 50}


@pytest.mark.parametrize(
    ("banks", "message"),
    [
        ([Bank("", 0, 1)], "a bank has no name"),
        ([FAST, FAST], "the bank 'fast' occurs twice"),
        ([Bank("a", 4, 4)], r"'a' has the bytes \[4, 4\); expected 0 <= lower < upper <= 2\^40"),
        ([Bank("a", 0, 2**40 + 1)], "expected 0 <= lower < upper"),
    ],
)
def test_malformed_banks_are_refused(banks, message):
    with pytest.raises(ProblemError, match=message):
        check_banks(banks)


def test_an_unknown_bank_is_refused():
    with pytest.raises(ProblemError, match="buffer 'a' prefers the bank 'fast', which does not"):
        place_in_banks([Buffer("a", 0, 1, 1, bank="fast")], [SLOW])
