# SPDX-License-Identifier: Apache-2.0
"""Translation rules, one per ATen operator, into poetfw's operators.

A rule is a function of a call and the operator's arguments, with ATen's names and defaults: an
argument that is not a parameter of the rule, or has another type, is refused before the rule runs.
It returns the values of the outputs in order, or the only one.
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
    quantised,
    ranking,
    recurrence,
    rounded,
    scans,
    shapes,
    volumes,
)
from poetfw.importers.torch_export.rules.registry import (
    RESHAPING,
    RULES,
    STRETCHING,
    VIEWS,
    unknown,
)

__all__ = ["RESHAPING", "RULES", "STRETCHING", "VIEWS", "unknown"]
