# SPDX-License-Identifier: Apache-2.0
"""Constant folding, by ONNX's reference implementation: shapes and other computed constants."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from poetfw.importers.onnx.nodes import OnnxNode
from poetfw.importers.onnx.values import Values
from poetfw.importers.refusal import UnsupportedError

LARGEST = 1 << 22
"""Most elements of a computed constant or one of its operands."""
FOLDED = frozenset(
    "Abs Add And Cast CastLike Ceil Concat ConstantOfShape Cos Div Equal Exp Expand Floor Gather "
    "Greater GreaterOrEqual Identity Less LessOrEqual Log Max Min Mod Mul Neg Not Or Pow Range "
    "Reciprocal ReduceProd Reshape Sin Size Slice Sqrt Squeeze Sub Transpose Trilu Unsqueeze "
    "Where Xor".split()
)
"""Operators that are folded if all inputs are constants and not weights."""

_SEEN = ("Reshape", "Squeeze", "Unsqueeze", "Identity")
"""Folded operators that only reshape: a weight stays a weight."""

_STRETCHED = frozenset(
    "Add And Div Equal Greater GreaterOrEqual Less LessOrEqual Max Min Mod Mul Or Pow Sub Where "
    "Xor".split()
)
"""Folded operators that broadcast their inputs."""


def fold(node: OnnxNode, proto: onnx.NodeProto, values: Values) -> bool:
    """Bind the output of a node if it reads only constants; returns True if so.

    Raises:
        UnsupportedError: The result is too large, or the reference cannot compute it.
    """
    names = [name for name in node.inputs if name]
    if node.kind not in FOLDED or not all(values.is_fixed(name) for name in names):
        return False
    arrays = [values.array(name) for name in names]
    if max((array.size for array in arrays), default=0) > LARGEST or _grown(node, arrays) > LARGEST:
        raise UnsupportedError("it makes too large a constant")
    graph = helper.make_graph(
        [proto],
        "constant",
        [],
        [helper.make_empty_tensor_value_info(node.output)],
        [numpy_helper.from_array(a, n) for n, a in zip(names, arrays, strict=True)],
    )
    imports = [helper.make_opsetid("", values.opset)]
    try:
        model = helper.make_model(graph, opset_imports=imports, ir_version=10)
        with np.errstate(all="ignore"):
            (result,) = ReferenceEvaluator(model).run(None, {})
    except Exception as error:  # the reference raises exceptions of any type
        raise UnsupportedError(f"its constant cannot be calculated: {error!s:.200}") from error
    constant = numpy_helper.from_array(np.asarray(result))
    if node.kind in _SEEN:
        values.copy(node.output, names[0], constant)
    else:
        values.bind_constant(node.output, constant)
    return True


def _grown(node: OnnxNode, arrays: Sequence[NDArray[np.generic]]) -> float:
    """Estimated number of elements of a result that may be larger than the operands, else 0."""
    if node.kind == "ConstantOfShape":
        return _product(arrays[0])
    if node.kind == "Expand":
        return arrays[0].size * _product(arrays[1])
    if node.kind == "Range":
        start, end, step = (float(array.reshape(-1)[0]) for array in arrays)
        return (end - start) / step if step else math.inf
    if node.kind == "Gather":
        return arrays[0].size * arrays[1].size
    if node.kind in _STRETCHED:
        return float(math.prod(np.broadcast_shapes(*(array.shape for array in arrays))))
    return 0


def _product(shape: NDArray[np.generic]) -> float:
    return math.prod(float(extent) for extent in shape.reshape(-1).tolist())
