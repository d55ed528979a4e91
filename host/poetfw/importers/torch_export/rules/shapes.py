# SPDX-License-Identifier: Apache-2.0
"""Rules of shapes: views, slices, joins, padding, resizing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poetfw.importers.network_tensors import Pair
from poetfw.importers.refusal import UnsupportedError
from poetfw.importers.torch_export import schema
from poetfw.importers.torch_export.calls import Call, Live, Value, axes_of, axis_of, positions_of
from poetfw.importers.torch_export.expression import Expression, expression
from poetfw.importers.torch_export.file import Weight
from poetfw.importers.torch_export.rules.images import as_image, as_ranked, image_of, pair_of
from poetfw.importers.torch_export.rules.registry import Ints, Number, aten
from poetfw.importers.torch_export.rules.scans import diagonal_of
from poetfw.ir import Dtype


@aten("contiguous.default", "alias.default", "positive.default", view=True)
@aten("clone.default", "lift_fresh_copy.default")
def _same(call: Call, self: Value) -> str:
    return call.tensor(self)


@aten("to.dtype", "to.dtype_layout", "to.device", "_to_copy.default", view=True)
def _to(call: Call, self: Value, dtype: int | None = None, copy: bool = False) -> str:
    """Convert the type; without one, and for floats, the result is float32."""
    x = call.tensor(self)
    if dtype is None:
        return x
    if dtype == schema.BOOL:
        return call.net.shift(
            call.name,
            call.net.scale(call.name, call.net.builder.op("zero", call.name, (x,)), -1.0),
            1.0,
        )
    if dtype not in (schema.INT, schema.LONG):
        known = schema.DTYPES.get(dtype, "an unknown type")
        advice = "; so it does here with --as-float32" if dtype in schema.OTHER_FLOATS else ""
        raise UnsupportedError(f"it converts to {known}: poetfw calculates in float32{advice}")
    return call.net.integers(call.name, x)


@aten("type_as.default", view=True)
def _type_as(call: Call, self: Value, other: Value) -> str:
    integer = isinstance(other, Live) and call.net.builder.dtype(other.tensor) is Dtype.I32
    x = call.tensor(self)
    return call.net.integers(call.name, x) if integer else x


@aten("detach.default", view=True)
def _detach(call: Call, self: Value) -> str:
    return call.net.detach(call.name, call.tensor(self))


@aten("flatten.using_ints", view=True)
def _flatten(call: Call, self: Value, start_dim: int = 0, end_dim: int = -1) -> str:
    return call.net.reshape(call.name, call.tensor(self), call.results[0])


@aten("unflatten.int", view=True)
def _unflatten(call: Call, self: Value, dim: int, sizes: Ints) -> str:
    return call.net.reshape(call.name, call.tensor(self), call.results[0])


@aten("view.default", view=True)
def _view(call: Call, self: Value, size: Ints) -> str:
    return _reshaped(call, self, size)


@aten("reshape.default", view=True)
def _reshape(call: Call, self: Value, shape: Ints) -> str:
    return _reshaped(call, self, shape)


@aten("view_as.default", "reshape_as.default", view=True)
def _reshape_as(call: Call, self: Value, other: Value) -> str:
    return call.net.reshape(call.name, call.tensor(self), call.shape(other))


def _reshaped(call: Call, value: Value, target: Sequence[int]) -> str:
    """Reshape to the file's result shape with the requested batch size."""
    (shape,) = call.sizes
    if len(shape) != len(target) or any(
        wanted not in (-1, extent) for wanted, extent in zip(target, shape, strict=True)
    ):
        raise UnsupportedError(f"its shape {list(target)} is not that of its result, {list(shape)}")
    return call.net.reshape(call.name, call.tensor(value), call.results[0])


@aten("squeeze.dim", view=True)
def _squeeze(call: Call, self: Value, dim: int) -> str:
    return _squeeze_all(call, self, (dim,))


