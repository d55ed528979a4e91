# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for the outputs of nodes that cannot be trained: what is behind them is judged too."""

from __future__ import annotations

from contextlib import suppress

import onnx
from onnx import TensorProto, helper

from poetfw.errors import ModelError
from poetfw.importers.onnx.values import Node, Values
from poetfw.ir import Role

_UNKNOWABLE = (
    onnx.defs.SchemaError,
    onnx.shape_inference.InferenceError,
    onnx.checker.ValidationError,
    *(ValueError, LookupError, RuntimeError),  # those of C++, where it does not look itself
)
"""How ONNX says that it has no such operator, or not for such inputs."""

_ENDLESS = ("Einsum",)
"""Operators whose shapes ONNX looks for forever if an attribute is malformed."""


def bind_stand_ins(node: Node, proto: onnx.NodeProto, values: Values) -> None:
    """Bind the float32 outputs of a node to tensors of the shapes that ONNX infers for them.

    Outputs whose shape ONNX cannot tell, or that are larger than any tensor, stay unbound.
    """
    if node.kind in _ENDLESS:
        return
    inputs = [name for name in node.inputs if name]
    constants = {name: values.constant_proto(name) for name in inputs if values.is_constant(name)}
    try:
        outputs = onnx.shape_inference.infer_node_outputs(
            onnx.defs.get_schema(proto.op_type, values.opset, proto.domain),
            proto,
            {name: values.type_proto(name) for name in inputs},
            {n: value for n, value in constants.items() if value.data_type == TensorProto.INT64},
            opset_imports=[helper.make_opsetid("", values.opset)],
        )
    except _UNKNOWABLE:
        return
    for name, output in outputs.items():
        shape = tuple(dimension.dim_value for dimension in output.tensor_type.shape.dim)
        if output.tensor_type.elem_type == TensorProto.FLOAT and all(size > 0 for size in shape):
            with suppress(ModelError):  # the node itself is what to name
                values.bind(name, values.builder.declare(name, shape, Role.ACTIVATION))
