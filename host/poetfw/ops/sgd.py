# SPDX-License-Identifier: Apache-2.0
"""Stochastic gradient descent with momentum and weight decay, by PyTorch's `torch.optim.SGD`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from poetfw.errors import ModelError
from poetfw.ir import Dtype, Graph, Op, Tensor
from poetfw.ops.base import (
    Array,
    Kernel,
    OpKind,
    Work,
    bytes_of,
    expect_floats,
    expect_number,
    expect_shape,
    register,
)
from poetfw.ops.rounding import SMALLEST_NORMAL, gamma


def expect_sgd(op: Op) -> None:
    """Check an op's settings of SGD, and that it updates as many tensors as they ask for.

    Raises:
        ModelError: they are missing or out of range, or it does not.
    """
    expect_number(op, "learning_rate", 0)
    expect_number(op, "weight_decay", 0)
    wanted = 2 if expect_number(op, "momentum", 0, 1) > 0 else 1
    if len(op.updates) != wanted:
        raise ModelError(
            f"op {op.name!r} ({op.kind}) with momentum {op.number('momentum')} updates "
            f"{len(op.updates)} tensors, not {wanted}"
        )


def descend(op: Op, gradient: Array, updates: Sequence[Array]) -> None:
    """Apply a gradient to the parameter and its momentum, in place, by an op's settings."""
    parameter = updates[0]
    learning_rate, momentum, weight_decay = (
        parameter.dtype.type(op.number(name))
        for name in ("learning_rate", "momentum", "weight_decay")
    )
    step = gradient + weight_decay * parameter if weight_decay else gradient
    for velocity in updates[1:]:
        velocity[...] = momentum * velocity + step
        step = velocity
    parameter[...] = parameter - learning_rate * step


def descent_bounds(
    op: Op, gradient: Array, error: Array, updates: Sequence[Array]
) -> tuple[Array, ...]:
    """How far what `descend` makes of `updates` may lie from exact arithmetic.

    The step s is a sum of up to three terms, each with one constant rounded, one product and two
    additions. The new parameter w - lr·s adds the rounding of lr, of the product and of the
    difference.

    Args:
        op: has the settings of SGD.
        gradient: what is applied.
        error: how far the kernel's gradient may lie from that.
        updates: the parameter and its momentum before the op, in float64.
    """
    parameter, *momenta = updates
    terms = np.abs(gradient) + op.number("weight_decay") * np.abs(parameter)
    for momentum in momenta:
        terms = terms + op.number("momentum") * np.abs(momentum)
    in_step = gamma(4) * terms + (1 + gamma(4)) * error
    updated = [value.copy() for value in updates]
    descend(op, gradient, updated)
    in_parameter = gamma(1) * np.abs(updated[0]) + op.number("learning_rate") * (
        gamma(3) * terms + (1 + gamma(3)) * in_step
    )
    return tuple(bound + SMALLEST_NORMAL for bound in (in_parameter, *[in_step for _ in momenta]))


def descent_fields(op: Op, elements: int) -> tuple[tuple[str, int | float], ...]:
    """The constants of `struct poet_sgd`, for a parameter of so many elements."""
    return (
        ("elements", elements),
        ("learning_rate", op.number("learning_rate")),
        ("momentum", op.number("momentum")),
        ("weight_decay", op.number("weight_decay")),
    )


def fused_kernel(gradient: Kernel, op: Op, elements: int) -> Kernel:
    """The call that applies what `gradient`, a call of kernel and struct, would have stored.

    Its function and struct are named `_sgd` after those of `gradient`; the struct holds that one
    and `struct poet_sgd`.
    """
    assert gradient.struct is not None
    inner = gradient.struct.removeprefix("poet_")
    return Kernel(
        source=gradient.source,
        function=gradient.function.removesuffix("_f32") + "_sgd_f32",
        arguments=(*op.inputs, *op.updates, None)[: len(op.inputs) + 2],
        struct=f"{gradient.struct}_sgd",
        fields=(
            *((f"{inner}.{name}", value) for name, value in gradient.fields),
            *((f"sgd.{name}", value) for name, value in descent_fields(op, elements)),
        ),
    )


def fused_work(gradient: Work, op: Op, elements: int) -> Work:
    """What calculating and applying costs; `gradient` is the former without storing the result."""
    updated = len(op.updates)
    return Work(
        macs=gradient.macs + (1 + updated) * elements,
        bytes_moved=gradient.bytes_moved + 2 * updated * elements * Dtype.F32.size_bytes,
    )


@register
class Sgd(OpKind):
    """Inputs gradient g and optionally factor f [1]; updates parameter w and momentum v.

    g ← f·g + weight_decay·w;  v ← momentum·v + g;  w ← w - learning_rate·v. Without a factor, f
    is 1. Where attribute `momentum` is 0, there is no v and g takes its place; else v starts at 0,
    so that the first step has v = g, as in PyTorch. Attributes `learning_rate`, `momentum`,
    `weight_decay`.
    """

    name = "sgd"
    recomputable = False

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> None:
        expect_floats(op, inputs, 1, 2)
        for factor in inputs[1:]:
            expect_shape(op, factor, (1,))
        expect_sgd(op)

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> None:
        gradient, *factor = inputs
        descend(op, factor[0] * gradient if factor else gradient, updates)

    def error_bounds(
        self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]
    ) -> tuple[Array, ...]:
        gradient, *factor = inputs
        scaled = factor[0] * gradient if factor else gradient
        return descent_bounds(op, scaled, gamma(len(factor)) * np.abs(scaled), updates)

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> Work:
        gradient = inputs[0]
        return Work(
            macs=(len(inputs) + len(op.updates)) * gradient.elements,
            bytes_moved=bytes_of(*inputs) + 2 * len(op.updates) * bytes_of(gradient),
        )

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        read: tuple[str | None, ...] = (*op.inputs, None)[:2]
        updated: tuple[str | None, ...] = (*op.updates, None)[:2]
        return Kernel(
            source="sgd",
            function="poet_sgd_update_f32",
            arguments=(*read, *updated),
            struct="poet_sgd",
            fields=descent_fields(op, graph.by_name[op.inputs[0]].elements),
        )
