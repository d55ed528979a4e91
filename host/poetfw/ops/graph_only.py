# SPDX-License-Identifier: Apache-2.0
"""What operators without a C kernel share whose inputs and output have one shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from poetfw.ir import Dtype, Op, Tensor
from poetfw.ops.base import GraphOnlyKind, Shape, Work, bytes_of, expect_floats, expect_shape


class GraphOnlyElementwise(GraphOnlyKind):
    """An op whose inputs and output have one shape."""

    inputs_count: ClassVar[int]
    passes: ClassVar[int]
    """How often it looks at each element."""

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_floats(op, inputs, self.inputs_count)
        for tensor in inputs[1:]:
            expect_shape(op, tensor, inputs[0].shape)
        return inputs[0].shape, Dtype.F32

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> Work:
        return Work(self.passes * inputs[0].elements, bytes_of(*inputs, output))
