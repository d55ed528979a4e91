# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for outputs of nodes that cannot be trained, so that later nodes are checked too."""

from __future__ import annotations

from contextlib import suppress

import onnx
from onnx import TensorProto, helper

from poetfw.common.errors import ModelError
from poetfw.importers.onnx.file import ONNX_ERRORS
from poetfw.importers.onnx.nodes import OnnxNode
from poetfw.importers.onnx.rules import RULES
from poetfw.importers.onnx.values import Values
from poetfw.ir import Role

_ALSO = (
    "Abs Cast Ceil Celu ConvTranspose Cos DepthToSpace Div Elu Erf Exp Expand Floor Gelu "
    "GroupNormalization HardSigmoid HardSwish InstanceNormalization LRN LayerNormalization "
    "LeakyRelu Log LpPool Max MeanVarianceNormalization Min Mish Mul Neg PRelu Pad Pow Reciprocal "
    "ReduceL2 ReduceMax ReduceMin ReduceProd ReduceSum Resize Round Selu Sigmoid Sign Sin "
    "Softplus Softsign SpaceToDepth Sqrt Squeeze Sub Sum Tanh ThresholdedRelu Transpose Where"
).split()
_SHOWN_TO_ONNX = {*RULES, *_ALSO} - {"Split"}
"""Operators whose shape inference accepts malformed nodes, except for integers beyond 32 bits.

The inference of others, such as Einsum, GatherND and Split, may hang or crash the process.
"""


def bind_stand_ins(node: OnnxNode, proto: onnx.NodeProto, values: Values) -> None:
    """Bind a node's float32 outputs to tensors of the shapes that ONNX infers.

    Outputs stay unbound if ONNX cannot infer their shape or is not asked to, if they exceed the
    largest tensor, or if they depend on an unbound output.
    """
    inputs = [name for name in node.inputs if name]
    if node.kind not in _SHOWN_TO_ONNX or node.flaw is not None:
        return
    if not all(map(values.is_bound, inputs)):
        return
    types = {name: values.type_proto(name) for name in inputs}
    if any(size.dim_value < 1 for t in types.values() for size in t.tensor_type.shape.dim):
        return
    constants = {name: values.constant_proto(name) for name in inputs if values.is_constant(name)}
    try:
        outputs = onnx.shape_inference.infer_node_outputs(
            onnx.defs.get_schema(proto.op_type, values.opset, proto.domain),
            proto,
            types,
            {n: value for n, value in constants.items() if value.data_type == TensorProto.INT64},
            opset_imports=[helper.make_opsetid("", values.opset)],
        )
    except ONNX_ERRORS:
        return
    for name, output in outputs.items():
        shape = tuple(dimension.dim_value for dimension in output.tensor_type.shape.dim)
        if output.tensor_type.elem_type == TensorProto.FLOAT and all(size > 0 for size in shape):
            with suppress(ModelError):  # the refusal of the node itself is reported
                values.bind(name, values.builder.declare(name, shape, Role.ACTIVATION))