@aten("squeeze.dims", view=True)
def _squeeze_all(call: Call, self: Value, dim: Ints) -> str:
    axes = axes_of(call, self, dim)
    shape = [e for axis, e in enumerate(call.shape(self)) if axis not in axes or e != 1]
    return call.net.reshape(call.name, call.tensor(self), shape)


@aten("unsqueeze.default", view=True)
def _unsqueeze(call: Call, self: Value, dim: int) -> str:
    shape = list(call.shape(self))
    if len(call.sizes[0]) == len(shape) == 1:  # of a single number, which has an axis already
        return call.tensor(self)
    if not -len(shape) - 1 <= dim <= len(shape):
        raise UnsupportedError(f"axis {dim} does not exist")
    shape.insert(dim % (len(shape) + 1), 1)
    return call.net.reshape(call.name, call.tensor(self), shape)


@aten("permute.default", view=True)
def _permute(call: Call, self: Value, dims: Ints) -> str:
    axes = axes_of(call, self, dims)
    if len(axes) != len(call.shape(self)):
        raise UnsupportedError(f"its axes {list(dims)} are not all of its axes")
    return call.net.permute(call.name, call.tensor(self), axes)


@aten("transpose.int", "swapaxes.default", "swapdims.default", view=True)
def _transpose(
    call: Call,
    self: Value,
    dim0: int | None = None,
    dim1: int | None = None,
    axis0: int | None = None,
    axis1: int | None = None,
) -> str:
    dim0, dim1 = axis0 if dim0 is None else dim0, axis1 if dim1 is None else dim1
    if dim0 is None or dim1 is None:
        raise UnsupportedError("it exchanges what is not two axes")
    first, second = axis_of(call, self, dim0), axis_of(call, self, dim1)
    axes = list(range(len(call.shape(self))))
    axes[first], axes[second] = second, first
    return call.net.permute(call.name, call.tensor(self), axes)


@aten("t.default", "numpy_T.default", "matrix_H.default", view=True)
def _turn(call: Call, self: Value) -> str:
    if len(call.shape(self)) != 2:
        raise UnsupportedError("it is not a matrix")
    return _transpose(call, self, 0, 1)


@aten("mT.default", "mH.default", view=True)
def _turn_matrices(call: Call, self: Value) -> str:
    return _transpose(call, self, -2, -1)


@aten("select.int", view=True)
def _select(call: Call, self: Value, dim: int, index: int) -> str:
    shape, axis = call.shape(self), axis_of(call, self, dim)
    if not -shape[axis] <= index < shape[axis]:
        raise UnsupportedError(f"position {index} does not exist in shape {list(shape)}")
    one = call.net.part(call.name, call.tensor(self), axis, index % shape[axis], 1)
    return call.net.reshape(call.name, one, (*shape[:axis], *shape[axis + 1 :]))


