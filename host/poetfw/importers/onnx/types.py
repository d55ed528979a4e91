# SPDX-License-Identifier: Apache-2.0
"""Floating-point types of an ONNX model, converted to float32."""

from __future__ import annotations

from onnx import ModelProto, TensorProto, numpy_helper

from poetfw.common.errors import ModelError
from poetfw.importers.float32 import rounded

OTHER_FLOATS = (TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16)
"""Floating-point types that poetfw does not train with."""
_TYPED = ("to", "dtype")
"""Names of attributes that hold a type."""


def convert_to_float32(model: ModelProto) -> None:
    """Replace float64, float16 and bfloat16 by float32 in weights, constants and types.

    Raises:
        ModelError: A weight is beyond float32's range, or its data do not fill its shape.
    """
    graph = model.graph
    for tensor in graph.initializer:
        _convert(tensor)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                _convert(attribute.t, node.name or node.op_type)
            if attribute.name in _TYPED and attribute.i in OTHER_FLOATS:
                attribute.i = TensorProto.FLOAT
    for value in (*graph.input, *graph.output, *graph.value_info):
        if value.type.tensor_type.elem_type in OTHER_FLOATS:
            value.type.tensor_type.elem_type = TensorProto.FLOAT


def _convert(tensor: TensorProto, name: str = "") -> None:
    if tensor.data_type not in OTHER_FLOATS:
        return
    own = tensor.name
    try:
        values = numpy_helper.to_array(tensor)
    except (ValueError, TypeError) as error:
        raise ModelError(f"the data of {own or name!r} do not fill its shape") from error
    tensor.CopyFrom(numpy_helper.from_array(rounded(values, own or name), own))
