# SPDX-License-Identifier: Apache-2.0
"""Images with one or two spatial axes, as rules use them."""

from __future__ import annotations

from poetfw.importers.network_tensors import Pair
from poetfw.importers.refusal import UnsupportedError
from poetfw.importers.torch_export.calls import Call, Value
from poetfw.importers.torch_export.rules.registry import Ints
from poetfw.ops import Shape


def image_of(shape: Shape) -> Shape:
    """View shape [N, C, L] as [N, C, 1, L]; a shape with four axes is returned as it is.

    Raises:
        UnsupportedError: The shape has another number of axes.
    """
    if len(shape) not in (3, 4):
        raise UnsupportedError(f"shape {list(shape)} is not a batch of images or sequences")
    return shape if len(shape) == 4 else (*shape[:2], 1, shape[2])


def as_image(call: Call, value: Value) -> str:
    """View a value as a batch of images; sequences become images of height 1."""
    x = call.tensor(value)
    return call.net.reshape(call.name, x, image_of(call.net.shape(x)))


def as_ranked(call: Call, y: str, like: Value) -> str:
    """View images with as many axes as a value has."""
    shape = call.net.shape(y)
    if len(call.shape(like)) == 4:
        return y
    return call.net.reshape(call.name, y, (*shape[:2], shape[3]))


def pair_of(numbers: Ints, shape: Shape, neutral: int) -> Pair:
    """Numbers for height and width; a single one is for both, or for a sequence's length."""
    if len(shape) == 3 and len(numbers) == 1:
        return neutral, numbers[0]
    if len(numbers) not in (1, 2):
        raise UnsupportedError(f"it has {list(numbers)} where 2 numbers are meant")
    return numbers[0], numbers[-1]