@aten("slice.Tensor", view=True)
def _slice(
    call: Call,
    self: Value,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> str:
    axis, positions = positions_of(call, self, dim, start, end, step)
    return call.net.part(call.name, call.tensor(self), axis, positions.start, len(positions), step)


@aten("squeeze.default", view=True)
def _squeeze_ones(call: Call, self: Value) -> str:
    return call.net.reshape(call.name, call.tensor(self), [e for e in call.shape(self) if e != 1])


@aten("new_zeros.default")
def _new_zeros(call: Call, self: Value, size: Ints, dtype: int | None = None) -> Weight:
    return _new_full(call, self, size, 0)


@aten("new_ones.default")
def _new_ones(call: Call, self: Value, size: Ints, dtype: int | None = None) -> Weight:
    return _new_full(call, self, size, 1)


@aten("new_full.default")
def _new_full(
    call: Call, self: Value, size: Ints, fill_value: Number, dtype: int | None = None
) -> Weight:
    return Weight((), np.full(call.results[0], fill_value, np.float32))


@aten("zeros_like.default", "empty_like.default")
def _zeros_like(call: Call, self: Value, dtype: int | None = None) -> Weight:
    return Weight((), np.zeros(call.results[0], np.float32))


@aten("ones_like.default")
def _ones_like(call: Call, self: Value, dtype: int | None = None) -> Weight:
    return Weight((), np.ones(call.results[0], np.float32))


@aten("full_like.default")
def _full_like(call: Call, self: Value, fill_value: Number, dtype: int | None = None) -> Weight:
    return Weight((), np.full(call.results[0], fill_value, np.float32))


@aten("diagonal.default", view=True)
def _diagonal(call: Call, self: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> str:
    """Main diagonals of matrices: every element that is one more row and column away."""
    shape = call.shape(self)
    axes = axes_of(call, self, (dim1, dim2))
    if offset or axes != [len(shape) - 2, len(shape) - 1]:
        raise UnsupportedError("it is not the main diagonal of matrices, on their last two axes")
    *lead, rows, columns = shape
    flat = call.net.reshape(call.name, call.tensor(self), (*lead, rows * columns))
    return call.net.part(call.name, flat, len(lead), 0, min(rows, columns), columns + 1)


@aten("diag.default")
def _diag(call: Call, self: Value, diagonal: int = 0) -> str:
    """Main diagonal of a matrix, or the matrix with this diagonal."""
    if len(call.shape(self)) == 1 and not diagonal:
        return diagonal_of(expression(call, self)).tensor
    return _diagonal(call, self, diagonal)


@aten("col2im.default")
def _folded(
    call: Call,
    self: Value,
    output_size: Ints,
    kernel_size: Ints,
    dilation: Ints,
    padding: Ints,
    stride: Ints,
) -> str:
    """Sum of windows at their places: a transposed convolution with ones.

    Each of the kh · kw planes of a channel has a 1 at its own place of the window.
    """
    net, name, shape = call.net, call.name, call.shape(self)
    kernel, steps, edges = ((each[0], each[-1]) for each in (kernel_size, stride, padding))
    if len(shape) != 3 or set(dilation) != {1}:
        raise UnsupportedError("it is dilated, or its input has no batch")
    batch, planes, _ = shape
    window = math.prod(kernel)
    rows, columns = (
        (extent + 2 * p - k) // s + 1
        for extent, k, s, p in zip(output_size, kernel, steps, edges, strict=True)
    )
    more = tuple(
        extent - ((count - 1) * s - 2 * p + k)
        for extent, count, k, s, p in zip(
            output_size, (rows, columns), kernel, steps, edges, strict=True
        )
    )
    places = np.tile(np.eye(window).reshape(window, 1, *kernel), (planes // window, 1, 1, 1))
    return net.conv_transpose(
        name,
        net.reshape(name, call.tensor(self), (batch, planes, rows, columns)),
        net.constant(f"{name}.places", places),
        None,
        stride=steps,
        padding=edges,
        more=(more[0], more[1]),
        dilation=(1, 1),
        groups=planes // window,
    )


@aten("channel_shuffle.default")
def _channel_shuffle(call: Call, self: Value, groups: int) -> str:
    batch, channels, *rest = call.shape(self)
    if groups < 1 or channels % groups:
        raise UnsupportedError(f"it has {channels} channels in {groups} groups")
    view = (batch, groups, channels // groups, math.prod(rest))
    turned = call.net.permute(
        call.name, call.net.reshape(call.name, call.tensor(self), view), (0, 2, 1, 3)
    )
    return call.net.reshape(call.name, turned, (batch, channels, *rest))


@aten("im2col.default")
def _patches(
    call: Call, self: Value, kernel_size: Ints, dilation: Ints, padding: Ints, stride: Ints
) -> str:
    """Windows of x [N, C, H, W], [N, C · kh · kw, positions]."""
    net, name, x = call.net, call.name, call.tensor(self)
    if set(dilation) != {1} or len(net.shape(x)) != 4:
        raise UnsupportedError("it is dilated, or its input has no batch")
    x = net.pad(name, x, {2: (padding[0],) * 2, 3: (padding[-1],) * 2})
    x = net.windows(name, x, 2, kernel_size[0], stride[0])
    x = net.windows(name, x, 3, kernel_size[-1], stride[-1])
    batch, channels, rows, columns, *kernel = net.shape(x)
    turned = net.permute(name, x, (0, 1, 4, 5, 2, 3))
    return net.reshape(name, turned, (batch, channels * math.prod(kernel), rows * columns))


@aten("chunk.default", view=True)
def chunk(call: Call, self: Value, chunks: int, dim: int = 0) -> tuple[str, ...]:
    """Split an axis into parts of equal length, except for the last."""
    extent = call.shape(self)[axis_of(call, self, dim)]
    return _split(call, self, -(-extent // max(chunks, 1)), dim)


@aten("split.Tensor", view=True)
def _split(call: Call, self: Value, split_size: int, dim: int = 0) -> tuple[str, ...]:
    extent = call.shape(self)[axis_of(call, self, dim)]
    if not 1 <= split_size:
        raise UnsupportedError(f"its parts have {split_size} positions")
    starts = range(0, extent, split_size)
    return _split_to(call, self, tuple(min(split_size, extent - start) for start in starts), dim)


@aten("split_with_sizes.default", view=True)
def _split_to(call: Call, self: Value, split_sizes: Ints, dim: int = 0) -> tuple[str, ...]:
    axis, parts, start = axis_of(call, self, dim), [], 0
    for length in split_sizes:
        parts.append(call.net.part(call.name, call.tensor(self), axis, start, length))
        start += length
    return tuple(parts)


@aten("tensor_split.sections", view=True)
def _split_in(call: Call, self: Value, sections: int, dim: int = 0) -> tuple[str, ...]:
    """Split an axis into a number of parts, of which the first are longer by 1 at most."""
    extent = call.shape(self)[axis_of(call, self, dim)]
    if sections < 1:
        raise UnsupportedError(f"it makes {sections} parts")
    lengths = tuple((extent + i) // sections for i in reversed(range(sections)))
    return _split_to(call, self, lengths, dim)


@aten("tensor_split.indices", view=True)
def _split_at(call: Call, self: Value, indices: Ints, dim: int = 0) -> tuple[str, ...]:
    ends = (0, *indices, call.shape(self)[axis_of(call, self, dim)])
    lengths = tuple(end - start for start, end in pairwise(ends))
    if min(lengths) < 1:
        raise UnsupportedError(f"its parts have {list(lengths)} positions")
    return _split_to(call, self, lengths, dim)


@aten("unbind.int", view=True)
def _unbind(call: Call, self: Value, dim: int = 0) -> tuple[str, ...]:
    extent = call.shape(self)[axis_of(call, self, dim)]
    return tuple(_select(call, self, dim, index) for index in range(extent))


@aten("cat.default")
def _cat(call: Call, tensors: tuple[Value, ...], dim: int = 0) -> str:
    axis = axis_of(call, tensors[0], dim)
    return call.net.concat(call.name, [call.tensor(value) for value in tensors], axis)


@aten("hstack.default")
def _side_by_side(call: Call, tensors: tuple[Value, ...]) -> str:
    return _cat(call, tensors, min(1, len(call.shape(tensors[0])) - 1))


@aten("column_stack.default")
def _as_columns(call: Call, tensors: tuple[Value, ...]) -> str:
    return _joined(call, tensors, 1)


@aten("dstack.default")
def _in_depth(call: Call, tensors: tuple[Value, ...]) -> str:
    return _joined(call, tensors, 2)


def _joined(call: Call, tensors: tuple[Value, ...], axis: int) -> str:
    """Join along an axis, which tensors get as their last one where they do not have it."""
    if min(map(len, map(call.shape, tensors))) < axis:
        raise UnsupportedError(f"a tensor has fewer than {axis} axes")
    parts = [
        _unsqueeze(call, each, axis) if len(call.shape(each)) == axis else call.tensor(each)
        for each in tensors
    ]
    return call.net.concat(call.name, parts, axis)


@aten("meshgrid.default", "meshgrid.indexing")
def _grid(call: Call, tensors: tuple[Value, ...], indexing: str = "ij") -> tuple[str, ...]:
    """Repeat each list of numbers along an axis of its own: of points, the coordinates."""
    order = [*range(len(tensors))]
    if indexing == "xy" and len(order) > 1:
        order[:2] = 1, 0
    lists = [expression(call, value) for value in tensors]
    shape = tuple(math.prod(lists[i].shape) for i in order)
    return tuple(
        call.net.stretch(
            call.name,
            own.reshape([shape[i] if i == axis else 1 for i in range(len(shape))]).tensor,
            shape,
        )
        for own, axis in zip(lists, map(order.index, range(len(order))), strict=True)
    )


def _triangle(target: str, kept: Callable[[NDArray[np.float32], int], NDArray[Any]]) -> None:
    @aten(target)
    def rule(call: Call, self: Value, diagonal: int = 0) -> str:
        x = expression(call, self)
        ones = np.ones((1,) * (len(x.shape) - 2) + x.shape[-2:], np.float32)
        mask = Expression(
            call, call.net.stretch(call.name, x.constant(kept(ones, diagonal)).tensor, x.shape)
        )
        return mask.keep(x).tensor


_triangle("triu.default", np.triu)
_triangle("tril.default", np.tril)


@aten("stack.default")
def _stack(call: Call, tensors: tuple[Value, ...], dim: int = 0) -> str:
    rank = len(call.shape(tensors[0]))
    if len(call.sizes[0]) == rank == 1:  # single numbers
        return _cat(call, tensors)
    if not -rank - 1 <= dim <= rank:
        raise UnsupportedError(f"axis {dim} does not exist")
    parts = [_unsqueeze(call, value, dim) for value in tensors]
    return call.net.concat(call.name, parts, dim % (rank + 1))


@aten("expand.default", view=True)
def _expand(call: Call, self: Value, size: Ints) -> str:
    shape = call.shape(self)
    if len(size) < len(shape):
        raise UnsupportedError(f"shape {list(shape)} does not expand to {list(size)}")
    return call.net.stretch(call.name, call.tensor(self), call.results[0])


@aten("expand_as.default", view=True)
def _expand_as(call: Call, self: Value, other: Value) -> str:
    return call.net.stretch(call.name, call.tensor(self), call.shape(other))


@aten("broadcast_tensors.default", view=True)
def _stretch_all(call: Call, tensors: tuple[Value, ...]) -> tuple[str, ...]:
    shape = np.broadcast_shapes(*(call.shape(value) for value in tensors))
    return tuple(call.net.stretch(call.name, call.tensor(value), shape) for value in tensors)


@aten("repeat_interleave.self_int")
def _repeat_each(
    call: Call, self: Value, repeats: int, dim: int | None = None, output_size: int | None = None
) -> str:
    """Repeat each position of an axis in place; of all elements as one row without an axis."""
    shape = call.shape(self)
    if dim is None:
        shape, dim = (math.prod(shape),), 0
    axis = dim % len(shape)
    single = (*shape[: axis + 1], 1, *shape[axis + 1 :])
    x = call.net.reshape(call.name, call.tensor(self), single)
    often = (*shape[: axis + 1], repeats, *shape[axis + 1 :])
    merged = (*shape[:axis], shape[axis] * repeats, *shape[axis + 1 :])
    return call.net.reshape(call.name, call.net.stretch(call.name, x, often), merged)


@aten("repeat.default", "tile.default")
def _repeat(call: Call, self: Value, repeats: Ints = (), dims: Ints = ()) -> str:
    """Tile x along each axis: a new axis for each, broadcast and merged."""
    shape = call.shape(self)
    repeats = repeats or (1,) * (len(shape) - len(dims)) + dims
    if len(repeats) < len(shape):
        raise UnsupportedError(f"it repeats {len(shape)} axes by {list(repeats)}")
    result = call.results[0]
    seen = (1,) * (len(repeats) - len(shape)) + shape
    pairs = [(1, extent) for extent in seen]
    often = [(whole // extent, extent) for whole, extent in zip(result, seen, strict=True)]
    x = call.net.reshape(call.name, call.tensor(self), sum(pairs, ()))
    return call.net.reshape(call.name, call.net.stretch(call.name, x, sum(often, ())), result)


@aten("unfold.default", view=True)
def _unfold(call: Call, self: Value, dimension: int, size: int, step: int) -> str:
    return call.net.windows(
        call.name, call.tensor(self), axis_of(call, self, dimension), size, step
    )


@aten("narrow.default", view=True)
def _narrow(call: Call, self: Value, dim: int, start: int, length: int) -> str:
    axis = axis_of(call, self, dim)
    first = range(call.shape(self)[axis])[start]
    return call.net.part(call.name, call.tensor(self), axis, first, length)


@aten("movedim.int", view=True)
def _move(call: Call, self: Value, source: int, destination: int) -> str:
    axes = list(range(len(call.shape(self))))
    axes.insert(axis_of(call, self, destination), axes.pop(axis_of(call, self, source)))
    return call.net.permute(call.name, call.tensor(self), axes)


@aten("roll.default")
def _roll(call: Call, self: Value, shifts: Ints, dims: Ints = ()) -> str:
    x = call.tensor(self)
    if len(shifts) != len(dims):
        raise UnsupportedError("it rolls all elements as one row")
    for shift, dim in zip(shifts, dims, strict=True):
        axis = axis_of(call, self, dim)
        extent = call.net.shape(x)[axis]
        if by := shift % extent:
            parts = [
                call.net.part(call.name, x, axis, extent - by, by),
                call.net.part(call.name, x, axis, 0, extent - by),
            ]
            x = call.net.concat(call.name, parts, axis)
    return x


@aten("flip.default")
def _flip(call: Call, self: Value, dims: Ints) -> str:
    x = call.tensor(self)
    for axis in axes_of(call, self, dims):
        extent = call.net.shape(x)[axis]
        x = call.net.part(call.name, x, axis, extent - 1, extent, -1) if extent > 1 else x
    return x


@aten("fliplr.default")
def _flip_columns(call: Call, self: Value) -> str:
    return _flip(call, self, (1,))


@aten("flipud.default")
def _flip_rows(call: Call, self: Value) -> str:
    return _flip(call, self, (0,))


@aten("rot90.default")
def _quarter_turns(call: Call, self: Value, k: int = 1, dims: Ints = (0, 1)) -> str:
    turns = k % 4
    flipped = _flip(call, self, {0: (), 1: dims[1:], 2: dims, 3: dims[:1]}[turns])
    return _transpose(call, Live(flipped), *dims) if turns % 2 else flipped


@aten("pad.default")
def _pad(
    call: Call, self: Value, pad: Ints, mode: str = "constant", value: Number | None = None
) -> str:
    rank = len(call.shape(self))
    if len(pad) % 2 or len(pad) > 2 * rank:
        raise UnsupportedError(f"its widths are {list(pad)}")
    if value not in (None, 0):
        raise UnsupportedError(f"it pads with {value:g}; poetfw pads with 0")
    widths: dict[int, Pair] = {
        rank - 1 - i // 2: (pad[i], pad[i + 1]) for i in range(0, len(pad), 2)
    }
    return call.net.pad(call.name, call.tensor(self), widths, mode)


@aten("pixel_shuffle.default")
def _pixel_shuffle(call: Call, self: Value, upscale_factor: int) -> str:
    x, r = call.tensor(self), upscale_factor
    batch, channels, height, width = image_of(call.net.shape(x))
    if r < 1 or channels % (r * r):
        raise UnsupportedError(f"{channels} channels do not shuffle by {r}")
    seen = call.net.reshape(call.name, x, (batch, channels // (r * r), r, r, height, width))
    turned = call.net.permute(call.name, seen, (0, 1, 4, 2, 5, 3))
    return call.net.reshape(call.name, turned, (batch, channels // (r * r), height * r, width * r))


@aten("pixel_unshuffle.default")
def _pixel_unshuffle(call: Call, self: Value, downscale_factor: int) -> str:
    x, r = call.tensor(self), downscale_factor
    batch, channels, height, width = image_of(call.net.shape(x))
    if r < 1 or height % r or width % r:
        raise UnsupportedError(f"{height}x{width} pixels do not shuffle by {r}")
    seen = call.net.reshape(call.name, x, (batch, channels, height // r, r, width // r, r))
    turned = call.net.permute(call.name, seen, (0, 1, 3, 5, 2, 4))
    return call.net.reshape(call.name, turned, (batch, channels * r * r, height // r, width // r))


@aten("upsample_nearest1d.vec", "upsample_nearest2d.vec")
def _upsample(
    call: Call,
    input: Value,
    output_size: Ints | None,
    scale_factors: tuple[float, ...] | None,
) -> str:
    return _nearest(call, input, output_size, scale_factors, 0.0)


@aten("_upsample_nearest_exact1d.vec", "_upsample_nearest_exact2d.vec")
def _upsample_exact(
    call: Call,
    input: Value,
    output_size: Ints | None,
    scale_factors: tuple[float, ...] | None,
) -> str:
    return _nearest(call, input, output_size, scale_factors, 0.5)


def _nearest(
    call: Call, input: Value, sizes: Ints | None, factors: tuple[float, ...] | None, centre: float
) -> str:
    image = as_image(call, input)
    extents = call.net.shape(image)[2:]
    wanted = _upsampled(call, input, sizes, factors, whole=False)
    rows, columns = (size / extent for size, extent in zip(wanted, extents, strict=True))
    if rows == int(rows) and columns == int(columns):
        y = call.net.repeat_positions(call.name, image, (int(rows), int(columns)))
        return as_ranked(call, y, input)
    if factors is None:
        ratios = 1 / rows, 1 / columns
    else:
        ratios = (1.0 if len(factors) == 1 else 1 / factors[0]), 1 / factors[-1]
    return as_ranked(call, call.net.take_nearest(call.name, image, wanted, ratios, centre), input)


@aten("upsample_bicubic2d.vec")
def _interpolate_cubic(
    call: Call,
    input: Value,
    output_size: Ints | None,
    align_corners: bool,
    scale_factors: tuple[float, ...] | None,
) -> str:
    sizes = _upsampled(call, input, output_size, scale_factors)
    return call.net.interpolate_cubic(call.name, call.tensor(input), sizes, corners=align_corners)


@aten("upsample_linear1d.vec", "upsample_bilinear2d.vec")
def _interpolate(
    call: Call,
    input: Value,
    output_size: Ints | None,
    align_corners: bool,
    scale_factors: tuple[float, ...] | None,
) -> str:
    sizes = _upsampled(call, input, output_size, scale_factors)
    y = call.net.interpolate(call.name, as_image(call, input), sizes, corners=align_corners)
    return as_ranked(call, y, input)


def _upsampled(
    call: Call,
    x: Value,
    sizes: Ints | None,
    factors: tuple[float, ...] | None,
    *,
    whole: bool = True,
) -> Pair:
    """Height and width after resizing; `whole` requires factors that give integer sizes."""
    extents = image_of(call.shape(x))[2:]
    if sizes is not None:
        return pair_of(sizes, call.shape(x), 1)
    if factors is None or len(factors) != len(call.shape(x)) - 2:
        raise UnsupportedError("it has neither a size nor factors")
    both = factors if len(factors) == 2 else (1.0, *factors)
    wanted = [extent * factor for extent, factor in zip(extents, both, strict=True)]
    if any((whole and size != int(size)) or size < 1 for size in wanted):
        raise UnsupportedError(
            f"its factors are {list(factors)}, which do not come to whole pixels: name a size"
        )
    return int(wanted[0]), int(wanted[1])
