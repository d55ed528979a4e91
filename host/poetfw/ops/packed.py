# SPDX-License-Identifier: Apache-2.0
"""Convolutions and linear layers with frozen weights in formats smaller than a float.

Formats: `float16`, IEEE 754 halves; `int8`, symmetric by output channel (Jacob et al., CVPR 2018,
section 2.1, without zero points): weight = byte · scale of its output channel. Words of 32 bits
hold two halves or four bytes, the first in the lowest bits.

A layer with packed weights is computed in slices of output channels: the weights of a slice are
unpacked to floats in a workspace, and the layer's own kernel computes the slice. Sums have the same
order, so results are bit-identical to those of the layer with unpacked weights.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from poetfw.common.errors import ModelError
from poetfw.ir import Attribute, Dtype, Graph, Op, Role, Tensor
from poetfw.ops.base import (
    KINDS,
    Array,
    Axes,
    Bounds,
    Kernel,
    OpKind,
    OpWork,
    Parts,
    RowWindow,
    Shape,
    bytes_of,
    expect_dtype,
    expect_inputs,
    expect_integers,
    expect_shape,
    infer_output,
    kind_of,
    register,
)
from poetfw.ops.bit_fields import words_of_fields
from poetfw.ops.linear import RESULT_ROW
from poetfw.ops.rounding import SMALLEST_NORMAL, gamma, magnitude

INT8, FLOAT16 = "int8", "float16"
FORMATS = (FLOAT16, INT8)
BYTES = {FLOAT16: 2, INT8: 1}
"""Bytes of a weight, by format."""

_LARGEST = 127
_SLICE_BYTES = 8192
"""Maximum size of a slice's weights as floats, unless a single channel has more."""


def pack(name: str, weights: Array, form: str) -> tuple[Array, Array | None]:
    """Pack weights [O, ...] into words [O, n] of i32 and, for int8, scales [O].

    Raises:
        ModelError: A weight is outside the format's range, or a channel's scale would be 0 or NaN.
    """
    if form == FLOAT16:
        with np.errstate(over="ignore"):
            halves = weights.astype("<f2")
        if not np.isfinite(halves).all():
            raise ModelError(
                f"frozen weights {name!r:.80} hold {np.abs(weights).max():g}, and float16 ends at "
                "65504",
                "leave out --frozen-as, or use --frozen-as int8",
            )
        return _words(halves), None
    largest = np.abs(weights.reshape(len(weights), -1)).max(axis=1)
    scales = (largest / _LARGEST).astype(np.float32)
    bad = np.flatnonzero(~(np.isfinite(scales) & (scales >= SMALLEST_NORMAL)))
    if bad.size:
        raise ModelError(
            f"frozen weights {name!r:.80}: output channel {bad[0]} of {len(weights)} has the int8 "
            f"scale {scales[bad[0]]:g}, as its largest weight is {largest[bad[0]]:g}",
            "use --frozen-as float16, or remove the channel",
        )
    steps = weights.astype(np.float64) / scales.reshape(-1, *(1,) * (weights.ndim - 1))
    return _words(np.clip(np.rint(steps), -_LARGEST, _LARGEST).astype(np.int8)), scales


def unpack(words: Array, scales: Array | None, shape: Shape) -> Array:
    """Unpack words, and scales for int8, to weights in float64."""
    form = FLOAT16 if scales is None else INT8
    rows = np.ascontiguousarray(words, "<i4").view("<f2" if form == FLOAT16 else "i1")
    weights: Array = rows[:, : math.prod(shape[1:])].astype(np.float64).reshape(shape)
    if scales is not None:
        weights = weights * np.asarray(scales, np.float64).reshape(-1, *(1,) * (len(shape) - 1))
    return weights


def words_shape(shape: Shape, form: str) -> Shape:
    """Shape [O, n] of the words for weights [O, ...]: each channel begins with a word."""
    return shape[0], words_of_fields(math.prod(shape[1:]), 8 * BYTES[form])


def _words(values: Array) -> Array:
    rows = values.reshape(len(values), -1).view(np.uint8)
    return np.pad(rows, ((0, 0), (0, -rows.shape[1] % 4))).view("<i4")


