# SPDX-License-Identifier: Apache-2.0
"""The benchmark of schedules measures rows by name, continues a file, and names what is missed."""

from __future__ import annotations

import json
from pathlib import Path

from system.commands import benchmark


def test_rows_are_chosen_by_name_and_measured_once(tmp_path: Path) -> None:
    file = tmp_path / "new" / "rows.json"
    words = ("--only", "growth", "certified", "--rows", "gpt-10/0.3", "none", "--json", file)
    printed = benchmark("schedule", *words).stdout
    document = json.loads(file.read_text())
    assert document["costs"] == "analytic"
    assert list(document["growth"]) == ["gpt-10/0.3"]
    assert "certified" not in document
    row = document["growth"]["gpt-10/0.3"]
    assert (row["layers"], row["fraction"], row["misses"]) == (10, 0.3, [])
    assert f"{row['found']:.3%}" in printed
    assert "1 of 1 rows meet their targets." in printed

    row |= {"found": 0.25, "misses": ["overhead"]}  # would be another, were it measured again
    file.write_text(json.dumps(document))
    printed = benchmark("schedule", *words).stdout
    assert f"1 rows are from {file}: delete it to measure them again." in printed
    assert "25.000%" in printed
    assert "0 of 1 rows meet their targets." in printed
    assert "missed: growth: gpt-10/0.3 (overhead)" in printed
    assert json.loads(file.read_text()) == document
