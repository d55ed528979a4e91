# SPDX-License-Identifier: Apache-2.0
"""Normalisation of layers, of groups of channels, of instances: inference, training, gradients.

Ba, Kiros, Hinton, 2016; Wu and He, 2018; Ulyanov, Vedaldi, Lempitsky, 2016.

A model holds the inference form, `layer_norm`. In training it becomes two ops, so that the schedule
may keep the statistics, which are small, and compute the output again from them:

1. `layer_norm_statistics`: mean and variance of each row.
2. `layer_norm_normalize`: the output. Its gradient rule covers the path through the statistics
   too, so `layer_norm_statistics` needs none.

x is seen as [samples, groups, channels, inner], where attribute `groups` says into how many groups
the channels are divided, `inner` how many elements a channel has, and affine [2, groups · channels]
how many channels there are. A row is what one sample has in one group. A layer's norm over the last
axis has one group, and channels of one element. Pairs are one tensor: affine holds (gamma, beta),
statistics [2, rows] hold (mean, variance).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from poetfw.common.errors import ModelError
from poetfw.ir import Attribute, Dtype, Graph, Op, Tensor
from poetfw.ops.base import (
    Array,
    Axes,
    Bounds,
    Kernel,
    OpKind,
    OpWork,
    Shape,
    Tape,
    bytes_of,
    expect_floats,
    expect_integer,
    expect_number,
    expect_shape,
    register,
)
from poetfw.ops.rounding import SMALLEST_NORMAL, gamma

_RUN = 32
"""Elements that a kernel adds up before it adds up their sums."""


def _seen(op: Op, x: Array) -> Array:
    """X as [samples, groups, channels, inner]."""
    groups, channels, inner = (op.integer(name) for name in ("groups", "channels", "inner"))
    return x.reshape(-1, groups, channels // groups, inner)


def _pair(op: Op, pair: Array) -> tuple[Array, Array]:
    """Scale and shift, to be broadcast over [samples, groups, channels, inner]."""
    groups, channels = op.integer("groups"), op.integer("channels")
    scale, shift = pair.reshape(2, 1, groups, channels // groups, 1)
    return scale, shift


def _statistics(op: Op, x: Array) -> Array:
    seen = _seen(op, x)
    return np.stack([seen.mean(axis=(2, 3)).reshape(-1), seen.var(axis=(2, 3)).reshape(-1)])


def _centred(op: Op, x: Array, statistics: Array) -> tuple[Array, Array]:
    """X - mean, seen, and 1 / sqrt(variance + eps) to broadcast over it."""
    seen = _seen(op, x)
    mean, variance = statistics.reshape(2, *seen.shape[:2], 1, 1)
    return seen - mean, 1 / np.sqrt(variance + x.dtype.type(op.number("eps")))


class _OverRows(OpKind):
    """Shared by the ops of this family: each looks at x, the first input."""

    others: ClassVar[tuple[str, ...]]
    """Inputs after x: "statistics", "affine" or "dy"."""
    passes: ClassVar[int]
    """Number of times it reads each element."""
    function: ClassVar[str]

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_floats(op, inputs, 1 + len(self.others))
        x = inputs[0]
        channels = expect_integer(op, "channels", 1)
        groups, inner = expect_integer(op, "groups", 1), expect_integer(op, "inner", 1)
        if channels % groups or x.elements % (channels * inner):
            raise ModelError(
                f"op {op.name!r} ({op.kind}) cannot see {x.name!r} of shape {list(x.shape)} as "
                f"{channels} channels of {inner} elements, in {groups} groups"
            )
        rows = x.elements // (channels * inner) * groups
        shapes = {"statistics": (2, rows), "affine": (2, channels), "dy": x.shape}
        for tensor, what in zip(inputs[1:], self.others, strict=True):
            expect_shape(op, tensor, shapes[what])
        expect_number(op, "eps", 0)
        return {"y": x.shape, **shapes}[self.result()], Dtype.F32

    def result(self) -> str:
        """The kind of the output: "y", "statistics" or "affine"."""
        return "y"

    def axes(self, op: Op, inputs: Sequence[Tensor], results: Sequence[Tensor]) -> Axes | None:
        shape = inputs[0].shape
        leading = [axis for axis, extent in enumerate(shape[:-1]) if extent > 1]
        over_last = op.integer("groups") == op.integer("inner") == 1
        if not over_last or shape[-1] != op.integer("channels") or len(leading) > 1:
            return None
        x = ["."] * len(shape)
        if self.result() == "affine":  # sums over all rows
            x[-1] = "d"
            found = {"y": "".join(x), "dy": "".join(x), "statistics": "..", "affine": ".d"}
        else:
            for axis in leading:
                x[axis] = "t"
            rows = "t" if leading else "."
            found = {"y": "".join(x), "dy": "".join(x), "statistics": f".{rows}", "affine": ".."}
        return Axes((found["y"], *(found[what] for what in self.others)), (found[self.result()],))

    def piece_attributes(self, op: Op, whole: Tensor, piece: Tensor) -> dict[str, Attribute]:
        return {"channels": piece.shape[-1]} if self.result() == "affine" else {}

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        return OpWork(self.passes * inputs[0].elements, bytes_of(*inputs, output))

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        groups, channels, inner = (op.integer(name) for name in ("groups", "channels", "inner"))
        return Kernel(
            source="layer_norm",
            function=f"poet_layer_norm_{self.function}_f32",
            arguments=(*op.inputs, op.output),
            struct="poet_layer_norm",
            fields=(
                ("samples", graph.by_name[op.inputs[0]].elements // (channels * inner)),
                ("groups", groups),
                ("channels", channels // groups),
                ("inner", inner),
                ("eps", op.number("eps")),
            ),
        )


def _additions(op: Op) -> int:
    """Additions that an element goes through where a kernel adds up a row."""
    length = op.integer("channels") // op.integer("groups") * op.integer("inner")
    return min(length, _RUN) + -(-length // _RUN)


def _statistics_bound(op: Op, x: Array) -> Array:
    """Error bound of the kernel's statistics.

    Around a mean that is off by e, the mean square is larger by e². Of each term: two differences,
    the product, the sums, the number and the division.
    """
    seen = _seen(op, x)
    additions = _additions(op)
    in_mean = gamma(additions + 2) * np.abs(seen).mean(axis=(2, 3)).reshape(-1)
    squares = _statistics(op, x)[1] + in_mean**2
    return np.stack([in_mean, in_mean**2 + gamma(additions + 5) * squares]) + SMALLEST_NORMAL


def _normalize(op: Op, x: Array, statistics: Array, affine: Array) -> Array:
    centred, inverse = _centred(op, x, statistics)
    scale, shift = _pair(op, affine)
    y: Array = scale * (centred * inverse) + shift
    return y.reshape(x.shape)


def _normalize_bound(op: Op, x: Array, statistics: Array, affine: Array) -> Array:
    """Error bound of the kernel's y.

    Of the product: eps, its sum and the root count 2, the division, centring, two products and the
    sum 1 each. Of the shift: the sum.
    """
    centred, inverse = _centred(op, x, statistics)
    scale, shift = _pair(op, affine)
    product = np.abs(scale * centred * inverse)
    bound: Array = gamma(7) * product + gamma(1) * np.abs(shift) + SMALLEST_NORMAL
    return bound.reshape(x.shape)


@register
class LayerNorm(_OverRows):
    """The inference form. Inputs x, affine; attributes `eps`, `groups`, `channels`, `inner`.

    y = gamma · (x - mean) / sqrt(variance + eps) + beta, by each row's mean and biased variance.
    """

    name = "layer_norm"
    in_place = (0,)
    others = ("affine",)
    passes = 4
    function = "inference"

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        x, affine = inputs
        return _normalize(op, x, _statistics(op, x), affine)

    def error_bounds(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Bounds:
        # What the statistics are off by moves the result: by the mean's error, and by half of the
        # variance's relative one.
        x, affine = inputs
        statistics = _statistics(op, x)
        in_mean, in_variance = _statistics_bound(op, x).reshape(2, *_seen(op, x).shape[:2], 1, 1)
        centred, inverse = _centred(op, x, statistics)
        scale, _ = _pair(op, affine)
        moved = np.abs(scale * inverse) * (
            in_mean + (np.abs(centred) + in_mean) * in_variance * inverse**2
        )
        return (_normalize_bound(op, x, statistics, affine) + 1.01 * moved.reshape(x.shape),)

    def training_form(self, op: Op, tape: Tape) -> None:
        x, affine = op.inputs
        name = f"{op.name}.statistics"
        statistics = tape.emit("layer_norm_statistics", name, (x,), op.attributes)
        tape.emit(
            "layer_norm_normalize",
            op.name,
            (x, statistics, affine),
            op.attributes,
            output=op.output,
        )


@register
class LayerNormStatistics(_OverRows):
    """Input x; output [2, rows]: mean and biased variance of each row, in two passes."""

    name = "layer_norm_statistics"
    summarizes = True
    others = ()
    passes = 2
    function = "statistics"

    def result(self) -> str:
        return "statistics"

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        return _statistics(op, inputs[0])

    def error_bounds(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Bounds:
        return (_statistics_bound(op, inputs[0]),)

    def gradient(self, op: Op, tape: Tape, output_gradient: str) -> None:
        raise AssertionError("layer_norm_normalize's gradient covers the statistics")


@register
class LayerNormNormalize(_OverRows):
    """Inputs x, statistics, affine; attributes and y as in inference."""

    name = "layer_norm_normalize"
    positive = (1,)
    in_place = (0,)
    others = ("statistics", "affine")
    passes = 2
    function = "normalize"

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        return _normalize(op, *inputs)

    def error_bounds(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Bounds:
        return (_normalize_bound(op, *inputs),)

    def gradient(self, op: Op, tape: Tape, output_gradient: str) -> None:
        x, statistics, affine = op.inputs
        if tape.needs_gradient(affine):
            daffine = tape.emit(
                "layer_norm_backward_affine",
                f"{op.name}.backward_affine",
                (x, statistics, output_gradient),
                op.attributes,
            )
            tape.add_gradient(affine, daffine)
        if tape.needs_gradient(x):
            dx = tape.emit(
                "layer_norm_backward_input",
                f"{op.name}.backward_input",
                (x, statistics, affine, output_gradient),
                op.attributes,
            )
            tape.add_gradient(x, dx)


@register
class LayerNormBackwardAffine(_OverRows):
    """Inputs x, statistics, dy; output [2, channels]: Σ dy·x̂ and Σ dy over samples and inner."""

    name = "layer_norm_backward_affine"
    positive = (1,)
    others = ("statistics", "dy")
    passes = 3
    function = "backward_affine"

    def result(self) -> str:
        return "affine"

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        x, statistics, dy = inputs
        centred, inverse = _centred(op, x, statistics)
        seen = _seen(op, dy)
        sums = [(seen * centred * inverse).sum(axis=(0, 3)), seen.sum(axis=(0, 3))]
        return np.stack([total.reshape(-1) for total in sums])

    def error_bounds(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Bounds:
        # of the first: centring, two products, the sums, the division; eps, sum and root count 2
        x, statistics, dy = inputs
        centred, inverse = _centred(op, x, statistics)
        terms = np.abs(_seen(op, dy))
        additions = terms.shape[0] + terms.shape[3]
        first = gamma(additions + 6) * (terms * np.abs(centred) * inverse).sum(axis=(0, 3))
        second = gamma(additions) * terms.sum(axis=(0, 3))
        return (np.stack([first.reshape(-1), second.reshape(-1)]) + SMALLEST_NORMAL,)


@register
class LayerNormBackwardInput(_OverRows):
    """Inputs x, statistics, affine, dy.

    With g = gamma·dy and means over the row, dx = (g - mean(g) - x̂ · mean(g·x̂)) /
    sqrt(variance + eps).
    """

    name = "layer_norm_backward_input"
    positive = (1,)
    in_place = (0, 3)
    others = ("statistics", "affine", "dy")
    passes = 6
    function = "backward_input"

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        x, statistics, affine, dy = inputs
        centred, inverse = _centred(op, x, statistics)
        normalized = centred * inverse
        g = _pair(op, affine)[0] * _seen(op, dy)
        along = (g * normalized).mean(axis=(2, 3), keepdims=True)
        dx: Array = inverse * (g - g.mean(axis=(2, 3), keepdims=True) - normalized * along)
        return dx.reshape(x.shape)

    def error_bounds(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Bounds:
        # The factor counts 4 (root 2, division, product). Of g: a product, two differences. Of its
        # mean: the sums, the number, the division, the differences. Of the last term: x̂ twice.
        x, statistics, affine, dy = inputs
        centred, inverse = _centred(op, x, statistics)
        normalized = np.abs(centred * inverse)
        g = np.abs(_pair(op, affine)[0] * _seen(op, dy))
        additions = g.shape[2] + g.shape[3]
        mean = g.mean(axis=(2, 3), keepdims=True)
        along = (g * normalized).mean(axis=(2, 3), keepdims=True)
        terms = (
            gamma(7) * g + gamma(additions + 9) * mean + gamma(additions + 18) * normalized * along
        )
        bound: Array = inverse * terms + SMALLEST_NORMAL
        return (bound.reshape(x.shape),)
