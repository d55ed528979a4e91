# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for the outputs of nodes that cannot be trained: what is behind them is judged too."""

from __future__ import annotations

from contextlib import suppress

import onnx
from onnx import TensorProto, helper

from poetfw.common.errors import ModelError
from poetfw.importers.onnx.file import ONNX_ERRORS
from poetfw.importers.onnx.rules import RULES
from poetfw.importers.onnx.values import OnnxNode, Values
from poetfw.ir import Role

_ALSO = (
    "Abs Cast Ceil Celu ConvTranspose Cos DepthToSpace Div Elu Erf Exp Expand Floor Gelu "
    "GroupNormalization HardSigmoid HardSwish InstanceNormalization LRN LayerNormalization "
    "LeakyRelu Log LpPool Max MeanVarianceNormalization Min Mish Mul Neg PRelu Pad Pow Reciprocal "
    "ReduceL2 ReduceMax ReduceMin ReduceProd ReduceSum Resize Round Selu Sigmoid Sign Sin "
    "Softplus Softsign SpaceToDepth Sqrt Squeeze Sub Sum Tanh ThresholdedRelu Transpose Where"
).split()
_SHOWN_TO_ONNX = {*RULES, *_ALSO} - {"Split"}
"""Operators whose inference stands malformed nodes as well, integers beyond 32 bits apart.

Others never end or bring this process down, such as Einsum, GatherND and Split.
"""


def bind_stand_ins(node: OnnxNode, proto: onnx.NodeProto, values: Values) -> None:
    """Bind the float32 outputs of a node to tensors of the shapes that ONNX infers for them.

    Outputs stay unbound whose shape ONNX cannot tell, or is not asked for, that are larger than any
    tensor, or that depend on such an output.
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
            with suppress(ModelError):  # the node itself is what to name
                values.bind(name, values.builder.declare(name, shape, Role.ACTIVATION))
