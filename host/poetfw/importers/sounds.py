# SPDX-License-Identifier: Apache-2.0
"""Reads folders of WAV files and computes features of their sounds."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from poetfw.common.errors import DataError
from poetfw.common.option_values import FEATURES
from poetfw.importers.class_folders import list_classes
from poetfw.importers.samples import Samples
from poetfw.importers.spectra import Spectra
from poetfw.models import Model

SUFFIXES = (".wav",)
_RATES = range(4_000, 192_001)
_MOST_CHANNELS = 8
_MOST_FRAMES = 10_000
_PCM, _EXTENSIBLE = 1, 0xFFFE
_OF_ENCODING = bytes.fromhex("000000001000800000aa00389b71")
"""Bytes that follow the encoding's number in the GUID of an extensible header."""


def read_sounds(path: Path, model: Model, kind: str) -> Samples:
    """Read the sounds of a folder as features of the model's input shape.

    A clip has the duration of the input's frames; longer files are cut, shorter ones padded with
    silence. Channels are averaged. All files must have the sample rate of the first one.

    Raises:
        DataError: The model does not take frames of coefficients, a file is not PCM WAV or has
            another sample rate, or see `list_classes`.
    """
    shape = model.input.shape[1:]
    if kind not in FEATURES:
        raise DataError(f"{kind!r} is not a kind of features", "use one of: " + ", ".join(FEATURES))
    if not (len(shape) == 2 or (len(shape) == 3 and shape[0] == 1)) or shape[-2] > _MOST_FRAMES:
        raise DataError(
            f"{path}: model {model.name!r} reads {list(shape)}, but sounds need an input of "
            f"[frames, coefficients] or [1, frames, coefficients], of at most {_MOST_FRAMES:,} "
            "frames"
        )
    folders = list_classes(path, SUFFIXES)
    rate, _ = _read_wave(folders.first, 0)
    spectra = Spectra.of(kind, rate, shape[-2], shape[-1])
    if spectra.coefficients > spectra.bands:
        raise DataError(
            f"{path}: model {model.name!r} reads {spectra.coefficients} coefficients, more than "
            f"the {spectra.bands} bands they are made of",
            "use --features log-mel",
        )

    def read(file: Path) -> NDArray[np.float32]:
        own_rate, clip = _read_wave(file, spectra.samples)
        if own_rate != rate:
            raise DataError(
                f"{file}: it has {own_rate:,} samples a second, but {folders.first} has {rate:,}"
            )
        return spectra.features(np.pad(clip, (0, spectra.samples - len(clip))))

    return folders.read(model, read, {"features": spectra.to_json()})


def _read_wave(path: Path, most: int) -> tuple[int, NDArray[np.float64]]:
    """Sample rate in Hz, and up to `most` first samples, in [-1, 1]."""
    try:
        with path.open("rb") as stream:
            rate, channels, width, size_bytes = _find_samples(stream)
            if rate not in _RATES:
                raise DataError(
                    f"{path}: it has {rate:,} samples a second, not {_RATES[0]:,} to {_RATES[-1]:,}"
                )
            if not 1 <= channels <= _MOST_CHANNELS or not 1 <= width <= 4:
                raise DataError(
                    f"{path}: it has {channels} channels of {8 * width} bits; up to "
                    f"{_MOST_CHANNELS} channels of 8, 16, 24 or 32 bits are read"
                )
            frames = size_bytes // (channels * width)
            content = stream.read(min(frames, most) * channels * width)
            if not frames or len(content) != min(frames, most) * channels * width:
                raise DataError(f"{path}: it holds fewer samples than it declares, or none")
    except (struct.error, ValueError) as error:
        raise DataError(
            f"{path}: no WAV file of PCM, or damaged: {error}", "save it as PCM of 16 bits"
        ) from error
    return rate, _decoded(content, width).reshape(-1, channels).mean(axis=1)


def _find_samples(stream: BinaryIO) -> tuple[int, int, int, int]:
    """Sample rate, channels, bytes per sample and in total; the stream then is at the samples.

    The module `wave` reads extensible headers only since Python 3.12.

    Raises:
        ValueError, struct.error: The file is not PCM WAV.
    """
    riff, _, kind = struct.unpack("<4sI4s", stream.read(12))
    if (riff, kind) != (b"RIFF", b"WAVE"):
        raise ValueError("it does not begin as one")
    form = None
    while True:
        name, size_bytes = struct.unpack("<4sI", stream.read(8))
        if name == b"data" and form is not None:
            return (*form, size_bytes)
        after = stream.tell() + size_bytes + size_bytes % 2
        if name == b"fmt ":
            content = stream.read(min(size_bytes, 40))
            encoding, channels, rate, _, _, bits = struct.unpack_from("<HHIIHH", content)
            if encoding == _EXTENSIBLE:
                encoding, rest = struct.unpack_from("<H14s", content, 24)
                encoding = encoding if rest == _OF_ENCODING else _EXTENSIBLE
            if encoding != _PCM:
                raise ValueError(f"its samples are in format {encoding}")
            form = rate, channels, -(-bits // 8)
        stream.seek(after)


def _decoded(content: bytes, width: int) -> NDArray[np.float64]:
    """Decode little-endian PCM (8 bits: unsigned) to numbers in [-1, 1]."""
    raw = np.frombuffer(content, np.uint8).reshape(-1, width)
    wide = np.zeros((len(raw), 4), np.uint8)
    wide[:, 4 - width :] = raw  # in the upper bytes, which hold the sign
    if width == 1:
        wide[:, 3] ^= 0x80
    return wide.view("<i4")[:, 0] / 2**31
