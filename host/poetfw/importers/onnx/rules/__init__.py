# SPDX-License-Identifier: Apache-2.0
"""One rule per ONNX operator: how it is said in poetfw's own operators.

A rule returns the name of the tensor that the node's first output stands for, or None where it
binds its outputs itself. What it cannot say, it refuses with the reason.
"""

from poetfw.importers.onnx.rules import arithmetic, layers, pointwise, pooling, recurrence, shapes  # noqa: F401
from poetfw.importers.onnx.rules.layers import bias_addition
from poetfw.importers.onnx.rules.registry import RULES

__all__ = ["RULES", "bias_addition"]
