# SPDX-License-Identifier: Apache-2.0
"""The benchmark's rows of networks in little RAM say what was missed."""

from __future__ import annotations

import json

import pytest

from poetfw.common.errors import InfeasibleError
from workloads import tight
from workloads.tight import TIGHT, Tight, run_tight


def test_there_are_six_budgets_of_each_network() -> None:
    models = [case.model for case in TIGHT]
    assert {model: models.count(model) for model in models} == {
        "lstm": 6,
        "gru": 6,
        "transformer-tiny": 6,
    }


def test_a_row_compares_the_search_with_the_best_method(monkeypatch: pytest.MonkeyPatch) -> None:
    row = run_tight(Tight("mlp", 8, fraction=0.9, most=2.1))
    assert row["misses"] == []
    assert 1 <= row["times"] <= row["method_times"]
    assert row["method"] is not None
    json.dumps(row, allow_nan=False)
    assert run_tight(Tight("mlp", 8, fraction=0.9, most=1.0))["misses"] == ["energy"]
    solve = tight.solve

    def nothing(problem: object, scheduler: str, **more: object) -> object:
        if scheduler == "poet":
            raise InfeasibleError("nothing fits")
        return solve(problem, scheduler, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(tight, "solve", nothing)
    row = run_tight(Tight("mlp", 8, fraction=0.9))
    assert (row["times"], row["misses"]) == (None, ["method", "plan"])
