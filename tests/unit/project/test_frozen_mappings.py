# SPDX-License-Identifier: Apache-2.0
"""Mappings in values between stages: whoever was given one cannot change it, nor who gave it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from poetfw.boards import load_board
from poetfw.costs import CostTable
from poetfw.costs.measurement import Case
from poetfw.costs.table import OpCost, Source
from poetfw.ir import Op
from poetfw.models import build_model

MADE: dict[str, tuple[Callable[[dict[str, Any]], Mapping[str, Any]], Any]] = {
    "an op": (lambda given: Op("a", "relu", (), "b", given).attributes, 1),
    "a case": (lambda given: Case("relu", attributes=given).attributes, 1),
    "a table of costs": (
        lambda given: CostTable("board", given).ops,
        OpCost(1.0, 1.0, Source.ANALYTIC),
    ),
    "a board": (lambda given: replace(load_board("linux"), sources=given).sources, "text"),
}


@pytest.mark.parametrize("name", MADE)
def test_nobody_changes_them(name: str) -> None:
    make, value = MADE[name]
    given = {"a": value}
    kept = make(given)
    given["b"] = value
    assert dict(kept) == {"a": value}
    with pytest.raises(TypeError, match="does not support item assignment"):
        kept["b"] = value  # type: ignore[index]


def test_nobody_changes_weights() -> None:
    model = build_model("mlp", 1)
    given = {name: np.asarray(model.weights[name]) for name in model.weights}
    kept = replace(model, weights=given).weights
    given.clear()
    assert list(kept) == list(model.weights)
    with pytest.raises(TypeError, match="does not support item assignment"):
        kept["b"] = np.zeros(1)  # type: ignore[index]
