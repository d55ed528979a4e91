# SPDX-License-Identifier: Apache-2.0
"""Batch normalisation (Ioffe and Szegedy, 2015): inference, training and gradients.

A model holds the inference form, `batch_norm`. In training it becomes three ops:

1. `batch_norm_statistics`: mean and variance of the batch. It may be computed again.
2. `batch_norm_update_running`: folds them into the running statistics. It may not, so that the
   running statistics move exactly once per step, whatever the schedule computes again.
3. `batch_norm_normalize`: the output. Its gradient rule covers the path through the statistics
   too, so `batch_norm_statistics` needs none.

Every pair of per-channel values is one tensor [2, C]: affine (gamma, beta), running and batch
statistics (mean, variance), gradient of affine. Images [N, C, H, W] and vectors [N, C] work alike.

With the attribute `frozen` it is one op in training, too: it normalises with the running
statistics, which stay as they are, as PyTorch does in evaluation mode. Its gradients are those of
an affine map.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from poetfw.common.errors import ModelError
from poetfw.ir import Dtype, Graph, Op, Tensor
from poetfw.ops.base import (
    Array,
    Arrays,
    Axes,
    Bounds,
    Kernel,
    Loops,
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


def _image(shape: Shape) -> Shape:
    """The shape as N, C, H, W."""
    return shape if len(shape) == 4 else (*shape, 1, 1)


def _walked(shape: Shape) -> Shape:
    """The extents that a kernel is given: a single channel's planes are one, in the same order."""
    batch, channels, height, width = _image(shape)
    return (1, 1, batch * height, width) if channels == 1 else (batch, channels, height, width)


_BURST = 8
"""Elements that kernels load at once."""
_WIDE = (32, 16)
"""Elements that normalising kernels take at a time, of planes of a multiple of the last."""


def _count(shape: Shape) -> int:
    """Elements per channel."""
    batch, _, height, width = _image(shape)
    return batch * height * width


def _per_channel(pair: Array, rank: int) -> tuple[Array, Array]:
    """The rows of [2, C], each broadcasting over a tensor of this rank."""
    shape = (1, -1) + (1,) * (rank - 2)
    return pair[0].reshape(shape), pair[1].reshape(shape)


def _additions(shape: Shape) -> int:
    """Additions that an element goes through where a kernel adds up a channel: by rows first."""
    batch, _, height, width = _image(shape)
    return (width - 1) + (batch * height - 1)


def _channel_sum(x: Array) -> Array:
    """The sum over all axes but C, [C]."""
    total: Array = x.sum(axis=(0, 2, 3) if x.ndim == 4 else 0)
    return total


def _centred(x: Array, statistics: Array, eps: float) -> tuple[Array, Array]:
    """Centre: x minus its channel's mean, and 1 / sqrt(variance + eps) to broadcast over it."""
    mean, variance = _per_channel(statistics, x.ndim)
    return x - mean, 1 / np.sqrt(variance + x.dtype.type(eps))


