# SPDX-License-Identifier: Apache-2.0
"""Registry of rules by ATen operator, and properties of operators."""

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
"""Rules of all supported ATen operators, by name and overload."""
VIEWS: set[str] = set()
"""Operators whose result may share storage with their first argument."""
STRETCHING = ("expand.default", "repeat.default")
"""Operators that may add the batch axis to a tensor without one."""
RESHAPING = (
    *("view.default", "reshape.default", "flatten.using_ints", "unflatten.int"),
    *STRETCHING,
    *SIZED,
)
"""Operators whose result has the shape in `Call.results`."""

_Rule = TypeVar("_Rule", bound=Rule)


def aten(*targets: str, view: bool = False) -> Callable[[_Rule], _Rule]:
    """Decorator that registers a function as the rule of operators.

    Raises:
        ValueError: An operator already has a rule.
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
