# SPDX-License-Identifier: Apache-2.0
"""Reads folders of images, resized to the model's input. Requires Pillow."""

from __future__ import annotations

import struct
import warnings
import zlib
from pathlib import Path
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from poetfw.common.errors import DataError, ToolError
from poetfw.importers.class_folders import list_classes
from poetfw.importers.samples import Samples
from poetfw.models import Model

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".ppm", ".pgm", ".webp")
_FORMATS = ("PNG", "JPEG", "BMP", "PPM", "WEBP")
_EIGHT_BIT_MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr")
_MOST_PIXELS = 1 << 25
_LARGEST_FILE_BYTES = 1 << 26
_MALFORMED = (  # raised by Pillow's decoders, besides OSError
    ValueError,
    SyntaxError,
    EOFError,
    struct.error,
    zlib.error,
    MemoryError,
    OverflowError,
    TypeError,
    KeyError,
    IndexError,
)


def read_images(path: Path, model: Model) -> Samples:
    """Read the images of a folder: grey for one channel, RGB for three, in [-1, 1].

    Images are resized to the input's height and width with an antialiasing triangle filter; the
    aspect ratio may change.

    Raises:
        DataError: The model does not take images, a file is not an image or too large, or see
            `list_classes`.
        ToolError: Pillow is missing.
    """
    shape = model.input.shape[1:]
    if len(shape) != 3 or shape[0] not in (1, 3):
        raise DataError(
            f"{path}: model {model.name!r} reads {list(shape)}, but images need an input of "
            "[1, height, width] or [3, height, width]"
        )
    pillow = _pillow()
    channels, height, width = shape
    mode = "L" if channels == 1 else "RGB"

    def read(file: Path) -> NDArray[np.float32]:
        return _read_image(pillow, file, mode, (width, height)) / np.float32(127.5) - 1

    record: dict[str, object] = {
        "images": {"mode": mode, "height": height, "width": width, "scaling": "pixel / 127.5 - 1"}
    }
    return list_classes(path, SUFFIXES).read(model, read, record)


def _pillow() -> ModuleType:
    try:
        from PIL import Image
    except ImportError as error:
        raise ToolError(
            "images are read with Pillow, which is not installed", "pip install 'poetfw[images]'"
        ) from error
    module: ModuleType = Image
    return module


def _read_image(
    pillow: ModuleType, path: Path, mode: str, size: tuple[int, int]
) -> NDArray[np.float32]:
    """Pixels [channels, height, width] in [0, 255]."""
    if path.stat().st_size > _LARGEST_FILE_BYTES:
        raise DataError(f"{path}: it has more than {_LARGEST_FILE_BYTES:,} bytes")
    try:
        # Pillow warns of images that are larger than those refused here before decoding.
        with (
            warnings.catch_warnings(action="ignore"),
            pillow.open(path, formats=_FORMATS) as image,
        ):
            if image.width * image.height > _MOST_PIXELS:
                raise DataError(
                    f"{path}: it has {image.width} x {image.height} pixels, more than the "
                    f"{_MOST_PIXELS:,} that are read"
                )
            if image.mode not in _EIGHT_BIT_MODES:
                raise DataError(f"{path}: its pixels have other than 8 bits ({image.mode})")
            resized = image.convert(mode).resize(size, pillow.Resampling.BILINEAR)
            pixels = np.asarray(resized, np.float32)
    except (pillow.UnidentifiedImageError, pillow.DecompressionBombError, *_MALFORMED) as error:
        raise DataError(
            f"{path}: no image of {', '.join(_FORMATS)}, or damaged: {error}"
        ) from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read, or is damaged: {error}") from error
    return pixels.reshape(size[1], size[0], -1).transpose(2, 0, 1)
