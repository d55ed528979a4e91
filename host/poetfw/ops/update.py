# SPDX-License-Identifier: Apache-2.0
"""Interface of optimizers: state per parameter, and update of an element.

An optimizer consists of its settings (an `Optimizer` in `poetfw.optimizers`), a file in this folder
with its update (an `UpdateKind`), and a C file and header in `firmware_templates/kernels/` with its
step. Gradients that are applied without being stored need nothing more: `FusedUpdate` combines any
gradient with any optimizer, as the sink of `update.h` does in C.
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
    LETTERS,
    Array,
    Arrays,
    Axes,
    Bounds,
    Constants,
    Field,
    Kernel,
    OpKind,
    OpWork,
    TileTable,
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

    Inputs are the gradient, optionally its factor [1] and, if attribute `paced` is 1, the pace of
    the training step (`poetfw.ops.pace`). Updates the parameter and the optimizer's state, which
    begins as zeros. Attributes are `weight_decay`, optionally `clip_value`, `learning_rate` without
    a pace, and those of the optimizer.

    A gradient [O, k, ...] that is smaller than the parameter [O, C, ...] is that of its first k
    input channels; only these are updated. The state has the gradient's shape.

    With attribute `micro_batches`, the last updated tensor is the sum of gradients since the last
    update; only this tensor changes until the pace says that the batch is complete.
    """

    recomputable = False
    applies = True
    carries = (0,)
    struct: ClassVar[str]
    """Tag of the struct of constants, which begins with a `struct poet_update`: `poet_` and the
    name of the C file. The step function is `<struct>_step_f32`."""
    macs: ClassVar[int] = 1
    """Multiply-accumulates per element, in addition to one per updated tensor."""

    @abstractmethod
    def states(self, op: Op) -> tuple[str, ...]:
        """Names of the state tensors of a parameter, of the gradient's shape: none, one or two.

        Raises:
            ModelError: An attribute that determines them is missing or out of range.
        """

    @abstractmethod
    def expect(self, op: Op) -> None:
        """Check the attributes that are specific to this optimizer.

        Raises:
            ModelError: An attribute is missing or out of range.
        """

    @abstractmethod
    def step(self, op: Op, gradient: Array, pace: Array, updates: Sequence[Array]) -> None:
        """Change the parameter and the optimizer's state, in place.

        Args:
            op: op with the settings.
            gradient: scaled and clipped gradient.
            pace: learning rate, and corrections of moments, if any.
            updates: parameter and optimizer state.
        """

    @abstractmethod
    def bounds(
        self, op: Op, gradient: Array, error: Array, pace: Array, updates: Sequence[Array]
    ) -> tuple[Array, ...]:
        """Error bound of a device's updated tensors, against `step` in exact arithmetic.

        Args:
            op: op with the settings.
            gradient: exact gradient.
            error: error bound of the device's gradient.
            pace: the device's pace, or the learning rate in float64.
            updates: values before the op, in float64.
        """

    @abstractmethod
    def fields(self, op: Op) -> tuple[tuple[str, int | float], ...]:
        """Constants of `struct` after those that all optimizers share."""

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> None:
        expect_floats(op, inputs, 1 + _paced(op), 2 + _paced(op))
        for factor in inputs[1 : len(inputs) - _paced(op)]:
            expect_shape(op, factor, (1,))
        self.expect_update(op)

    def expect_update(self, op: Op) -> None:
        """Check an op's settings and its number of updated tensors.

        Raises:
            ModelError: A setting is missing or out of range, or the number of tensors is wrong.
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
        """Names of a parameter's state tensors: the optimizer's, and the sum of micro-batches."""
        return (*self.states(op), *(("gradient_sum",) if "micro_batches" in op.attributes else ()))

    def apply(self, op: Op, gradient: Array, pace: Array | None, updates: Sequence[Array]) -> None:
        """Apply a gradient to the parameter and its state, in place."""
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

    def carried(self, op: Op, inputs: Arrays, errors: Arrays, updates: Arrays) -> Bounds:
        (gradient, *factor), pace = _apart(op, inputs)
        scale = factor[0] if factor else 1.0
        return self.apply_bounds(op, scale * gradient, np.abs(scale) * errors[0], pace, updates)

    def axes(self, op: Op, inputs: Sequence[Tensor], results: Sequence[Tensor]) -> Axes | None:
        gradient, *rest = inputs
        if any(tensor.shape != gradient.shape for tensor in results):
            return None
        letters = LETTERS[: len(gradient.shape)]
        return Axes((letters, *(".",) * len(rest)), (letters,) * len(results))

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
        """Multiply-accumulates per applied element."""
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
            loops=tuple((extent,) for extent in extents[:2]),
        )

    def target(self, op: Op) -> tuple[Constants | str | None, ...]:
        """Arguments of the target of a gradient: constants, pace and tensors."""
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
    """Bit-identical fusion of a gradient and an optimizer's update, without storing the gradient.

    Inputs are those of the gradient, followed by the pace if the update has one; updated tensors
    are those of the update, and attributes those of both.
    """

    recomputable = False
    applies = True

    def __init__(self, gradient: OpKind, update: UpdateKind) -> None:
        """Combine an operator that `streams` with an optimizer."""
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

    def axes(self, op: Op, inputs: Sequence[Tensor], results: Sequence[Tensor]) -> Axes | None:
        paced = _paced(op)
        kept = inputs[: len(inputs) - paced]
        found = self.gradient_kind.axes(self._gradient(op), kept, results[:1])
        if found is None:
            return None
        return Axes((*found.inputs, *(".",) * paced), found.results * len(results))

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        gradient = self.gradient_kind.kernel(self._gradient(op), graph)
        return replace(
            gradient,
            function=gradient.function.removesuffix("_f32") + "_update_f32",
            arguments=(*gradient.arguments[:-1], *self.update.target(op)),
            fields=tuple((name, _applied(value)) for name, value in gradient.fields),
        )

    def _gradient(self, op: Op) -> Op:
        """Equivalent op that stores the gradient."""
        kept, _ = _apart(op, op.inputs)
        return replace(
            op, kind=self.gradient_kind.name, inputs=tuple(kept), output="gradient", updates=()
        )


def _applied(value: Field) -> Field:
    """A constant of a gradient's kernel where an update takes the gradient."""
    if isinstance(value, TileTable):
        return TileTable(replace(value.of, applied=True))
    return value


