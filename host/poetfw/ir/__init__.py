# SPDX-License-Identifier: Apache-2.0
"""Typed intermediate representation: tensors, ops and graphs."""

from poetfw.ir.graph import Attribute, Dtype, Graph, Op, Role, Tensor
from poetfw.ir.names import FreshNames
from poetfw.ir.record import NUMPY_TYPES, Head, Record, array_names, label_name

__all__ = [
    "NUMPY_TYPES",
    "Attribute",
    "Dtype",
    "FreshNames",
    "Graph",
    "Head",
    "Op",
    "Record",
    "Role",
    "Tensor",
    "array_names",
    "label_name",
]