class _OverImage(OpKind):
    """Shared by the ops that pass over x."""

    function: ClassVar[str]
    pairs: ClassVar[tuple[int, ...]]
    """Positions of the inputs of shape [2, C]."""
    images: ClassVar[tuple[int, ...]]
    """Positions of the inputs of x's shape; the first is x."""
    passes: ClassVar[int]
    """Number of times it reads each element."""
    is_wide: ClassVar[bool] = False
    """True if the kernel normalises."""
    by_element: ClassVar[bool] = False
    """True if an element of the output depends on pairs and on the same elements of images only."""

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_floats(op, inputs, len(self.pairs) + len(self.images))
        shape = inputs[self.images[0]].shape
        if len(shape) not in (2, 4):
            raise ModelError(
                f"op {op.name!r} ({op.kind}) needs {inputs[self.images[0]].name!r} to have 2 or 4 "
                f"axes, but its shape is {list(shape)}"
            )
        for position in self.pairs:
            expect_shape(op, inputs[position], (2, shape[1]))
        for position in self.images:
            expect_shape(op, inputs[position], shape)
        self.check(op)
        return self.result(shape), Dtype.F32

    def check(self, op: Op) -> None:
        """Check the attributes."""
        expect_number(op, "eps", 0)

    def result(self, shape: Shape) -> Shape:
        """Shape of the output, from that of x."""
        return shape

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        return OpWork(
            macs=self.passes * inputs[self.images[0]].elements,
            bytes_moved=bytes_of(*inputs, output),
        )

    def axes(self, op: Op, inputs: Sequence[Tensor], results: Sequence[Tensor]) -> Axes | None:
        by_rank = {2: ".c", 4: "ncr." if self.by_element else ".c.."}
        return Axes(
            tuple(by_rank[len(tensor.shape)] for tensor in inputs),
            tuple(by_rank[len(tensor.shape)] for tensor in results),
        )

    def is_small(self, extents: Shape) -> bool:
        """True if planes take less one element after the other, as measured: without a burst."""
        return extents[2] * extents[3] < _BURST

    def named(self, extents: Shape) -> tuple[str, str]:
        """The C file and the function for x of these extents."""
        source = "batch_norm_small" if self.is_small(extents) else "batch_norm"
        return source, f"poet_{source}_{self.function}_f32"

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        extents = _walked(graph.by_name[op.inputs[self.images[0]]].shape)
        source, function = self.named(extents)
        return Kernel(
            source=source,
            function=function,
            arguments=(*op.inputs, op.output),
            struct="poet_batch_norm",
            fields=(
                *zip(("batch", "channels", "height", "width"), extents, strict=True),
                ("eps", op.number("eps")),
            ),
            divided=(
                ("POET_BATCH_NORM_PLANE", extents[2] * extents[3]),
                ("POET_BATCH_NORM_WIDTH", extents[3]),
            ),
            loops=self.loops(*extents),
        )

    def loops(self, batch: int, channels: int, height: int, width: int) -> Loops:
        """Loops of the kernel, by planes."""
        plane = height * width
        wide = self.is_wide and plane % _WIDE[-1] == 0
        return (channels,), (batch,), (plane, *(_WIDE if wide else (_BURST,)))


