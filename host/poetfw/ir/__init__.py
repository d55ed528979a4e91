# SPDX-License-Identifier: Apache-2.0
"""The typed intermediate representation: tensors, ops and graphs."""

from poetfw.ir.graph import VARIANT, Attribute, Dtype, Graph, Op, Role, Tensor
from poetfw.ir.names import FreshNames

__all__ = ["VARIANT", "Attribute", "Dtype", "FreshNames", "Graph", "Op", "Role", "Tensor"]
