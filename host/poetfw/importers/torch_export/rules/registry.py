# SPDX-License-Identifier: Apache-2.0
"""The rule of each ATen operator, by its name, and what is known of operators beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pydantic import validate_call

from poetfw.importers.torch_export.calls import (
    CHECKED,
    Result,
)
from poetfw.importers.torch_export.constants import SIZED
from poetfw.importers.torch_export.file import Weight

Rule = Callable[..., Result | Weight | tuple[Result, ...]]
Ints = tuple[int, ...]
Number = int | float

RULES: dict[str, Rule] = {}
"""Every ATen operator that is understood, by its name and overload."""
VIEWS: set[str] = set()
"""Those whose result may lie in the bytes of their first argument."""
STRETCHING = ("expand.default", "repeat.default")
"""Those that may give the batch's axis to what has none."""
RESHAPING = (
    *("view.default", "reshape.default", "flatten.using_ints", "unflatten.int"),
    *STRETCHING,
    *SIZED,
)
"""Those whose result has the shape that `Call.results` says."""

_Rule = TypeVar("_Rule", bound=Rule)


def aten(*targets: str, view: bool = False) -> Callable[[_Rule], _Rule]:
    """Makes a function the rule of operators.

    Raises:
        ValueError: one of them has a rule.
    """

    def register(rule: _Rule) -> _Rule:
        checked = validate_call(config=CHECKED)(rule)
        for target in targets:
            if target in RULES:
                raise ValueError(f"{target} has a rule already")
            RULES[target] = checked
            if view:
                VIEWS.add(target)
        return rule

    return register
