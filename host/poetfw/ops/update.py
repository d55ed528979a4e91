# SPDX-License-Identifier: Apache-2.0
"""The interface of optimizers: their state per parameter, and the update of an element.

Adding an optimizer takes its settings (an `Optimizer` in `poetfw.optimizers`), one file in this
folder with its update (an `UpdateKind`), and one C file with its header in
`firmware_templates/kernels/` that holds its step. A gradient that is applied without being stored
needs nothing more: `FusedUpdate` joins any gradient with any optimizer, as the sink of `update.h`
does in C.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from poetfw.common.errors import ModelError
from poetfw.ir import Dtype, Graph, Op, Tensor
from poetfw.ops.base import (
    KINDS,
    Array,
    Bounds,
    Constants,
    Kernel,
    OpKind,
    OpWork,
    bytes_of,
    expect_floats,
    expect_integer,
    expect_number,
    expect_shape,
    kind_of,
)
from poetfw.ops.rounding import SMALLEST_NORMAL, gamma
from poetfw.optimizers import LARGEST_COUNT

# The update of a parameter ----------------------------------------------------------------------


class UpdateKind(OpKind):
    """Update of a parameter by an optimizer.

    Inputs gradient, optionally the factor [1] that it is scaled by, and where attribute `paced` is
    1 the pace of the training step (`poetfw.ops.pace`); updates the parameter, and what the
    optimizer keeps of it, which begins as zeros. Attributes `weight_decay`, `clip_value` if there
    is one, `learning_rate` if there is no pace, and the optimizer's own.

    A gradient [O, k, ...] that is smaller than the parameter [O, C, ...] is that of its first k
    input channels: they are updated, and the rest stays. What is kept has the gradient's shape.

    With an attribute `micro_batches`, the last tensor that it updates is the sum of gradients since
    the last update; unless the pace says that the batch is complete, it changes nothing else.
    """

    recomputable = False
    struct: ClassVar[str]
    """Tag of its constants, which begin with a `struct poet_update`, and name of their file with
    `poet_` before it; its step is `<struct>_step_f32`."""
    macs: ClassVar[int] = 1
    """Multiply-accumulates to an element, beside one for each tensor that it updates."""

    @abstractmethod
    def states(self, op: Op) -> tuple[str, ...]:
        """Names of what it keeps of a parameter, in the gradient's shape: none, one or two.

        Raises:
            ModelError: An attribute that it depends on is missing or out of range.
        """

    @abstractmethod
    def expect(self, op: Op) -> None:
        """Check the attributes that only this optimizer has.

        Raises:
            ModelError: One is missing or out of range.
        """

    @abstractmethod
    def step(self, op: Op, gradient: Array, pace: Array, updates: Sequence[Array]) -> None:
        """Change the parameter and the optimizer's state, in place.

        Args:
            op: has the settings.
            gradient: what is applied, scaled and clipped.
            pace: the learning rate, and the corrections of moments if there are any.
            updates: the parameter, and what is kept of it.
        """

    @abstractmethod
    def bounds(
        self, op: Op, gradient: Array, error: Array, pace: Array, updates: Sequence[Array]
    ) -> tuple[Array, ...]:
        """Error bound of a device's updated tensors, against `step` in exact arithmetic.

        Args:
            op: has the settings.
            gradient: what is applied.
            error: how far the device's gradient may lie from that.
            pace: as the device has it, or the learning rate in float64.
            updates: as they were before the op, in float64.
        """

    @abstractmethod
    def fields(self, op: Op) -> tuple[tuple[str, int | float], ...]:
        """The constants of `struct`, behind those of all optimizers."""

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> None:
        expect_floats(op, inputs, 1 + _paced(op), 2 + _paced(op))
        for factor in inputs[1 : len(inputs) - _paced(op)]:
            expect_shape(op, factor, (1,))
        self.expect_update(op)

    def expect_update(self, op: Op) -> None:
        """Check an op's settings, and that it updates as many tensors as they ask for.

        Raises:
            ModelError: One is missing or out of range, or it does not.
        """
        if not _paced(op):
            expect_number(op, "learning_rate", 0)
        expect_number(op, "weight_decay", 0)
        if "clip_value" in op.attributes:
            expect_number(op, "clip_value", 0)
        self.expect(op)
        if "micro_batches" in op.attributes:
            expect_integer(op, "micro_batches", 2, LARGEST_COUNT)
            expect_integer(op, "paced", 1, 1)
        wanted = 1 + len(self.kept(op))
        if len(op.updates) != wanted:
            raise ModelError(
                f"op {op.name!r} ({op.kind}) updates {len(op.updates)} tensors, not {wanted}"
            )

    def kept(self, op: Op) -> tuple[str, ...]:
        """Names of all that is kept of a parameter: by the optimizer, and of micro-batches."""
        return (*self.states(op), *(("gradient_sum",) if "micro_batches" in op.attributes else ()))

    def apply(self, op: Op, gradient: Array, pace: Array | None, updates: Sequence[Array]) -> None:
        """Apply a gradient to the parameter and what is kept of it, in place."""
        updates = (updates[0][_part(gradient)], *updates[1:])
        if "micro_batches" in op.attributes:
            assert pace is not None
            *updates, total = updates
            gradient = total + gradient
            total[...] = 0 if pace[1] else gradient
            if not pace[1]:
                return
            gradient = gradient * gradient.dtype.type(1 / op.integer("micro_batches"))
        self.step(op, _clipped(op, gradient), _pace(op, pace, gradient.dtype), updates)

    def apply_bounds(
        self,
        op: Op,
        gradient: Array,
        error: Array,
        pace: Array | None,
        updates: Sequence[Array],
    ) -> tuple[Array, ...]:
        """Error bound of a device's updated tensors, against `apply` in float64."""
        whole, part = np.zeros_like(updates[0]), _part(gradient)
        updates = (updates[0][part], *updates[1:])
        in_total: list[Array] = []
        if "micro_batches" in op.attributes:
            assert pace is not None
            *updates, total = updates
            gradient = total + gradient
            error = error + gamma(1) * (np.abs(gradient) + error)
            if not pace[1]:
                return (
                    whole,
                    *(np.zeros_like(value) for value in updates[1:]),
                    error + SMALLEST_NORMAL,
                )
            in_total = [np.zeros_like(total)]
            gradient, error = (value / op.integer("micro_batches") for value in (gradient, error))
            error = error + gamma(2) * (np.abs(gradient) + error)
        limit = op.attributes.get("clip_value")
        error = error if limit is None else error + gamma(1) * op.number("clip_value")
        gradient, pace = _clipped(op, gradient), _pace(op, pace, gradient.dtype)
        whole[part], *bounds = (
            bound + SMALLEST_NORMAL for bound in self.bounds(op, gradient, error, pace, updates)
        )
        return (whole, *bounds, *in_total)

    def never_negative(self, op: Op) -> tuple[str, ...]:
        _, pace = _apart(op, op.inputs)
        return () if pace is None else (pace,)

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> None:
        (gradient, *factor), pace = _apart(op, inputs)
        self.apply(op, factor[0] * gradient if factor else gradient, pace, updates)

    def error_bounds(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Bounds:
        (gradient, *factor), pace = _apart(op, inputs)
        scaled = factor[0] * gradient if factor else gradient
        error = gamma(len(factor)) * np.abs(scaled)
        return self.apply_bounds(op, scaled, error, pace, updates)

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        gradient, factors = inputs[0], len(inputs) - _paced(op) - 1
        return OpWork(
            macs=(self.macs_per_element(op) + factors) * gradient.elements,
            bytes_moved=bytes_of(*inputs) + 2 * len(op.updates) * bytes_of(gradient),
        )

    def macs_per_element(self, op: Op) -> int:
        """Multiply-accumulates to apply one element."""
        return self.macs + len(op.updates)

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        (name, *factor), _ = _apart(op, op.inputs)
        gradient, parameter = graph.by_name[name], graph.by_name[op.updates[0]]
        source = "update"
        extents: tuple[int, ...] = (gradient.elements,)
        if gradient.shape != parameter.shape:
            rows = gradient.shape[0]
            source = "update_rows"
            extents = (rows, gradient.elements // rows, parameter.elements // rows)
        return Kernel(
            source=source,
            function=f"poet_{source}_f32",
            arguments=(*extents, name, *(factor or [None]), *self.target(op)),
        )

    def target(self, op: Op) -> tuple[Constants | str | None, ...]:
        """The arguments that say what a gradient is applied to: constants, pace, and tensors."""
        _, pace = _apart(op, op.inputs)
        parameter, *states = op.updates
        total = states.pop() if "micro_batches" in op.attributes else None
        constants = Constants(
            sources=(self.struct.removeprefix("poet_"), "update"),
            struct=self.struct,
            member="update",
            fields=(
                ("update.step", f"{self.struct}_step_f32"),
                ("update.learning_rate", 0.0 if _paced(op) else op.number("learning_rate")),
                ("update.weight_decay", op.number("weight_decay")),
                ("update.clip_value", float(op.attributes.get("clip_value", 0.0))),  # type: ignore[arg-type]
                ("update.share", 1 / op.number("micro_batches") if total else 1.0),
                *self.fields(op),
            ),
        )
        return (constants, pace, parameter, *(*states, None, None)[:2], total)


class FusedUpdate(OpKind):
    """A gradient and an optimizer's update in one, to the same bits; the gradient is not stored.

    Inputs those of the gradient, and then the pace if the update has one; updates and attributes as
    the update's, and attributes of the gradient.
    """

    recomputable = False

    def __init__(self, gradient: OpKind, update: UpdateKind) -> None:
        """Join an operator that `streams` with an optimizer."""
        self.name = fused_name(gradient.name, update.name)
        self.gradient_kind = gradient
        self.update = update

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> None:
        paced = _paced(op)
        if paced:
            expect_floats(op, inputs[-1:], 1)
        gradient, kept = self._gradient(op), inputs[: len(inputs) - paced]
        self.gradient_kind.infer(gradient, kept)
        self.update.expect_update(op)

    def never_negative(self, op: Op) -> tuple[str, ...]:
        plain = self.gradient_kind.never_negative(self._gradient(op))
        return (*plain, *self.update.never_negative(op))

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> None:
        kept, pace = _apart(op, inputs)
        gradient = self.gradient_kind.compute(self._gradient(op), kept, ())
        assert gradient is not None
        self.update.apply(op, gradient, pace, updates)

    def error_bounds(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Bounds:
        kept, pace = _apart(op, inputs)
        plain = self._gradient(op)
        gradient = self.gradient_kind.compute(plain, kept, ())
        (error,) = self.gradient_kind.error_bounds(plain, kept, ())
        assert gradient is not None
        return self.update.apply_bounds(op, gradient, error, pace, updates)

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        kept = inputs[: len(inputs) - _paced(op)]
        plain = self._gradient(op)
        inferred = self.gradient_kind.infer(plain, kept)
        assert inferred is not None
        elements = math.prod(inferred[0])
        gradient = self.gradient_kind.work(plain, kept, None)
        return OpWork(
            macs=gradient.macs + self.update.macs_per_element(op) * elements,
            bytes_moved=gradient.bytes_moved
            + bytes_of(*inputs[len(kept) :])
            + 2 * len(op.updates) * elements * Dtype.F32.size_bytes,
        )

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        gradient = self.gradient_kind.kernel(self._gradient(op), graph)
        return replace(
            gradient,
            function=gradient.function.removesuffix("_f32") + "_update_f32",
            arguments=(*gradient.arguments[:-1], *self.update.target(op)),
        )

    def variants(self, op: Op, graph: Graph) -> tuple[str, ...]:
        return self.gradient_kind.variants(self._gradient(op), graph)

    def _gradient(self, op: Op) -> Op:
        """The op that would store the gradient."""
        kept, _ = _apart(op, op.inputs)
        return replace(
            op, kind=self.gradient_kind.name, inputs=tuple(kept), output="gradient", updates=()
        )


def fused_name(gradient: str, update: str) -> str:
    """The name of the op that joins a gradient's kind with an update's."""
    return f"{gradient}_{update}"


def register_fused_updates() -> None:
    """Register the fused update of every streaming gradient with every optimizer."""
    kinds = tuple(KINDS.values())
    for gradient in (kind for kind in kinds if kind.streams):
        for update in (kind for kind in kinds if isinstance(kind, UpdateKind)):
            fused = FusedUpdate(gradient, update)
            KINDS[fused.name] = fused


def is_update(op: Op) -> bool:
    """True if an op applies a gradient to a parameter, its first update, by an optimizer."""
    return isinstance(kind_of(op), UpdateKind | FusedUpdate)


def stores_gradient(op: Op) -> bool:
    """True if an op applies a gradient that is stored: its first input."""
    return isinstance(kind_of(op), UpdateKind)


def _part(gradient: Array) -> tuple[slice, ...]:
    """Elements of a parameter that a gradient is applied to: the first ones along each axis."""
    return tuple(slice(extent) for extent in gradient.shape)


def _paced(op: Op) -> int:
    return expect_integer(op, "paced", 1, 1) if "paced" in op.attributes else 0


def _apart(op: Op, inputs: Sequence[Any]) -> tuple[Sequence[Any], Any | None]:
    """The inputs of an op without the pace, and the pace, if there is one."""
    return (inputs[:-1], inputs[-1]) if _paced(op) else (inputs, None)


def _pace(op: Op, pace: Array | None, dtype: np.dtype[Any]) -> Array:
    return np.array([op.number("learning_rate")], dtype) if pace is None else pace


def _clipped(op: Op, gradient: Array) -> Array:
    if "clip_value" not in op.attributes:
        return gradient
    limit = gradient.dtype.type(op.number("clip_value"))
    clipped: Array = np.clip(gradient, -limit, limit)
    return clipped


def decayed(op: Op, gradient: Array, parameter: Array) -> Array:
    """The gradient with that of the weight decay: half its product with the parameter's square."""
    decay = parameter.dtype.type(op.number("weight_decay"))
    return gradient + decay * parameter if decay else gradient


def decayed_bound(op: Op, gradient: Array, error: Array, parameter: Array) -> tuple[Array, Array]:
    """The magnitudes that `decayed` adds up, and how far a device's sum may lie from theirs."""
    terms = np.abs(gradient) + op.number("weight_decay") * np.abs(parameter)
    return terms, gamma(3) * terms + (1 + gamma(3)) * error


def mean_square_bound(
    share: float, kept: float, terms: Array, error: Array, before: Array
) -> Array:
    """Error bound of a device's kept·before + share·gradient².

    Args:
        share: a constant, rounded by the device.
        kept: another.
        terms: the gradient's magnitude.
        error: how far the device's gradient may lie from it.
        before: what the sum of squares was, 0 or more.
    """
    moved = (2 * terms + error) * error
    return gamma(5) * (kept * before + share * terms**2) + (1 + gamma(5)) * share * moved


def ratio_bound(
    above: Array, above_error: Array, below: Array, below_error: Array, eps: float, scale: float
) -> Array:
    """Error bound of a device's above / (sqrt(scale · below) + eps).

    Args:
        above: the dividend.
        above_error: how far the device's may lie from it.
        below: what the root is taken of, 0 or more.
        below_error: how far the device's may lie from it.
        eps: what is added to the root.
        scale: exact, above 0.
    """
    exact = np.sqrt(scale * below) + eps
    least = np.sqrt(scale * np.maximum(below - below_error, 0)) * (1 - gamma(3)) + eps
    least = np.maximum(least * (1 - gamma(3)), SMALLEST_NORMAL)
    quotient = np.abs(above) / np.maximum(exact, SMALLEST_NORMAL)
    largest = (np.abs(above) + above_error) / least
    bound: Array = largest * (1 + gamma(3)) - quotient
    return bound