class _Unpack(OpKind):
    """Words [O, n], and scales [O] for int8, to the floats that they stand for.

    Packed layers do it for each slice: it is an op by itself where costs of layers are calculated.
    Attribute `shape` is that of the floats, [O, m].
    """

    cancels = False
    form: ClassVar[str]
    per_turn: ClassVar[int]
    """Weights of a turn of the kernel's inner loop."""

    def __init_subclass__(cls) -> None:
        """Name the operator after its format."""
        cls.name = f"unpack_{cls.form}"

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        shape = expect_integers(op, "shape", 1, 2)
        scaled = self.form == INT8
        expect_inputs(op, inputs, 1 + scaled)
        expect_dtype(op, inputs[0], Dtype.I32)
        expect_shape(op, inputs[0], words_shape(shape, self.form))
        if scaled:
            expect_dtype(op, inputs[1], Dtype.F32)
            expect_shape(op, inputs[1], shape[:1])
        return shape, Dtype.F32

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        words, *scales = inputs
        floats = unpack(words, scales[0] if scales else None, expect_integers(op, "shape", 1, 2))
        return floats.astype(scales[0].dtype if scales else np.float32)

    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int:
        return int(self.form == INT8)

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        return OpWork(math.prod(expect_integers(op, "shape", 1, 2)), bytes_of(*inputs, output))

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        rows, row = expect_integers(op, "shape", 1, 2)
        words, *scales = op.inputs
        apart = words_shape((rows, row), self.form)[1] * Dtype.I32.size_bytes // BYTES[self.form]
        return Kernel(
            source="packed",
            function=f"poet_{self.name}_f32",
            arguments=(words, 0, *scales, op.output),
            struct="poet_unpack",
            fields=(("rows", rows), ("row", row), ("from_row", apart)),
            loops=((rows,), (row, self.per_turn)),
        )


@register
class UnpackFloat16(_Unpack):
    """Words of halves to floats."""

    form, per_turn = FLOAT16, 2


@register
class UnpackInt8(_Unpack):
    """Words of bytes, and the scale of each row, to floats."""

    form, per_turn = INT8, 4


