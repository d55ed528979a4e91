# SPDX-License-Identifier: Apache-2.0
"""Position of the batch in a program's tensors, so that it can be trained with another batch size.

A file says every shape for the batch of the example. What an operator makes of another follows from
its inputs, and shows where the batch is; a view's shape is an argument, and has to be found.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from poetfw.ops import Shape


@dataclass(frozen=True, slots=True)
class Place:
    """Position of the batch within a tensor.

    Attributes:
        before: how often the batch's samples repeat from the first element to the last: 1 where
            they are on axis 0. No view changes that.
        within: how many of these repetitions are on their own axis, which is [within · batch · …].
        extent: of that axis, in the file.
    """

    before: int
    within: int
    extent: int


@dataclass(frozen=True, slots=True)
class Batches:
    """A batch in a file, and the one that is asked for instead."""

    filed: int
    asked: int

    @property
    def first(self) -> Place:
        """The place of a batch that is axis 0."""
        return Place(1, 1, self.filed)

    def viewed(self, size: Shape, place: Place) -> tuple[Shape, Place | None]:
        """A view of that size in the file: its shape for the batch asked for, and its place."""
        if self.filed == self.asked:
            return size, place
        for axis, extent in enumerate(size):
            within, rest = divmod(place.before, math.prod(size[:axis]))
            if rest == 0 and extent % (within * self.filed) == 0:
                return self._with_batch(size, axis), Place(place.before, within, extent)
        return size, None

    def moved(self, size: Shape, shape: Shape, place: Place) -> Place | None:
        """Place of the batch in a result that has `size` in the file and `shape` with this batch.

        None where the axis that the batch was on in the input is no longer there.
        """
        if self.filed == self.asked:
            return place if shape == size else None
        for axis, extent in enumerate(size):
            if extent == place.extent and shape == self._with_batch(size, axis):
                return Place(math.prod(size[:axis]) * place.within, place.within, extent)
        return None

    def _with_batch(self, size: Shape, axis: int) -> Shape:
        return (*size[:axis], size[axis] // self.filed * self.asked, *size[axis + 1 :])
