# SPDX-License-Identifier: Apache-2.0
"""Sums that go on from what is in the result, so that a sum may be formed in several calls.

Sums of a convolution or a dense layer over channels are in order of the channels, so calls for some
channels after the other leave the bits of one call for all. That holds where the product and the
sum are rounded apart; where sums are formed in integers, or with fused products, it does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from poetfw.ir import Dtype, Graph, Op, Tensor
from poetfw.kernels import Product
from poetfw.ops.base import KINDS, Array, Kernel, OpKind, OpWork, Shape, TileTable
from poetfw.ops.matmul import matmul_kernel

_PREFIX = "continued_"


class ContinuedKind(OpKind):
    """Op that adds further terms to its result.

    Inputs and attributes are those of the wrapped op; the result is updated, and there is no
    output.
    """

    recomputable = False

    def __init__(self, kind: OpKind) -> None:
        """Wrap an operator."""
        self.name = continued_name(kind.name)
        self._kind = kind

    def _begun(self, op: Op) -> Op:
        """The op that leaves the sum of these terms alone."""
        return replace(op, kind=self._kind.name, output=op.updates[0], updates=())

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype] | None:
        self._kind.infer(self._begun(op), inputs)
        return None

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array | None:
        updates[0][...] += self._kind.compute(self._begun(op), inputs, ())
        return None

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        return self._kind.work(self._begun(op), inputs, output)

    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int:
        return 1 + self._kind.roundings(self._begun(op), inputs)

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        of = self._kind.kernel(self._begun(op), graph)
        fields = list(of.fields)
        for i, (name, value) in enumerate(fields):
            if isinstance(value, TileTable):
                task = replace(value.of, continued=True)
                if isinstance(task, Product):
                    return matmul_kernel(task, of.arguments)
                fields[i] = name, TileTable(task)
        function = of.function.replace("_f32", "_continued_f32")
        return replace(of, function=function, fields=tuple(fields))


def continued_name(kind: str) -> str:
    """Name of the form of an operator that adds to its result."""
    return _PREFIX + kind


def register_continued() -> None:
    """Register the forms of all operators whose sums can be continued."""
    for kind in tuple(KINDS.values()):
        if kind.summed:
            continued = ContinuedKind(kind)
            KINDS[continued.name] = continued