@dataclass(frozen=True)
class _Slices:
    """Division of a layer by output channels.

    Attributes:
        channels: channels, or groups of them, of which each slice has some that are adjacent.
        width: channels of a slice; the last one may overlap with the one before.
        rows: True if a slice has rows of the weights [O, ...]; otherwise channels of axis 1.
        parted: True if each slice reads its own channels of the input.
    """

    channels: int
    width: int
    rows: bool
    parted: bool

    @property
    def count(self) -> int:
        """Number of slices."""
        return -(-self.channels // self.width)


class _Packed(OpKind):
    """Base of forward and backward passes.

    Inputs are those of the layer's op, with words [O, n] of i32 instead of weights, followed by
    scales [O] for int8. Attributes are those of the layer, `weight_shape` and `format`.
    """

    layer: ClassVar[str]
    """Name of the operator with weights in floats."""
    position: ClassVar[int]
    """Position of the weights among its inputs."""
    source: ClassVar[str]
    struct: ClassVar[str]
    function: ClassVar[str]

    def __init_subclass__(cls, layer: str = "") -> None:
        """Name the operator and its kernel after `layer`; without it, the class is a base."""
        if layer:
            family = layer.removesuffix("_backward_input")
            cls.name, cls.layer, cls.source = f"packed_{layer}", layer, f"packed_{family}"
            cls.struct = f"poet_packed_{family}"
            cls.function = f"poet_packed_{layer}{'_forward' * (layer == family)}_f32"

    @property
    def _layer(self) -> OpKind:
        return KINDS[self.layer]

    def _shape(self, op: Op) -> Shape:
        return expect_integers(op, "weight_shape", 1)

    def _form(self, op: Op) -> str:
        form = op.attributes.get("format")
        if not isinstance(form, str) or form not in FORMATS:
            raise ModelError(
                f"op {op.name!r} ({op.kind}) needs attribute 'format' to be one of {FORMATS}"
            )
        return form

    def _as_layer(self, op: Op) -> Op:
        """Equivalent op with weights in floats."""
        attributes = {
            name: value
            for name, value in op.attributes.items()
            if name not in ("weight_shape", "format")
        }
        inputs = op.inputs[:-1] if self._form(op) == INT8 else op.inputs
        return replace(op, kind=self.layer, inputs=inputs, attributes=attributes)

    def _as_tensors(self, op: Op, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Inputs of the equivalent op."""
        tensors = list(inputs[:-1] if self._form(op) == INT8 else inputs)
        if len(tensors) > self.position:
            words = tensors[self.position]
            tensors[self.position] = Tensor(words.name, self._shape(op), role=words.role)
        return tensors

    def _as_arrays(self, op: Op, inputs: Sequence[Array]) -> list[Array]:
        arrays = list(inputs)
        scales = arrays.pop() if self._form(op) == INT8 else None
        floating = next(value.dtype for value in inputs if value.dtype.kind == "f")
        weights = unpack(arrays[self.position], scales, self._shape(op))
        arrays[self.position] = weights.astype(floating)
        return arrays

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype] | None:
        shape, form = self._shape(op), self._form(op)
        if form == INT8:
            if not inputs or inputs[-1].dtype is not Dtype.F32:
                raise ModelError(
                    f"op {op.name!r} ({op.kind}) needs scales of f32 behind its inputs"
                )
            expect_shape(op, inputs[-1], shape[:1])
        found = self._layer.infer(self._as_layer(op), self._as_tensors(op, inputs))
        words = inputs[self.position]
        if words.dtype is not Dtype.I32:
            raise ModelError(f"op {op.name!r} ({op.kind}) needs {words.name!r} to be words of i32")
        expect_shape(op, words, words_shape(shape, form))
        return found

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array | None:
        return self._layer.compute(self._as_layer(op), self._as_arrays(op, inputs), updates)

    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int:
        shapes = list(inputs[:-1] if self._form(op) == INT8 else inputs)
        shapes[self.position] = self._shape(op)
        return self._layer.roundings(self._as_layer(op), shapes) + (self._form(op) == INT8)

    def error_bounds(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Bounds:
        # a byte's product with its scale is rounded; a half is a float
        count = self.roundings(op, [value.shape for value in inputs])
        arrays = [magnitude(value) for value in self._as_arrays(op, inputs)]
        sums = self._layer.results(self._as_layer(op), arrays, updates)
        return tuple(gamma(count) * value + SMALLEST_NORMAL for value in sums)

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        tensors = self._as_tensors(op, inputs)
        layer = self._layer.work(self._as_layer(op), tensors, output)
        weights = tensors[self.position]
        return OpWork(
            macs=layer.macs + weights.elements,
            bytes_moved=layer.bytes_moved + weights.size_bytes + bytes_of(inputs[self.position]),
        )

    def parts(self, op: Op, graph: Graph) -> Parts:
        """Unpacking of a slice's weights and the layer on it, once for each slice."""
        tensors = self._as_tensors(op, [graph.by_name[name] for name in op.inputs])
        output = graph.by_name[op.output or ""]
        slices = self._slices(op, tensors)
        layer, alone = self._slice(op, tensors, output, slices)
        form, samples = self._form(op), self._runs(slices, output)
        rows, *row = alone.by_name[layer.inputs[self.position]].shape
        shape = rows, math.prod(row)
        read = [Tensor("words", words_shape(shape, form), Dtype.I32, Role.INPUT)]
        if form == INT8:
            read.append(Tensor("scales", (rows,), role=Role.INPUT))
        names = tuple(tensor.name for tensor in read)
        unpack = Op("unpack", f"unpack_{form}", names, "floats", {"shape": shape})
        tensors = [*read, Tensor("floats", shape), *alone.tensors]
        both = replace(alone, tensors=tuple(tensors), ops=(unpack, *alone.ops))
        return Parts(both, {unpack.name: slices.count, layer.name: slices.count * samples})

    def _runs(self, slices: _Slices, output: Tensor) -> int:
        """Runs of the layer for a slice: one for each sample, unless results may lie apart."""
        return 1 if slices.count == 1 or self.layer.startswith("linear") else output.shape[0]

    def _slices(self, op: Op, tensors: Sequence[Tensor]) -> _Slices:
        shape = self._shape(op)
        groups = op.integer("groups") if "groups" in op.attributes else 1
        rows = groups > 1 or self.position == 1
        channels = groups if groups > 1 else shape[0 if rows else 1]
        most = min(self._most_in_slice(op, tensors, channels), channels)
        slices = (_Slices(channels, n, rows, groups > 1) for n in range(most, most // 2, -1))
        return min(slices, key=lambda one: one.count * one.width)

    def _most_in_slice(self, op: Op, tensors: Sequence[Tensor], channels: int) -> int:
        """Maximum number of channels, or of groups, per slice; 1 or more."""
        each = math.prod(self._shape(op)) // channels * Dtype.F32.size_bytes
        return max(_SLICE_BYTES // each, 1)

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        inputs = [graph.by_name[name] for name in op.inputs]
        assert op.output is not None
        output = graph.by_name[op.output]
        tensors = self._as_tensors(op, inputs)
        slices = self._slices(op, tensors)
        slice_op, slice_graph = self._slice(op, tensors, output, slices)
        layer = self._layer.kernel(slice_op, slice_graph)
        assert layer.struct is not None
        assert not layer.workspace_bytes
        shape, channels = self._shape(op), slices.channels
        row, form = math.prod(shape[1:]), self._form(op)
        apart = row if form not in FORMATS else words_shape(shape, form)[1] * 4 // BYTES[form]
        rows_apart = shape[0] // channels
        own = rows_apart * slices.width if slices.rows else shape[0]
        stretch = row if slices.rows else row // channels * slices.width
        x = tensors[1 - self.position]
        samples = self._runs(slices, output)
        fields = {
            "slices": slices.count,
            "channels": slices.width,
            "last": channels - slices.width,
            "unpack.rows": own,
            "unpack.row": stretch,
            "unpack.from_row": apart,
            "samples": samples,
            "input": x.elements // samples,
            "output": output.elements // samples,
            "weights_apart": rows_apart * apart if slices.rows else row // channels,
            "scales_apart": rows_apart if slices.rows else 0,
            "input_apart": x.elements // x.shape[0] // channels if slices.parted else 0,
            "output_apart": output.elements // output.shape[0] // channels,
            "bias_apart": rows_apart,
        }
        given = list(self._as_layer(op).inputs)
        bias: tuple[str | None, ...] = tuple(given[2:]) or (None,)
        scales = op.inputs[-1] if self._form(op) == INT8 else None
        arguments = (*given[:2], *(bias if self.position == 1 else ()), scales, op.output)
        return Kernel(
            source=self.source,
            function=self.function,
            arguments=arguments,
            struct=self.struct,
            fields=(
                *((f"packed.{name}", value) for name, value in fields.items()),
                *((f"layer.{name}", value) for name, value in layer.fields),
            ),
            workspace_bytes=own * stretch * Dtype.F32.size_bytes,
            divided=layer.divided,
            calls=(layer.source,),
            loops=((slices.count,), (samples,)),
        )

    def _slice(
        self, op: Op, tensors: Sequence[Tensor], output: Tensor, slices: _Slices
    ) -> tuple[Op, Graph]:
        """Op of the layer on a slice, of the samples of one run."""
        batch = output.shape[0] // self._runs(slices, output)

        def part(tensor: Tensor, axis: int | None, of_batch: bool) -> Tensor:
            shape = list(tensor.shape)
            if of_batch:
                shape[0] = batch
            if axis is not None:
                shape[axis] = shape[axis] // slices.channels * slices.width
            return replace(tensor, shape=tuple(shape), role=Role.INPUT)

        weights, x = tensors[self.position], tensors[1 - self.position]
        parts = [part(x, 1 if slices.parted else None, True)]
        parts.insert(self.position, part(weights, 0 if slices.rows else 1, False))
        parts += [part(bias, 0, False) for bias in tensors[2:]]
        layer = self._as_layer(op)
        attributes: dict[str, Attribute] = dict(layer.attributes)
        if slices.parted:
            attributes["groups"] = slices.width
        if "input_shape" in attributes:
            attributes["input_shape"] = part(output, 1, True).shape
        if batch > 1 and slices.count > 1:
            attributes[RESULT_ROW] = output.shape[1]
        layer = replace(layer, attributes=attributes)
        made = infer_output(layer, parts, Role.ACTIVATION)
        assert made is not None
        return layer, Graph("slice", (*parts, made), (layer,), made.name)


class _OfInputs(_Packed):
    """Forward passes, which can be cut along the channels of their output."""

    position = 1

    def axes(self, op: Op, inputs: Sequence[Tensor], results: Sequence[Tensor]) -> Axes | None:
        layer = self._as_layer(op)
        axes = kind_of(layer).axes(layer, self._as_tensors(op, inputs), results)
        if axes is None:
            return None
        x, weights, *others = axes.inputs
        scales = [weights[:1]] * (self._form(op) == INT8)
        return Axes((x, f"{weights[:1]}.", *others, *scales), axes.results)

    def piece_attributes(self, op: Op, whole: Tensor, piece: Tensor) -> dict[str, Attribute]:
        return {"weight_shape": (piece.shape[1], *self._shape(op)[1:])}

    def row_window(self, op: Op, shapes: Sequence[Shape], first: int, count: int) -> RowWindow:
        layer = self._as_layer(op)
        of_layer = (shapes[0], self._shape(op), *shapes[2:])[: len(layer.inputs)]
        return kind_of(layer).row_window(layer, of_layer, first, count)


class _OfGradients(_Packed):
    """Passes from the gradient of a layer's output to that of its input."""

    position = 0


@register
class PackedConv2d(_OfInputs, layer="conv2d"):
    """`conv2d` of packed weights."""


@register
class PackedConv2dBackwardInput(_OfGradients, layer="conv2d_backward_input"):
    """`conv2d_backward_input` of packed weights."""


@register
class PackedLinear(_OfInputs, layer="linear"):
    """`linear` of packed weights."""


@register
class PackedLinearBackwardInput(_OfGradients, layer="linear_backward_input"):
    """`linear_backward_input` of packed weights."""


PACKED = {
    kind.layer: (kind.name, kind.position)
    for kind in (PackedConv2d, PackedConv2dBackwardInput, PackedLinear, PackedLinearBackwardInput)
}
"""Name of the operator of packed weights and position of its weights, by the layer's operator."""
