# SPDX-License-Identifier: Apache-2.0
"""Random numbers by step, op and element: dropout (Srivastava et al., 2014), and noise.

The generator has no state: recomputing an op drops the same elements, and the backward pass draws
the mask again instead of keeping it.

A model holds the inference form, `dropout`, which changes nothing. In training it becomes
`dropout_training`, which reads the number of the step; `count_step` adds 1 to that at the end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from poetfw.ir import Attribute, Dtype, Graph, Op, Tensor
from poetfw.ops.base import (
    Array,
    Kernel,
    OpKind,
    OpWork,
    Shape,
    Tape,
    bytes_of,
    expect_floats,
    expect_integer,
    expect_integers,
    expect_number,
    expect_shape,
    register,
)

_DRAWN = 1 << 24
"""Exclusive upper bound of an element's random number."""
_LAST_STEP = (1 << 24) - 1
"""The largest number of a step; the next one is 0. A float32 counts no further."""
_LARGEST_SHARE = 0.999

DRAWING = ("dropout_training", "uniform")
"""Kinds of ops that draw by the number of the step, their last input."""


def drawn(seed: int, step: int, count: int) -> NDArray[np.uint32]:
    """Random numbers in [0, 2^24) of the first `count` elements of an op in a step."""
    numbers = np.array([[seed], [step]], np.uint32)
    key = _mixed(numbers[0] ^ _mixed(numbers[1]))
    places = np.arange(count, dtype=np.uint32)
    return _mixed(_mixed(places ^ key) + key) >> np.uint32(8)


def _mixed(h: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Numbers of 32 bits for others: `lowbias32` of Wellons, "Prospecting for Hash Functions"."""
    h = (h ^ (h >> np.uint32(16))) * np.uint32(0x7FEB352D)
    h = (h ^ (h >> np.uint32(15))) * np.uint32(0x846CA68B)
    return h ^ (h >> np.uint32(16))


def threshold(share: float) -> int:
    """Smallest random number of an element that is kept."""
    return round(share * _DRAWN)


class _Dropout(OpKind):
    """Inputs x and the step's number [1]; attributes `share`, `seed`, and `run`.

    A share of all runs of `run` elements is left out; `seed` tells ops apart.
    """

    in_place = (0,)
    positive = (1,)

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_floats(op, inputs, 2)
        expect_shape(op, inputs[1], (1,))
        expect_number(op, "share", 0, _LARGEST_SHARE)
        expect_integer(op, "seed", 0)
        expect_integer(op, "run", 1, inputs[0].elements)
        return inputs[0].shape, Dtype.F32

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        return OpWork(macs=inputs[0].elements, bytes_moved=bytes_of(*inputs, output))


@register
class Dropout(_Dropout):
    """The inference form: y = x."""

    name = "dropout"

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        return inputs[0]

    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int:
        return 0

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        return Kernel(
            source="elementwise",
            function="poet_copy_f32",
            arguments=(op.inputs[0], op.output),
            struct="poet_elementwise",
            fields=(("elements", graph.by_name[op.inputs[0]].elements),),
        )

    def training_form(self, op: Op, tape: Tape) -> None:
        tape.emit("dropout_training", op.name, op.inputs, op.attributes, output=op.output)

    def evaluation_form(self, op: Op, tape: Tape) -> None:
        x = op.inputs[0]
        attributes: dict[str, Attribute] = {"shape": tape.shape(x)}
        tape.emit("reshape", op.name, (x,), attributes, output=op.output)


@register
class DropoutTraining(_Dropout):
    """Y = x / (1 - share) where a place stays, and else 0. Its gradient is the same of dy."""

    name = "dropout_training"
    cancels = False

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        x, step = inputs
        run, share = op.integer("run"), op.number("share")
        draws = drawn(op.integer("seed"), int(step[0]), -(-x.size // run))
        stays = np.repeat(draws >= threshold(share), run)[: x.size].reshape(x.shape)
        y: Array = np.where(stays, x * x.dtype.type(1 / (1 - share)), x.dtype.type(0))
        return y

    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int:
        return 2  # of the factor, and of the product

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        share = op.number("share")
        return Kernel(
            source="dropout",
            function="poet_dropout_f32",
            arguments=(*op.inputs, op.output),
            struct="poet_dropout",
            fields=(
                ("elements", graph.by_name[op.inputs[0]].elements),
                ("run", op.integer("run")),
                ("seed", op.integer("seed")),
                ("threshold", threshold(share)),
                ("factor", 1 / (1 - share)),
            ),
        )

    def gradient(self, op: Op, tape: Tape, output_gradient: str) -> None:
        x, step = op.inputs
        if tape.needs_gradient(x):
            name = f"{op.name}.backward"
            tape.add_gradient(x, tape.emit(op.kind, name, (output_gradient, step), op.attributes))


@register
class Uniform(OpKind):
    """Input the step's number [1]; y of attribute `shape` in [0, 1), drawn with attribute `seed`.

    Evaluation and prediction draw by the number of the training step that comes next.
    """

    name = "uniform"
    positive = (0,)

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_floats(op, inputs, 1)
        expect_shape(op, inputs[0], (1,))
        expect_integer(op, "seed", 0)
        return expect_integers(op, "shape", 1), Dtype.F32

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        shape = op.integers("shape")
        draws = drawn(op.integer("seed"), int(inputs[0][0]), math.prod(shape))
        return (draws / _DRAWN).astype(inputs[0].dtype).reshape(shape)

    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int:
        return 0

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        return OpWork(macs=0 if output is None else output.elements, bytes_moved=bytes_of(output))

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        return Kernel(
            source="dropout",
            function="poet_uniform_f32",
            arguments=(*op.inputs, op.output),
            struct="poet_uniform",
            fields=(("elements", math.prod(op.integers("shape"))), ("seed", op.integer("seed"))),
        )


@register
class CountStep(OpKind):
    """No inputs; updates the number of the step [1], which is 0 again after 2^24 steps."""

    name = "count_step"
    recomputable = False
    counts = True

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> None:
        expect_floats(op, inputs, 0)

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> None:
        (step,) = updates
        step[...] = np.where(step < _LAST_STEP, step + 1, 0)

    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int:
        return 0

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        return OpWork(macs=1, bytes_moved=8)

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        return Kernel(
            source="dropout",
            function="poet_count_step_f32",
            arguments=op.updates,
            struct="poet_count_step",
            fields=(("last", _LAST_STEP),),
        )
