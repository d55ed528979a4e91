# SPDX-License-Identifier: Apache-2.0
"""Searches whose schedules do not fit once they are placed are repeated with less RAM."""

from __future__ import annotations

import pytest

from poetfw.common.limits import Work
from poetfw.planning.inference import PLACEMENT_ATTEMPTS, search_placeable, tightened
from poetfw.schedule import ScheduleProblem


@pytest.mark.parametrize(
    ("gap_bytes", "searched", "fits"),
    [
        (0, [1000], True),
        (30, [1000, 970], True),
        (None, [1000 - tried for tried in range(PLACEMENT_ATTEMPTS)], False),
    ],
)
def test_the_next_search_has_less_ram_by_the_excess(
    gap_bytes: int | None, searched: list[int], fits: bool
) -> None:
    seen: list[int] = []

    def attempt(problem: ScheduleProblem, part: Work) -> tuple[int, ScheduleProblem | None]:
        """Use all RAM, and the gaps on top; None for gaps that exceed any RAM by a byte."""
        seen.append(problem.ram_bytes)
        excess = 1 if gap_bytes is None else problem.ram_bytes + gap_bytes - 1000
        return problem.ram_bytes, tightened(problem, excess)

    problem = ScheduleProblem("gaps", 1000, None, None, ())
    assert search_placeable(problem, attempt, Work()) == (searched[-1], fits)
    assert seen == searched
