# SPDX-License-Identifier: Apache-2.0
"""Every fault of a card: nothing comes of it, or a status of its own, in bounded time."""

from __future__ import annotations

from pathlib import Path

import pytest
from storage_faults import DRIVERS, KINDS, outcomes

STATUSES = {
    "CRC error, read": "-26",
    "CRC error, written": "-26",
    "time-out": "-20",
    "busy for ever": "-27",
    "short": "-27",
    "write-protected": "-28",
    "card removed": "-16",
    "full": "-23",
}
WRITING = 18
"""A call that writes, so that each fault shows."""


@pytest.mark.parametrize(
    ("driver", "each", "first"),
    [
        ("polled", 100, WRITING),
        *(pytest.param(driver, 4, 2, marks=pytest.mark.slow) for driver in DRIVERS),
    ],
)
def test_a_fault_is_overcome_or_told(tmp_path: Path, driver: str, each: int, first: int) -> None:
    found = set(outcomes(driver, tmp_path, each, first))
    for kind in KINDS:
        assert {outcome for k, once, outcome in found if k == kind and once} == {"same"}
        for_ever = {outcome for k, once, outcome in found if k == kind and not once}
        assert for_ever <= {"same", STATUSES[kind]}
        assert STATUSES[kind] in for_ever
