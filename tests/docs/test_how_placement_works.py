# SPDX-License-Identifier: Apache-2.0
"""The worked example of docs/how-placement-works.md, number by number."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from docs.pages import fenced, read, table
from poetfw.memory import Buffer, PlacementStatus, lower_bound, place
from poetfw.memory.csv_file import read_buffers
from poetfw.memory.heuristics import Greedy
from poetfw.memory.restarts import restarts
from poetfw.memory.search import _WASTE, Search, SearchEnd
from poetfw.memory.sections import find_sections

NAME = "docs/how-placement-works.md"
PAGE = read(NAME)
KIB = 1024


@pytest.fixture
def buffers(tmp_path: Path) -> list[Buffer]:
    file = tmp_path / "buffers.csv"
    file.write_text(fenced(NAME, "csv"))
    return read_buffers(file)


def test_the_lower_bound_is_what_is_live_at_step_4(buffers: list[Buffer]) -> None:
    live = [b for b in buffers if b.lower <= 4 < b.upper]
    assert "".join(b.id for b in live) == "cde"
    sizes = " + ".join(str(b.size // KIB) for b in live)
    assert f"{sizes} = {lower_bound(buffers) // KIB} KiB" in PAGE
    assert f"{lower_bound(buffers):,} bytes" in PAGE


def test_every_greedy_order_ends_where_the_page_says(buffers: list[Buffer]) -> None:
    greedy = Greedy(buffers)
    rows = []
    for number, order in enumerate(greedy.orders()):
        offsets = greedy.run(order, lambda height: False)
        assert offsets is not None
        height = max(o + b.size for o, b in zip(offsets, buffers, strict=True))
        rows.append([" ".join(buffers[i].id for i in order), f"{height:,}"])
        if not number:
            placed = {b.id: o for o, b in zip(offsets, buffers, strict=True)}
            assert _drawing(buffers, placed) in PAGE
    assert [[order, height] for order, _, height in table(PAGE, "order", "by", "height")] == rows


def test_the_sections_and_their_slack(buffers: list[Buffer]) -> None:
    first, last, count = find_sections(buffers)
    sections = [
        [b for b, f, e in zip(buffers, first, last, strict=True) if f <= s < e]
        for s in range(count)
    ]
    *names, final = ["{" + ", ".join(b.id for b in section) + "}" for section in sections]
    full = [sum(b.size for b in section) // KIB for section in sections]
    bound = lower_bound(buffers) // KIB
    text = " ".join(PAGE.split())
    assert f"{', '.join(names)} and {final}, with {_listed(full)} KiB" in text
    assert f"its *slack*: {_listed([bound - f for f in full])} KiB" in text


def test_the_search_takes_the_steps_of_the_page(buffers: list[Buffer]) -> None:
    search = Search(buffers, lower_bound(buffers))
    first, last, _ = find_sections(buffers)
    branch, steps = search._branch, []

    def traced(part, left, settled, rank, look):  # type: ignore[no-untyped-def]
        found = branch(part, left, settled, rank, look)
        cases = ["nothing" if i == _WASTE else search.buffers[i].id for i in reversed(found.cases)]
        live = [
            b.id for b, f, e in zip(buffers, first, last, strict=True) if f <= found.section < e
        ]
        floors = ", ".join(str(f // KIB) for f in settled.floors[part.lo : part.hi])
        steps.append([str(len(steps) + 1), floors, ", ".join(live), ", ".join(cases), cases[0]])
        return found

    search._branch = traced  # type: ignore[method-assign]
    rank, look, limit = next(restarts(search, Random(0)))
    assert search.run(rank, look, limit, float("inf")) is SearchEnd.FOUND
    assert table(PAGE, "state", "floors, KiB", "section", "may lie there", "takes") == steps
    assert _drawing(buffers, search.offsets) in PAGE


def test_the_answer_is_optimal(buffers: list[Buffer]) -> None:
    placement = place(buffers)
    assert placement.status is PlacementStatus.OPTIMAL
    assert placement.height_bytes == lower_bound(buffers)
    assert _drawing(buffers, placement.offsets) in PAGE


def test_the_heights_and_gaps_of_the_text(buffers: list[Buffer]) -> None:
    text = " ".join(PAGE.split())
    greedy = Greedy(buffers)
    first = greedy.run(next(greedy.orders()), lambda height: False)
    assert first is not None
    a, _, c, d, _ = first
    height = max(o + b.size for o, b in zip(first, buffers, strict=True))
    assert f"All of them end at {height // KIB} KiB here" in text
    assert f"puts `a` at {a} and `c` on top of it, at {c // KIB} KiB" in text
    assert f"there are then {c // KIB} KiB below `c`" in text
    assert c < buffers[3].size <= d
    found = place(buffers).offsets
    under = c // KIB
    assert (
        f"`c` cannot lie at {under} KiB, since `d` reaches up to {buffers[3].size // KIB}" in text
    )
    assert f"so {(found['c'] - c) // KIB} KiB of slack goes" in text
    bound = lower_bound(buffers) // KIB
    assert f"a placement within {bound} KiB?" in text
    assert f"*proven* that {bound} KiB are too few" in text


def _listed(numbers: list[int]) -> str:
    *most, final = map(str, numbers)
    return f"{', '.join(most)} and {final}"


def _drawing(buffers: list[Buffer], offsets: dict[str, int]) -> str:
    """Time from left to right, addresses from bottom to top, a letter per step and KiB."""
    steps = range(max(b.upper for b in buffers))
    top = max(offsets[b.id] + b.size for b in buffers) // KIB
    lines = ["    KiB     step " + " ".join(map(str, steps))]
    for kib in reversed(range(top)):
        row = [
            next(
                (
                    b.id
                    for b in buffers
                    if b.lower <= step < b.upper
                    and offsets[b.id] <= kib * KIB < offsets[b.id] + b.size
                ),
                ".",
            )
            for step in steps
        ]
        lines.append(f"    {kib} to {kib + 1}       {' '.join(row)}")
    return "\n".join(lines) + "\n"
