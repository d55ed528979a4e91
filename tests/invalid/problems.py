# SPDX-License-Identifier: Apache-2.0
"""Schedule problems, answers to replay, and the results of sweeps."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from invalid.case import Case, Make, cases
from invalid.makers import both, text
from made import answer as made_answer
from poetfw.comparisons import sweep
from poetfw.comparisons.comparison import Trial
from poetfw.comparisons.sweep import Grid

SCHEDULE = "schedule --problem p.json --scheduler checkpoint-all"
REPLAY = "schedule --problem p.json --replay a.json"
SWEEP = (
    "sweep --boards linux --models mlp --fractions 0.9 --schedulers checkpoint-all "
    "--time-limit 1 --out s.jsonl"
)


def problem(**changes: Any) -> dict[str, Any]:
    node = {"name": "a", "inputs": [], "time_s": 1.0, "energy_j": 1.0, "output_bytes": 8} | changes
    document = {"schema_version": 1, "name": "p", "ram_bytes": 64, "storage": None}
    return document | {"nodes": [node, {**node, "name": "b", "inputs": ["a"]}]}


def written(**changes: Any) -> Make:
    """A problem whose nodes have other figures."""
    return text("p.json", json.dumps(problem(**changes)))


def in_place_of(number: str, name: str = "p.json", **changes: Any) -> Make:
    """A problem with a number that Python would not write."""
    return text(name, json.dumps(problem(**changes)).replace("8", number, 1))


def answer(*steps: tuple[str, str]) -> Make:
    """A problem, and an answer of these steps."""
    plan = [{"step": kind, "node": node} for kind, node in steps]
    return both(written(), text("a.json", json.dumps({"plan": plan})))


def results(change: Callable[[dict[str, Any]], Any]) -> Make:
    """The results of a sweep that is finished, after a change of its one line."""

    def make(folder: Path) -> None:
        grid = Grid(
            *(("linux",), ("mlp",), (None,), (0.9,), ("checkpoint-all",)),
            *(1, "device", "HIGHS", 10.0, 1.0, (None,)),
        )
        (point,) = grid.points()
        cell = Trial(
            *("linux", "mlp", 1, "device", None, None, 0.9, 1000, "checkpoint-all", "feasible"),
            answer=made_answer(scheduler="checkpoint-all", peak_bytes=900),
        )
        line = {"point": asdict(point), "cells": [asdict(cell)]}
        change(line["cells"][0]["answer"])
        lines = ({"schema_version": sweep.SCHEMA_VERSION, "sweep": asdict(grid)}, line)
        (folder / "s.jsonl").write_text("".join(f"{json.dumps(entry)}\n" for entry in lines))

    return make


CASES = (
    *cases(
        SCHEDULE,
        ("problem with 1e999", in_place_of("1e999"), "is beyond every float"),
        ("problem with NaN", in_place_of("NaN"), "NaN is not a number of JSON"),
        (
            "problem nested beyond measure",
            text("p.json", "[" * 100_000),
            "p.json is not JSON: it is nested too deeply",
        ),
        ("energy of 1e308", written(energy_j=1e308), "'a' has energy_j 1e+308"),
        ("time of 1e308", written(time_s=1e308), "'a' has time_s 1e+308"),
        ("output of 2^60 bytes", written(output_bytes=2**60), "'a' has output_bytes"),
        (
            "a million nodes that are none",
            text("p.json", json.dumps(problem() | {"nodes": [1] * 1_000_000})),
            "at nodes.0: an object was expected",
        ),
    ),
    *cases(
        REPLAY,
        (
            "plan that frees nothing by name",
            answer(("compute", "a"), ("free", ""), ("compute", "b")),
            "step 1 (free of '')",
            "no such node",
        ),
        ("plan of unknown steps", answer(("burn", "a")), "a.json: at plan.0.step"),
        (
            "answer with an integer of 5,000 digits",
            both(written(), text("a.json", f'{{"plan": [], "gap": {"9" * 5000}}}')),
            "a.json is not JSON",
        ),
    ),
    *(
        Case(
            f"problem with an integer of {digits} digits",
            SCHEDULE,
            1,
            ("p.json is not JSON: the integer 99999999999999999999… does not fit 64 bits",),
            in_place_of("9" * digits),
        )
        for digits in (400, 5000)
    ),
    Case("problem without end", SCHEDULE.replace("p.json", "/dev/zero"), 1, ("not a regular",)),
    *(
        Case(
            f"sweep with a peak of {value!r}",
            SWEEP,
            1,
            ("s.jsonl, line 2: this is not a result of a sweep",),
            results(lambda cell, value=value: cell.update(peak_bytes=value)),
        )
        for value in (None, "nan", 10**400)
    ),
)
