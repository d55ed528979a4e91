# SPDX-License-Identifier: Apache-2.0
"""Translation rules, one per ONNX operator, into poetfw's operators.

A rule returns the tensor of the node's first output, or None if it binds outputs itself. It raises
`UnsupportedError` with the reason if it cannot translate a node.
"""

from poetfw.importers.onnx.rules import arithmetic, layers, pointwise, pooling, recurrence, shapes  # noqa: F401
from poetfw.importers.onnx.rules.layers import bias_addition
from poetfw.importers.onnx.rules.registry import RULES

__all__ = ["RULES", "bias_addition"]
