# SPDX-License-Identifier: Apache-2.0
"""Strided walks through a tensor, as the kernels in `strided.c` make them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from poetfw.common.errors import ModelError
from poetfw.ir import Op
from poetfw.ops.base import Array, Kernel, Shape

_AXES = 6
"""Number of axes that a kernel walks along."""


@dataclass(frozen=True, slots=True)
class Walk:
    """Strided walk, with element offset + Σ i·steps at position i of the extents.

    Attributes:
        extents: number of positions along each axis.
        steps: distance between positions in elements; may be 0 or negative.
        offset: element of the first position.
    """

    extents: Shape
    steps: tuple[int, ...]
    offset: int = 0

    @staticmethod
    def stretched(small: Shape, large: Shape) -> Walk:
        """Walk through a tensor of shape `small` that is broadcast to `large` by NumPy's rules."""
        seen = (1,) * (len(large) - len(small)) + small
        steps = contiguous_steps(seen)
        return Walk(
            large, tuple(0 if extent == 1 else s for extent, s in zip(seen, steps, strict=True))
        )

    def indices(self) -> Array:
        """Element at each position, in order."""
        at: Array = np.full(1, self.offset)
        for extent, step in zip(self.extents, self.steps, strict=True):
            at = (at[:, np.newaxis] + step * np.arange(extent)).reshape(-1)
        return at

    def merged(self) -> Walk:
        """The same walk with adjacent axes merged."""
        extents: list[int] = []
        steps: list[int] = []
        for extent, step in zip(self.extents, self.steps, strict=True):
            if extent == 1:
                continue
            if extents and steps[-1] == step * extent:
                extents[-1] *= extent
                steps[-1] = step
            else:
                extents.append(extent)
                steps.append(step)
        return Walk(tuple(extents), tuple(steps), self.offset)

    @property
    def additions(self) -> int:
        """Largest number of roundings of an element that is the sum of several positions.

        A row with step 0 is summed first, then the rows. Elements along axes with other steps are
        assumed to differ.
        """
        walk = self.merged()
        stays = [e for e, step in zip(walk.extents, walk.steps, strict=True) if step == 0]
        if not stays:
            return 0
        last = walk.extents[-1] if walk.steps[-1] == 0 else 1
        return last + math.prod(stays) // last

    def kernel(self, op: Op, what: str, elements: int) -> Kernel:
        """The call of `poet_strided_<what>_f32` on an op's inputs and output.

        Args:
            op: the op.
            what: part of the kernel's name.
            elements: number of elements of the strided tensor.

        Raises:
            ModelError: The walk has more axes than the kernels have.
        """
        walk = self.merged()
        missing = _AXES - len(walk.extents)
        if missing < 0:
            raise ModelError(
                f"op {op.name!r} ({op.kind}) goes along {len(walk.extents)} axes: kernels have "
                f"{_AXES}"
            )
        extents, steps = (1,) * missing + walk.extents, (0,) * missing + walk.steps
        summed = (1,) * (what == "put" and steps[-1] == 0)  # a row, before it is put
        return Kernel(
            source="strided",
            function=f"poet_strided_{what}_f32",
            arguments=(*op.inputs, op.output),
            struct="poet_strided",
            fields=(
                *((f"extent{axis}", extent) for axis, extent in enumerate(extents)),
                *((f"step{axis}", step) for axis, step in enumerate(steps)),
                ("offset", walk.offset),
                ("elements", elements),
            ),
            loops=tuple((extent,) for extent in (*extents[:-1], *summed, extents[-1])),
        )


def contiguous_steps(shape: Sequence[int]) -> tuple[int, ...]:
    """Steps of a contiguous tensor: distance in elements between neighbours along each axis."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