@register
class BatchNorm(_OverImage):
    """The inference form. Inputs x, affine, running; attributes `eps`, `momentum`, `frozen`.

    y = gamma · (x - mean) / sqrt(variance + eps) + beta, with the running statistics. Momentum
    is the weight of a new batch, as in PyTorch: running ← (1 - m) · running + m · batch.
    """

    name = "batch_norm"
    by_element = True
    positive = (2,)
    in_place = (0,)
    function = "inference"
    is_wide = True
    images = (0,)
    pairs = (1, 2)
    passes = 2

    def check(self, op: Op) -> None:
        super().check(op)
        expect_number(op, "momentum", 0, 1)
        if "frozen" in op.attributes:
            expect_integer(op, "frozen", 0, 1)

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        x, affine, running = inputs
        return _normalize(x, running, affine, op.number("eps"))

    def error_bounds(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Bounds:
        x, affine, running = inputs
        return _normalize_bound(x, running, affine, op.number("eps"))

    def training_form(self, op: Op, tape: Tape) -> None:
        if op.attributes.get("frozen"):
            super().training_form(op, tape)
            return
        x, affine, running = op.inputs
        statistics = tape.emit("batch_norm_statistics", f"{op.name}.statistics", (x,))
        tape.emit(
            "batch_norm_update_running",
            f"{op.name}.update_running",
            (statistics,),
            {"momentum": op.number("momentum"), "count": _count(tape.shape(x))},
            updates=(running,),
        )
        tape.emit(
            "batch_norm_normalize",
            op.name,
            (x, statistics, affine),
            {"eps": op.number("eps")},
            output=op.output,
        )

    def gradient(self, op: Op, tape: Tape, output_gradient: str) -> None:
        x, affine, running = op.inputs
        eps = {"eps": op.number("eps")}
        if tape.needs_gradient(affine):
            name = f"{op.name}.backward_affine"
            inputs = (x, running, output_gradient)
            tape.add_gradient(affine, tape.emit("batch_norm_backward_affine", name, inputs, eps))
        if tape.needs_gradient(x):
            name = f"{op.name}.backward_input"
            inputs = (output_gradient, affine, running)
            tape.add_gradient(x, tape.emit("batch_norm_backward_frozen", name, inputs, eps))


@register
class BatchNormBackwardFrozen(_OverImage):
    """Inputs dy, affine, running; attribute `eps`; dx = dy · gamma / sqrt(variance + eps)."""

    name = "batch_norm_backward_frozen"
    by_element = True
    positive = (2,)
    in_place = (0,)
    function = "backward"
    images = (0,)
    pairs = (1, 2)
    passes = 1

    def named(self, extents: Shape) -> tuple[str, str]:
        return "batch_norm_frozen", "poet_batch_norm_frozen_backward_f32"

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        dy, affine, running = inputs
        scale, _ = _per_channel(affine, dy.ndim)
        _, inverse = _centred(dy, running, op.number("eps"))
        dx: Array = dy * (scale * inverse)
        return dx

    def error_bounds(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Bounds:
        # eps, its sum and the root count 2, the division and the product 1 each
        return (gamma(4) * np.abs(self.compute(op, inputs, updates)) + SMALLEST_NORMAL,)


def _normalize(x: Array, statistics: Array, affine: Array, eps: float) -> Array:
    centred, inverse = _centred(x, statistics, eps)
    scale, beta = _per_channel(affine, x.ndim)
    y: Array = centred * (scale * inverse) + beta
    return y


def _normalize_bound(x: Array, statistics: Array, affine: Array, eps: float) -> tuple[Array, ...]:
    """Error bound of the kernel's y.

    Of the product: eps, its sum and the root count 2, the division, centring, the product and the
    sum 1 each. Of beta: the sum.
    """
    centred, inverse = _centred(x, statistics, eps)
    scale, beta = _per_channel(affine, x.ndim)
    product = np.abs(centred * (scale * inverse))
    return (gamma(6) * product + gamma(1) * np.abs(beta) + SMALLEST_NORMAL,)


@register
class BatchNormStatistics(_OverImage):
    """Input x; output [2, C]: mean and biased variance over all axes but C, in two passes."""

    name = "batch_norm_statistics"
    summarizes = True
    function = "statistics"
    images = (0,)
    pairs = ()
    passes = 2

    def check(self, op: Op) -> None:
        pass

    def is_small(self, extents: Shape) -> bool:
        batch, channels, height, width = extents
        one_row = batch * height == 1 and (channels == 1 or width == 1)
        odd_column = width == 1 and height > 1 and height % 2 == 1
        # others are summed by pairs of rows
        return (one_row or odd_column) and super().is_small(extents)

    def result(self, shape: Shape) -> Shape:
        return (2, shape[1])

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        (x,) = inputs
        axes = (0, 2, 3) if x.ndim == 4 else 0
        return np.stack([x.mean(axis=axes), x.var(axis=axes)])

    def error_bounds(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Bounds:
        # Around a mean that is off by e, the mean square is larger by e². Of each term: two
        # differences, the product, the sums, the number and the division.
        (x,) = inputs
        additions = _additions(x.shape)
        in_mean = gamma(additions + 2) * _channel_sum(np.abs(x)) / _count(x.shape)
        squares = self.compute(op, inputs, updates)[1] + in_mean**2
        in_variance = in_mean**2 + gamma(additions + 5) * squares
        return (np.stack([in_mean, in_variance]) + SMALLEST_NORMAL,)

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        extents = _walked(graph.by_name[op.inputs[0]].shape)
        source, function = self.named(extents)
        return Kernel(
            source=source,
            function=function,
            arguments=(*op.inputs, op.output),
            struct="poet_batch_norm_statistics",
            fields=tuple(zip(("batch", "channels", "height", "width"), extents, strict=True)),
            divided=(
                ("POET_BATCH_NORM_ROWS", extents[2]),
                ("POET_BATCH_NORM_WIDTH", extents[3]),
            ),
            loops=self.loops(*extents),
        )

    def loops(self, batch: int, channels: int, height: int, width: int) -> Loops:
        if height == 1:  # then rows are those of all samples
            batch, height = 1, batch
        return (channels,), (batch,), (height, 2), (width, 16, _BURST, 4, 2)

    def gradient(self, op: Op, tape: Tape, output_gradient: str) -> None:
        raise AssertionError("batch_norm_normalize's gradient covers the statistics")


@register
class BatchNormUpdateRunning(OpKind):
    """Input statistics [2, C]; updates running [2, C]; attributes `momentum`, `count`.

    running ← (1 - momentum) · running + momentum · batch, with the unbiased variance, that is
    the biased one · count / (count - 1), where count is the number of elements per channel.
    """

    name = "batch_norm_update_running"
    recomputable = False

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> None:
        expect_floats(op, inputs, 1)
        expect_shape(op, inputs[0], (2, *inputs[0].shape[1:2]))
        expect_number(op, "momentum", 0, 1)
        if expect_integer(op, "count", 1) < 2:
            raise ModelError(
                f"op {op.name!r} ({op.kind}) has one value per channel, which has no variance",
                "train with a larger batch",
            )

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> None:
        (statistics,) = inputs
        (running,) = updates
        momentum = running.dtype.type(op.number("momentum"))
        count = op.integer("count")
        batch = np.stack([statistics[0], statistics[1] * count / (count - 1)])
        running[...] = (1 - momentum) * running + momentum * batch

    def error_bounds(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Bounds:
        # Of running: the momentum, its distance to 1, the product and the sum, none of a factor
        # above 1. Of the batch's: the momentum, the ratio of counts, two products and the sum.
        (statistics,) = inputs
        (running,) = updates
        count = op.integer("count")
        batch = np.stack([statistics[0], statistics[1] * count / (count - 1)])
        terms = gamma(4) * np.abs(running) + gamma(7) * op.number("momentum") * np.abs(batch)
        return (terms + SMALLEST_NORMAL,)

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        return OpWork(macs=2 * inputs[0].elements, bytes_moved=3 * bytes_of(*inputs))

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        return Kernel(
            source="batch_norm",
            function="poet_batch_norm_update_running_f32",
            arguments=(*op.inputs, *op.updates),
            struct="poet_batch_norm_running",
            fields=(
                ("channels", graph.by_name[op.inputs[0]].shape[1]),
                ("count", op.integer("count")),
                ("momentum", op.number("momentum")),
            ),
        )


@register
class BatchNormNormalize(_OverImage):
    """Inputs x, statistics, affine; attribute `eps`; y as in inference, by batch statistics."""

    name = "batch_norm_normalize"
    by_element = True
    positive = (1,)
    in_place = (0,)
    function = "normalize"
    is_wide = True
    images = (0,)
    pairs = (1, 2)
    passes = 2

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        x, statistics, affine = inputs
        return _normalize(x, statistics, affine, op.number("eps"))

    def error_bounds(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Bounds:
        x, statistics, affine = inputs
        return _normalize_bound(x, statistics, affine, op.number("eps"))

    def gradient(self, op: Op, tape: Tape, output_gradient: str) -> None:
        x, statistics, affine = op.inputs
        if not (tape.needs_gradient(x) or tape.needs_gradient(affine)):
            return
        daffine = tape.emit(
            "batch_norm_backward_affine",
            f"{op.name}.backward_affine",
            (x, statistics, output_gradient),
            op.attributes,
        )
        if tape.needs_gradient(affine):
            tape.add_gradient(affine, daffine)
        if tape.needs_gradient(x):
            dx = tape.emit(
                "batch_norm_backward_input",
                f"{op.name}.backward_input",
                (x, statistics, affine, daffine, output_gradient),
                op.attributes,
            )
            tape.add_gradient(x, dx)


@register
class BatchNormBackwardAffine(_OverImage):
    """Inputs x, statistics, dy; attribute `eps`; output [2, C]: dgamma = Σ dy·x̂ and dbeta = Σ dy.

    x̂ = (x - mean) / sqrt(variance + eps); the sums run over all axes but C.
    """

    name = "batch_norm_backward_affine"
    carries = (2,)
    positive = (1,)
    function = "backward_affine"
    images = (0, 2)
    pairs = (1,)
    passes = 2

    def result(self, shape: Shape) -> Shape:
        return (2, shape[1])

    def is_small(self, extents: Shape) -> bool:
        short = extents[3] < 4 or extents[:3] == (1, 1, 1)  # other rows are taken by fours
        return short and super().is_small(extents)

    def loops(self, batch: int, channels: int, height: int, width: int) -> Loops:
        return (channels,), (batch,), (height,), (width, _BURST, 4)

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        x, statistics, dy = inputs
        centred, inverse = _centred(x, statistics, op.number("eps"))
        return np.stack([_channel_sum(dy * centred) * inverse.reshape(-1), _channel_sum(dy)])

    def carried(self, op: Op, inputs: Arrays, errors: Arrays, updates: Arrays) -> Bounds:
        x, statistics, _ = inputs
        centred, inverse = _centred(x, statistics, op.number("eps"))
        of_dgamma = _channel_sum(errors[2] * np.abs(centred)) * inverse.reshape(-1)
        return (np.stack([of_dgamma, _channel_sum(errors[2])]),)

    def error_bounds(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Bounds:
        # of dgamma: centring, the product, the sums; eps, its sum and root count 2; the division
        x, statistics, dy = inputs
        centred, inverse = _centred(x, statistics, op.number("eps"))
        additions = _additions(x.shape)
        in_dgamma = gamma(additions + 5) * _channel_sum(np.abs(dy * centred)) * inverse.reshape(-1)
        in_dbeta = gamma(additions) * _channel_sum(np.abs(dy))
        return (np.stack([in_dgamma, in_dbeta]) + SMALLEST_NORMAL,)


@register
class BatchNormBackwardInput(_OverImage):
    """Inputs x, statistics, affine, gradient of affine, dy; attribute `eps`.

    dx = gamma / sqrt(variance + eps) · (dy - dbeta/M - x̂ · dgamma/M), M elements per channel.
    """

    name = "batch_norm_backward_input"
    carries = (3, 4)
    positive = (1,)
    in_place = (0, 4)
    function = "backward_input"
    images = (0, 4)
    pairs = (1, 2, 3)
    passes = 4

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        x, statistics, affine, daffine, dy = inputs
        centred, inverse = _centred(x, statistics, op.number("eps"))
        scale, _ = _per_channel(affine, x.ndim)
        dgamma, dbeta = _per_channel(daffine, x.ndim)
        count = _count(x.shape)
        return scale * inverse * (dy - dbeta / count - centred * (inverse * dgamma / count))

    def carried(self, op: Op, inputs: Arrays, errors: Arrays, updates: Arrays) -> Bounds:
        x, statistics, affine, *_ = inputs
        centred, inverse = _centred(x, statistics, op.number("eps"))
        scale, _ = _per_channel(affine, x.ndim)
        of_dgamma, of_dbeta = _per_channel(errors[3], x.ndim)
        slope = np.abs(centred) * inverse * of_dgamma
        return (np.abs(scale) * inverse * (errors[4] + (of_dbeta + slope) / _count(x.shape)),)

    def error_bounds(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Bounds:
        # The scale counts 3 (deviation 2, division 1), its product 1. Of dy: two differences. Of
        # offset: the number, the division, two differences. Of the slope: deviation 2, two
        # divisions, the number, centring, the product, a difference.
        x, statistics, affine, daffine, dy = inputs
        centred, inverse = _centred(x, statistics, op.number("eps"))
        scale, _ = _per_channel(affine, x.ndim)
        dgamma, dbeta = _per_channel(daffine, x.ndim)
        count = _count(x.shape)
        terms = (
            gamma(6) * np.abs(dy)
            + gamma(8) * np.abs(dbeta) / count
            + gamma(12) * np.abs(centred * (inverse * dgamma / count))
        )
        return (np.abs(scale * inverse) * terms + SMALLEST_NORMAL,)
