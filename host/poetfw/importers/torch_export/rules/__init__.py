# SPDX-License-Identifier: Apache-2.0
"""One rule per ATen operator: how it is said in poetfw's own operators.

A rule is a function whose parameters behind the call are the operator's arguments, by ATen's names
and with ATen's defaults: an argument that a rule does not have, or of another type, is refused
before the rule runs. It returns what the outputs stand for, in their order, or the only one.
"""

from poetfw.importers.torch_export.rules import (  # noqa: F401
    arithmetic,
    choices,
    functions,
    layers,
    losses,
    noise,
    pointwise,
    pooling,
    recurrence,
    shapes,
    volumes,
)
from poetfw.importers.torch_export.rules.registry import RESHAPING, RULES, STRETCHING, VIEWS

__all__ = ["RESHAPING", "RULES", "STRETCHING", "VIEWS"]
