# SPDX-License-Identifier: Apache-2.0
"""State that moves from step to step as the network says, such as spectral norm's vectors.

A model holds `moved`, whose output is the state's new value. In training it becomes that value, and
`store`, which keeps it for the next step and cannot be computed again. In evaluation nothing moves:
the output is what was stored.
"""

from __future__ import annotations

from collections.abc import Sequence

from poetfw.ir import Dtype, Graph, Op, Tensor
from poetfw.ops.base import (
    Array,
    Kernel,
    OpKind,
    OpWork,
    Shape,
    Tape,
    bytes_of,
    expect_floats,
    expect_shape,
    register,
)


class _Copies(OpKind):
    """An op that copies its first input."""

    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int:
        return 0

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        return OpWork(macs=inputs[0].elements, bytes_moved=2 * bytes_of(inputs[0]))


@register
class MovedState(_Copies):
    """Inputs x, state of one shape; y = x in training, and the state in evaluation. No gradient."""

    name = "moved"
    stops_gradient = True

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_floats(op, inputs, 2)
        expect_shape(op, inputs[1], inputs[0].shape)
        return inputs[0].shape, Dtype.F32

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        return inputs[0].copy()

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        raise AssertionError(f"op {op.name!r}: neither step has it")

    def training_form(self, op: Op, tape: Tape) -> None:
        x, state = op.inputs
        y = tape.emit("detach", op.name, (x,), {"shape": tape.shape(x)}, output=op.output)
        tape.emit("store", f"{op.name}.store", (y,), updates=(state,))

    def evaluation_form(self, op: Op, tape: Tape) -> None:
        state = op.inputs[1]
        tape.emit("detach", op.name, (state,), {"shape": tape.shape(state)}, output=op.output)


@register
class StoreState(_Copies):
    """Input x; updates a state of its shape, which becomes x."""

    name = "store"
    recomputable = False

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> None:
        expect_floats(op, inputs, 1)

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> None:
        updates[0][...] = inputs[0]

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        return Kernel(
            source="choices",
            function="poet_store_f32",
            arguments=(*op.inputs, *op.updates),
            struct="poet_choices",
            fields=(("elements", graph.by_name[op.inputs[0]].elements),),
        )
