# SPDX-License-Identifier: Apache-2.0
"""The built-in data set `digits`: 1,797 images of handwritten digits, 8 x 8 pixels each.

They are the test part of the UCI "Optical Recognition of Handwritten Digits" data set (Alpaydin and
Kaynak, 1998; CC BY 4.0; doi:10.24432/C50P49), as distributed with scikit-learn. Pixels are scaled
from [0, 16] to [0, 2]: variance is near 1, and background is 0, like convolution's padding. For a
model with a larger input, every pixel is repeated k x k times, with the largest k that fits, inside
a border of background; all channels are equal. This replaces data of that size, without more
detail.
"""

from __future__ import annotations

from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from poetfw.common.errors import DataError
from poetfw.ir import Dtype
from poetfw.models import Model

_SIDE = 8


def load_digits(model: Model) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Images [1797, *features] in the shape of the model's input, and their digits [1797].

    Raises:
        DataError: The model's input is neither 64 features, nor 8 rows of 8, nor square images of 8
            x 8 or more.
    """
    with files(__package__).joinpath("digits.npz").open("rb") as file, np.load(file) as digits:
        images, labels = digits["images"], digits["labels"]
    shape = model.input.shape[1:] if model.input.dtype is Dtype.F32 else ()
    if shape == (_SIDE * _SIDE,):
        pixels = images.reshape(-1, _SIDE * _SIDE)
    elif len(shape) == 3 and shape[1] == shape[2] >= _SIDE:
        pixels = _enlarge(images, shape)
    elif shape == (_SIDE, _SIDE):
        pixels = images
    else:
        raise DataError(
            f"the digits do not fit model {model.name!r}, whose input has shape "
            f"{list(model.input.shape)}: they need {_SIDE * _SIDE} features, {_SIDE} rows of "
            f"{_SIDE}, or square images of {_SIDE} x {_SIDE} or more",
            "give your own data, or `--data synthetic`",
        )
    return (pixels / 8).astype(np.float32), labels.astype(np.int32)


def _enlarge(images: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Enlarge images [n, 8, 8] to [n, channels, side, side] with a border of background (0)."""
    channels, side, _ = shape
    scale = side // _SIDE
    border = side - scale * _SIDE
    around = (border // 2, border - border // 2)
    large = images.repeat(scale, axis=1).repeat(scale, axis=2)
    large = np.pad(large, ((0, 0), around, around))
    return np.repeat(large[:, None], channels, axis=1)
