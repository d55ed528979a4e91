"""The typed intermediate representation: tensors, ops and graphs."""

from poetfw.ir.graph import Attribute, Dtype, Graph, Op, Role, Tensor

__all__ = ["Attribute", "Dtype", "Graph", "Op", "Role", "Tensor"]
