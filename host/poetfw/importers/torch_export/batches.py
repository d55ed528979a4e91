# SPDX-License-Identifier: Apache-2.0
"""Position of the batch in a program's tensors, to train with another batch size.

A file has all shapes for the example's batch size. The result shape of most operators follows from
their inputs, which shows where the batch is; a view's shape is an argument, in which the batch has
to be located.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from poetfw.ops import Shape


@dataclass(frozen=True, slots=True)
class Place:
    """Position of the batch in a tensor.

    Attributes:
        before: number of times that the samples repeat from the first element to the last: 1 if the
            batch is axis 0. Views do not change it.
        within: number of these repetitions in the batch's own axis, which is [within · batch · …].
        extent: extent of this axis in the file.
    """

    before: int
    within: int
    extent: int


@dataclass(frozen=True, slots=True)
class Batches:
    """Batch size in the file, and the requested one."""

    filed: int
    asked: int

    @property
    def first(self) -> Place:
        """Position of a batch on axis 0."""
        return Place(1, 1, self.filed)

    def viewed(self, size: Shape, place: Place) -> tuple[Shape, Place | None]:
        """Shape with the requested batch, and batch position, of a view of `size` in the file."""
        if self.filed == self.asked:
            return size, place
        for axis, extent in enumerate(size):
            within, rest = divmod(place.before, math.prod(size[:axis]))
            if rest == 0 and extent % (within * self.filed) == 0:
                return self._with_batch(size, axis), Place(place.before, within, extent)
        return size, None

    def moved(self, size: Shape, shape: Shape, place: Place) -> Place | None:
        """Position of the batch in a result: `size` in the file, `shape` with the requested batch.

        None if the input's batch axis no longer exists.
        """
        if self.filed == self.asked:
            return place if shape == size else None
        for axis, extent in enumerate(size):
            if extent == place.extent and shape == self._with_batch(size, axis):
                return Place(math.prod(size[:axis]) * place.within, place.within, extent)
        return None

    def _with_batch(self, size: Shape, axis: int) -> Shape:
        return (*size[:axis], size[axis] // self.filed * self.asked, *size[axis + 1 :])
