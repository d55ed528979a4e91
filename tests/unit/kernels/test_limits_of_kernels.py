# SPDX-License-Identifier: Apache-2.0
"""No table of tiles has more runs, or gives the sink more results at a time, than tiles.c takes."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from emulator.drawn_convolutions import drawn
from emulator.drawn_products import drawn_products
from poetfw.kernels import ConvolutionPass, Pass, tiling
from poetfw.kernels.entries import MOST_RUNS, Estimate
from poetfw.kernels.tables import MOST_PUT
from poetfw.kernels.tilings import counted

TILES = Path(__file__).parents[3] / "firmware_templates/kernels/tiles.c"


def test_results_that_a_sink_takes_fit_in_its_buffer() -> None:
    assert re.findall(r"\bSUMS = (\d+)", TILES.read_text()) == [str(MOST_PUT)]
    tasks = [
        *(ConvolutionPass(of, Pass.BACKWARD_WEIGHT, applied=True) for of in drawn(20, 5)),
        *(of for of in drawn_products(60, 5) if of.applied),
    ]
    puts = [
        entry.put.rows * entry.put.elements
        for task in tasks
        if (one := tiling(task)) is not None
        for entry in one.entries
        if entry.put is not None
    ]
    assert len(puts) > len(tasks)
    assert MOST_PUT // 2 < max(puts) <= MOST_PUT


def test_an_entry_has_at_most_as_many_runs_as_its_field_counts() -> None:
    one = tiling(ConvolutionPass(next(iter(drawn(1, 5))), Pass.FORWARD))
    assert one is not None
    entry = one.entries[0]
    many = [replace(entry, runs=(*entry.runs[:1],) * (MOST_RUNS + more)) for more in (1, 0)]
    found = counted([Estimate(0.0, 0.0, (each,)) for each in many], 2)
    assert [len(each.entries[0].runs) for each in found] == [MOST_RUNS]
