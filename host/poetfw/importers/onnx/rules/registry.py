# SPDX-License-Identifier: Apache-2.0
"""Registry of rules by ONNX operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from poetfw.importers.onnx.nodes import OnnxNode
from poetfw.importers.onnx.values import Values
from poetfw.importers.refusal import UnsupportedError
from poetfw.ops import KINDS

Rule = Callable[[OnnxNode, Values], str | None]

_Rule = TypeVar("_Rule", bound=Rule)


def _as_it_stands(kind: str) -> Rule:
    """Create the rule of an operator that poetfw has with the same inputs and no attributes."""

    def rule(node: OnnxNode, values: Values) -> str:
        for name in node.attributes:
            raise UnsupportedError(f"its attribute {name!r} is set; poetfw has it without")
        return values.builder.op(kind, node.name, [values.weight(name) for name in node.inputs])

    return rule


RULES: dict[str, Rule] = {
    kind.onnx: _as_it_stands(name) for name, kind in KINDS.items() if kind.onnx
}
"""Rules of all supported ONNX operators, by operator name."""


def onnx_rule(*operators: str) -> Callable[[_Rule], _Rule]:
    """Decorator that registers a function as the rule of operators.

    Raises:
        ValueError: An operator already has a rule.
    """

    def register(rule: _Rule) -> _Rule:
        for operator in operators:
            if operator in RULES:
                raise ValueError(f"{operator} has a rule already")
            RULES[operator] = rule
        return rule

    return register
