# SPDX-License-Identifier: Apache-2.0
"""Convolution, activation and pooling in one op, in slices of output channels.

The feature map of a slice is in the workspace and pooled there, so that the map of all channels,
often the largest tensor of a network, is never stored. Each slice runs the kernels of the three
ops, so results are bit-identical to those of separate ops.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from poetfw.common.errors import ModelError
from poetfw.ir import Attribute, Dtype, Graph, Op, Role, Tensor
from poetfw.ops.base import (
    KINDS,
    Array,
    Axes,
    Bounds,
    Constants,
    Kernel,
    OpWork,
    Parts,
    Shape,
    bytes_of,
    expect_shape,
    infer_output,
    kind_of,
    register,
)
from poetfw.ops.packed import FORMATS, PACKED, PackedConv2d

FLOAT32 = "float32"
POOLS = ("max_pool2d", "avg_pool2d")
_FAMILIES = ("relu", "pointwise", *POOLS)
"""The C files whose ops `epilogues.h` runs."""
_EPILOGUES = ("activation", "pool")
_MAP_BYTES = 16384
"""Maximum size of a slice's feature map, unless that of a single channel is larger."""


def is_activation(op: Op, graph: Graph) -> bool:
    """True for an element-wise op with one input that a pooled convolution can include."""
    return kind_of(op).pointwise and kind_of(op).kernel(op, graph).source in _FAMILIES


def pooled_conv2d(conv: Op, activation: Op | None, pool: Op, weight: Tensor) -> Op:
    """Fuse a convolution with the activation and the pooling that follow.

    Args:
        conv: a `conv2d` or `packed_conv2d`.
        activation: an op accepted by `is_activation`; None without one.
        pool: an op of one of the `POOLS`.
        weight: the convolution's second input.
    """
    attributes: dict[str, Attribute] = {
        "weight_shape": weight.shape,
        "format": FLOAT32,
        **conv.attributes,
    }
    for part, op in zip(_EPILOGUES, (activation, pool), strict=True):
        if op is not None:
            attributes[part] = op.kind
            attributes |= {f"{part}.{name}": value for name, value in op.attributes.items()}
    return replace(conv, kind=PooledConv2d.name, output=pool.output, attributes=attributes)


