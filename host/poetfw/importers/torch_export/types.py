# SPDX-License-Identifier: Apache-2.0
"""Floating-point types of a program, converted to float32 as `.float()` does before an export."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from poetfw.importers.torch_export import schema

STORED = {schema.HALF: "<f2", schema.DOUBLE: "<f8", schema.BFLOAT: "<u2"}
"""NumPy's types of stored numbers; for bfloat16, that of its bits."""


def values_of(elements: NDArray[Any], dtype: int) -> NDArray[Any]:
    """Stored numbers as floating-point values; bfloat16 is the upper half of float32."""
    if dtype != schema.BFLOAT:
        return elements
    return (elements.astype("<u4") << 16).view("<f4")


def in_float32(graph: schema.ExportedGraph) -> schema.ExportedGraph:
    """Replace float64, float16 and bfloat16 by float32 in tensors' metadata and in arguments."""

    def converted(meta: schema.TensorMeta) -> schema.TensorMeta:
        if meta.dtype not in schema.OTHER_FLOATS:
            return meta
        return meta.model_copy(update={"dtype": schema.FLOAT})

    def rewritten(each: schema.Input) -> schema.Input:
        if each.arg.get("as_scalar_type") not in schema.OTHER_FLOATS:
            return each
        return each.model_copy(update={"arg": {"as_scalar_type": schema.FLOAT}})

    nodes = [
        node.model_copy(update={"inputs": [rewritten(each) for each in node.inputs]})
        for node in graph.nodes
    ]
    values = {name: converted(meta) for name, meta in graph.tensor_values.items()}
    return graph.model_copy(update={"nodes": nodes, "tensor_values": values})
