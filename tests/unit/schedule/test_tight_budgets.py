# SPDX-License-Identifier: Apache-2.0
"""The benchmark's rows of networks in little RAM say what was missed."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from poetfw.boards import load_board
from poetfw.common.errors import InfeasibleError
from poetfw.common.limits import WORK_LIMIT
from poetfw.schedule import checkpoint_all_schedule
from workloads import tight
from workloads.tight import TIGHT, Tight, run_tight
from workloads.tight_networks import TIGHT_NETWORKS


def test_five_networks_have_six_budgets_and_a_long_one_has_three() -> None:
    counts = Counter(case.model for case in TIGHT if case.work == WORK_LIMIT)
    assert counts.pop("lstm-256") == 3
    assert counts == dict.fromkeys(("lstm", "gru", "rnn", "transformer-tiny", "u-net"), 6)
    assert len({case.name for case in TIGHT}) == len(TIGHT)


def test_networks_that_are_not_built_in_have_a_training_step() -> None:
    board = load_board("nrf52840")
    recurrent, image = (TIGHT_NETWORKS[name](board, 2) for name in ("rnn", "u-net"))
    for problem in (recurrent, image):
        assert any(node.backward for node in problem.nodes)
        assert checkpoint_all_schedule(problem).energy_j > 0
    names = {node.name for node in recurrent.nodes}
    assert {f"rnn.{step}.h" for step in range(16)} <= names
    inputs = {node.name: node.inputs for node in image.nodes}
    # The last level going up reads the first one going down: what a U-Net keeps the longest.
    assert set(inputs["join8"]) == {"down8.b.relu", "up8.larger"}


def test_a_row_compares_the_search_with_the_best_method(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Tight("mlp", 8, fraction=0.9, most=2.1)
    row = run_tight(case)
    assert (row["misses"], row["work"]) == ([], WORK_LIMIT)
    assert 1 <= row["times"] <= row["method_times"]
    assert row["method"] is not None
    json.dumps(row, allow_nan=False)
    little = run_tight(Tight("mlp", 8, fraction=0.9, most=1.0, work=1.0), compared=())
    assert (little["name"], little["work"]) == ("mlp/8/0.9/work-1", 1.0)
    assert little["misses"] == ["energy"]
    monkeypatch.setattr(tight, "read_known", lambda: {case.name: row["times"] / 1.2})
    assert run_tight(case, 1.0, ())["misses"] == ["long run"]
    solve = tight.solve

    def nothing(problem: object, scheduler: str, **more: object) -> object:
        if scheduler == "poet":
            raise InfeasibleError("nothing fits")
        return solve(problem, scheduler, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(tight, "solve", nothing)
    row = run_tight(case)
    assert (row["times"], row["misses"]) == (None, ["energy", "method", "long run", "plan"])


def test_a_long_search_is_recorded_where_it_is_better(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    known = tmp_path / "known.json"
    known.write_text('{"command": "…", "rows": {}}')
    monkeypatch.setattr(tight, "KNOWN_FILE", known)
    first, second = TIGHT[0].name, TIGHT[1].name
    tight.write_known({second: (1.2, 600.0)})
    tight.write_known({first: (1.1, 600.0), second: (1.3, 600.0)})
    assert tight.read_known() == {first: 1.1, second: 1.2}
    tight.write_known({second: (1.15, 600.0)})
    assert tight.read_known() == {first: 1.1, second: 1.15}
