# SPDX-License-Identifier: Apache-2.0
"""A network while a file is translated to poetfw's operators: what every importer builds with.

A method appends ops and returns the name of the tensor that they come to. It knows what files may
say in another way than poetfw's operators do: images of one axis, channels elsewhere, matrices of
more than two axes, tensors that are stretched to each other, weights that are shared.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poetfw.importers.refusal import UnsupportedError
from poetfw.ir import Attribute, Dtype
from poetfw.models import GraphBuilder, StateEntry
from poetfw.ops import Shape

Pair = tuple[int, int]
Edges = tuple[int, int, int, int]
"""At the top, left, bottom and right."""

HIDDEN = -1e30
"""Value that a mask adds to hide a position from attention, for minus infinity: its exp is 0."""


LARGEST_POWER = 64
"""Whole powers up to this are products."""
SMALLEST_BASE = 1e-37
"""Of other powers: below it, x counts as this, and takes no gradient."""


class Network:
    """A network that is being built.

    Attributes:
        builder: the graph being built.
        loss: what the model is to be trained with.
        entries: where the tensors of the file's state dict lie in those of the graph.
        frozen: parameters that the file says are not trained.
        warnings: what may make it another network than its author means.
        classes: how many classes each label numbers, and the number that does not count, if any.
    """

    def __init__(self, builder: GraphBuilder, loss: str) -> None:
        self.builder = builder
        self.loss = loss
        self.entries: list[StateEntry] = []
        self.frozen: list[str] = []
        self.warnings: list[str] = []
        self.classes: dict[str, tuple[int, int | None]] = {}
        self._floats: dict[str, str] = {}
        self._step: str | None = None
        self._dropouts = 0
        self._forms: dict[str, tuple[object, ...]] = {}
        self._tensors: dict[tuple[object, ...], str] = {}

    def shape(self, x: str) -> Shape:
        """The shape of a tensor."""
        return self.builder.shape(x)

    # Weights ----------------------------------------------------------------------------------

    def parameter(
        self,
        names: Sequence[Sequence[str]],
        values: NDArray[np.float32],
        shapes: Sequence[Shape],
        form: str = "",
        *,
        trained: bool = True,
        state: bool = False,
    ) -> str:
        """The persistent tensor that is made from tensors of the file, made at the first call.

        What shares a tensor of the file shares this one. No tensor may be trained twice, in two
        forms.

        Args:
            names: for each of the file's tensors, its names in the state dict.
            values: what they come to: their elements one after the other, or as `form` says.
            shapes: of the file's tensors.
            form: "", or "transposed" for a matrix, or how else elements lie.
            trained: whether the file lets it take a gradient.
            state: whether it is not a parameter, but follows training, as running statistics do.

        Raises:
            UnsupportedError: it is used already, in another form.
        """
        key = (*(tuple(each) for each in names), values.shape, form)
        for each in names:
            if self._forms.setdefault(each[0], key) != key:
                raise UnsupportedError(
                    f"its weights {each[0]!r} are shared with a node that uses them in another form"
                )
        if key not in self._tensors:
            joined = "+".join(each[0] for each in names)
            add = self.builder.state if state else self.builder.parameter
            tensor = add(joined, values)
            self._tensors[key] = tensor
            if not trained and not state:
                self.frozen.append(tensor)
            first = 0
            for each, shape in zip(names, shapes, strict=True):
                for name in each:
                    self.entries.append(
                        StateEntry(name, tensor, shape, first, form == "transposed")
                    )
                first += math.prod(shape)
        return self._tensors[key]

    def constant(self, name: str, values: NDArray[Any]) -> str:
        """A tensor that never changes."""
        return self.builder.state(name, np.ascontiguousarray(values, np.float32))

    def dropout(self, name: str, x: str, share: float, run: int = 1) -> str:
        """X without a share of its runs of `run` elements in training, the rest scaled up."""
        if share == 0:
            return x
        if self._step is None:
            self._step = self.constant("step", np.zeros(1))
        attributes: dict[str, Attribute] = {"share": share, "seed": self._dropouts, "run": run}
        self._dropouts += 1
        return self.builder.op("dropout", name, (x, self._step), attributes)

    def floats(self, name: str, x: str) -> str:
        """X as f32, converted once."""
        if self.builder.dtype(x) is Dtype.F32:
            return x
        if x not in self._floats:
            self._floats[x] = self.builder.op("to_float", name, (x,))
        return self._floats[x]

    def integers(self, name: str, x: str) -> str:
        """X as i32."""
        if self.builder.dtype(x) is Dtype.I32:
            return x
        return next(
            (integer for integer, real in self._floats.items() if real == x), None
        ) or self.builder.op("to_integer", name, (x,))

    # Shapes -----------------------------------------------------------------------------------

    def reshape(self, name: str, x: str, shape: Sequence[int]) -> str:
        """The same elements under another shape."""
        if self.shape(x) == tuple(shape):
            return x
        return self.builder.op("reshape", name, (x,), {"shape": tuple(shape)})

    def detach(self, name: str, x: str) -> str:
        """The same elements, through which no gradient passes."""
        return self.builder.op("detach", name, (x,), {"shape": self.shape(x)})

    def permute(self, name: str, x: str, axes: Sequence[int]) -> str:
        """Axis i of the result is axis `axes[i]` of x: a view where only axes of extent 1 move."""
        shape = self.shape(x)
        result = tuple(shape[axis] for axis in axes)
        long = [axis for axis in axes if shape[axis] != 1]
        if long == sorted(long):
            return self.reshape(name, x, result)
        attributes: dict[str, Attribute] = {"view": shape, "axes": tuple(axes), "shape": result}
        return self.builder.op("transpose", name, (x,), attributes)

    def part(self, name: str, x: str, axis: int, start: int, length: int, step: int = 1) -> str:
        """Every `step`-th of the positions from `start` on along an axis, so many of them.

        A step below 0 runs back.
        """
        shape = self.shape(x)
        if length == shape[axis] and step == 1:
            return x
        if step == 1:
            attributes: dict[str, Attribute] = {"axis": axis, "start": start, "length": length}
            return self.builder.op("slice", name, (x,), attributes)
        steps = _steps(shape)
        offset = start * steps[axis]
        steps[axis] *= step
        return self._take(name, x, (*shape[:axis], length, *shape[axis + 1 :]), steps, offset)

    def stretch(self, name: str, x: str, shape: Shape) -> str:
        """X stretched to a shape by NumPy's rules."""
        seen = (1,) * (len(shape) - len(self.shape(x))) + self.shape(x)
        if seen == shape:
            return self.reshape(name, x, shape)
        steps = [
            0 if extent == 1 else step for extent, step in zip(seen, _steps(seen), strict=True)
        ]
        if len(seen) != len(shape) or any(
            s not in (1, e) for s, e in zip(seen, shape, strict=True)
        ):
            raise UnsupportedError(f"shape {list(self.shape(x))} cannot stretch to {list(shape)}")
        return self._take(name, x, shape, steps, 0)

    def windows(self, name: str, x: str, axis: int, size: int, step: int) -> str:
        """Windows of `size` positions along an axis, `step` apart: a window is the last axis."""
        shape = self.shape(x)
        if size < 1 or size > shape[axis] or step < 1:
            raise UnsupportedError(f"it takes windows of {size}, {step} apart, of {shape[axis]}")
        steps = [*_steps(shape), _steps(shape)[axis]]
        steps[axis] *= step
        count = (shape[axis] - size) // step + 1
        return self._take(name, x, (*shape[:axis], count, *shape[axis + 1 :], size), steps, 0)

    def repeat_positions(self, name: str, x: str, factors: Pair) -> str:
        """Each pixel of x [N, C, H, W] as often as the factors say: upsampling to the nearest."""
        batch, channels, height, width = self.shape(x)
        rows, columns = factors
        extents = (batch * channels * height, rows, width, columns)
        y = self._take(name, x, extents, [width, 0, 1, 0], 0)
        return self.reshape(name, y, (batch, channels, height * rows, width * columns))

    def _take(self, name: str, x: str, shape: Shape, steps: Sequence[int], offset: int) -> str:
        attributes: dict[str, Attribute] = {"shape": shape, "steps": tuple(steps), "offset": offset}
        return self.builder.op("take_strided", name, (x,), attributes)

    def concat(self, name: str, parts: Sequence[str], axis: int) -> str:
        """The parts one after the other along an axis, joined in pairs."""
        if len(parts) == 1:
            return parts[0]
        half = len(parts) // 2
        pair = [self.concat(name, each, axis) for each in (parts[:half], parts[half:])]
        return self.builder.op("concat", name, pair, {"axis": axis})

    def pad(self, name: str, x: str, widths: Mapping[int, Pair], mode: str = "constant") -> str:
        """X with elements before and after it along each axis that `widths` names.

        Args:
            name: of the ops.
            x: the tensor.
            widths: by axis; below 0, as many elements are left out.
            mode: "constant" (zeros), "reflect", "replicate" or "circular", as in PyTorch.
        """
        for axis, (before, after) in widths.items():
            extent = self.shape(x)[axis]
            cut = (max(-before, 0), max(-after, 0))
            if any(cut):
                x = self.part(name, x, axis, cut[0], extent - sum(cut))
                before, after = max(before, 0), max(after, 0)
            x = self._pad_axis(name, x, axis, before, after, mode)
        return x

    def _pad_axis(self, name: str, x: str, axis: int, before: int, after: int, mode: str) -> str:
        if before == after == 0:
            return x
        shape = self.shape(x)
        extent = shape[axis]
        if mode == "constant":
            whole = (*shape[:axis], before + extent + after, *shape[axis + 1 :])
            attributes: dict[str, Attribute] = {
                "shape": whole,
                "steps": tuple(_steps(whole)),
                "offset": before * math.prod(shape[axis + 1 :]),
            }
            return self.builder.op("put_strided", name, (x,), attributes)
        most = {"reflect": extent - 1, "circular": extent}.get(mode, before + after)
        if mode not in ("reflect", "replicate", "circular") or max(before, after) > most:
            raise UnsupportedError(f"it pads {extent} elements by {before} and {after}, {mode}")

        def edge(count: int, at_start: bool) -> list[str]:
            if count == 0:
                return []
            if mode == "reflect":
                first = count if at_start else extent - 2
                return [self.part(name, x, axis, first, count, -1)]
            if mode == "circular":
                return [self.part(name, x, axis, extent - count if at_start else 0, count)]
            one = self.part(name, x, axis, 0 if at_start else extent - 1, 1)
            return [self.stretch(name, one, (*shape[:axis], count, *shape[axis + 1 :]))]

        return self.concat(name, [*edge(before, True), x, *edge(after, False)], axis)

    # Arithmetic -------------------------------------------------------------------------------

    def add(self, name: str, a: str, b: str) -> str:
        """A + b, stretched to each other."""
        if self.shape(a) == self.shape(b):
            return self.builder.op("add", name, (a, b))
        return self.builder.op("add_broadcast", name, self._stretched(name, a, b))

    def multiply(self, name: str, a: str, b: str) -> str:
        """A · b, stretched to each other."""
        return self.builder.op("multiply", name, self._stretched(name, a, b))

    def scale(self, name: str, x: str, factor: float) -> str:
        """X times a number."""
        return x if factor == 1 else self.builder.op("scale", name, (x,), {"factor": factor})

    def shift(self, name: str, x: str, number: float) -> str:
        """X plus a number."""
        if number == 0:
            return x
        ones = (1,) * len(self.shape(x))
        return self.add(name, x, self.constant(f"{name}.number", np.full(ones, number, np.float32)))

    def clip(self, name: str, x: str, low: float | None, high: float | None) -> str:
        """X between two numbers, of which None is none."""
        if low == 0 and high in (None, 6, math.inf):
            return self.builder.op("relu6" if high == 6 else "relu", name, (x,))
        if low is not None and high is not None and low > high:
            raise UnsupportedError(f"it clips to [{low:g}, {high:g}]")
        if low is not None and low != -math.inf:
            x = self.builder.op("at_least", name, (x,), {"bound": float(low)})
        if high is not None and high != math.inf:
            x = self.builder.op("at_most", name, (x,), {"bound": float(high)})
        return x

    def prelu(self, name: str, x: str, slope: str) -> str:
        """X above 0, and below it x times a slope, which is stretched to x (He et al., 2015)."""
        above = self.builder.op("relu", name, (x,))
        below = self.add(name, x, self.scale(name, above, -1.0))
        return self.add(name, above, self.multiply(name, below, slope))

    def mish(self, name: str, x: str) -> str:
        """X · tanh(softplus(x)) (Misra, 2019)."""
        inner = self.builder.op("softplus", name, (x,))
        return self.multiply(name, x, self.builder.op("tanh", name, (inner,)))

    def power(self, name: str, x: str, exponent: float) -> str:
        """X to the power of a number.

        Whole powers of any x; others of x from 0 on, by a logarithm that is bounded below.
        """
        steps = {
            0.5: ("sqrt",),
            -0.5: ("sqrt", "reciprocal"),
            -1: ("reciprocal",),
            -2: ("square", "reciprocal"),
            2: ("square",),
            3: ("square",),
            4: ("square", "square"),
        }
        if exponent in (1, *steps):
            y = x
            for kind in steps.get(exponent, ()):
                y = self.builder.op(kind, name, (y,))
            return self.multiply(name, y, x) if exponent == 3 else y
        if exponent == 0:
            return self.shift(name, self.scale(name, x, 0.0), 1.0)
        if exponent == int(exponent) and abs(exponent) <= LARGEST_POWER:
            if exponent < 0:
                return self.builder.op("reciprocal", name, (self.power(name, x, -exponent),))
            half = self.power(name, self.power(name, x, exponent // 2), 2)
            return self.multiply(name, half, x) if exponent % 2 else half
        log = self.builder.op("log", name, (self.clip(name, x, SMALLEST_BASE, None),))
        return self.builder.op("exp", name, (self.scale(name, log, exponent),))

    def _stretched(self, name: str, a: str, b: str) -> tuple[str, str]:
        """A and b in an order in which the second is stretched to the first."""
        shape = np.broadcast_shapes(self.shape(a), self.shape(b))
        if self.shape(a) == shape:
            return a, b
        if self.shape(b) == shape:
            return b, a
        return self.stretch(name, a, shape), b

    def mean(
        self, name: str, x: str, axes: Sequence[int], *, keep: bool, total: bool = False
    ) -> str:
        """The mean, or with `total` the sum, over axes, which stay with extent 1 if `keep`."""
        shape = self.shape(x)
        kept = tuple(1 if axis in axes else extent for axis, extent in enumerate(shape))
        if len(shape) == 4 and sorted(axes) == [2, 3] and not total:
            y = self.builder.op("global_avg_pool", name, (x,))
        else:
            count = math.prod(shape) // math.prod(kept)
            y = self.builder.op("sum_to", name, (x,), {"shape": kept}) if kept != shape else x
            y = y if total else self.scale(name, y, 1 / count)
        if keep:
            return y
        left = [extent for axis, extent in enumerate(shape) if axis not in axes]
        return self.reshape(name, y, left or [1])

    def largest(self, name: str, x: str, axes: Sequence[int], *, keep: bool) -> str:
        """The largest element along axes, which stay with extent 1 if `keep`.

        Of several that are equal, the first one takes the gradient.
        """
        shape = self.shape(x)
        others = [axis for axis in range(len(shape)) if axis not in axes]
        turned = self.permute(name, x, [*others, *axes])
        rows = math.prod(shape[axis] for axis in others)
        length = math.prod(shape[axis] for axis in axes)
        image = self.reshape(name, turned, (1, rows, 1, length))
        kernel = (1, length)
        y = self.pool("max_pool2d", name, image, kernel=kernel, stride=kernel, padding=(0,) * 4)
        kept = [1 if axis in axes else extent for axis, extent in enumerate(shape)]
        return self.reshape(name, y, kept if keep else [shape[axis] for axis in others])

    # Layers -----------------------------------------------------------------------------------

    def linear(self, name: str, x: str, weight: str, bias: str | None) -> str:
        """X [..., F] times the transpose of weight [O, F], and bias [O]."""
        shape = self.shape(x)
        rows = self.reshape(name, x, (math.prod(shape[:-1]), shape[-1]))
        inputs = (rows, weight) if bias is None else (rows, weight, bias)
        y = self.builder.op("linear", name, inputs)
        return self.reshape(name, y, (*shape[:-1], self.shape(weight)[0]))

    def matmul(self, name: str, a: str, b: str) -> str:
        """The product of matrices, or of batches of them, stretched to each other.

        A vector counts as a matrix of one row or column, as in NumPy.
        """
        first, second = self.shape(a), self.shape(b)
        if not first or not second:
            raise UnsupportedError("it multiplies by a single number")
        if len(first) == 1:
            a = self.reshape(name, a, (1, *first))
        if len(second) == 1:
            b = self.reshape(name, b, (*second, 1))
        batch = np.broadcast_shapes(self.shape(a)[:-2], self.shape(b)[:-2])
        a = self.stretch(name, a, (*batch, *self.shape(a)[-2:]))
        b = self.stretch(name, b, (*batch, *self.shape(b)[-2:]))
        y = self.builder.op("matmul", name, (a, b), {"transpose_a": 0, "transpose_b": 0})
        shape = self.shape(y)
        if len(second) == 1:
            shape = shape[:-1]
        if len(first) == 1:
            shape = (*shape[: len(batch)], *shape[len(batch) + 1 :])
        return self.reshape(name, y, shape)

    def einsum(self, name: str, equation: str, factors: Sequence[str]) -> str:
        """Einstein's sum of one tensor or two, as a product of matrices.

        Raises:
            UnsupportedError: there are more than two, or one has a letter twice.
        """
        terms, arrow, result = equation.replace(" ", "").partition("->")
        letters = terms.split(",")
        if not arrow:
            result = "".join(c for c in sorted(set(terms) - {","}) if terms.count(c) == 1)
        if (
            not 1 <= len(factors) == len(letters) <= 2
            or not all(
                each.isalpha() and len(set(each)) == len(each) for each in (*letters, result)
            )
            or any(
                len(each) != len(self.shape(x)) for each, x in zip(letters, factors, strict=True)
            )
            or not set(result) <= set(terms)
        ):
            raise UnsupportedError(f"its equation is {equation!r:.60}; poetfw multiplies 2 tensors")
        extents: dict[str, int] = {}
        rows, kept = [], []
        for index, (each, x) in enumerate(zip(letters, factors, strict=True)):
            others = {*result, *"".join(letters[:index] + letters[index + 1 :])}
            gone = [axis for axis, letter in enumerate(each) if letter not in others]
            rows.append(self.mean(name, x, gone, keep=False, total=True) if gone else x)
            kept.append([letter for letter in each if letter in others])
            extents |= dict(zip(each, self.shape(x), strict=True))
        if len(rows) == 1:
            return self.permute(name, rows[0], [kept[0].index(c) for c in result])
        shared = [c for c in kept[0] if c in kept[1]]
        parts = [
            [c for c in shared if c in result],
            [c for c in kept[0] if c not in shared],
            [c for c in shared if c not in result],
            [c for c in kept[1] if c not in shared],
        ]

        def matrices(x: str, own: list[str], *parts: list[str]) -> str:
            turned = self.permute(name, x, [own.index(c) for part in parts for c in part])
            shape = [math.prod(extents[c] for c in part) for part in parts]
            return self.reshape(name, turned, shape)

        batch, left, summed, right = parts
        first = matrices(rows[0], kept[0], batch, left, summed)
        second = matrices(rows[1], kept[1], batch, summed, right)
        made = [*batch, *left, *right]
        y = self.reshape(name, self.matmul(name, first, second), [extents[c] for c in made])
        return self.permute(name, y, [made.index(c) for c in result])

    def conv(
        self,
        name: str,
        x: str,
        weight: str,
        bias: str | None,
        *,
        stride: Pair,
        padding: Edges,
        dilation: Pair = (1, 1),
        groups: int = 1,
    ) -> str:
        """Convolution of x [N, C, H, W] with weight [O, C/groups, kh, kw].

        Dilation puts zeros between the weight's elements.
        """
        if dilation != (1, 1):
            weight = self._dilated(f"{name}.dilated", weight, dilation)
        inputs = (x, weight) if bias is None else (x, weight, bias)
        attributes: dict[str, Attribute] = {"stride": stride, "padding": padding, "groups": groups}
        return self.builder.op("conv2d", name, inputs, attributes)

    def conv_transpose(
        self,
        name: str,
        x: str,
        weight: str,
        bias: str | None,
        *,
        stride: Pair,
        padding: Pair,
        more: Pair,
        dilation: Pair,
        groups: int,
    ) -> str:
        """Transposed convolution of x [N, C, H, W] with weight [C, O/groups, kh, kw].

        It is the gradient, with respect to its input, of the convolution with that weight; `more`
        says how many rows and columns the result has beyond those that this asks for.
        """
        if dilation != (1, 1):
            weight = self._dilated(f"{name}.dilated", weight, dilation)
        shape, kernel = self.shape(x), self.shape(weight)
        extents = [
            (extent - 1) * s - 2 * p + k + m
            for extent, s, p, k, m in zip(shape[2:], stride, padding, kernel[2:], more, strict=True)
        ]
        attributes: dict[str, Attribute] = {
            "stride": stride,
            "padding": (*padding, *padding),
            "groups": groups,
            "input_shape": (shape[0], kernel[1] * groups, *extents),
        }
        y = self.builder.op("conv2d_backward_input", name, (weight, x), attributes)
        if bias is None:
            return y
        return self.add(name, y, self.reshape(f"{name}.bias", bias, (*self.shape(bias), 1, 1)))

    def _dilated(self, name: str, weight: str, dilation: Pair) -> str:
        shape = self.shape(weight)
        if min(dilation) < 1:
            raise UnsupportedError(f"its dilation is {list(dilation)}, but must be 1 or more")
        height, width = ((k - 1) * d + 1 for k, d in zip(shape[2:], dilation, strict=True))
        whole = (*shape[:2], height, width)
        steps = _steps(whole)
        steps[2:] = [steps[2] * dilation[0], steps[3] * dilation[1]]
        attributes: dict[str, Attribute] = {"shape": whole, "steps": tuple(steps), "offset": 0}
        return self.builder.op("put_strided", name, (weight,), attributes)

    def pool(
        self,
        kind: str,
        name: str,
        x: str,
        *,
        kernel: Pair,
        stride: Pair,
        padding: Edges,
        ceil: bool = False,
        include: bool = True,
    ) -> str:
        """Pooling of x [N, C, H, W]: `max_pool2d`, or `avg_pool2d`.

        Args:
            kind: the operator.
            name: of the op.
            x: what is pooled.
            kernel: the window's height and width.
            stride: rows and columns between windows.
            padding: around x.
            ceil: whether a last window may reach beyond the padded edge. As in PyTorch, it begins
                within x or the padding before it, and elements beyond the padding never count.
            include: whether an average counts padding.
        """
        if min(stride) < 1:
            raise UnsupportedError(f"its stride is {list(stride)}, but must be 1 or more")
        top, left, bottom, right = padding
        extents = self.shape(x)[2:]
        beyond = [
            _beyond(extent, k, s, before, after) if ceil else 0
            for extent, k, s, before, after in zip(
                extents, kernel, stride, (top, left), (bottom, right), strict=True
            )
        ]
        attributes: dict[str, Attribute] = {
            "kernel": kernel,
            "stride": stride,
            "padding": (top, left, bottom + beyond[0], right + beyond[1]),
        }
        if kind == "avg_pool2d":
            if any(beyond) and include and any(padding):
                raise UnsupportedError(
                    "it averages with ceil_mode and padding that counts: poetfw has windows beyond "
                    "the edge only without padding, or with count_include_pad=False"
                )
            attributes["count_include_pad"] = int(include and any(padding))
        return self.builder.op(kind, name, (x,), attributes)

    def adaptive_pool(self, kind: str, name: str, x: str, sizes: Pair) -> str:
        """Pooling of x [N, C, H, W] to some height and width: `max_pool2d`, or `avg_pool2d`.

        Where they do not divide x's, windows are of several sizes, and overlap: from the floor of
        i · extent / size to the ceiling of (i + 1) · extent / size.
        """
        extents = self.shape(x)[2:]
        if min(sizes) < 1:
            raise UnsupportedError(f"it pools to {sizes[0]} x {sizes[1]}")
        if kind == "avg_pool2d" and sizes == (1, 1):
            return self.builder.op("global_avg_pool", name, (x,))
        if not any(extent % size for extent, size in zip(extents, sizes, strict=True)):
            kernel = (extents[0] // sizes[0], extents[1] // sizes[1])
            return self.pool(kind, name, x, kernel=kernel, stride=kernel, padding=(0,) * 4)
        for axis, size in zip((2, 3), sizes, strict=True):
            extent = self.shape(x)[axis]
            windows = [(i * extent // size, -(-(i + 1) * extent // size)) for i in range(size)]
            if kind == "avg_pool2d":
                means = np.zeros((size, extent), np.float32)
                for i, (first, end) in enumerate(windows):
                    means[i, first:end] = 1 / (end - first)
                x = self.map_axis(name, x, axis, means)
            else:
                parts = [self.part(name, x, axis, first, end - first) for first, end in windows]
                rows = [self.largest(name, part, [axis], keep=True) for part in parts]
                x = self.concat(name, rows, axis)
        return x

    def take_nearest(
        self, name: str, x: str, sizes: Pair, ratios: tuple[float, float], centre: float = 0.0
    ) -> str:
        """Images x [N, C, H, W] brought to another height and width, each pixel of the nearest.

        Pixel i is that at the floor of (i + centre) · ratio.
        """
        for axis, size, ratio in zip((2, 3), sizes, ratios, strict=True):
            extent = self.shape(x)[axis]
            at = np.minimum(((np.arange(size) + centre) * ratio).astype(int), extent - 1)
            if not np.array_equal(at, np.arange(extent)):
                x = self.map_axis(name, x, axis, np.eye(extent)[at])
        return x

    def interpolate_cubic(self, name: str, x: str, sizes: Pair, *, corners: bool) -> str:
        """Images x [N, C, H, W] brought to another height and width, by cubics (Keys, 1981)."""
        sharp = -0.75  # PyTorch's

        def weight(distance: NDArray[np.float64]) -> NDArray[np.float64]:
            d = np.abs(distance)
            near = ((sharp + 2) * d - (sharp + 3)) * d * d + 1
            far = ((sharp * d - 5 * sharp) * d + 8 * sharp) * d - 4 * sharp
            return np.where(d <= 1, near, np.where(d < 2, far, 0))

        for axis, size in zip((2, 3), sizes, strict=True):
            extent = self.shape(x)[axis]
            if size == extent:
                continue
            at = np.arange(size) * ((extent - 1) / max(size - 1, 1))
            if not corners:
                at = (np.arange(size) + 0.5) * (extent / size) - 0.5
            first = np.floor(at).astype(int)
            weights = np.zeros((size, extent))
            for offset in (-1, 0, 1, 2):
                place = np.clip(first + offset, 0, extent - 1)
                np.add.at(weights, (np.arange(size), place), weight(at - (first + offset)))
            x = self.map_axis(name, x, axis, weights)
        return x

    def interpolate(self, name: str, x: str, sizes: Pair, *, corners: bool) -> str:
        """Images x [N, C, H, W] brought to another height and width, linearly between pixels.

        Args:
            name: of the ops.
            x: the images.
            sizes: height and width.
            corners: whether the centres of the pixels at the corners stay where they are, rather
                than the edges of these pixels.
        """
        for axis, size in zip((2, 3), sizes, strict=True):
            extent = self.shape(x)[axis]
            if size == extent:
                continue
            if corners:
                at = np.arange(size) * ((extent - 1) / max(size - 1, 1))
            else:
                at = np.maximum((np.arange(size) + 0.5) * (extent / size) - 0.5, 0)
            low = np.minimum(at.astype(int), extent - 1)
            high, rest = np.minimum(low + 1, extent - 1), at - low
            weights = np.zeros((size, extent))
            np.add.at(weights, (np.arange(size), low), 1 - rest)
            np.add.at(weights, (np.arange(size), high), rest)
            x = self.map_axis(name, x, axis, weights)
        return x

    def map_axis(self, name: str, x: str, axis: int, weights: NDArray[Any]) -> str:
        """X with an axis multiplied by a constant matrix [new extent, extent]."""
        rank = len(self.shape(x))
        axes = [i for i in range(rank) if i != axis] + [axis]
        last = self.permute(name, x, axes)
        y = self.linear(name, last, self.constant(f"{name}.weights", weights), None)
        return self.permute(name, y, [axes.index(i) for i in range(rank)])

    def softmax(self, name: str, x: str, axis: int) -> str:
        """Softmax along an axis."""
        last = len(self.shape(x)) - 1
        axes = [i for i in range(last + 1) if i != axis] + [axis]
        y = self.builder.op("softmax", name, (self.permute(name, x, axes),))
        return self.permute(name, y, [axes.index(i) for i in range(last + 1)])

    def normalize(
        self, name: str, x: str, affine: str, *, eps: float, groups: int, inner: int
    ) -> str:
        """Normalisation of each group of channels of each sample: of a layer, group or instance.

        Args:
            name: of the op.
            x: channels, each of `inner` elements, are its last axes.
            affine: [2, channels]: scale and shift of each channel.
            eps: added to the variance.
            groups: into which the channels are divided.
            inner: elements of a channel.
        """
        channels = self.shape(affine)[1]
        attributes: dict[str, Attribute] = {"groups": groups, "channels": channels, "inner": inner}
        attributes["eps"] = eps
        return self.builder.op("layer_norm", name, (x, affine), attributes)


def _steps(shape: Shape) -> list[int]:
    """Distance in elements between neighbours along each axis."""
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


def _beyond(extent: int, kernel: int, stride: int, before: int, after: int) -> int:
    """By how many elements the last window reaches beyond the padding, with `ceil_mode`."""
    last = -(-(extent + before + after - kernel) // stride)
    if last * stride >= extent + before:
        last -= 1
    return max(last * stride + kernel - (extent + before + after), 0)