def fused_name(gradient: str, update: str) -> str:
    """Name of the operator that fuses a gradient's kind with an update's."""
    return f"{gradient}_{update}"


def register_fused_updates() -> None:
    """Register the fused update of every streaming gradient with every optimizer."""
    kinds = tuple(KINDS.values())
    for gradient in (kind for kind in kinds if kind.streams):
        for update in (kind for kind in kinds if isinstance(kind, UpdateKind)):
            fused = FusedUpdate(gradient, update)
            KINDS[fused.name] = fused


def is_update(op: Op) -> bool:
    """True if an op applies a gradient to a parameter, the first tensor in its `updates`."""
    return kind_of(op).applies


def stores_gradient(op: Op) -> bool:
    """True if an op applies a stored gradient, its first input."""
    return isinstance(kind_of(op), UpdateKind)


def _part(gradient: Array) -> tuple[slice, ...]:
    """Elements of a parameter to which a gradient is applied: the first ones along each axis."""
    return tuple(slice(extent) for extent in gradient.shape)


def _paced(op: Op) -> int:
    return expect_integer(op, "paced", 1, 1) if "paced" in op.attributes else 0


def _apart(op: Op, inputs: Sequence[Any]) -> tuple[Sequence[Any], Any | None]:
    """Inputs of an op without the pace, and the pace, if any."""
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
    """Gradient of the loss plus half the weight decay times the squared parameter."""
    decay = parameter.dtype.type(op.number("weight_decay"))
    return gradient + decay * parameter if decay else gradient


def decayed_bound(op: Op, gradient: Array, error: Array, parameter: Array) -> tuple[Array, Array]:
    """Sum of the magnitudes in `decayed`, and the error bound of a device's sum."""
    terms = np.abs(gradient) + op.number("weight_decay") * np.abs(parameter)
    return terms, gamma(3) * terms + (1 + gamma(3)) * error


def mean_square_bound(
    share: float, kept: float, terms: Array, error: Array, before: Array
) -> Array:
    """Error bound of a device's kept·before + share·gradient².

    Args:
        share: a constant, rounded by the device.
        kept: a constant, rounded by the device.
        terms: magnitude of the gradient.
        error: error bound of the device's gradient.
        before: previous sum of squares, 0 or more.
    """
    moved = (2 * terms + error) * error
    return gamma(5) * (kept * before + share * terms**2) + (1 + gamma(5)) * share * moved


def ratio_bound(
    above: Array, above_error: Array, below: Array, below_error: Array, eps: float, scale: float
) -> Array:
    """Error bound of a device's above / (sqrt(scale · below) + eps).

    Args:
        above: dividend.
        above_error: error bound of the device's dividend.
        below: radicand before scaling, 0 or more.
        below_error: error bound of the device's value of it.
        eps: number added to the root.
        scale: exact factor, above 0.
    """
    exact = np.sqrt(scale * below) + eps
    least = np.sqrt(scale * np.maximum(below - below_error, 0)) * (1 - gamma(3)) + eps
    least = np.maximum(least * (1 - gamma(3)), SMALLEST_NORMAL)
    quotient = np.abs(above) / np.maximum(exact, SMALLEST_NORMAL)
    largest = (np.abs(above) + above_error) / least
    bound: Array = largest * (1 + gamma(3)) - quotient
    return bound
