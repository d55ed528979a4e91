# SPDX-License-Identifier: Apache-2.0
"""Tables on the console: nothing in them is cut, whatever the width."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest
from rich.console import Console

from poetfw.cli import output
from poetfw.cli.run import verification_rows
from poetfw.report import Verification

COLUMNS = ("operator", "shape", "cycles", "spread", "time", "n")
ROWS = (
    ("page_in_beside", "4,096 B", "30,094,812.3", "2,048.0", "30.0948 ms", "1,000"),
    ("conv2d_grad_weight of conv1", "32x8x8x8 8x8x3x3 32x8x8x8", "9.5", "-", "1.2 ms", "7"),
)
SPARE = ("n", "spread")


def printed(width: int, spare: tuple[str, ...] = SPARE) -> list[str]:
    text = io.StringIO()
    table = output.table("costs", COLUMNS, ROWS, spare, width)
    Console(file=text, width=width).print(table)
    return text.getvalue().splitlines()


def columns_of(lines: list[str]) -> list[str]:
    """What stands in each column of a printed table, without the places where it folds."""
    rows = [line[1:-1].split("│") for line in lines if line.startswith("│")]
    return ["".join("".join(column).split()) for column in zip(*rows, strict=True)]


@pytest.mark.parametrize("width", [40, 60, 80, 100, 1000])
@pytest.mark.parametrize("spare", [SPARE, ()])
def test_nothing_is_cut(width: int, spare: tuple[str, ...]) -> None:
    lines = printed(width, spare)
    assert all(len(line) <= width for line in lines)
    shown = columns_of(lines)
    whole = {
        name: "".join("".join(row[i] for row in ROWS).split()) for i, name in enumerate(COLUMNS)
    }
    assert all(text in whole.values() for text in shown)
    assert len(shown) >= len(COLUMNS) - len(spare)


def test_numbers_stay_in_one_piece_while_spare_columns_go() -> None:
    lines = printed(72)
    assert any("30,094,812.3" in line and "30.0948 ms" in line for line in lines)
    assert "no room for n: write to a pipe" in lines[-1] or "no room for spread, n" in lines[-1]
    assert not any("no room" in line for line in printed(200))


def test_a_pipe_has_the_full_width() -> None:
    program = (
        "from poetfw.cli import output\n"
        f"output.results.print(output.table('costs', {COLUMNS}, "
        f"[['x' * 200, *{ROWS[0][1:]}]], {SPARE}))"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert "x" * 200 + " │ 4,096 B │ 30,094,812.3 │ 2,048.0 │" in said.stdout.decode()


def test_hidden_rows_are_counted() -> None:
    rows = [("loss", "1"), output.Detail("peak", "2"), *output.details([("live", "3")])]
    table = output.facts("a run", rows, verbose=False)
    assert (table.row_count, table.caption) == (1, "2 more rows: --verbose")
    assert (output.facts("a run", rows).row_count, output.facts("a run", rows).caption) == (3, None)


@pytest.mark.parametrize(("steps", "shown"), [(None, None), ((), "none"), ((2, 5), "2, 5")])
def test_steps_that_differ_are_shown_where_they_were_looked_for(
    steps: tuple[int, ...] | None, shown: str | None
) -> None:
    figures = {"max_rel_error_loss": 0.0, "max_rel_error_gradients": None}
    found = Verification(
        ok=True, missed=(), **figures, max_rel_error_weights=0.0, bit_identical_to_unscheduled=True,
        bit_identical_to_traced=None, ops=None, examined_steps=steps,
    )  # fmt: skip
    rows = dict(map(tuple, verification_rows(found)))
    assert rows.get("steps that differ from the reference") == shown
    assert rows["… of gradients"] == "none stored"
    assert rows["verified"] == "yes"
