# SPDX-License-Identifier: Apache-2.0
"""Batched matrix products, y = op(a) · op(b), where op transposes the last two axes or does not.

With the transpositions as attributes, both gradients are matrix products again, and nothing has to
be transposed in RAM.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from poetfw.common.errors import ModelError
from poetfw.ir import Dtype, Graph, Op, Tensor
from poetfw.kernels import Product
from poetfw.ops.base import (
    Array,
    Arrays,
    Axes,
    Bounds,
    Constants,
    Kernel,
    OpKind,
    OpWork,
    Shape,
    Tape,
    TileTable,
    bytes_of,
    expect_floats,
    expect_integer,
    register,
    vector_letters,
)

_RUN = 32
"""Products that the kernel adds up before it adds up their sums."""


def _seen(shape: Shape, transpose: int) -> tuple[int, int]:
    """Rows and columns of the matrices of a tensor."""
    rows, columns = shape[-2:]
    return (columns, rows) if transpose else (rows, columns)


def matmul_kernel(of: Product, arguments: tuple[str | int | Constants | None, ...]) -> Kernel:
    """The kernel of a product.

    Args:
        of: the product.
        arguments: left and right matrix, the bias or None for a product that can have one, result.
    """
    left, right, *bias, result = arguments
    biased = bool(bias) and bias[0] is not None
    return Kernel(
        source="matmul",
        function=f"poet_matmul{'_biased' * biased}{'_continued' * of.continued}_f32",
        arguments=(left, right, *(bias if biased else ()), result),
        struct="poet_matmul",
        fields=(
            ("batch", of.batch),
            ("rows", of.rows),
            ("inner", of.inner),
            ("columns", of.columns),
            ("a_row", of.left[0]),
            ("a_column", of.left[1]),
            ("b_row", of.right[0]),
            ("b_column", of.right[1]),
            ("y_row", of.result[0]),
            ("y_column", of.result[1]),
            ("run", of.run or (1 if of.continued else of.inner)),  # 1: each is added to the result
            ("tiles", TileTable(replace(of, bias=biased))),
        ),
        # a call sums products, but for a single one
        loops=((of.batch,), (of.rows,), (of.columns,), *((1,), (of.inner,)) * (of.inner > 1)),
    )


@register
class Matmul(OpKind):
    """Inputs a [..., I, K], b [..., K, J] of the same leading axes; y [..., I, J].

    Attributes `transpose_a` and `transpose_b`, 0 or 1: whether the operand's last two axes are
    stored the other way round.
    """

    name = "matmul"
    carries = (0, 1)

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_floats(op, inputs, 2)
        transpose_a, transpose_b = (
            expect_integer(op, name, 0, 1) for name in ("transpose_a", "transpose_b")
        )
        a, b = (tensor.shape for tensor in inputs)
        if len(a) < 2 or len(a) != len(b) or a[:-2] != b[:-2]:
            raise ModelError(
                f"op {op.name!r} ({op.kind}) needs matrices with the same leading axes, "
                f"not shapes {list(a)} and {list(b)}"
            )
        rows, inner = _seen(a, transpose_a)
        other, columns = _seen(b, transpose_b)
        if inner != other:
            raise ModelError(
                f"op {op.name!r} ({op.kind}) cannot multiply matrices of {rows} x {inner} with "
                f"matrices of {other} x {columns}"
            )
        return (*a[:-2], rows, columns), Dtype.F32

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        a, b = inputs
        if op.integer("transpose_a"):
            a = a.swapaxes(-1, -2)
        if op.integer("transpose_b"):
            b = b.swapaxes(-1, -2)
        y: Array = a @ b
        return y

    def carried(self, op: Op, inputs: Arrays, errors: Arrays, updates: Arrays) -> Bounds:
        (a, b), (of_a, of_b) = map(np.abs, inputs), errors
        changes = (self.compute(op, each, ()) for each in ((of_a, b + of_b), (a, of_b)))
        return (sum(changes, start=np.zeros(())),)

    def axes(self, op: Op, inputs: Sequence[Tensor], results: Sequence[Tensor]) -> Axes | None:
        leading = vector_letters(inputs[0].shape)[:-2].replace("n", "a").replace("r", "b")
        left = ".i" if op.integer("transpose_a") else "i."
        right = "o." if op.integer("transpose_b") else ".o"
        return Axes((leading + left, leading + right), (f"{leading}io",))

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        a, b = inputs
        _, columns = _seen(b.shape, op.integer("transpose_b"))
        return OpWork(macs=a.elements * columns, bytes_moved=bytes_of(a, b, output))

    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int:
        _, inner = _seen(inputs[0], op.integer("transpose_a"))
        return min(inner, _RUN) + -(-inner // _RUN) - 1

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        a, b = (graph.by_name[name].shape for name in op.inputs)
        transpose_a, transpose_b = op.integer("transpose_a"), op.integer("transpose_b")
        rows, inner = _seen(a, transpose_a)
        _, columns = _seen(b, transpose_b)
        left = (1, rows) if transpose_a else (inner, 1)
        right = (1, inner) if transpose_b else (columns, 1)
        one, other = op.inputs
        product = Product(math.prod(a[:-2]), rows, inner, columns, left, right, (columns, 1), _RUN)
        if transpose_a and transpose_b:  # rows of b times columns of a: neighbours are in a
            product = replace(
                product,
                rows=columns,
                columns=rows,
                left=right[::-1],
                right=left[::-1],
                result=(1, columns),
            )
            one, other = other, one
        return matmul_kernel(product, (one, other, op.output))

    def gradient(self, op: Op, tape: Tape, output_gradient: str) -> None:
        a, b = op.inputs
        ta, tb = op.integer("transpose_a"), op.integer("transpose_b")
        dy = output_gradient

        def product(side: str, left: str, right: str, left_turned: int, right_turned: int) -> str:
            turned = {"transpose_a": left_turned, "transpose_b": right_turned}
            return tape.emit("matmul", f"{op.name}.backward_{side}", (left, right), turned)

        if tape.needs_gradient(a):
            # y = op(a)·op(b), so d op(a) = dy·op(b)ᵀ; where a is stored turned, so is its gradient.
            da = product("a", b, dy, tb, 1) if ta else product("a", dy, b, 0, 1 - tb)
            tape.add_gradient(a, da)
        if tape.needs_gradient(b):
            db = product("b", dy, a, 1, ta) if tb else product("b", a, dy, 1 - ta, 0)
            tape.add_gradient(b, db)
