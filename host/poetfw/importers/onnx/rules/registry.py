# SPDX-License-Identifier: Apache-2.0
"""The rule of each ONNX operator, by its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from poetfw.importers.onnx.values import OnnxNode, Values
from poetfw.importers.refusal import UnsupportedError
from poetfw.ops import KINDS

Rule = Callable[[OnnxNode, Values], str | None]

_Rule = TypeVar("_Rule", bound=Rule)


def _as_it_stands(kind: str) -> Rule:
    """The rule of an operator that poetfw has with the same inputs, and without attributes."""

    def rule(node: OnnxNode, values: Values) -> str:
        for name in node.attributes:
            raise UnsupportedError(f"its attribute {name!r} is set; poetfw has it without")
        return values.builder.op(kind, node.name, [values.weight(name) for name in node.inputs])

    return rule


RULES: dict[str, Rule] = {
    kind.onnx: _as_it_stands(name) for name, kind in KINDS.items() if kind.onnx
}
"""Every ONNX operator that is understood, by its name."""


def onnx_rule(*operators: str) -> Callable[[_Rule], _Rule]:
    """Makes a function the rule of operators.

    Raises:
        ValueError: one of them has a rule.
    """

    def register(rule: _Rule) -> _Rule:
        for operator in operators:
            if operator in RULES:
                raise ValueError(f"{operator} has a rule already")
            RULES[operator] = rule
        return rule

    return register
