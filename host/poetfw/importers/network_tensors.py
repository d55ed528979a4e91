# SPDX-License-Identifier: Apache-2.0
"""Weights and tensors of a network under construction: shapes, slices, permutations, padding."""

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


class NetworkTensors:
    """Tensors of a network under construction.

    Attributes:
        builder: graph under construction.
        loss: loss to train with.
        entries: mapping of the file's state dict to the graph's tensors.
        frozen: parameters that the file marks as not trained.
        warnings: possible differences from the network that the author meant.
        classes: number of classes of each label, and the class number that the loss ignores, if
            any.
        moving: running statistics of the file that a batch norm updates.
        fixed: tensors of the file of which results were calculated in advance.
        unlisted: tensors of the file that are not in the author's state dict.
    """

    def __init__(self, builder: GraphBuilder, loss: str) -> None:
        self.builder = builder
        self.loss = loss
        self.entries: list[StateEntry] = []
        self.frozen: list[str] = []
        self.warnings: list[str] = []
        self.classes: dict[str, tuple[int, int | None]] = {}
        self.moving: set[str] = set()
        self.fixed: set[str] = set()
        self.unlisted: set[str] = set()
        self._floats: dict[str, str] = {}
        self._step: str | None = None
        self._dropouts = 0
        self._forms: dict[str, tuple[object, ...]] = {}
        self._tensors: dict[tuple[object, ...], str] = {}

    def shape(self, x: str) -> Shape:
        """Shape of a tensor."""
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
        """Persistent tensor made of tensors of the file; created at the first call.

        Layers that share the file's tensors share this one. A tensor of the file can be used in one
        form only.

        Args:
            names: names in the state dict of each of the file's tensors.
            values: values of the persistent tensor: elements concatenated, or arranged by `form`.
            shapes: shapes of the file's tensors.
            form: "", "transposed" for a matrix, or a name for another arrangement of the elements.
            trained: True if the file requires a gradient.
            state: True for tensors that are updated but not trained, such as running statistics.

        Raises:
            UnsupportedError: The file's tensors are already used in another form.
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

    def is_held(self, *names: str) -> bool:
        """True if one persistent tensor already holds these tensors of the file."""
        holders = [each.tensor for each in self.entries if each.name in names]
        return len(holders) == len(names) and len(set(holders)) == 1

    def held(self, name: str, of: str, shape: Sequence[int]) -> str:
        """Append a view of the file's tensor `of`, as a part of the tensor that holds it."""
        (entry,) = (each for each in self.entries if each.name == of)
        size, whole = math.prod(entry.shape), math.prod(self.shape(entry.tensor))
        if size == whole:
            return self.reshape(name, entry.tensor, shape)
        flat = self.reshape(name, entry.tensor, (whole,))
        return self.reshape(name, self.part(name, flat, 0, entry.first, size), shape)

    def constant(self, name: str, values: NDArray[Any]) -> str:
        """Add a tensor that never changes."""
        return self.builder.state(name, np.ascontiguousarray(values, np.float32))

    def dropout(self, name: str, x: str, share: float, run: int = 1) -> str:
        """Append dropout of a share of x's runs of `run` elements; the rest is scaled up."""
        if share == 0:
            return x
        step, seed = self._drawing()
        attributes: dict[str, Attribute] = {"share": share, "seed": seed, "run": run}
        return self.builder.op("dropout", name, (x, step), attributes)

    def uniform(self, name: str, shape: Sequence[int]) -> str:
        """Append random numbers in [0, 1), drawn anew in each step."""
        step, seed = self._drawing()
        return self.builder.op("uniform", name, (step,), {"shape": tuple(shape), "seed": seed})

    def _drawing(self) -> tuple[str, int]:
        """Inputs of a random op: the step's number, and a seed that no other op has."""
        if self._step is None:
            self._step = self.constant("step", np.zeros(1))
        self._dropouts += 1
        return self._step, self._dropouts - 1

    def floats(self, name: str, x: str) -> str:
        """Convert x to f32; repeated conversions share one op."""
        if self.builder.dtype(x) is Dtype.F32:
            return x
        if x not in self._floats:
            self._floats[x] = self.builder.op("to_float", name, (x,))
        return self._floats[x]

    def integers(self, name: str, x: str) -> str:
        """Convert x to i32."""
        if self.builder.dtype(x) is Dtype.I32:
            return x
        return next(
            (integer for integer, real in self._floats.items() if real == x), None
        ) or self.builder.op("to_integer", name, (x,))

    # Shapes -----------------------------------------------------------------------------------

    def reshape(self, name: str, x: str, shape: Sequence[int]) -> str:
        """Append a reshape, unless the shape is unchanged."""
        wanted = tuple(shape) or (1,)  # a single number
        if self.shape(x) == wanted:
            return x
        return self.builder.op("reshape", name, (x,), {"shape": wanted})

    def detach(self, name: str, x: str) -> str:
        """Append a copy through which no gradient passes."""
        return self.builder.op("detach", name, (x,), {"shape": self.shape(x)})

    def permute(self, name: str, x: str, axes: Sequence[int]) -> str:
        """Permute: axis i of the result is axis `axes[i]` of x; a view if only 1-extents move."""
        shape = self.shape(x)
        result = tuple(shape[axis] for axis in axes)
        long = [axis for axis in axes if shape[axis] != 1]
        if long == sorted(long):
            return self.reshape(name, x, result)
        attributes: dict[str, Attribute] = {"view": shape, "axes": tuple(axes), "shape": result}
        return self.builder.op("transpose", name, (x,), attributes)

    def part(self, name: str, x: str, axis: int, start: int, length: int, step: int = 1) -> str:
        """Append a strided slice: `length` positions from `start` on, `step` apart, along an axis.

        A negative step goes backwards.
        """
        shape = self.shape(x)
        if length == shape[axis] and step == 1:
            return x
        if step == 1:
            attributes: dict[str, Attribute] = {"axis": axis, "start": start, "length": length}
            return self.builder.op("slice", name, (x,), attributes)
        steps = strides_of(shape)
        offset = start * steps[axis]
        steps[axis] *= step
        return self._take(name, x, (*shape[:axis], length, *shape[axis + 1 :]), steps, offset)

    def stretch(self, name: str, x: str, shape: Shape) -> str:
        """Append broadcasting of x to a shape by NumPy's rules."""
        seen = (1,) * (len(shape) - len(self.shape(x))) + self.shape(x)
        if seen == shape:
            return self.reshape(name, x, shape)
        steps = [
            0 if extent == 1 else step for extent, step in zip(seen, strides_of(seen), strict=True)
        ]
        if len(seen) != len(shape) or any(
            s not in (1, e) for s, e in zip(seen, shape, strict=True)
        ):
            raise UnsupportedError(f"shape {list(self.shape(x))} cannot stretch to {list(shape)}")
        return self._take(name, x, shape, steps, 0)

    def windows(self, name: str, x: str, axis: int, size: int, step: int) -> str:
        """Append windows of `size` positions along an axis, `step` apart, as a new last axis."""
        shape = self.shape(x)
        if size < 1 or size > shape[axis] or step < 1:
            raise UnsupportedError(f"it takes windows of {size}, {step} apart, of {shape[axis]}")
        steps = [*strides_of(shape), strides_of(shape)[axis]]
        steps[axis] *= step
        count = (shape[axis] - size) // step + 1
        return self._take(name, x, (*shape[:axis], count, *shape[axis + 1 :], size), steps, 0)

    def repeat_positions(self, name: str, x: str, factors: Pair) -> str:
        """Append nearest-neighbour upsampling of x [N, C, H, W] by integer factors."""
        batch, channels, height, width = self.shape(x)
        rows, columns = factors
        extents = (batch * channels * height, rows, width, columns)
        y = self._take(name, x, extents, [width, 0, 1, 0], 0)
        return self.reshape(name, y, (batch, channels, height * rows, width * columns))

    def _take(self, name: str, x: str, shape: Shape, steps: Sequence[int], offset: int) -> str:
        attributes: dict[str, Attribute] = {"shape": shape, "steps": tuple(steps), "offset": offset}
        return self.builder.op("take_strided", name, (x,), attributes)

    def concat(self, name: str, parts: Sequence[str], axis: int) -> str:
        """Append the concatenation of parts along an axis, joined in pairs."""
        if len(parts) == 1:
            return parts[0]
        half = len(parts) // 2
        pair = [self.concat(name, each, axis) for each in (parts[:half], parts[half:])]
        return self.builder.op("concat", name, pair, {"axis": axis})

    def pad(self, name: str, x: str, widths: Mapping[int, Pair], mode: str = "constant") -> str:
        """Append padding before and after x along each axis in `widths`.

        Args:
            name: name of the ops.
            x: name of the tensor.
            widths: padding before and after, by axis; a negative width crops.
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
                "steps": tuple(strides_of(whole)),
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


def strides_of(shape: Shape) -> list[int]:
    """Distance in elements between neighbours along each axis, in C order."""
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
