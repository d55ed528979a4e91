# SPDX-License-Identifier: Apache-2.0
"""Values made up for tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from poetfw.schedule import ScheduleSummary, Status

_ANSWER = ScheduleSummary(
    scheduler="dtr",
    status=Status.OPTIMAL,
    energy_j=1.0,
    compute_energy_j=1.0,
    paging_energy_j=0.0,
    time_s=1.0,
    peak_bytes=0,
    recomputes=0,
    page_ins=0,
    page_outs=0,
    overhead=0.0,
    bound_j=None,
    bound_covers=None,
    gap=None,
    overhead_gap=None,
)


def answer(**figures: Any) -> ScheduleSummary:
    """A scheduler's answer with these figures."""
    return replace(_ANSWER, **figures)