@register
class PooledConv2d(PackedConv2d):
    """Inputs of `conv2d` or `packed_conv2d`; output y [N,O,PH,PW] of the pooling.

    Attributes are those of the convolution, `weight_shape`, `format` (float32 for `conv2d`), `pool`
    (an operator of `POOLS`), optionally `activation`, and their attributes with the prefixes
    `pool.` and `activation.`.
    """

    name = "pooled_conv2d"
    source, struct = "pooled_conv2d", "poet_pooled_conv2d"
    function = "poet_pooled_conv2d_forward_f32"

    def _form(self, op: Op) -> str:
        return FLOAT32 if op.attributes.get("format") == FLOAT32 else super()._form(op)

    def _as_conv(self, op: Op) -> Op:
        """The convolution, with packed or unpacked weights."""
        form = self._form(op)
        dropped = () if form in FORMATS else ("weight_shape", "format")
        attributes = {
            name: value
            for name, value in op.attributes.items()
            if name.partition(".")[0] not in (*_EPILOGUES, *dropped)
        }
        kind = PACKED[self.layer][0] if form in FORMATS else self.layer
        return replace(op, kind=kind, output=f"{op.output} convolved", attributes=attributes)

    def _as_layer(self, op: Op) -> Op:
        conv = self._as_conv(op)
        return conv if conv.kind == self.layer else super()._as_layer(conv)

    def _epilogues(self, op: Op) -> Iterable[tuple[str, Op]]:
        """Ops that follow the convolution, by attribute."""
        before = f"{op.output} convolved"
        for part in _EPILOGUES:
            kind = op.attributes.get(part)
            if part not in op.attributes and part != "pool":
                continue
            if not isinstance(kind, str) or kind not in KINDS:
                raise ModelError(
                    f"op {op.name!r} ({op.kind}) needs attribute {part!r} to name an operator"
                )
            attributes = {
                name.partition(".")[2]: value
                for name, value in op.attributes.items()
                if name.startswith(f"{part}.")
            }
            after = op.output if part == "pool" else f"{op.output} activated"
            yield part, Op(f"{op.name} {part}", kind, (before,), after, attributes)
            before = f"{op.output} activated"

    def _chain(self, op: Op, inputs: Sequence[Tensor], conv: Op) -> Graph:
        """Graph of the convolution `conv` and the ops that follow."""
        tensors, ops = list(inputs), [conv, *(each for _, each in self._epilogues(op))]
        of_name = {tensor.name: tensor for tensor in tensors}
        for each in ops:
            made = infer_output(each, [of_name[name] for name in each.inputs], Role.ACTIVATION)
            assert made is not None
            of_name[made.name] = made
        output = ops[-1].output
        assert output is not None
        return Graph("pooled convolution", tuple(of_name.values()), tuple(ops), output)

    def axes(self, op: Op, inputs: Sequence[Tensor], results: Sequence[Tensor]) -> Axes | None:
        """Those of the convolution, but for rows."""
        conv = self._as_conv(op)
        axes = kind_of(conv).axes(conv, inputs, results)
        if axes is None:
            return None
        no_rows = str.maketrans("rR", "..")
        both = (tuple(letters.translate(no_rows) for letters in each) for each in axes)
        return Axes(*both)

    def parts(self, op: Op, graph: Graph) -> Parts:
        names = dict.fromkeys(op.inputs)
        inputs = [graph.by_name[name] for name in names]
        return Parts(self._chain(op, inputs, self._as_conv(op)))

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype] | None:
        if self._form(op) == FLOAT32:
            expect_shape(op, inputs[1], self._shape(op))
        named = [replace(t, name=name) for t, name in zip(inputs, op.inputs, strict=True)]
        graph = self._chain(op, named, self._as_conv(op))
        return graph.by_name[graph.output].shape, Dtype.F32

    def _as_arrays(self, op: Op, inputs: Sequence[Array]) -> list[Array]:
        return list(inputs) if self._form(op) == FLOAT32 else super()._as_arrays(op, inputs)

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array | None:
        y = super().compute(op, inputs, updates)
        for _, part in self._epilogues(op):
            assert y is not None
            y = kind_of(part).compute(part, [y], updates)
        return y

    def error_bounds(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Bounds:
        # of the ends of an interval: activations are monotone, or have their minimum within
        convolved = PackedConv2d.compute(self, op, inputs, updates)
        assert convolved is not None
        y, (bound,) = convolved, super().error_bounds(op, inputs, updates)
        for part, each in self._epilogues(op):
            kind = kind_of(each)
            places = (y, y - bound, y + bound)
            bounds = [kind.error_bounds(each, [at], updates)[0] for at in places]
            (after,), (low,), (high,) = (kind.results(each, [at], updates) for at in places)
            if part == "pool":  # the largest or the mean of a window's errors, at most
                (moved,) = kind.results(each, [bound], updates)
            else:
                moved = np.maximum(np.abs(low - after), np.abs(high - after))
            y, bound = after, moved + np.max(bounds, axis=0)
        return (bound,)

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        named = [replace(t, name=name) for t, name in zip(inputs, op.inputs, strict=True)]
        graph = self._chain(op, named, self._as_conv(op))
        works = [
            kind_of(each).work(
                each, [graph.by_name[n] for n in each.inputs], graph.by_name[each.output or ""]
            )
            for each in graph.ops
        ]
        return OpWork(sum(w.macs for w in works), sum(w.bytes_moved for w in works))

    def _most_in_slice(self, op: Op, tensors: Sequence[Tensor], channels: int) -> int:
        conv = self._as_layer(op)
        shape = kind_of(conv).infer(conv, tensors)
        assert shape is not None
        (_, outputs, rows, columns), _ = shape
        each = outputs // channels * rows * columns * Dtype.F32.size_bytes
        most = max(_MAP_BYTES // each, 1)
        if self._form(op) == FLOAT32:
            return most
        return min(most, super()._most_in_slice(op, tensors, channels))

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        kernel = super().kernel(op, graph)
        tensors = self._as_tensors(op, [graph.by_name[name] for name in op.inputs])
        slices = self._slices(op, tensors)
        assert op.output is not None
        layer, of_slice = self._slice(op, tensors, graph.by_name[op.output], slices)
        named = [of_slice.by_name[name] for name in dict.fromkeys(layer.inputs)]
        chain = self._chain(op, named, replace(layer, output=f"{op.output} convolved"))
        epilogues: dict[str, Constants] = {}
        divided = [*kernel.divided]
        for part, each in self._epilogues(op):
            run = kind_of(each).kernel(each, chain)
            divided += run.divided
            epilogues[part] = Constants(
                ("epilogues", run.source),
                f"poet_{run.source}_epilogue",
                "epilogue",
                (
                    ("epilogue.run", f"poet_{run.source}_epilogue_f32"),
                    *((f"op.{name}", value) for name, value in run.fields),
                    ("kernel", run.function),
                ),
            )
        unpacked = 0 if self._form(op) == FLOAT32 else kernel.workspace_bytes
        *inputs, output = kernel.arguments
        return replace(
            kernel,
            arguments=(*inputs, epilogues.get("activation"), epilogues["pool"], output),
            fields=(*kernel.fields, ("unpacked", unpacked // Dtype.F32.size_bytes)),
            workspace_bytes=unpacked + bytes_of(chain.by_name[f"{op.output} convolved"]),
            divided=tuple(divided),
        )
