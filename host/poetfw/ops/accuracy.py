# SPDX-License-Identifier: Apache-2.0
"""Counting correct answers: the metric of a classifier in evaluation."""

from __future__ import annotations

from collections.abc import Sequence

from poetfw.ir import Graph, Op, Tensor
from poetfw.ops.base import Array, Kernel, OpKind, OpWork, Shape, bytes_of, register
from poetfw.ops.softmax_cross_entropy import expect_classified


@register
class CorrectCount(OpKind):
    """Inputs logits f32 [N,K], labels i32 [N]; updates metric [1].

    The metric becomes the number of samples whose first largest logit is at their label. A label
    of -1 marks a sample that only fills up the batch, and never counts.
    """

    name = "correct_count"
    recomputable = False

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> None:
        expect_classified(op, inputs)

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> None:
        logits, labels = inputs
        updates[0][...] = (logits.argmax(axis=1) == labels).sum()

    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int:
        return 0

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        return OpWork(macs=inputs[0].elements, bytes_moved=bytes_of(*inputs) + 4)

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        batch, classes = graph.by_name[op.inputs[0]].shape
        return Kernel(
            source="accuracy",
            function="poet_correct_count_f32",
            arguments=(*op.inputs, *op.updates),
            struct="poet_correct_count",
            fields=(("batch", batch), ("classes", classes)),
        )
